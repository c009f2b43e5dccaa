/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frame_format - any bytes as a codec's setup and a packet: what they say of frames, and the
 * byte stream that they become, which is no longer than was said.  The first byte is the codec, the
 * next two how much of the rest is the setup. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "video/frame_format.h"

static uint8_t *copy_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + !size);

    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const stk_video_codec codecs[] = { STK_VIDEO_H264, STK_VIDEO_HEVC, STK_VIDEO_VP9,
                                              STK_VIDEO_VP8 };
    stk_frame_format f;
    stk_video_codec codec;
    stk_bytes setup, packet;
    size_t head, n, at = 0;
    uint8_t *to;

    if (size < 3)
        return 0;
    codec = codecs[data[0] % 4];
    head = data[1] | (size_t)data[2] << 8;
    data += 3, size -= 3;
    head = head < size ? head : size;
    setup = (stk_bytes){ copy_of(data, head), head };
    packet = (stk_bytes){ copy_of(data + head, size - head), size - head };
    if (stk_frame_format_read(&f, codec, setup, packet, NULL) == 0)
        FUZZ_CHECK(f.width && f.height && f.width <= STK_VIDEO_SIDE && f.height <= STK_VIDEO_SIDE);
    if (codec != STK_VIDEO_VP8) {
        to = malloc(stk_stream_room(setup));
        FUZZ_CHECK(to);
        n = stk_stream_setup(codec, setup, to);
        FUZZ_CHECK(n == SIZE_MAX || n <= stk_stream_room(setup));
        free(to);
        to = malloc(stk_stream_room(packet));
        FUZZ_CHECK(to);
        n = stk_stream_packet(codec, setup, packet, to);
        FUZZ_CHECK(n == SIZE_MAX || n <= stk_stream_room(packet));
        if (n != SIZE_MAX) {
            stk_bytes stream = { copy_of(to, n), n };
            size_t len = stk_stream_picture(codec, stream, &at);

            FUZZ_CHECK(!len || (at <= n && len <= n - at));
            free((void *)(uintptr_t)stream.data);
        }
        free(to);
    }
    free((void *)(uintptr_t)setup.data);
    free((void *)(uintptr_t)packet.data);
    return 0;
}
