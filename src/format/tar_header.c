/* SPDX-License-Identifier: Apache-2.0 */
/* tar_header.c - one 512-byte header and the records of one pax header.
 *
 * POSIX.1-2017 "pax", ustar interchange format, plus the forms in the wild: v7 headers without
 * magic, GNU's base-256 numbers, checksums summed as signed chars.  Numbers that don't parse are
 * errors here, where Python's tarfile would take 0 or quietly stop: a shard that reads short is
 * wrong data. */
#include "format/tar.h"

#include <string.h>

enum { AT_SIZE = 124, AT_SUM = 148, AT_TYPE = 156, AT_MAGIC = 257, AT_PREFIX = 345 };

int stk_tar_is_zero(const uint8_t block[TAR_BLOCK])
{
    return !block[0] && !memcmp(block, block + 1, TAR_BLOCK - 1);
}

/* Octal digits between spaces, ended by NUL; or base-256 when the top bit is set.  0: not a
 * number, or negative, or beyond 2^63. */
static int number(const uint8_t *s, size_t len, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;

    if (s[0] & 0x80) {
        v = s[0] & 0x7f; /* with 0xff: a negative number, far beyond the limit below */
        for (i = 1; i < len; i++) {
            if (v >> 55)
                return 0;
            v = v << 8 | s[i];
        }
        *out = v;
        return 1;
    }
    while (i < len && s[i] == ' ')
        i++;
    for (; i < len && s[i] >= '0' && s[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(s[i] - '0');
    while (i < len && s[i] == ' ')
        i++;
    *out = v;
    return i == len || !s[i];
}

int stk_tar_checksum_ok(const uint8_t block[TAR_BLOCK])
{
    uint64_t want;
    int64_t plain = 256, with_sign = 256; /* the field itself counts as eight spaces */

    for (size_t i = 0; i < TAR_BLOCK; i++) {
        if (i >= AT_SUM && i < AT_SUM + 8)
            continue;
        plain += block[i];
        with_sign += (int8_t)block[i];
    }
    return number(block + AT_SUM, 8, &want) &&
           ((int64_t)want == plain || (int64_t)want == with_sign);
}

int stk_tar_has_data(char type)
{
    return type < '1' || type > '6';
}

static size_t text_len(const uint8_t *s, size_t max)
{
    const uint8_t *end = memchr(s, 0, max);

    return end ? (size_t)(end - s) : max;
}

/* GNU headers ("ustar " with a space) keep times where ustar has the prefix. */
static size_t prefix_len(const uint8_t *block)
{
    if (memcmp(block + AT_MAGIC, "ustar", 5) || block[AT_MAGIC + 5] == ' ')
        return 0;
    return text_len(block + AT_PREFIX, 155);
}

int stk_tar_header_parse(const uint8_t block[TAR_BLOCK], tar_header *out, stk_error *err)
{
    size_t prefix = prefix_len(block), len = text_len(block, 100), n = 0;

    if (!stk_tar_checksum_ok(block))
        return stk_fail(err, STK_ECORRUPT, "no tar header here: its checksum is wrong");
    if (prefix) {
        memcpy(out->name, block + AT_PREFIX, prefix);
        out->name[prefix] = '/';
        n = prefix + 1;
    }
    memcpy(out->name + n, block, len);
    out->name[n + len] = 0;
    out->name_len = n + len;
    out->type = (char)block[AT_TYPE];
    if (!out->type && len && block[len - 1] == '/')
        out->type = '5';
    out->size = 0;
    if (stk_tar_has_data(out->type) && !number(block + AT_SIZE, 12, &out->size))
        return stk_fail(err, STK_ECORRUPT, "member \"%.120s\" has a size that is not a number",
                        out->name);
    return 0;
}

/* ---- pax records: "LENGTH KEY=VALUE\n", LENGTH counting all of it ---- */

typedef struct record {
    const char *key, *value;
    size_t key_len, value_len, len;
} record;

static int decimal(const char *s, size_t len, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9' || v > (UINT64_MAX >> 5))
            return 0;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    *out = v;
    return len > 0;
}

static int record_parse(const char *s, size_t left, record *out)
{
    const char *space = memchr(s, ' ', left < 8 ? left : 8), *eq;
    uint64_t len;

    if (!space || !decimal(s, (size_t)(space - s), &len) || len > left ||
        (size_t)(space - s) + 2 > len)
        return 0;
    out->len = (size_t)len;
    out->key = space + 1;
    eq = memchr(out->key, '=', (size_t)(s + len - out->key));
    if (!eq || eq == out->key || s[len - 1] != '\n')
        return 0;
    out->key_len = (size_t)(eq - out->key);
    out->value = eq + 1;
    out->value_len = (size_t)(s + len - 1 - out->value);
    return 1;
}

static int key_is(const record *r, const char *key)
{
    return r->key_len == strlen(key) && !memcmp(r->key, key, r->key_len);
}

static int take_path(const record *r, tar_pax *out, stk_error *err)
{
    size_t len = r->value_len;

    if (len > TAR_NAME_MAX)
        return stk_fail(err, STK_ECORRUPT, "a member's name has %zu bytes, the limit is %u", len,
                        TAR_NAME_MAX);
    if (memchr(r->value, 0, len))
        return stk_fail(err, STK_ECORRUPT, "a member's name in a pax header has a NUL in it");
    while (len && r->value[len - 1] == '/')
        len--;
    out->path = r->value;
    out->path_len = len;
    return 0;
}

static int take_record(const record *r, tar_pax *out, stk_error *err)
{
    if (key_is(r, "path"))
        return take_path(r, out, err);
    if (key_is(r, "size")) {
        out->has_size = 1;
        if (!decimal(r->value, r->value_len, &out->size))
            return stk_fail(err, STK_ECORRUPT, "the size in a pax header is not a number");
    } else if (r->key_len > 11 && !memcmp(r->key, "GNU.sparse.", 11)) {
        out->sparse = 1;
    }
    return 0;
}

int stk_tar_pax_parse(const uint8_t *data, size_t len, tar_pax *out, stk_error *err)
{
    const char *s = (const char *)data;
    size_t at = 0;
    record r;

    memset(out, 0, sizeof *out);
    while (at < len && s[at]) { /* some writers count the padding: NUL ends the records */
        if (!record_parse(s + at, len - at, &r))
            return stk_fail(err, STK_ECORRUPT, "a pax header is damaged at its byte %zu", at);
        STK_TRY(take_record(&r, out, err));
        at += r.len;
    }
    return 0;
}
