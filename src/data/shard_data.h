/* SPDX-License-Identifier: Apache-2.0 */
/* shard_data.h - indexed shards as a kind of data: index, format, and the shards' files, opened at
 * first touch.
 *
 * A file is checked against the index when it is opened: size, then etag or mtime.  While no
 * more shards than the cap are there, opening is once and lookups take no lock; beyond it the
 * least recently used file is closed. */
#ifndef STOKER_SHARD_DATA_H
#define STOKER_SHARD_DATA_H

#include "data/gather.h"
#include "format/format.h"

typedef struct stk_shards stk_shards; /* Thread: any. */

/* names[i] is what to open for shard i (owned by the result from now on, also on failure). */
int stk_shards_open(stk_shards **out, const stk_index *ix, const stk_format *format,
                    stk_names *names, stk_error *err);
void stk_shards_close(stk_shards **s);
const char *stk_shards_name(const stk_shards *s, uint64_t shard);

/* The open file of a shard.  Every acquire has its release. */
int stk_shards_acquire(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err);
void stk_shards_release(stk_shards *s, uint64_t shard);
struct stk_frames *stk_shards_frames(stk_shards *s); /* what they keep unpacked */

typedef struct stk_shard_data {
    stk_dataset base;
    stk_index *index;
    stk_shards *shards;
    const stk_format *format;
    void *state;        /* what the format's open() made; NULL: nothing */
    stk_seekfile *seek; /* NULL: there is none */
    stk_gathers gathers;
    uint32_t *encoding; /* of CSV's cells: see stk_scan; NULL: UTF-8 */
} stk_shard_data;

/* shard_columns.c: fields whose text is a number, taken together (CSV, JSON lines, TFRecord). */
int stk_shard_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err);
int stk_shard_gather_locate(const stk_shard_data *s, const stk_gather *g, const stk_entry *e,
                            stk_place *out, stk_error *err);
int stk_shard_gather_unpack(const stk_shard_data *s, stk_unpack_job *job, stk_error *err);

/* The columns that this field of data_field() is; NULL: it is one of the index. */
static inline const stk_gather *stk_shard_gather_of(const stk_shard_data *s, const stk_field *f)
{
    const stk_gather *g = atomic_load_explicit(&s->gathers, memory_order_acquire);

    while (g && g->name != f->name) /* the very text */
        g = g->next;
    return g;
}

/* Of a place: the number of the columns taken together; 0: it is a format's own. */
static inline uint32_t stk_shard_gathered(const stk_place *p)
{
    return (uint32_t)(p->row & 0xFFFF);
}

/* Is the class of a picture, the field `cls`, that of its shard: known without reading? */
int stk_shards_have_classes(const stk_index *ix, const stk_format *format);

/* The base of a zeroed *s, and what it can do with this format. */
void stk_shard_data_init(stk_shard_data *s, const stk_format *format);
/* What the format knows of the whole; s has its index.  in.first is filled in here. */
int stk_shard_data_open(stk_shard_data *s, stk_format_data in, stk_error *err);

/* Of the table: in shards.c, because they are called for every row. */
int stk_shard_data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
void stk_shard_data_release(const stk_dataset *d, uint64_t shard);
int stk_shard_data_unchanged(const stk_dataset *d, stk_error *err);

/* The seek points are others now. */
void stk_shard_data_seek(stk_shard_data *s);

/* What only shards with an index have; NULL: it is another kind. */
static inline stk_shard_data *stk_shard_data_of(const stk_dataset *ds)
{
    return ds->can & STK_DATA_INDEXED ? (stk_shard_data *)(uintptr_t)ds : NULL;
}

/* Where the seek points of the data set with this index are stored; "" for an index in memory. */
void stk_seek_path(const char *index_path, char *out, size_t size);
/* The same of the sizes of media. */
void stk_media_path(const char *index_path, char *out, size_t size);

/* unpacked.c: shards that are packed as a whole (.tar.gz, .jsonl.zst, .tfrecord.gz), through the
 * host cache. */
int stk_is_packed(const char *url);
int stk_unpacked_open(const stk_open_info *o, stk_file **out, stk_error *err);
/* seekable.c: frames that the open files of a data set keep unpacked.  Thread: any. */
typedef struct stk_frames {
    stk_mutex lock;
    struct stk_account *account; /* lock: what is kept counts there; NULL: nowhere */
    struct seekable *first;      /* lock: files */
} stk_frames;
/* What is kept counts there from now on, until it does not and all of that is let go. */
void stk_frames_charge(stk_frames *s, struct stk_account *a);
void stk_frames_uncharge(stk_frames *s, const struct stk_account *a);
int stk_frames_trim(stk_frames *s);                    /* let go of all.  1: there were some */
void stk_seekable_join(stk_file *file, stk_frames *s); /* nothing, where the file is another kind */

/* seekable.c: a file of `size` bytes in Zstandard's seekable format as what it unpacks to; *from is
 * taken over and nulled.  STK_END: it is not in that format. */
int stk_seekable_take(stk_file **from, uint64_t size, const char *etag, stk_file **out,
                      stk_error *err);

#endif
