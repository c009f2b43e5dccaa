/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - one table per data set: where every sample and field is.
 *
 * Layout: docs/formats/index.md.  Everything of a shard is one segment with offsets relative to
 * the shard, so a segment can be carried over when the list of shards grows.  Header and tables
 * are read and checked at open, 64 KiB blocks on first touch, every offset on every use: a damaged
 * index, or one that is cut off while it is open, is an error, never a wild read or a signal. */
#ifndef STOKER_INDEX_H
#define STOKER_INDEX_H

#include <string.h>

#include "base/log.h"
#include "index/chunk.h"
#include "source/source.h"

typedef struct stk_index stk_index; /* read-only.  Thread: any. */

typedef struct stk_shard_info {
    const char *name; /* relative to the common folder of the shards */
    uint64_t size;
    int64_t mtime_ns;
    const char *etag;
    uint64_t first, samples; /* ids [first, first + samples) */
    uint64_t print;          /* fingerprint: stk_index_part_print() */
} stk_shard_info;

int stk_index_open(stk_index **out, const char *path, stk_error *err);
/* data: borrowed while the index is open. */
int stk_index_open_mem(stk_index **out, const void *data, size_t len, stk_error *err);
/* An index in an open file (a memfd); fd is the index's from now on, also on failure. */
int stk_index_open_fd(stk_index **out, int fd, const char *path, stk_error *err);
void stk_index_close(stk_index **ix);

/* Check every block now instead of at first touch. */
int stk_index_check_all(const stk_index *ix, stk_error *err);

uint64_t stk_index_samples(const stk_index *ix);
uint64_t stk_index_shards(const stk_index *ix);
uint64_t stk_index_bytes(const stk_index *ix);
const char *stk_index_format(const stk_index *ix); /* name of the format */
int stk_index_shard(const stk_index *ix, uint64_t shard, stk_shard_info *out, stk_error *err);

uint32_t stk_index_names(const stk_index *ix);                /* distinct field names */
const char *stk_index_name(const stk_index *ix, uint32_t id); /* in order of first occurrence */
uint32_t stk_index_schemas(const stk_index *ix);
/* Which field of a sample with this schema has the name; -1: none. */
int stk_index_schema_find(const stk_index *ix, uint32_t schema, const char *name);
/* The name of its field k; NULL after the last. */
const char *stk_index_schema_name(const stk_index *ix, uint32_t schema, uint32_t k);

/* Sample `id`; key and entry are borrowed from the index.  Hot: no allocation, no lock, a few
 * cache lines. */
int stk_index_entry(const stk_index *ix, uint64_t id, stk_entry *out, stk_error *err);
/* A key as people know it: it ends at a NUL, after which a format may keep what is its own. */
static inline stk_bytes stk_key_shown(stk_bytes key)
{
    const uint8_t *nul = key.len ? memchr(key.data, 0, key.len) : NULL;

    return (stk_bytes){ key.data, nul ? (size_t)(nul - key.data) : key.len };
}
/* Are all keys of a shard, with what formats keep after them, ASCII?  Quicker than asking one by
 * one. */
int stk_index_keys_ascii(const stk_index *ix, uint64_t shard, int *out, stk_error *err);
/* Field k of an entry that stk_index_entry() gave; name is borrowed and terminated. */
int stk_index_field(const stk_index *ix, const stk_entry *e, uint32_t k, stk_field *out,
                    stk_error *err);
/* Ask the CPU for the cache lines that entry(id) will read.  Never fails. */
void stk_index_prefetch(const stk_index *ix, uint64_t id);

/* ---- typed columns: a chunk a shard ---- */

uint32_t stk_index_columns(const stk_index *ix);
const char *stk_index_column(const stk_index *ix, uint32_t c);         /* its name; NULL past all */
int stk_index_column_find(const stk_index *ix, const char *name);      /* -1: none */
int stk_index_column_known(const stk_index *ix, uint32_t c);           /* in every shard? */
stk_chunk_type stk_index_column_type(const stk_index *ix, uint32_t c); /* of all shards together */
/* The chunk of a shard, checked to its last byte; borrowed from the index. */
int stk_index_chunk(const stk_index *ix, uint32_t c, uint64_t shard, stk_chunk *out,
                    stk_error *err);

/* The options of stk_scan that shards were scanned with; what is borrowed stays valid. */
void stk_index_scan_as(stk_index *ix, const stk_scan *options);
/* Set them in a scan that is compared with the index. */
void stk_index_scan_like(const stk_index *ix, stk_scan *scan);

/* Is `f` the file that shard `shard` was indexed from?  Size and etag must be equal.  An mtime
 * other than the index has, and other than *known (may be NULL: one that was settled before), is
 * settled by the fingerprint and then by going through all members: as long as indexing takes.
 * *info (may be NULL) is what the file says of itself.  STK_ESTALE: it is not. */
int stk_index_check_file(const stk_index *ix, uint64_t shard, stk_file *f, const int64_t *known,
                         stk_file_info *info, stk_error *err);
/* Of a folder that stk_index_check_file() finds changed: 1: files were only added to it. */
int stk_index_only_added(const stk_index *ix, uint64_t shard, stk_file *f);
/* The fingerprint alone. */
int stk_index_same_content(const stk_index *ix, uint64_t shard, stk_file *f, stk_error *err);

/* ---- building: one part a shard, made on any thread; one writer ---- */

typedef struct stk_index_part stk_index_part; /* a shard's samples in memory.  Thread: one. */
int stk_index_part_open(stk_index_part **out, stk_error *err);
stk_scan *stk_index_part_scan(stk_index_part *p); /* for stk_format.index() */
/* fn is called with the offset that the scan has reached; non-zero stops it. */
void stk_index_part_progress(stk_index_part *p, int (*fn)(void *cookie, uint64_t offset),
                             void *cookie);
/* What the format found odd about the shard; NULL: nothing.  It is not kept in the index. */
const char *stk_index_part_warning(const stk_index_part *p);
/* Hash of the first bytes of up to 16 samples and their fields, spread over the shard. */
int stk_index_part_print(const stk_index_part *p, stk_file *f, uint64_t size, uint64_t *out,
                         stk_error *err);
void stk_index_part_close(stk_index_part **p);

typedef struct stk_index_writer stk_index_writer; /* Thread: any (locks inside). */
/* path NULL: in memory, see stk_index_writer_fd().  STK_EIO: it can't be made there; errno says
 * why. */
int stk_index_writer_open(stk_index_writer **out, const char *path, const char *format,
                          uint64_t shards, stk_error *err);
/* Hand in shard number `shard`, in any order.  `info` gives name, size, mtime, etag. */
int stk_index_writer_add(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                         stk_index_part *part, stk_error *err);
/* Carry shard `from` of an older index over, with all columns that are known of it. */
int stk_index_writer_reuse(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                           const stk_index *old, uint64_t from, stk_error *err);
/* Hand in a shard's chunk of a column, each once, in any order. */
int stk_index_writer_column(stk_index_writer *w, uint64_t shard, const char *name,
                            const stk_chunk *chunk, stk_error *err);
/* Finish, fsync, rename into place; equal shards give equal bytes, in whatever order they came.
 * Without it, close() removes what was written. */
int stk_index_writer_commit(stk_index_writer *w, stk_error *err);
/* A new descriptor of what was committed, for stk_index_open_fd(); -1: none. */
int stk_index_writer_fd(const stk_index_writer *w);
/* The errno with which its place proved full or not writable, so that another may do; 0: none. */
int stk_index_writer_unwritable(const stk_index_writer *w);
void stk_index_writer_close(stk_index_writer **w);

/* ---- finding: by the resolved, ordered list of shards ---- */

typedef struct stk_index_home {
    char root[1024];   /* common folder of the shards; shard names are relative to it */
    char beside[1280]; /* root/.stoker/HASH.idx; "" where shards are no files */
    char remote[1280]; /* FOLDER/.stoker/HASH.idx, a URL; "" where shards are not remote */
    char cache[1280];  /* CACHE/index/HASH.idx, for read-only data; "" where there is none */
} stk_index_home;
/* The names are absolute, as stk_path_absolute() makes them. */
int stk_index_home_find(stk_index_home *out, const stk_names *shards, const char *cache_dir,
                        stk_error *err);
/* The name that the index gives a shard: relative to root.  Points into `shard`, which is
 * absolute (or has a scheme). */
const char *stk_index_home_name(const stk_index_home *h, const char *shard);
/* Make a path absolute and plain: no ".", no "//", no ".." except after a symlink.  Names with
 * a scheme stay as they are, but for file://, which goes.  *out is stk_alloc()ed. */
int stk_path_absolute(const char *path, char **out, stk_error *err);
/* The same, to the end of a list. */
int stk_names_absolute(stk_names *out, const char *name, stk_error *err);
/* stk_urls_expand(), all absolute. */
int stk_names_expand(stk_names *out, const char *const *urls, size_t n, stk_error *err);

#endif
