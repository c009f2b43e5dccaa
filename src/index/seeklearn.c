/* SPDX-License-Identifier: Apache-2.0 */
/* seeklearn.c - see seeklearn.h. */
#include "index/seeklearn.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "index/seeklayout.h"

typedef struct record {
    struct record *next; /* of the same sample; fixed once it is in the list */
    uint64_t bytes;      /* of the field */
    uint32_t field, len; /* len 0: there are no points */
    uint8_t data[];
} record;

typedef struct group {
    _Atomic(record *) head[STK_SEEK_GROUP];
} group;

struct stk_learn {
    const stk_index *ix;
    char *index_path, *path;
    uint64_t n_shards, n_groups, limit;
    uint64_t *first;          /* by shard: its first group */
    _Atomic(group *) *groups; /* NULL: nothing was found there */
    _Atomic uint64_t used, count;
    _Atomic int full;
    uint64_t written; /* the writer's: count at the last write */
};

/* ---- open and close ---- */

static int tables_make(stk_learn *l, stk_error *err)
{
    l->n_shards = stk_index_shards(l->ix);
    l->first = stk_zalloc(l->n_shards + 1, sizeof *l->first);
    if (!l->first)
        return stk_fail_nomem(err, l->n_shards * sizeof *l->first);
    for (uint64_t i = 0; i < l->n_shards; i++) {
        stk_shard_info s;

        STK_TRY(stk_index_shard(l->ix, i, &s, err));
        l->first[i] = l->n_groups;
        l->n_groups += seek_groups(s.samples);
    }
    l->first[l->n_shards] = l->n_groups;
    l->groups = stk_zalloc(l->n_groups + 1, sizeof *l->groups);
    return l->groups ? 0 : stk_fail_nomem(err, l->n_groups * sizeof *l->groups);
}

int stk_learn_open(stk_learn **out, const stk_index *ix, const char *index_path, const char *path,
                   uint64_t limit, stk_error *err)
{
    stk_learn *l = STK_NEW(stk_learn);
    int rc;

    *out = NULL;
    if (!l)
        return stk_fail_nomem(err, sizeof *l);
    l->ix = ix;
    l->limit = limit;
    l->path = stk_strdup(path);
    l->index_path = stk_strdup(index_path);
    rc = l->path && l->index_path ? tables_make(l, err) : stk_fail_nomem(err, 64);
    if (rc < 0)
        stk_learn_close(&l);
    *out = l;
    return rc;
}

static void group_free(group *g)
{
    for (uint32_t i = 0; g && i < STK_SEEK_GROUP; i++) {
        record *r = atomic_load_explicit(&g->head[i], memory_order_relaxed);

        while (r) {
            record *next = r->next;

            stk_free(r);
            r = next;
        }
    }
    stk_free(g);
}

void stk_learn_close(stk_learn **lp)
{
    stk_learn *l = *lp;

    if (!l)
        return;
    *lp = NULL;
    for (uint64_t i = 0; l->groups && i < l->n_groups; i++)
        group_free(atomic_load_explicit(&l->groups[i], memory_order_relaxed));
    stk_free((void *)l->groups);
    stk_free(l->first);
    stk_free(l->path);
    stk_free(l->index_path);
    stk_free(l);
}

/* ---- while running ---- */

/* The group of a row, whose number in it is *row from then on; NULL: there is no such row. */
static _Atomic(group *) *group_at(const stk_learn *l, const stk_learn_place *at, uint32_t *row)
{
    uint64_t g;

    if (at->shard >= l->n_shards)
        return NULL;
    g = l->first[at->shard] + at->row / STK_SEEK_GROUP;
    *row = (uint32_t)(at->row % STK_SEEK_GROUP);
    return g < l->first[at->shard + 1] ? &l->groups[g] : NULL;
}

static const record *find(const record *r, uint32_t field)
{
    while (r && r->field != field)
        r = r->next;
    return r;
}

stk_bytes stk_learn_get(const stk_learn *l, const stk_learn_place *at, int *tried)
{
    uint32_t row;
    _Atomic(group *) *place = group_at(l, at, &row);
    group *g = place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
    const record *r = g ? find(atomic_load_explicit(&g->head[row], memory_order_acquire), at->field)
                        : NULL;

    *tried = r != NULL;
    return r && r->len ? (stk_bytes){ r->data, r->len } : (stk_bytes){ 0 };
}

/* Have so many bytes more; 0: there is no room, from now on. */
static int take_room(stk_learn *l, uint64_t bytes)
{
    if (atomic_fetch_add_explicit(&l->used, bytes, memory_order_relaxed) + bytes <= l->limit)
        return 1;
    atomic_store_explicit(&l->full, 1, memory_order_relaxed);
    return 0;
}

static group *group_make(stk_learn *l, _Atomic(group *) *place)
{
    group *g = atomic_load_explicit(place, memory_order_acquire), *made;

    if (g || !take_room(l, sizeof *g))
        return g;
    made = STK_NEW(group);
    if (!made || atomic_compare_exchange_strong_explicit(place, &g, made, memory_order_acq_rel,
                                                         memory_order_acquire))
        return made;
    stk_free(made); /* another one was first, and is in g */
    return g;
}

int stk_learn_put(stk_learn *l, const stk_learn_place *at, stk_bytes points, uint64_t bytes)
{
    uint32_t row;
    _Atomic(group *) *place = group_at(l, at, &row);
    group *g = place ? group_make(l, place) : NULL;
    record *r;

    if (!g || !take_room(l, sizeof *r + points.len) || points.len > UINT32_MAX)
        return 0;
    r = stk_alloc(sizeof *r + points.len);
    if (!r)
        return 0;
    r->bytes = bytes;
    r->field = at->field;
    r->len = (uint32_t)points.len;
    if (points.len)
        memcpy(r->data, points.data, points.len);
    r->next = atomic_load_explicit(&g->head[row], memory_order_acquire);
    do {
        if (find(r->next, at->field)) {
            stk_free(r);
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&g->head[row], &r->next, r,
                                                    memory_order_acq_rel, memory_order_acquire));
    if (points.len)
        atomic_fetch_add_explicit(&l->count, 1, memory_order_relaxed);
    return 1;
}

int stk_learn_full(const stk_learn *l)
{
    return atomic_load_explicit(&l->full, memory_order_relaxed);
}

uint64_t stk_learn_count(const stk_learn *l)
{
    return atomic_load_explicit(&l->count, memory_order_relaxed);
}

/* ---- writing ---- */

typedef struct merge {
    stk_seekfile *old; /* NULL: there is none */
    stk_seek_writer *w;
    stk_seek_room room;
    stk_seek_group out;
} merge;

/* What the old file has of a row, and what was found besides. */
static int merge_row(merge *m, const group *g, uint64_t shard, uint64_t row, stk_error *err)
{
    uint32_t in_group = (uint32_t)(row % STK_SEEK_GROUP), field;
    stk_seek_cursor all = stk_seekfile_row(m->old, shard, row, &m->room);
    stk_bytes bytes;

    for (stk_seek_cursor c = all; stk_seek_next(&c, &field, &bytes);)
        STK_TRY(stk_seek_group_add(&m->out, in_group, field, bytes, err));
    for (const record *r = atomic_load_explicit(&g->head[in_group], memory_order_acquire); r;
         r = r->next) {
        stk_seek_cursor c = all;
        int known = 0;

        while (!known && stk_seek_next(&c, &field, &bytes))
            known = field == r->field;
        if (known || !r->len)
            continue;
        STK_TRY(
            stk_seek_group_add(&m->out, in_group, r->field, (stk_bytes){ r->data, r->len }, err));
        m->out.counts.fields++;
        m->out.counts.bytes += r->bytes;
    }
    return 0;
}

static int merge_group(const stk_learn *l, merge *m, uint64_t number, stk_error *err)
{
    const group *g = atomic_load_explicit(&l->groups[number], memory_order_acquire);
    stk_seek_counts counts = { 0 };
    uint64_t shard, first;
    uint32_t rows;
    int rc;

    stk_seek_writer_place(m->w, number, &shard, &first, &rows);
    if (!g || (m->old && stk_seekfile_made(m->old, shard, first))) {
        rc = m->old ? stk_seek_writer_reuse(m->w, number, m->old, shard, err) : 0;
        return rc == STK_END ? 0 : rc;
    }
    if (m->old)
        (void)stk_seekfile_group(m->old, shard, first, &m->room, &counts);
    STK_TRY(stk_seek_group_begin(&m->out, rows, err));
    for (uint32_t i = 0; i < rows; i++)
        STK_TRY(merge_row(m, g, shard, first + i, err));
    stk_seek_group_end(&m->out);
    m->out.partial = 1;
    m->out.counts.fields += counts.fields;
    m->out.counts.others += counts.others;
    m->out.counts.bytes += counts.bytes;
    return stk_seek_writer_add(m->w, number, &m->out, err);
}

static int write_with_file_lock(stk_learn *l, stk_error *err)
{
    merge m = { 0 };
    int rc = stk_seekfile_open(&m.old, l->path, l->ix, NULL);

    if (rc == 0 && stk_seekfile_foreign(m.old)) /* of other data: not worth keeping */
        stk_seekfile_close(&m.old);
    rc = stk_seek_writer_open(&m.w, l->path, l->ix, err);
    for (uint64_t i = 0; rc == 0 && i < l->n_groups; i++)
        rc = merge_group(l, &m, i, err);
    if (rc == 0)
        rc = stk_seek_writer_commit(m.w, err);
    stk_seek_writer_close(&m.w);
    stk_seekfile_close(&m.old);
    stk_seek_group_fini(&m.out);
    stk_seek_room_fini(&m.room);
    return rc;
}

int stk_learn_write(stk_learn *l, stk_error *err)
{
    uint64_t count = stk_learn_count(l);
    stk_lock_file lock;
    int rc;

    if (!l->path[0] || count == l->written)
        return 0;
    rc = stk_seek_lock(l->index_path, &lock);
    if (rc)
        return rc;
    rc = write_with_file_lock(l, err);
    if (rc == 0)
        l->written = count;
    stk_lock_drop(&lock);
    return rc;
}
