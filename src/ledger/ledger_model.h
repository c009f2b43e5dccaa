/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_model.h - a folder of ledger files while it is read (stoker/ledger.h).  ledger_history.c
 * decides which steps of each file count, and ledger_read.c reads them. */
#ifndef STOKER_LEDGER_MODEL_H
#define STOKER_LEDGER_MODEL_H

#include "base/mem.h"
#include "ledger/ledger_write.h"

typedef struct ldg_file {
    char *name;
    ldg_head head;
    uint64_t group_turn;        /* the last turn of its group */
    uint64_t group_ns;          /* for files without turns: when the group's last rank started */
    uint64_t end_epoch, end_at; /* steps from there on are superseded */
    int given_up;               /* true if none of its steps counts */
    int fd;                     /* -1: opened by its name when it is read */
} ldg_file;

struct stk_ledger {
    char *folder;
    ldg_file *file;
    size_t n, cap;
    uint64_t first_epoch, last_epoch; /* steps of other epochs are passed over */

    /* the file that is being read */
    size_t at;             /* its number */
    int fd;                /* -1: not open */
    uint64_t size, offset; /* size of the file; offset of its next record */
    uint8_t *buf;          /* a piece of the file: `have` bytes from buf_at on */
    size_t cap_buf, have;
    uint64_t buf_at;
    uint64_t *ids; /* ids of one record; memory for cap_rows */
    uint8_t *valid;
    uint32_t cap_rows;
    uint64_t superseded, torn;
};

/* ledger_read.c: makes an empty ledger; adds a file (fd -1: the file `name` in the folder). */
int stk_ledger_new(stk_ledger **out, const char *folder, stk_error *err);
int stk_ledger_add(stk_ledger *l, const char *name, int fd, stk_error *err);

/* ledger_history.c: call after all files were added: decides which steps count. */
int stk_ledger_settle(stk_ledger *l, stk_error *err);

#endif
