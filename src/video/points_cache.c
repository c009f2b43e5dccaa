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
    size_t len;
    uint8_t bytes[];
} cached;

struct stk_points_cache {
    stk_mutex lock;
    size_t bytes; /* lock */
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

static cached *find_locked(const stk_points_cache *k, uint64_t key) STK_REQUIRES(k->lock)
{
    cached *one = k->list[key % LISTS];

    while (one && one->key != key)
        one = one->next;
    return one;
}

stk_bytes stk_points_copy(stk_points_room room, stk_bytes points)
{
    if (*room.cap < points.len) {
        uint8_t *more = stk_alloc(points.len);

        if (!more)
            return (stk_bytes){ 0 };
        stk_free(*room.data);
        *room.data = more;
        *room.cap = points.len;
    }
    memcpy(*room.data, points.data, points.len);
    return (stk_bytes){ *room.data, points.len };
}

stk_bytes stk_points_cache_get(stk_points_cache *k, uint64_t key, stk_points_room room)
{
    stk_bytes out = { 0 };
    const cached *one;

    stk_mutex_lock(&k->lock);
    one = find_locked(k, key);
    if (one)
        out = stk_points_copy(room, (stk_bytes){ one->bytes, one->len });
    stk_mutex_unlock(&k->lock);
    return out;
}

void stk_points_cache_put(stk_points_cache *k, uint64_t key, stk_bytes points)
{
    cached *one = points.len < STK_POINTS_CACHE ? stk_alloc(sizeof *one + points.len) : NULL;

    if (!one)
        return;
    one->key = key;
    one->len = points.len;
    memcpy(one->bytes, points.data, points.len);
    stk_mutex_lock(&k->lock);
    if (k->bytes + points.len > STK_POINTS_CACHE)
        drop_locked(k);
    if (!find_locked(k, key)) {
        one->next = k->list[key % LISTS];
        k->list[key % LISTS] = one;
        k->bytes += points.len;
        one = NULL;
    }
    stk_mutex_unlock(&k->lock);
    stk_free(one);
}
