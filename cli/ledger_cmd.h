/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_cmd.h - what the three files of `stoker ledger` share: the command and its summary
 * (cmd_ledger.c), counts per epoch (ledger_count.c), single samples and steps (ledger_look.c). */
#ifndef STOKER_LEDGER_CMD_H
#define STOKER_LEDGER_CMD_H

#include "cli.h"

#define LEDGER_SETS 64

typedef struct ledger_data { /* the data sets of --data, which are needed for keys; n 0: none */
    stk_dataset *set[LEDGER_SETS];
    uint64_t start[LEDGER_SETS + 1];
    uint32_t n;
} ledger_data;

typedef struct ledger_epoch {
    uint64_t epoch;
    uint64_t steps, positions;   /* steps and positions that were handed out, by rank 0's files */
    uint64_t valid, not_valid;   /* rows by their `valid` */
    uint64_t once, twice, never; /* samples that occurred once, more than once, never */
    uint64_t *seen, *again;      /* bit per sample, while the epoch is counted */
} ledger_epoch;

typedef struct ledger_counts {
    ledger_epoch *epoch; /* sorted */
    size_t n, cap;
    uint64_t samples; /* samples of the data */
    uint64_t superseded, torn;
} ledger_counts;

/* Called for an epoch whose bits are complete, to print a list. */
typedef void (*ledger_list_fn)(void *cookie, const ledger_epoch *e);

/* ledger_count.c: 0, or an exit code after an error was printed.  End with ledger_counts_free(). */
int ledger_count(stk_ledger *l, ledger_counts *c, ledger_list_fn list, void *cookie);
void ledger_counts_free(ledger_counts *c);

/* ledger_look.c: exit codes. */
int ledger_sample(stk_ledger *l, const ledger_data *d, const char *name, int json);
int ledger_step(stk_ledger *l, const ledger_data *d, uint64_t step, int json);
const char *ledger_key(const ledger_data *d, uint64_t id, size_t *len); /* NULL: not known */

#endif
