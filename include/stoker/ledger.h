/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - read back which samples a run was given: the files that stk_loader_ledger() wrote.
 *
 * A folder has one file for each rank and generation (a generation is one life of a run: it ends
 * when the run dies and is resumed).  What counts is the history of the run as it stands now: of
 * earlier generations the steps before the place where a later one took up, and nothing of tries
 * that were given up.  docs/ledger.md has the format and the rules in words. */
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
    uint64_t epoch, position; /* where the generation took up */
    uint64_t samples;         /* of an epoch; 0: epochs differ */
    stk_fingerprint data;
    int given_up;     /* a try that the run's history has nothing of */
    const char *name; /* in the folder; the ledger's */
} stk_ledger_file;

typedef struct stk_ledger_step { /* what one rank was handed in one step */
    uint32_t size;
    uint32_t rank, world_size, rows;
    uint64_t generation, epoch, step;
    uint64_t position, count; /* of the global batch: its first position and its rows */
    const uint64_t *ids;      /* one a row, as in stk_batch_ids(); the ledger's until next() */
    const uint8_t *valid;     /* one a row, as in stk_batch_valid() */
} stk_ledger_step;

/* Look at the files of a folder.  *out is the caller's, end with stk_ledger_close().
 * STK_ENOTFOUND: there is no ledger in it; STK_ECORRUPT: a file is damaged. */
STK_API STK_MUST_CHECK int stk_ledger_open(stk_ledger **out, const char *folder, stk_error *err);

/* The i-th file, the newest generation first, by rank in it; STK_END past the last.  Fills *out up
 * to out->size, which the caller has set. */
STK_API int stk_ledger_file_at(const stk_ledger *l, size_t i, stk_ledger_file *out);

/* The next step that counts, file by file; STK_END: that was all, and the next call begins again.
 * A step that was torn by a kill is none; other damage is STK_ECORRUPT. */
STK_API STK_MUST_CHECK int stk_ledger_next(stk_ledger *l, stk_ledger_step *out, stk_error *err);

/* Begin again, with the steps of these epochs only; others are passed over unread. */
STK_API void stk_ledger_range(stk_ledger *l, uint64_t first_epoch, uint64_t last_epoch);

/* Since the last beginning: steps that a later generation superseded, and torn ones. */
STK_API void stk_ledger_left_out(const stk_ledger *l, uint64_t *superseded, uint64_t *torn);

STK_API void stk_ledger_close(stk_ledger **l); /* nulls; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
