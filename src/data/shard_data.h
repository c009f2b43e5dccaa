/* SPDX-License-Identifier: Apache-2.0 */
/* shard_data.h - indexed shards as a kind of data (data.h): index, format, and the shards' files,
 * which are opened at first use.
 *
 * A file is checked against the index when it is opened: size, then etag or mtime.  While there are
 * at most as many shards as files may be open, each is opened once, and lookups take no lock.
 * Beyond that, the least recently used file is closed. */
#ifndef STOKER_SHARD_DATA_H
#define STOKER_SHARD_DATA_H

#include "data/gather.h"
#include "format/format.h"

typedef struct stk_shards stk_shards; /* Thread: any. */

/* names[i] is what to open for shard i.  Takes the names, on failure too. */
int stk_shards_open(stk_shards **out, const stk_index *ix, const stk_format *format,
                    stk_names *names, stk_error *err);
void stk_shards_close(stk_shards **s);
const char *stk_shards_name(const stk_shards *s, uint64_t shard);

/* The open file of a shard.  Each acquire() needs a release(). */
int stk_shards_acquire(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err);
void stk_shards_release(stk_shards *s, uint64_t shard);
struct stk_frames *stk_shards_frames(stk_shards *s); /* unpacked frames of these files */

typedef struct stk_shard_data {
    stk_dataset base;
    stk_index *index;
    stk_shards *shards;
    const stk_format *format;
    void *state;         /* what the format's open() made; NULL: nothing */
    stk_seekfile *seek;  /* NULL: there are no seek points */
    stk_gathers gathers; /* joined columns */
    uint32_t *encoding;  /* encoding of CSV's cells, as in stk_scan; NULL: UTF-8 */
} stk_shard_data;

/* shard_columns.c: joins fields whose text is a number (CSV, JSON lines, TFRecord). */
int stk_shard_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err);
int stk_shard_gather_locate(const stk_shard_data *s, const stk_gather *g, const stk_entry *e,
                            stk_place *out, stk_error *err);
int stk_shard_gather_unpack(const stk_shard_data *s, stk_unpack_job *job, stk_error *err);

/* The joined columns that a field stands for; NULL: it is a field of the index. */
static inline const stk_gather *stk_shard_gather_of(const stk_shard_data *s, const stk_field *f)
{
    const stk_gather *g = atomic_load_explicit(&s->gathers, memory_order_acquire);

    while (g && g->name != f->name) /* the very text */
        g = g->next;
    return g;
}

/* The field number of the joined columns that a place is of; 0: it is a place of the format. */
static inline uint32_t stk_shard_gathered(const stk_place *p)
{
    return (uint32_t)(p->row & 0xFFFF);
}

/* 1: all pictures of a shard have its class, so the field `cls` is known without reading. */
int stk_shards_have_classes(const stk_index *ix, const stk_format *format);

/* Sets up the common part of a zeroed *s, and its flags `can` for this format. */
void stk_shard_data_init(stk_shard_data *s, const stk_format *format);
/* Calls the format's open() and stores its state.  s->index must be set; in.first is set here. */
int stk_shard_data_open(stk_shard_data *s, stk_format_data in, stk_error *err);

/* Functions of stk_data_ops.  They are in shards.c because they are called for every row. */
int stk_shard_data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
void stk_shard_data_release(const stk_dataset *d, uint64_t shard);
int stk_shard_data_unchanged(const stk_dataset *d, stk_error *err);

/* Call after s->seek was set or replaced: updates the flag STK_DATA_HINTS. */
void stk_shard_data_seek(stk_shard_data *s);

/* The data set as indexed shards; NULL: it is of another kind. */
static inline stk_shard_data *stk_shard_data_of(const stk_dataset *ds)
{
    return ds->can & STK_DATA_INDEXED ? (stk_shard_data *)(uintptr_t)ds : NULL;
}

/* The path of the seek points that belong to an index; "" for an index in memory. */
void stk_seek_path(const char *index_path, char *out, size_t size);
/* The same for the sizes of media. */
void stk_media_path(const char *index_path, char *out, size_t size);

/* unpacked.c: shards that are compressed as a whole (.tar.gz, .jsonl.zst, .tfrecord.gz); they are
 * unpacked to the host cache. */
int stk_is_packed(const char *url);
int stk_unpacked_open(const stk_open_info *o, stk_file **out, stk_error *err);
/* seekable.c: unpacked frames that the open files of a data set cache.  Thread: any. */
typedef struct stk_frames {
    stk_mutex lock;
    struct stk_account *account; /* lock: account of cached bytes; NULL: they are not counted */
    struct seekable *first;      /* lock: list of files */
} stk_frames;
/* charge(): cached bytes count in `a` from now on.  uncharge() ends that and drops the frames. */
void stk_frames_charge(stk_frames *s, struct stk_account *a);
void stk_frames_uncharge(stk_frames *s, const struct stk_account *a);
int stk_frames_trim(stk_frames *s); /* drops all frames.  1: there were some */
/* Lets an open file cache its frames in *s.  Other kinds of files are left alone. */
void stk_seekable_join(stk_file *file, stk_frames *s);

/* seekable.c: opens a file of `size` bytes in Zstandard's seekable format as its unpacked content.
 * Takes *from and sets it to NULL.  STK_END: it is not in that format. */
int stk_seekable_take(stk_file **from, uint64_t size, const char *etag, stk_file **out,
                      stk_error *err);

#endif
