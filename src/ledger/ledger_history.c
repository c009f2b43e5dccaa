/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_history.c - which steps of which files make up the run as it stands now.
 *
 * Files that began at one place with the same ranks are a group: one life of the run.  The group
 * with the last turn is the run as it is; clocks, which machines may have set apart, only order
 * files that were written before there were turns.  It was resumed from a state of a smaller
 * generation, so going back in time each group with a generation smaller than the last one taken is
 * its ancestor, and every other is a try that was given up.  Of an ancestor the steps count that
 * are before the place where a later one took up: what came after that is not in the model's
 * weights.  Groups of other data are given up too: their ids mean something else. */
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger_model.h"

#define BY(x, y)                                                                                   \
    if ((x) != (y))                                                                                \
    return (x) < (y) ? -1 : 1

static int by_group(const ldg_head *a, const ldg_head *b)
{
    BY(a->generation, b->generation);
    BY(a->epoch, b->epoch);
    BY(a->position, b->position);
    BY(a->world, b->world);
    BY(a->global, b->global);
    BY(a->seed, b->seed);
    BY(a->data.samples, b->data.samples);
    BY(a->data.content, b->data.content);
    return 0;
}

static int by_group_and_rank(const void *pa, const void *pb)
{
    const ldg_file *a = pa, *b = pb;
    int d = by_group(&a->head, &b->head);

    if (d)
        return d;
    BY(a->head.rank, b->head.rank);
    return strcmp(a->name, b->name);
}

/* The newest group first, by rank in it.  A file without a turn is older than all that have one. */
static int by_age(const void *pa, const void *pb)
{
    const ldg_file *a = pa, *b = pb;
    int d;

    BY(b->group_turn, a->group_turn);
    BY(b->group_ns, a->group_ns);
    d = by_group(&b->head, &a->head);
    return d ? d : by_group_and_rank(a, b);
}

static int same_data(const ldg_head *a, const ldg_head *b)
{
    return a->data.samples == b->data.samples && a->data.content == b->data.content;
}

static int is_before(uint64_t epoch_a, uint64_t at_a, uint64_t epoch_b, uint64_t at_b)
{
    return epoch_a < epoch_b || (epoch_a == epoch_b && at_a < at_b);
}

/* Walk back in time from the newest group. */
static void choose(stk_ledger *l)
{
    uint64_t end_epoch = UINT64_MAX, end_at = UINT64_MAX;
    const ldg_head *newer = NULL;

    for (size_t i = 0; i < l->n;) {
        const ldg_head *h = &l->file[i].head;
        int keep = !newer || (h->generation < newer->generation && same_data(h, newer));
        size_t k = i;

        for (; k < l->n && by_group(&l->file[k].head, h) == 0; k++) {
            l->file[k].given_up = !keep;
            l->file[k].end_epoch = end_epoch;
            l->file[k].end_at = end_at;
        }
        if (keep) {
            newer = h;
            if (is_before(h->epoch, h->position, end_epoch, end_at)) {
                end_epoch = h->epoch;
                end_at = h->position;
            }
        }
        i = k;
    }
}

int stk_ledger_settle(stk_ledger *l, stk_error *err)
{
    if (l->n)
        qsort(l->file, l->n, sizeof *l->file, by_group_and_rank);
    for (size_t i = 0, k; i < l->n; i = k) {
        uint64_t last = 0, turn = 0;

        for (k = i; k < l->n && by_group(&l->file[k].head, &l->file[i].head) == 0; k++) {
            if (k > i && l->file[k].head.rank == l->file[k - 1].head.rank)
                return stk_fail(err, STK_EINVAL,
                                "%.80s and %.80s are of the same rank and generation: one of them "
                                "is a copy, move it away",
                                l->file[k - 1].name, l->file[k].name);
            if (l->file[k].head.started_ns > last)
                last = l->file[k].head.started_ns;
            if (l->file[k].head.turn > turn)
                turn = l->file[k].head.turn;
        }
        for (size_t f = i; f < k; f++) {
            l->file[f].group_turn = turn;
            l->file[f].group_ns = last;
        }
    }
    if (l->n)
        qsort(l->file, l->n, sizeof *l->file, by_age);
    choose(l);
    return 0;
}
