/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - between page.c, which knows pages and levels, and values.c, which knows encodings. */
#ifndef STOKER_PARQUET_DECODE_H
#define STOKER_PARQUET_DECODE_H

#include "format/parquet/parquet.h"

/* n values of leaf->width bytes each, as they are handed out, to dst. */
int stk_pq_values(const stk_pq_decode *d, int encoding, stk_bytes in, uint64_t n, uint8_t *dst,
                  stk_error *err);
typedef struct stk_pq_encoded { /* n values as they are in a page */
    int encoding;
    stk_bytes in;
    uint64_t n;
} stk_pq_encoded;
/* Values of any length: refs to dst.  `in` is v->data from `base` on where that helps (PLAIN,
 * DELTA_LENGTH); what must be put together is added to v->data. */
int stk_pq_refs(const stk_pq_decode *d, const stk_pq_encoded *e, stk_pq_vector *v, stk_pq_ref *dst,
                stk_error *err);
/* The values of this encoding stay in the page's bytes, which therefore must stay. */
int stk_pq_stays(int encoding);
/* Room for `more` bytes in v->data; they are not part of it yet. */
int stk_pq_data_reserve(const stk_pq_decode *d, stk_pq_vector *v, uint64_t more, stk_error *err);
int stk_pq_too_large(const stk_pq_decode *d, uint64_t bytes, stk_error *err);

#endif
