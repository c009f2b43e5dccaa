/* SPDX-License-Identifier: Apache-2.0 */
/* points_cache.c - see points_cache.h.  A table of lists by key; what it has is bounded, and
 * dropped as a whole: a loader goes round all its files in any case. */
#include "video/points_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/mem.h"
#include "source/source.h"

#define LISTS 4096u

typedef struct cached {
    struct cached *next;
    uint64_t key;
    stk_buffer *points;
} cached;

struct stk_points_cache {
    stk_mutex lock;
    size_t bytes;        /* lock */
    cached *list[LISTS]; /* lock */
};

int stk_points_cache_open(stk_points_cache **out, stk_error *err)
{
    *out = STK_NEW(stk_points_cache);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    if (stk_mutex_init(&(*out)->lock)) {
        stk_free(*out);
        *out = NULL;
        return stk_fail_nomem(err, sizeof **out);
    }
    return 0;
}

static void drop_locked(stk_points_cache *k) STK_REQUIRES(k->lock)
{
    for (uint32_t i = 0; i < LISTS; i++)
        while (k->list[i]) {
            cached *one = k->list[i];

            k->list[i] = one->next;
            stk_buffer_unref(one->points);
            stk_free(one);
        }
    k->bytes = 0;
}

void stk_points_cache_close(stk_points_cache **k)
{
    stk_points_cache *x = *k;

    *k = NULL;
    if (!x)
        return;
    stk_mutex_lock(&x->lock);
    drop_locked(x);
    stk_mutex_unlock(&x->lock);
    stk_mutex_destroy(&x->lock);
    stk_free(x);
}

uint64_t stk_points_key(stk_file *f, stk_bytes name)
{
    stk_file_info info;
    uint64_t key;

    if (stk_file_stat(f, &info, NULL) < 0)
        return 0;
    if (!info.id && !info.etag[0] && !(name.len && info.mtime_ns))
        return 0;
    key = stk_hash64(info.id, &info.size, sizeof info.size);
    key = stk_hash64(key, &info.mtime_ns, sizeof info.mtime_ns);
    key = stk_hash64(key, info.etag, strlen(info.etag));
    key = name.len ? stk_hash64(key, name.data, name.len) : key;
    return key ? key : 1;
}

uint64_t stk_points_key_at(uint64_t key, uint64_t offset, uint64_t len)
{
    const uint64_t place[2] = { offset, len };

    if (!key)
        return 0;
    key = stk_hash64(key, place, sizeof place);
    return key ? key : 1;
}

static cached *find_locked(const stk_points_cache *k, uint64_t key) STK_REQUIRES(k->lock)
{
    cached *one = k->list[key % LISTS];

    while (one && one->key != key)
        one = one->next;
    return one;
}

stk_buffer *stk_points_cache_get(stk_points_cache *k, uint64_t key)
{
    stk_buffer *out = NULL;
    const cached *one;

    stk_mutex_lock(&k->lock);
    one = key ? find_locked(k, key) : NULL;
    if (one) {
        out = one->points;
        stk_buffer_ref(out);
    }
    stk_mutex_unlock(&k->lock);
    return out;
}

/* 1: `one` is in the table, which holds its points too. */
static int keep(stk_points_cache *k, cached *one)
{
    int is_new;

    stk_mutex_lock(&k->lock);
    if (k->bytes + one->points->size > STK_POINTS_CACHE)
        drop_locked(k);
    is_new = !find_locked(k, one->key);
    if (is_new) {
        stk_buffer_ref(one->points);
        one->next = k->list[one->key % LISTS];
        k->list[one->key % LISTS] = one;
        k->bytes += one->points->size;
    }
    stk_mutex_unlock(&k->lock);
    return is_new;
}

stk_buffer *stk_points_cache_put(stk_points_cache *k, uint64_t key, stk_bytes points)
{
    stk_buffer *b = stk_buffer_new(points.len);
    cached *one = b && key && points.len < STK_POINTS_CACHE ? STK_NEW(cached) : NULL;

    if (b)
        memcpy(b->data, points.data, points.len);
    if (!one)
        return b;
    *one = (cached){ .key = key, .points = b };
    if (!keep(k, one))
        stk_free(one);
    return b;
}
