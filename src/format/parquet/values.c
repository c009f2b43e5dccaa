/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - the encodings of values: PLAIN, dictionary indices, deltas, split bytes.
 *
 * Values come out as they are handed to users: 8- and 16-bit integers narrow, decimals as f64 or
 * text, INT96 as nanoseconds.  Where the stored form is that already, they are decoded in place. */
#include "format/parquet/decode.h"

#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "format/parquet/rle.h"

#define BATCH 1024u

static int short_page(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "a page ends before its last value");
}

static uint32_t stored_width(const stk_pq_leaf *l)
{
    static const uint8_t width[] = { 1, 4, 8, 12, 4, 8, 0, 0 };

    return l->physical == STK_PQ_FIXED ? (uint32_t)l->len : width[l->physical];
}

/* ---- stored form to what is handed out ---- */

static int converts(const stk_pq_leaf *l)
{
    return l->meaning == STK_PQ_DECIMAL || l->meaning == STK_PQ_UNSIGNED ||
           l->physical == STK_PQ_INT96 || stored_width(l) != l->width;
}

static int64_t julian_nanos(const uint8_t *p)
{
    uint64_t ns;
    uint32_t day;

    memcpy(&ns, p, 8);
    memcpy(&day, p + 8, 4);
    return (int64_t)(((uint64_t)day - 2440588u) * 86400000000000u + ns);
}

stk_pq_leaf stk_pq_decimal_text(const stk_pq_leaf *l)
{
    stk_pq_leaf text = *l;

    text.dtype = 0;
    text.width = (uint32_t)stk_scaled_room(
        l->physical == STK_PQ_BYTES ? STK_SCALED_BYTES : stored_width(l), l->scale);
    return text;
}

static int decimal(const stk_pq_leaf *l, const uint8_t *src, size_t len, uint8_t *dst,
                   stk_error *err)
{
    stk_scaled d = { src, len, l->physical != STK_PQ_INT32 && l->physical != STK_PQ_INT64,
                     l->scale };
    double v = 0;

    if ((l->dtype ? stk_scaled_f64(&d, &v) : stk_scaled_put(&d, dst, l->width)) < 0)
        return stk_fail(err, STK_ENOTSUP,
                        "column %s has a decimal of %zu bytes: at most %d are read", l->name, len,
                        STK_SCALED_BYTES);
    if (l->dtype)
        memcpy(dst, &v, 8);
    return 0;
}

static int convert(const stk_pq_leaf *l, const uint8_t *src, uint64_t n, uint8_t *dst,
                   stk_error *err)
{
    uint32_t width = stored_width(l);
    int64_t v;

    for (uint64_t i = 0; i < n; i++, src += width, dst += l->width) {
        if (l->meaning == STK_PQ_DECIMAL)
            STK_TRY(decimal(l, src, width, dst, err));
        else if (l->physical == STK_PQ_INT96) {
            v = julian_nanos(src);
            memcpy(dst, &v, 8);
        } else {
            memcpy(dst, src, l->width); /* little endian: the low bytes */
            if (l->meaning == STK_PQ_UNSIGNED && src[7] & 128)
                return stk_fail(err, STK_ENOTSUP,
                                "column %s has values of 2^63 and more, which fit no dtype",
                                l->name);
        }
    }
    return 0;
}

/* ---- fixed width ---- */

static int plain_bits(stk_bytes in, uint64_t n, uint8_t *dst, stk_error *err)
{
    if (in.len < (n + 7) / 8)
        return short_page(err);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = in.data[i >> 3] >> (i & 7) & 1;
    return 0;
}

static int rle_bits(stk_bytes in, uint64_t n, uint8_t *dst, stk_error *err)
{
    stk_rle r;
    uint32_t len;

    if (in.len < 4)
        return short_page(err);
    memcpy(&len, in.data, 4);
    if (len > in.len - 4)
        return short_page(err);
    stk_rle_init(&r, (stk_bytes){ in.data + 4, len }, 1);
    return stk_rle_levels(&r, dst, n, err);
}

static void merge_bytes(stk_bytes in, uint64_t n, uint32_t width, uint8_t *dst)
{
    for (uint32_t k = 0; k < width; k++)
        for (uint64_t i = 0; i < n; i++)
            dst[i * width + k] = in.data[k * n + i];
}

static int delta_ints(stk_bytes in, uint64_t n, uint32_t width, uint8_t *dst, stk_error *err)
{
    int64_t *v = stk_alloc((size_t)(n ? n : 1) * sizeof *v);
    uint64_t have;
    size_t used;
    int rc = v ? stk_delta_read(in, v, n, &have, &used, err) : stk_fail_nomem(err, n * 8);

    if (rc == 0 && have != n)
        rc = short_page(err);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        memcpy(dst + i * width, &v[i], width);
    stk_free(v);
    return rc;
}

/* FIXED as a delta of byte strings: every one must have the column's length. */
static int delta_fixed(const stk_pq_decode *d, stk_bytes in, uint64_t n, uint8_t *dst,
                       stk_error *err)
{
    stk_pq_vector v = { .leaf = d->leaf };
    stk_pq_ref *ref = stk_alloc((size_t)(n ? n : 1) * sizeof *ref);
    int rc = ref ? stk_pq_refs(d, &(stk_pq_encoded){ STK_PQ_DELTA_BYTES, in, n }, &v, ref, err)
                 : stk_fail_nomem(err, n * sizeof *ref);

    for (uint64_t i = 0; rc == 0 && i < n; i++)
        if (ref[i].len != (uint32_t)d->leaf->len)
            rc = stk_fail(err, STK_ECORRUPT, "a value of %u bytes where all have %d", ref[i].len,
                          d->leaf->len);
        else
            memcpy(dst + i * ref[i].len, v.data + ref[i].at, ref[i].len);
    stk_free(ref);
    stk_pq_vector_fini(&v);
    return rc;
}

/* n values as they are stored. */
static int stored(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n, uint8_t *dst,
                  stk_error *err)
{
    const stk_pq_leaf *l = d->leaf;
    uint32_t width = stored_width(l);

    if (l->physical == STK_PQ_BOOLEAN && encoding == STK_PQ_PLAIN)
        return plain_bits(in, n, dst, err);
    if (l->physical == STK_PQ_BOOLEAN && encoding == STK_PQ_RLE)
        return rle_bits(in, n, dst, err);
    if (encoding == STK_PQ_PLAIN || (encoding == STK_PQ_BYTE_SPLIT && l->physical)) {
        if (in.len / width < n)
            return short_page(err);
        if (encoding == STK_PQ_PLAIN && n)
            memcpy(dst, in.data, (size_t)n * width);
        else
            merge_bytes(in, n, width, dst);
        return 0;
    }
    if (encoding == STK_PQ_DELTA && (l->physical == STK_PQ_INT32 || l->physical == STK_PQ_INT64))
        return delta_ints(in, n, width, dst, err);
    if (encoding == STK_PQ_DELTA_BYTES && l->physical == STK_PQ_FIXED)
        return delta_fixed(d, in, n, dst, err);
    return stk_fail(err, STK_ENOTSUP, "column %s: encoding %d of its type is not supported",
                    l->name, encoding);
}

static int stored_and_converted(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n,
                                uint8_t *dst, stk_error *err)
{
    size_t bytes = (size_t)n * stored_width(d->leaf);
    uint8_t *tmp = stk_alloc(bytes ? bytes : 1);
    int rc = tmp ? stored(d, encoding, in, n, tmp, err) : stk_fail_nomem(err, bytes);

    if (rc == 0)
        rc = convert(d->leaf, tmp, n, dst, err);
    stk_free(tmp);
    return rc;
}

/* Decimals of any length. */
static int decimals(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n, uint8_t *dst,
                    stk_error *err)
{
    stk_pq_vector v = { .leaf = d->leaf };
    stk_pq_ref *ref = stk_alloc((size_t)(n ? n : 1) * sizeof *ref);
    int rc = ref ? 0 : stk_fail_nomem(err, n * sizeof *ref);

    if (rc == 0 && stk_pq_stays(encoding)) {
        rc = stk_pq_data_reserve(d, &v, in.len, err);
        if (rc == 0 && in.len) {
            memcpy(v.data, in.data, in.len);
            in.data = v.data;
        }
        v.data_len = in.len;
    }
    if (rc == 0)
        rc = stk_pq_refs(d, &(stk_pq_encoded){ encoding, in, n }, &v, ref, err);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = decimal(d->leaf, v.data + ref[i].at, ref[i].len, dst + i * d->leaf->width, err);
    stk_free(ref);
    stk_pq_vector_fini(&v);
    return rc;
}

/* ---- dictionary indices ---- */

static int indices_open(stk_rle *r, stk_bytes in, stk_error *err)
{
    if (!in.len || in.data[0] > 32)
        return stk_fail(err, STK_ECORRUPT, "dictionary indices of more than 32 bits, or none");
    stk_rle_init(r, (stk_bytes){ in.data + 1, in.len - 1 }, in.data[0]);
    return 0;
}

static int check_indices(const stk_pq_decode *d, const uint32_t *index, uint64_t n, stk_error *err)
{
    uint32_t have = (uint32_t)d->dictionary->slots, most = 0; /* a header's count has 31 bits */
    int bad = 0;

    for (uint64_t i = 0; i < n; i++)
        bad |= index[i] >= have;
    for (uint64_t i = 0; bad && i < n; i++)
        most = index[i] > most ? index[i] : most;
    return bad ? stk_fail(err, STK_ECORRUPT, "index %u of a dictionary of %u entries", most, have)
               : 0;
}

static void gather(const uint8_t *from, uint32_t width, const uint32_t *index, uint64_t n,
                   uint8_t *dst)
{
    if (width == 4)
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + 4 * i, from + 4 * (size_t)index[i], 4);
    else if (width == 8)
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + 8 * i, from + 8 * (size_t)index[i], 8);
    else
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + width * i, from + width * (size_t)index[i], width);
}

static int needs_dictionary(const stk_pq_decode *d, stk_error *err)
{
    return d->dictionary ? 0
                         : stk_fail(err, STK_ECORRUPT,
                                    "column %s: a page has indices and there is no dictionary",
                                    d->leaf->name);
}

/* The entries that n indices name: values of the leaf's width, or refs where it has none. */
static int dictionary_take(const stk_pq_decode *d, stk_bytes in, uint64_t n, uint8_t *value,
                           stk_pq_ref *ref, stk_error *err)
{
    uint32_t index[BATCH];
    stk_rle r;

    if (!n)
        return 0;
    STK_TRY(needs_dictionary(d, err));
    STK_TRY(indices_open(&r, in, err));
    while (n) {
        uint64_t k = n < BATCH ? n : BATCH;

        STK_TRY(stk_rle_take(&r, index, k, err));
        STK_TRY(check_indices(d, index, k, err));
        if (value) {
            gather(d->dictionary->value, d->leaf->width, index, k, value);
            value += k * d->leaf->width;
        }
        for (uint64_t i = 0; ref && i < k; i++, ref++) {
            *ref = d->dictionary->ref[index[i]];
            ref->len |= STK_PQ_IN_DICTIONARY;
        }
        n -= k;
    }
    return 0;
}

int stk_pq_values(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n, uint8_t *dst,
                  stk_error *err)
{
    if (encoding == STK_PQ_PLAIN_DICTIONARY || encoding == STK_PQ_RLE_DICTIONARY)
        return dictionary_take(d, in, n, dst, NULL, err);
    if (d->leaf->physical == STK_PQ_BYTES)
        return decimals(d, encoding, in, n, dst, err);
    return converts(d->leaf) ? stored_and_converted(d, encoding, in, n, dst, err)
                             : stored(d, encoding, in, n, dst, err);
}

/* ---- any length ---- */

int stk_pq_stays(int encoding)
{
    return encoding == STK_PQ_PLAIN || encoding == STK_PQ_DELTA_LENGTH;
}

static int plain_refs(stk_bytes in, uint32_t base, uint64_t n, stk_pq_ref *dst, stk_error *err)
{
    size_t at = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t len;

        if (in.len - at < 4)
            return short_page(err);
        memcpy(&len, in.data + at, 4);
        at += 4;
        if (len > in.len - at || len >= STK_PQ_IN_DICTIONARY)
            return short_page(err);
        dst[i] = (stk_pq_ref){ base + (uint32_t)at, len };
        at += len;
    }
    return 0;
}

/* n lengths as deltas; *used: bytes of them. */
static int lengths(stk_bytes in, uint64_t n, int64_t **out, size_t *used, stk_error *err)
{
    uint64_t have = 0;
    int rc;

    *out = stk_alloc((size_t)(n ? n : 1) * sizeof **out);
    rc = *out ? stk_delta_read(in, *out, n, &have, used, err) : stk_fail_nomem(err, n * 8);
    if (rc == 0 && have != n)
        rc = short_page(err);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        if ((*out)[i] < 0 || (*out)[i] >= STK_PQ_IN_DICTIONARY)
            rc = stk_fail(err, STK_ECORRUPT, "a value of %" PRId64 " bytes", (*out)[i]);
    return rc;
}

static int delta_length_refs(stk_bytes in, uint32_t base, uint64_t n, stk_pq_ref *dst,
                             stk_error *err)
{
    int64_t *len = NULL;
    size_t at = 0;
    int rc = lengths(in, n, &len, &at, err);

    for (uint64_t i = 0; rc == 0 && i < n; i++)
        if ((uint64_t)len[i] > in.len - at)
            rc = short_page(err);
        else {
            dst[i] = (stk_pq_ref){ base + (uint32_t)at, (uint32_t)len[i] };
            at += (size_t)len[i];
        }
    stk_free(len);
    return rc;
}

/* A value: bytes that v has, then its own suffix. */
static int join(const stk_pq_decode *d, stk_pq_vector *v, stk_pq_ref begin, stk_bytes suffix,
                stk_pq_ref *out, stk_error *err)
{
    uint64_t prefix = begin.len;

    if (prefix + suffix.len >= STK_PQ_IN_DICTIONARY)
        return short_page(err);
    STK_TRY(stk_pq_data_reserve(d, v, prefix + suffix.len, err));
    memcpy(v->data + v->data_len, v->data + begin.at, (size_t)prefix);
    if (suffix.len)
        memcpy(v->data + v->data_len + prefix, suffix.data, suffix.len);
    *out = (stk_pq_ref){ (uint32_t)v->data_len, (uint32_t)(prefix + suffix.len) };
    v->data_len += prefix + suffix.len;
    return 0;
}

static int delta_bytes_refs(const stk_pq_decode *d, stk_bytes in, uint64_t n, stk_pq_vector *v,
                            stk_pq_ref *dst, stk_error *err)
{
    int64_t *prefix = NULL;
    stk_pq_ref before = { 0 };
    size_t used = 0;
    int rc = lengths(in, n, &prefix, &used, err);
    stk_bytes rest = { in.data + used, in.len - used };

    if (rc == 0)
        rc = delta_length_refs(rest, 0, n, dst, err); /* the suffixes */
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        stk_bytes suffix = { rest.data + dst[i].at, dst[i].len };

        if ((uint64_t)prefix[i] > before.len)
            rc = stk_fail(err, STK_ECORRUPT, "a value begins with %" PRIu64 " bytes of one of %u",
                          (uint64_t)prefix[i], before.len);
        before.len = (uint32_t)prefix[i];
        if (rc == 0)
            rc = join(d, v, before, suffix, &dst[i], err);
        before = dst[i];
    }
    stk_free(prefix);
    return rc;
}

int stk_pq_refs(const stk_pq_decode *d, const stk_pq_encoded *e, stk_pq_vector *v, stk_pq_ref *dst,
                stk_error *err)
{
    stk_bytes in = e->in;
    uint64_t n = e->n;
    uint32_t base = stk_pq_stays(e->encoding) && in.len ? (uint32_t)(in.data - v->data) : 0;

    switch (e->encoding) {
    case STK_PQ_PLAIN: return plain_refs(in, base, n, dst, err);
    case STK_PQ_DELTA_LENGTH: return delta_length_refs(in, base, n, dst, err);
    case STK_PQ_DELTA_BYTES: return delta_bytes_refs(d, in, n, v, dst, err);
    case STK_PQ_PLAIN_DICTIONARY:
    case STK_PQ_RLE_DICTIONARY: return dictionary_take(d, in, n, NULL, dst, err);
    default:
        return stk_fail(err, STK_ENOTSUP, "column %s: encoding %d of its type is not supported",
                        d->leaf->name, e->encoding);
    }
}
