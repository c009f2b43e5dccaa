/* SPDX-License-Identifier: Apache-2.0 */
/* nvdec_gpu - NVDEC's frames against those of a CPU decoder, and how many it decodes.
 *
 *   nvdec_gpu FILE CRCS       every frame, by clips of 16 that begin anywhere; CRCS has the CRC of
 *                             each frame's planes, in show order (video_dump's)
 *   nvdec_gpu FILE bench      frames decoded and clips per second, by sessions
 *
 * Exits with 77 where there is no NVDEC. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crc32.h"
#include "base/rng.h"
#include "codec/decoders.h"

extern const stk_decoder stk_decoder_mp4, stk_decoder_matroska;

#include "gpu/nvdec.h"
#include "video/clip_stream.h"

#define CLIP 16u
#define MOST 64

typedef struct video {
    stk_bytes all;
    stk_scratch points_room;
    stk_media_points points;
    stk_video_head h;
    uint32_t *crc;
    const stk_cuda *cuda;
    stk_nvdec *n;
    stk_crc32 table;
} video;

typedef struct one { /* of a thread */
    const video *v;
    stk_nvdec_session *s;
    void *stream;
    stk_frame_format format;
    uint8_t *host;
    uint32_t first, wrong, seen;
    double seconds;
    uint64_t clips, frames;
    pthread_t thread;
    pthread_barrier_t *all;
    uint64_t seed;
} one;

static uint32_t crc_of(const one *o, uint32_t bits, size_t stride)
{
    uint32_t w = o->v->h.width, h = o->v->h.height, cw = (w + 1) / 2, ch = (h + 1) / 2, crc = 0;
    static _Thread_local uint8_t row[STK_VIDEO_SIDE * 2];
    size_t wide = bits > 8 ? 2 : 1;

    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t y = 0; y < (k ? ch : h); y++) {
            const uint8_t *p = o->host + ((k ? h : 0) + (size_t)y) * stride;

            for (uint32_t x = 0; x < (k ? cw : w); x++) {
                size_t at = k ? 2 * x + k - 1 : x;

                if (wide == 1)
                    row[x] = p[at];
                else
                    ((uint16_t *)(void *)row)[x] = ((const uint16_t *)(const void *)p)[at] >>
                                                   (16 - bits);
            }
            crc = stk_crc32_of(&o->v->table, crc, row, (k ? cw : w) * wide);
        }
    return crc;
}

static int take(void *cookie, const stk_nvdec_frame *f, uint32_t n, stk_error *err)
{
    one *o = cookie;
    uint32_t h = o->v->h.height;

    if (!o->v->crc)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t stride = f[i].stride;
        uint32_t crc;

        o->v->cuda->copy(0, o->host, f[i].luma, stride * h, STK_COPY_OUT, o->stream);
        o->v->cuda->copy(0, o->host + stride * h, f[i].chroma, stride * ((h + 1) / 2), STK_COPY_OUT,
                         o->stream);
        if (o->v->cuda->stream_sync(0, o->stream))
            return stk_fail(err, STK_EIO, "a copy failed");
        crc = crc_of(o, o->format.bits, stride);
        o->seen++;
        if (crc != o->v->crc[o->first + f[i].want]) {
            if (o->wrong++ < 5)
                fprintf(stderr, "frame %u: %08x, not %08x\n", o->first + f[i].want, crc,
                        o->v->crc[o->first + f[i].want]);
        }
    }
    return 0;
}

/* Frames first to first + CLIP - 1. */
static int clip(one *o, uint32_t first, stk_error *err)
{
    const stk_media_part part = { 0, o->v->all };
    stk_scratch scratch = { 0 };
    stk_nvdec_packet *packet;
    stk_clip_stream cut;
    uint64_t frame[CLIP];
    uint32_t n = o->v->h.shown - first < CLIP ? o->v->h.shown - first : CLIP;
    const stk_media_ask ask = { .frame = frame, .n_frames = n };
    const stk_media_job job = {
        .points = &o->v->points, .ask = &ask, .part = &part, .n_parts = 1, .scratch = &scratch
    };
    stk_nvdec_clip run = { .stream = o->stream, .frames = take, .cookie = o };
    int rc;

    for (uint32_t i = 0; i < n; i++)
        frame[i] = first + i;
    rc = stk_clip_stream_cut(&cut, &o->v->h, &job, err);
    if (rc == 0) {
        o->format = cut.format;
        o->first = first;
        packet = calloc(cut.n, sizeof *packet);
        for (uint32_t i = 0; i < cut.n; i++)
            packet[i] = (stk_nvdec_packet){ cut.data + cut.packet[i].at,
                                            cut.packet[i].len,
                                            cut.packet[i].want,
                                            cut.packet[i].begins,
                                            cut.data + cut.packet[i].mark,
                                            cut.packet[i].mark_len };
        run.packet = packet;
        run.n = cut.n;
        run.n_want = n;
        if (!stk_nvdec_engines(o->v->n, o->v->h.codec, &cut.format))
            rc = stk_fail(err, STK_ENOTSUP, "no engine");
        if (rc == 0 && !o->s)
            rc = stk_nvdec_session_open(&o->s, o->v->n, o->v->h.codec, &cut.format, err);
        if (rc == 0)
            rc = stk_nvdec_run(o->s, &cut.format, &run, err);
        o->frames += cut.n;
        o->clips++;
        free(packet);
    }
    stk_scratch_fini(&scratch);
    return rc;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *work(void *p)
{
    one *o = p;
    stk_error err;
    stk_rng rng;
    double end;

    stk_rng_init(&rng, o->seed, 1, 0, 0, 0);
    o->v->cuda->stream_open(0, 0, &o->stream);
    if (clip(o, 0, &err) < 0) { /* opens the session */
        fprintf(stderr, "%s\n", err.message);
        o->wrong++;
    }
    pthread_barrier_wait(o->all);
    o->clips = o->frames = 0;
    end = now() + o->seconds;
    while (now() < end)
        if (clip(o, stk_rng_below(&rng, o->v->h.shown - CLIP), &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            o->wrong++;
            break;
        }
    stk_nvdec_session_close(&o->s);
    return NULL;
}

static int bench(const video *v)
{
    static const uint32_t threads[] = { 1, 7, 11, 14, 21 };
    static one o[MOST];

    for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
        uint64_t clips = 0, frames = 0;
        pthread_barrier_t all;
        double took = 2;

        pthread_barrier_init(&all, NULL, threads[k] + 1);
        for (uint32_t i = 0; i < threads[k]; i++) {
            o[i] = (one){ .v = v, .seconds = 2, .seed = i + 1, .all = &all };
            pthread_create(&o[i].thread, NULL, work, &o[i]);
        }
        pthread_barrier_wait(&all);
        for (uint32_t i = 0; i < threads[k]; i++) {
            pthread_join(o[i].thread, NULL);
            clips += o[i].clips;
            frames += o[i].frames;
            if (o[i].wrong)
                return 1;
        }
        printf("%2u sessions: %7.0f frames/s decoded, %6.0f clips/s\n", threads[k],
               (double)frames / took, (double)clips / took);
        fflush(stdout);
    }
    return 0;
}

static int compare(const video *v)
{
    one o = { .v = v };
    stk_error err;
    uint32_t clips = 0;
    double from = now();

    o.host = malloc((size_t)STK_VIDEO_SIDE * v->h.height * 4 + 4096);
    v->cuda->stream_open(0, 0, &o.stream);
    for (uint32_t k = 0, first = 0; k < 2 * v->h.shown; k++, clips++) {
        if (clip(&o, first, &err) < 0) {
            printf("frame %u: %s\n", first, err.message);
            if (err.code != STK_ENOTSUP && ++o.wrong > 20)
                break;
            stk_nvdec_session_close(&o.s);
        } else if (!k) {
            printf("first clip %.3f s; ", now() - from);
        }
        first = (first + 7) % v->h.shown;
    }
    printf("%u clips, %u frames compared, %u differ\n", clips, o.seen, o.wrong);
    stk_nvdec_session_close(&o.s);
    free(o.host);
    return o.wrong || !o.seen;
}

static int load(video *v, const char *path, stk_error *err)
{
    stk_media_reader read;
    const stk_decoder *d;
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    void *ctx;
    long n;

    if (!f)
        return stk_fail(err, STK_EIO, "%s can't be read", path);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    data = malloc((size_t)n + 1);
    v->all = (stk_bytes){ data, fread(data, 1, (size_t)n, f) };
    fclose(f);
    read = stk_media_here(&v->all);
    d = stk_decoder_mp4.probe(v->all) ? &stk_decoder_mp4 : &stk_decoder_matroska;
    STK_TRY(d->open(&ctx, err));
    STK_TRY(d->points(ctx, &read, &v->points_room, &v->points.head, err));
    return stk_video_points_open(&v->h, &v->points, err);
}

int main(int argc, char **argv)
{
    video v = { 0 };
    stk_error err;
    int rc;

    if (argc != 3)
        return 2;
    stk_crc32_init(&v.table);
    rc = stk_cuda_load(&v.cuda, &err);
    if (rc == 0)
        rc = stk_nvdec_open(&v.n, v.cuda, 0, &err);
    if (rc < 0) {
        printf("%s\n", err.message);
        return 77;
    }
    rc = load(&v, argv[1], &err);
    if (rc < 0) {
        printf("%s: %s\n", argv[1], err.message);
        return 1;
    }
    printf("%s, %ux%u, %u frames\n", stk_video_codec_name(v.h.codec), v.h.width, v.h.height,
           v.h.shown);
    if (!strcmp(argv[2], "bench"))
        return bench(&v);
    v.crc = calloc(v.h.shown, sizeof *v.crc);
    FILE *f = fopen(argv[2], "r");
    for (uint32_t i = 0; f && i < v.h.shown; i++)
        if (fscanf(f, "%x", &v.crc[i]) != 1)
            return 1;
    return compare(&v);
}
