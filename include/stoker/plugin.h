/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - tables of functions by which programs add sources and formats.  It includes the
 * others: plugin_codec.h, plugin_decoder.h, plugin_op.h, plugin_data.h (kinds of data) and
 * plugin_loader.h (order, memory and stages of a loader).
 *
 * UNSTABLE: these structs may change with any release.  Every table begins as stk_plugin does:
 * `abi` is STK_PLUGIN_ABI, else the table is refused; `size` is its sizeof where it was compiled,
 * so that fields can be added at its end.  The library's own parts plug in through the same
 * tables. */
#ifndef STOKER_PLUGIN_H
#define STOKER_PLUGIN_H

#include <stoker/base.h>
#include <stoker/batch.h>
#include <stoker/tools.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_PLUGIN_ABI 4

typedef struct stk_plugin { /* how every table begins */
    uint32_t abi, size;
    const char *name, *help;
} stk_plugin;

/* Fill *err (may be NULL) and return `code`.  Shard, offset and key are added by the caller that
 * knows them. */
STK_API int stk_fail(stk_error *err, int code, const char *fmt, ...) STK_PRINTF(3, 4);

typedef struct stk_bytes {
    const uint8_t *data;
    size_t len;
} stk_bytes;

/* Memory of one worker, charged to memory_limit; valid until the same worker's next sample.
 * Thread: worker. */
typedef struct stk_scratch stk_scratch;
/* 64-byte aligned.  NULL: no memory, or memory_limit leaves none now; answer STK_ENOMEM, and the
 * sample is made again when others have let go. */
STK_API void *stk_scratch_get(stk_scratch *s, size_t size);

/* ---- arguments of a call in a chain, checked against a table before plan() sees them ---- */

typedef enum stk_arg_type {
    STK_ARG_INT = 1,
    STK_ARG_FLOAT,
    STK_ARG_BOOL,
    STK_ARG_NAME,   /* a bare word or a quoted string */
    STK_ARG_NAMES,  /* any number of them, positional */
    STK_ARG_INTS,   /* one integer, or a tuple of up to 16: 224 or (224, 320) */
    STK_ARG_FLOATS, /* one number, or a tuple of up to 16: 0.5 or (0.08, 1) */
    STK_ARG_ANY,    /* name or numbers: normalize(imagenet), normalize((0.5, 0.5, 0.5), ...) */
    STK_ARG_CHAIN,  /* steps: hflip | resize(8), or a tuple of up to 16 such chains */
    STK_ARG_CHAINS, /* any number of chains, positional: one_of(hflip, resize(8) | hflip) */
} stk_arg_type;

typedef struct stk_arg {
    const char *name;
    stk_arg_type type;
    const char *fallback; /* as one would write it; NULL: must be given; "": optional, absent */
    const char *help;
    /* 1: it came after the others.  A chain that leaves it out keeps the fingerprint that it had
     * before there was such an argument. */
    int later;
} stk_arg;

typedef struct stk_args stk_args;                                      /* read-only once checked */
STK_API int stk_args_has(const stk_args *a, const char *name);         /* given, or has a default */
STK_API int64_t stk_args_i64(const stk_args *a, const char *name);     /* 0 if absent */
STK_API double stk_args_f64(const stk_args *a, const char *name);      /* 0 if absent */
STK_API int stk_args_bool(const stk_args *a, const char *name);        /* 0 if absent */
STK_API const char *stk_args_str(const stk_args *a, const char *name); /* NULL if not a name */
STK_API uint32_t stk_args_count(const stk_args *a, const char *name);  /* values in it */
STK_API const char *stk_args_str_at(const stk_args *a, const char *name, uint32_t i);
STK_API double stk_args_f64_at(const stk_args *a, const char *name,
                               uint32_t i); /* 0 past the end */

/* ---- source: where bytes are ---- */

typedef struct stk_source stk_source;
typedef struct stk_file { /* sources embed it as their first member */
    const stk_source *source;
} stk_file;

typedef struct stk_file_info {
    uint64_t size;
    int64_t mtime_ns; /* 0 where there is none */
    char etag[64];    /* "" where there is none */
    uint64_t id;      /* of the file among those of its machine; 0: not known */
} stk_file_info;

typedef struct stk_open_info { /* what is known of a file before it is opened */
    const char *url;
    const char *etag; /* expected; NULL or "": not known */
    uint64_t size;    /* expected; UINT64_MAX: not known */
    int64_t mtime_ns; /* expected; 0: not known */
    /* NULL: the process's own settings; held by the caller while f is open */
    const stk_store *store;
    int uncached; /* not through the host cache */
} stk_open_info;

typedef struct stk_listed { /* a file that list() found; borrowed for the call */
    const char *url;
    uint64_t size;
    const char *etag; /* "" where there is none */
} stk_listed;

typedef struct stk_put { /* a file while it is written; sources embed it as their first member */
    int (*write)(struct stk_put *p, const void *data, size_t len, stk_error *err); /* in order */
    int (*commit)(struct stk_put *p, stk_error *err); /* it appears under its name, whole */
    void (*close)(struct stk_put *p); /* what was not committed leaves nothing there */
} stk_put;

typedef struct stk_io { /* one read; owned by the submitter until done() */
    uint64_t offset;
    size_t len;
    void *dst;
    size_t got; /* less than len: the file ends there */
    int rc;     /* 0 or a negative STK_E* */
    int sys;    /* why: an errno, or minus an HTTP status (-503); 0: not known */
    void (*done)(struct stk_io *io); /* any thread, exactly once, only after STK_PENDING */
    void *cookie;
    stk_file *file;
    struct stk_io *next; /* for the source's own lists while it is pending */
    uint64_t due_ns;     /* the pipe's, between two tries */
    /* Bytes before and after it that belong to the same field, and are not wanted.  A source that
     * joins neighbours may read them, and sets to 0 what it reads */
    uint64_t before, after;
} stk_io;

enum {                         /* what a source can do: stk_source.can */
       STK_SOURCE_REMOTE = 1,  /* every read costs a round trip, so that many small ones are slow */
       STK_SOURCE_LISTS = 2,   /* names under a prefix can be listed */
       STK_SOURCE_PUTS = 4,    /* files can be written */
       STK_SOURCE_RETRIES = 8, /* it tries failed reads again itself: STK_EIO is the last word */
       /* an address can have a query and a password, which are secrets: names do not show them */
       STK_SOURCE_QUERIES = 16,
};

struct stk_source {
    uint32_t abi, size;
    const char *name, *help;
    const char *scheme; /* "mem" for mem://...; NULL: plain paths */
    /* Make a handle.  A remote source sends nothing here. */
    int (*open)(const stk_open_info *o, stk_file **out, stk_error *err);
    /* Size and version of the file.  0, or STK_PENDING: that needs a round trip and `wait` is 0.
     * Where open() was told size and etag, these are the answer, and reads see to it that they
     * hold. */
    int (*ready)(stk_file *f, int wait, stk_file_info *out, stk_error *err);
    /* Wait for and read up to `len` bytes; a short count means the end of the file. */
    int (*read)(stk_file *f, stk_io *io);
    /* Read if that needs no waiting: 0 (io filled) or STK_PENDING (would wait).  May be NULL.  It
     * may point io->file to another file that has these bytes at these offsets, and lives as long
     * as f: that one is read then. */
    int (*try_read)(stk_file *f, stk_io *io);
    /* Begin a read: 0 (done at once, no callback) or STK_PENDING.  NULL: the pipe calls read()
     * on an I/O thread. */
    int (*submit)(stk_file *f, stk_io *io);
    /* Move pending reads on, waiting at most timeout_ms; called by one I/O thread of every loader
     * that reads here, so of several loaders at once.  May be NULL. */
    void (*drive)(int timeout_ms);
    /* Bytes that are in memory already and stay there while f is open; NULL: they don't.  May be
     * NULL. */
    const void *(*peek)(stk_file *f, uint64_t offset, size_t len);
    void (*close)(stk_file *f);
    /* Why this read failed, in a few words, where `sys` does not say it; 0: it does.  May be
     * NULL. */
    int (*reason)(const stk_io *io, char *text, size_t size);
    uint32_t can;
    /* A descriptor that has the file's bytes at the file's offsets, for io_uring and mmap; the
     * source keeps it.  -1: none.  NULL: never. */
    int (*fd)(const stk_file *f);
    /* Every file whose URL begins with `prefix`, sorted bytewise; with STK_SOURCE_LISTS.  each()'s
     * answer other than 0 ends it and is returned. */
    int (*list)(const char *prefix, const stk_store *s,
                int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                stk_error *err);
    /* Begin to write a file; with STK_SOURCE_PUTS. */
    int (*put)(const char *url, const stk_store *s, stk_put **out, stk_error *err);
    /* Bring all of the file to where fd() has it, waiting.  STK_END: there is no room.  May be
     * NULL. */
    int (*fill)(stk_file *f, stk_error *err);
    /* Remove a file; with STK_SOURCE_PUTS.  One that is not there is no error.  May be NULL. */
    int (*remove)(const char *url, const stk_store *s, stk_error *err);
    /* Remove what dead processes left of files that they wrote: of those whose URL begins with
     * `prefix` and for which dead() is not 0.  May be NULL. */
    int (*sweep)(const char *prefix, const stk_store *s, int (*dead)(void *cookie, const char *url),
                 void *cookie, stk_error *err);
    /* Begin several reads of a file at once, so that neighbours can become one: a list by `next`,
     * in order of offsets, of which none is empty.  STK_PENDING: done() comes for each.  Else none
     * was begun, and each is given to submit().  May be NULL. */
    int (*submit_all)(stk_file *f, stk_io *list);
    /* STK_ESTALE: the file was written to after it was opened.  recent: to have looked a moment ago
     * is enough.  NULL: reads see to it, or it cannot happen. */
    int (*unchanged)(stk_file *f, int recent, stk_error *err);
    /* Who is asked, and as whom, as a hash: where these are equal, one listing serves all ranks of
     * a host.  May be NULL. */
    uint64_t (*asked)(const stk_source *self, const stk_store *s);
};

/* ---- format: how samples are in bytes ---- */

typedef struct stk_field { /* one field of one sample, as indexed */
    const char *name;
    size_t name_len;
    uint64_t offset, size; /* in the shard; what they mean is the format's affair */
} stk_field;

typedef struct stk_scan { /* index() reports here */
    /* A key ends at a NUL; what is after it is the format's own and comes back in stk_entry. */
    int (*sample)(struct stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                  uint32_t n, stk_error *err);
    int (*progress)(struct stk_scan *scan, uint64_t offset); /* non-zero: stop */
    /* The shard can be read, and yet something is odd about it: at most once.  May be NULL. */
    void (*warn)(struct stk_scan *scan, const char *why);
    int salvage; /* a shard that is torn ends where it is: warn() with the reason, and succeed */
    int skip_damaged; /* leave damaged records out if the next one can be found, and warn() */
    /* CSV: the code point of each of the 256 bytes, UINT32_MAX: none.  NULL: it is UTF-8 */
    const uint32_t *encoding;
    const char *name; /* the shard's, where it is known; or NULL */
} stk_scan;

typedef struct stk_entry { /* what the index knows of a sample; borrowed from it */
    uint64_t shard, row;   /* row: number in its shard */
    uint64_t offset;
    uint32_t n_fields;
    uint32_t schema; /* samples with equal schema have the same field names in the same order */
    stk_bytes key;
    uint64_t fields;   /* the index's own: where the sample's fields begin in it */
    const void *state; /* of the data set: what the format's open() made; NULL: nothing */
} stk_entry;

typedef struct stk_place { /* where a field's bytes come from */
    uint64_t offset, len;  /* range of the shard to read */
    uint64_t block;        /* with `shared`: same number, same range, one cached block */
    int shared;            /* 0: the range is the field; 1: read, unpack(), pick() */
    /* bytes that unpack() makes at most; room is made for them before the range is read; without
     * `shared` 0: the range is the field as it is */
    uint64_t unpacked;
    stk_bytes here; /* .data set: these are the bytes, nothing is read */
    /* .data set: the range is of this file and not of the shard; relative to the shard's folder
     * (the shard itself where it is a folder).  Borrowed like the entry. */
    stk_bytes name;
    int whole;      /* with `name`: all from `offset` to the file's end, however much that is */
    int must_equal; /* with `name`: the file must have exactly offset + len bytes */
    int absent;     /* the sample has no value here: the chain's default stands in */
    uint64_t row;   /* the library's own */
    /* with `name`, .data set: it stands in place of the name's, without the dot */
    stk_bytes suffix;
    const char *root; /* with `name`: relative to this folder; NULL: the shard's */
    int listed;       /* with `name`: found by listing its folder: symlinks are followed */
} stk_place;

typedef struct stk_format_data { /* the whole data set, as its format may want to know it */
    const char *const *shards;   /* what is opened for shard 0, 1, ... */
    uint64_t n_shards;
    const char *const *classes; /* the list that the user fixed; NULL: none */
    uint32_t n_classes;
    const stk_bytes *first; /* key of each shard's first sample, all of it; no data: it has none */
} stk_format_data;

typedef struct stk_format {
    uint32_t abi, size;
    const char *name, *help;
    const char *suffixes; /* ".tar .tgz": probing order when the name fits */
    int (*probe)(const char *name, stk_bytes head); /* 0: no, 100: surely */
    /* Walk the shard once and report its samples in order. */
    int (*index)(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err);
    /* NULL: the field is its range in the shard. */
    int (*locate)(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err);
    /* A block's read bytes -> what pick() wants, in `dst`.  *len: how many bytes have room there
     * (stk_place.unpacked), then how many there are.  Called with no lock held. */
    int (*unpack)(stk_bytes raw, void *dst, size_t *len, stk_error *err);
    int (*pick)(stk_bytes block, const stk_entry *e, const stk_field *field, stk_bytes *out,
                stk_error *err);
    /* What holds for the whole data set, found once when it is opened; NULL: nothing does.  It is
     * in every stk_entry that locate(), find() and pick() are given. */
    int (*open)(const stk_format_data *in, void **state, stk_error *err);
    void (*close)(void *state);
    const char *(*class_name)(const void *state, uint32_t i); /* NULL past the last */
    /* The file that a field names, for `open` in a chain.  NULL: fields of this format name
     * none. */
    int (*find)(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err);
    int class_of_shard; /* 1: the field cls is the same in all samples of a shard */
} stk_format;

STK_API void *stk_alloc(size_t size); /* aligned to 64; NULL: no memory */
STK_API void stk_free(void *p);

/* ---- registry: what chains, URLs and probing can name ---- */

/* Add a plug-in to this process (table: stk_source, stk_format, ... by kind).  The table is copied;
 * what it points to must stay while the process runs.  Thread: any. */
STK_API STK_MUST_CHECK int stk_plugin_add(stk_plugin_kind kind, const void *table, stk_error *err);

typedef struct stk_registry stk_registry;
/* A list of its own for some loaders (stk_loader_options.registry): it has all that `parent` (NULL:
 * the process) has when it is opened, and what is added to it.  Loaders keep it until they are
 * closed.  Thread: one, until it is given to a loader. */
STK_API STK_MUST_CHECK int stk_registry_open(stk_registry **out, stk_registry *parent,
                                             stk_error *err);
/* Add to it; STK_EINVAL once a chain was planned with it.  Sources and formats belong to data sets,
 * so they are added to the process. */
STK_API STK_MUST_CHECK int stk_registry_add(stk_registry *r, stk_plugin_kind kind,
                                            const void *table, stk_error *err);
STK_API void stk_registry_close(stk_registry **r); /* NULL-safe, nulls */

#ifdef __cplusplus
}
#endif

#include <stoker/plugin_data.h>
#include <stoker/plugin_codec.h>
#include <stoker/plugin_decoder.h>
#include <stoker/plugin_op.h>
#include <stoker/plugin_loader.h>

#endif
