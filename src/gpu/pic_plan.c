/* SPDX-License-Identifier: Apache-2.0 */
/* pic_plan.c - the launch of a batch: where each picture's parts are in scratch memory, and which
 * block of threads does what.
 *
 * A list's entries are taken by blocks of threads in order, so those that last longest come first:
 * pictures whose units are long (few seek points, or none) start before the others. */
#include "gpu/pic.h"

#include <assert.h>
#include <string.h>

#include "cuda/pic_geom.h"

#define DURATIONS 16

enum { SYNC, DECODE, ACROSS, DOWN, TILE, LISTS };

/* Blocks that a unit of the record has, as a power of two. */
static uint32_t duration(const stk_pic *r)
{
    const stk_pic_unit *u = (const stk_pic_unit *)(const void *)((const uint8_t *)r + r->units_at);
    uint32_t blocks = 0;

    if (!r->n_units)
        return 0;
    for (unsigned c = 0; c < r->n_comps; c++)
        blocks += (uint32_t)r->h[c] * r->v[c];
    blocks *= u[r->n_units / 2].count;
    if (blocks < 2)
        return 0;
    return blocks >> (DURATIONS - 1) ? DURATIONS - 1 : 31 - (uint32_t)__builtin_clz(blocks);
}

static_assert(STK_PIC_MAX_STEPS <= 64, "a bit a step");
static_assert(STK_PIC_MAX_STEPS <= STK_PIC_TILE_PIXELS, "an entry says pixel and step");

stk_pic_share stk_pic_share_of(const stk_pic *r)
{
    stk_pic_share s = { .size = r->size };
    stk_pic_room room;

    if (!stk_pic_sound(r, r->size)) /* no room for its taps: the device says what is wrong */
        return s;
    room = stk_pic_room_of(r);
    room.planes = r->kind == STK_PIC_SHARED ? 0 : room.planes;
    s = (stk_pic_share){
        room.planes, room.rows, room.taps, room.units, room.tile, .kind = r->kind
    };
    s.size = r->size;
    s.n_steps = r->prog.n_steps;
    for (uint32_t k = 0; k < r->prog.n_steps; k++)
        s.sorts[stk_pic_sort_of(stk_pic_steps(r) + k, stk_pic_acts(r))] |= UINT64_C(1) << k;
    s.work[TILE] = r->prog.n_steps ? stk_jpeg_ceil(r->prog.area, STK_PIC_TILE_PIXELS) : 0;
    s.work[DOWN] = stk_jpeg_ceil(r->y.n, STK_PIC_DOWN_ROWS);
    s.gpu_cached = r->arena_at != 0;
    s.scan = r->scan && !s.gpu_cached ? r->data_len : 0;
    if (!stk_pic_is_viewed(r) || !r->need[2])
        return s;
    s.work[ACROSS] = stk_jpeg_ceil(r->need[3], STK_PIC_ACROSS_ROWS);
    if (!stk_pic_is_jpeg(r))
        return s;
    s.n_units = r->n_units;
    if (r->kind == STK_PIC_WHOLE) {
        s.n_units = (uint32_t)(room.units / sizeof(stk_pic_unit));
        s.work[SYNC] = 1;
    }
    s.work[DECODE] = stk_jpeg_ceil(s.n_units, STK_PIC_UNITS);
    s.duration = duration(r);
    return s;
}

static uint64_t work_of(const stk_pic_share *s)
{
    uint64_t n = 0;

    for (int k = 0; k < LISTS; k++)
        n += (uint64_t)s->work[k] * (k == TILE ? s->n_steps : 1);
    return n;
}

static size_t bytes_of(uint64_t jobs, uint64_t work)
{
    return (size_t)(stk_pic_up64(jobs * sizeof(stk_pic_job)) + work * sizeof(stk_pic_work));
}

size_t stk_pic_lists_bytes(const stk_pic_item *item, uint32_t n)
{
    uint64_t work = 0;

    for (uint32_t i = 0; i < n; i++)
        work += work_of(&item[i].share);
    return bytes_of(n, work);
}

/* How many of the items fit; the entries of each list. */
static uint32_t count(const stk_pic_lists *p, const stk_pic_item *item, uint32_t n,
                      uint32_t all[LISTS])
{
    uint64_t scratch = p->scratch_from, work = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        const stk_pic_share *s = &item[i].share;

        work += work_of(s);
        if (stk_pic_share_scratch(s) > p->scratch_room - scratch || work > UINT32_MAX ||
            bytes_of(i + 1, work) > p->room)
            break;
        scratch += stk_pic_share_scratch(s);
        for (int k = 0; k < LISTS; k++)
            all[k] += s->work[k] * (k == TILE ? s->n_steps : 1);
    }
    return i;
}

static void place(stk_pic_lists *p, const uint32_t all[LISTS], stk_pic_work *list[LISTS])
{
    size_t at = (size_t)stk_pic_up64(p->n_jobs * sizeof(stk_pic_job));
    size_t *where[LISTS] = { &p->sync_at, &p->decode_at, &p->across_at, &p->down_at, &p->tile_at };
    uint32_t *n[LISTS] = { &p->n_sync, &p->n_decode, &p->n_across, &p->n_down, &p->n_tile };

    p->job_at = 0;
    for (int k = 0; k < LISTS; k++) {
        *where[k] = at;
        *n[k] = all[k];
        list[k] = (stk_pic_work *)(void *)((uint8_t *)p->memory + at);
        at += all[k] * sizeof(stk_pic_work);
    }
    p->bytes = at;
}

static stk_pic_work *add_work(stk_pic_work *to, uint32_t job, uint32_t n, uint32_t each)
{
    for (uint32_t i = 0; i < n; i++)
        *to++ = (stk_pic_work){ job, i * each };
    return to;
}

/* Units of all pictures, the longest first. */
static void add_units(const stk_pic_item *item, uint32_t n, stk_pic_work *to)
{
    uint32_t at[DURATIONS + 1] = { 0 };

    for (uint32_t i = 0; i < n; i++) /* at[d]: entries of all that last longer than d */
        for (uint32_t d = item[i].share.duration % DURATIONS; d-- > 0;)
            at[d] += item[i].share.work[DECODE];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *d = &at[item[i].share.duration % DURATIONS];

        add_work(to + *d, i, item[i].share.work[DECODE], STK_PIC_UNITS);
        *d += item[i].share.work[DECODE];
    }
}

/* ---- rounds ---- */

#define TRIED 128 /* rounds; programs that need more take all sorts in turn */

static uint32_t sort_of(const stk_pic_share *s, uint32_t step)
{
    uint32_t sort = 0;

    while (sort + 1 < STK_PIC_SORTS && !(s->sorts[sort] >> step & 1))
        sort++;
    return sort;
}

/* The sort of step for which most is waiting: pictures count by the steps they still have, so that
 * short programs wait for long ones and then share a launch with them.  STK_PIC_SORTS: nothing is
 * left. */
static uint32_t next_sort(const stk_pic_lists *p, const stk_pic_item *item)
{
    uint64_t waits[STK_PIC_SORTS] = { 0 };
    uint32_t best = 0;

    for (uint32_t i = 0; i < p->n_jobs; i++)
        if (item[i].step < item[i].share.n_steps)
            waits[sort_of(&item[i].share, item[i].step)] += item[i].share.n_steps - item[i].step;
    for (uint32_t sort = 1; sort < STK_PIC_SORTS; sort++)
        best = waits[sort] > waits[best] ? sort : best;
    return waits[best] ? best : STK_PIC_SORTS;
}

/* One launch: a step of each picture whose next one is of that sort.  Where its entries end. */
static stk_pic_work *add_round(stk_pic_lists *p, stk_pic_item *item, uint32_t sort,
                               stk_pic_work *to)
{
    stk_pic_work *from = to;

    for (uint32_t i = 0; i < p->n_jobs; i++) {
        const stk_pic_share *s = &item[i].share;
        uint32_t step = item[i].step;

        if (step >= s->n_steps || sort_of(s, step) != sort)
            continue;
        for (uint32_t k = 0; k < s->work[TILE]; k++)
            *to++ = (stk_pic_work){ i, k * STK_PIC_TILE_PIXELS + step };
        item[i].step++;
    }
    if (to > from) {
        assert(p->n_rounds < STK_PIC_MAX_ROUNDS);
        p->round_sort[p->n_rounds] = (uint8_t)sort;
        p->round_n[p->n_rounds++] = (uint32_t)(to - from);
    }
    return to;
}

static void begin_rounds(stk_pic_lists *p, stk_pic_item *item)
{
    p->n_rounds = 0;
    for (uint32_t i = 0; i < p->n_jobs; i++)
        item[i].step = 0;
}

/* Steps of all programs, in as few launches as they happen to allow. */
static void add_steps(stk_pic_lists *p, stk_pic_item *item, stk_pic_work *to)
{
    stk_pic_work *at = to;
    uint32_t sort;

    begin_rounds(p, item);
    while ((sort = next_sort(p, item)) < STK_PIC_SORTS && p->n_rounds < TRIED)
        at = add_round(p, item, sort, at);
    if (sort == STK_PIC_SORTS)
        return;
    begin_rounds(p, item);
    for (uint32_t k = 0; k < STK_PIC_MAX_ROUNDS; k++)
        to = add_round(p, item, k % STK_PIC_SORTS, to);
}

/* ---- the whole ---- */

/* Where its samples are: in its own part of scratch, or that of the record which decodes them. */
static void share_planes(const stk_pic_item *i, stk_pic_job *j)
{
    const stk_pic_item *from = i->share.kind == STK_PIC_SHARED && i->lead ? i->lead : i;

    j->planes = from->planes;
    j->planes_end = from->planes_end;
}

uint32_t stk_pic_plan(stk_pic_lists *p, stk_pic_item *item, uint32_t n)
{
    stk_pic_job *job = p->memory;
    stk_pic_work *list[LISTS];
    uint32_t all[LISTS] = { 0 };
    uint64_t at = p->scratch_from;

    p->n_jobs = count(p, item, n, all);
    place(p, all, list);
    for (uint32_t i = 0; i < p->n_jobs; i++) {
        const stk_pic_share *s = &item[i].share;
        stk_pic_job *j = &job[i];

        *j = (stk_pic_job){ .rec = item[i].at,
                            .n_units = s->n_units,
                            .out = item[i].out,
                            .out_bytes = item[i].out_bytes,
                            .source = item[i].source,
                            .lay = item[i].lay };
        j->keep = item[i].keep;
        j->kind = s->kind;
        item[i].planes = at;
        item[i].planes_end = j->rows = at + s->planes;
        share_planes(&item[i], j);
        j->taps = j->rows + s->rows;
        j->units = j->taps + s->taps;
        j->tile = j->units + s->units;
        at = j->end = j->tile + s->tile;
        list[SYNC] = add_work(list[SYNC], i, s->work[SYNC], 1);
        list[ACROSS] = add_work(list[ACROSS], i, s->work[ACROSS], STK_PIC_ACROSS_ROWS);
        list[DOWN] = add_work(list[DOWN], i, s->work[DOWN], STK_PIC_DOWN_ROWS);
    }
    add_steps(p, item, list[TILE]);
    add_units(item, p->n_jobs, list[DECODE]);
    assert(!p->n_jobs || at <= p->scratch_room); /* count() let no more in */
    p->scratch = at;
    return p->n_jobs;
}

void stk_pic_launch_lists(stk_pic_launch *l, const stk_pic_lists *p, const void *lists)
{
    const uint8_t *base = lists;

    l->job = (const stk_pic_job *)(const void *)(base + p->job_at);
    l->sync = (const stk_pic_work *)(const void *)(base + p->sync_at);
    l->decode = (const stk_pic_work *)(const void *)(base + p->decode_at);
    l->across = (const stk_pic_work *)(const void *)(base + p->across_at);
    l->down = (const stk_pic_work *)(const void *)(base + p->down_at);
    l->tile = (const stk_pic_work *)(const void *)(base + p->tile_at);
    l->n_jobs = p->n_jobs;
    l->n_sync = p->n_sync;
    l->n_decode = p->n_decode;
    l->n_across = p->n_across;
    l->n_down = p->n_down;
    l->n_tile = p->n_tile;
    l->n_rounds = p->n_rounds;
    memcpy(l->round_n, p->round_n, p->n_rounds * sizeof *l->round_n);
    memcpy(l->round_sort, p->round_sort, p->n_rounds);
}
