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
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/size.h"
#include "base/thread.h"
#include "gpu/clip_kinds.h"
#include "gpu/gpu_views.h"

#define THREADS 32u
#define SESSIONS 64u /* open at once */
#define TRIALS 8u    /* that may fail one after the other */
#define AHEAD 64u    /* clips that are looked at for one that has a session */
#define FREE 64u     /* clips that keep their memory for others */

typedef struct held_batch {
    stk_batch *batch;
    stk_ticket *ticket;
} held_batch;

typedef enum session_state { CLOSED, OPENS, RUNS, IDLE } session_state;

typedef struct session {
    session_state state;      /* lock; opens: with its first clip */
    stk_video_codec codec;    /* that it is for, while it is not closed */
    stk_frame_format format;  /* likewise */
    uint64_t bytes;           /* likewise, of the GPU's memory */
    stk_nvdec_session *nvdec; /* of the thread that has it; NULL: not open yet */
} session;

typedef struct clip_thread {
    stk_gpu_clips *c;
    pthread_t id;
    void *stream;
    stk_views *views;
    stk_gpu_clip *clip; /* in hand */
    session *session;   /* for it */
    int broken;         /* ... and not for another one after it */
} clip_thread;

struct stk_gpu_clips {
    stk_gpu_clips_options o;
    stk_nvdec *nvdec;
    stk_clip_cache *cache; /* NULL: nothing is cached */
    stk_mutex lock;
    pthread_cond_t more;           /* lock: clips are queued, or it stops */
    pthread_cond_t less;           /* lock: a clip is done, or a session is back */
    stk_gpu_clip *head, **tail;    /* lock */
    stk_gpu_clip *free;            /* lock */
    uint32_t n_free;               /* lock */
    uint32_t queued, runs;         /* lock */
    uint64_t queue_ns, queue_from; /* lock: with clips queued; since when there are some */
    uint32_t n_held;               /* lock: batches that wait for clips */
    session session[SESSIONS];     /* lock: their states */
    uint32_t n_ready;              /* lock: sessions that run or are idle */
    int opening;                   /* lock: one opens */
    int trial;                     /* lock: one is queued, or runs */
    uint32_t in_vain;              /* lock: trials in a row that failed */
    uint64_t bytes, peak;          /* lock: of all sessions */
    uint64_t hits, misses;         /* lock */
    stk_clip_kinds kinds;
    stk_account host;
    clip_thread thread[THREADS];
    uint32_t n_threads; /* lock */
    uint32_t n_planned; /* set before the first one starts */
    int stop;           /* lock */
};

static void *clips_main(void *p);

/* Three quarters: the rest is for work on frames. */
static uint64_t sessions_limit(const stk_gpu_clips *c)
{
    return c->o.limit - c->o.limit / 4;
}

/* ---- kinds of frames ---- */

static void give_up(const stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f,
                    const char *why)
{
    stk_log_line(c->o.log, STK_LOG_WARN,
                 "workers decode %s of %ux%u, %u bits, from now on, not NVDEC: %s",
                 stk_video_codec_name(codec), f->width, f->height, f->bits, why);
}

/* A clip was tried: does another one of its kind follow? */
static void judge(stk_gpu_clips *c, const stk_gpu_clip *k, const stk_error *why)
{
    if (stk_clip_kinds_note(&c->kinds, k->codec, &k->format, k->rc < 0))
        give_up(c, k->codec, &k->format, why->message);
}

/* A session of such frames may take so much; else it is said once. */
static int has_room(stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f)
{
    uint64_t bytes = stk_nvdec_bytes(f), most = sessions_limit(c);
    char why[160];

    if (bytes <= most)
        return 1;
    snprintf(why, sizeof why,
             "a session takes %" PRIu64 " MB of the GPU, and device_memory_limit "
             "leaves %" PRIu64 " MB for sessions: raise it",
             stk_size_mb(bytes), stk_size_mb(most));
    if (!stk_clip_kinds_given_up(&c->kinds, codec, f) &&
        stk_clip_kinds_note(&c->kinds, codec, f, STK_CLIP_FAILURES))
        give_up(c, codec, f, why);
    return 0;
}

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
    c->peak = c->bytes > c->peak ? c->bytes : c->peak;
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

/* Copies of them stay, if the cache has room; when the clip is done they are there. */
static int keep_frames(clip_thread *t, const stk_nvdec_frame *f, uint32_t n, stk_error *err)
{
    stk_gpu_clip *k = t->clip;
    const stk_frame_format *o = &k->format;
    uint32_t lines = (o->height + 1) / 2, wide = o->bits > 8 ? 2 : 1;
    size_t last = (size_t)(o->width + 1) / 2 * 2 * wide; /* of a surface's last line no more */
    int rc = 0;

    if (!t->c->cache || k->cached || !k->keep.on || !n)
        return 0;
    if (!k->place.at &&
        !stk_clip_cache_claim(t->c->cache, &k->keep, o, f->stride, k->n_want, &k->place))
        k->keep.on = 0;
    for (uint32_t i = 0; i < n && k->keep.on && !rc; i++) {
        stk_nvdec_frame to = stk_clip_place_frame(&k->place, f[i].want);
        size_t luma = (size_t)f[i].stride * (o->height - 1) + last;
        size_t chroma = (size_t)f[i].stride * (lines - 1) + last;

        assert(f[i].stride == k->place.stride && f[i].want < k->n_want);
        rc = t->c->o.cuda->copy(t->c->o.gpu, (uint8_t *)(uintptr_t)to.luma, f[i].luma, luma,
                                STK_COPY_WITHIN, t->stream);
        if (!rc)
            rc = t->c->o.cuda->copy(t->c->o.gpu, (uint8_t *)(uintptr_t)to.chroma, f[i].chroma,
                                    chroma, STK_COPY_WITHIN, t->stream);
    }
    return rc ? stk_fail(err, STK_EIO, "frames could not be cached: %s", t->c->o.cuda->say(rc)) : 0;
}

/* All pictures that show these frames. */
static int on_frames(void *cookie, const stk_nvdec_frame *f, uint32_t n, stk_error *err)
{
    clip_thread *t = cookie;
    stk_gpu_clip *k = t->clip;
    const stk_cuda *cuda = t->c->o.cuda;
    stk_views_job job = { .picture = k->picture,
                          .yuv = k->yuv,
                          .record = k->record + k->n_pictures,
                          .spec = k->spec,
                          .stream = t->stream };
    int rc;

    if (!k->batch)
        return 0; /* a trial */
    for (uint32_t i = 0; i < k->n_pictures; i++)
        for (uint32_t j = 0; j < n; j++)
            if (k->want[i] == f[j].want) {
                k->picture[job.n] = (stk_picture){ .data = f[j].luma,
                                                   .width = k->format.width,
                                                   .height = k->format.height,
                                                   .channels = 3,
                                                   .out = (uint8_t *)k->made->data +
                                                          i * k->picture_bytes };
                k->yuv[job.n] = planes_of(k, &f[j]);
                k->record[k->n_pictures + job.n++] = k->record[i];
            }
    STK_TRY(job.n ? stk_views_run(t->views, &job, err) : 0);
    STK_TRY(keep_frames(t, f, n, err));
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
    int rc = 0;

    if (!s->nvdec)
        rc = stk_nvdec_session_open(&s->nvdec, t->c->nvdec, k->codec, &k->format, err);
    if (rc == 0)
        rc = stk_nvdec_run(s->nvdec, &k->format, &run, err);
    t->broken = rc < 0 && rc != STK_ECORRUPT;
    return rc;
}

/* Of frames that are here already. */
static int make_of_cached(clip_thread *t, const stk_gpu_clip *k, stk_error *err)
{
    stk_nvdec_frame f[STK_NVDEC_FRAMES];
    int rc = 0;

    for (uint32_t from = 0, n; from < k->n_want && rc == 0; from += n) {
        n = k->n_want - from < STK_NVDEC_FRAMES ? k->n_want - from : STK_NVDEC_FRAMES;
        for (uint32_t i = 0; i < n; i++)
            f[i] = stk_clip_place_frame(&k->place, from + i);
        rc = on_frames(t, f, n, err);
    }
    return rc;
}

/* What a thread needs for every clip. */
static int ready(clip_thread *t, stk_error *err)
{
    const stk_gpu_clips_options *o = &t->c->o;
    const stk_views_options views = { .gpu = (uint32_t)o->gpu,
                                      .blocks = o->blocks,
                                      .limit = o->limit / 4 / t->c->n_planned,
                                      .bytes = o->rooms };

    if (!t->views)
        STK_TRY(stk_views_open(&t->views, &views, err));
    if (!t->stream && o->cuda->stream_open(o->gpu, 1, &t->stream))
        return stk_fail(err, STK_EIO, "no stream could be made");
    return 0;
}

/* Where the GPU has no memory for what is made, frames of that kind are not to blame. */
static int make(clip_thread *t, stk_gpu_clip *k)
{
    const stk_gpu_clips_options *o = &t->c->o;
    stk_error why;

    t->clip = k;
    t->broken = 0;
    if (!k->cached && stk_clip_kinds_given_up(&t->c->kinds, k->codec, &k->format))
        return STK_ENOTSUP;
    STK_TRY(ready(t, NULL));
    if (k->batch)
        STK_TRY(
            stk_gpu_pool_get(o->pool, k->n_pictures * k->picture_bytes, t->stream, &k->made, NULL));
    if (k->cached)
        return make_of_cached(t, k, NULL);
    k->rc = decode(t, k, &why);
    judge(t->c, k, &why);
    if (k->place.at)
        stk_clip_cache_settle(t->c->cache, &k->keep, k->rc == 0);
    return k->rc;
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

/* It is not used any more. */
static void free_locked(stk_gpu_clips *c, stk_gpu_clip *k) STK_REQUIRES(c->lock)
{
    if (c->n_free >= FREE) {
        stk_free(k->memory);
        stk_account_give(&c->host, k->room);
        stk_free(k);
        return;
    }
    k->next = c->free;
    c->free = k;
    c->n_free++;
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
        free_locked(c, k);
        return none;
    }
    if (pending_locked(c, k->batch) || !k->batch->clips_ticket)
        return none;
    h = (held_batch){ k->batch, k->batch->clips_ticket };
    k->batch->clips_ticket = NULL;
    c->n_held--;
    return h;
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
    if (!c->queued)
        c->queue_ns += stk_now_ns() - c->queue_from;
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
        if (!k->cached && !comes_locked(c, k))
            return k;
    if (c->queued <= c->n_ready)
        return NULL;
    for (k = c->head; k && k->next;)
        k = k->next;
    return k && !k->cached ? k : NULL;
}

/* A clip and its session: the oldest for which one is idle, or that needs none, else one for which
 * it is opened; NULL: neither.  *old: an idle session that has to be closed first. */
static stk_gpu_clip *pair_locked(stk_gpu_clips *c, session **to, session **old)
    STK_REQUIRES(c->lock)
{
    stk_gpu_clip *k = c->head;
    session *s;
    uint64_t bytes;

    *old = NULL;
    for (uint32_t n = 0; k && n < AHEAD; k = k->next, n++)
        if (k->cached) {
            *to = NULL;
            return run_locked(c, k);
        } else if ((s = best_locked(c, k)) != NULL) {
            enter_locked(c, s, RUNS);
            *to = s;
            return run_locked(c, k);
        }
    k = c->opening ? NULL : lacks_locked(c);
    if (!k)
        return NULL;
    bytes = stk_nvdec_bytes(&k->format);
    s = any_locked(c, CLOSED);
    if (!s || c->bytes + bytes > sessions_limit(c)) {
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

        k->rc = make(t, k);
        if (t->session && t->session->nvdec && !t->broken)
            put_session(c, t->session);
        else if (t->session)
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
    stk_account_init_part(&c->host, o->host ? o->host->limit / 8 : UINT64_MAX, o->host);
    stk_mutex_init(&c->lock);
    stk_clip_kinds_init(&c->kinds);
    pthread_cond_init(&c->more, NULL);
    pthread_cond_init(&c->less, NULL);
    rc = stk_nvdec_open(&c->nvdec, o->cuda, o->gpu, err);
    if (rc == 0 && o->arena)
        rc = stk_clip_cache_open(&c->cache, o->arena, err);
    if (rc < 0)
        stk_gpu_clips_close(&c);
    *out = c;
    return rc;
}

/* Those that keep their memory for others.  1: there were some. */
static int drop_free(stk_gpu_clips *c)
{
    stk_gpu_clip *all;

    stk_mutex_lock(&c->lock);
    all = c->free;
    c->free = NULL;
    c->n_free = 0;
    stk_mutex_unlock(&c->lock);
    for (stk_gpu_clip *k = all, *next; k; k = next) {
        next = k->next;
        stk_account_give(&c->host, k->room);
        stk_free(k->memory);
        stk_free(k);
    }
    return all != NULL;
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
        free_locked(c, k);
    }
    assert(!c->n_held);
    c->stop = 1;
    pthread_cond_broadcast(&c->more);
    stk_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->n_threads; i++)
        pthread_join(c->thread[i].id, NULL);
    for (uint32_t i = 0; i < SESSIONS; i++)
        stk_nvdec_session_close(&c->session[i].nvdec);
    (void)drop_free(c);
    assert(!atomic_load(&c->host.used)); /* every clip came back */
    stk_account_fini(&c->host);
    stk_nvdec_close(&c->nvdec);
    stk_clip_cache_close(&c->cache);
    stk_clip_kinds_fini(&c->kinds);
    pthread_cond_destroy(&c->more);
    pthread_cond_destroy(&c->less);
    stk_mutex_destroy(&c->lock);
    stk_free(c);
}

int stk_gpu_clips_takes(stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f)
{
    return stk_nvdec_engines(c->nvdec, codec, f) && has_room(c, codec, f) &&
           !stk_clip_kinds_given_up(&c->kinds, codec, f);
}

int stk_gpu_clips_cached(stk_gpu_clips *c, const stk_cached_clip *keep)
{
    stk_clip_place place;

    return c->cache && stk_clip_cache_find(c->cache, keep, &place);
}

int stk_gpu_clips_busy(stk_gpu_clips *c)
{
    int busy;

    stk_mutex_lock(&c->lock);
    busy = !c->n_ready || c->queued > c->n_ready || c->queued >= c->n_threads;
    stk_mutex_unlock(&c->lock);
    return busy;
}

void stk_gpu_clips_count(stk_gpu_clips *c, stk_gpu_clips_figures *out)
{
    stk_mutex_lock(&c->lock);
    *out = (stk_gpu_clips_figures){ .sessions = c->bytes,
                                    .sessions_peak = c->peak,
                                    .hits = c->hits,
                                    .misses = c->misses,
                                    .queue_ns = c->queue_ns };
    if (c->queued)
        out->queue_ns += stk_now_ns() - c->queue_from;
    stk_mutex_unlock(&c->lock);
}

/* Other memory than before, of `room` bytes; 0: there is none, and it has none now. */
static int grow_clip(stk_gpu_clips *c, stk_gpu_clip *k, size_t room)
{
    stk_free(k->memory);
    stk_account_give(&c->host, k->room);
    k->memory = NULL;
    k->room = 0;
    if (!stk_account_take(&c->host, room) && !(drop_free(c) && stk_account_take(&c->host, room)))
        return 0;
    k->memory = stk_alloc(room);
    if (k->memory)
        k->room = room;
    else
        stk_account_give(&c->host, room);
    return k->memory != NULL;
}

stk_gpu_clip *stk_gpu_clip_new(stk_gpu_clips *c, size_t room)
{
    stk_gpu_clip *k;

    stk_mutex_lock(&c->lock);
    k = c->free;
    if (k) {
        c->free = k->next;
        c->n_free--;
    }
    stk_mutex_unlock(&c->lock);
    if (!k)
        k = STK_NEW(stk_gpu_clip);
    if (!k)
        return NULL;
    if (k->room < room && !grow_clip(c, k, room + room / 4)) {
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

    c->n_planned = n < THREADS ? n : THREADS;
    while (c->n_threads < c->n_planned) {
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

    k->cached = b && c->cache && stk_clip_cache_find(c->cache, &k->keep, &k->place);
    stk_mutex_lock(&c->lock);
    if (!c->n_threads)
        rc = start_threads_locked(c, k, err);
    if (rc < 0 || (!b && !cold_locked(c))) {
        free_locked(c, k);
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
        c->hits += b && k->keep.on && k->cached;
        c->misses += b && k->keep.on && !k->cached;
        if (!c->queued++)
            c->queue_from = stk_now_ns();
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
        assert(!b->clips_ticket); /* it is held once */
        b->clips_ticket = ticket;
        c->n_held++;
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
        free_locked(c, k);
        stk_mutex_unlock(&c->lock);
    }
}
