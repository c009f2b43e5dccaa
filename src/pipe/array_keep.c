/* SPDX-License-Identifier: Apache-2.0 */
/* array_keep.c - cache="device" for arrays and token files: all of them copied to the GPU once, by a
 * thread of its own; from then on a row of a batch is only the place where it is on the GPU.
 *
 * Batches that were opened before all arrays are there are made as without the cache. */
#include <string.h>

#include "pipe/engine.h"

/* As many rows as a chunk holds, from *row on. */
static int fill(const stk_array *a, uint64_t *row, uint8_t *to, size_t *len)
{
    uint64_t room = STK_SHELF_CHUNK / a->row_bytes;

    for (*len = 0; room && *row < a->rows;) {
        uint64_t rows;

        STK_TRY(stk_array_read(a, *row, room, to + *len, &rows, NULL));
        *len += (size_t)rows * a->row_bytes;
        *row += rows;
        room -= rows;
    }
    return 0;
}

static int upload(stk_engine *e, const stk_array *a, uint64_t at)
{
    uint64_t row = 0;
    size_t len;

    while (row < a->rows) {
        uint8_t *to = stk_array_cache_room(e->plan->cache.arrays);

        if (!to || atomic_load_explicit(&e->gpu.uploading, memory_order_relaxed) != 1)
            return STK_EIO;
        STK_TRY(fill(a, &row, to, &len));
        STK_TRY(stk_array_cache_put(e->plan->cache.arrays, at, len));
        at += len;
    }
    return 0;
}

void *stk_array_keep_main(void *engine)
{
    stk_engine *e = engine;
    const stk_array_plan *p = e->plan->chains.arrays;
    uint64_t done = 0; /* arrays are in the order of `out`, each once */
    int rc = 0;

    for (uint32_t i = 0; i < p->n_out && rc == 0; i++)
        for (uint32_t d = 0; d < p->n_data && rc == 0; d++) {
            const stk_array_place *o = &e->plan->cache.place[d * p->n_out + i];
            const stk_array *a = p->out[d * p->n_out + i].array;

            if (!o->kept || !a->rows || o->at < done)
                continue;
            rc = upload(e, a, o->at);
            done = o->at + 1;
        }
    if (rc == 0)
        rc = stk_array_cache_ready(e->plan->cache.arrays);
    if (rc < 0 && atomic_load_explicit(&e->gpu.uploading, memory_order_relaxed) == 1)
        stk_log_line(
            &e->plan->policy.log, STK_LOG_WARN,
            "cache=device: the arrays could not all be brought to the GPU; batches come as "
            "without it");
    return NULL;
}
