/* SPDX-License-Identifier: Apache-2.0 */
/* device_clips.c - a device's clips of videos, and the figures of all that it does. */
#include "gpu/transfer.h"

/* A batch that was held has all its clips. */
static void clips_ready(void *cookie, stk_batch *b, stk_ticket *ticket)
{
    stk_device_queue(cookie, b, ticket);
}

/* A quarter of what may be taken is for sessions and for work on their frames: batches have half of
 * it, and other pictures the last quarter. */
int stk_device_decode_clips(stk_device *d, const stk_device_clips_options *how, stk_error *err)
{
    const stk_gpu_clips_options o = { .cuda = d->cuda,
                                      .gpu = d->gpu,
                                      .pool = d->pool,
                                      .log = how->log,
                                      .limit = d->limit / 4,
                                      .blocks = d->blocks,
                                      .host = how->host,
                                      .rooms = &d->rooms,
                                      .arena = d->keep,
                                      .ready = clips_ready,
                                      .cookie = d };

    return d->clips ? 0 : stk_gpu_clips_open(&d->clips, &o, err);
}

stk_gpu_clips *stk_device_clips(const stk_device *d)
{
    return d->clips;
}

void stk_device_count_clip(stk_device *d, int on_gpu)
{
    atomic_fetch_add_explicit(&d->clip_count[on_gpu], 1, memory_order_relaxed);
}

/* ---- figures ---- */

void stk_device_figures(stk_device *d, stk_device_stats *out)
{
    stk_gpu_clips_figures clips;
    uint64_t rooms;

    stk_mutex_lock(&d->lock);
    *out = d->figures;
    stk_mutex_unlock(&d->lock);
    out->memory = stk_gpu_pool_bytes(d->pool, &out->memory_peak);
    out->memory_limit = d->limit;
    out->clips_by_workers = atomic_load_explicit(&d->clip_count[0], memory_order_relaxed);
    out->clips = atomic_load_explicit(&d->clip_count[1], memory_order_relaxed);
    if (d->keep)
        stk_picture_cache_figures(d->keep, &out->cache);
    rooms = atomic_load_explicit(&d->rooms, memory_order_relaxed);
    out->memory += rooms;
    out->memory_peak += rooms; /* they only grow */
    if (d->clips) {
        stk_gpu_clips_count(d->clips, &clips);
        out->memory += clips.sessions;
        out->memory_peak += clips.sessions_peak;
        out->clip_queue_ns = clips.queue_ns;
        out->hits += clips.hits;
        out->misses += clips.misses;
    }
    if (d->arrays) {
        out->cache.bytes = stk_array_cache_filled(d->arrays);
        (void)stk_array_cache_arena(d->arrays, &out->cache.limit);
    }
}

void stk_device_range(const stk_device *d, const char *name)
{
    if (name)
        d->cuda->range_push(name);
    else
        d->cuda->range_pop();
}
