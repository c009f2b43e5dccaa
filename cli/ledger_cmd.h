/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_cmd.h - stoker ledger, in three files: the command and its summary (cmd_ledger.c), counts
 * an epoch (ledger_count.c), single samples and steps (ledger_look.c). */
#ifndef STOKER_LEDGER_CMD_H
#define STOKER_LEDGER_CMD_H

#include "cli.h"

#define LEDGER_SETS 64

typedef struct ledger_data { /* what --data names, for keys; n 0: nothing */
    stk_dataset *set[LEDGER_SETS];
    uint64_t start[LEDGER_SETS + 1];
    uint32_t n;
} ledger_data;

typedef struct ledger_epoch {
    uint64_t epoch;
    uint64_t steps, positions;   /* that were handed out, by rank 0's files */
    uint64_t valid, not_valid;   /* rows */
    uint64_t once, twice, never; /* samples; twice: more than once */
    uint64_t *seen, *again;      /* a bit a sample, while it is counted */
} ledger_epoch;

typedef struct ledger_counts {
    ledger_epoch *epoch; /* sorted */
    size_t n, cap;
    uint64_t samples; /* of the data */
    uint64_t superseded, torn;
} ledger_counts;

/* What to do with an epoch whose bits are all there: print a list, or nothing. */
typedef void (*ledger_list_fn)(void *cookie, const ledger_epoch *e);

/* ledger_count.c: 0 or an exit code (said why).  End with ledger_counts_free(). */
int ledger_count(stk_ledger *l, ledger_counts *c, ledger_list_fn list, void *cookie);
void ledger_counts_free(ledger_counts *c);

/* ledger_look.c: exit codes. */
int ledger_sample(stk_ledger *l, const ledger_data *d, const char *name, int json);
int ledger_step(stk_ledger *l, const ledger_data *d, uint64_t step, int json);
const char *ledger_key(const ledger_data *d, uint64_t id, size_t *len); /* NULL: not known */

#endif
