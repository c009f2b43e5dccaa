/* SPDX-License-Identifier: Apache-2.0 */
/* plan_outputs.c - what batches need of their loader, also after it is closed: names, types and
 * shapes, the pool of their memory, global ids. */
#include <string.h>

#include "gpu/pic.h"
#include "loader/parts.h"

static uint64_t shard_bytes(const stk_dataset *data)
{
    uint64_t bytes = 0;
    stk_shard_info s;

    for (uint64_t k = 0; k < stk_dataset_shards(data); k++)
        if (data->ops->shard(data, k, &s, NULL) == 0)
            bytes += s.size;
    return bytes;
}

/* What a picture's record takes, before one was seen: its file, or what the CPU makes of it. */
static size_t expect_record(const stk_plan *so_far, const stk_spec *spec)
{
    uint64_t bytes = 0, samples = 0;
    int points = 1;
    size_t made = (size_t)spec->picture.width * spec->picture.height * 3;

    for (uint32_t d = 0; d < so_far->data.n; d++) {
        samples += stk_dataset_len(so_far->data.set[d]);
        points &= (so_far->data.set[d]->can & STK_DATA_HINTS) != 0;
        bytes += shard_bytes(so_far->data.set[d]);
    }
    bytes = samples ? bytes / samples : 0;
    bytes = points ? bytes * 3 / 4 : bytes * 9 / 8; /* most crops see less than half of a picture */
    if (!made)                                      /* of any size */
        return (size_t)bytes;
    return so_far->gpu.decode && bytes < made ? (size_t)bytes : made;
}

static int take_output(stk_batch_plan *c, uint32_t i, const stk_plan *so_far, stk_error *err)
{
    stk_out_plan *p = &c->out[i];
    char *name = stk_strdup(so_far->chains.out[i].name);

    if (!name)
        return stk_fail_nomem(err, 64);
    *p = so_far->chains.out[i];
    p->name = name;
    p->keep = so_far->cache.keep ? so_far->cache.keep[i] : 0;
    if (so_far->cache.gather)
        p->gather = so_far->cache.gather[i];
    if (p->gpu_made)
        atomic_init(&c->sizes[i].high, (expect_record(so_far, &p->spec) + 4096) * c->batch);
    return 0;
}

int stk_plan_outputs_make(stk_plan_outputs *out, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err)
{
    const stk_schedule *s = so_far->schedule;
    stk_batch_plan *c = NULL;

    (void)in;
    STK_TRY(stk_batch_plan_open(&c, so_far->chains.n_out, so_far->data.set, so_far->data.n, err));
    out->common = c;
    c->pool = so_far->memory.pool;
    c->batch = so_far->batching.rows;
    c->pinned = so_far->memory.pinned;
    c->ragged_cap = so_far->memory.ragged_cap;
    memcpy(c->start, s->start, ((size_t)s->n_data + 1) * sizeof *c->start);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        STK_TRY(take_output(c, i, so_far, err));
    return 0;
}
