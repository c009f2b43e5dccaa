/* SPDX-License-Identifier: Apache-2.0 */
/* field_cache.c - a pointer a sample, in groups that are made when one of theirs is first put, to a
 * record cut off a block: the length of each field (NONE: it is not there), then their bytes. */
#include "fetch/field_cache.h"

#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"

#define GROUP 4096      /* samples */
#define BLOCK (1 << 18) /* bytes */
#define NONE UINT16_MAX

typedef struct block {
    struct block *next;
    size_t used;
    uint8_t bytes[];
} block;

struct stk_field_cache {
    stk_account account; /* an eighth of the whole */
    uint64_t taken;      /* lock */
    uint64_t samples, n_groups;
    _Atomic int full;
    stk_mutex lock;
    block *blocks; /* lock */
    _Atomic(_Atomic(uint8_t *) *) group[];
};

int stk_field_cache_open(stk_field_cache **out, uint64_t samples, stk_account *account,
                         stk_error *err)
{
    uint64_t n = samples / GROUP + 1;
    stk_field_cache *s = n > SIZE_MAX / 16 ? NULL
                                           : stk_zalloc(1, sizeof *s + n * sizeof s->group[0]);

    *out = s;
    if (!s)
        return stk_fail_nomem(err, (size_t)n * sizeof s->group[0]);
    stk_account_init_part(&s->account, account->limit / 8, account);
    s->samples = samples;
    s->n_groups = n;
    stk_mutex_init(&s->lock);
    return 0;
}

void stk_field_cache_close(stk_field_cache **sp)
{
    stk_field_cache *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    for (block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        stk_free(b);
    }
    for (uint64_t i = 0; i < s->n_groups; i++)
        stk_free((void *)atomic_load_explicit(&s->group[i], memory_order_relaxed));
    stk_account_give(&s->account, s->taken);
    stk_mutex_destroy(&s->lock);
    stk_free(s);
}

int stk_field_cache_find(const stk_field_cache *s, uint64_t sample, stk_bytes *field, uint32_t n)
{
    _Atomic(uint8_t *) *group;
    const uint8_t *at, *bytes;

    if (sample >= s->samples)
        return 0;
    group = atomic_load_explicit(&s->group[sample / GROUP], memory_order_acquire);
    at = group ? atomic_load_explicit(&group[sample % GROUP], memory_order_acquire) : NULL;
    if (!at)
        return 0;
    bytes = at + n * sizeof(uint16_t);
    for (uint32_t i = 0; i < n; i++) {
        uint16_t len;

        memcpy(&len, at + i * sizeof len, sizeof len);
        field[i] = len == NONE ? (stk_bytes){ 0 } : (stk_bytes){ bytes, len };
        bytes += len == NONE ? 0 : len;
    }
    return 1;
}

/* ---- put ---- */

static void *take_locked(stk_field_cache *s, size_t size) STK_REQUIRES(s->lock)
{
    void *p;

    if (!stk_account_take(&s->account, size)) {
        atomic_store_explicit(&s->full, 1, memory_order_relaxed);
        return NULL;
    }
    p = stk_zalloc(1, size);
    if (p)
        s->taken += size;
    else
        stk_account_give(&s->account, size);
    return p;
}

static uint8_t *cut_locked(stk_field_cache *s, size_t size) STK_REQUIRES(s->lock)
{
    block *b = s->blocks;

    if (!b || size > BLOCK - sizeof *b - b->used) {
        b = take_locked(s, BLOCK);
        if (!b)
            return NULL;
        b->next = s->blocks;
        s->blocks = b;
    }
    assert(size <= BLOCK - sizeof *b - b->used); /* a record is much smaller than a block */
    b->used += size;
    return b->bytes + b->used - size;
}

/* Where the sample's pointer is; NULL: there is no memory, or it has one already. */
static _Atomic(uint8_t *) *place_locked(stk_field_cache *s, uint64_t sample) STK_REQUIRES(s->lock)
{
    _Atomic(uint8_t *) *group = atomic_load_explicit(&s->group[sample / GROUP],
                                                     memory_order_relaxed);

    assert(sample < s->samples);
    if (!group) {
        group = take_locked(s, GROUP * sizeof *group);
        atomic_store_explicit(&s->group[sample / GROUP], group, memory_order_release);
    }
    return group && !atomic_load_explicit(&group[sample % GROUP], memory_order_relaxed)
               ? &group[sample % GROUP]
               : NULL;
}

static void write_record(uint8_t *to, const stk_bytes *field, uint32_t n)
{
    uint8_t *bytes = to + n * sizeof(uint16_t);

    for (uint32_t i = 0; i < n; i++) {
        uint16_t len = field[i].data ? (uint16_t)field[i].len : NONE;

        memcpy(to + i * sizeof len, &len, sizeof len);
        if (field[i].data) {
            memcpy(bytes, field[i].data, len);
            bytes += len;
        }
    }
}

void stk_field_cache_put(stk_field_cache *s, uint64_t sample, const stk_bytes *field, uint32_t n)
{
    size_t size = n * sizeof(uint16_t);
    _Atomic(uint8_t *) *place;
    uint8_t *to;

    for (uint32_t i = 0; i < n; i++) {
        if (field[i].data && field[i].len > STK_SMALL_BYTES)
            return;
        size += field[i].data ? field[i].len : 0;
    }
    if (sample >= s->samples || size > STK_SMALL_BYTES ||
        atomic_load_explicit(&s->full, memory_order_relaxed))
        return;
    stk_mutex_lock(&s->lock);
    place = place_locked(s, sample);
    to = place ? cut_locked(s, size) : NULL;
    if (to) {
        write_record(to, field, n);
        atomic_store_explicit(place, to, memory_order_release);
    }
    stk_mutex_unlock(&s->lock);
}
