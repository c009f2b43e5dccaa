/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - what a loader reads from: a table of functions that each kind of data fills in.
 *
 * Indexed shards (shard_data.h) and arrays (array/arrays.h) are kinds; a new kind is one file with
 * a stk_data_ops and a stk_data_kind, and one line of registry.def.  No code
 * asks which kind a data set is: what differs is a function, or a flag of `can`.
 *
 * A row comes about in these steps, and only unpack() and the reader of fetch/ may take long:
 *
 *     find       once per loader and schema: which field of a sample has the name
 *     entry      what the sample is: its shard, its schema, its key
 *     field      its field: name, and offset and size where they are known
 *     locate     where the bytes are: in memory, a range, a block, a file, or nowhere (stk_place)
 *     acquire    the shard's open file, until release()
 *     unpack     a range or block that was read -> its bytes, with no lock held
 *     pick       a block's bytes -> those of the field
 *
 * Kinds that are STK_DATA_IMMEDIATE have none of these: their fields are arrays in memory or in
 * mapped files, and rows are copied from them.
 *
 * Everything is read-only once opened, may be called by any thread, and works in a forked child. */
#ifndef STOKER_DATA_H
#define STOKER_DATA_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include <stoker/dataset.h>
#include <stoker/plugin_data.h>

#include "base/guarded.h"
#include "index/index.h"
#include "index/seekfile.h"

struct stk_array;   /* array/arrays.h */
struct stk_cache;   /* fetch/cache.h */
struct stk_request; /* fetch/request.h */
struct stk_mediafile; /* index/mediafile.h */

enum { /* stk_dataset.can */
       /* array() and read() in place of requests; nothing has to be waited for */
       STK_DATA_IMMEDIATE = 1,
       STK_DATA_INDEXED = 2, /* shards with an index on disk: stk_shard_data_of() */
       STK_DATA_KEYS = 4,    /* samples have keys of their own; else a sample's number is its key */
       STK_DATA_RANGES = 8,  /* every field is the range that field() says: locate() is not asked */
       STK_DATA_NAMES_FILES = 16, /* locate() finds files that fields name: `open` in chains */
       STK_DATA_BLOCKS = 32,      /* some places are blocks: unpack() and pick() are there */
       STK_DATA_HINTS = 64,       /* hint() knows of some fields */
       STK_DATA_MEMORY = 128,     /* locate() gives bytes in memory, of all columns */
       STK_DATA_ONE_FIELD = 256,  /* it has one field, which a chain without from() means */
       /* samples come in order and go again: acquire() waits for one (stream.h) */
       STK_DATA_STREAM = 512,
};

/* what stands in for a bad sample of a stream is so near, or of its batch */
#define STK_STREAM_NEAR 64u

typedef struct stk_unpack_job { /* what was read of a place, and room for what it unpacks to */
    uint64_t shard;
    const stk_place *place;
    stk_bytes raw;
    void *dst;
    size_t len; /* room in dst (place->unpacked); then the bytes that are there */
} stk_unpack_job;

typedef struct stk_value_span { /* rows of a block, one after another; none is null */
    stk_bytes block;            /* given: unpacked, or what locate() said is here */
    /* given: so many rows are wanted, from the place on; then: so many are there */
    uint64_t n;
    /* values of the first row; those of the others follow without a gap ... */
    const uint8_t *data;
    uint32_t width; /* ... of so many bytes each */
    /* n + 1: row i has values [first[i], first[i + 1]), first[0] is at `data`; NULL: one each */
    const uint32_t *first;
} stk_value_span;

typedef struct stk_gather_ask { /* columns that are taken together as one field */
    const char *const *names;   /* or patterns */
    uint32_t n;
    /* what stands for a null; NULL: NaN for floats, else the sample is bad */
    const char *fill_text;
    double fill; /* the same as a number */
} stk_gather_ask;

/* Immediate kinds: rows of arrays. */
typedef struct stk_immediate_ops {
    const struct stk_array *(*array)(const stk_dataset *d, const char *name); /* NULL: none */
    /* One row of a field, as many bytes as its type says; reads files instead of mapping them. */
    int (*read)(const stk_dataset *d, uint64_t sample, uint32_t field, void *into, stk_error *err);
} stk_immediate_ops;

/* Columns: one value per sample, a chunk per shard.  NULL: fields are read for them. */
typedef struct stk_column_ops {
    /* The columns that are available: 0, 1, ...; NULL past the last. */
    const char *(*column)(const stk_dataset *d, uint32_t i, stk_chunk_type *type);
    /* STK_ENOTFOUND: it has no such column. */
    int (*chunk)(const stk_dataset *d, const char *name, uint64_t shard, stk_chunk *out,
                 stk_error *err);
} stk_column_ops;

/* Are the files what they were? */
typedef struct stk_trust_ops {
    /* For `check`: has the shard's file the hashes that were written down for it?  STK_ECORRUPT: it
     * has not; STK_ENOTSUP: they can't be computed here.  NULL: the kind has none. */
    int (*verify)(const stk_dataset *d, uint64_t shard, stk_error *err);
    /* When an epoch begins: STK_ESTALE where a file that is open was written to or replaced since,
     * with its name.  NULL: no file stays open. */
    int (*unchanged)(const stk_dataset *d, stk_error *err);
} stk_trust_ops;

/* Kinds whose files come by other threads, as streams. */
typedef struct stk_wait_ops {
    /* As acquire(), but STK_PENDING after about STK_HALT_MS: call it again.  For one thread.  NULL:
     * acquire() does not wait for other threads. */
    int (*poll)(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
    /* A loader begins again at this sample: failures that are kept are forgotten.  NULL: none
     * are. */
    void (*retry)(const stk_dataset *d, uint64_t sample);
    /* The file that acquire() of this shard waits for; NULL: not known.  NULL: the shard itself. */
    const char *(*awaited)(const stk_dataset *d, uint64_t shard);
} stk_wait_ops;

typedef struct stk_data_ops {
    const char *name;   /* "shards", "arrays", "parquet" */
    const char *plural; /* in errors: "%s is for shards with an index, not for <plural>" */

    /* ---- what there is ---- */
    uint64_t (*len)(const stk_dataset *d);     /* samples */
    const char *(*kind)(const stk_dataset *d); /* for people: "tar", "npy", "parquet" */
    uint64_t (*shards)(const stk_dataset *d);  /* files */
    /* absolute; NULL past the last */
    const char *(*shard_name)(const stk_dataset *d, uint64_t shard);
    /* Its size, mtime, and samples [first, first + samples), which follow those of the shard
     * before.  NULL: immediate kinds. */
    int (*shard)(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err);
    /* The schema: fields 0, 1, ... of the whole data set, by name.  Returns 0 past the last. */
    int (*type)(const stk_dataset *d, uint32_t field, stk_field_type *out);
    /* These columns are a field from now on, which find() finds by the name that *out says, and
     * type() by its number.  NULL: columns are not taken together here. */
    int (*gather)(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                  stk_error *err);
    int (*fingerprint)(const stk_dataset *d, stk_fingerprint *p, stk_error *err); /* adds to *p */

    /* ---- a sample ---- */
    uint32_t (*schemas)(const stk_dataset *d);
    /* The number of the field with this name in samples of this schema; -1: they have none. */
    int (*find)(const stk_dataset *d, uint32_t schema, const char *name);
    /* what entry() will read; NULL: nothing */
    void (*prefetch)(const stk_dataset *d, uint64_t sample);
    /* key.data is never NULL; a kind without keys points to "". */
    int (*entry)(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err);
    /* An error of these two is one of the data set; an error of the others is one of the sample. */
    int (*field)(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                 stk_error *err);

    /* ---- its bytes ---- */
    /* *out is zero before.  named: the file that the field names (STK_DATA_NAMES_FILES).  Reads and
     * opens nothing.  NULL with STK_DATA_RANGES.  Of the place:
     *     here       MEMORY: these bytes
     *     absent     NONE: null; a chain's default stands in
     *     shared     BLOCK: read once, unpack() once, kept in the block cache; pick() for each
     *                sample
     *     else       RANGE; `unpacked` not 0: unpack() for this sample, into memory of its own
     * `row` is for unpack() and pick(), who get the place: what they need to know of the sample. */
    int (*locate)(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                  stk_place *out, stk_error *err);
    /* Every acquire has its release. */
    int (*acquire)(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
    void (*release)(const stk_dataset *d, uint64_t shard);
    stk_wait_ops wait;
    /* For places with `unpacked`, in a block or not. */
    int (*unpack)(const stk_dataset *d, stk_unpack_job *job, stk_error *err);
    /* *bytes: the unpacked block, then the field's bytes in it.  STK_ENOTFOUND: null, as
     * `absent`. */
    int (*pick)(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *p,
                stk_bytes *bytes, stk_error *err);
    /* Of a block that was unpacked: how many samples after this one are in it too, in order, with a
     * place whose row is one more.  NULL: not known. */
    uint64_t (*rest)(const stk_dataset *d, uint64_t shard, const stk_place *p, stk_bytes block);
    /* Values of this sample and those after it, of a place that is in memory or whose block was
     * unpacked.  n 0: this one has none, or goes by pick().  NULL: each is picked. */
    void (*span)(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *p,
                 stk_value_span *s);
    /* What is kept of a field for decoders (seek points), or none.  NULL: nothing is. */
    stk_bytes (*hint)(const stk_dataset *d, const stk_seek_field *at, stk_seek_room *room);

    stk_immediate_ops immediate;
    stk_column_ops columns;
    stk_trust_ops trust;
    const char *(*class_name)(const stk_dataset *d, uint32_t i); /* NULL past the last, or: none */
    void (*close)(stk_dataset *d);                               /* frees it; no one holds it */
} stk_data_ops;

struct stk_dataset { /* the first member of each kind */
    const stk_data_ops *ops;
    uint32_t can;
    _Atomic uint32_t refs;
    _Atomic(struct stk_cache *) blocks; /* for ds[i] and columns; NULL: none yet */
    _Atomic(struct stk_request *) idle; /* for the next ds[i]; NULL: in use, or none yet */
    _Atomic(struct stk_mediafile *) media; /* sizes of its media; NULL: not asked for yet */
    stk_store *store;                   /* held; NULL: the process's own settings */
    stk_log log;
    char index_path[1280]; /* "": there is none, or it is in memory */
    uint64_t index_bytes;  /* of that file, where the kind is not indexed shards */
    int index_built;       /* ... and it was made now, not found */
};

/* A kind is made: with one holder. */
static inline void stk_dataset_init(stk_dataset *ds, const stk_data_ops *ops, uint32_t can)
{
    ds->ops = ops;
    ds->can = can;
    atomic_init(&ds->refs, 1);
}

#define STK_DATA(name) extern const stk_data_kind stk_data_##name;
#include "registry.def"

/* kinds.c: the first kind that some names mean; NULL: indexed shards.  A format in the options is
 * one of shards. */
const stk_data_kind *stk_kind_meant(const char *const *urls, size_t n,
                                    const stk_dataset_options *o);

/* After bytes of its maps were read: `tears` is stk_guarded_tears() of before.  STK_ESTALE: some
 * may be zeros that a file has not. */
static inline int stk_dataset_whole(const stk_dataset *ds, uint64_t tears, stk_error *err)
{
    if (tears == stk_guarded_tears() || !ds->ops->trust.unchanged)
        return 0;
    return ds->ops->trust.unchanged(ds, err);
}

/* Its key; of data without keys its number in its file, in `text`. */
#define STK_ROW_KEY 24
static inline stk_bytes stk_entry_key(const stk_dataset *ds, const stk_entry *e,
                                      char text[STK_ROW_KEY])
{
    if (ds->can & STK_DATA_KEYS || !e->key.data)
        return e->key;
    return (stk_bytes){ (const uint8_t *)text,
                        (size_t)snprintf(text, STK_ROW_KEY, "%" PRIu64, e->row) };
}

/* Open a URL with the source of its scheme; errors carry its name. */
int stk_url_open(const stk_open_info *o, stk_file **out, stk_error *err);

typedef struct stk_named { /* where a sample names a file */
    const stk_dataset *data;
    uint64_t shard;
    stk_file *file;   /* the shard's */
    const char *root; /* of names; NULL: the shard's folder */
} stk_named;
/* Open the file that `place` names.  If it has no name, its range is a text of the shard, which is
 * the name: it is read, which may wait.  Then `place` is the file's range. */
int stk_named_open(const stk_named *at, stk_place *place, stk_file **out, stk_error *err);

/* STK_ESTALE: an open file was written to, or is not the one of this name any more. */
int stk_named_unchanged(const char *name, stk_file *f, stk_error *err);

extern const stk_format stk_format_yolo; /* yolo.c: it looks into pictures, so it is here */

/* STK_ENOTSUP for a data set without an index: `what` is done with shards and their index. */
static inline int stk_needs_index(const stk_dataset *ds, const char *what, stk_error *err)
{
    return ds->can & STK_DATA_INDEXED
               ? 0
               : stk_fail(err, STK_ENOTSUP, "%s is for shards with an index, not for %s", what,
                          ds->ops->plural);
}

/* stream_data.c: of a stream, bytes of samples that are in memory, about.  It reads ahead of the
 * block that is wanted while less is kept; a window that is larger is STK_ENOMEM. */
void stk_stream_limit(stk_dataset *ds, uint64_t bytes);

#endif
