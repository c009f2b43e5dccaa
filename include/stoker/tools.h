/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - jobs around loading, with progress: index, write, pack, check; and listings for
 * people. */
#ifndef STOKER_TOOLS_H
#define STOKER_TOOLS_H

#include <stoker/base.h>
#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_index_options {
    uint32_t size;
    uint32_t num_workers;  /* 0: the cores there are */
    stk_tri force;         /* build again also when there is a good one */
    const char *cache_dir; /* as in stk_dataset_options */
    const char *format;
    stk_progress_fn progress; /* in bytes of shards */
    void *progress_cookie;
    stk_log_fn log;
    void *log_cookie;
    /* Typed columns to have besides those that are there: a field ("cls"), or a member of a field
     * that holds JSON ("json.width"). */
    const char *const *columns;
    uint32_t n_columns;
    stk_tri jpeg; /* also keep seek points of baseline JPEGs: where to begin decoding a crop */
    stk_progress_fn jpeg_progress; /* in samples; with progress_cookie */
    stk_store *store;              /* as in stk_dataset_options */
    /* Index every parts-th shard only, from number `part` on, beside other processes that index the
     * rest into the same folder; then `merge` makes the index of all of theirs, and reads what no
     * part has.  parts 0: all. */
    uint32_t part, parts;
    stk_tri merge;
} stk_index_options;

typedef struct stk_index_report {
    uint32_t size;
    uint64_t shards, samples, fields, data_bytes, index_bytes, reused_shards;
    int built; /* 0: a good index was there */
    char path[1024];
    uint64_t columns;                       /* typed ones that it has of every shard */
    uint64_t jpegs, jpeg_bytes, seek_bytes; /* JPEGs with seek points, their bytes, the points' */
    uint64_t jpegs_without;                 /* JPEGs that have none: progressive, damaged, small */
    /* rows of a table need no index: built, index_bytes and path are of its row seek points, if it
     * has any */
    int table;
} stk_index_report;

/* Build the index of the shards `urls` name, or find that it is there; repairs a stale or damaged
 * one. */
STK_API STK_MUST_CHECK int stk_index_build(const char *const *urls, size_t n,
                                           const stk_index_options *opt, stk_index_report *report,
                                           stk_error *err);

/* ---- write: samples one by one into tar shards ---- */

typedef struct stk_writer stk_writer; /* Thread: one. */

typedef struct stk_part { /* a field to be written */
    const char *name;
    const void *data;
    size_t len;
} stk_part;

typedef struct stk_writer_options {
    uint32_t size;
    stk_tri force;    /* replace shards that are there */
    uint64_t samples; /* in a shard, at most; 0: no bound */
    uint64_t bytes;   /* of a shard, about; 0: no bound, or 500 MB where samples has none either */
    uint64_t first;   /* number of the first shard */
    int64_t mtime;    /* of the members, seconds since 1970; 0 makes equal input equal bytes */
    stk_tri empty;    /* without any sample: one shard without members, not none */
    stk_store *store; /* how a bucket is reached (store.h); NULL: by the environment; held */
} stk_writer_options;

/* Write shards called `pattern`, with one number ("out/train-%06d.tar"; without one it is a
 * folder).  A name that ends in .tar.gz, .tar.zst or .tar.lz4 compresses them, as in
 * stk_pack_options.  A shard appears under its name when it is whole and on disk. */
STK_API STK_MUST_CHECK int stk_writer_open(stk_writer **out, const char *pattern,
                                           const stk_writer_options *opt, stk_error *err);
/* Add a sample.  STK_EINVAL, for a key or field that would not be read back as it is, changes
 * nothing; any other failure ends the writer. */
STK_API STK_MUST_CHECK int stk_writer_add(stk_writer *w, const char *key, size_t key_len,
                                          const stk_part *parts, uint32_t n, stk_error *err);
typedef struct stk_new_sample {
    const char *key;
    size_t key_len;
    const stk_part *parts;
    uint32_t n;
} stk_new_sample;

/* Add samples, all or none of them: STK_EINVAL for one of them changes nothing. */
STK_API STK_MUST_CHECK int stk_writer_add_all(stk_writer *w, const stk_new_sample *samples,
                                              size_t n, stk_error *err);
/* End the shard that is being written, still without its name, and say its size (0: there is none).
 * After that comes commit(), or close() drops it. */
STK_API STK_MUST_CHECK int stk_writer_finish(stk_writer *w, uint64_t *size, stk_error *err);
/* Finish the shard that is being written. */
STK_API STK_MUST_CHECK int stk_writer_commit(stk_writer *w, stk_error *err);
/* So far: shards finished, samples taken, bytes of the finished shards. */
STK_API void stk_writer_counts(const stk_writer *w, uint64_t *shards, uint64_t *samples,
                               uint64_t *bytes);
STK_API void stk_writer_close(stk_writer **w); /* a shard that was not committed is removed */

/* ---- pack: a data set into tar shards ---- */

typedef struct stk_pack_options {
    uint32_t size;
    uint32_t num_workers; /* shards written at a time; 0: the cores there are */
    uint64_t samples;     /* as in stk_writer_options */
    uint64_t bytes;
    stk_tri shuffle; /* write samples in a permuted order */
    stk_tri force;   /* replace what is there, also beyond the last shard */
    uint64_t seed;   /* of the shuffle */
    int64_t mtime;
    const char *name;         /* of shards in a folder: DST/NAME-%06d.tar; NULL: "shard" */
    stk_tri no_index;         /* don't index the new shards */
    stk_progress_fn progress; /* in bytes */
    void *progress_cookie;
    stk_log_fn log;
    void *log_cookie;
    stk_tri jpeg;                  /* also keep seek points, as in stk_index_options */
    stk_progress_fn jpeg_progress; /* in samples; with progress_cookie */
    /* Fields that chains make, each ending in encode(): { "jpg", "image | resize(256) |
     * encode(jpeg, 90)" }; an empty chain leaves the field out.  Other fields are copied.  0: all
     * are.  Shards are then cut by the bytes of the source.  A sample that can't be made is left
     * out and listed. */
    const struct stk_output *fields;
    uint32_t n_fields;
    /* Which samples take part: those of `select` (ids, in their order), or all; less what the file
     * `exclude` names (as in stk_loader_options), and of these what satisfies `where`; then
     * `fraction` (0: all), by a hash of the key, so that the choice stays when data is added; then
     * `dedup`; then those whose hash is from keep_from up to keep_to, both in 0..1 (0 and 0: all);
     * then `balance`. */
    const uint64_t *select;
    uint64_t n_select;
    const char *exclude;
    const char *where; /* a condition on columns, as for stk_dataset_where(); NULL: none */
    double fraction, keep_from, keep_to;
    /* Write only part `part` of so many (below 2^32), shards that follow each other, beside other
     * processes that write the rest, and no index; then `merge` looks that all are there and writes
     * the index.  parts 0: all. */
    uint64_t part, parts;
    stk_tri merge;
    stk_tri plan_only; /* fill the report, write nothing */
    /* Of the target, only the samples that an earlier pack of it could not make: the good ones go
     * to shards of their own, "again-" before their number. */
    stk_tri only_failed;
    /* Of samples that are alike the first: "exact" (all fields have equal bytes) or "near" (or
     * pictures look alike); "exact:txt", "near:jpg": by one field.  NULL: all.  The data is read
     * once before the plan is made, and what was found is kept in the target's folder. */
    const char *dedup;
    stk_progress_fn dedup_progress; /* in samples; with progress_cookie */
    /* A column (as for stk_column_open) whose values are classes: of each as many as the smallest
     * has, or at most so many: "cls", "cls:1000".  Samples without a value are left out.  NULL:
     * all. */
    const char *balance;
    /* Shards are compressed: "gz", "zstd" (in the seekable format) or "lz4", in frames of whole
     * samples, and called NAME-000000.tar.gz, .tar.zst or .tar.lz4.  NULL: as the name in `dst`
     * says.  They get no index. */
    const char *compress;
    /* what chains of `fields` may name; NULL: what the process has */
    struct stk_registry *registry;
    /* Write arrays in place of tar shards: FIELD-000000.npy, NAME-FIELD-000000.npy with a name, of
     * each field that a chain makes; the chains end without encode().  Rows of a field have one
     * type and shape, or it is an error. */
    stk_tri arrays;
    uint64_t expect; /* the fingerprint that the plan must have (stk_pack_report); 0: any */
    /* how a target in a bucket is reached; NULL: by the environment.  Not the source's, which is
     * open */
    stk_store *store;
} stk_pack_options;

typedef struct stk_pack_dropped { /* samples that were not chosen, by reason */
    uint64_t exclude, where, fraction, split, duplicates, near_duplicates, balance;
} stk_pack_dropped;

typedef struct stk_pack_report {
    uint32_t size;
    uint64_t shards, samples, bytes; /* of the target as it is now */
    uint64_t kept_shards;            /* were there already with this content */
    uint64_t changed_keys;           /* samples whose key tar shards can't hold as it was */
    char pattern[1024];              /* of the shards: "out/train-{000000..000041}.tar" */
    uint64_t jpegs, jpeg_bytes, seek_bytes, jpegs_without; /* as in stk_index_report */
    /* samples that could not be made; DIR/.stoker/PATTERN.failed lists them */
    uint64_t failed;
    uint64_t left_out;    /* samples that were not chosen: the sum of `dropped` */
    uint64_t fingerprint; /* of source and options: equal plans have equal ones */
    stk_pack_dropped dropped;
} stk_pack_report;

/* Write `ds` as tar shards to `dst`: a pattern as for stk_writer_open(), or a folder.  One job a
 * shard.  Does nothing where the target has this content already; goes on where a run of the
 * same was stopped; refuses (STK_EINVAL) to replace anything else unless `force`. */
STK_API STK_MUST_CHECK int stk_pack(stk_dataset *ds, const char *dst, const stk_pack_options *opt,
                                    stk_pack_report *report, stk_error *err);

/* The samples that take part in a pack, in the order in which they are written; of `opt` what
 * chooses samples, shuffle and seed count.  The report has samples, left_out, dropped, and as
 * fingerprint that of the source alone.  *ids: end with stk_free() (plugin.h). */
STK_API STK_MUST_CHECK int stk_pack_ids(stk_dataset *ds, const char *dst,
                                        const stk_pack_options *opt, uint64_t **ids,
                                        stk_pack_report *report, stk_error *err);

/* A plan of a pack as a file: the arguments of the command that does it, and what they came to when
 * it was written.  Every shard follows from it and from its number, so that many processes can
 * share the work. */
typedef struct stk_pack_plan {
    uint32_t size;
    uint32_t n_args;
    const char *const *args;
    uint64_t fingerprint, shards, samples; /* of stk_pack_report, summed up over all targets */
} stk_pack_plan;

/* Write it to `path`, whole or not at all. */
STK_API STK_MUST_CHECK int stk_pack_plan_save(const char *path, const stk_pack_plan *plan,
                                              stk_error *err);
/* *out: end with stk_pack_plan_free(). */
STK_API STK_MUST_CHECK int stk_pack_plan_load(stk_pack_plan **out, const char *path,
                                              stk_error *err);
STK_API void stk_pack_plan_free(stk_pack_plan **plan); /* NULL-safe, nulls */

/* ---- packing of rows by their lengths ---- */

typedef struct stk_fit_info {
    uint64_t rows, tokens;
} stk_fit_info;

typedef struct stk_fit_options {
    uint32_t size;
    uint32_t block;  /* tokens of a row; documents that are longer are cut */
    uint32_t window; /* so many documents at a time; 0: 65,536 */
    int first;       /* 1: by first fit; 0: by best fit */
} stk_fit_options;

/* What packing makes of n lengths in this order.  STK_EINVAL: no such block. */
STK_API STK_MUST_CHECK int stk_fit_lengths(const uint32_t *lengths, uint64_t n,
                                           const stk_fit_options *options, stk_fit_info *out,
                                           stk_error *err);

STK_REPLACED_BY("stk_fit_lengths()")
static inline int stk_pack_lengths(const uint32_t *lengths, uint64_t n, uint32_t block, int best,
                                   uint32_t window, stk_fit_info *out, stk_error *err)
{
    stk_fit_options o;

    o.size = sizeof o;
    o.block = block;
    o.window = window;
    o.first = !best;
    return stk_fit_lengths(lengths, n, &o, out, err);
}

/* ---- check: read and decode everything ---- */

typedef enum stk_bad_kind {
    STK_BAD_DATA = 1,    /* the sample, or without a key the shard, is damaged */
    STK_BAD_UNSUPPORTED, /* it is right as far as one sees, but this build can't decode it */
    STK_BAD_POINTS,      /* the sample is good, its seek points do not fit */
    STK_BAD_INDEX,       /* the index says something else than the shard */
    STK_BAD_WARNING,     /* the shard can be read and is odd, as a tar file without its end mark */
} stk_bad_kind;

typedef struct stk_bad { /* what was found; borrowed for the call */
    const char *shard;   /* relative, as in a manifest for stk_loader_options.exclude */
    uint64_t offset;     /* of the sample in it, or STK_NO_OFFSET */
    const char *key;     /* NULL: it is about the shard itself; not terminated */
    size_t key_len;
    int code;           /* 0: a warning */
    const char *reason; /* one line, fit to be shown */
    stk_bad_kind kind;
} stk_bad;

struct stk_output; /* stoker.h */

typedef struct stk_check_options {
    uint32_t size;
    uint32_t num_workers;  /* 0: the cores there are */
    const char *cache_dir; /* as in stk_dataset_options */
    const char *format;
    const struct stk_output *outputs; /* chains to run; NULL: by content and name of each field */
    uint32_t n_outputs;
    uint64_t max_pixels; /* as in stk_loader_options */
    /* One thread at a time, in no order. */
    void (*bad)(void *cookie, const stk_bad *what);
    void *bad_cookie;
    stk_progress_fn progress; /* in samples */
    void *progress_cookie;
    stk_log_fn log;
    void *log_cookie;
    stk_store *store;  /* as in stk_dataset_options */
    const char *where; /* only samples that satisfy it, as in stk_dataset_where(); NULL: all */
} stk_check_options;

#define STK_CHECK_KINDS 32

typedef struct stk_check_kind { /* fields that were decoded as one kind of content */
    const char *name;           /* "jpeg", "gzip", "json", "int", ...; static */
    uint64_t fields;
} stk_check_kind;

typedef struct stk_check_report {
    uint32_t size;
    uint64_t shards, samples, bytes;
    uint64_t bad_shards, bad_samples;
    uint64_t pictures;     /* decoded whole */
    uint64_t unchecked;    /* fields of a kind that this build can't decode, of another name */
    uint64_t misfits;      /* JPEGs that are not what their seek points were made of */
    uint64_t unsupported;  /* samples and shards: STK_BAD_UNSUPPORTED */
    uint64_t index_faults; /* STK_BAD_INDEX; of a shard's many only the first are told */
    uint64_t warnings;     /* STK_BAD_WARNING */
    uint64_t fields;       /* that were read; 0 with chains, which read what they want */
    uint64_t only_read;    /* of these: neither content nor name says what they are */
    uint32_t n_kinds;
    stk_check_kind kind[STK_CHECK_KINDS];
} stk_check_report;

/* Read every sample and decode what its content says it is: pictures whole, gzip, zstd, npy, npz,
 * JSON.  Names decide where content can't: jpg must be a picture, cls a whole number, json JSON,
 * txt UTF-8.  The shards are walked and compared with their index.  What is found goes to `bad`
 * and is not a failure; a shard that can't be read as such is reported and the rest goes on.
 * Failures of the machine (STK_EIO, STK_ENOMEM: no descriptors, no memory, a disk that fails) are
 * retried, and then end it: they say nothing of the data. */
STK_API STK_MUST_CHECK int stk_check(const char *const *urls, size_t n,
                                     const stk_check_options *opt, stk_check_report *report,
                                     stk_error *err);

/* The registry, for people: entry i of a kind; STK_END past the last. */
typedef enum stk_plugin_kind {
    STK_PLUGIN_SOURCE = 1,
    STK_PLUGIN_FORMAT,
    STK_PLUGIN_CODEC,
    STK_PLUGIN_DECODER,
    STK_PLUGIN_OP,
    STK_PLUGIN_DATA
} stk_plugin_kind;

typedef struct stk_plugin_info {
    const char *name, *help;
    const struct stk_arg *args; /* plugin.h; ends with a NULL name; may be NULL */
} stk_plugin_info;

/* 0 or STK_END.  Strings live as long as the process. */
STK_API int stk_plugin_list(stk_plugin_kind kind, size_t i, stk_plugin_info *out);

/* Are the names of a chain's steps and their arguments right?  `text` may be a part of a chain that
 * begins at a picture.  What only data can tell (its fields, its types) is checked when a loader is
 * opened. */
STK_API STK_MUST_CHECK int stk_chain_check(const char *text, stk_error *err);

typedef struct stk_video_info { /* what the tables of a video say */
    uint32_t size;
    uint32_t width, height;          /* upright */
    uint64_t frames;                 /* that are shown */
    uint64_t keyframes, longest_gop; /* ... and frames from one keyframe to the next, at most */
    int64_t first_us, duration_us;
    const char *codec;
} stk_video_info;
/* Of the first video track of a file.  store: how remote files are reached; NULL: as usual. */
STK_API STK_MUST_CHECK int stk_video_info_read(const char *url, const stk_store *store,
                                               stk_video_info *out, stk_error *err);
/* The same of a field of a sample: what the index keeps of it, else by its tables.  STK_END: it is
 * not a video. */
STK_API STK_MUST_CHECK int stk_dataset_video_info(stk_dataset *ds, uint64_t id, uint32_t field,
                                                  stk_video_info *out, stk_error *err);
/* In a line of at most 600 bytes: which libraries decode videos here, and what to install for one
 * that is missing.  Opens them. */
STK_API void stk_video_libraries(char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
