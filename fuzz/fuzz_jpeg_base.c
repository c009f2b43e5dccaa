/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jpeg_base - any bytes for our JPEG decoder: a clean error, or libjpeg-turbo's pixels.
 *
 * Plain C and the best CPU level agree.  Under MSan, which knows nothing of what libjpeg-turbo
 * and vector code write, plain C is alone.  Where the whole picture decodes, seek points can be
 * built, and a region from them, drawn from a hash of the bytes, is the crop of the whole, in bands
 * too. */
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "fuzz.h"
#include "tests/codec/jpeg_testing.h"

#define MAX_PIXELS ((uint64_t)1 << 18)
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#define WITHOUT_ORACLE __has_feature(memory_sanitizer)
#define BEST (WITHOUT_ORACLE ? STK_CPU_NONE : stk_cpu_level()) /* nor of vector code's writes */

static int decode(stk_cpu level, const stk_jpeg_job *job, const stk_rect *need, stk_scratch *s,
                  stk_pixels *px)
{
    stk_jpeg *j = NULL;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(stk_jpeg_open(&j, level, NULL) == 0);
    rc = stk_jpeg_decode(j, job, &(stk_decode_request){ .need = *need }, s, px, &err);
    FUZZ_CHECK(rc == 0 || (err.code == rc && err.message[0] && !strchr(err.message, '\n')));
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT || (job->seek && rc == STK_ESTALE));
    FUZZ_CHECK(rc != 0 || !memcmp(&px->area, need, sizeof *need));
    stk_jpeg_close(&j);
    return rc;
}

static void same(const stk_pixels *px, const stk_pixels *whole)
{
    for (uint32_t y = 0; y < px->area.h; y++)
        FUZZ_CHECK(!memcmp(px->data + y * px->stride,
                           whole->data + (px->area.y + y) * whole->stride + (size_t)px->area.x * 4,
                           (size_t)px->area.w * 4));
}

typedef struct bands {
    const stk_pixels *whole;
    uint32_t next;
} bands;

static void take_band(void *cookie, const stk_pixels *band)
{
    bands *b = cookie;

    FUZZ_CHECK(band->area.y == b->next);
    same(band, b->whole);
    b->next += band->area.h;
}

static void in_bands(const stk_jpeg_job *job, const stk_pixels *whole, const stk_rect *need)
{
    bands b = { whole, need->y };
    stk_decode_request ask = { .need = *need, .band = take_band, .cookie = &b };
    stk_scratch s = { 0 };
    stk_jpeg *j = NULL;
    stk_pixels px;

    FUZZ_CHECK(stk_jpeg_open(&j, BEST, NULL) == 0);
    FUZZ_CHECK(stk_jpeg_decode(j, job, &ask, &s, &px, NULL) == 0);
    FUZZ_CHECK(!px.data && b.next == need->y + need->h);
    stk_jpeg_close(&j);
    stk_scratch_fini(&s);
}

static void from_points(const stk_jpeg_job *job, const stk_pixels *whole)
{
    stk_scratch kept = { 0 }, s = { 0 };
    stk_jpeg_job with = *job;
    stk_jpeg *j = NULL;
    stk_jpeg_seek seek;
    stk_jpeg_head head;
    stk_pixels px;
    stk_bytes packed;
    stk_rect r;
    stk_rng rng;

    stk_rng_init(&rng, stk_hash64(0, job->in.data, job->in.len), 0, 0, 0, 0);
    r = (stk_rect){ stk_rng_below(&rng, whole->area.w), stk_rng_below(&rng, whole->area.h), 0, 0 };
    r.w = 1 + stk_rng_below(&rng, whole->area.w - r.x);
    r.h = 1 + stk_rng_below(&rng, whole->area.h - r.y);
    FUZZ_CHECK(stk_jpeg_open(&j, BEST, NULL) == 0);
    FUZZ_CHECK(stk_jpeg_seek_build(j, job->head, job->in, &kept, &packed, NULL) == 0);
    FUZZ_CHECK(stk_jpeg_seek_open(&seek, &head, packed, NULL) == 0);
    FUZZ_CHECK(stk_jpeg_seek_check(&seek, &head, job->in, NULL) == 0);
    FUZZ_CHECK(decode(BEST, &with, &r, &s, &px) == 0);
    same(&px, whole);
    in_bands(job, whole, &r);
    with.head = &head;
    with.seek = &seek;
    for (int i = 0; i < 2; i++) {
        stk_scratch_reset(&s);
        FUZZ_CHECK(decode(i ? BEST : STK_CPU_NONE, &with, &r, &s, &px) == 0);
        same(&px, whole);
    }
    stk_jpeg_close(&j);
    stk_scratch_fini(&kept);
    stk_scratch_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    stk_jpeg_head head;
    stk_jpeg_job job = { .head = &head, .in = in };
    stk_scratch a = { 0 }, b = { 0 };
    stk_pixels pa, pb;
    stk_rect all;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    rc = stk_jpeg_parse(&head, in, &err);
    FUZZ_CHECK(rc == 0 || (err.code == rc && err.message[0]));
    if (rc < 0 || (uint64_t)head.width * head.height > MAX_PIXELS)
        return 0;
    all = (stk_rect){ 0, 0, head.width, head.height };
    rc = decode(STK_CPU_NONE, &job, &all, &a, &pa);
    FUZZ_CHECK(decode(BEST, &job, &all, &b, &pb) == rc);
    if (rc == 0 && WITHOUT_ORACLE) {
        same(&pb, &pa);
        from_points(&job, &pa);
    } else if (rc == 0) {
        long warnings;
        uint8_t *ref = jpeg_reference(in, &warnings);
        stk_pixels theirs = { .data = ref, .stride = (size_t)head.width * 4, .area = all };

        FUZZ_CHECK(ref);
        same(&pa, &theirs);
        same(&pb, &theirs);
        from_points(&job, &theirs);
        free(ref);
    }
    stk_scratch_fini(&a);
    stk_scratch_fini(&b);
    return 0;
}
