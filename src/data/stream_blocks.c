/* SPDX-License-Identifier: Apache-2.0 */
/* stream_blocks.c - blocks of a stream: lanes fill them, rows wait for samples, marks remember
 * where lanes stood.
 *
 * One lock covers all of it: it is taken a few times per sample, for a few instructions. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "data/stream.h"
#include "store/remote.h"

#define UNKNOWN UINT64_MAX

/* ---- blocks ---- */

static stk_stream_block *find_locked(stk_stream_run *r, uint64_t number) STK_REQUIRES(r->lock)
{
    stk_stream_block *b = r->blocks;

    while (b && b->number != number)
        b = b->next;
    return b;
}

/* Windows are mixed each by itself; the same numbers give the same order in every run. */
static void make_order(const stk_stream *s, stk_stream_block *b)
{
    for (uint64_t i = 0; i < s->block; i++)
        b->order[i] = (uint32_t)i;
    for (uint64_t from = 0; s->shuffle && from < s->block; from += s->window) {
        uint64_t window = (b->number * s->block + from) / s->window;
        uint64_t h = stk_mix64(stk_mix64(s->seed ^ 0x9E6C63D0876A9A47u) + window * s->world +
                               s->rank);

        for (uint64_t i = s->window - 1; i; i--) {
            uint64_t j = (uint64_t)((unsigned __int128)(h = stk_mix64(h + i)) * (i + 1) >> 64);
            uint32_t was = b->order[from + i];

            b->order[from + i] = b->order[from + j];
            b->order[from + j] = was;
        }
    }
}

static int block_new_locked(stk_stream_run *r, uint64_t number, stk_stream_block **out,
                            stk_error *err) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;
    size_t parts = (size_t)s->block * s->fields.n;
    size_t head = sizeof **out + (size_t)s->block * sizeof(stk_stream_sample);
    stk_stream_block *b = stk_zalloc(1, head + parts * sizeof(stk_stream_part) +
                                            (size_t)s->block * sizeof(uint32_t));

    *out = b;
    if (!b)
        return stk_fail_nomem(err, head);
    b->number = number;
    b->part = (stk_stream_part *)((char *)b + head);
    b->order = (uint32_t *)(b->part + parts);
    make_order(s, b);
    b->next = r->blocks;
    r->blocks = b;
    return 0;
}

static void sample_fini(stk_stream_sample *x)
{
    if (x->bytes)
        stk_buffer_unref(x->bytes);
    stk_free(x->why);
}

static void block_free(const stk_stream *s, stk_stream_block *b)
{
    for (uint64_t i = 0; i < s->block; i++)
        sample_fini(&b->sample[i]);
    stk_free(b);
}

/* Is this block of no use any more? */
static int is_over_locked(const stk_stream_run *r, const stk_stream_block *b) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;
    uint64_t end = (b->number + 1) * s->block;

    return !b->pins &&
           ((b->taken == s->block && end + s->keep <= r->last) || end + s->lag <= r->last);
}

static void drop_locked(stk_stream_run *r, int all) STK_REQUIRES(r->lock)
{
    for (stk_stream_block **p = &r->blocks, *b; (b = *p);) {
        if (b->pins || !(all || is_over_locked(r, b))) {
            p = &b->next;
            continue;
        }
        *p = b->next;
        if (b->number >= r->low)
            r->low = b->number + 1;
        assert(r->len >= b->len);
        r->len -= b->len;
        r->filled -= b->filled;
        block_free(r->s, b);
        pthread_cond_broadcast(&r->room);
        pthread_cond_broadcast(&r->came); /* who waits for a block that is gone has it read again */
    }
}

/* ---- marks ---- */

static void thin_locked(stk_stream_run *r) STK_REQUIRES(r->lock)
{
    uint32_t n = 0;

    r->stride *= 2;
    for (uint32_t i = 0; i < r->n_marks; i++) {
        if (r->mark[i].block % r->stride)
            stk_free(r->mark[i].place);
        else
            r->mark[n++] = r->mark[i];
    }
    r->n_marks = n;
}

/* The mark of this block, made where there is none; marks are in order.  NULL: no memory, so it is
 * done without. */
static stk_stream_mark *mark_of_locked(stk_stream_run *r, uint64_t block) STK_REQUIRES(r->lock)
{
    uint32_t i = r->n_marks, lanes = r->s->lanes;
    stk_stream_place *place;

    while (i && r->mark[i - 1].block > block)
        i--;
    if (i && r->mark[i - 1].block == block)
        return &r->mark[i - 1];
    if (r->n_marks == STK_STREAM_MARKS) {
        thin_locked(r);
        return block % r->stride ? NULL : mark_of_locked(r, block);
    }
    place = stk_alloc(lanes * sizeof *place);
    if (!place)
        return NULL;
    memset(place, 0xFF, lanes * sizeof *place);
    memmove(&r->mark[i + 1], &r->mark[i], (r->n_marks++ - i) * sizeof *r->mark);
    r->mark[i] = (stk_stream_mark){ block, 0, place };
    return &r->mark[i];
}

static void note_locked(stk_stream_run *r, const stk_stream_lane *l, uint64_t block)
    STK_REQUIRES(r->lock)
{
    stk_stream_mark *m = block % r->stride ? NULL : mark_of_locked(r, block);

    if (!m || m->place[l->number].pass != UNKNOWN)
        return;
    m->place[l->number] = l->at;
    m->known++;
}

/* The last whole mark at or before a block; the beginning has none. */
static const stk_stream_mark *mark_before_locked(const stk_stream_run *r, uint64_t block)
    STK_REQUIRES(r->lock)
{
    const stk_stream_mark *found = &r->begin;

    for (uint32_t i = 0; i < r->n_marks && r->mark[i].block <= block; i++)
        if (r->mark[i].known == r->s->lanes)
            found = &r->mark[i];
    return found;
}

/* ---- lanes ---- */

/* All lanes go to the last mark before this number. */
static void go_to_locked(stk_stream_run *r, uint64_t number) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;
    uint64_t block = number / s->block;
    const stk_stream_mark *m = mark_before_locked(r, block);

    drop_locked(r, 1);
    r->turn++;
    r->wanted = r->low = block;
    r->last = number;
    for (uint32_t i = 0; i < s->lanes; i++) {
        uint64_t first = m->block * s->block;

        r->lane[i].start = m->place ? m->place[i] : (stk_stream_place){ 0, 0, 0 };
        r->lane[i].first = first > i ? (first - i + s->lanes - 1) / s->lanes : 0;
    }
    pthread_cond_broadcast(&r->room);
}

static int start_locked(stk_stream_run *r, stk_error *err) STK_REQUIRES(r->lock)
{
    for (; r->started < r->s->lanes; r->started++) {
        stk_stream_lane *l = &r->lane[r->started];

        pthread_t thread;

        if (stk_thread_start(&thread, stk_stream_lane_main, l, "stk-stream") < 0)
            return stk_fail(err, STK_ENOMEM, "the system gives no more threads");
        pthread_detach(thread); /* it may be in the middle of a read when the data set is closed */
        r->live++;
    }
    return 0;
}

int stk_stream_begin(stk_stream_lane *l)
{
    stk_stream_run *r = l->run;
    int rc;

    stk_mutex_lock(&r->lock);
    l->turn = r->turn;
    l->at = l->start;
    l->next = l->first;
    rc = r->stop ? STK_ECLOSED : 0;
    stk_mutex_unlock(&r->lock);
    return rc;
}

static int is_over_lane_locked(const stk_stream_run *r, const stk_stream_lane *l)
    STK_REQUIRES(r->lock)
{
    return r->stop || l->turn != r->turn;
}

int stk_stream_is_over(stk_stream_lane *l)
{
    stk_stream_run *r = l->run;
    int yes;

    stk_mutex_lock(&r->lock);
    yes = is_over_lane_locked(r, l);
    stk_mutex_unlock(&r->lock);
    return yes;
}

void stk_stream_give_up(stk_stream_lane *l)
{
    stk_mutex_lock(&l->run->lock);
    (void)stk_fail_nomem(&l->run->failed, sizeof(stk_error));
    pthread_cond_broadcast(&l->run->came);
    stk_mutex_unlock(&l->run->lock);
}

void stk_stream_stuck(stk_stream_lane *l, const stk_error *why)
{
    stk_stream_run *r = l->run;
    uint64_t asked;

    stk_mutex_lock(&r->lock);
    r->stuck = *why;
    r->n_stuck++;
    asked = r->asked;
    pthread_cond_broadcast(&r->came);
    while (!is_over_lane_locked(r, l) && asked == r->asked)
        stk_cond_wait(&r->room, &r->lock);
    stk_mutex_unlock(&r->lock);
}

static uint64_t memory_of(const stk_stream *s)
{
    return atomic_load_explicit(&s->memory, memory_order_relaxed);
}

static void too_large_locked(stk_stream_run *r) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;

    stk_fail(&r->failed, STK_ENOMEM,
             "the %" PRIu64 " samples that a stream keeps at once are more than %" PRIu64
             " MB, three eighths of memory_limit: raise it, or lower window (%" PRIu64 ")",
             s->block, memory_of(s) >> 20, s->window);
}

/* May the lane go on?  What is wanted comes in any case, and the block after it while that leaves
 * room for the rest of the wanted one. */
static int has_room_locked(stk_stream_run *r, uint64_t block) STK_REQUIRES(r->lock)
{
    uint64_t memory = memory_of(r->s), each = r->filled ? r->len / r->filled : 0;
    const stk_stream_block *b;

    if (block <= r->wanted || block > r->wanted + 1 || memory == UINT64_MAX)
        return block <= r->wanted + 1;
    b = find_locked(r, r->wanted);
    return r->len + each * (r->s->block - (b ? b->filled : 0)) < memory;
}

/* 1: the sample is in its block now; 0: it is not wanted. */
static int store_locked(stk_stream_run *r, uint64_t number, const stk_stream_sample *x,
                        const stk_stream_part *part) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;
    uint64_t block = number / s->block, i = number % s->block;
    stk_stream_block *b = find_locked(r, block);

    if (block < r->low || (b && b->sample[i].state != STK_STREAM_NOTHING))
        return 0;
    if (!b && (block + 1) * s->block + s->lag <= r->last) { /* on the way to what is wanted */
        r->low = block + 1;
        pthread_cond_broadcast(&r->came);
        return 0;
    }
    if (!b && block_new_locked(r, block, &b, &r->failed) < 0) {
        pthread_cond_broadcast(&r->came);
        return 0;
    }
    b->sample[i] = *x;
    b->filled++;
    r->filled++;
    b->len += x->len;
    r->len += x->len;
    /* a smaller window would help */
    if (b->len > memory_of(s) && s->block == s->window && !r->failed.code)
        too_large_locked(r);
    if (part)
        memcpy(b->part + i * s->fields.n, part, s->fields.n * sizeof *part);
    pthread_cond_broadcast(&r->came);
    return 1;
}

int stk_stream_put(stk_stream_lane *l, const stk_stream_sample *x, const stk_stream_part *part,
                   stk_error *err)
{
    stk_stream_run *r = l->run;
    const stk_stream *s = r->s;
    uint64_t number = l->next * s->lanes + l->number, block = number / s->block;
    stk_stream_sample mine = *x;
    int over;

    stk_mutex_lock(&r->lock);
    while (!is_over_lane_locked(r, l) && !has_room_locked(r, block))
        stk_cond_wait(&r->room, &r->lock);
    over = is_over_lane_locked(r, l);
    if (!over) {
        if (l->next == 0 || (number - s->lanes) / s->block != block)
            note_locked(r, l, block);
        l->next++;
        if (store_locked(r, number, x, part))
            mine = (stk_stream_sample){ 0 };
    }
    stk_mutex_unlock(&r->lock);
    sample_fini(&mine);
    return over ? stk_fail(err, STK_ECLOSED, "the stream begins again") : 0;
}

/* ---- rows ---- */

static stk_stream_sample *sample_of(const stk_stream *s, stk_stream_block *b, uint64_t number)
{
    return &b->sample[b->order[number % s->block]];
}

/* Wanted from now on: lanes may go one block past it, or to a mark that is nearer. */
static void want_locked(stk_stream_run *r, uint64_t number) STK_REQUIRES(r->lock)
{
    uint64_t block = number / r->s->block;

    if (block > r->wanted + 1 && mark_before_locked(r, block)->block > r->wanted)
        go_to_locked(r, number);
    if (number > r->last)
        r->last = number;
    if (block > r->wanted) {
        r->wanted = block;
        drop_locked(r, 0);
        pthread_cond_broadcast(&r->room);
    }
}

static void wait_end_locked(stk_stream_run *r, stk_stream_wait *w) STK_REQUIRES(r->lock)
{
    if (w->back) {
        r->went_back--;
        pthread_cond_broadcast(&r->came);
    }
    *w = (stk_stream_wait){ 0 };
}

static void wait_begin_locked(stk_stream_run *r, stk_stream_wait *w, uint64_t number)
    STK_REQUIRES(r->lock)
{
    if (w->on && w->number == number)
        return; /* it waited before */
    wait_end_locked(r, w);
    *w = (stk_stream_wait){ .number = number, .stuck = r->n_stuck, .on = 1 };
}

/* Lanes go back for one row at a time: two that want far places would never be served.
 * STK_PENDING: it is `until`, not 0. */
static int wait_locked(stk_stream_run *r, stk_stream_wait *w, uint64_t until,
                       stk_stream_block **out) STK_REQUIRES(r->lock)
{
    const stk_stream *s = r->s;
    uint64_t number = w->number, block = number / s->block;
    stk_stream_block *b;
    int rc = 0;

    for (;; w->asked = 1) {
        if (block < r->low && !r->went_back && !find_locked(r, block)) {
            w->back = 1;
            r->went_back++;
            go_to_locked(r, number);
        }
        if (w->back || !r->went_back)
            want_locked(r, number);
        b = find_locked(r, block); /* now: blocks may just have been dropped */
        rc = r->failed.code;
        if (rc < 0 || (b && sample_of(s, b, number)->state != STK_STREAM_NOTHING))
            break;
        rc = stk_halt_is(stk_halt_mine()) ? STK_ECLOSED
             : r->n_stuck != w->stuck     ? r->stuck.code
                                          : 0;
        if (rc < 0)
            break;
        if (!w->asked && r->n_stuck) { /* lanes that are stuck try again */
            r->asked++;
            pthread_cond_broadcast(&r->room);
        }
        if (until && stk_now_ns() >= until)
            return STK_PENDING;
        stk_halt_cond_wait(&r->came, &r->lock);
    }
    wait_end_locked(r, w);
    *out = b;
    return rc;
}

static int find_or_wait_locked(stk_stream_run *r, uint64_t number, int poll, stk_stream_block **out,
                               stk_error *err) STK_REQUIRES(r->lock)
{
    stk_stream_wait own = { 0 }, *w = poll ? &r->polled : &own;
    int rc;

    if (!r->started)
        go_to_locked(r, number);
    STK_TRY(start_locked(r, err));
    wait_begin_locked(r, w, number);
    rc = wait_locked(r, w, poll ? stk_now_ns() + STK_HALT_MS * 1000000u : 0, out);
    if (r->failed.code)
        *err = r->failed;
    else if (rc < 0 && rc == r->stuck.code)
        *err = r->stuck;
    else if (rc < 0)
        stk_fail_halted(err);
    return rc;
}

int stk_stream_acquire(stk_stream *s, uint64_t number, int poll, stk_error *err)
{
    stk_stream_run *r = stk_stream_run_of(s, err);
    stk_stream_block *b = NULL;
    stk_error failed = { 0 };
    int rc = r ? 0 : STK_ENOMEM;

    STK_TRY(rc);
    stk_mutex_lock(&r->lock);
    rc = find_or_wait_locked(r, number, poll, &b, &failed);
    if (rc == 0) {
        stk_stream_sample *x = sample_of(s, b, number);

        b->taken += !x->taken;
        x->taken = 1;
        if (x->state == STK_STREAM_BAD)
            rc = (failed = *x->why).code;
        b->pins += rc == 0;
    }
    stk_mutex_unlock(&r->lock);
    if (rc < 0 && err)
        *err = failed;
    return rc;
}

void stk_stream_release(stk_stream *s, uint64_t number)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);
    stk_stream_block *b;

    stk_mutex_lock(&r->lock);
    b = find_locked(r, number / s->block);
    assert(b && b->pins); /* each release has its acquire */
    b->pins--;
    if (is_over_locked(r, b))
        drop_locked(r, 0);
    stk_mutex_unlock(&r->lock);
}

stk_bytes stk_stream_bytes(stk_stream *s, uint64_t number, uint32_t field)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);
    stk_bytes out = { 0 };
    stk_stream_block *b;

    stk_mutex_lock(&r->lock);
    b = find_locked(r, number / s->block);
    if (b) {
        uint64_t i = b->order[number % s->block];
        const stk_stream_part *p = &b->part[i * s->fields.n + field];

        if (p->len != UNKNOWN)
            out = (stk_bytes){ (const uint8_t *)b->sample[i].bytes->data + p->at, (size_t)p->len };
    }
    stk_mutex_unlock(&r->lock);
    return out;
}

uint64_t stk_stream_shard(stk_stream *s, uint64_t number)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);
    uint64_t shard = UNKNOWN;
    stk_stream_block *b;

    if (!r || r->pid != getpid())
        return UNKNOWN;
    stk_mutex_lock(&r->lock);
    b = find_locked(r, number / s->block);
    if (b && sample_of(s, b, number)->state != STK_STREAM_NOTHING)
        shard = sample_of(s, b, number)->shard;
    stk_mutex_unlock(&r->lock);
    return shard;
}

/* Where lanes are not at its block yet, the one is named whose turn it would be unmixed. */
uint64_t stk_stream_awaited(stk_stream *s, uint64_t number)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);
    uint64_t at = number % s->block;
    const stk_stream_block *b;

    if (!r || r->pid != getpid())
        return UNKNOWN;
    stk_mutex_lock(&r->lock);
    b = find_locked(r, number / s->block);
    at = number - at + (b ? b->order[at] : at);
    stk_mutex_unlock(&r->lock);
    return atomic_load_explicit(&r->lane[at % s->lanes].reads, memory_order_relaxed);
}

/* ---- the run of a process ---- */

static stk_stream_run *run_new(stk_stream *s, stk_error *err)
{
    stk_stream_run *r = stk_zalloc(1, sizeof *r + s->lanes * sizeof(stk_stream_lane));
    pthread_condattr_t monotonic;
    int ok = r && (r->mark = stk_zalloc(STK_STREAM_MARKS + 1, sizeof *r->mark)) != NULL;

    for (uint32_t i = 0; ok && i < s->lanes; i++) {
        r->lane[i] = (stk_stream_lane){ .run = r, .number = i, .reads = UNKNOWN };
        r->lane[i].order = stk_zalloc(stk_stream_shards_of(s, i), sizeof(uint64_t));
        ok = r->lane[i].order != NULL;
    }
    if (r) {
        r->s = s;
        r->pid = getpid();
        r->stride = 1;
        stk_mutex_init(&r->lock);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&r->came, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_cond_init(&r->room, NULL);
    }
    if (!ok)
        stk_fail_nomem(err, sizeof *r);
    return r;
}

static void run_free(stk_stream_run *r)
{
    for (stk_stream_block *b = r->blocks, *next; b; b = next) {
        next = b->next;
        block_free(r->s, b);
    }
    for (uint32_t i = 0; i < r->s->lanes; i++)
        stk_free(r->lane[i].order);
    for (uint32_t i = 0; i < r->n_marks; i++)
        stk_free(r->mark[i].place);
    stk_free(r->mark);
    pthread_cond_destroy(&r->room);
    pthread_cond_destroy(&r->came);
    stk_mutex_destroy(&r->lock);
    stk_free(r);
}

/* A parent's run is of no use to a child: its threads are not there, and its lock may be held. */
stk_stream_run *stk_stream_run_of(stk_stream *s, stk_error *err)
{
    stk_stream_run *had = atomic_load_explicit(&s->run, memory_order_acquire), *r;

    if (had && had->pid == getpid())
        return had;
    r = run_new(s, err);
    if (!r || !r->mark || (s->lanes && !r->lane[s->lanes - 1].order)) {
        if (r)
            run_free(r);
        return NULL;
    }
    if (!atomic_compare_exchange_strong_explicit(&s->run, &had, r, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        run_free(r); /* another thread was quicker */
        r = had;
    }
    return r;
}

/* The last one of the lanes and the closer frees all: closing waits for no read, and ends those in
 * flight. */
static void leave(stk_stream *s, stk_stream_run *r, int lane)
{
    int last;

    stk_mutex_lock(&r->lock);
    r->stop |= !lane;
    stk_halt_set(&r->halt, r->stop);
    r->live -= (uint32_t)lane;
    last = r->stop && !r->live;
    pthread_cond_broadcast(&r->room);
    stk_mutex_unlock(&r->lock);
    if (!lane)
        stk_source_look();
    if (!last)
        return;
    run_free(r);
    stk_stream_free(s);
}

void stk_stream_leave(stk_stream_lane *l)
{
    leave(l->run->s, l->run, 1);
}

void stk_stream_close(stk_stream *s)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);

    if (r && r->pid == getpid())
        leave(s, r, 0);
    else
        stk_stream_free(s);
}

/* ---- places ---- */

static uint64_t block_at(const stk_stream *s, uint64_t sample)
{
    uint64_t number = sample / ((uint64_t)s->batch * s->world) * s->batch; /* the batch's first */

    return number / s->block;
}

/* After a failure a lane goes on with its next shard, so that its later samples have other numbers
 * than they have once the shard can be read: marks past the sample do not hold any more. */
void stk_stream_retry(stk_stream *s, uint64_t sample)
{
    stk_stream_run *r = atomic_load_explicit(&s->run, memory_order_acquire);
    uint64_t block = block_at(s, sample);

    if (!r || r->pid != getpid())
        return;
    stk_mutex_lock(&r->lock);
    while (r->n_marks && r->mark[r->n_marks - 1].block > block)
        stk_free(r->mark[--r->n_marks].place);
    r->failed = (stk_error){ 0 };
    go_to_locked(r, block * s->block);
    stk_mutex_unlock(&r->lock);
}

int stk_stream_tell(stk_dataset *ds, uint64_t sample, uint64_t *block, stk_stream_place *out,
                    stk_error *err)
{
    stk_stream *s = (stk_stream *)ds;
    stk_stream_run *r;
    const stk_stream_mark *m;

    if (!stk_stream_count(ds))
        return stk_fail(err, STK_EINVAL, "places are of streams, not of %s", ds->ops->plural);
    r = stk_stream_run_of(s, err);
    if (!r)
        return STK_ENOMEM;
    stk_mutex_lock(&r->lock);
    m = mark_before_locked(r, block_at(s, sample));
    *block = m->block;
    for (uint32_t i = 0; i < s->lanes; i++)
        out[i] = m->place ? m->place[i] : (stk_stream_place){ 0, 0, 0 };
    stk_mutex_unlock(&r->lock);
    return 0;
}

int stk_stream_seek(stk_dataset *ds, uint64_t block, const stk_stream_place *from, uint32_t n,
                    stk_error *err)
{
    stk_stream *s = (stk_stream *)ds;
    stk_stream_run *r;
    stk_stream_mark *m;

    if (!stk_stream_count(ds) || n != s->lanes)
        return stk_fail(err, STK_EINVAL, "the place is one of %u streams, these are %u", n,
                        stk_stream_count(ds));
    for (uint32_t i = 0; i < n; i++)
        if (from[i].shard >= stk_stream_shards_of(s, i) || from[i].pass == UNKNOWN)
            return stk_fail(err, STK_EINVAL,
                            "the place is in shard %" PRIu64 " of stream %u, which has %" PRIu64,
                            from[i].shard, i, stk_stream_shards_of(s, i));
    r = stk_stream_run_of(s, err);
    if (!r)
        return STK_ENOMEM;
    stk_mutex_lock(&r->lock);
    while (r->n_marks)
        stk_free(r->mark[--r->n_marks].place);
    r->stride = 1;
    m = block ? mark_of_locked(r, block) : &r->begin;
    if (m && block) {
        memcpy(m->place, from, n * sizeof *from);
        m->known = n;
    }
    r->failed = (stk_error){ 0 };
    if (m && r->started) /* lanes note no more marks from where they are */
        go_to_locked(r, block * s->block);
    stk_mutex_unlock(&r->lock);
    return m ? 0 : stk_fail_nomem(err, n * sizeof *from);
}
