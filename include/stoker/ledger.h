/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - reads back which samples a run was given, from the files that stk_loader_ledger()
 * wrote.
 *
 * A folder has one file for each rank and generation.  A generation ends when the run dies and is
 * resumed.  Only steps of the run's final history count: of earlier generations the steps before
 * the place where a later one continued, and no step of tries that were given up.  docs/ledger.md
 * has the format and the rules. */
#ifndef STOKER_LEDGER_H
#define STOKER_LEDGER_H

#include <stoker/base.h>
#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_ledger stk_ledger; /* A folder of ledger files.  Thread: one. */

typedef struct stk_ledger_file { /* one file of the folder */
    uint32_t size;               /* sizeof this struct as the caller compiled it */
    uint32_t rank, world_size;
    uint64_t generation, global_batch_size, seed;
    uint64_t started_ns;      /* when its first step was written, since 1970 */
    uint64_t epoch, position; /* where the generation began */
    uint64_t samples;         /* samples of an epoch; 0: epochs differ */
    stk_fingerprint data;
    int given_up;     /* true for a try of which no step counts */
    const char *name; /* name in the folder; borrowed from the ledger */
} stk_ledger_file;

typedef struct stk_ledger_step { /* what one rank was handed in one step */
    uint32_t size;
    uint32_t rank, world_size, rows;
    uint64_t generation, epoch, step;
    uint64_t position, count; /* first position of the global batch, and its rows */
    const uint64_t *ids;      /* one per row, as in stk_batch_ids(); borrowed until next() */
    const uint8_t *valid;     /* one per row, as in stk_batch_valid() */
} stk_ledger_step;

/* Opens the files of a folder; end with stk_ledger_close().  STK_ENOTFOUND: there is no ledger in
 * it.  STK_ECORRUPT: a file is damaged. */
STK_API STK_MUST_CHECK int stk_ledger_open(stk_ledger **out, const char *folder, stk_error *err);

/* Fills in *out, up to out->size, which the caller has set, for file i: the newest generation comes
 * first, and ranks in order.  STK_END: there are fewer. */
STK_API int stk_ledger_file_at(const stk_ledger *l, size_t i, stk_ledger_file *out);

/* Sets *out to the next step that counts, file by file.  STK_END: there are no more, and the next
 * call begins again.  A step that a kill cut off is left out; other damage is STK_ECORRUPT. */
STK_API STK_MUST_CHECK int stk_ledger_next(stk_ledger *l, stk_ledger_step *out, stk_error *err);

/* Begins again, with only the steps of these epochs; others are not read. */
STK_API void stk_ledger_range(stk_ledger *l, uint64_t first_epoch, uint64_t last_epoch);

/* Sets counts since the last beginning: steps that a later generation superseded, and steps that
 * were cut off. */
STK_API void stk_ledger_left_out(const stk_ledger *l, uint64_t *superseded, uint64_t *torn);

STK_API void stk_ledger_close(stk_ledger **l); /* nulls; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
