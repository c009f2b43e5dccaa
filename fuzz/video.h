/* SPDX-License-Identifier: Apache-2.0 */
/* video.h - reads any bytes as a container of videos, and checks that it gives a table of frames
 * that equals its points, or a clean error, in memory in proportion to the bytes. */
#ifndef STOKER_FUZZ_VIDEO_H
#define STOKER_FUZZ_VIDEO_H

#include <string.h>

#include "base/mem.h"
#include "codec/codec.h"
#include "fuzz.h"
#include "video/clip.h"

typedef struct fuzz_field { /* each read is a block of its own: ASan sees reads after it */
    const uint8_t *data;
    size_t size;
    uint8_t *copy;
} fuzz_field;

static int fuzz_read(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    fuzz_field *f = cookie;

    free(f->copy);
    f->copy = NULL;
    if (at > f->size || len > f->size - at)
        return stk_fail(err, STK_ECORRUPT, "the field ends before");
    f->copy = malloc(len + !len);
    FUZZ_CHECK(f->copy);
    if (len)
        memcpy(f->copy, f->data + at, len);
    *out = (stk_bytes){ f->copy, len };
    return 0;
}

static void fuzz_clip(const stk_media_points *p, const stk_video_head *h, uint64_t first)
{
    uint64_t frame[3] = { first % h->shown };
    stk_media_ask ask = { .frame = frame, .n_frames = 1 };
    stk_media_range range[STK_MEDIA_RANGES];
    stk_scratch s = { 0 };
    uint32_t n, show;
    int64_t exact;
    stk_clip c;

    while (ask.n_frames < 3 && frame[ask.n_frames - 1] + 5 < h->shown) {
        frame[ask.n_frames] = frame[ask.n_frames - 1] + 5;
        ask.n_frames++;
    }
    if (stk_clip_plan(h, &ask, (uint32_t)first & 1, &s, &c, NULL) == 0 &&
        stk_clip_ranges(&c, h, range, &n, NULL) == 0)
        FUZZ_CHECK(n <= STK_MEDIA_RANGES);
    stk_scratch_reset(&s);
    (void)stk_video_show_at(h, (int64_t)(first * 777), &s, &show, &exact, NULL);
    stk_scratch_fini(&s);
}

/* The units of the points have the frames of the table. */
static void fuzz_compare(const stk_video_track *t, const stk_media_points *p)
{
    stk_scratch s = { 0 };
    stk_video_head h;
    stk_video_unit u;

    FUZZ_CHECK(stk_video_points_open(&h, p, NULL) == 0 && h.n == t->n && h.shown == t->shown);
    for (uint32_t i = 0; i < h.units; i++) {
        stk_scratch_reset(&s);
        FUZZ_CHECK(stk_video_unit_read(&h, i, &s, &u, NULL) == 0);
        for (uint32_t k = 0; k < u.n; k++)
            FUZZ_CHECK(u.frame[k].at == t->frame[u.decode + k].at &&
                       u.frame[k].time == t->frame[u.decode + k].time &&
                       u.frame[k].size == t->frame[u.decode + k].size);
        for (uint32_t k = 0; k < u.shown; k++)
            FUZZ_CHECK(u.decode + u.shows[k] == t->show[u.show + k]);
    }
    stk_scratch_fini(&s);
    for (uint64_t i = 0; i < 4; i++)
        fuzz_clip(p, &h, i * 37);
}

static inline int fuzz_container(int (*read)(stk_video_track *t, const stk_media_reader *r,
                                             stk_error *err),
                                 const uint8_t *data, size_t size)
{
    fuzz_field f = { data, size, NULL };
    const stk_media_reader reader = { &f, size, fuzz_read };
    stk_video_track t = { 0 };
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    rc = read(&t, &reader, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(t.cap <= 64 || t.cap <= 2 * size);
    if (rc == 0) {
        size_t len = stk_video_points_pack(&t, 'V', NULL);
        uint8_t *points = malloc(len + !len);

        FUZZ_CHECK(points && len && stk_video_points_pack(&t, 'V', points) == len);
        fuzz_compare(&t, &(stk_media_points){ .head = { points, len } });
        free(points);
    }
    stk_video_track_fini(&t);
    free(f.copy);
    return 0;
}

#endif
