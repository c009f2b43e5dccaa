/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_clips.c - see gpu_clips.h.
 *
 * One lock for queue, sessions and states.  A thread holds it only to take and to put back: neither
 * NVDEC nor CUDA is called with it.
 *
 * A thread takes a clip and a session for it at once: the oldest clip for which there is one.  A
 * driver opens one session after the other, each in the time of several clips.  So only one is
 * opened at a time, with the newest clip, and meanwhile those that are open go on with the oldest:
 * the first batch waits for one session, not for as many as there are threads.  Where workers may
 * decode too they make the first clips, and a trial opens the first session: a clip of which
 * nothing is used. */
#include "gpu/gpu_clips.h"

#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "base/thread.h"
#include "gpu/gpu_views.h"

#define THREADS 32u
#define SESSIONS 64u /* open at once */
#define HELD 64u /* batches that wait for clips: no ring has more slots in flight */
#define TRIALS 8u /* that may fail one after the other */
#define AHEAD 64u /* clips that are looked at for one that has a session */

typedef struct held_batch {
    stk_batch *batch;
    stk_ticket *ticket;
} held_batch;

typedef enum session_state { CLOSED, OPENS, RUNS, IDLE } session_state;

typedef struct session {
    session_state state; /* lock; opens: with its first clip */
    stk_video_codec codec;   /* that it is for, while it is not closed */
    stk_frame_format format; /* likewise */
    uint64_t bytes;          /* likewise, of the GPU's memory */
    stk_nvdec_session *nvdec; /* of the thread that has it; NULL: not open yet */
} session;

typedef struct clip_thread {
    stk_gpu_clips *c;
    pthread_t id;
    void *stream;
    stk_views *views;
    stk_gpu_clip *clip; /* in hand */
    session *session;   /* for it */
} clip_thread;

struct stk_gpu_clips {
    stk_gpu_clips_options o;
    stk_nvdec *nvdec;
    stk_mutex lock;
    pthread_cond_t more;           /* lock: clips are queued, or it stops */
    pthread_cond_t less;           /* lock: a clip is done, or a session is back */
    stk_gpu_clip *head, **tail;    /* lock */
    stk_gpu_clip *free;            /* lock */
    uint32_t queued, runs;         /* lock */
    held_batch held[HELD];         /* lock */
    uint32_t n_held;               /* lock */
    session session[SESSIONS];     /* lock: their states */
    uint32_t n_ready;              /* lock: sessions that run or are idle */
    int opening;                   /* lock: one opens */
    int trial;                     /* lock: one is queued, or runs */
    uint32_t in_vain;              /* lock: trials in a row that failed */
    uint64_t bytes;                /* lock: of all sessions */
    clip_thread thread[THREADS];
    uint32_t n_threads; /* lock */
    int stop;           /* lock */
};

static void *clips_main(void *p);

/* ---- sessions ---- */

/* How well a session fits: 0: it does not. */
static int fit_of(const session *s, const stk_gpu_clip *k)
{
    return stk_nvdec_fits(s->codec, &s->format, k->codec, &k->format);
}

/* The idle session that fits best; NULL: none does. */
static session *best_locked(stk_gpu_clips *c, const stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    session *best = NULL;
    int fit = 0;

    for (session *s = c->session; s < c->session + SESSIONS; s++)
        if (s->state == IDLE && fit_of(s, k) > fit) {
            fit = fit_of(s, k);
            best = s;
        }
    return best;
}

/* One fits that is in use, or is opened. */
static int comes_locked(const stk_gpu_clips *c, const stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    for (const session *s = c->session; s < c->session + SESSIONS; s++)
        if (s->state != CLOSED && fit_of(s, k))
            return 1;
    return 0;
}

static session *any_locked(stk_gpu_clips *c, session_state state) STK_REQUIRES(c->lock)
{
    for (session *s = c->session; s < c->session + SESSIONS; s++)
        if (s->state == state)
            return s;
    return NULL;
}

static void enter_locked(stk_gpu_clips *c, session *s, session_state state) STK_REQUIRES(c->lock)
{
    c->opening += (state == OPENS) - (s->state == OPENS);
    c->n_ready += state == RUNS || state == IDLE;
    c->n_ready -= s->state == RUNS || s->state == IDLE;
    c->bytes += s->state == CLOSED ? s->bytes : 0;
    c->bytes -= state == CLOSED ? s->bytes : 0;
    s->state = state;
    pthread_cond_signal(&c->more);
}

/* Of the calling thread. */
static void close_session(stk_gpu_clips *c, session *s)
{
    stk_nvdec_session_close(&s->nvdec);
    stk_mutex_lock(&c->lock);
    enter_locked(c, s, CLOSED);
    stk_mutex_unlock(&c->lock);
}

static void put_session(stk_gpu_clips *c, session *s)
{
    stk_mutex_lock(&c->lock);
    enter_locked(c, s, IDLE);
    stk_mutex_unlock(&c->lock);
}

/* ---- a clip ---- */

static stk_pic_yuv planes_of(const stk_gpu_clip *k, const stk_nvdec_frame *f)
{
    stk_pic_yuv y = k->colors;

    y.at[0] = (uint64_t)(uintptr_t)f->luma;
    y.at[1] = (uint64_t)(uintptr_t)f->chroma;
    y.at[2] = y.at[1] + y.bytes;
    y.stride = y.cstride = f->stride;
    return y;
}

/* All pictures that show these frames. */
static int on_frames(void *cookie, const stk_nvdec_frame *f, uint32_t n, stk_error *err)
{
    clip_thread *t = cookie;
    stk_gpu_clip *k = t->clip;
    const stk_cuda *cuda = t->c->o.cuda;
    stk_views_job job = {
        .picture = k->picture,
        .yuv = k->yuv,
        .record = k->record + k->n_pictures,
        .spec = k->spec,
        .stream = t->stream
    };
    int rc;

    if (!k->batch)
        return 0; /* a trial */
    for (uint32_t i = 0; i < k->n_pictures; i++)
        for (uint32_t j = 0; j < n; j++)
            if (k->want[i] == f[j].want) {
                k->picture[job.n] =
                    (stk_picture){ .data = f[j].luma,
                                   .width = k->format.width,
                                   .height = k->format.height,
                                   .channels = 3,
                                   .out = (uint8_t *)k->made->data + i * k->picture_bytes };
                k->yuv[job.n] = planes_of(k, &f[j]);
                k->record[k->n_pictures + job.n++] = k->record[i];
            }
    STK_TRY(job.n ? stk_views_run(t->views, &job, err) : 0);
    rc = cuda->stream_sync(t->c->o.gpu, t->stream);
    return rc ? stk_fail(err, STK_EIO, "frames could not be finished: %s", cuda->say(rc)) : 0;
}

static int decode(clip_thread *t, stk_gpu_clip *k, stk_error *err)
{
    const stk_nvdec_clip run = { .packet = k->packet,
                                 .n = k->n_packets,
                                 .n_want = k->n_want,
                                 .stream = t->stream,
                                 .frames = on_frames,
                                 .cookie = t };
    session *s = t->session;

    if (!s->nvdec)
        STK_TRY(stk_nvdec_session_open(&s->nvdec, t->c->nvdec, k->codec, &k->format, err));
    return stk_nvdec_run(s->nvdec, &k->format, &run, err);
}

static int make(clip_thread *t, stk_gpu_clip *k, stk_error *err)
{
    const stk_gpu_clips_options *o = &t->c->o;

    t->clip = k;
    if (!t->views)
        STK_TRY(stk_views_open(&t->views, (uint32_t)o->gpu, err));
    if (!t->stream && o->cuda->stream_open(o->gpu, 1, &t->stream))
        return stk_fail(err, STK_EIO, "no stream could be made");
    if (k->batch)
        STK_TRY(stk_gpu_pool_get(o->pool, k->n_pictures * k->picture_bytes, t->stream, &k->made,
                                 err));
    return decode(t, k, err);
}

/* ---- the queue ---- */

/* Clips of the batch that are not done. */
static uint32_t pending_locked(const stk_gpu_clips *c, const stk_batch *b) STK_REQUIRES(c->lock)
{
    uint32_t n = 0;

    (void)c;
    for (const stk_gpu_clip *k = b->clips; k; k = k->sibling)
        n += k->state != STK_CLIP_DONE;
    return n;
}

/* The batch that waited for this clip alone; batch NULL: none did. */
static held_batch done_locked(stk_gpu_clips *c, stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    held_batch none = { 0 }, h;

    k->state = STK_CLIP_DONE;
    c->runs--;
    pthread_cond_broadcast(&c->less);
    if (!k->batch) {
        c->trial = 0;
        c->in_vain = k->rc ? c->in_vain + 1 : 0;
        k->next = c->free;
        c->free = k;
        return none;
    }
    if (pending_locked(c, k->batch))
        return none;
    for (uint32_t i = 0; i < c->n_held; i++)
        if (c->held[i].batch == k->batch) {
            h = c->held[i];
            c->held[i] = c->held[--c->n_held];
            return h;
        }
    return none;
}

/* Out of the queue, where it is there. */
static void unqueue_locked(stk_gpu_clips *c, stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    stk_gpu_clip **at = &c->head;

    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    if (c->tail == &k->next)
        c->tail = at;
    c->queued--;
}

static stk_gpu_clip *run_locked(stk_gpu_clips *c, stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    unqueue_locked(c, k);
    c->runs++;
    k->state = STK_CLIP_RUNS;
    return k;
}

/* The clip for which a session is to be opened; NULL: those that are open do.  The oldest one that
 * fits none of them, else the newest of many. */
static stk_gpu_clip *lacks_locked(const stk_gpu_clips *c) STK_REQUIRES(c->lock)
{
    stk_gpu_clip *k = c->head;

    for (uint32_t n = 0; k && n < AHEAD; k = k->next, n++)
        if (!comes_locked(c, k))
            return k;
    if (c->queued <= c->n_ready)
        return NULL;
    for (k = c->head; k && k->next;)
        k = k->next;
    return k;
}

/* A clip and its session: the oldest for which one is idle, else one for which it is opened; NULL:
 * neither.  *old: an idle session that has to be closed first. */
static stk_gpu_clip *pair_locked(stk_gpu_clips *c, session **to, session **old)
    STK_REQUIRES(c->lock)
{
    stk_gpu_clip *k = c->head;
    session *s;
    uint64_t bytes;

    *old = NULL;
    for (uint32_t n = 0; k && n < AHEAD; k = k->next, n++)
        if ((s = best_locked(c, k)) != NULL) {
            enter_locked(c, s, RUNS);
            *to = s;
            return run_locked(c, k);
        }
    k = c->opening ? NULL : lacks_locked(c);
    if (!k)
        return NULL;
    bytes = stk_nvdec_bytes(&k->format);
    s = any_locked(c, CLOSED);
    if (!s || (c->bytes && c->bytes + bytes > c->o.limit)) {
        *old = comes_locked(c, k) ? NULL : any_locked(c, IDLE);
        return NULL;
    }
    s->codec = k->codec;
    s->format = k->format;
    s->bytes = bytes;
    enter_locked(c, s, OPENS);
    *to = s;
    return run_locked(c, k);
}

/* NULL: it stops. */
static stk_gpu_clip *next_clip(stk_gpu_clips *c, session **s)
{
    stk_gpu_clip *k = NULL;
    session *old;

    stk_mutex_lock(&c->lock);
    while (!(c->stop && !c->head) && !(k = pair_locked(c, s, &old))) {
        if (!old) {
            stk_cond_wait(&c->more, &c->lock);
            continue;
        }
        enter_locked(c, old, RUNS); /* ours: a clip waits for its memory */
        stk_mutex_unlock(&c->lock);
        close_session(c, old);
        stk_mutex_lock(&c->lock);
    }
    stk_mutex_unlock(&c->lock);
    return k;
}

static void *clips_main(void *p)
{
    clip_thread *t = p;
    stk_gpu_clips *c = t->c;
    stk_gpu_clip *k;

    (void)c->o.cuda->bind(c->o.gpu); /* where that fails, the first call says so */
    while ((k = next_clip(c, &t->session)) != NULL) {
        held_batch h;

        k->rc = make(t, k, NULL);
        if (k->rc == 0)
            put_session(c, t->session);
        else
            close_session(c, t->session);
        stk_mutex_lock(&c->lock);
        h = done_locked(c, k);
        stk_mutex_unlock(&c->lock);
        if (h.batch)
            c->o.ready(c->o.cookie, h.batch, h.ticket);
    }
    stk_views_close(&t->views);
    if (t->stream)
        c->o.cuda->stream_close(c->o.gpu, t->stream);
    return NULL;
}

/* ---- calls ---- */

int stk_gpu_clips_open(stk_gpu_clips **out, const stk_gpu_clips_options *o, stk_error *err)
{
    stk_gpu_clips *c = STK_NEW(stk_gpu_clips);
    int rc;

    *out = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->o = *o;
    c->tail = &c->head;
    stk_mutex_init(&c->lock);
    pthread_cond_init(&c->more, NULL);
    pthread_cond_init(&c->less, NULL);
    rc = stk_nvdec_open(&c->nvdec, o->cuda, o->gpu, err);
    if (rc < 0)
        stk_gpu_clips_close(&c);
    *out = c;
    return rc;
}

void stk_gpu_clips_close(stk_gpu_clips **cp)
{
    stk_gpu_clips *c = *cp;

    if (!c)
        return;
    *cp = NULL;
    stk_mutex_lock(&c->lock);
    while (c->head) { /* a trial */
        stk_gpu_clip *k = c->head;

        assert(!k->batch); /* batches have let go of their clips */
        unqueue_locked(c, k);
        k->next = c->free;
        c->free = k;
    }
    assert(!c->n_held);
    c->stop = 1;
    pthread_cond_broadcast(&c->more);
    stk_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->n_threads; i++)
        pthread_join(c->thread[i].id, NULL);
    for (uint32_t i = 0; i < SESSIONS; i++)
        stk_nvdec_session_close(&c->session[i].nvdec);
    while (c->free) {
        stk_gpu_clip *k = c->free;

        c->free = k->next;
        stk_free(k->memory);
        stk_free(k);
    }
    stk_nvdec_close(&c->nvdec);
    pthread_cond_destroy(&c->more);
    pthread_cond_destroy(&c->less);
    stk_mutex_destroy(&c->lock);
    stk_free(c);
}

int stk_gpu_clips_takes(stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f)
{
    return stk_nvdec_engines(c->nvdec, codec, f) > 0;
}

int stk_gpu_clips_busy(stk_gpu_clips *c)
{
    int busy;

    stk_mutex_lock(&c->lock);
    busy = !c->n_ready || c->queued > c->n_ready || c->queued >= c->n_threads;
    stk_mutex_unlock(&c->lock);
    return busy;
}

stk_gpu_clip *stk_gpu_clip_new(stk_gpu_clips *c, size_t room)
{
    stk_gpu_clip *k;

    stk_mutex_lock(&c->lock);
    k = c->free;
    if (k)
        c->free = k->next;
    stk_mutex_unlock(&c->lock);
    if (!k)
        k = STK_NEW(stk_gpu_clip);
    if (!k)
        return NULL;
    if (k->room < room) {
        stk_free(k->memory);
        k->room = room + room / 4;
        k->memory = stk_alloc(k->room);
    }
    if (!k->memory) {
        stk_free(k);
        return NULL;
    }
    *k = (stk_gpu_clip){ .memory = k->memory, .room = k->room, .owner = c };
    return k;
}

/* Half as many more threads than engines: while one finishes frames, its engine has another. */
static int start_threads_locked(stk_gpu_clips *c, const stk_gpu_clip *k, stk_error *err)
    STK_REQUIRES(c->lock)
{
    uint32_t n = stk_nvdec_engines(c->nvdec, k->codec, &k->format) * 3 / 2 + 1;

    while (c->n_threads < n && c->n_threads < THREADS) {
        clip_thread *t = &c->thread[c->n_threads];

        *t = (clip_thread){ .c = c };
        if (stk_thread_start(&t->id, clips_main, t, "stk-nvdec") < 0)
            return c->n_threads ? 0 : stk_fail_nomem(err, 0);
        c->n_threads++;
    }
    return 0;
}

static int cold_locked(const stk_gpu_clips *c) STK_REQUIRES(c->lock)
{
    return !c->n_ready && !c->trial && c->in_vain < TRIALS;
}

int stk_gpu_clips_cold(stk_gpu_clips *c)
{
    int cold;

    stk_mutex_lock(&c->lock);
    cold = cold_locked(c);
    stk_mutex_unlock(&c->lock);
    return cold;
}

int stk_gpu_clip_submit(stk_gpu_clip *k, stk_batch *b, stk_error *err)
{
    stk_gpu_clips *c = k->owner;
    int rc = 0;

    stk_mutex_lock(&c->lock);
    if (!c->n_threads)
        rc = start_threads_locked(c, k, err);
    if (rc < 0 || (!b && !cold_locked(c))) {
        k->next = c->free;
        c->free = k;
    } else {
        k->batch = b;
        c->trial |= !b;
        if (b) {
            k->sibling = b->clips;
            b->clips = k;
            b->drop_clips = stk_gpu_clips_drop;
        }
        k->state = STK_CLIP_QUEUED;
        k->next = NULL;
        *c->tail = k;
        c->tail = &k->next;
        c->queued++;
        pthread_cond_signal(&c->more);
    }
    stk_mutex_unlock(&c->lock);
    return rc;
}

int stk_gpu_clips_hold(stk_gpu_clips *c, stk_batch *b, stk_ticket *ticket)
{
    int hold;

    stk_mutex_lock(&c->lock);
    hold = pending_locked(c, b) > 0;
    if (hold) {
        assert(c->n_held < HELD);
        c->held[c->n_held++] = (held_batch){ b, ticket };
    }
    stk_mutex_unlock(&c->lock);
    return hold;
}

void stk_gpu_clips_drop(stk_batch *b)
{
    while (b->clips) {
        stk_gpu_clip *k = b->clips;
        stk_gpu_clips *c = k->owner;

        stk_mutex_lock(&c->lock);
        if (k->state == STK_CLIP_QUEUED)
            unqueue_locked(c, k);
        if (k->state == STK_CLIP_QUEUED)
            k->state = STK_CLIP_DONE;
        while (k->state == STK_CLIP_RUNS)
            stk_cond_wait(&c->less, &c->lock);
        stk_mutex_unlock(&c->lock);
        if (k->made)
            stk_buffer_unref(k->made);
        k->made = NULL;
        stk_mutex_lock(&c->lock);
        b->clips = k->sibling;
        k->next = c->free;
        c->free = k;
        stk_mutex_unlock(&c->lock);
    }
}
