/* SPDX-License-Identifier: Apache-2.0 */
/* hostgpu.c - a GPU made of host memory and threads, after the table that libstoker_cuda offers: so
 * that streams, events, hand-over and failures can be tested where there is no GPU, under
 * sanitizers too.
 *
 * A stream is a thread that does what is queued, one thing after the other, each after a delay that
 * follows from STK_HOSTGPU_SEED; "device" memory is filled with a pattern when it is allocated and
 * freed.  Pictures are made by the very functions that the kernels are made of (device/pic_*.h).
 * STK_HOSTGPU_FAIL=copy, alloc, work makes such calls fail, or work fail when it is done.
 * STK_HOSTGPU_LOG=FILE: a line for each launch. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda.h"
#include "gpu/pic_host_test.h"
#include "cuda/pic_sync.h"

enum { GPUS = 2, POISON = 0xA5 };
enum { COPY, ZERO, WAIT, RECORD, CALL, PICTURES, GATHER, MIX };

typedef struct event {
    uint64_t recorded, done; /* lock */
    struct timespec when;    /* lock */
    /* all of them, without limit: streams may still wait for one that is closed */
    struct event *next;
} event;

typedef struct op {
    int kind;
    void *dst;
    const void *src;
    size_t size;
    event *event;
    uint64_t count;
    void (*fn)(void *, int);
    stk_pic_launch launch;
    stk_gpu_gather gather;
    stk_blend mix;
    struct op *next;
} op;

typedef struct stream {
    pthread_t thread;
    op *head, **tail; /* lock */
    int busy, stop;   /* lock */
    uint64_t random;
    struct stream *next; /* lock */
} stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static uint64_t seeds;     /* lock */
static stream *streams;    /* lock: all that are open */
static event *events;      /* lock */
static _Atomic int failed; /* work of the GPU failed: everything after it does too */
static _Thread_local int current_gpu;
static const stk_cuda table;

static int fails(const char *what)
{
    const char *given = getenv("STK_HOSTGPU_FAIL");

    return given && !strcmp(given, what) ? 700 : 0;
}

/* ---- streams ---- */

static void dally(stream *s)
{
    struct timespec t = { 0 };

    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    if (s->random >> 62)
        return;
    t.tv_nsec = (long)(s->random >> 40 & 0x3ffff);
    nanosleep(&t, NULL);
}

static void wait_for(const op *o)
{
    pthread_mutex_lock(&lock);
    while (o->event->done < o->count)
        pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
}

static void record(const op *o)
{
    pthread_mutex_lock(&lock);
    if (o->event->done < o->count)
        o->event->done = o->count;
    clock_gettime(CLOCK_MONOTONIC, &o->event->when);
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

/* STK_HOSTGPU_SPOIL: of pictures that are kept, every third one goes bad behind our back. */
static void spoil(const stk_pic_launch *l)
{
    for (uint32_t i = 0; i < l->n_jobs && getenv("STK_HOSTGPU_SPOIL"); i++)
        if (l->job[i].keep % 192 == 0 && l->job[i].keep)
            memset(l->arena + l->job[i].keep, 0x5A, host_rec(l, &l->job[i])->data_len);
}

/* STK_HOSTGPU_SPOIL_FRAMES: every third frame of a launch could not be made. */
static void spoil_frames(const stk_pic_launch *l)
{
    for (uint32_t i = 0; i < l->n_jobs && getenv("STK_HOSTGPU_SPOIL_FRAMES"); i += 3)
        if (l->job[i].kind == STK_PIC_FRAME || l->job[i].kind == STK_PIC_U8)
            l->status[i] |= STK_PIC_BAD_RECORD;
}

/* As stk_pic_run() of src/cuda. */
static void make_pictures(const stk_pic_launch *l)
{
    stk_sync *s = l->n_sync ? malloc(sizeof *s) : NULL;

    host_taps(l);
    for (uint32_t w = 0; s && w < l->n_sync; w++) {
        uint32_t job = l->sync[w].job;
        stk_sync_task k = { l->slab, l->slab_len, l->scratch, l->job + job, l->status + job, 0 };

        stk_sync_picture(s, &k);
    }
    host_decode(l);
    host_across(l);
    host_down(l);
    host_steps(l);
    spoil(l);
    spoil_frames(l);
    free(s);
}

/* As stk_gather_run() of src/cuda. */
static void gather_rows(const stk_gpu_gather *g)
{
    for (uint32_t r = 0; r < g->rows; r++)
        for (uint64_t i = 0; i < g->count && stk_gather_inside(g, g->at[r]); i++)
            stk_gather_one(g, g->at[r], r, i);
}

/* As stk_blend_run() of src/cuda. */
static void mix_rows(const stk_blend *m)
{
    for (uint32_t i = 0; i < stk_blend_turns(m); i++)
        for (uint64_t e = 0; e < m->count; e++)
            stk_blend_one(m, i, e);
}

static void run(stream *s, const op *o)
{
    dally(s);
    switch (o->kind) {
    case COPY: memcpy(o->dst, o->src, o->size); break;
    case ZERO: memset(o->dst, 0, o->size); break;
    case WAIT: wait_for(o); break;
    case RECORD: record(o); break;
    case CALL: o->fn(o->dst, atomic_load(&failed)); break;
    case GATHER: gather_rows(&o->gather); break;
    case MIX: mix_rows(&o->mix); break;
    case PICTURES: make_pictures(&o->launch); break;
    }
    if (o->kind != CALL && fails("work"))
        atomic_store(&failed, 719);
}

static void *stream_main(void *p)
{
    stream *s = p;

    pthread_mutex_lock(&lock);
    while (s->head || !s->stop) {
        op *o = s->head;

        if (!o) {
            pthread_cond_wait(&moved, &lock);
            continue;
        }
        s->head = o->next;
        if (!s->head)
            s->tail = &s->head;
        s->busy = 1;
        pthread_mutex_unlock(&lock);
        run(s, o);
        free(o);
        pthread_mutex_lock(&lock);
        s->busy = 0;
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Streams 0, 1 and 2 are CUDA's default ones: work there is done at once. */
static int is_default(const void *p)
{
    return (uintptr_t)p <= 2;
}

static int put(void *p, op o)
{
    stream *s = p, now = { 0 };
    op *own;

    if (is_default(p)) {
        run(&now, &o);
        return 0;
    }
    own = malloc(sizeof *own);
    if (!own)
        return 2;
    *own = o;
    pthread_mutex_lock(&lock);
    *s->tail = own;
    s->tail = &own->next;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int stream_open(int gpu, int low, void **out)
{
    const char *seed = getenv("STK_HOSTGPU_SEED");
    stream *s = calloc(1, sizeof *s);

    (void)gpu, (void)low;
    *out = s;
    if (!s)
        return 2;
    s->tail = &s->head;
    pthread_mutex_lock(&lock);
    s->random = ++seeds * 0x9E3779B97F4A7C15u + (seed ? strtoull(seed, NULL, 0) : 0);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    return pthread_create(&s->thread, NULL, stream_main, s);
}

static void stream_close(int gpu, void *p)
{
    stream *s = p;

    (void)gpu;
    pthread_mutex_lock(&lock);
    for (stream **at = &streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    s->stop = 1;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    free(s);
}

static int stream_sync(int gpu, void *p)
{
    stream *s = p;

    (void)gpu;
    pthread_mutex_lock(&lock);
    while (!is_default(p) && (s->head || s->busy))
        pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
    return atomic_load(&failed);
}

/* ---- events ---- */

static int event_open(int gpu, int timed, void **out)
{
    event *e = calloc(1, sizeof *e);

    (void)gpu, (void)timed;
    *out = e;
    if (!e)
        return 2;
    pthread_mutex_lock(&lock);
    e->next = events;
    events = e;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void event_close(int gpu, void *e)
{
    (void)gpu, (void)e;
}

static int event_record(int gpu, void *p, void *s)
{
    event *e = p;
    op o = { .kind = RECORD, .event = e };

    (void)gpu;
    pthread_mutex_lock(&lock);
    o.count = ++e->recorded;
    pthread_mutex_unlock(&lock);
    return put(s, o);
}

static int stream_wait(int gpu, void *s, void *p)
{
    event *e = p;
    op o = { .kind = WAIT, .event = e };

    (void)gpu;
    pthread_mutex_lock(&lock);
    o.count = e->recorded;
    pthread_mutex_unlock(&lock);
    return put(s, o);
}

static int event_done(int gpu, void *p, int wait)
{
    const event *e = p;
    int done;

    (void)gpu;
    pthread_mutex_lock(&lock);
    while (wait && e->done < e->recorded)
        pthread_cond_wait(&moved, &lock);
    done = e->done >= e->recorded;
    pthread_mutex_unlock(&lock);
    return done;
}

static int event_ms(int gpu, void *from, void *to, float *out)
{
    const event *a = from, *b = to;

    (void)gpu;
    pthread_mutex_lock(&lock);
    *out = (float)(b->when.tv_sec - a->when.tv_sec) * 1e3f +
           (float)(b->when.tv_nsec - a->when.tv_nsec) * 1e-6f;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- memory and work ---- */

static int copy(int gpu, void *dst, const void *src, size_t size, stk_copy how, void *s)
{
    (void)gpu, (void)how;
    if (fails("copy"))
        return 700;
    return put(s, (op){ .kind = COPY, .dst = dst, .src = src, .size = size });
}

static int zero(int gpu, void *dst, size_t size, void *s)
{
    (void)gpu;
    return put(s, (op){ .kind = ZERO, .dst = dst, .size = size });
}

static int call(int gpu, void *s, void (*fn)(void *, int), void *cookie)
{
    (void)gpu;
    return put(s, (op){ .kind = CALL, .fn = fn, .dst = cookie });
}

static int pictures(int gpu, const stk_pic_launch *l, void *s)
{
    const char *path = getenv("STK_HOSTGPU_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;

    (void)gpu;
    if (f) {
        fprintf(f, "pictures %u blocks %u\n", l->n_jobs, l->blocks);
        fclose(f);
    }
    return put(s, (op){ .kind = PICTURES, .launch = *l });
}

static int gather(int gpu, const stk_gpu_gather *g, void *s)
{
    (void)gpu;
    return put(s, (op){ .kind = GATHER, .gather = *g });
}

static int mix(int gpu, const stk_blend *m, void *s)
{
    (void)gpu;
    return put(s, (op){ .kind = MIX, .mix = *m });
}

static int alloc(int gpu, size_t size, void **out)
{
    size_t *p = fails("alloc") ? NULL : aligned_alloc(256, (size + 511) / 256 * 256);

    (void)gpu;
    if (!p)
        return 2;
    *p = size;
    *out = p + 32;
    if (!getenv("STK_HOSTGPU_CLEAN")) /* a profiler would count it as the loader's work */
        memset(*out, POISON, size);
    return 0;
}

static int any_busy_locked(void)
{
    for (const stream *s = streams; s; s = s->next)
        if (s->head || s->busy)
            return 1;
    return 0;
}

/* As cudaFree(): waits for everything. */
static void release(int gpu, void *p)
{
    (void)gpu;
    pthread_mutex_lock(&lock);
    while (any_busy_locked())
        pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
    free((size_t *)p - 32);
}

static int pinned_alloc(int gpu, size_t size, void **out)
{
    return alloc(gpu, size, out);
}

static void pinned_free(void *p)
{
    release(0, p);
}

/* ---- the rest ---- */

static const char *say(int rc)
{
    return rc == 2     ? "out of memory"
           : rc == 700 ? "a call was made to fail"
                       : "work was made to fail";
}

static int count(int *n)
{
    *n = GPUS;
    return 0;
}

static int current(int *gpu)
{
    *gpu = current_gpu;
    return 0;
}

static int bind_to(int gpu)
{
    current_gpu = gpu;
    return 0;
}

static int info(int gpu, stk_gpu_info *out)
{
    *out = (stk_gpu_info){ .name = "threads", .memory = 1u << 30, .sms = 4, .node = -1 };
    out->free_memory = out->memory;
    return gpu < GPUS ? 0 : 101;
}

static void range_push(const char *name)
{
    (void)name;
}

static void range_pop(void)
{
}

static const stk_cuda table = { STK_CUDA_ABI, say,          count,       current,     bind_to,
                                info,         pinned_alloc, pinned_free, alloc,       release,
                                stream_open,  stream_close, stream_wait, stream_sync, event_open,
                                event_close,  event_record, event_done,  event_ms,    copy,
                                zero,         call,         pictures,    gather,      mix,
                                range_push,   range_pop };

__attribute__((visibility("default"))) const stk_cuda *stk_cuda_table(uint32_t abi);
const stk_cuda *stk_cuda_table(uint32_t abi)
{
    return abi == STK_CUDA_ABI ? &table : NULL;
}
