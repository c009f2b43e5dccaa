/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_write.h - the layout of a ledger file on disk, and its writer, which the engine calls.
 * docs/ledger.md describes the same layout.
 *
 * A file is: head | records, one per step.  All numbers are little-endian.  A record is its head,
 * rows * id_bytes bytes of ids, one bit per row (valid), then zeros up to a multiple of 8.  Each
 * CRC covers its part, with the CRC itself taken as 0. */
#ifndef STOKER_LEDGER_WRITE_H
#define STOKER_LEDGER_WRITE_H

#include <stoker/ledger.h>

#include "base/err.h"
#include "order/schedule.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "ledgers are written as they are in memory");

#define LDG_MAGIC "STKLEDG\n"
#define LDG_VERSION 1u
#define LDG_SUFFIX ".stkl"
#define LDG_MAX_ROWS (1u << 20)

typedef struct ldg_head {
    char magic[8];
    uint32_t version, head_bytes;
    uint32_t rank, world;
    uint32_t max_rows, id_bytes; /* id_bytes: 4 or 8 */
    uint64_t generation, global, seed, started_ns, epoch, position, samples;
    stk_fingerprint data;
    /* turn: later files have larger ones (ledger_turn.c); 0: from a version without turns */
    uint32_t turn, crc;
} ldg_head;

typedef struct ldg_step {
    uint32_t rows, crc;
    uint64_t epoch, step, start, count;
} ldg_step;

_Static_assert(sizeof(ldg_head) == 144 && sizeof(ldg_step) == 40, "on disk");

static inline size_t ldg_step_bytes(uint32_t rows, uint32_t id_bytes)
{
    return sizeof(ldg_step) + (((size_t)rows * id_bytes + (rows + 7) / 8 + 7) & ~(size_t)7);
}

typedef struct stk_ledger_writer stk_ledger_writer; /* Thread: one. */

/* The next turn of a folder, from 1: larger than that of every file which was begun before. */
int stk_ledger_turn(const char *folder, uint32_t *out, stk_error *err);

/* Makes the folder; the first step begins the file.  head: the caller sets all but magic, version,
 * sizes, turn, time and CRC. */
int stk_ledger_writer_open(stk_ledger_writer **out, const char *folder, const ldg_head *head,
                           stk_error *err);
int stk_ledger_writer_add(stk_ledger_writer *w, const stk_ledger_row *row, stk_error *err);
int stk_ledger_writer_is(const stk_ledger_writer *w, const char *folder, uint64_t generation);
void stk_ledger_writer_close(stk_ledger_writer **w);

#endif
