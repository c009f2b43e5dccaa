/* SPDX-License-Identifier: Apache-2.0 */
/* array_upload.c - cache="device" for arrays and token files: all of them copied to the GPU once,
 * by a thread of its own; from then on a row of a batch is only the place where it is on the GPU.
 *
 * Batches that were opened before all arrays are there are made as without the cache. */
#include "gpu/array_upload.h"

#include <assert.h>

#include "base/thread.h"

enum { IDLE, BEGUN, ENDING };

/* As many rows as a chunk holds, from *row on. */
static int fill(const stk_array *a, uint64_t *row, uint8_t *to, size_t *len)
{
    uint64_t room = STK_ARRAY_CHUNK / a->row_bytes;

    assert(room); /* the plan leaves longer rows to the CPU */
    for (*len = 0; room && *row < a->rows;) {
        uint64_t rows;

        STK_TRY(stk_array_read(a, *row, room, to + *len, &rows, NULL));
        *len += (size_t)rows * a->row_bytes;
        *row += rows;
        room -= rows;
    }
    return 0;
}

static int runs(const stk_array_upload *u)
{
    return atomic_load_explicit(&u->state, memory_order_relaxed) == BEGUN;
}

static int upload(const stk_array_upload *u, const stk_array_move *m)
{
    uint64_t row = 0, at = m->at;
    size_t len;

    while (row < m->array->rows) {
        uint8_t *to = stk_array_cache_room(u->cache);

        if (!to || !runs(u))
            return STK_EIO;
        STK_TRY(fill(m->array, &row, to, &len));
        STK_TRY(stk_array_cache_put(u->cache, at, len));
        at += len;
    }
    return 0;
}

static void *upload_main(void *arg)
{
    const stk_array_upload *u = arg;
    int rc = 0;

    for (uint32_t i = 0; i < u->n && rc == 0; i++)
        rc = upload(u, &u->move[i]);
    if (rc == 0)
        rc = stk_array_cache_ready(u->cache);
    if (rc < 0 && runs(u))
        stk_log_line(
            &u->log, STK_LOG_WARN,
            "cache=device: the arrays could not all be brought to the GPU; batches come as "
            "without it");
    return NULL;
}

int stk_array_upload_start(stk_array_upload *u, stk_error *err)
{
    if (atomic_load_explicit(&u->state, memory_order_relaxed) != IDLE)
        return 0;
    atomic_store_explicit(&u->state, BEGUN, memory_order_relaxed);
    if (stk_thread_start(&u->thread, upload_main, u, "stk-upload") == 0)
        return 0;
    atomic_store_explicit(&u->state, IDLE, memory_order_relaxed);
    return stk_fail(err, STK_ENOMEM, "no thread could be started for the GPU");
}

void stk_array_upload_stop(stk_array_upload *u)
{
    if (atomic_exchange_explicit(&u->state, ENDING, memory_order_relaxed) == BEGUN)
        pthread_join(u->thread, NULL);
}
