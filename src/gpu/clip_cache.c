/* SPDX-License-Identifier: Apache-2.0 */
/* clip_cache.c - see clip_cache.h.  A table by key, with one lock; it grows, and nothing leaves it.
 *
 * What a clip is known by is noted when its place is claimed, before the place is there: so who
 * finds the place finds the note. */
#include "gpu/clip_cache.h"

#include "base/hash.h"
#include "base/lock.h"
#include "base/mem.h"

typedef struct note {
    uint64_t sample; /* + 1; 0: an empty place of the table */
    uint32_t output, stride;
    uint64_t frames, chroma, frame;
} note;

struct stk_clip_cache {
    stk_picture_cache *arena;
    stk_mutex lock;
    note *table;    /* lock */
    size_t n, room; /* lock: room is a power of two, or 0 */
};

int stk_clip_cache_open(stk_clip_cache **out, stk_picture_cache *arena, stk_error *err)
{
    stk_clip_cache *c = STK_NEW(stk_clip_cache);

    *out = c;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->arena = arena;
    stk_mutex_init(&c->lock);
    return 0;
}

void stk_clip_cache_close(stk_clip_cache **cp)
{
    stk_clip_cache *c = *cp;

    if (!c)
        return;
    *cp = NULL;
    stk_mutex_destroy(&c->lock);
    stk_free(c->table);
    stk_free(c);
}

/* Its note, or the empty place where it belongs. */
static note *place_of(note *table, size_t room, stk_cache_key of)
{
    const uint64_t key[2] = { of.sample, of.output };
    size_t i = (size_t)stk_hash64(0, key, sizeof key) & (room - 1);

    while (table[i].sample && (table[i].sample != of.sample + 1 || table[i].output != of.output))
        i = (i + 1) & (room - 1);
    return &table[i];
}

static int grow_locked(stk_clip_cache *c) STK_REQUIRES(c->lock)
{
    size_t room = c->room ? 2 * c->room : 1024;
    note *more = stk_zalloc(room, sizeof *more);

    if (!more)
        return 0;
    for (size_t i = 0; i < c->room; i++)
        if (c->table[i].sample) {
            const stk_cache_key of = { c->table[i].sample - 1, c->table[i].output };

            *place_of(more, room, of) = c->table[i];
        }
    stk_free(c->table);
    c->table = more;
    c->room = room;
    return 1;
}

static int add_note(stk_clip_cache *c, stk_cache_key of, const note *n)
{
    int rc = 1;

    stk_mutex_lock(&c->lock);
    if (2 * (c->n + 1) > c->room)
        rc = grow_locked(c);
    if (rc) {
        note *to = place_of(c->table, c->room, of);

        c->n += !to->sample;
        *to = *n;
    }
    stk_mutex_unlock(&c->lock);
    return rc;
}

static stk_clip_place at_place(const stk_clip_cache *c, uint64_t at, const note *n)
{
    uint64_t len;

    return (stk_clip_place){ .at = stk_picture_cache_arena(c->arena, &len) + at,
                             .stride = n->stride,
                             .frame = n->frame,
                             .chroma = n->chroma };
}

int stk_clip_cache_find(stk_clip_cache *c, const stk_cached_clip *k, stk_clip_place *out)
{
    uint64_t at = k->on ? stk_picture_cache_find(c->arena, k->of) : 0;
    note n = { 0 };

    *out = (stk_clip_place){ 0 };
    if (!at)
        return 0;
    stk_mutex_lock(&c->lock);
    if (c->room)
        n = *place_of(c->table, c->room, k->of);
    stk_mutex_unlock(&c->lock);
    if (!n.sample || n.frames != k->frames)
        return 0;
    *out = at_place(c, at, &n);
    return 1;
}

int stk_clip_cache_claim(stk_clip_cache *c, const stk_cached_clip *k, const stk_frame_format *f,
                         uint32_t stride, uint32_t n, stk_clip_place *out)
{
    note m = {
        .sample = k->of.sample + 1, .output = k->of.output, .stride = stride, .frames = k->frames
    };
    uint64_t at;

    *out = (stk_clip_place){ 0 };
    m.chroma = (uint64_t)stride * f->height;
    m.frame = (m.chroma + (uint64_t)stride * ((f->height + 1) / 2) + 255) & ~(uint64_t)255;
    at = k->on ? stk_picture_cache_claim(c->arena, k->of, m.frame * n) : 0;
    if (!at)
        return 0;
    if (!add_note(c, k->of, &m)) {
        stk_picture_cache_bad(c->arena, k->of);
        return 0;
    }
    *out = at_place(c, at, &m);
    return 1;
}

void stk_clip_cache_settle(stk_clip_cache *c, const stk_cached_clip *k, int there)
{
    if (there)
        stk_picture_cache_there(c->arena, k->of);
    else
        stk_picture_cache_bad(c->arena, k->of);
}
