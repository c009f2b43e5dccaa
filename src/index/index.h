/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - the index of a data set: one table that says where every sample and field is.  Indexed
 * shards read it (data/shard_data.c); indexer/ builds it.
 *
 * Layout: docs/formats/index.md.  Everything about a shard is in one segment, with offsets relative
 * to the shard, so that a segment can be copied when the list of shards grows.  Header and tables
 * are read and checked at open, blocks of 64 KiB at first use, every offset at every use.  So an
 * index that is damaged, or cut off while it is open, is an error, never a wild read or a
 * signal. */
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
/* Opens an index in an open file (a memfd).  Takes fd, on failure too. */
int stk_index_open_fd(stk_index **out, int fd, const char *path, stk_error *err);
void stk_index_close(stk_index **ix);

/* Checks every block now instead of at first use. */
int stk_index_check_all(const stk_index *ix, stk_error *err);

uint64_t stk_index_samples(const stk_index *ix);
uint64_t stk_index_shards(const stk_index *ix);
uint64_t stk_index_bytes(const stk_index *ix);
const char *stk_index_format(const stk_index *ix); /* name of the format */
int stk_index_shard(const stk_index *ix, uint64_t shard, stk_shard_info *out, stk_error *err);

uint32_t stk_index_names(const stk_index *ix);                /* distinct field names */
const char *stk_index_name(const stk_index *ix, uint32_t id); /* in order of first occurrence */
uint32_t stk_index_schemas(const stk_index *ix);
/* Number of the field with this name in samples of this schema; -1: they have no such field. */
int stk_index_schema_find(const stk_index *ix, uint32_t schema, const char *name);
/* The name of field k of a schema; NULL after the last. */
const char *stk_index_schema_name(const stk_index *ix, uint32_t schema, uint32_t k);

/* Sets *out to sample `id`; its key is borrowed from the index.  Called for every row: it allocates
 * nothing, takes no lock and reads a few cache lines. */
int stk_index_entry(const stk_index *ix, uint64_t id, stk_entry *out, stk_error *err);
/* The part of a key that users see: a key ends at a NUL, after which a format may store data of its
 * own. */
static inline stk_bytes stk_key_shown(stk_bytes key)
{
    const uint8_t *nul = key.len ? memchr(key.data, 0, key.len) : NULL;

    return (stk_bytes){ key.data, nul ? (size_t)(nul - key.data) : key.len };
}
/* Sets *out to 1 if all keys of a shard are ASCII, with the data that formats store after them.
 * Faster than looking at each key. */
int stk_index_keys_ascii(const stk_index *ix, uint64_t shard, int *out, stk_error *err);
/* Field k of an entry from stk_index_entry(); its name is borrowed and ends with a NUL. */
int stk_index_field(const stk_index *ix, const stk_entry *e, uint32_t k, stk_field *out,
                    stk_error *err);
/* Prefetches the cache lines that stk_index_entry(id) will read.  Never fails. */
void stk_index_prefetch(const stk_index *ix, uint64_t id);

/* ---- typed columns: one chunk per shard ---- */

uint32_t stk_index_columns(const stk_index *ix);
const char *stk_index_column(const stk_index *ix, uint32_t c);    /* name; NULL after the last */
int stk_index_column_find(const stk_index *ix, const char *name); /* -1: there is none */
int stk_index_column_known(const stk_index *ix, uint32_t c);      /* 1: every shard has it */
stk_chunk_type stk_index_column_type(const stk_index *ix, uint32_t c); /* for all shards */
/* The chunk of a shard, checked to its last byte; borrowed from the index. */
int stk_index_chunk(const stk_index *ix, uint32_t c, uint64_t shard, stk_chunk *out,
                    stk_error *err);

/* Stores the options of stk_scan that shards were scanned with.  What they point to must stay
 * valid. */
void stk_index_scan_as(stk_index *ix, const stk_scan *options);
/* Sets these options in a scan that is compared with the index. */
void stk_index_scan_like(const stk_index *ix, stk_scan *scan);

/* Checks that `f` is the file that a shard was indexed from.  STK_ESTALE: it is not.  Size and etag
 * must be equal.  If the mtime differs from that in the index, and from *known, the fingerprint is
 * compared, and then all members, which takes as long as indexing.  known: an mtime that was
 * checked before; NULL: none.  Sets *info (may be NULL) to size, mtime and etag of the file. */
int stk_index_check_file(const stk_index *ix, uint64_t shard, stk_file *f, const int64_t *known,
                         stk_file_info *info, stk_error *err);
/* For a folder that stk_index_check_file() found changed.  1: files were only added to it. */
int stk_index_only_added(const stk_index *ix, uint64_t shard, stk_file *f);
/* Compares only the fingerprint.  STK_ESTALE: it differs. */
int stk_index_same_content(const stk_index *ix, uint64_t shard, stk_file *f, stk_error *err);

/* ---- building: one part per shard, made on any thread, and one writer ---- */

typedef struct stk_index_part stk_index_part; /* a shard's samples in memory.  Thread: one. */
int stk_index_part_open(stk_index_part **out, stk_error *err);
stk_scan *stk_index_part_scan(stk_index_part *p); /* for stk_format.index() */
/* Sets a function that is called with the offset that the scan has reached.  If it returns
 * non-zero, the scan stops. */
void stk_index_part_progress(stk_index_part *p, int (*fn)(void *cookie, uint64_t offset),
                             void *cookie);
/* A warning of the format about the shard; NULL: none.  The index does not store it. */
const char *stk_index_part_warning(const stk_index_part *p);
/* Hash of the first bytes of up to 16 samples and their fields, spread over the shard. */
int stk_index_part_print(const stk_index_part *p, stk_file *f, uint64_t size, uint64_t *out,
                         stk_error *err);
void stk_index_part_close(stk_index_part **p);

typedef struct stk_index_writer stk_index_writer; /* Thread: any (locks inside). */
/* path NULL: the index is in memory, see stk_index_writer_fd().  STK_EIO: the file can't be made;
 * errno says why. */
int stk_index_writer_open(stk_index_writer **out, const char *path, const char *format,
                          uint64_t shards, stk_error *err);
/* Adds shard number `shard`; shards may come in any order.  info: its name, size, mtime and
 * etag. */
int stk_index_writer_add(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                         stk_index_part *part, stk_error *err);
/* Copies shard `from` of an older index, with all its columns. */
int stk_index_writer_reuse(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                           const stk_index *old, uint64_t from, stk_error *err);
/* Adds a shard's chunk of a column; each once, in any order. */
int stk_index_writer_column(stk_index_writer *w, uint64_t shard, const char *name,
                            const stk_chunk *chunk, stk_error *err);
/* Finishes the file, syncs it to disk, and renames it to its path.  Equal shards give equal bytes,
 * whatever order they came in.  Without a commit, close() removes what was written. */
int stk_index_writer_commit(stk_index_writer *w, stk_error *err);
/* A new descriptor of the committed index, for stk_index_open_fd(); -1: none. */
int stk_index_writer_fd(const stk_index_writer *w);
/* The errno if its folder was full or not writable, so that another folder may work; 0: it was
 * not. */
int stk_index_writer_unwritable(const stk_index_writer *w);
void stk_index_writer_close(stk_index_writer **w);

/* ---- finding the index of a list of shards ---- */

typedef struct stk_index_home {
    char root[1024];   /* common folder of the shards; shard names are relative to it */
    char beside[1280]; /* root/.stoker/HASH.idx; "": shards are not local files */
    char remote[1280]; /* the URL FOLDER/.stoker/HASH.idx; "": shards are not remote */
    char cache[1280];  /* CACHE/index/HASH.idx, for read-only data; "": there is no cache */
} stk_index_home;
/* Sets *out for this ordered list of shards, whose names stk_path_absolute() made absolute. */
int stk_index_home_find(stk_index_home *out, const stk_names *shards, const char *cache_dir,
                        stk_error *err);
/* The name of a shard in the index, which is relative to root.  Points into `shard`, which is
 * absolute or a URL. */
const char *stk_index_home_name(const stk_index_home *h, const char *shard);
/* Makes a path absolute and plain: no ".", no "//", no ".." except after a symlink.  URLs stay as
 * they are, except that file:// is removed.  *out is stk_alloc()ed. */
int stk_path_absolute(const char *path, char **out, stk_error *err);
/* Adds the absolute name to a list. */
int stk_names_absolute(stk_names *out, const char *name, stk_error *err);
/* stk_urls_expand(), with absolute names. */
int stk_names_expand(stk_names *out, const char *const *urls, size_t n, stk_error *err);

#endif
