/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - what a loader reads from: a table of functions that each kind of data fills in.
 * Requests, columns, orders and ds[i] call these functions.
 *
 * Indexed shards (shard_data.h) and arrays (array/arrays.h) are kinds of data.  A new kind is one
 * file with a stk_data_ops and a stk_data_kind, and one line of registry.def.  No code asks which
 * kind a data set is: what differs is a function, or a flag of `can`.
 *
 * A field of a sample is found in these steps.  Only unpack() and the reads of fetch/ may take
 * long:
 *
 *     find       once per loader and schema: which field of a sample has the name
 *     entry      what the sample is: its shard, its schema, its key
 *     field      its field: name, and offset and size if they are known
 *     locate     where its bytes are: in memory, a range, a block, a file, or nowhere (stk_place)
 *     acquire    the shard's open file, until release()
 *     unpack     a range or block that was read -> its bytes, with no lock held
 *     pick       a block's bytes -> those of the field
 *
 * Kinds with STK_DATA_IMMEDIATE need none of these: their fields are arrays in memory or in mapped
 * files, and rows are copied from them.
 *
 * A data set is read-only once it is open.  Any thread may call it, also in a forked child. */
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

struct stk_array;     /* array/arrays.h */
struct stk_cache;     /* fetch/cache.h */
struct stk_request;   /* fetch/request.h */
struct stk_mediafile; /* index/mediafile.h */

enum { /* stk_dataset.can */
       /* rows come from array() and read(); no requests, no waiting */
       STK_DATA_IMMEDIATE = 1,
       STK_DATA_INDEXED = 2, /* shards with an index on disk: stk_shard_data_of() */
       STK_DATA_KEYS = 4,    /* samples have keys; otherwise a sample's number is its key */
       /* every field is the range that field() returns; locate() is not called */
       STK_DATA_RANGES = 8,
       STK_DATA_NAMES_FILES = 16, /* fields may name files, for open() in chains */
       STK_DATA_BLOCKS = 32,      /* some places are blocks; unpack() and pick() are set */
       STK_DATA_HINTS = 64,       /* hint() is set */
       STK_DATA_MEMORY = 128,     /* locate() returns bytes in memory, for all columns */
       STK_DATA_ONE_FIELD = 256,  /* it has one field, which chains without from() read */
       /* samples arrive in order and are dropped later; acquire() waits for one (stream.h) */
       STK_DATA_STREAM = 512,
};

/* a bad sample of a stream is replaced by one at most so far away, or one of its batch */
#define STK_STREAM_NEAR 64u

typedef struct stk_unpack_job { /* the bytes read at a place, and room for the unpacked ones */
    uint64_t shard;
    const stk_place *place;
    stk_bytes raw;
    void *dst;
    size_t len; /* in: room in dst (place->unpacked); out: bytes written */
} stk_unpack_job;

typedef struct stk_value_span { /* consecutive rows of a block, none of them null */
    stk_bytes block;            /* in: the unpacked block, or the bytes that locate() returned */
    /* in: rows that are wanted, from the place on; out: rows found */
    uint64_t n;
    /* values of the first row; those of the next rows follow without a gap */
    const uint8_t *data;
    uint32_t width; /* bytes per value */
    /* n + 1 numbers: row i has the values [first[i], first[i + 1]), and first[0] is at `data`.
     * NULL: one value per row */
    const uint32_t *first;
} stk_value_span;

typedef struct stk_gather_ask { /* columns that are joined to one field */
    const char *const *names;   /* names or patterns */
    uint32_t n;
    /* replaces nulls; NULL: NaN for floats, otherwise such a sample is bad */
    const char *fill_text;
    double fill; /* the same as a number */
} stk_gather_ask;

/* Immediate kinds: rows of arrays. */
typedef struct stk_immediate_ops {
    /* NULL: no array has this name */
    const struct stk_array *(*array)(const stk_dataset *d, const char *name);
    /* Reads one row of a field, as many bytes as its type has, from files that are not mapped. */
    int (*read)(const stk_dataset *d, uint64_t sample, uint32_t field, void *into, stk_error *err);
} stk_immediate_ops;

/* Columns: one value per sample, one chunk per shard.  NULL: fields are read instead. */
typedef struct stk_column_ops {
    /* Column i = 0, 1, ...; NULL after the last. */
    const char *(*column)(const stk_dataset *d, uint32_t i, stk_chunk_type *type);
    /* STK_ENOTFOUND: there is no such column. */
    int (*chunk)(const stk_dataset *d, const char *name, uint64_t shard, stk_chunk *out,
                 stk_error *err);
} stk_column_ops;

/* Checks that files did not change. */
typedef struct stk_trust_ops {
    /* For `stoker check`: compares the shard's file with its stored hashes.  STK_ECORRUPT: they
     * differ. STK_ENOTSUP: they can't be computed here.  NULL: the kind has no hashes. */
    int (*verify)(const stk_dataset *d, uint64_t shard, stk_error *err);
    /* Called when an epoch begins.  STK_ESTALE, with the file's name: an open file was written to
     * or replaced.  NULL: no file stays open. */
    int (*unchanged)(const stk_dataset *d, stk_error *err);
} stk_trust_ops;

/* For kinds whose files are brought by other threads, such as streams. */
typedef struct stk_wait_ops {
    /* Like acquire(), but returns STK_PENDING after about STK_HALT_MS; call it again.  For one
     * thread. NULL: acquire() does not wait for other threads. */
    int (*poll)(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
    /* A loader begins again at this sample: forgets stored failures.  NULL: none are stored. */
    void (*retry)(const stk_dataset *d, uint64_t sample);
    /* Name of the file that acquire() of this shard waits for; NULL: unknown.  NULL function: it is
     * the shard itself. */
    const char *(*awaited)(const stk_dataset *d, uint64_t shard);
} stk_wait_ops;

typedef struct stk_data_ops {
    const char *name;   /* "shards", "arrays", "parquet" */
    const char *plural; /* for errors: "%s is for shards with an index, not for <plural>" */

    /* ---- what there is ---- */
    uint64_t (*len)(const stk_dataset *d);     /* samples */
    const char *(*kind)(const stk_dataset *d); /* as shown to users: "tar", "npy", "parquet" */
    uint64_t (*shards)(const stk_dataset *d);  /* files */
    /* absolute name; NULL after the last */
    const char *(*shard_name)(const stk_dataset *d, uint64_t shard);
    /* Size, mtime and samples [first, first + samples) of a shard; they follow those of the shard
     * before.  NULL: immediate kinds. */
    int (*shard)(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err);
    /* The schema: fields 0, 1, ... of the data set, by name.  Returns 0 after the last. */
    int (*type)(const stk_dataset *d, uint32_t field, stk_field_type *out);
    /* Joins columns to a field.  From now on find() finds it by the name in *out, and type() by its
     * number.  NULL: columns can't be joined. */
    int (*gather)(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                  stk_error *err);
    /* adds its data to *p */
    int (*fingerprint)(const stk_dataset *d, stk_fingerprint *p, stk_error *err);

    /* ---- a sample ---- */
    uint32_t (*schemas)(const stk_dataset *d);
    /* Number of the field with this name in samples of this schema; -1: they have no such field. */
    int (*find)(const stk_dataset *d, uint32_t schema, const char *name);
    /* The name of field k of this schema; NULL after the last.  NULL function: it is not known. */
    const char *(*field_name)(const stk_dataset *d, uint32_t schema, uint32_t k);
    /* prefetches what entry() will read; NULL: nothing */
    void (*prefetch)(const stk_dataset *d, uint64_t sample);
    /* Sets key.data to "" if the kind has no keys, never to NULL. */
    int (*entry)(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err);
    /* An error of entry() and field() concerns the data set; errors of later calls concern one
     * sample. */
    int (*field)(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                 stk_error *err);

    /* ---- its bytes ---- */
    /* Where the bytes of a field are; reads and opens nothing.  *out is zero before.  named: find
     * the file that the field names (STK_DATA_NAMES_FILES); what is not known without reading is
     * the place of the name itself.  NULL with STK_DATA_RANGES.  Kinds of
     * places:
     *     here       in memory: these bytes
     *     absent     null: the chain's fallback is used
     *     shared     in a block, read and unpacked once and cached; pick() for each sample
     *     otherwise  a range; if `unpacked` is not 0, unpack() is called for this sample
     * `row` is for unpack() and pick(), which get the place. */
    int (*locate)(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                  stk_place *out, stk_error *err);
    /* The shard's open file; each acquire() needs a release(). */
    int (*acquire)(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
    void (*release)(const stk_dataset *d, uint64_t shard);
    stk_wait_ops wait;
    /* Unpacks places with `unpacked`, whether in a block or not. */
    int (*unpack)(const stk_dataset *d, stk_unpack_job *job, stk_error *err);
    /* *bytes: in: the unpacked block; out: the field's bytes in it.  STK_ENOTFOUND: null, like
     * `absent`. */
    int (*pick)(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *p,
                stk_bytes *bytes, stk_error *err);
    /* How many samples after this one are in the same unpacked block, in order, each with a place
     * whose row is one more.  NULL: unknown. */
    uint64_t (*rest)(const stk_dataset *d, uint64_t shard, const stk_place *p, stk_bytes block);
    /* Values of this sample and those after it, at a place in memory or in an unpacked block.  n 0:
     * this sample has none, or needs pick().  NULL: every sample needs pick(). */
    void (*span)(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *p,
                 stk_value_span *s);
    /* What the index stores for decoders about a field (seek points), or nothing.  NULL: nothing is
     * stored. */
    stk_bytes (*hint)(const stk_dataset *d, const stk_seek_field *at, stk_seek_room *room);

    stk_immediate_ops immediate;
    stk_column_ops columns;
    stk_trust_ops trust;
    /* NULL after the last, or if there are no classes */
    const char *(*class_name)(const stk_dataset *d, uint32_t i);
    void (*close)(stk_dataset *d); /* frees it; called when no one holds it */
} stk_data_ops;

struct stk_dataset { /* first member of the struct of each kind */
    const stk_data_ops *ops;
    uint32_t can;
    _Atomic uint32_t refs;
    _Atomic(struct stk_cache *) blocks; /* cache of blocks for ds[i] and columns; NULL: none yet */
    _Atomic(struct stk_request *) idle; /* request for the next ds[i]; NULL: in use, or none yet */
    _Atomic(struct stk_mediafile *) media; /* sizes of its media; NULL: not loaded yet */
    stk_store *store; /* holds a reference; NULL: the settings of the process */
    stk_log log;
    uint64_t *runs; /* first samples of runs that are read in order; NULL: shards are mixed */
    uint64_t n_runs;
    char index_path[1280]; /* "": no index, or it is in memory */
    uint64_t index_bytes;  /* size of that file, unless the kind is indexed shards */
    int index_built;       /* true if it was built now, not found */
};

/* Sets up the common part, with one holder. */
static inline void stk_dataset_init(stk_dataset *ds, const stk_data_ops *ops, uint32_t can)
{
    ds->ops = ops;
    ds->can = can;
    atomic_init(&ds->refs, 1);
}

#define STK_DATA(name) extern const stk_data_kind stk_data_##name;
#include "registry.def"

/* kinds.c: the first kind that accepts these names; NULL: indexed shards.  A format in the options
 * is one of shards. */
const stk_data_kind *stk_kind_meant(const char *const *urls, size_t n,
                                    const stk_dataset_options *o);

/* Call after reading mapped bytes, with stk_guarded_tears() from before.  STK_ESTALE: some bytes
 * may be zeros that are not in the file. */
static inline int stk_dataset_whole(const stk_dataset *ds, uint64_t tears, stk_error *err)
{
    if (tears == stk_guarded_tears() || !ds->ops->trust.unchanged)
        return 0;
    return ds->ops->trust.unchanged(ds, err);
}

/* The key of a sample; without keys, its number in its file, written to `text`. */
#define STK_ROW_KEY 24
static inline stk_bytes stk_entry_key(const stk_dataset *ds, const stk_entry *e,
                                      char text[STK_ROW_KEY])
{
    if (ds->can & STK_DATA_KEYS || !e->key.data)
        return e->key;
    return (stk_bytes){ (const uint8_t *)text,
                        (size_t)snprintf(text, STK_ROW_KEY, "%" PRIu64, e->row) };
}

/* Opens a URL with the source of its scheme; errors name it. */
int stk_url_open(const stk_open_info *o, stk_file **out, stk_error *err);

typedef struct stk_named { /* where a sample names a file */
    const stk_dataset *data;
    uint64_t shard;
    const char *root; /* folder of the names; NULL: the shard's folder */
} stk_named;
/* Opens the file that `place` names, of which it is a range afterwards. */
int stk_named_open(const stk_named *at, stk_place *place, stk_file **out, stk_error *err);
/* The same in two steps, of which the second may wait: opens it; finds out its size. */
int stk_named_begin(const stk_named *at, const stk_place *place, stk_file **out, stk_error *err);
int stk_named_size(const stk_named *at, stk_place *place, stk_file *f, stk_error *err);
/* The error of such a file gets its name.  Returns rc, or what it means for a sample. */
int stk_named_failed(const stk_named *at, const stk_place *place, int rc, stk_error *err);

/* named.c: what the data set knows about shard i, with the time when a local file was last written
 * to now.  A shard may be written to and keep its size and fingerprint. */
int stk_dataset_shard_now(const stk_dataset *ds, uint64_t i, stk_shard_info *out, stk_error *err);

/* STK_ESTALE: an open file was written to, or its name belongs to another file now. */
int stk_named_unchanged(const char *name, stk_file *f, stk_error *err);

/* yolo.c: it reads headers of pictures, so it is in this folder */
extern const stk_format stk_format_yolo;

/* STK_ENOTSUP if the data set has no index, which `what` needs. */
static inline int stk_needs_index(const stk_dataset *ds, const char *what, stk_error *err)
{
    return ds->can & STK_DATA_INDEXED
               ? 0
               : stk_fail(err, STK_ENOTSUP, "%s is for shards with an index, not for %s", what,
                          ds->ops->plural);
}

/* stream_data.c: most bytes of samples that a stream holds in memory, about.  It reads ahead of the
 * wanted block while it holds less.  STK_ENOMEM: one window is larger. */
void stk_stream_limit(stk_dataset *ds, uint64_t bytes);

#endif
