/* SPDX-License-Identifier: Apache-2.0 */
/* row_points.h - points of a field that the index keeps, read in pieces: of a long recording they
 * are hundreds of kilobytes, and a part needs a few. */
#ifndef STOKER_ROW_POINTS_H
#define STOKER_ROW_POINTS_H

#include "row/row.h"

#define STK_POINTS_HEAD 4096u /* bytes of them that are read first */

typedef struct stk_row_points { /* of x->output's field; zeros and x: nothing is read yet */
    stk_row *x;
    stk_bytes piece;   /* of them, ... */
    uint64_t piece_at; /* ... from this byte on */
} stk_row_points;

/* A slice(): more of the points, of which want->hint is the beginning; cookie: a stk_row_points. */
int stk_row_points_more(void *cookie, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err);

/* Bytes of a field that is a range of a file, which may be waited for. */
int stk_row_read_field(const stk_wanted *want, uint64_t at, size_t len, uint8_t *dst,
                       stk_error *err);

#endif
