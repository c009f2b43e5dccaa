/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_packet - any bytes as a codec's setup and a packet: whether nothing refers to its frame, and
 * whether decoding can begin there.  The packet is looked at again cut short.  The first byte is
 * the codec, the next two how much of the rest is the setup. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "video/vdec.h"

static stk_bytes copy_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + !size); /* so that a sanitizer sees reads outside */

    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    return (stk_bytes){ copy, size };
}

static void drop(stk_bytes b)
{
    free((void *)(uintptr_t)b.data);
}

static void look(stk_video_codec codec, stk_bytes setup, const uint8_t *data, size_t size)
{
    stk_bytes packet = copy_of(data, size);
    int start = stk_packet_is_start(codec, setup, packet);

    FUZZ_CHECK(start == 0 || start == 1 || (start == STK_START_OPEN && codec == STK_VIDEO_H264));
    if (size) {
        int spare = stk_packet_is_spare(codec, setup, packet);

        FUZZ_CHECK(spare == 0 || spare == 1);
        FUZZ_CHECK(!spare || codec == STK_VIDEO_H264 || codec == STK_VIDEO_HEVC ||
                   codec == STK_VIDEO_MPEG4);
    }
    drop(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_video_codec codec;
    stk_bytes setup;
    size_t head;

    if (size < 3)
        return 0;
    codec = (stk_video_codec)(data[0] % STK_VIDEO_CODECS);
    head = data[1] | (size_t)data[2] << 8;
    data += 3, size -= 3;
    head = head < size ? head : size;
    setup = copy_of(data, head);
    data += head, size -= head;
    look(codec, setup, data, size);
    look(codec, setup, data, size / 2);
    drop(setup);
    return 0;
}
