/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - which samples a rank gets, for data that this library does not read.
 *
 * A sampler has a loader's order (shuffle, select, weights, mixtures), its split among ranks, its
 * substitutes for bad samples and its ledger, and no data: only how many samples there are.  Every
 * answer is a function of (seed, epoch, position), so any step can be asked for at once. */
#ifndef STOKER_SAMPLER_H
#define STOKER_SAMPLER_H

#include <stoker/stoker.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_sampler stk_sampler; /* Thread: one. */

/* Data sets of lens[i] samples.  Of the options those count that choose, order and split samples;
 * `exclude`, max_tokens, bucket and a shuffle by blocks need data and are refused.  *out: end with
 * stk_sampler_close(). */
STK_API STK_MUST_CHECK int stk_sampler_open(stk_sampler **out, const uint64_t *lens, size_t n,
                                            const stk_loader_options *opt, stk_error *err);
STK_API void stk_sampler_close(stk_sampler **s); /* NULL-safe, nulls */

typedef struct stk_sampler_info {
    uint64_t positions; /* of an epoch */
    uint64_t global;    /* rows of a global batch */
    uint64_t rows;      /* the most that this rank gets in a step */
    uint64_t taken;     /* fingerprint of which samples take part */
    uint64_t drawn;     /* fingerprint of weights or classes; 0: none */
} stk_sampler_info;

/* What follows from the options and the lengths. */
STK_API void stk_sampler_describe(const stk_sampler *s, stk_sampler_info *out);
/* Steps of an epoch that is entered at position `from`: the same on every rank. */
STK_API uint64_t stk_sampler_steps(const stk_sampler *s, uint64_t from);

typedef struct stk_sampler_step { /* the caller's memory for `cap` rows, filled */
    uint64_t *ids, *positions;
    uint32_t cap, rows;
    int valid;             /* 0: the rank was left with nothing and gets one row to go on */
    uint64_t start, count; /* positions of the global batch */
    uint64_t number;       /* of the step in its epoch */
} stk_sampler_step;

/* Step `step` of an epoch that is entered at position `from`. */
STK_API STK_MUST_CHECK int stk_sampler_at(const stk_sampler *s, uint64_t epoch, uint64_t from,
                                          uint64_t step, stk_sampler_step *out, stk_error *err);
/* The sample that takes a bad one's place: attempt 1, 2, ... */
STK_API uint64_t stk_sampler_substitute(const stk_sampler *s, uint64_t epoch, uint64_t position,
                                        uint32_t attempt);

/* Weights of a mixture, as in stoker.h. */
STK_API int stk_sampler_mix(const stk_sampler *s, uint64_t i, stk_mix_change_info *out);
/* As stk_loader_set_mix(). */
STK_API STK_MUST_CHECK int stk_sampler_set_mix(stk_sampler *s, const stk_mix_change_info *all,
                                               size_t n, stk_error *err);
/* As stk_loader_set_weights(). */
STK_API STK_MUST_CHECK int stk_sampler_set_weights(stk_sampler *s, const double *weights, size_t n,
                                                   uint64_t epoch, uint64_t position,
                                                   stk_error *err);

typedef struct stk_ledger_from { /* a life of the run */
    uint64_t generation, epoch, position;
    uint64_t names; /* fingerprint of what the data set is called */
} stk_ledger_from;

/* A ledger as stk_loader_ledger() begins it; folder NULL: no longer. */
STK_API STK_MUST_CHECK int stk_sampler_ledger(stk_sampler *s, const char *folder,
                                              const stk_ledger_from *from, stk_error *err);
/* Written down before the rows are handed out; without a ledger nothing happens. */
STK_API STK_MUST_CHECK int stk_sampler_note(stk_sampler *s, uint64_t epoch,
                                            const stk_sampler_step *step, const uint8_t *valid,
                                            stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
