/* SPDX-License-Identifier: Apache-2.0 */
/* indexer.h - opens the index of the shards that URLs name: finds it, or builds it, only once even
 * if several processes ask.  stk_dataset_open() and `stoker index` call it. */
#ifndef STOKER_INDEXER_H
#define STOKER_INDEXER_H

#include "format/format.h"
#include "index/index.h"

typedef struct stk_indexer { /* init with zeros, set what is wanted, end with fini.  Thread: one. */
    /* wanted */
    const char *cache_dir;      /* folder of the index cache; NULL: the default */
    const char *format_name;    /* NULL: found by probing */
    const char *const *columns; /* typed columns that the index must have */
    uint32_t n_columns;
    uint32_t workers;
    int force;         /* build again, and copy nothing from an older index */
    int thorough;      /* check every byte of an index that is found */
    int classes_fixed; /* the user gave the classes, so class folders don't number them */
    /* stk_indexer_repair(): refuse class folders that would renumber labels */
    int keep_numbers;
    uint32_t part, parts; /* index only every parts-th shard, from `part` on; 0: all */
    /* stk_indexer_open(): of shards that are cut off, use the samples before the cut */
    int salvage;
    int skip_damaged;         /* stk_indexer_open(): leave out damaged lines */
    const uint32_t *encoding; /* encoding of CSV, as in stk_scan */
    int grow; /* stk_indexer_open(): build again if files were only added to folders */
    stk_log log;
    stk_progress_fn progress;
    void *progress_cookie;
    /* found */
    stk_names names; /* the shards, absolute */
    stk_index_home home;
    const stk_format *format;
    stk_index *index;
    char path[1280]; /* path of the index; "": it is in memory */
    int built;       /* true if it was built now */
    int torn;        /* true if some shards are cut off; the index is then in memory */
    int grown;       /* true if files were only added to folders since the index was built */
    uint64_t media;  /* bit i: columns[i] is a size of media, which HASH.media has */
    int sys;         /* errno if the last folder that was tried can't be written; 0: it can */
    uint64_t reused, data_bytes; /* shards copied from an older index; bytes of all shards */
} stk_indexer;

/* Opens the index of the shards that the URLs name; builds it if there is none. */
int stk_indexer_open(stk_indexer *x, const char *const *urls, size_t n, stk_error *err);
/* The same, but looks for damage, and builds a stale or damaged index again. */
int stk_indexer_repair(stk_indexer *x, const char *const *urls, size_t n, stk_error *err);
/* Removes the indexes of parts that this index was made of. */
void stk_indexer_drop_parts(const stk_indexer *x);
void stk_indexer_fini(stk_indexer *x);

/* class_list.c: STK_ESTALE, with the class: the class folders would renumber labels that were used
 * before. */
int stk_classes_check(const stk_indexer *x, stk_error *err);
/* Stores the classes in a file.  If it can't be written, that is logged. */
int stk_classes_keep(const stk_indexer *x, stk_error *err);

/* indexer_build.c: scans all shards, writes the index to `path` (NULL: memory) and opens it. */
int stk_indexer_build(stk_indexer *x, const char *path, stk_error *err);
/* Opens a writer for x's shards; if that fails, x->sys says why. */
int stk_indexer_writer(stk_indexer *x, const char *path, stk_index_writer **out, stk_error *err);

/* indexer_publish.c: copies the index that is stored beside remote shards to the cache.  STK_END:
 * there is none. */
int stk_indexer_fetch(stk_indexer *x);
/* Stores the index beside the remote shards, if it has changed or there is none.  A failure is
 * logged. */
void stk_indexer_publish(const stk_indexer *x, int changed);

/* indexer_columns.c: sets x->media. */
int stk_indexer_media_columns(stk_indexer *x, stk_error *err);
/* 1: x->index lacks columns that are wanted; 0: it has them. */
int stk_indexer_lacks_columns(stk_indexer *x, stk_error *err);
/* Writes x->index again, with these columns, to `path` (NULL: memory), and opens that instead. */
int stk_indexer_add_columns(stk_indexer *x, const char *path, stk_error *err);

#endif
