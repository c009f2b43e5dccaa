/* SPDX-License-Identifier: Apache-2.0 */
/* made.h - what the programs about orders share: shards of some size, and an order over them. */
#ifndef STOKER_ORDER_MADE_H
#define STOKER_ORDER_MADE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "order/order.h"

#define SEED 1

typedef struct made {
    stk_sample_set set;
    stk_order order;
    uint64_t *start, n_shards, n; /* start: n_shards + 1 */
    uint64_t streams, window;
} made;

static inline void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(3);
    }
    return p;
}

/* Shards of `per` samples; vary: of per / 2 to per * 3 / 2 of them. */
static inline void made_shards(made *m, uint64_t shards, uint64_t per, int vary)
{
    m->start = must(malloc((shards + 1) * sizeof *m->start));
    m->n_shards = shards;
    m->n = 0;
    for (uint64_t i = 0; i < shards; i++) {
        m->start[i] = m->n;
        m->n += vary ? per / 2 + stk_mix64(i + SEED) % (per + 1) : per;
    }
    m->start[shards] = m->n;
}

/* streams 0: exact; 1 with window 0: as they are stored. */
static inline void made_order(made *m, uint64_t streams, uint64_t window)
{
    stk_block_plan p = { .seed = SEED,
                         .streams = (uint32_t)streams,
                         .window = window,
                         .shards = m->start,
                         .n_shards = m->n_shards };
    stk_error err;
    int rc = stk_sample_set_init(&m->set, &m->n, 1, &err);

    m->streams = streams;
    m->window = window;
    if (rc == 0)
        rc = streams ? stk_order_block(&m->order, &m->set, &p, &err)
                     : stk_order_exact(&m->order, &m->set, SEED, 1, &err);
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(3);
    }
}

static inline void made_close(made *m)
{
    m->order.close(m->order.state);
    free(m->start);
}

#endif
