/* SPDX-License-Identifier: Apache-2.0 */
/* indexer.h - from URLs to an open index: find it, or build it once however many processes ask. */
#ifndef STOKER_INDEXER_H
#define STOKER_INDEXER_H

#include "format/format.h"
#include "index/index.h"

typedef struct stk_indexer { /* init with zeros, set what is wanted, end with fini.  Thread: one. */
    /* wanted */
    const char *cache_dir, *format_name; /* NULL: the default; by probing */
    const char *const *columns;          /* typed columns that it shall have */
    uint32_t n_columns;
    uint32_t workers;
    int force;         /* build again, carry nothing over */
    int thorough;      /* check an index that is found to its last byte */
    int classes_fixed; /* by the user: class folders don't number them */
    /* stk_indexer_repair(): refuse class folders that renumber labels all the same */
    int keep_numbers;
    uint32_t part, parts; /* only every parts-th shard; 0: all */
    int salvage; /* stk_indexer_open(): shards that are torn have the samples before the tear */
    int skip_damaged;         /* stk_indexer_open(): damaged lines are left out */
    const uint32_t *encoding; /* of CSV: see stk_scan */
    int grow; /* stk_indexer_open(): build again where files were only added to folders */
    stk_log log;
    stk_progress_fn progress;
    void *progress_cookie;
    /* found */
    stk_names names; /* the shards, absolute */
    stk_index_home home;
    const stk_format *format;
    stk_index *index;
    char path[1280]; /* "" when the index is in memory */
    int built;
    int torn;       /* some are: they are scanned up to the tear, the index stays in memory */
    int grown;      /* an index was found, and files were only added since */
    uint64_t media; /* bit i: columns[i] is a size of media, which HASH.media has */
    int sys;        /* why the last place that was tried can't be written; 0: it can */
    uint64_t reused, data_bytes;
} stk_indexer;

/* Open the index of the shards that the URLs name, building it when there is none. */
int stk_indexer_open(stk_indexer *x, const char *const *urls, size_t n, stk_error *err);
/* The same, and a stale or damaged one is built again; damage is looked for. */
int stk_indexer_repair(stk_indexer *x, const char *const *urls, size_t n, stk_error *err);
/* remove the indexes of parts that this one was made of */
void stk_indexer_drop_parts(const stk_indexer *x);
void stk_indexer_fini(stk_indexer *x);

/* class_list.c: would the class folders renumber labels that were given out before?  STK_ESTALE
 * with the class. */
int stk_classes_check(const stk_indexer *x, stk_error *err);
/* Remember them.  Where that can't be written it is logged. */
int stk_classes_keep(const stk_indexer *x, stk_error *err);

/* indexer_build.c: scan all shards, write the index to `path` (NULL: memory) and open it. */
int stk_indexer_build(stk_indexer *x, const char *path, stk_error *err);
/* A writer for x's shards; x->sys says why it can't be had. */
int stk_indexer_writer(stk_indexer *x, const char *path, stk_index_writer **out, stk_error *err);

/* indexer_publish.c: take the index that is beside remote shards into the cache.  0, or STK_END:
 * there is none. */
int stk_indexer_fetch(stk_indexer *x);
/* Put it there, if it has changed or there is none; where that fails it is logged. */
void stk_indexer_publish(const stk_indexer *x, int changed);

/* indexer_columns.c: sets x->media. */
int stk_indexer_media_columns(stk_indexer *x, stk_error *err);
/* 1: x->index lacks columns that are wanted; 0: it has them. */
int stk_indexer_lacks_columns(stk_indexer *x, stk_error *err);
/* Write x->index again with them to `path` (NULL: memory) and open that instead. */
int stk_indexer_add_columns(stk_indexer *x, const char *path, stk_error *err);

#endif
