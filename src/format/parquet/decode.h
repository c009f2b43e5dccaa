/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - decodes the values of a Parquet page (values.c).  page.c, which reads pages and
 * levels, calls it. */
#ifndef STOKER_PARQUET_DECODE_H
#define STOKER_PARQUET_DECODE_H

#include "format/parquet/parquet.h"

/* Decodes n values of leaf->width bytes each to dst, in the form of rows. */
int stk_pq_values(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n, uint8_t *dst,
                  stk_error *err);
typedef struct stk_pq_encoded { /* n values as they are in a page */
    int encoding;
    stk_bytes in;
    uint64_t n;
} stk_pq_encoded;
/* Decodes values of any length: writes where each is in v->data to dst.  Values that are not stored
 * whole in the page are added to v->data. */
int stk_pq_refs(const stk_pq_decode *d, const stk_pq_encoded *e, stk_pq_vector *v, stk_pq_ref *dst,
                stk_error *err);
/* 1: with this encoding, values are used in the page's bytes, which must be part of v->data. */
int stk_pq_stays(int encoding);
/* Makes room for `more` bytes in v->data; v->data_len stays. */
int stk_pq_data_reserve(const stk_pq_decode *d, stk_pq_vector *v, uint64_t more, stk_error *err);
int stk_pq_too_large(const stk_pq_decode *d, uint64_t bytes, stk_error *err);

#endif
