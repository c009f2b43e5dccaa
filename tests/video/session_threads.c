/* SPDX-License-Identifier: Apache-2.0 */
/* session_threads - windows of several videos, taken in turn by several threads.
 *
 *   session_threads THREADS[:SESSIONS] FRAMES STRIDE STEP FILE...
 *
 * As in block order: window 0 of each file, then window 1 of each, handed out by a counter.  Every
 * frame is compared with what one thread makes of each window alone, from its keyframe on.  Prints
 * [windows, windows that went on, packets, frames, sessions]; exits with 1 if any frame differs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "video/sessions.h"
#include "video/video.h"

#define FILES 8
#define CLIP 64
#define WINDOWS 4096

typedef struct file {
    stk_bytes in, points;
    uint32_t shown, windows;
    uint32_t crc[WINDOWS][CLIP];
} file;

static file files[FILES];
static uint32_t n_files, most, n_threads, frames, stride, step;
static _Atomic uint32_t next_window, wrong;
static stk_sessions *pool;
static stk_crc32 table;

typedef struct seen {
    uint32_t crc[CLIP];
} seen;

static int take(void *cookie, uint32_t i, int64_t time, const stk_planes *p, stk_error *err)
{
    seen *s = cookie;
    uint32_t crc = 0;

    (void)time;
    (void)err;
    for (uint32_t y = 0; y < p->area.h; y++)
        crc = stk_crc32_of(&table, crc, p->data[0] + y * p->stride[0], p->area.w);
    s->crc[i] = crc;
    return 0;
}

static int read_there(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    const file *f = cookie;

    if (at > f->in.len || len > f->in.len - at)
        return stk_fail(err, STK_ECORRUPT, "past the end");
    memcpy(dst, f->in.data + at, len);
    return 0;
}

static int play(stk_sessions *of, file *f, uint32_t w, seen *out)
{
    uint64_t show[CLIP];
    const stk_media_points p = { .head = f->points };
    const stk_media_ask ask = { .frame = show, .n_frames = frames };
    const stk_media_sink sink = { .cookie = out, .frame = take };
    stk_scratch scratch = { 0 };
    stk_error err = { 0 };
    stk_session_job job = { .key = (uint64_t)(f - files) + 1,
                            .points = &p,
                            .ask = &ask,
                            .frames = frames,
                            .stride = stride,
                            .step = step,
                            .read = read_there,
                            .cookie = f,
                            .sink = &sink,
                            .scratch = &scratch };
    int rc;

    for (uint32_t i = 0; i < frames; i++)
        show[i] = (uint64_t)w * step + (uint64_t)i * stride;
    rc = stk_sessions_decode(of, &job, &err);
    stk_scratch_fini(&scratch);
    return rc;
}

static void *work(void *none)
{
    uint32_t i;

    (void)none;
    while ((i = atomic_fetch_add(&next_window, 1)) < most * n_files) {
        file *f = &files[i % n_files];
        uint32_t w = i / n_files;
        seen s;

        if (w >= f->windows)
            continue;
        if (i % 97 == 50)
            stk_sessions_trim(pool);
        if (play(pool, f, w, &s) || memcmp(s.crc, f->crc[w], frames * sizeof *s.crc) != 0)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

/* Each window alone: a session that is thrown away. */
static int play_alone(file *f)
{
    for (uint32_t w = 0; w < f->windows; w++) {
        seen s;

        stk_sessions_trim(pool);
        if (play(pool, f, w, &s))
            return -1;
        memcpy(f->crc[w], s.crc, sizeof s.crc);
    }
    stk_sessions_trim(pool);
    return 0;
}

static int open_file(file *f, const char *path)
{
    FILE *from = fopen(path, "rb");
    stk_scratch scratch = { 0 };
    stk_media_points p;
    const stk_decoder *d;
    stk_media_reader read;
    stk_video_head h;
    uint8_t *data, *points;
    void *ctx = NULL;

    if (!from)
        return -1;
    fseek(from, 0, SEEK_END);
    f->in.len = (size_t)ftell(from);
    rewind(from);
    data = malloc(f->in.len + 1);
    f->in.len = fread(data, 1, f->in.len, from);
    f->in.data = data;
    fclose(from);
    d = stk_mp4_probe(f->in) ? &stk_decoder_mp4 : &stk_decoder_matroska;
    read = stk_media_here(&f->in);
    if (d->open(&ctx, NULL) < 0 || d->points(ctx, &read, &scratch, &f->points, NULL) < 0)
        return -1;
    points = malloc(f->points.len);
    memcpy(points, f->points.data, f->points.len);
    f->points.data = points;
    d->close(ctx);
    stk_scratch_fini(&scratch);
    p = (stk_media_points){ .head = f->points };
    if (stk_video_points_open(&h, &p, NULL) < 0 || h.shown < (frames - 1) * stride + 1)
        return -1;
    f->windows = (h.shown - (frames - 1) * stride - 1) / step + 1;
    most = f->windows > most ? f->windows : most;
    return f->windows > WINDOWS ? -1 : play_alone(f);
}

int main(int argc, char **argv)
{
    stk_account account;
    stk_sessions_stats before, after;
    pthread_t thread[16];
    uint32_t sessions;
    char *more;

    if (argc < 6 || argc - 5 > FILES)
        return 2;
    n_threads = (uint32_t)strtoul(argv[1], &more, 10);
    sessions = *more == ':' ? (uint32_t)atoi(more + 1) : 12;
    frames = (uint32_t)atoi(argv[2]);
    stride = (uint32_t)atoi(argv[3]);
    step = (uint32_t)atoi(argv[4]);
    n_files = (uint32_t)argc - 5;
    stk_crc32_init(&table);
    stk_account_init(&account, 1u << 30);
    if (n_threads > 16 || frames > CLIP ||
        stk_sessions_open(&pool, &account, 1u << 29, sessions, NULL))
        return 2;
    for (uint32_t i = 0; i < n_files; i++)
        if (open_file(&files[i], argv[5 + i]) < 0)
            return 2;
    stk_sessions_count(pool, &before);
    for (uint32_t i = 0; i < n_threads; i++)
        if (pthread_create(&thread[i], NULL, work, NULL))
            return 2;
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(thread[i], NULL);
    stk_sessions_count(pool, &after);
    printf("[%u, %u, %u, %u, %u]\n", (unsigned)(after.windows - before.windows),
           (unsigned)(after.continued - before.continued),
           (unsigned)(after.packets - before.packets), (unsigned)(after.frames - before.frames),
           after.n);
    stk_sessions_close(&pool);
    for (uint32_t i = 0; i < n_files; i++) {
        free((void *)(uintptr_t)files[i].in.data);
        free((void *)(uintptr_t)files[i].points.data);
    }
    return atomic_load(&wrong) != 0 || atomic_load(&account.used) != 0;
}
