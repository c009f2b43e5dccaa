/* SPDX-License-Identifier: Apache-2.0 */
/* points.h - row seek points of Parquet: where the bytes of each row of a column of large values
 * are.  table/parquet_points.c makes and stores them; rows are read by them.
 *
 * A column of pictures has pages of 100 MB, and its first thousand values are in one dictionary
 * page.  With row seek points, a reader of one row needs neither: the row is a range of the file,
 * used as it is (pages that are not compressed), or a few Snappy blocks of 64 KiB.  Points are made
 * by going through every page once; compressed pages must follow the rule in compress/snappy.h.
 *
 * All tables are flat, so that they can be written to a file and used from there;
 * stk_pq_points_check() checks that nothing in them points outside. */
#ifndef STOKER_PARQUET_POINTS_H
#define STOKER_PARQUET_POINTS_H

#include "format/parquet/parquet.h"
#include "compress/snappy.h"

typedef struct stk_pq_span { /* the compressed values of a page, or of the dictionary page */
    uint64_t offset;         /* offset in the file */
    uint32_t packed, size;
    uint32_t first_block, n_blocks; /* its n_blocks + 1 starts in block[]; 0: not compressed */
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
    stk_pq_rows *part;   /* sorted by first row */
    uint32_t *block;     /* starts of Snappy blocks, by span */
    stk_pq_point *point; /* by row of the group */
    /* by row: where to unpack it from; NULL, or with `to` 0: rows are cut out of whole blocks */
    stk_snappy_cut *cut;
    int owned; /* true if fini() frees the tables; otherwise they are part of a file */
    uint64_t cap_rows, cap_spans, cap_parts, cap_blocks;
} stk_pq_points;

/* Makes points.  Call stk_pq_points_page() for all pages of the chunk in order; `in` begins with
 * the page's header, at `offset` of the file.  STK_END: this chunk has no points, because a page
 * breaks the rule, or its codec or encoding allows none; its pages are read whole. */
typedef struct stk_pq_points_build {
    stk_pq_decode decode; /* the caller sets leaf, codec and max_bytes */
    int cuts;             /* set by the caller: true: also make cut[] */
    stk_pq_points points;
    stk_pq_vector dictionary;       /* entries of the dictionary; only `ref` is used */
    stk_snappy_cut *dictionary_cut; /* by entry: its cut; NULL without `cuts` */
    uint32_t *scan;                 /* starts of blocks of the current page */
    uint64_t scan_cap;
} stk_pq_points_build;

int stk_pq_points_page(stk_pq_points_build *b, stk_bytes in, uint64_t offset, stk_error *err);
/* Frees b->points, too, unless the caller moved them away and set them to zeros. */
void stk_pq_points_build_fini(stk_pq_points_build *b);
void stk_pq_points_fini(stk_pq_points *p);
/* Checks tables that come from a file: they must have `rows` rows, and ranges within
 * `file_size`. */
int stk_pq_points_check(const stk_pq_points *p, uint64_t rows, uint64_t file_size, stk_error *err);

typedef struct stk_pq_range { /* what to read for a row */
    uint64_t offset;
    uint32_t read, len; /* bytes of the file; bytes of the row */
    uint32_t packed;    /* 1: stk_pq_points_unpack() makes the row; 0: the bytes are the row */
} stk_pq_range;

/* Sets *out for row r of the group.  0: the row is null. */
int stk_pq_points_range(const stk_pq_points *p, uint64_t r, stk_pq_range *out);
int stk_pq_points_unpack(const stk_pq_points *p, uint64_t r, stk_bytes raw, uint8_t *dst,
                         stk_error *err);
/* 1: points of this column are worth making: they take less than 0.1 % of its bytes.  *cuts: 1 if
 * that holds with cuts, too. */
int stk_pq_points_wanted(const stk_pq_leaf *l, const stk_pq_chunk *c, uint64_t rows, int *cuts);

#endif
