/* SPDX-License-Identifier: Apache-2.0 */
/* drawn_lengths.c - see drawn_lengths.h.
 *
 * Draws are addressed by seed, epoch and position, and a chain draws from the size alone: what is
 * found here is what the row will have.  Only the geometry is drawn. */
#include "loader/drawn_lengths.h"

#include <string.h>

#include "base/rng.h"

typedef struct drawn {
    const stk_schedule *s;
    const stk_plan *plan;
    uint32_t n;
    stk_drawn_part part[STK_BIN_PARTS];
} drawn;

static uint32_t padded(const stk_drawn_part *p, uint32_t n)
{
    return p->multiple ? (uint32_t)stk_bin_round(n, p->multiple) : n;
}

/* Patches of an output at that address; 1 where it has none: such a sample is bad. */
static uint32_t draw(const drawn *k, const stk_drawn_part *p, const stk_address *at, uint64_t id)
{
    const stk_chain *c = &k->plan->chains.chain[p->output];
    const uint32_t size[2] = { p->size[id] >> 16, p->size[id] & 65535 };
    uint32_t side = c->spec.picture.patch.side;
    const stk_view *v;
    stk_draws d;

    d.boxes = NULL;
    stk_chain_draw_size(c, at, size, &d);
    v = stk_draws_last(&d);
    return v->refused ? 1 : (v->vis_w / side) * (v->vis_h / side);
}

/* What planning counted for the sample: lengths.c. */
static uint32_t bound_of(const drawn *k, const stk_drawn_part *p, uint32_t blocks)
{
    uint32_t side = k->plan->chains.chain[p->output].spec.picture.patch.side;
    uint32_t across = k->s->truncated.unit / side;

    return blocks ? blocks * across * across : p->bound;
}

static uint32_t less(const void *cookie, uint64_t epoch, uint64_t position, uint64_t id,
                     uint32_t *part)
{
    const drawn *k = cookie;
    uint32_t sum = 0;

    for (uint32_t i = 0; i < k->n; i++) {
        const stk_drawn_part *p = &k->part[i];
        uint32_t bound, n;
        stk_address at = { .seed = k->plan->policy.seed,
                           .position = position,
                           .epoch = (uint32_t)epoch,
                           .output = p->output,
                           .unit = k->s->truncated.unit };

        if (!p->size[id] || p->size[id] == STK_SIZE_UNKNOWN)
            continue;
        at.keep = k->s->truncated.n ? stk_schedule_keeps(k->s, p->output, id) : 0;
        bound = padded(p, bound_of(k, p, at.keep));
        n = padded(p, draw(k, p, &at, id));
        if (n >= bound)
            continue;
        sum += bound - n;
        if (k->s->binning.parts.n)
            part[p->part] -= bound - n;
    }
    return sum;
}

static void close_drawn(void *cookie)
{
    drawn *k = cookie;

    for (uint32_t i = 0; i < k->n; i++)
        stk_free(k->part[i].size);
    stk_free(k);
}

int stk_drawn_plan(stk_schedule *s, const stk_plan *so_far, stk_drawn_part *part, uint32_t n,
                   stk_error *err)
{
    drawn *k = STK_NEW(drawn);

    if (!k)
        return stk_fail_nomem(err, sizeof *k);
    k->s = s;
    k->plan = so_far;
    k->n = n;
    memcpy(k->part, part, n * sizeof *part);
    memset(part, 0, n * sizeof *part);
    s->binning.drawn = (stk_bin_draws){ less, close_drawn, k };
    return 0;
}
