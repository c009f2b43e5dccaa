/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.c - literals and copies (google/snappy format_description.txt).
 *
 * Photographs hardly compress, so nearly everything is long literals: those are one memcpy each.
 * Short copies are done 8 bytes at a time where there is room after them. */
#include "compress/snappy.h"

#include <string.h>

static int damaged(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "snappy: the packed bytes are damaged");
}

int stk_snappy_len(stk_bytes in, uint32_t *len, uint32_t *head)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < 5 && i < in.len; i++) {
        v |= (uint64_t)(in.data[i] & 127) << (7 * i);
        if (in.data[i] < 128) {
            *len = (uint32_t)v;
            *head = i + 1;
            return v > UINT32_MAX ? STK_ECORRUPT : 0;
        }
    }
    return STK_ECORRUPT;
}

typedef struct element {
    uint32_t len, back; /* back 0: a literal */
} element;

/* The element at p; p moves to what follows it, which of a literal are its bytes: some of them may
 * be missing.  0: not whole. */
static inline int element_read_cut(const uint8_t **p, const uint8_t *end, element *e)
{
    const uint8_t *q = *p;
    uint8_t tag = *q++;
    size_t left = (size_t)(end - q);

    switch (tag & 3) {
    case 0:
        e->back = 0;
        e->len = tag >> 2;
        if (e->len >= 60) {
            uint32_t n = e->len - 59;

            if (left < n)
                return 0;
            e->len = 0;
            for (uint32_t i = 0; i < n; i++)
                e->len |= (uint32_t)q[i] << (8 * i);
            q += n;
        }
        if (e->len == UINT32_MAX)
            return 0;
        e->len++;
        break;
    case 1:
        if (left < 1)
            return 0;
        e->len = (tag >> 2 & 7) + 4;
        e->back = (uint32_t)(tag >> 5) << 8 | q[0];
        q += 1;
        break;
    case 2:
        if (left < 2)
            return 0;
        e->len = (tag >> 2) + 1u;
        e->back = (uint32_t)q[0] | (uint32_t)q[1] << 8;
        q += 2;
        break;
    default:
        if (left < 4)
            return 0;
        e->len = (tag >> 2) + 1u;
        e->back = (uint32_t)q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 |
                  (uint32_t)q[3] << 24;
        q += 4;
    }
    *p = q;
    return (tag & 3) == 0 || e->back > 0;
}

static inline int element_read(const uint8_t **p, const uint8_t *end, element *e)
{
    return element_read_cut(p, end, e) && (e->back || e->len <= (size_t)(end - *p));
}

/* Bytes from `back` before dst on, which may overlap what is written. */
static inline void copy_back(uint8_t *dst, uint32_t back, uint32_t len, size_t room)
{
    const uint8_t *src = dst - back;

    if (back >= 8 && room >= (size_t)len + 8)
        for (uint32_t i = 0; i < len; i += 8)
            memcpy(dst + i, src + i, 8);
    else
        for (uint32_t i = 0; i < len; i++)
            dst[i] = src[i];
}

int stk_snappy_elements(stk_bytes in, uint8_t *dst, size_t len, size_t *used, stk_error *err)
{
    const uint8_t *p = in.data, *end = in.data + in.len;
    size_t at = 0;
    element e;

    while (at < len) {
        if (p == end || !element_read(&p, end, &e) || e.len > len - at || e.back > at)
            return damaged(err);
        if (e.back)
            copy_back(dst + at, e.back, e.len, len - at);
        else {
            memcpy(dst + at, p, e.len);
            p += e.len;
        }
        at += e.len;
    }
    *used = (size_t)(p - in.data);
    return 0;
}

int stk_snappy_unpack(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    uint32_t says, head;
    size_t used;

    if (stk_snappy_len(in, &says, &head) < 0 || says != len)
        return damaged(err);
    STK_TRY(
        stk_snappy_elements((stk_bytes){ in.data + head, in.len - head }, dst, len, &used, err));
    return used == in.len - head ? 0 : damaged(err);
}

int stk_snappy_scan(stk_bytes in, uint32_t *start, stk_error *err)
{
    const uint8_t *p, *end = in.data + in.len;
    uint32_t len, head, at = 0, n = 0;
    element e;

    if (stk_snappy_len(in, &len, &head) < 0 || in.len > UINT32_MAX)
        return damaged(err);
    p = in.data + head;
    while (at < len) {
        uint32_t in_block = at % STK_SNAPPY_BLOCK;

        if (!in_block)
            start[n++] = (uint32_t)(p - in.data);
        if (p == end || !element_read(&p, end, &e) || e.len > len - at || e.back > at)
            return damaged(err);
        if (e.len > STK_SNAPPY_BLOCK - in_block || e.back > in_block)
            return STK_END;
        p += e.back ? 0 : e.len;
        at += e.len;
    }
    start[n] = (uint32_t)(p - in.data);
    return p == end ? 0 : damaged(err);
}

int stk_snappy_part(stk_bytes in, uint32_t left, uint8_t *dst, size_t len, stk_error *err)
{
    const uint8_t *p = in.data, *end = in.data + in.len;
    size_t at = left < len ? left : len;
    element e;

    if (at > in.len)
        return damaged(err);
    memcpy(dst, p, at);
    p += at;
    while (at < len) {
        uint32_t n;

        if (p == end || !element_read_cut(&p, end, &e) || e.back > at)
            return damaged(err);
        n = e.len < len - at ? e.len : (uint32_t)(len - at);
        if (e.back)
            copy_back(dst + at, e.back, n, len - at);
        else if (n > (size_t)(end - p))
            return damaged(err);
        else {
            memcpy(dst + at, p, n);
            p += n;
        }
        at += n;
    }
    return 0;
}

int stk_snappy_find(stk_bytes in, const uint32_t *start, uint32_t at, uint32_t len,
                    stk_snappy_cut *out, stk_error *err)
{
    uint32_t pos = at / STK_SNAPPY_BLOCK * STK_SNAPPY_BLOCK, first = pos;
    const uint8_t *p = in.data + start[at / STK_SNAPPY_BLOCK], *end = in.data + in.len;
    int found = 0;
    element e;

    while (!found || pos < at + len) {
        const uint8_t *head = p;

        if (p == end || !element_read(&p, end, &e))
            return damaged(err);
        if (!found && pos == at) { /* an element begins here */
            *out = (stk_snappy_cut){ (uint32_t)(head - in.data), 0, 0 };
            found = 1;
        } else if (!found && pos + e.len > at) {
            if (e.back)
                return STK_END;
            out->from = (uint32_t)(p - in.data) + (at - pos);
            out->left = e.len - (at - pos);
            found = 1;
        }
        if (found && e.back && pos >= at && pos - first < STK_SNAPPY_BLOCK && e.back > pos - at)
            return STK_END;
        p += e.back ? 0 : e.len;
        pos += e.len;
        out->to = (uint32_t)(p - in.data);
        if (found && !e.back && pos > at + len)
            out->to -= pos - (at + len); /* the end of a literal is not needed */
    }
    return 0;
}
