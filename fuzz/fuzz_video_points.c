/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_video_points - any bytes as points of a video: refused, or clips of some table.  The first
 * two bytes say how much of them is the head; the rest comes in slices. */
#include "video.h"
#include "video/packet_points.h"

static int slice(void *cookie, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err)
{
    return fuzz_read(cookie, at, len, out, err);
}

/* Those of the sound inside them. */
static void fuzz_sound_within(const stk_media_points *of)
{
    stk_sound_within w;
    stk_packet_points p;
    stk_packet_block b;
    stk_bytes setup;
    uint32_t at;

    if (!stk_video_points_sound(&w, of) || stk_packet_points_open(&p, &w.points, NULL) < 0)
        return;
    (void)stk_packet_points_setup(&p, &setup, NULL);
    for (uint32_t i = 0; i < p.n && i < 200; i += 37)
        if (stk_packet_points_block(&p, i, &b, NULL) == 0)
            FUZZ_CHECK(b.n && b.first <= i && i - b.first < b.n);
    if (stk_packet_points_at(&p, p.units / 2, &at, NULL) == 0)
        FUZZ_CHECK(at < p.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t head = size < 2 ? 0 : data[0] | (size_t)data[1] << 8;
    fuzz_field f = { data + 2, size < 2 ? 0 : size - 2, NULL };
    stk_media_points p = { .slice = slice, .cookie = &f };
    stk_scratch s = { 0 };
    stk_video_head h;
    stk_video_unit u;
    uint8_t *copy;

    if (size < 2)
        return 0;
    head = head < f.size ? head : f.size;
    copy = malloc(head + !head);
    FUZZ_CHECK(copy);
    memcpy(copy, f.data, head);
    p.head = (stk_bytes){ copy, head };
    if (stk_video_points_open(&h, &p, NULL) == 0) {
        for (uint32_t i = 0; i < h.units && i < 8; i++) {
            stk_scratch_reset(&s);
            (void)stk_video_unit_read(&h, i, &s, &u, NULL);
        }
        for (uint64_t i = 0; i < 4; i++)
            fuzz_clip(&p, &h, i * 37);
    }
    fuzz_sound_within(&p);
    stk_scratch_fini(&s);
    free(f.copy);
    free(copy);
    return 0;
}
