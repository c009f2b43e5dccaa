/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parquet_values - any bytes as the values of a page, in every encoding and type.
 *
 * The first bytes choose type, encoding, levels and the number of values; the rest is an unpacked
 * page whose header is made here. */
#include <string.h>

#include "base/mem.h"
#include "format/parquet/decode.h"
#include "format/parquet/rle.h"
#include "fuzz.h"

static void dictionary(stk_pq_vector *v, const stk_pq_leaf *l, uint64_t n)
{
    v->leaf = l;
    v->rows = v->slots = n;
    v->value = stk_zalloc(n, 64);
    v->ref = stk_zalloc(n, sizeof *v->ref);
    v->data = stk_zalloc(1, 64);
    FUZZ_CHECK(v->value && v->ref && v->data);
    for (uint64_t i = 0; i < n; i++)
        v->ref[i] = (stk_pq_ref){ 0, (uint32_t)(i % 64) };
}

static void values(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n)
{
    uint8_t *dst = malloc((size_t)(n + 1) * d->leaf->width);
    stk_error err;
    int rc;

    FUZZ_CHECK(dst);
    rc = stk_pq_values(d, encoding, in, n, dst, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.message[0]));
    free(dst);
}

static void refs(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n)
{
    stk_pq_vector v = { .leaf = d->leaf };
    stk_pq_ref *dst = malloc((size_t)(n + 1) * sizeof *dst);
    stk_error err;
    int rc;

    FUZZ_CHECK(dst && stk_pq_data_reserve(d, &v, in.len + 1, &err) == 0);
    memcpy(v.data, in.data, in.len);
    v.data_len = in.len;
    if (stk_pq_stays(encoding))
        in.data = v.data;
    rc = stk_pq_refs(d, &(stk_pq_encoded){ encoding, in, n }, &v, dst, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.message[0]));
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        if (!(dst[i].len & STK_PQ_IN_DICTIONARY))
            FUZZ_CHECK(dst[i].at <= v.data_len && dst[i].len <= v.data_len - dst[i].at);
    free(dst);
    stk_pq_vector_fini(&v);
}

static void levels(stk_bytes in, uint32_t width, uint64_t n)
{
    uint8_t *got = malloc((size_t)n + 1);
    uint32_t *wide = malloc((size_t)(n + 1) * 4);
    stk_rle a, b;
    stk_error err;
    int rc, rc2;

    FUZZ_CHECK(got && wide);
    stk_rle_init(&a, in, width);
    stk_rle_init(&b, in, width);
    rc = stk_rle_levels(&a, got, n, &err);
    rc2 = stk_rle_take(&b, wide, n, &err);
    FUZZ_CHECK(rc == rc2);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        FUZZ_CHECK(got[i] == wide[i]);
    free(got);
    free(wide);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const stk_dtype usual[] = { STK_U8, STK_I32, STK_I64, STK_I64, STK_F32, STK_F64, 0, 0 };
    static const uint8_t width[] = { 1, 4, 8, 8, 4, 8, 0, 0 };
    stk_pq_leaf l = { .name = (char *)"x", .unit = "" };
    stk_pq_vector dict = { 0 };
    stk_pq_decode d = { &l, STK_PQ_RAW, &dict, 1 << 20 };
    stk_bytes in;

    if (size < 4)
        return 0;
    l.physical = data[0] % 8;
    l.dtype = usual[l.physical];
    l.len = l.physical == STK_PQ_FIXED ? data[0] / 8 % 16 + 1 : 0;
    l.width = width[l.physical] ? width[l.physical] : (uint32_t)l.len;
    if (data[3] & 1 && (l.physical > 5 || l.physical == 1 || l.physical == 2)) {
        l.meaning = STK_PQ_DECIMAL;
        l.width = 8;
        l.dtype = STK_F64;
    } else if (data[3] & 2 && l.physical == STK_PQ_INT32) {
        l.width = 1 + (data[3] & 4 ? 1 : 0);
    }
    in = (stk_bytes){ data + 4, size - 4 };
    dictionary(&dict, &l, 1 + data[2] % 50);
    if (l.width)
        values(&d, data[1] % 10, in, data[2]);
    else
        refs(&d, data[1] % 10, in, data[2]);
    levels(in, data[3] % 9, data[2]);
    stk_pq_vector_fini(&dict);
    return 0;
}
