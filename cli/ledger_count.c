/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_count.c - how often every sample was seen in an epoch: two bits a sample.
 *
 * A first pass over the files finds the epochs; then as many epochs at a time as fit into BUDGET
 * are counted in a pass each, so that a hundred epochs of a billion samples need no more memory
 * than one. */
#include <stdlib.h>
#include <string.h>

#include "ledger_cmd.h"

#define BUDGET ((size_t)512 << 20)
#define MAX_BITS ((uint64_t)1 << 38) /* 64 GB of two bits each */

static int no_memory(void)
{
    fputs("stoker: out of memory\n", stderr);
    return CLI_FAILED;
}

/* Its place in the sorted list, or where it belongs. */
static size_t place(const ledger_counts *c, uint64_t epoch)
{
    size_t lo = 0, hi = c->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->epoch[mid].epoch < epoch)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static ledger_epoch *epoch_of(ledger_counts *c, uint64_t epoch)
{
    size_t at = place(c, epoch);

    if (at < c->n && c->epoch[at].epoch == epoch)
        return &c->epoch[at];
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 64;
        ledger_epoch *grown = realloc(c->epoch, cap * sizeof *grown);

        if (!grown)
            return NULL;
        c->epoch = grown;
        c->cap = cap;
    }
    memmove(&c->epoch[at + 1], &c->epoch[at], (c->n - at) * sizeof *c->epoch);
    c->epoch[at] = (ledger_epoch){ .epoch = epoch };
    c->n++;
    return &c->epoch[at];
}

static int find_epochs(stk_ledger *l, ledger_counts *c)
{
    stk_ledger_step s = { .size = sizeof s };
    stk_error err;
    int rc;

    while ((rc = stk_ledger_next(l, &s, &err)) == 0) {
        ledger_epoch *e = epoch_of(c, s.epoch);

        if (!e)
            return no_memory();
        e->steps += s.rank == 0;
        e->positions += s.rank == 0 ? s.count : 0;
        for (uint32_t i = 0; i < s.rows; i++) {
            e->valid += s.valid[i];
            e->not_valid += !s.valid[i];
        }
    }
    stk_ledger_left_out(l, &c->superseded, &c->torn);
    return rc < 0 ? cli_failed(&err) : 0;
}

static void mark(ledger_epoch *e, const stk_ledger_step *s)
{
    for (uint32_t i = 0; i < s->rows; i++) {
        uint64_t bit = (uint64_t)1 << s->ids[i] % 64, *seen = &e->seen[s->ids[i] / 64];

        if (!s->valid[i])
            continue;
        if (*seen & bit)
            e->again[s->ids[i] / 64] |= bit;
        *seen |= bit;
    }
}

static void add_up(ledger_epoch *e, uint64_t samples)
{
    uint64_t seen = 0;

    e->twice = 0;
    for (uint64_t i = 0; i < (samples + 63) / 64; i++) {
        seen += (uint64_t)__builtin_popcountll(e->seen[i]);
        e->twice += (uint64_t)__builtin_popcountll(e->again[i]);
    }
    e->once = seen - e->twice;
    e->never = samples - seen;
}

static int count_some(stk_ledger *l, ledger_counts *c, size_t from, size_t n)
{
    size_t words = (size_t)(c->samples + 63) / 64;
    stk_ledger_step s = { .size = sizeof s };
    stk_error err;
    int rc;

    for (size_t i = from; i < from + n; i++) {
        c->epoch[i].seen = calloc(words, 8);
        c->epoch[i].again = calloc(words, 8);
        if (!c->epoch[i].seen || !c->epoch[i].again)
            return no_memory();
    }
    stk_ledger_range(l, c->epoch[from].epoch, c->epoch[from + n - 1].epoch);
    while ((rc = stk_ledger_next(l, &s, &err)) == 0) {
        size_t at = place(c, s.epoch);

        if (at < c->n && c->epoch[at].epoch == s.epoch) /* else it came while we read */
            mark(&c->epoch[at], &s);
    }
    for (size_t i = from; rc >= 0 && i < from + n; i++)
        add_up(&c->epoch[i], c->samples);
    return rc < 0 ? cli_failed(&err) : 0;
}

static void forget(ledger_epoch *e)
{
    free(e->seen);
    free(e->again);
    e->seen = e->again = NULL;
}

int ledger_count(stk_ledger *l, ledger_counts *c, ledger_list_fn list, void *cookie)
{
    uint64_t bytes = (c->samples + 63) / 64 * 16;
    size_t at_once = bytes < BUDGET ? BUDGET / (size_t)bytes : 1;
    int rc = find_epochs(l, c);

    if (rc == 0 && c->samples > MAX_BITS)
        rc = cli_usage("these are too many samples to count");
    for (size_t from = 0; rc == 0 && from < c->n; from += at_once) {
        size_t n = c->n - from < at_once ? c->n - from : at_once;

        rc = count_some(l, c, from, n);
        for (size_t i = from; i < from + n; i++) {
            if (rc == 0 && list)
                list(cookie, &c->epoch[i]);
            forget(&c->epoch[i]);
        }
    }
    return rc;
}

void ledger_counts_free(ledger_counts *c)
{
    for (size_t i = 0; i < c->n; i++)
        forget(&c->epoch[i]);
    free(c->epoch);
}
