/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jpeg_seek - hostile seek points: refused, found out by the decoder, or harmless.
 *
 * Input: a count n (its low 5 bits), n edits (place u16, byte), and a JPEG, whose own points are
 * built and then edited; what does not decode is taken as packed points by itself.  Plain C and the
 * best CPU level agree on the outcome and the pixels. */
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/jpeg_base.h"
#include "fuzz.h"

#define MAX_PIXELS ((uint64_t)1 << 18)
#ifndef __has_feature
#define __has_feature(x) 0
#endif
/* MSan knows nothing of what vector code writes. */
#define BEST (__has_feature(memory_sanitizer) ? STK_CPU_NONE : stk_cpu_level())

static int decode(stk_cpu level, const stk_jpeg_job *job, const stk_rect *need, uint64_t *hash)
{
    stk_scratch s = { 0 };
    stk_jpeg *j = NULL;
    stk_pixels px;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(stk_jpeg_open(&j, level, NULL) == 0);
    rc = stk_jpeg_decode(j, job, &(stk_decode_request){ .need = *need }, &s, &px, &err);
    FUZZ_CHECK(rc == 0 || (rc == STK_ESTALE && err.code == rc && err.message[0]));
    *hash = 0;
    for (uint32_t y = 0; rc == 0 && y < need->h; y++)
        *hash = stk_hash64(*hash, px.data + y * px.stride, (size_t)need->w * 4);
    stk_jpeg_close(&j);
    stk_scratch_fini(&s);
    return rc;
}

/* The part that the points ask for, as a block of its own: pixels, or it is another's. */
static void use_part(stk_bytes packed, stk_bytes in, const stk_rect *r)
{
    const stk_media_points points = { .head = packed };
    stk_media_range range[STK_MEDIA_RANGES];
    stk_scratch s = { 0 };
    stk_media_part part;
    stk_pixels px;
    uint32_t n = 0;
    uint8_t *copy;
    void *ctx;
    int rc;

    if (stk_decoder_jpeg.ranges(&points, &(stk_media_ask){ .need = *r }, UINT64_MAX, range, &n,
                                NULL) < 0 ||
        !n || range->offset > in.len || range->len > in.len - range->offset)
        return;
    copy = malloc((size_t)range->len);
    FUZZ_CHECK(copy && stk_decoder_jpeg.open(&ctx, NULL) == 0);
    memcpy(copy, in.data + range->offset, (size_t)range->len);
    part = (stk_media_part){ range->offset, { copy, (size_t)range->len } };
    rc = stk_picture_pixels(&(stk_picture_source){ &stk_decoder_jpeg, ctx, packed, &part, 1 },
                            &(stk_decode_request){ .need = *r }, &s, &px, NULL);
    FUZZ_CHECK(rc == 0 || rc == STK_ESTALE);
    stk_decoder_jpeg.close(ctx);
    stk_scratch_fini(&s);
    free(copy);
}

/* As one would who wants them to be believed: else none of what follows is reached. */
static void sign(uint8_t *packed, size_t len)
{
    uint32_t crc = len < 4 ? 0 : stk_crc32c(0, packed, len - 4);

    for (size_t i = 0; i < 4 && len >= 4; i++, crc >>= 8)
        packed[len - 4 + i] = (uint8_t)crc;
}

static void use(stk_bytes packed, stk_bytes in)
{
    stk_jpeg_seek seek;
    stk_jpeg_head head;
    stk_jpeg_job job = { &head, in, &seek };
    uint64_t a, b;
    stk_error err;
    stk_rect r;
    stk_rng rng;
    int rc;

    memset(&err, 0, sizeof err);
    rc = stk_jpeg_seek_open(&seek, &head, packed, &err);
    FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && err.code == rc && err.message[0]));
    if (rc < 0 || (uint64_t)head.width * head.height > MAX_PIXELS)
        return;
    (void)stk_jpeg_seek_check(&seek, &head, in, &err);
    stk_rng_init(&rng, stk_hash64(0, packed.data, packed.len), 0, 0, 0, 0);
    r = (stk_rect){ stk_rng_below(&rng, head.width), stk_rng_below(&rng, head.height), 0, 0 };
    r.w = 1 + stk_rng_below(&rng, head.width - r.x);
    r.h = 1 + stk_rng_below(&rng, head.height - r.y);
    rc = decode(STK_CPU_NONE, &job, &r, &a);
    FUZZ_CHECK(decode(BEST, &job, &r, &b) == rc && a == b);
    use_part(packed, in, &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size ? data[0] & 31u : 0;
    stk_scratch s = { 0 };
    stk_jpeg *j = NULL;
    stk_jpeg_head head;
    stk_bytes in, packed;
    uint8_t *bad;

    if (size < 1 + 3 * n)
        return 0;
    in = (stk_bytes){ data + 1 + 3 * n, size - 1 - 3 * n };
    FUZZ_CHECK(stk_jpeg_open(&j, BEST, NULL) == 0);
    if (stk_jpeg_parse(&head, in, NULL) < 0 || (uint64_t)head.width * head.height > MAX_PIXELS ||
        stk_jpeg_seek_build(j, &head, in, &s, &packed, NULL) < 0) {
        use(in, in);
        bad = malloc(in.len + 1);
        FUZZ_CHECK(bad);
        memcpy(bad, in.data, in.len);
        sign(bad, in.len);
        use((stk_bytes){ bad, in.len }, in);
        free(bad);
    } else {
        bad = malloc(packed.len); /* a block of its own: ASan sees reads after it */
        FUZZ_CHECK(bad);
        memcpy(bad, packed.data, packed.len);
        for (const uint8_t *e = data + 1; e < in.data; e += 3)
            bad[(e[0] | (size_t)e[1] << 8) % packed.len] = e[2];
        sign(bad, packed.len);
        use((stk_bytes){ bad, packed.len }, in);
        free(bad);
    }
    stk_jpeg_close(&j);
    stk_scratch_fini(&s);
    return 0;
}
