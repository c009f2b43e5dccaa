/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - a data set as the engine sees it: index, format, and the shards' files, opened at
 * first touch.
 *
 * A file is checked against the index when it is opened: size, then etag or mtime.  While no
 * more shards than the cap are there, opening is once and lookups take no lock; beyond it the
 * least recently used file is closed. */
#ifndef STOKER_DATA_H
#define STOKER_DATA_H

#include <stdatomic.h>

#include "format/format.h"
#include "index/index.h"
#include "index/seekfile.h"

/* Open a URL with the source of its scheme; errors carry its name. */
int stk_url_open(const stk_open_info *o, stk_file **out, stk_error *err);

/* Open the file that a place of this shard names and check its size; *len: bytes of the range.
 * `root` (NULL: the shard's folder) is where the name is relative to. */
int stk_named_open(const char *shard, const char *root, const stk_place *place, stk_file **out,
                   uint64_t *len, stk_error *err);

typedef struct stk_arrays stk_arrays; /* array/arrays.h */
typedef struct stk_shards stk_shards; /* Thread: any. */

/* names[i] is what to open for shard i (owned by the result from now on, also on failure). */
int stk_shards_open(stk_shards **out, const stk_index *ix, const stk_format *format,
                    stk_names *names, stk_error *err);
void stk_shards_close(stk_shards **s);
const char *stk_shards_name(const stk_shards *s, uint64_t shard);

/* The open file of a shard.  Every acquire has its release. */
int stk_shards_acquire(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err);
void stk_shards_release(stk_shards *s, uint64_t shard);

struct stk_cache;   /* fetch/cache.h */
struct stk_request; /* fetch/request.h */

struct stk_dataset {
    _Atomic uint32_t refs;
    _Atomic(struct stk_cache *) blocks; /* for ds[i] and columns; NULL: none yet */
    _Atomic(struct stk_request *) idle; /* for the next ds[i]; NULL: in use, or none yet */
    stk_arrays *arrays; /* its samples are rows of these, and all below is NULL; NULL: it is not */
    stk_index *index;
    stk_shards *shards;
    const stk_format *format;
    void *state;        /* what the format's open() made; NULL: nothing */
    stk_seekfile *seek; /* NULL: there is none */
    stk_store *store; /* NULL: the process's own settings */
    stk_log log;
    char index_path[1280];
};

/* STK_ENOTSUP for a data set of arrays: `what` is done with shards and their index. */
static inline int stk_needs_index(const stk_dataset *ds, const char *what, stk_error *err)
{
    return ds->arrays
               ? stk_fail(err, STK_ENOTSUP,
                          "%s is for shards with an index, not for arrays and token files", what)
               : 0;
}

/* Where the seek points of the data set with this index lie; "" for an index in memory. */
void stk_seek_path(const char *index_path, char *out, size_t size);

#endif
