/* SPDX-License-Identifier: Apache-2.0 */
/* rle.c - runs, bit-packed groups and deltas.
 *
 * A bit-packed group's last byte may be missing at the end of a page where its padding values would
 * be, as some writers leave it out: values that are not in the bytes are an error only when asked
 * for.  Bits are taken from words of 8 bytes that are loaded whole while there are 8 left. */
#include "format/parquet/rle.h"

#include <string.h>

static int ends_early(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "packed integers end too early");
}

static int varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;

        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            *out = v;
            return 0;
        }
    }
    return STK_ECORRUPT;
}

/* `width` bits (at most 57) at bit `at` of p[0..len), which must have them. */
static inline uint64_t bits_at(const uint8_t *p, size_t len, uint64_t at, uint32_t width)
{
    size_t byte = (size_t)(at >> 3);
    uint64_t word = 0;

    memcpy(&word, p + byte, len - byte < 8 ? len - byte : 8);
    return word >> (at & 7) & (((uint64_t)1 << width) - 1);
}

void stk_rle_init(stk_rle *r, stk_bytes in, uint32_t width)
{
    *r = (stk_rle){ .p = in.data, .end = in.data + in.len, .width = width };
}

/* The head of the next run or groups. */
static int next_run(stk_rle *r, stk_error *err)
{
    uint32_t bytes = (r->width + 7) / 8;
    uint64_t head, n;

    if (varint(&r->p, r->end, &head) < 0)
        return ends_early(err);
    n = head >> 1;
    if (!n || n > UINT64_MAX / 512)
        return stk_fail(err, STK_ECORRUPT, "packed integers: a run of %" PRIu64, n);
    if (head & 1) {
        uint64_t left = (uint64_t)(r->end - r->p), size = n * r->width;

        r->packed = n * 8;
        r->bits = r->p;
        r->bit = 0;
        r->p += size < left ? size : left;
        return 0;
    }
    if ((uint64_t)(r->end - r->p) < bytes)
        return ends_early(err);
    r->value = 0;
    memcpy(&r->value, r->p, bytes);
    if (r->width < 32 && r->value >> r->width)
        return stk_fail(err, STK_ECORRUPT, "packed integers: %u has more than %u bits", r->value,
                        r->width);
    r->p += bytes;
    r->run = n;
    return 0;
}

/* How many of the bit-packed values are in the bytes. */
static int check_packed(const stk_rle *r, uint64_t n, stk_error *err)
{
    uint64_t have = (uint64_t)(r->p - r->bits) * 8;

    return r->bit + n * r->width > have ? ends_early(err) : 0;
}

/* n values at bit `at` of p[0..len), which has them: by whole words while there are any. */
static void unpack_bits(const uint8_t *p, size_t len, uint64_t at, uint32_t width, uint32_t *dst,
                        uint64_t n)
{
    uint64_t mask = ((uint64_t)1 << width) - 1, i = 0, fast = 0;

    if (width == 16 && !(at & 7)) {
        for (; i < n; i++) {
            uint16_t v;

            memcpy(&v, p + (at >> 3) + 2 * i, sizeof v);
            dst[i] = v;
        }
        return;
    }
    if (len >= 8 && len * 8 - 64 >= at) /* the last word begins in the first of its eight bytes */
        fast = (len * 8 - 64 - at) / width + 1;
    fast = fast < n ? fast : n;
    for (; i < fast; i++, at += width) {
        uint64_t word;

        memcpy(&word, p + (at >> 3), sizeof word);
        dst[i] = (uint32_t)(word >> (at & 7) & mask);
    }
    for (; i < n; i++, at += width)
        dst[i] = (uint32_t)bits_at(p, len, at, width);
}

int stk_rle_is_run(stk_bytes in, uint32_t width, uint32_t value, uint64_t n)
{
    stk_rle r;

    stk_rle_init(&r, in, width);
    return n && next_run(&r, NULL) == 0 && r.run >= n && r.value == value;
}

/* *k: how many of the next n are of one run, or are packed together. */
static inline int next_part(stk_rle *r, uint64_t n, uint64_t *k, stk_error *err)
{
    if (!r->run && !r->packed)
        STK_TRY(next_run(r, err));
    *k = r->run ? r->run : r->packed;
    *k = *k < n ? *k : n;
    return 0;
}

int stk_rle_take(stk_rle *r, uint32_t *dst, uint64_t n, stk_error *err)
{
    while (n) {
        uint64_t k = 0;

        STK_TRY(next_part(r, n, &k, err));
        if (r->run) {
            for (uint64_t i = 0; i < k; i++)
                dst[i] = r->value;
            r->run -= k;
        } else {
            size_t len = (size_t)(r->p - r->bits);

            STK_TRY(check_packed(r, k, err));
            if (r->width)
                unpack_bits(r->bits, len, r->bit, r->width, dst, k);
            else
                memset(dst, 0, (size_t)k * sizeof *dst);
            r->bit += k * r->width;
            r->packed -= k;
        }
        dst += k;
        n -= k;
    }
    return 0;
}

/* n bits as bytes. */
static void unpack_flags(const uint8_t *p, uint8_t *dst, uint64_t n)
{
    uint64_t i = 0;

    /* bit k of the byte goes to byte k: copies of it, of which each keeps its own bit */
    for (; i + 8 <= n; i += 8) {
        uint64_t word = (p[i >> 3] * 0x0101010101010101u & 0x8040201008040201u) +
                        0x7F7F7F7F7F7F7F7Fu;

        word = word >> 7 & 0x0101010101010101u;
        memcpy(dst + i, &word, 8);
    }
    for (; i < n; i++)
        dst[i] = p[i >> 3] >> (i & 7) & 1;
}

int stk_rle_levels(stk_rle *r, uint8_t *dst, uint64_t n, stk_error *err)
{
    while (n) {
        uint64_t k = 0;

        STK_TRY(next_part(r, n, &k, err));
        if (r->run) {
            memset(dst, (int)r->value, (size_t)k);
            r->run -= k;
        } else {
            size_t len = (size_t)(r->p - r->bits);

            STK_TRY(check_packed(r, k, err));
            if (r->width == 1 && !(r->bit & 7))
                unpack_flags(r->bits + (r->bit >> 3), dst, k);
            else
                for (uint64_t i = 0; i < k; i++)
                    dst[i] = (uint8_t)bits_at(r->bits, len, r->bit + i * r->width, r->width);
            r->bit += k * r->width;
            r->packed -= k;
        }
        dst += k;
        n -= k;
    }
    return 0;
}

/* ---- deltas ---- */

typedef struct delta {
    const uint8_t *p, *end;
    uint64_t block, minis, per_mini, total;
    int64_t value;
} delta;

static int zigzag(delta *d, int64_t *out)
{
    uint64_t v;

    if (varint(&d->p, d->end, &v) < 0)
        return STK_ECORRUPT;
    *out = (int64_t)(v >> 1 ^ (0 - (v & 1)));
    return 0;
}

static int delta_head(delta *d, stk_error *err)
{
    if (varint(&d->p, d->end, &d->block) < 0 || varint(&d->p, d->end, &d->minis) < 0 ||
        varint(&d->p, d->end, &d->total) < 0 || zigzag(d, &d->value) < 0)
        return ends_early(err);
    if (!d->block || d->block % 128 || d->block > 1 << 24 || !d->minis || d->block % d->minis ||
        d->block / d->minis % 32)
        return stk_fail(err, STK_ECORRUPT, "deltas in blocks of %" PRIu64 " by %" PRIu64, d->block,
                        d->minis);
    d->per_mini = d->block / d->minis;
    return 0;
}

/* Bits of a delta: up to 64, from two words. */
static uint64_t wide_bits(const uint8_t *p, size_t len, uint64_t at, uint32_t width)
{
    uint64_t low;

    if (width <= 56)
        return bits_at(p, len, at, width);
    low = bits_at(p, len, at, 32);
    return low | bits_at(p, len, at + 32, width - 32) << 32;
}

/* One miniblock: `k` values are wanted of it. */
static int delta_mini(delta *d, uint32_t width, int64_t least, int64_t *dst, uint64_t k,
                      stk_error *err)
{
    uint64_t bytes = d->per_mini / 8 * width, left = (uint64_t)(d->end - d->p);
    size_t len = (size_t)(bytes < left ? bytes : left);

    if (width > 64 || (k * width + 7) / 8 > len)
        return ends_early(err);
    for (uint64_t i = 0; i < k; i++) {
        uint64_t x = width ? wide_bits(d->p, len, i * width, width) : 0;

        d->value = (int64_t)((uint64_t)d->value + (uint64_t)least + x);
        dst[i] = d->value;
    }
    d->p += len;
    return 0;
}

static int delta_block(delta *d, int64_t *dst, uint64_t left, uint64_t *done, stk_error *err)
{
    const uint8_t *widths;
    int64_t least;

    *done = 0;
    if (zigzag(d, &least) < 0 || (uint64_t)(d->end - d->p) < d->minis)
        return ends_early(err);
    widths = d->p;
    d->p += d->minis;
    for (uint64_t m = 0; m < d->minis && *done < left; m++) {
        uint64_t k = left - *done < d->per_mini ? left - *done : d->per_mini;

        STK_TRY(delta_mini(d, widths[m], least, dst + *done, k, err));
        *done += k;
    }
    return 0;
}

int stk_delta_read(stk_bytes in, int64_t *dst, uint64_t cap, uint64_t *n, size_t *used,
                   stk_error *err)
{
    delta d = { .p = in.data, .end = in.data + in.len };
    uint64_t at = 0, done;

    STK_TRY(delta_head(&d, err));
    if (d.total > cap)
        return stk_fail(err, STK_ECORRUPT, "%" PRIu64 " deltas, room for %" PRIu64, d.total, cap);
    if (d.total)
        dst[at++] = d.value;
    while (at < d.total) {
        STK_TRY(delta_block(&d, dst + at, d.total - at, &done, err));
        at += done;
    }
    *n = d.total;
    *used = (size_t)(d.p - in.data);
    return 0;
}
