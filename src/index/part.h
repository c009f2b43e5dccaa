/* SPDX-License-Identifier: Apache-2.0 */
/* part.h - the samples of one shard in memory, while the shard is scanned, in the form that the
 * index file has; and the fingerprint of a shard.  Private to index/. */
#ifndef STOKER_INDEX_PART_H
#define STOKER_INDEX_PART_H

#include "index/dict.h"
#include "index/layout.h"

struct stk_index_part {
    stk_scan scan; /* first member: callbacks get its address */
    idx_dict dict; /* names and schemas of this shard */
    idx_sample *samples;
    size_t n_samples, samples_cap;
    idx_field *fields;
    size_t n_fields, fields_cap;
    idx_wide *wide;
    size_t n_wide, wide_cap;
    uint8_t *keys;
    size_t n_keys, keys_cap;
    uint32_t *ids; /* work memory: numbers of the names of a sample's fields */
    size_t ids_cap;
    uint32_t schema;   /* schema of the last sample */
    char warning[256]; /* "": none */
    int (*progress)(void *cookie, uint64_t offset);
    void *progress_cookie;
};

/* The fingerprint takes rows 0, ..., n - 1 in even steps, at most IDX_PRINT_ROWS of them. */
#define IDX_PRINT_ROWS 16u
#define IDX_PRINT_BYTES 512u

static inline uint64_t idx_print_rows(uint64_t n)
{
    return n < IDX_PRINT_ROWS ? n : IDX_PRINT_ROWS;
}

static inline uint64_t idx_print_row(uint64_t n, uint64_t i)
{
    uint64_t k = idx_print_rows(n);

    return k > 1 ? i * (n - 1) / (k - 1) : 0;
}

/* A shard while its fingerprint is computed.  Init with file and size, end with stk_free(data).
 * For a remote shard, the same ranges are gone through twice: first they are noted, then all are
 * read at once, then their bytes are mixed in. */
typedef struct idx_print {
    stk_file *file;
    uint64_t size;
    int noting; /* true while mix() only notes ranges */
    uint32_t n; /* ranges that were noted */
    stk_io range[3 * IDX_PRINT_ROWS];
    uint8_t *data;
} idx_print;

/* 1: go through all ranges with mix(), then call fetch(), then go through them again. */
int idx_print_note(idx_print *p);
int idx_print_fetch(idx_print *p, stk_error *err);

/* Mixes the bytes at `offset` into *hash: at most IDX_PRINT_BYTES, and not past the shard's end. */
int idx_print_mix(idx_print *p, uint64_t offset, uint64_t *hash, stk_error *err);

#endif
