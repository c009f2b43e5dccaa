/* SPDX-License-Identifier: Apache-2.0 */
/* points.h - row seek points: where the bytes of each row of a column of large values are.
 *
 * A column of pictures has pages of 100 MB, and its first thousand values are in one dictionary
 * page.  A reader of one row needs neither: with the points, a row is a range of the file, taken as
 * it is (pages that are not packed) or as a few snappy blocks of 64 KiB.  Points are made by going
 * through every page once, and only where the rule of snappy.h holds.
 *
 * All tables are flat, so that they can be written to a file and used from there;
 * stk_pq_points_check() makes sure that nothing in them points outside. */
#ifndef STOKER_PARQUET_POINTS_H
#define STOKER_PARQUET_POINTS_H

#include "format/parquet/parquet.h"
#include "compress/snappy.h"

typedef struct stk_pq_span { /* a packed stream: the values of a page, or of the dictionary page */
    uint64_t offset;         /* in the file */
    uint32_t packed, size;
    uint32_t first_block, n_blocks; /* in block[]: n_blocks + 1 starts; 0: not packed */
} stk_pq_span;

typedef struct stk_pq_rows { /* rows from `first` on are in this span */
    uint64_t first;
    uint32_t span, zero;
} stk_pq_rows;

typedef struct stk_pq_point { /* bytes [at, at + len) of what the span unpacks to */
    uint32_t at, len;         /* len UINT32_MAX: null */
} stk_pq_point;

typedef struct stk_pq_points {
    uint64_t n_rows;
    uint32_t n_spans, n_parts, n_blocks;
    stk_pq_span *span;
    stk_pq_rows *part; /* by first row */
    uint32_t *block;
    stk_pq_point *point; /* by row of the group */
    stk_snappy_cut *cut; /* by row; NULL: rows are cut out of whole blocks.  to 0: this row is */
    int owned;           /* the tables are freed by fini(); else they are a file's */
    uint64_t cap_rows, cap_spans, cap_parts, cap_blocks;
} stk_pq_points;

/* Building: pages of the chunk one after another, each with its header at in[0]; offset: of that in
 * the file.  STK_END: this chunk has no points (a page breaks the rule, or its codec or encoding
 * has none), so its pages are read whole. */
typedef struct stk_pq_points_build {
    stk_pq_decode decode; /* leaf, codec, max_bytes are the caller's */
    int cuts;             /* also make cut[] */
    stk_pq_points points;
    stk_pq_vector dictionary;       /* only its refs ... */
    stk_snappy_cut *dictionary_cut; /* ... and of each its cut; NULL without `cuts` */
    uint32_t *scan;                 /* starts of blocks of the page being looked at */
    uint64_t scan_cap;
} stk_pq_points_build;

int stk_pq_points_page(stk_pq_points_build *b, stk_bytes in, uint64_t offset, stk_error *err);
void stk_pq_points_build_fini(stk_pq_points_build *b); /* the points too, unless taken and zeroed */
void stk_pq_points_fini(stk_pq_points *p);
/* Of tables that come from a file: `rows` in the group, ranges within `file_size`. */
int stk_pq_points_check(const stk_pq_points *p, uint64_t rows, uint64_t file_size, stk_error *err);

typedef struct stk_pq_range { /* what to read for a row */
    uint64_t offset;
    uint32_t read, len; /* bytes of the file; of the row */
    uint32_t packed;    /* 1: stk_pq_points_unpack() makes the row of them; 0: they are it */
} stk_pq_range;

/* Row r of the group.  0: it is null. */
int stk_pq_points_range(const stk_pq_points *p, uint64_t r, stk_pq_range *out);
int stk_pq_points_unpack(const stk_pq_points *p, uint64_t r, stk_bytes raw, uint8_t *dst,
                         stk_error *err);
/* Worth it?  Points of a column with so many rows in so many packed bytes stay below 0.1 % of it;
 * *cuts: with cuts too. */
int stk_pq_points_wanted(const stk_pq_leaf *l, const stk_pq_chunk *c, uint64_t rows, int *cuts);

#endif
