/* SPDX-License-Identifier: Apache-2.0 */
/* seeing.h - what holds a training loop up: figures of a consumer at two moments become one
 * sentence.
 *
 * A sight is what is known of one consumer and its loader at one moment: sums that only grow, and a
 * few settings.  stk_loader_sight() takes it of our loaders; Python takes it of any iterable
 * (stoker.watch()).  stk_diagnose() compares two of them, and the same rules speak for both. */
#ifndef STOKER_SEEING_H
#define STOKER_SEEING_H

#include <stoker/base.h>
#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stk_cause {
    STK_CAUSE_NONE,     /* too little was seen */
    STK_CAUSE_MODEL,    /* the step itself: batches are ready when they are asked for */
    STK_CAUSE_CONSUMER, /* the loop's own code on the CPU, not the device */
    STK_CAUSE_START,    /* opening, and waiting for first batches */
    STK_CAUSE_STORAGE,  /* reads of local files */
    STK_CAUSE_NETWORK,  /* reads from far away */
    STK_CAUSE_DECODE,
    STK_CAUSE_AUGMENT,
    STK_CAUSE_PYTHON, /* code of the data set, collate apart; functions that `call` names */
    STK_CAUSE_COLLATE,
    STK_CAUSE_COPY,      /* to the GPU */
    STK_CAUSE_WORKERS,   /* too few, or more than cores */
    STK_CAUSE_RING,      /* too few batches are made ahead */
    STK_CAUSE_MEMORY,    /* memory_limit */
    STK_CAUSE_NEIGHBOUR, /* another process on these cores */
    STK_CAUSE_RANK,      /* another rank is the slow one, or this one */
    STK_CAUSE_LOCK,      /* workers wait for one that others hold */
    STK_CAUSES
} stk_cause;

STK_API const char *stk_cause_name(stk_cause c); /* "decode"; a static string */

/* Sums since the consumer began, in seconds unless said otherwise; a figure that is not known is
 * negative.  `busy_s`: time of all workers together, by what they were at: of the causes STORAGE,
 * NETWORK, DECODE, AUGMENT, PYTHON, COLLATE, MEMORY, LOCK. */
typedef struct stk_sight {
    uint32_t size;
    double at_s; /* the moment, from when the loader was opened on */
    double steps, samples, bytes;
    double wait_s; /* the consumer waited for data, start included */
    /* of it: opening, first batches (of each epoch, where workers start again) */
    double start_s;
    double consumer_cpu_s; /* the consumer's thread ran on a core, or could have */
    double busy_s[STK_CAUSES];
    double idle_s;            /* workers had nothing to do */
    double delay_s;           /* workers could run, and no core was free */
    double others_s;          /* CPU time that other processes had of our cores */
    double copy_s;            /* the GPU's copy engine was busy */
    double cold, remote;      /* reads that had to be waited for, and of them those from far away */
    double jpegs, jpegs_seek; /* decoded, and of them from seek points */
    double cache_hits, cache_misses;
    /* settings and states, as they are now */
    double workers;                    /* 0: none, all is done in the consumer's thread */
    double cores;                      /* that this process may use */
    double slots;                      /* batches that may be made ahead */
    double slots_short;                /* 1: memory_limit allows no more of them */
    double memory_peak, memory_limit;  /* bytes */
    double gpu;                        /* 1: there is one */
    double sm_share, gpu_memory_share; /* of 1, from NVML: mean since the last look */
    double clip_queue_s;               /* a sum: clips waited for one of the GPU's video decoders */
} stk_sight;

#define STK_MAX_CHECKS 12

typedef struct stk_check_line {     /* a figure beside what is usual in the field */
    const char *name, *unit, *rule; /* static: "batch wait", "% of the step", "under 1" */
    double value;
    int good;
} stk_check_line;

typedef struct stk_diagnosis {
    uint32_t size;
    stk_cause cause;
    double gain;    /* at most so many times the rate, when the cause is removed */
    double share;   /* of the wall time that the loop waited for data */
    double ceiling; /* steps per second of a loop that never waits */
    uint32_t rank;  /* of STK_CAUSE_RANK */
    char sentence[480];
    char remedy[200]; /* a command or a line of Python */
    uint32_t n_checks;
    stk_check_line check[STK_MAX_CHECKS];
    double gain_low; /* at least: half of the cause stays, or what is left does not overlap */
} stk_diagnosis;

typedef struct stk_diagnose_options {
    uint32_t size;
    const char *data; /* for commands; NULL: DATA */
    stk_tri foreign;  /* the loader is not ours: remedies are for a PyTorch DataLoader */
    /* which of `call` took most of PYTHON's time; NULL: it is the data set's code */
    const char *function;
} stk_diagnose_options;

struct stk_loader;
/* Fill *out up to out->size.  Thread: any, until close; it reads /proc, so some 100 us. */
STK_API void stk_loader_sight(const struct stk_loader *l, stk_sight *out);

/* ---- trace: what every thread did, from when to when ---- */

#define STK_CONSUMER UINT32_MAX
#define STK_SPANS 65536 /* of a thread, usually: 1.5 MiB */

typedef struct stk_trace_span {
    uint32_t thread; /* a worker's number, or STK_CONSUMER: the loop was in next() */
    uint32_t stage;  /* a stk_stage_id; of the consumer STK_STAGES */
    /* of the row since the last seek, of several the first; the consumer's: of the step */
    uint64_t number;
    uint64_t from_ns, to_ns; /* since the loader was opened */
} stk_trace_span;

/* From now on keep the last `spans` stages of every thread (rounded up to a power of two; of the
 * first call the number counts); 0: note no more.  Until it is called nothing is noted.  Thread: as
 * stk_loader_next(). */
STK_API STK_MUST_CHECK int stk_loader_trace(struct stk_loader *l, uint32_t spans, stk_error *err);
/* What was noted since, thread by thread, by time.  How many, at most `cap`; out NULL: how many
 * there can be.  Thread: any, until close. */
STK_API uint64_t stk_loader_spans(const struct stk_loader *l, stk_trace_span *out, uint64_t cap);
/* The same as JSON for Perfetto and chrome://tracing, in pieces.  put() answers 0, or else it ends
 * with STK_EIO.  Thread: any, until close. */
STK_API STK_MUST_CHECK int stk_loader_trace_text(const struct stk_loader *l,
                                                 int (*put)(void *cookie, const char *text,
                                                            size_t len),
                                                 void *cookie, stk_error *err);

/* What held the loop up between two moments; `from` NULL: since the loader was opened. */
STK_API void stk_diagnose(const stk_sight *from, const stk_sight *to,
                          const stk_diagnose_options *opt, stk_diagnosis *out);
/* The same for ranks that wait for each other in every step: which of n is the slow one, and
 * why. */
STK_API void stk_diagnose_ranks(const stk_sight *from, const stk_sight *to, uint32_t n,
                                const stk_diagnose_options *opt, stk_diagnosis *out);

/* Utilization of a GPU by NVML, which is opened at run time: shares of 1.  0, or STK_ENOTSUP: there
 * is no NVML or no such GPU. */
STK_API int stk_gpu_use(uint32_t gpu, double *sm, double *memory);

/* ---- plan: what a training run needs of its data ---- */

typedef struct stk_need { /* what is known; 0: not */
    uint32_t size;
    double samples, sample_bytes;   /* of the data: how many, bytes of each as stored */
    double batch, gpus;             /* rows per step and GPU */
    double step_s;                  /* of one step, without loading */
    double rate;                    /* in its place: samples/s of one GPU */
    double row_bytes;               /* of a row as it goes to the GPU */
    double load_s;                  /* CPU time to make one sample, of one core */
    double loader_rate;             /* samples/s that the loader was measured at */
    double storage_rate, link_rate; /* bytes/s of the storage, and of PCIe */
    double gpu_hour;                /* price of a GPU for an hour */
} stk_need;

typedef struct stk_plan_figures { /* negative: cannot be said */
    uint32_t size;
    double samples_rate, steps_rate; /* of all GPUs together, when they never wait */
    double storage_rate;             /* bytes/s to read */
    double link_rate;                /* bytes/s to each GPU */
    double link_s;                   /* to copy a batch */
    double cores;                    /* to decode at that rate */
    double cache_bytes;              /* to hold all of the data */
    double epoch_s;
    double use_overlapped, use_serial; /* share of the time that GPUs are busy, of 1 */
    double idle_cost_month;            /* of GPUs that wait, 30 days */
} stk_plan_figures;

/* STK_EINVAL: neither step_s nor rate is known. */
STK_API STK_MUST_CHECK int stk_plan_need(const stk_need *in, stk_plan_figures *out, stk_error *err);

/* ---- describe and drift: data that changes ---- */

#define STK_QUANTILES 101

typedef struct stk_feature_value {
    char text[48];
    uint64_t count;
} stk_feature_value;

/* one figure of every sample, as "jpg.width", or a field that has few values */
typedef struct stk_feature {
    char name[160];
    int category;                   /* 0: numbers */
    uint64_t count;                 /* samples that have it */
    double mean, std;               /* numbers */
    double quantile[STK_QUANTILES]; /* numbers: 0 %, 1 %, ... 100 % */
    uint32_t n_values;              /* category: the most frequent ones, most first */
    stk_feature_value *value;
    uint64_t rest; /* category: samples with other values */
} stk_feature;

typedef struct stk_description_counts {
    uint64_t samples, bytes, described; /* described: of the samples, those that figures are of */
    uint64_t duplicates;                /* samples whose bytes an earlier one has too */
    /* pictures that look like an earlier one, duplicates included */
    uint64_t near_duplicates;
    uint64_t bad; /* samples that could not be read or decoded */
} stk_description_counts;

typedef struct stk_description stk_description; /* Thread: any, once made. */

typedef struct stk_describe_options {
    uint32_t size;
    uint32_t num_workers;     /* 0: the cores */
    uint64_t max_pixels;      /* as of a loader */
    uint64_t most;            /* samples that figures are of; of more, every k-th; 0: 1,000,000 */
    stk_progress_fn progress; /* in samples */
    void *progress_cookie;
    /* only these samples, by number; NULL: all.  Not of arrays and token files */
    const uint64_t *select;
    uint64_t n_select;
} stk_describe_options;

/* Read and decode every sample of `ds`; of token files and arrays, their numbers.  *out: end with
 * stk_description_close(). */
STK_API STK_MUST_CHECK int stk_describe(stk_dataset *ds, const stk_describe_options *opt,
                                        stk_description **out, stk_error *err);
/* From JSON as `stoker describe` writes it.  STK_ECORRUPT: it is something else. */
STK_API STK_MUST_CHECK int stk_description_read(stk_description **out, const char *text, size_t len,
                                                stk_error *err);
/* How many there are. */
STK_API void stk_description_count(const stk_description *d, stk_description_counts *out);
/* NULL past the last */
STK_API const stk_feature *stk_description_feature(const stk_description *d, uint32_t i);
STK_API void stk_description_close(stk_description **d); /* NULL-safe, nulls */

#define STK_DESCRIPTION_VERSION 1

/* Hold rules (JSON: docs/seeing.md) against a description: broken() gets a line for each that does
 * not hold.  How many, or a negative STK_E*: the rules themselves are wrong. */
STK_API STK_MUST_CHECK int stk_rules_check(const stk_description *d, const char *text, size_t len,
                                           void (*broken)(void *cookie, const char *line),
                                           void *cookie, stk_error *err);

typedef struct stk_waiting { /* what the consumer waits for */
    uint64_t ns;             /* for so long */
    uint64_t epoch, step;    /* of the batch */
    char shard[512];         /* of the row that is named; "": it has none, or rows are made */
    char host[128];          /* that has not answered; "": none is waited for */
    uint32_t retries;        /* requests that were sent to it again since it answered last */
    char text[1024];         /* all of it in one line */
} stk_waiting;

/* What stk_loader_next() waits for, in this or another thread, as of a second ago at most.
 * STK_END: it does not wait, or not for a second yet.  Thread: any, until close. */
STK_API int stk_loader_waiting(const struct stk_loader *l, stk_waiting *out);

typedef struct stk_drift_row {
    const char *feature; /* of one of the descriptions */
    const char *test;    /* "wasserstein", "jensen-shannon", "ks", "chi-square", "missing" */
    double value, bound; /* distance and its bound; or p and the bound below which it is drift */
    int drifted;
} stk_drift_row;

/* Hold every feature of `now` against `before`: *n rows, at most `cap` are written.  Above 1,000
 * samples distances are compared with 0.1, below tests with p < 0.05 over all features together.
 * How many drifted. */
STK_API uint32_t stk_drift(const stk_description *before, const stk_description *now,
                           stk_drift_row *row, uint32_t cap, uint32_t *n);

struct stk_stats;
/* The figures as OpenMetrics text, for Prometheus.  As snprintf(): writes at most `room` bytes, the
 * last of them 0, and returns the length of the whole text.  Thread: any. */
STK_API size_t stk_stats_metrics(const struct stk_stats *stats, char *out, size_t room);

/* Why the field of an output is read whole, in words; NULL: where the index has points of it, only
 * the bytes that are seen are read.  "": there is no such output.  Thread: any, until close. */
STK_API const char *stk_loader_reads_whole(const struct stk_loader *l, uint32_t output);
/* Rows so far of which that was so.  Thread: any, until close. */
STK_API uint64_t stk_loader_in_parts(const struct stk_loader *l, uint32_t output);
/* Why workers make an output, in words, as snprintf() writes them; 0: a GPU makes it, where it can
 * decode the field.  Thread: any, until close. */
STK_API size_t stk_loader_by_workers(const struct stk_loader *l, uint32_t output, char *out,
                                     size_t room);

#ifdef __cplusplus
}
#endif
#endif
