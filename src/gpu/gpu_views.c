/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_views.c - records of a call are written into page-locked memory that calls take in turn,
 * and go over in one copy; memory on the GPU is one block, which calls use one after the other.
 *
 * Invariant: the host writes into a turn's memory only when the copy from it is through (its
 * event), and a stream uses the block only after the stream before (`through`).  Where the pictures
 * of a call need more scratch memory than SCRATCH, several launches follow each other and use it in
 * turn. */
#include "gpu/gpu_views.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/size.h"
#include "cuda/pic_geom.h"
#include "gpu/pic_program.h"

#define TURNS 8
#define SCRATCH (UINT64_C(128) << 20) /* a launch, unless one picture alone needs more */
#define LAUNCHES 4

typedef struct turn {
    void *near; /* page-locked */
    size_t size;
    void *event; /* after the copy from it */
    int sent;    /* the event was recorded */
} turn;

struct stk_views {
    const stk_cuda *cuda;
    int gpu;
    stk_views_options o;
    stk_mutex lock; /* of all below: calls follow one another */
    turn turn[TURNS];
    uint32_t next;
    void *block; /* the block there: what is copied, then scratch memory */
    size_t block_size;
    void *through; /* event after the block's last use */
    int used;
};

/* A call: what is where.  Offsets count in both memories. */
typedef struct plan {
    stk_pic_item *item;    /* memory of the host, as the two that follow */
    stk_pic_lists *launch; /* room for LAUNCHES at a time: nearly always one is enough */
    uint8_t *record;
    size_t records, record_room; /* bytes of them */
    uint32_t n_launches;
    size_t source_at, status_at, lists_at, lists_room;
    size_t bytes; /* that are copied: records, sources, status words, lists */
    uint64_t scratch;
} plan;

static size_t align(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static int broken(const stk_views *v, int rc, const char *what, stk_error *err)
{
    return stk_fail(err, STK_EIO, "GPU %d: %s: %s", v->gpu, what, v->cuda->say(rc));
}

/* Waits until no one uses it. */
static void drop_block(stk_views *v)
{
    if (v->block)
        v->cuda->free(v->gpu, v->block);
    if (v->o.bytes)
        atomic_fetch_sub_explicit(v->o.bytes, v->block_size, memory_order_relaxed);
    v->block = NULL;
    v->block_size = 0;
    v->used = 0;
}

/* ---- open and close ---- */

static int open_events(stk_views *v, stk_error *err)
{
    int rc = v->cuda->event_open(v->gpu, 0, &v->through);

    for (uint32_t i = 0; i < TURNS && !rc; i++)
        rc = v->cuda->event_open(v->gpu, 0, &v->turn[i].event);
    return rc ? broken(v, rc, "no event could be made", err) : 0;
}

int stk_views_open(stk_views **out, const stk_views_options *o, stk_error *err)
{
    stk_views *v;
    char name[32];
    int rc;

    *out = NULL;
    v = STK_NEW(stk_views);
    if (!v)
        return stk_fail_nomem(err, sizeof *v);
    stk_mutex_init(&v->lock);
    v->o = *o;
    snprintf(name, sizeof name, "cuda:%u", o->gpu);
    rc = stk_cuda_load(&v->cuda, err);
    if (rc == 0)
        rc = stk_cuda_find(v->cuda, name, &v->gpu, err);
    if (rc == 0)
        rc = open_events(v, err);
    if (rc < 0)
        stk_views_close(&v);
    *out = v;
    return rc;
}

void stk_views_close(stk_views **vp)
{
    stk_views *v = *vp;

    if (!v)
        return;
    *vp = NULL;
    for (uint32_t i = 0; i < TURNS; i++) {
        turn *t = &v->turn[i];

        if (t->sent)
            (void)v->cuda->event_done(v->gpu, t->event, 1);
        if (t->near)
            v->cuda->pinned_free(t->near);
        if (t->event)
            v->cuda->event_close(v->gpu, t->event);
    }
    drop_block(v);
    if (v->through)
        v->cuda->event_close(v->gpu, v->through);
    stk_mutex_destroy(&v->lock);
    stk_free(v);
}

/* ---- memory ---- */

static int near_room(stk_views *v, turn *t, size_t size, stk_error *err)
{
    int rc;

    if (t->sent && !v->cuda->event_done(v->gpu, t->event, 1))
        return stk_fail(err, STK_EIO, "GPU %d: work that was queued before failed", v->gpu);
    t->sent = 0;
    if (size <= t->size)
        return 0;
    if (t->near)
        v->cuda->pinned_free(t->near);
    t->near = NULL;
    t->size = 0;
    size += size / 4;
    rc = v->cuda->pinned_alloc(v->gpu, size, &t->near);
    if (rc)
        return stk_fail(err, STK_ENOMEM, "no %zu MB of page-locked memory: %s",
                        (size_t)stk_size_mb(size), v->cuda->say(rc));
    t->size = size;
    return 0;
}

static int block_room(stk_views *v, size_t size, void *stream, stk_error *err)
{
    int rc;

    if (size > v->block_size) {
        drop_block(v);
        size += size / 4;
        if (v->o.limit && size > v->o.limit)
            size = (size_t)v->o.limit;
        rc = v->cuda->alloc(v->gpu, size, &v->block);
        if (rc)
            return stk_fail(err, STK_ENOMEM,
                            "GPU %d gives no %zu MB to transform pictures in: %s: give fewer at "
                            "once",
                            v->gpu, (size_t)stk_size_mb(size), v->cuda->say(rc));
        v->block_size = size;
        if (v->o.bytes)
            atomic_fetch_add_explicit(v->o.bytes, size, memory_order_relaxed);
    }
    rc = v->used ? v->cuda->stream_wait(v->gpu, stream, v->through) : 0;
    return rc ? broken(v, rc, "a stream can't wait", err) : 0;
}

/* ---- a call ---- */

/* Room for one more record after those before; NULL: no memory. */
static stk_pic *next_record(plan *p, size_t size)
{
    size_t want = p->records + size;

    if (want > p->record_room) {
        uint8_t *more = stk_alloc(want + want / 2);

        if (!more)
            return NULL;
        if (p->records)
            memcpy(more, p->record, p->records);
        stk_free(p->record);
        p->record = more;
        p->record_room = want + want / 2;
    }
    return (stk_pic *)(void *)(p->record + p->records);
}

/* One that is made already. */
static int copy_record(plan *p, const stk_views_job *job, uint32_t i, stk_error *err)
{
    const stk_pic *from = (const stk_pic *)(const void *)job->record[i];
    stk_pic *r = next_record(p, from->size);

    if (!r)
        return stk_fail_nomem(err, from->size);
    memcpy(r, from, from->size);
    p->item[i] = (stk_pic_item){ .share = stk_pic_share_of(r), .at = p->records, .source = i };
    p->records += from->size;
    return 0;
}

static int add_record(plan *p, const stk_views_job *job, uint32_t i, stk_error *err)
{
    const stk_picture *s = &job->picture[i];
    stk_pic_program program;
    stk_draws d;
    stk_pic head, *r;

    STK_TRY(job->draw(job->cookie, i, &d, err));
    if (stk_pic_program_make(&program, &d, err) < 0)
        return stk_fail(err, STK_ENOTSUP,
                        "picture %u: its ops make more passes than a GPU does: give the transform "
                        "pictures on the CPU",
                        i);
    stk_pic_on_gpu_head(&head, d.view, s->width, s->height);
    stk_pic_program_add(&program, &head);
    r = next_record(p, head.size);
    if (!r)
        return stk_fail_nomem(err, head.size);
    memset(r, 0, head.size);
    *r = head;
    stk_pic_program_write(&program, r);
    p->item[i] = (stk_pic_item){ .share = stk_pic_share_of(r), .at = p->records, .source = i };
    p->records += head.size;
    return 0;
}

/* Scratch memory of launches of which a picture needs `one` at most, and which need `all`. */
static int plan_scratch(plan *p, const stk_views *v, uint64_t one, uint64_t all, stk_error *err)
{
    uint64_t head = p->lists_at + align(p->lists_room), most = one > SCRATCH ? one : SCRATCH;
    uint64_t left = !v->o.limit ? most : v->o.limit > head ? v->o.limit - head : 0;

    most = most < left ? most : left;
    if (one > most)
        return stk_fail(err, STK_ELIMIT,
                        "device_memory_limit leaves %" PRIu64 " KB to finish frames in, and one "
                        "needs %" PRIu64 ": raise it",
                        left >> 10, one >> 10);
    p->scratch = all < most ? all : most;
    return 0;
}

/* Records, and what they need; a launch takes as many as `scratch` holds. */
static int plan_records(plan *p, const stk_views *v, const stk_views_job *job, stk_error *err)
{
    size_t n = job->n;
    uint64_t all = 0, one = 0;

    p->item = stk_alloc(n * sizeof *p->item);
    if (!p->item || !next_record(p, n * stk_pic_on_gpu_size()))
        return stk_fail_nomem(err, n * sizeof *p->item);
    for (uint32_t i = 0; i < job->n; i++) {
        uint64_t cost;

        STK_TRY(job->yuv ? copy_record(p, job, i, err) : add_record(p, job, i, err));
        cost = stk_pic_share_scratch(&p->item[i].share);
        all += cost;
        one = cost > one ? cost : one;
    }
    p->source_at = align(p->records);
    p->status_at = p->source_at + align(n * sizeof(stk_pic_source));
    p->lists_at = p->status_at + align(n * sizeof(uint32_t));
    p->lists_room = stk_pic_lists_bytes(p->item, job->n) + 128 * n;
    STK_TRY(plan_scratch(p, v, one, all, err));
    assert(p->scratch >= one); /* a launch takes at least one picture */
    return 0;
}

/* One more launch after those before; NULL: no memory. */
static stk_pic_lists *next_launch(plan *p)
{
    if (p->n_launches % LAUNCHES == 0) {
        stk_pic_lists *more = stk_alloc((p->n_launches + LAUNCHES) * sizeof *more);

        if (!more)
            return NULL;
        if (p->n_launches)
            memcpy(more, p->launch, p->n_launches * sizeof *more);
        stk_free(p->launch);
        p->launch = more;
    }
    return &p->launch[p->n_launches++];
}

/* Everything that goes over, into a turn's memory. */
static int fill(plan *p, const stk_views_job *job, uint8_t *near, stk_error *err)
{
    stk_pic_source *source = (stk_pic_source *)(void *)(near + p->source_at);
    size_t at = 0, elem = stk_dtype_size(job->spec->dtype);

    memcpy(near, p->record, p->records);
    memset(near + p->status_at, 0, p->lists_at - p->status_at);
    for (uint32_t i = 0; i < job->n; i++) {
        const stk_picture *s = &job->picture[i];
        const stk_pic *r = (const stk_pic *)(const void *)(p->record + p->item[i].at);

        source[i] = (stk_pic_source){ .data = s->data,
                                      .step_x = s->step_x,
                                      .step_y = s->step_y,
                                      .step_c = s->channels == 1 ? 0 : s->step_c,
                                      .width = s->width,
                                      .height = s->height };
        if (job->yuv)
            source[i].yuv = job->yuv[i];
        p->item[i].out = s->out;
        p->item[i].out_bytes = (uint64_t)stk_pic_out_w(r) * stk_pic_out_h(r) * 3 * elem;
    }
    for (uint32_t done = 0, n; done < job->n; done += n) {
        stk_pic_lists *l = next_launch(p);

        if (!l)
            return stk_fail_nomem(err, LAUNCHES * sizeof *l);
        *l = (stk_pic_lists){ .memory = near + p->lists_at + at,
                              .room = p->lists_room - at,
                              .scratch_room = p->scratch };
        n = stk_pic_plan(l, p->item + done, job->n - done);
        if (!n)
            return stk_fail(err, STK_ELIMIT, "a picture's view does not fit a launch");
        at += align(l->bytes);
    }
    p->bytes = p->lists_at + at;
    assert(p->bytes <= p->lists_at + align(p->lists_room));
    return 0;
}

static void describe(stk_pic_launch *l, const stk_views *v, const plan *p, const stk_views_job *job)
{
    uint8_t *block = v->block;

    *l = (stk_pic_launch){ .slab = block,
                           .slab_len = p->source_at,
                           .scratch = block + p->lists_at + align(p->lists_room),
                           .source = (const stk_pic_source *)(const void *)(block + p->source_at),
                           .n_sources = job->n,
                           .frames = job->yuv != NULL,
                           .blocks = v->o.blocks,
                           .dtype = stk_pic_dtype_of(job->spec->dtype),
                           .packed = job->spec->picture.layout != STK_CHW };
    memcpy(l->mul, job->spec->picture.mul, sizeof l->mul);
    memcpy(l->add, job->spec->picture.add, sizeof l->add);
}

/* The copy, the kernels, and the event after each. */
static int queue(stk_views *v, turn *t, const plan *p, const stk_views_job *job)
{
    const stk_cuda *c = v->cuda;
    uint8_t *block = v->block;
    uint32_t done = 0;
    stk_pic_launch l;
    int rc;

    rc = c->copy(v->gpu, block, t->near, p->bytes, STK_COPY_IN, job->stream);
    if (!rc)
        rc = c->event_record(v->gpu, t->event, job->stream);
    t->sent = !rc;
    describe(&l, v, p, job);
    for (uint32_t i = 0; i < p->n_launches && !rc; i++) {
        const stk_pic_lists *lists = &p->launch[i];

        stk_pic_launch_lists(&l, lists, block + ((uint8_t *)lists->memory - (uint8_t *)t->near));
        l.status = (uint32_t *)(void *)(block + p->status_at) + done;
        rc = c->pictures(v->gpu, &l, job->stream);
        done += lists->n_jobs;
    }
    if (!rc)
        rc = c->event_record(v->gpu, v->through, job->stream);
    v->used = 1;
    if (rc) { /* what was queued may use both memories: be through with it */
        c->stream_sync(v->gpu, job->stream);
        t->sent = v->used = 0;
    }
    return rc;
}

static int run_locked(stk_views *v, plan *p, const stk_views_job *job, stk_error *err)
    STK_REQUIRES(v->lock)
{
    turn *t = &v->turn[v->next++ % TURNS];
    size_t head = p->lists_at + align(p->lists_room);
    int rc;

    STK_TRY(near_room(v, t, head, err));
    STK_TRY(fill(p, job, t->near, err));
    STK_TRY(block_room(v, head + (size_t)p->scratch, job->stream, err));
    rc = queue(v, t, p, job);
    return rc ? broken(v, rc, "pictures could not be transformed", err) : 0;
}

int stk_views_run(stk_views *v, const stk_views_job *job, stk_error *err)
{
    plan p = { 0 };
    int rc;

    rc = plan_records(&p, v, job, err);
    if (rc == 0) {
        stk_mutex_lock(&v->lock);
        rc = run_locked(v, &p, job, err);
        stk_mutex_unlock(&v->lock);
    }
    stk_free(p.item);
    stk_free(p.launch);
    stk_free(p.record);
    return rc;
}
