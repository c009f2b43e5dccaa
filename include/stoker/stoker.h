/* SPDX-License-Identifier: Apache-2.0 */
/* stoker.h - open a dataset, pull batches, close.  Errors: base.h.  Threads: docs/threads.md.
 *
 *     stk_dataset *ds = NULL;  stk_loader *l = NULL;  stk_batch *b = NULL;  stk_error e;
 *     const char *urls[] = { "train-{000..099}.tar" };
 *     stk_output out[] = { { "image", "from(jpg) | image | resize(256) | center_crop(224)" } };
 *     stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 1 };
 *     if (stk_dataset_open(&ds, urls, 1, NULL, &e) == 0 &&
 *         stk_loader_open(&l, &ds, 1, &o, &e) == 0)
 *         while (stk_loader_next(l, &b, -1, &e) == 0) { train(b); stk_batch_release(&b); }
 *     stk_loader_close(&l);  stk_dataset_unref(&ds);
 */
#ifndef STOKER_STOKER_H
#define STOKER_STOKER_H

#include <stoker/base.h>
#include <stoker/batch.h>
#include <stoker/dataset.h>
#include <stoker/ledger.h>
#include <stoker/seeing.h>
#include <stoker/stats.h>
#include <stoker/tools.h>
#include <stoker/transform.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_loader stk_loader; /* Epochs over one or more datasets.  Thread: one. */
#define STK_NONE (-1)                 /* for num_workers: everything in the caller's thread */

/* EXACT: all samples under one permutation.  BLOCK: shards are read one after the other, in many
 * streams at once, and mixed in windows (docs/order.md).  MEGATRON: token files with documents,
 * cut and shuffled as Megatron-LM does; epoch_size is its number of samples (docs/tokens.md). */
typedef enum stk_shuffle {
    STK_SHUFFLE_NONE = 0,
    STK_SHUFFLE_EXACT = 1,
    STK_SHUFFLE_BLOCK = 2,
    STK_SHUFFLE_MEGATRON = 3
} stk_shuffle;
typedef enum stk_on_error { STK_ON_ERROR_RAISE = 0, STK_ON_ERROR_SKIP = 1 } stk_on_error;

/* What becomes of rows that may differ in shape.  PAD: one tensor, as large as the largest row in
 * every dimension, the rest filled at the end of each; bytes are rows of u8, text stays strings.
 * PACK: joined along the first one.  STACK: refused by open() unless batch_size is 1. */
typedef enum stk_collate {
    STK_COLLATE_STACK = 0,
    STK_COLLATE_LIST = 1,
    STK_COLLATE_PAD = 2,
    STK_COLLATE_PACK = 3
} stk_collate;

typedef struct stk_output {
    const char *name;  /* the batch's name for it */
    const char *chain; /* "from(jpg) | image | resize(256) | to(u8)" */
} stk_output;

typedef struct stk_collation { /* of one output */
    stk_collate collate;
    double pad; /* what PAD fills with; must fit the output's type */
    /* PAD: rows are as long as a multiple of this (arrays: the first dimension; pictures: height
     * and width); 0: as the largest of the batch */
    uint32_t multiple;
} stk_collation;

struct stk_order; /* plugin.h */
struct stk_memory;
struct stk_stage;
struct stk_draw_observer;
struct stk_registry;
struct stk_caller;

/* `{ .size = sizeof o, .outputs = ..., .n_outputs = ... }` is complete. */
typedef struct stk_loader_options {
    uint32_t size;             /* sizeof this struct as the caller compiled it */
    uint32_t batch_size;       /* samples per batch and rank; default 1 */
    const stk_output *outputs; /* what a batch has; copied */
    uint32_t n_outputs;        /* at least 1 */
    int32_t num_workers;       /* 0: chosen; STK_NONE: in the caller's thread */
    uint32_t prefetch;         /* batches made ahead; 0: chosen */
    uint32_t io_threads;       /* threads for reads that would wait; 0: chosen */
    uint64_t seed;             /* order and augmentation depend on (seed, epoch, position) only */
    stk_shuffle shuffle;
    stk_tri drop_last;         /* default no */
    uint32_t rank, world_size; /* world_size 0: one */
    stk_on_error on_error;
    uint64_t skip_budget; /* skipped samples an epoch before it is an error; 0: no bound */
    stk_collate collate;
    uint64_t memory_limit; /* bytes of batches, reads, scratch; 0: a quarter of the memory */
    uint64_t max_pixels;   /* larger pictures are bad data; 0: 178,956,970 as Pillow's bomb limit */
    stk_log_fn log;
    void *log_cookie;
    const struct stk_order *order;         /* replaces `shuffle`; borrowed until close */
    const struct stk_memory *memory;       /* where outputs are allocated; NULL: the heap */
    const struct stk_stage *const *stages; /* run on every batch before it is handed out */
    uint32_t n_stages;
    /* A file that names samples to leave out: the manifest of stk_check(), or keys, one a line.
     * Read at open; an epoch then has that many samples less. */
    const char *exclude;
    /* One for each output, in place of `collate`; NULL: `collate` for all, padded with 0. */
    const stk_collation *collations;
    uint64_t global_batch_size; /* in place of batch_size: rows of all ranks, dealt evenly */
    const struct stk_draw_observer
        *watch; /* is told what was drawn for every picture; NULL: no one */
    /* Of STK_SHUFFLE_BLOCK: */
    uint64_t streams; /* a power of two; 0: at least the rows of a global batch, 256 to 16,384 */
    uint64_t window;  /* samples that are mixed, over all streams; 0: 65,536 */
    uint64_t window_bytes; /* in place of window: bytes, by the mean size of a sample */
    /* Ranks that share a node, the same number on all: they take turns in its part of a batch, so
     * that each has the mixture of the whole node.  Divides world_size; 0: one. */
    uint64_t ranks_per_node;
    /* Which samples take part, numbered through all data sets: those of `select` in its order, or
     * all; less `exclude`; of those left the first `skip` not, and `limit` of the next ones. */
    const uint64_t *select; /* ids; one that comes twice stands twice; copied; NULL: all */
    uint64_t n_select;
    uint64_t skip;
    uint64_t limit;      /* 0: no bound */
    uint64_t epoch_size; /* positions of an epoch: the order goes on from one to the next; 0: all */
    uint32_t repeat;     /* how often each stands in an epoch; 0: once */
    /* How they are drawn, in place of `shuffle`; at most one of the following.  Arrays have one
     * entry for each sample of all data sets, whether it takes part or not; copied. */
    stk_tri replacement;   /* weights, balance: a sample may come several times; default yes */
    const double *weights; /* how likely each is, not negative */
    uint64_t n_weights;
    /* a weight for each data set: they are mixed, and begin again when through */
    const double *mix;
    uint64_t n_mix;
    const uint32_t *balance; /* classes: a sample weighs 1 / the size of its class */
    uint64_t n_balance;
    const uint32_t *stratify; /* classes: every run of samples has its share of each */
    uint64_t n_stratify;
    /* Make seek points of baseline JPEGs that have none when they are first decoded, use them in
     * later epochs, and write them beside the index at the end of an epoch and at close; default
     * no.  At most 64 MB of them.  stk_index_options.jpeg makes all of them beforehand. */
    stk_tri learn_jpeg;
    /* Where batches are made whole: "cuda" (the current GPU, else LOCAL_RANK's) or "cuda:N":
     * tensors are there (stk_tensor.gpu), complete when handed out.  NULL, "cpu": here.  Strings
     * and JSON stay here.  libstoker_cuda is opened for it; STK_ENOTSUP says what is missing. */
    const char *device;
    /* "gpu": baseline JPEGs and videos are decoded there.  "cpu": all pictures by the workers.
     * NULL: as "gpu", but workers decode videos too while it has enough to do. */
    const char *decode;
    stk_tri pin_memory;           /* device "cpu": batches in page-locked memory; default no */
    uint64_t device_memory_limit; /* bytes of the GPU; 0: a quarter of its memory */
    uint32_t sm_limit;            /* multiprocessors that decoding may keep busy; 0: all */
    uint32_t in_flight;           /* batches on their way to the GPU at once, 1 to 8; 0: 4 */
    /* Batches by length (docs/tokens.md), for outputs whose rows differ in it.  Within windows of
     * `bucket` positions of the epoch rows of like length come together. */
    uint64_t
        max_tokens;  /* rows x the longest of them in a rank's batch; batch_size bounds the rows */
    uint64_t bucket; /* 0: with max_tokens 65,536, else rows come as they stand */
    /* Of each sample of all data sets, before truncate(); copied; NULL: kept beside the index, and
     * measured when they are first asked for. */
    const uint32_t *lengths;
    uint64_t n_lengths;
    /* "device", with device "cuda": the GPU keeps JPEGs that have seek points, encoded, from their
     * first use on, and arrays whole; their files are not read again while this loader lives.  What
     * does not fit comes as without it; batches are the same.  NULL, "none": nothing is kept. */
    const char *cache;
    uint64_t device_cache_limit;   /* bytes of the GPU for that; 0: half of those free at open */
    struct stk_registry *registry; /* what chains may name; kept; NULL: what the process has */
    /* on whole batches, before `stages`: "mixup(image, label) | ..."; NULL: none */
    const char *batch_ops;
    const struct stk_caller *caller; /* functions that `call` of chains names; copied; NULL: none */
    /* Batches by seconds of sound (docs/sound.md): rows x the longest of them in a rank's batch, by
     * durations that the index has; with max_tokens too, batches keep within both.  `lengths` are
     * then those of the recordings, in tenths of a millisecond. */
    double max_seconds;
    double quadratic_duration; /* a row of s seconds counts s + s * s / this; 0: s */
    /* Patches of a picture that change by batch: "128,256,576", or with the side of a patch
     * "16:576,32:144".  Each step draws one, the same on all ranks; a rank's batch has max_tokens
     * divided by it, a multiple of 8 if that is 8 or more.  NULL: none. */
    const char *schedule;
    /* Pictures of one size come together (bucket), or a schedule: what happens to a rest that is
     * less than a batch of all ranks.  "smaller": a smaller batch.  "drop": it is left out of this
     * epoch.  "wrap": a whole batch, filled with samples that came before.  NULL: "drop" with
     * drop_last, else "smaller". */
    const char *bucket_rest;
    /* A sample that is longer than max_tokens or max_seconds.  "bad": opening fails, with its key
     * and the numbers; with on_error skip it is a bad sample.  "drop": it is in no batch.
     * "truncate": its pictures keep the whole rows of patches that fit, from the top.  NULL:
     * "bad". */
    const char *over_budget;
} stk_loader_options;

/* The options above that are set in words (command line, documentation), from
 * src/loader/options.def: entry i; STK_END past the last. */
typedef struct stk_option_info {
    const char *name;     /* of the field */
    const char *values;   /* "LOW..HIGH", or the words that it takes */
    const char *fallback; /* "auto": chosen by the loader */
    const char *help;
    int flag; /* given without a value it means yes */
} stk_option_info;

/* 0 or STK_END; strings are static. */
STK_API int stk_option_list(size_t i, stk_option_info *out);

/* Set the field `name` from text ("256", "4GB", "auto"); num_workers "0" is STK_NONE. */
STK_API STK_MUST_CHECK int stk_option_set(stk_loader_options *opt, const char *name,
                                          const char *text, stk_error *err);

/* Open over `data` (borrowed here, referenced by the loader).  *out: owned by the caller, end with
 * stk_loader_close(); NULL on failure.  err: may be NULL.  Returns 0 or a negative STK_E*.
 * No thread is started before the first stk_loader_next(). */
STK_API STK_MUST_CHECK int stk_loader_open(stk_loader **out, stk_dataset *const *data, size_t n,
                                           const stk_loader_options *opt, stk_error *err);

/* The next batch of the epoch.  Waits at most `timeout_ms` (-1: without limit, then STK_ETIMEOUT).
 * STK_END ends the epoch; the call after it begins the next one.  A failure moves nothing: position
 * and ledger count what was handed out, and the call after it makes the batch again. */
STK_API STK_MUST_CHECK int stk_loader_next(stk_loader *l, stk_batch **out, int timeout_ms,
                                           stk_error *err);

/* The batch that stk_loader_next() will hand out, without taking it: the loader's place and its
 * ledger stay as they are.  *out is a second reference to it, to be released.  STK_END: none is
 * left in this epoch, and stk_loader_next() ends it.  So a caller that may be interrupted while it
 * turns a batch into its own objects can do that first, and then take it by stk_loader_next(),
 * which does not wait then. */
STK_API STK_MUST_CHECK int stk_loader_peek(stk_loader *l, stk_batch **out, int timeout_ms,
                                           stk_error *err);
/* Make it again: for a caller that changed what peek() gave, and failed. */
STK_API STK_MUST_CHECK int stk_loader_again(stk_loader *l, stk_error *err);
/* With pin_memory: copies of batches to a GPU are queued on `stream` (a cudaStream_t), and batches
 * may be let go before they are through.  Say so before the first such copy; up to 4 streams. */
STK_API void stk_loader_copies_on(stk_loader *l, void *stream);

/* Where the consumer stands: the epoch and the steps taken in it. */
STK_API void stk_loader_where(const stk_loader *l, uint64_t *epoch, uint64_t *step);

/* How many positions of the epoch, over all ranks, the consumers have received. */
STK_API uint64_t stk_loader_position(const stk_loader *l);

/* Go on at (epoch, position), wherever that is, whatever batch and world size brought it there:
 * an epoch is the same sequence of positions for all of them. */
STK_API STK_MUST_CHECK int stk_loader_resume(stk_loader *l, uint64_t epoch, uint64_t position,
                                             stk_error *err);

/* Go on at (epoch, step); batches that were made ahead and don't fit are dropped. */
STK_API STK_MUST_CHECK int stk_loader_seek(stk_loader *l, uint64_t epoch, uint64_t step,
                                           stk_error *err);

/* The streams and the window of STK_SHUFFLE_BLOCK; both 0 with another order. */
STK_API void stk_loader_streams(const stk_loader *l, uint64_t *streams, uint64_t *window);

/* Take others, so that the order is that of the loader whose state is taken up.  The loader stays
 * where it is; batches that were made ahead are dropped. */
STK_API STK_MUST_CHECK int stk_loader_set_streams(stk_loader *l, uint64_t streams, uint64_t window,
                                                  stk_error *err);

/* Batches of the consumer's epoch; equal on all ranks.  Where lengths make them, epochs differ. */
STK_API uint64_t stk_loader_steps(const stk_loader *l);
/* The same of any epoch. */
STK_API uint64_t stk_loader_steps_of(const stk_loader *l, uint64_t epoch);
STK_API uint64_t stk_loader_samples(const stk_loader *l); /* samples an epoch, all ranks together */

/* What a position is counted up to in an epoch: its samples, or with max_tokens its batches. */
STK_API uint64_t stk_loader_positions(const stk_loader *l, uint64_t epoch);

/* Of max_tokens and bucket: the window, and what stays together in it: batches (max_tokens) or
 * samples (bucket).  `print`: the fingerprint of the lengths.  All 0 without them. */
STK_API void stk_loader_bins(const stk_loader *l, uint64_t *window, uint64_t *together,
                             uint64_t *print);
/* 1: a batch of all ranks has pictures of one size (bucket), or follows a schedule.  `together` is
 * then the number of ranks, and to take others names the epoch in `window`, + 1: it alone is gone
 * on with as it was begun. */
STK_API int stk_loader_groups(const stk_loader *l);

/* Take others, so that batches are those of the loader whose state is taken up.  The loader stays
 * where it is; batches that were made ahead are dropped. */
STK_API STK_MUST_CHECK int stk_loader_set_bins(stk_loader *l, uint64_t window, uint64_t together,
                                               stk_error *err);

/* Samples of data set i (as they were given, from 0) that ids are counted through: its length, or
 * its windows where chains cut tokens.  0 past the last. */
STK_API uint64_t stk_loader_samples_of(const stk_loader *l, uint32_t i);

/* The position of a sample (its id: stk_batch_ids()) in an epoch, over all ranks.
 * STK_ENOTFOUND: it does not stand there.  An order of one's own is searched. */
STK_API STK_MUST_CHECK int stk_loader_find(const stk_loader *l, uint64_t epoch, uint64_t id,
                                           uint64_t *position, stk_error *err);

/* The fingerprint of the data, all data sets together, and of what takes part. */
STK_API STK_MUST_CHECK int stk_loader_print(const stk_loader *l, stk_fingerprint *out,
                                            stk_error *err);

/* The fingerprint of weights, balance or stratify; 0: none of them is given. */
STK_API uint64_t stk_loader_drawn_print(const stk_loader *l);

/* The fingerprint of an output's chain: its steps, their arguments with defaults filled in, and the
 * version of what they mean.  0 past the last output. */
STK_API uint64_t stk_loader_chain_print(const stk_loader *l, uint32_t output);
/* What it was up to version 0.1 for the same text without exact=true: other pixels of JPEGs. */
STK_API uint64_t stk_loader_chain_old_print(const stk_loader *l, uint32_t output);

/* Keep a ledger in `folder` (made if missing): from now on the ids that workers put into rows, and
 * which rows are valid, are written before a batch is handed out, by one write a step, into one
 * file for this rank and generation.  What can't be written is a failure of stk_loader_next(),
 * which then hands nothing out and can be called again.  `generation` counts the lives of the run,
 * (epoch, position) is where this one took up: equal on all ranks.  A file of the same rank and
 * generation is replaced when the first batch comes: it was a try from the same checkpoint.  NULL
 * ends the ledger; the folder and generation that is written already: nothing changes. */
STK_API STK_MUST_CHECK int stk_loader_ledger(stk_loader *l, const char *folder, uint64_t generation,
                                             uint64_t epoch, uint64_t position, stk_error *err);
/* A mixture of data sets keeps its weights as parts of 2^20, from a position on that is counted
 * through all epochs (epoch * epoch_size + position). */
typedef struct stk_mix_change_info {
    uint64_t from;
    const uint32_t *parts; /* of each data set; together 2^20 */
    const uint64_t *base;  /* how many of each data set came before */
    uint32_t n;            /* data sets */
} stk_mix_change_info;

/* Mix by other weights from (epoch, position) on; batches made ahead are dropped.  STK_EINVAL: the
 * loader was opened without `mix`. */
STK_API STK_MUST_CHECK int stk_loader_set_weights(stk_loader *l, const double *weights, size_t n,
                                                  uint64_t epoch, uint64_t position,
                                                  stk_error *err);
/* The weights from the beginning (i is 0) and every change of them; the loader's until the next
 * change.  A state needs the one that holds where it is and those after.  STK_END past the last. */
STK_API int stk_loader_mix(const stk_loader *l, uint64_t i, stk_mix_change_info *out);
/* Those of a state; before the first of them, what is mixed is not what it was. */
STK_API STK_MUST_CHECK int stk_loader_set_mix(stk_loader *l, const stk_mix_change_info *all,
                                              size_t n, stk_error *err);

/* Park or add workers while running.  n >= 1. */
STK_API STK_MUST_CHECK int stk_loader_set_workers(stk_loader *l, uint32_t n, stk_error *err);

/* How many batches may be in flight at once, 1 to stk_stats.slots, which is what it begins with:
 * fewer take less memory.  Batches are the same.  Fewer count from the next batch on that would be
 * opened, more when stk_loader_next() is called.  Thread: any, until close. */
STK_API STK_MUST_CHECK int stk_loader_set_ahead(stk_loader *l, uint32_t n, stk_error *err);

typedef struct stk_doing { /* what a worker does now */
    stk_stage_id stage;
    uint64_t ticket; /* the row, numbered through since the last seek; of several the first */
    uint64_t ns;     /* for so long */
} stk_doing;

STK_API const char *stk_stage_name(stk_stage_id id); /* "fetch"; a static string */

/* Fill *out up to out->size, which the caller has set.  Thread: any, until close; it waits for no
 * other thread, also not for one in stk_loader_next().  Figures may be some instructions apart. */
STK_API void stk_loader_stats(const stk_loader *l, stk_stats *out);

/* What worker i does; STK_END past the last, or before all batches.  Thread: any, until close. */
STK_API int stk_loader_doing(const stk_loader *l, uint32_t i, stk_doing *out);

/* The i-th skipped sample, of 1,000, each once; STK_END past the last.  Thread: any till close. */
STK_API int stk_loader_skipped(const stk_loader *l, uint64_t i, stk_error *out);

/* Stop, join and free; nulls the pointer.  In a forked child it frees nothing and joins no one. */
STK_API void stk_loader_close(stk_loader **l);
#ifdef __cplusplus
}
#endif
#endif
