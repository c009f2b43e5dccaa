/* SPDX-License-Identifier: Apache-2.0 */
/* array_keep.c - cache="device" for arrays and token files: all of them over to the GPU once, by a
 * thread of its own; from then on a row of a batch is only the place where it lies there.
 *
 * Which outputs can be gathered there is planned here: whole rows, or windows of one stream, of types
 * that are moved or widened, so that no value can be one that does not fit.  Batches that were opened
 * before everything was there are made as without it. */
#include <string.h>

#include "device/gather.h"
#include "pipe/engine.h"

/* ---- plan ---- */

static int is_signed(stk_dtype t)
{
    return t == STK_I8 || t == STK_I16 || t == STK_I32 || t == STK_I64;
}

static int is_unsigned(stk_dtype t)
{
    return t == STK_U8 || t == STK_U16 || t == STK_U32;
}

/* 1: every value of one is one of the other. */
static int widens(stk_dtype from, stk_dtype to)
{
    size_t a = stk_dtype_size(from), b = stk_dtype_size(to);

    return (is_signed(from) && is_signed(to) && a < b) ||
           (is_unsigned(from) && (is_signed(to) || is_unsigned(to)) && a < b);
}

/* How output i is gathered; count 0: it is not. */
static stk_out_gather plan_output(const stk_engine *e, uint32_t i)
{
    const stk_array_plan *p = e->plan.chains.arrays;
    const stk_out_plan *o = &e->plan.batching.common->out[i];
    const stk_array *a = p->out[i].array;
    uint32_t size = (uint32_t)stk_dtype_size(o->spec.dtype);
    stk_out_gather g = { .in = (uint32_t)stk_dtype_size(a->dtype), .made = size };

    for (uint32_t d = 0; d < p->n_data; d++)
        if (p->out[d * p->n_out + i].array->dtype != a->dtype)
            return g;
    if (o->row_bytes < sizeof(uint64_t) || (o->shared && i) || a->row_bytes > STK_SHELF_CHUNK ||
        (a->dtype != o->spec.dtype && !widens(a->dtype, o->spec.dtype)))
        return g;
    g.sign = (uint32_t)is_signed(a->dtype);
    g.count = o->row_bytes / size;
    if (a->dtype == o->spec.dtype &&
        !p->cut.block) /* whole rows begin at multiples of their size */
        for (; g.made < 16 && o->row_bytes % (2 * g.made) == 0; g.count /= 2)
            g.in = g.made = 2 * g.made;
    return g;
}

/* Where array `a` lies; arrays that several outputs use lie there once. */
static uint64_t place_array(stk_array_plan *p, uint32_t k, uint64_t *bytes)
{
    const stk_array *a = p->out[k].array;
    uint64_t at = *bytes;

    for (uint32_t j = 0; j < k; j++)
        if (p->out[j].array == a && p->out[j].kept)
            return p->out[j].at;
    *bytes = (*bytes + a->rows * a->row_bytes + 255) & ~(uint64_t)255;
    return at;
}

uint64_t stk_array_keep_plan(stk_engine *e)
{
    stk_array_plan *p = e->plan.chains.arrays;
    uint64_t bytes = 0;

    if (p->cut.parted || p->packed || e->plan.chains.megatron || e->schedule.bins || e->plan.batching.tickets > UINT16_MAX)
        return 0;
    for (uint32_t i = 0; i < p->n_out; i++) {
        e->plan.batching.common->out[i].gather = plan_output(e, i);
        for (uint32_t d = 0; e->plan.batching.common->out[i].gather.count && d < p->n_data; d++) {
            uint32_t k = d * p->n_out + i;

            p->out[k].at = place_array(p, k, &bytes);
            p->out[k].kept = 1;
        }
    }
    return bytes;
}

void stk_array_keep_forget(stk_engine *e)
{
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++)
        e->plan.batching.common->out[i].gather.count = 0;
}

/* ---- upload ---- */

/* As many rows as a chunk holds, from *row on. */
static int fill(const stk_array *a, uint64_t *row, uint8_t *to, size_t *len)
{
    uint64_t room = STK_SHELF_CHUNK / a->row_bytes;

    for (*len = 0; room && *row < a->rows;) {
        stk_span s;

        STK_TRY(stk_array_span(a, *row, room, to + *len, &s, NULL));
        if (s.data != to + *len)
            memcpy(to + *len, s.data, (size_t)s.rows * a->row_bytes);
        *len += (size_t)s.rows * a->row_bytes;
        *row += s.rows;
        room -= s.rows;
    }
    return 0;
}

static int upload(stk_engine *e, const stk_array_out *o)
{
    uint64_t row = 0, at = o->at;
    size_t len;

    while (row < o->array->rows) {
        uint8_t *to = stk_shelf_room(e->plan.cache.arrays);

        if (!to || atomic_load_explicit(&e->uploading, memory_order_relaxed) != 1)
            return STK_EIO;
        STK_TRY(fill(o->array, &row, to, &len));
        STK_TRY(stk_shelf_put(e->plan.cache.arrays, at, len));
        at += len;
    }
    return 0;
}

void *stk_array_keep_main(void *engine)
{
    stk_engine *e = engine;
    const stk_array_plan *p = e->plan.chains.arrays;
    uint64_t done = 0; /* arrays lie in the order of `out`, each once */
    int rc = 0;

    for (uint32_t i = 0; i < p->n_out && rc == 0; i++)
        for (uint32_t d = 0; d < p->n_data && rc == 0; d++) {
            const stk_array_out *o = &p->out[d * p->n_out + i];

            if (!o->kept || !o->array->rows || o->at < done)
                continue;
            rc = upload(e, o);
            done = o->at + 1;
        }
    if (rc == 0)
        rc = stk_shelf_ready(e->plan.cache.arrays);
    if (rc < 0 && atomic_load_explicit(&e->uploading, memory_order_relaxed) == 1)
        stk_log_line(
            &e->plan.policy.log, STK_LOG_WARN,
            "cache=device: the arrays could not all be brought to the GPU; batches come as "
            "without it");
    return NULL;
}
