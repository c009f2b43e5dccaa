/* SPDX-License-Identifier: Apache-2.0 */
/* video_dump - what Stoker sees in a video, for comparing with FFmpeg.
 *
 *   video_dump FILE < CLIPS
 *
 * First a JSON line of what the file is, then one line per frame that is shown: its time in
 * microseconds, whether it is a keyframe, the place and size of its packet.  Then for every line of
 * CLIPS, a mode and show numbers: one JSON line [[NUMBER, TIME, CRC of its planes], ...], or the
 * error as a string.  Modes: `whole` decodes from all bytes without points, `points` from all bytes
 * with them, `parts` from the ranges that the points ask for, the points read in slices.  `stream`
 * does not decode: the line is [width, height, bits, chroma, matrix, full range, siting, fields,
 * the packets of the clip as a byte stream in hexadecimal]. `needed`: of the packets of a clip of
 * H.264, those on which it depends, and how many there are; null: that can't be told.
 * `window:FRAMES:STRIDE:STEP` decodes by sessions that all these lines share; "alone" if that is
 * not to be. `count`: what those sessions did, [windows, windows that went on, packets, frames,
 * sessions].
 *
 *   video_dump --uniform LENGTHS FRAMES
 *
 * The frames that start=uniform, then uniform_even, picks: for 1 to FRAMES frames, of videos of 1
 * to LENGTHS frames, as numbers of 16 bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/crc32.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "video/clip_codec.h"
#include "video/clip_stream.h"
#include "video/h264.h"
#include "video/sessions.h"
#include "video/video.h"

#define CLIP 4096
#define LARGE (1u << 30) /* bytes of a file that is mapped: the test makes it with a hole */

typedef struct out {
    uint32_t n;
    uint64_t *frame;
    struct {
        uint32_t crc;
        int64_t time;
        int seen;
    } made[CLIP];
    uint64_t read; /* bytes of points */
    stk_crc32 table;
} out;

static uint32_t crc_of(const stk_crc32 *table, const stk_planes *p)
{
    uint32_t crc = 0;

    for (uint32_t k = 0; k < 3 && p->data[k]; k++) {
        int half = k > 0;
        uint32_t w = half && p->half_x ? (p->area.w + 1) / 2 : p->area.w;
        uint32_t h = half && p->half_y ? (p->area.h + 1) / 2 : p->area.h;
        size_t bytes = (size_t)w * (p->kind == STK_PLANES_RGBX ? 4 : p->bits > 8 ? 2 : 1);

        for (uint32_t y = 0; y < h; y++)
            crc = stk_crc32_of(table, crc, p->data[k] + y * p->stride[k], bytes);
    }
    return crc;
}

static int take(void *cookie, uint32_t i, int64_t time, const stk_planes *p, stk_error *err)
{
    out *o = cookie;

    (void)err;
    o->made[i].crc = crc_of(&o->table, p);
    o->made[i].time = time;
    o->made[i].seen++;
    return 0;
}

typedef struct slices {
    stk_bytes all;
    uint8_t *copy;
    out *o;
} slices;

/* Each slice in memory of its own, so that a sanitizer sees reads outside. */
static int slice(void *cookie, uint64_t at, uint32_t len, stk_bytes *got, stk_error *err)
{
    slices *s = cookie;

    free(s->copy);
    s->copy = NULL;
    if (at > s->all.len || len > s->all.len - at)
        return stk_fail(err, STK_ECORRUPT, "past the points");
    s->copy = malloc(len + !len);
    memcpy(s->copy, s->all.data + at, len);
    s->o->read += len;
    *got = (stk_bytes){ s->copy, len };
    return 0;
}

static int decode(const stk_decoder *d, void *ctx, stk_bytes in, const stk_media_points *p,
                  const char *mode, out *o, stk_scratch *scratch, stk_error *err)
{
    const stk_media_ask ask = { .frame = o->frame, .n_frames = o->n };
    const stk_media_sink sink = { .cookie = o, .frame = take };
    stk_media_range range[STK_MEDIA_RANGES];
    stk_media_part part[STK_MEDIA_RANGES] = { { 0, in } };
    stk_media_info info;
    uint32_t n = 1;
    int rc = 0;

    if (!strcmp(mode, "parts")) {
        rc = d->ranges(p, &ask, UINT64_MAX, range, &n, err);
        for (uint32_t i = 0; rc == 0 && i < n; i++) {
            uint8_t *copy = malloc((size_t)range[i].len);

            memcpy(copy, in.data + range[i].offset, (size_t)range[i].len);
            part[i] = (stk_media_part){ range[i].offset, { copy, (size_t)range[i].len } };
        }
    } else {
        rc = d->header(ctx, in, p, &info, err);
    }
    if (rc == 0)
        rc = d->decode(ctx,
                       &(stk_media_job){ .points = p,
                                         .ask = &ask,
                                         .part = part,
                                         .n_parts = n,
                                         .sink = &sink,
                                         .scratch = scratch },
                       err);
    for (uint32_t i = 0; !strcmp(mode, "parts") && i < n; i++)
        if (part[i].bytes.data != in.data)
            free((void *)(uintptr_t)part[i].bytes.data);
    return rc;
}

/* ---- windows ---- */

static int read_there(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    const stk_bytes *in = cookie;

    if (at > in->len || len > in->len - at)
        return stk_fail(err, STK_ECORRUPT, "past the end");
    memcpy(dst, in->data + at, len);
    return 0;
}

static int decode_window(stk_sessions *pool, stk_bytes *in, stk_bytes points, const char *mode,
                         out *o, stk_error *err)
{
    const stk_media_ask ask = { .frame = o->frame, .n_frames = o->n };
    const stk_media_sink sink = { .cookie = o, .frame = take };
    const stk_media_points p = { .head = points };
    stk_scratch scratch = { 0 };
    stk_session_job job = { .key = 1,
                            .points = &p,
                            .ask = &ask,
                            .read = read_there,
                            .cookie = in,
                            .sink = &sink,
                            .scratch = &scratch };
    int rc;

    if (sscanf(mode, "window:%u:%u:%u", &job.frames, &job.stride, &job.step) != 3)
        exit(2);
    rc = stk_sessions_decode(pool, &job, err);
    stk_scratch_fini(&scratch);
    return rc;
}

static void print_clip(const out *o, int rc, const stk_error *err)
{
    if (rc < 0) {
        printf("\"%s\"\n", err->message);
        return;
    }
    printf("[");
    for (uint32_t i = 0; i < o->n; i++)
        printf("%s[%" PRIu64 ", %" PRId64 ", %u]", i ? ", " : "", o->frame[i], o->made[i].time,
               o->made[i].seen == 1 ? o->made[i].crc : 0);
    printf("]\n");
}

/* The byte stream that a GPU's decoder is given. */
static int print_stream(stk_bytes in, stk_bytes points, const out *o, stk_scratch *scratch,
                        stk_error *err)
{
    const stk_media_ask ask = { .frame = o->frame, .n_frames = o->n };
    const stk_media_points p = { .head = points };
    const stk_media_part all = { 0, in };
    const stk_media_job job = {
        .points = &p, .ask = &ask, .part = &all, .n_parts = 1, .scratch = scratch
    };
    stk_clip_stream s;
    stk_video_head h;

    STK_TRY(stk_video_points_open(&h, &p, err));
    STK_TRY(stk_clip_stream_cut(&s, &h, &job, err));
    printf("[%u, %u, %u, %u, %u, %u, %u, %u, \"", s.format.width, s.format.height, s.format.bits,
           s.format.chroma, s.format.matrix, s.format.full_range, s.format.siting, s.format.fields);
    for (size_t i = 0; i < s.len; i++)
        printf("%02x", s.data[i]);
    printf("\"]\n");
    return 0;
}

static int print_needed(stk_bytes in, stk_bytes points, const out *o, stk_scratch *scratch,
                        stk_error *err)
{
    const stk_media_ask ask = { .frame = o->frame, .n_frames = o->n };
    const stk_media_points p = { .head = points };
    static stk_bytes packet[CLIP];
    static uint8_t need[CLIP];
    uint32_t n = 0;
    stk_video_head h;
    stk_bytes setup;
    stk_clip clip;
    stk_h264 sets;

    STK_TRY(stk_video_points_open(&h, &p, err));
    STK_TRY(stk_video_points_setup(&h, &setup, err));
    STK_TRY(stk_clip_plan(&h, &ask, 0, scratch, &clip, err));
    for (uint32_t i = 0; i < clip.n && i < CLIP; i++) {
        packet[i] = (stk_bytes){ in.data + clip.packet[i].at, clip.packet[i].size };
        need[i] = clip.packet[i].want != STK_NOT_WANTED;
    }
    if (stk_h264_sets(&sets, setup) ||
        stk_h264_needed(&sets, packet, clip.n < CLIP ? clip.n : CLIP, need, scratch)) {
        printf("null\n");
        return 0;
    }
    for (uint32_t i = 0; i < clip.n; i++)
        n += need[i];
    printf("[%u, %u]\n", n, clip.n);
    return 0;
}

static void print_count(stk_sessions *pool)
{
    stk_sessions_stats s;

    stk_sessions_count(pool, &s);
    printf("[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %u]\n", s.windows, s.continued,
           s.packets, s.frames, s.n);
}

/* 1: the line was one of sessions. */
static int run_window(stk_sessions *pool, stk_bytes *in, stk_bytes points, const char *mode, out *o)
{
    stk_error err = { 0 };
    int rc;

    if (!strcmp(mode, "count")) {
        print_count(pool);
        return 1;
    }
    if (strncmp(mode, "window:", 7) != 0)
        return 0;
    rc = decode_window(pool, in, points, mode, o, &err);
    if (rc == STK_END)
        printf("\"alone\"\n");
    else
        print_clip(o, rc, &err);
    return 1;
}

static void run_clips(const stk_decoder *d, void *ctx, stk_bytes in, stk_bytes points)
{
    stk_sessions *pool = NULL;
    stk_account account;
    static out o;
    static uint64_t frame[CLIP];
    static char line[1 << 16];

    stk_account_init(&account, 1u << 30);
    if (stk_sessions_open(&pool, &account, 1u << 29, 4, NULL) < 0)
        exit(2);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line, *mode = strtok_r(rest, " \n", &rest), *word;
        stk_scratch scratch = { 0 };
        slices s = { points, NULL, &o };
        stk_media_points p = { .head = { 0 } };
        stk_error err = { 0 };
        int rc;

        memset(&o, 0, sizeof o);
        o.frame = frame;
        stk_crc32_init(&o.table);
        while ((word = strtok_r(NULL, " \n", &rest)) && o.n < CLIP)
            frame[o.n++] = strtoull(word, NULL, 10);
        if (run_window(pool, &in, points, mode, &o))
            continue;
        if (!strcmp(mode, "points"))
            p.head = points;
        if (!strcmp(mode, "parts"))
            p = (stk_media_points){ { points.data, 1 }, slice, &s };
        if (!strcmp(mode, "needed")) {
            if (print_needed(in, points, &o, &scratch, &err) < 0)
                printf("\"%s\"\n", err.message);
        } else if (strcmp(mode, "stream") != 0) {
            rc = decode(d, ctx, in, &p, mode, &o, &scratch, &err);
            print_clip(&o, rc, &err);
        } else if (print_stream(in, points, &o, &scratch, &err) < 0) {
            printf("\"%s\"\n", err.message);
        }
        free(s.copy);
        stk_scratch_fini(&scratch);
    }
    stk_sessions_close(&pool);
    if (atomic_load(&account.used))
        exit(3); /* all that was charged is given back */
    stk_account_fini(&account);
}

static int print_table(stk_bytes points, stk_error *err)
{
    const stk_media_points p = { .head = points };
    stk_scratch scratch = { 0 };
    stk_video_head h;
    stk_video_unit u;
    int rc = stk_video_points_open(&h, &p, err);

    if (rc < 0)
        return rc;
    printf("{\"codec\": \"%s\", \"width\": %u, \"height\": %u, \"turn\": %u, \"frames\": %u, "
           "\"shown\": %u, \"units\": %u, \"bytes\": %u, \"setup\": %u, \"keys\": %u, "
           "\"longest\": %u, \"first_us\": %" PRId64 ", \"end_us\": %" PRId64 "}\n",
           stk_video_codec_name(h.codec), h.width, h.height, h.turn, h.n, h.shown, h.units, h.bytes,
           h.setup_len, h.keys, h.longest, stk_video_us(&h, h.first), stk_video_us(&h, h.end));
    for (uint32_t i = 0; rc == 0 && i < h.units; i++) {
        stk_scratch_reset(&scratch);
        rc = stk_video_unit_read(&h, i, &scratch, &u, err);
        for (uint32_t k = 0; rc == 0 && k < u.shown; k++) {
            const stk_video_frame *f = &u.frame[u.shows[k]];

            printf("%" PRId64 " %u %" PRIu64 " %u\n", stk_video_us(&h, f->time),
                   f->flags & STK_FRAME_KEY, f->at, f->size);
        }
    }
    printf("end\n");
    stk_scratch_fini(&scratch);
    return rc;
}

static int dump(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    stk_scratch scratch = { 0 };
    const stk_decoder *d;
    stk_media_reader read;
    stk_bytes in, points;
    stk_error err = { 0 };
    void *ctx = NULL;
    uint8_t *data;
    int rc;

    if (!f)
        return 2;
    fseek(f, 0, SEEK_END);
    in.len = (size_t)ftell(f);
    rewind(f);
    data = in.len < LARGE ? malloc(in.len + !in.len)
                          : mmap(NULL, in.len, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    if (in.len < LARGE)
        in.len = fread(data, 1, in.len, f);
    in.data = data;
    fclose(f);
    d = stk_mp4_probe(in) ? &stk_decoder_mp4 : &stk_decoder_matroska;
    read = stk_media_here(&in);
    rc = d->open(&ctx, &err);
    if (rc == 0)
        rc = d->points(ctx, &read, &scratch, &points, &err);
    if (rc == 0)
        rc = print_table(points, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    else
        run_clips(d, ctx, in, points);
    d->close(ctx);
    stk_scratch_fini(&scratch);
    if (in.len < LARGE)
        free(data);
    return rc < 0;
}

static int print_uniform(uint32_t lengths, uint32_t frames)
{
    static uint64_t frame[CLIP];

    for (uint32_t n = 1; n <= frames && n <= CLIP; n++)
        for (int start = STK_START_UNIFORM; start <= STK_START_UNIFORM_EVEN; start++)
            for (uint32_t shown = 1; shown <= lengths; shown++) {
                const stk_clip_how how = { .frames = n, .start = (stk_clip_start)start };
                const stk_video_head h = { .shown = shown };
                stk_clip_draw draw = { .at = NULL };

                if (stk_clip_pick(&how, &h, &draw, NULL, frame, NULL) < 0)
                    return 1;
                for (uint32_t i = 0; i < n; i++)
                    fwrite(&(uint16_t){ (uint16_t)frame[i] }, 2, 1, stdout);
            }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--uniform"))
        return print_uniform((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    return dump(argc, argv);
}
