/* SPDX-License-Identifier: Apache-2.0 */
/* picture_cache.c - a word an entry: its state in the low bits, its place in the arena above them.
 *
 * Words are in groups that are made when one of theirs is first claimed, so that a data set of
 * which little fits costs little. */
#include "gpu/picture_cache.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/size.h"
#include "cuda/pic_geom.h"

#define GROUP 4096 /* entries */

enum { NONE, COMING, THERE, BAD, STATES = 3 /* mask; places are multiples of 64 */ };

struct stk_picture_cache {
    const stk_cuda *cuda;
    int gpu;
    uint8_t *arena;
    uint64_t size, samples;
    uint32_t outputs;
    uint64_t n_groups;
    _Atomic uint64_t used, entries;
    _Atomic(_Atomic uint64_t *) group[];
};

int stk_picture_cache_open(stk_picture_cache **out, const stk_cuda *cuda, int gpu,
                           const stk_picture_cache_options *o, stk_error *err)
{
    uint64_t n = (o->samples * o->outputs + GROUP - 1) / GROUP;
    void *arena = NULL;
    stk_picture_cache *k;
    int rc;

    *out = NULL;
    k = n > SIZE_MAX / 16 ? NULL : stk_zalloc(1, sizeof *k + n * sizeof k->group[0]);
    if (!k)
        return stk_fail_nomem(err, (size_t)n * sizeof k->group[0]);
    rc = cuda->alloc(gpu, (size_t)o->bytes, &arena);
    if (rc) {
        stk_free(k);
        return stk_fail(err, STK_ENOMEM,
                        "cache=device: GPU %d gives no %" PRIu64
                        " MB: %s: lower device_cache_limit",
                        gpu, stk_size_mb(o->bytes), cuda->say(rc));
    }
    k->cuda = cuda;
    k->gpu = gpu;
    k->arena = arena;
    k->size = o->bytes;
    k->samples = o->samples;
    k->outputs = o->outputs;
    k->n_groups = n;
    atomic_init(&k->used, 64); /* no place is 0 */
    *out = k;
    return 0;
}

void stk_picture_cache_close(stk_picture_cache **kp)
{
    stk_picture_cache *k = *kp;

    if (!k)
        return;
    *kp = NULL;
    for (uint64_t i = 0; i < k->n_groups; i++)
        stk_free((void *)atomic_load_explicit(&k->group[i], memory_order_relaxed));
    k->cuda->free(k->gpu, k->arena);
    stk_free(k);
}

uint8_t *stk_picture_cache_arena(const stk_picture_cache *k, uint64_t *len)
{
    *len = k->size;
    return k->arena;
}

/* ---- words ---- */

/* NULL: its group was not made yet. */
static _Atomic uint64_t *word_of(const stk_picture_cache *k, stk_cache_key of)
{
    uint64_t i = of.sample * k->outputs + of.output;
    _Atomic uint64_t *group;

    if (of.sample >= k->samples || of.output >= k->outputs)
        return NULL;
    group = atomic_load_explicit(&k->group[i / GROUP], memory_order_acquire);
    return group ? &group[i % GROUP] : NULL;
}

/* The same, and the group is made.  NULL: there is no memory, or no such entry. */
static _Atomic uint64_t *make_word(stk_picture_cache *k, stk_cache_key of)
{
    uint64_t i = of.sample * k->outputs + of.output;
    _Atomic uint64_t *word = word_of(k, of), *none = NULL, *group;

    if (word || of.sample >= k->samples || of.output >= k->outputs)
        return word;
    group = stk_zalloc(GROUP, sizeof *group);
    if (group &&
        !atomic_compare_exchange_strong_explicit(&k->group[i / GROUP], &none, group,
                                                 memory_order_acq_rel, memory_order_acquire))
        stk_free((void *)group); /* another worker was first */
    return word_of(k, of);
}

static uint64_t room_of(uint64_t len)
{
    return stk_pic_up64(len + STK_PIC_KEEP_MORE);
}

/* A place at the front; 0: there is no room. */
static uint64_t cut(stk_picture_cache *k, uint64_t room)
{
    uint64_t at = atomic_load_explicit(&k->used, memory_order_relaxed);

    do {
        if (at > k->size || room > k->size - at)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&k->used, &at, at + room, memory_order_relaxed,
                                                    memory_order_relaxed));
    assert(at && at % 64 == 0); /* the low bits are the entry's state */
    return at;
}

/* ---- the calls ---- */

uint64_t stk_picture_cache_find(const stk_picture_cache *k, stk_cache_key of)
{
    const _Atomic uint64_t *word = word_of(k, of);
    uint64_t v = word ? atomic_load_explicit(word, memory_order_acquire) : 0;

    return (v & STATES) == THERE ? v & ~(uint64_t)STATES : 0;
}

int stk_picture_cache_wants(const stk_picture_cache *k, stk_cache_key of, uint64_t len)
{
    const _Atomic uint64_t *word = word_of(k, of);
    uint64_t v = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
    uint64_t used = atomic_load_explicit(&k->used, memory_order_relaxed);

    if ((v & STATES) != NONE)
        return 0;
    return v || (used <= k->size && room_of(len) <= k->size - used);
}

uint64_t stk_picture_cache_claim(stk_picture_cache *k, stk_cache_key of, uint64_t len)
{
    _Atomic uint64_t *word = make_word(k, of);
    uint64_t v = word ? atomic_load_explicit(word, memory_order_relaxed) : BAD, at;

    if ((v & STATES) != NONE || (!v && !stk_picture_cache_wants(k, of, len)))
        return 0;
    /* COMING without a place first: the thread that loses has cut nothing. */
    if (!atomic_compare_exchange_strong_explicit(word, &v, v | COMING, memory_order_acquire,
                                                 memory_order_relaxed))
        return 0;
    assert(!(v & STATES)); /* it was none's */
    at = v ? v : cut(k, room_of(len));
    atomic_store_explicit(word, at ? at | COMING : NONE, memory_order_relaxed);
    return at;
}

void stk_picture_cache_there(stk_picture_cache *k, stk_cache_key of)
{
    _Atomic uint64_t *word = word_of(k, of);
    uint64_t v = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;

    if ((v & STATES) != COMING)
        return;
    atomic_store_explicit(word, (v & ~(uint64_t)STATES) | THERE, memory_order_release);
    atomic_fetch_add_explicit(&k->entries, 1, memory_order_relaxed);
}

void stk_picture_cache_undo(stk_picture_cache *k, stk_cache_key of)
{
    _Atomic uint64_t *word = word_of(k, of);
    uint64_t v = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;

    if ((v & STATES) == COMING)
        atomic_store_explicit(word, (v & ~(uint64_t)STATES) | NONE, memory_order_release);
}

void stk_picture_cache_bad(stk_picture_cache *k, stk_cache_key of)
{
    _Atomic uint64_t *word = make_word(k, of);

    if (word && (atomic_exchange_explicit(word, BAD, memory_order_relaxed) & STATES) == THERE)
        atomic_fetch_sub_explicit(&k->entries, 1, memory_order_relaxed);
}

void stk_picture_cache_figures(const stk_picture_cache *k, stk_picture_cache_stats *out)
{
    out->bytes = atomic_load_explicit(&k->used, memory_order_relaxed) - 64;
    out->limit = k->size;
    out->entries = atomic_load_explicit(&k->entries, memory_order_relaxed);
}
