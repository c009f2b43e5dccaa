/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h - feeds any bytes to a decoder of sound, and checks that it gives samples or a clean
 * error, in bounded memory and time.  The fuzz targets of sound include it.
 *
 * Two parts, drawn from a hash of the bytes, are decoded by one context; where both succeed, the
 * samples that they share are the same, and so is what the points of the field lead to. */
#ifndef STOKER_FUZZ_SOUND_H
#define STOKER_FUZZ_SOUND_H

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "fuzz.h"

#define MAX_SAMPLES ((uint64_t)1 << 16)

typedef struct heard { /* channel 0 of a part */
    uint64_t from, to, next;
    float *data;
} heard;

static int hear(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                stk_error *err)
{
    heard *h = cookie;

    (void)err;
    FUZZ_CHECK(first == h->next && n <= h->to - first);
    memcpy(h->data + (first - h->from), channel[0], n * sizeof(float));
    h->next += n;
    return 0;
}

static void check_sound_error(int rc, const stk_error *err)
{
    FUZZ_CHECK(rc < 0 && err->code == rc && err->message[0] && !strchr(err->message, '\n'));
    FUZZ_CHECK(rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == STK_ELIMIT || rc == STK_ESTALE);
}

static int decode_span(const stk_decoder *d, void *ctx, stk_media_job *job, heard *h)
{
    const stk_media_ask ask = { .from = h->from, .to = h->to };
    const stk_media_sink sink = { .cookie = h, .sound = hear };
    stk_error err = { 0 };
    int rc;

    h->next = h->from;
    job->ask = &ask;
    job->sink = &sink;
    rc = d->decode(ctx, job, &err);
    if (rc < 0)
        check_sound_error(rc, &err);
    else
        FUZZ_CHECK(h->next == h->to);
    return rc;
}

/* The same span by the ranges that its points name. */
static void check_points(const stk_decoder *d, void *ctx, stk_bytes in, const heard *was)
{
    const stk_media_reader read = stk_media_here(&in);
    const stk_media_ask ask = { .from = was->from, .to = was->to };
    stk_media_range range[STK_MEDIA_RANGES];
    stk_media_part part[STK_MEDIA_RANGES];
    stk_media_points points = { 0 };
    stk_scratch kept = { 0 };
    heard now = *was;
    uint32_t n = 0;

    now.data = malloc((size_t)(was->to - was->from + 1) * sizeof(float));
    if (d->points(ctx, &read, &kept, &points.head, NULL) == 0 &&
        d->ranges(&points, &ask, UINT64_MAX, range, &n, NULL) == 0 && n) {
        stk_media_job job = { .points = &points, .part = part, .n_parts = n, .scratch = &kept };

        FUZZ_CHECK(n <= STK_MEDIA_RANGES);
        for (uint32_t i = 0; i < n; i++) {
            FUZZ_CHECK(range[i].offset <= in.len && range[i].len <= in.len - range[i].offset);
            part[i] = (stk_media_part){ range[i].offset,
                                        { in.data + range[i].offset, (size_t)range[i].len } };
        }
        if (decode_span(d, ctx, &job, &now) == 0)
            FUZZ_CHECK(!memcmp(now.data, was->data, (size_t)(was->to - was->from) * sizeof(float)));
    }
    free(now.data);
    stk_scratch_fini(&kept);
}

typedef struct lent { /* a field of which each read has memory of its own */
    stk_bytes in;
    uint8_t *copy;
} lent;

static int exact_read(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    lent *x = cookie;

    (void)err;
    FUZZ_CHECK(at <= x->in.len && len <= x->in.len - at);
    free(x->copy);
    x->copy = malloc(len + !len);
    memcpy(x->copy, x->in.data + at, len);
    *out = (stk_bytes){ x->copy, len };
    return 0;
}

/* Its length by few bytes: a recording that can be, or none. */
static void check_measure(const stk_decoder *d, void *ctx, stk_bytes in)
{
    lent x = { .in = in };
    const stk_media_reader read = { &x, in.len, exact_read };
    stk_media_info info = { 0 };
    stk_error err = { 0 };
    int rc = d->measure ? d->measure(ctx, &read, &info, &err) : STK_END;

    if (rc < 0 && rc != STK_END)
        check_sound_error(rc, &err);
    if (rc == 0)
        FUZZ_CHECK(info.medium == STK_SOUND && info.rate && info.channels);
    free(x.copy);
}

static heard draw_span(stk_rng *rng, uint64_t units)
{
    uint32_t n = (uint32_t)(units < MAX_SAMPLES ? units : MAX_SAMPLES);
    heard h = { .from = stk_rng_below(rng, n) };

    h.to = h.from + 1 + stk_rng_below(rng, n - (uint32_t)h.from);
    h.data = malloc((size_t)(h.to - h.from) * sizeof(float));
    return h;
}

/* exact: parts are slices of the whole. */
static inline int fuzz_sound(const stk_decoder *d, const uint8_t *data, size_t size, int exact)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    const stk_media_points none = { 0 };
    stk_media_part all = { 0, in };
    stk_scratch scratch = { 0 };
    stk_media_job job = { .points = &none, .part = &all, .n_parts = 1, .scratch = &scratch };
    stk_media_info info = { 0 };
    stk_error err = { 0 };
    void *ctx;
    int rc;

    FUZZ_CHECK(d->open(&ctx, &err) == 0);
    (void)d->probe(in);
    check_measure(d, ctx, in);
    rc = d->header(ctx, in, &none, &info, &err);
    if (rc < 0)
        check_sound_error(rc, &err);
    if (rc == 0 && info.units) {
        stk_rng rng;
        heard a, b;
        int good;

        stk_rng_init(&rng, stk_hash64(0, in.data, in.len), 0, 0, 0, 0);
        a = draw_span(&rng, info.units);
        b = draw_span(&rng, info.units);
        good = decode_span(d, ctx, &job, &a) == 0;
        good &= decode_span(d, ctx, &job, &b) == 0;
        for (uint64_t i = a.from > b.from ? a.from : b.from; good && exact && i < a.to && i < b.to;
             i++)
            FUZZ_CHECK(!memcmp(&a.data[i - a.from], &b.data[i - b.from], sizeof(float)));
        if (good)
            check_points(d, ctx, in, &b);
        free(a.data);
        free(b.data);
    }
    d->close(ctx);
    stk_scratch_fini(&scratch);
    return 0;
}

#endif
