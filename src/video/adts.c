/* SPDX-License-Identifier: Apache-2.0 */
/* adts.c - files of ADTS frames (.aac): each frame has a head that says how long it is, and that
 * the decoder reads too.  What is not a frame ends the file; so it must be its last bytes. */
#include <string.h>

#include "video/sound_track.h"

#define HEAD 7u
#define TRAILER 4096u /* bytes after the last frame: tags */
#define PIECE 65536u  /* bytes that are read at a time */

/* The length of the frame that begins here; 0: none does. */
static uint32_t length_of(const uint8_t *p)
{
    uint32_t len = (p[3] & 3u) << 11 | (uint32_t)p[4] << 3 | p[5] >> 5;

    if (p[0] != 0xff || (p[1] & 0xf6) != 0xf0 || (p[2] >> 2 & 15) > 12)
        return 0;
    return len >= HEAD ? len : 0;
}

int stk_adts_probe(stk_bytes head)
{
    uint32_t len = head.len >= HEAD ? length_of(head.data) : 0;

    if (!len)
        return 0;
    if (head.len < len + HEAD)
        return 1;
    return length_of(head.data + len) && ((head.data[len + 2] ^ head.data[2]) & 0xfc) == 0;
}

int stk_adts_read(stk_video_track *t, const stk_media_reader *read, stk_error *err)
{
    uint64_t at = 0, from = 0; /* of `some` */
    stk_bytes some = { 0 };

    stk_video_track_begin(t);
    t->field = read->size;
    t->sound = (stk_track_sound){ .wanted = 1, .coding = STK_CODING_AAC };
    t->tracks = t->number = 1;
    while (read->size - at >= HEAD) {
        stk_video_frame f = { .at = at, .flags = STK_FRAME_KEY };
        uint64_t left = read->size - at;

        if (at < from || at - from + HEAD > some.len) {
            STK_TRY(read->read(read->cookie, at, left < PIECE ? (size_t)left : PIECE, &some, err));
            from = at;
        }
        f.size = length_of(some.data + (at - from));
        if (!f.size)
            break;
        if (f.size > read->size - at)
            return stk_fail(err, STK_ECORRUPT,
                            "the file is truncated: the ADTS frame at byte %" PRIu64 " has %u "
                            "bytes, and %" PRIu64 " are left",
                            at, f.size, read->size - at);
        STK_TRY(stk_video_track_add(t, &f, err));
        at += f.size;
    }
    if (read->size - at > TRAILER)
        return stk_fail(err, STK_ECORRUPT, "no ADTS frame begins at byte %" PRIu64, at);
    return stk_sound_track_end(t, err);
}
