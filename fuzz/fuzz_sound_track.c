/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sound_track - any bytes as a file with a sound track: packets inside the file, or a clean
 * error; memory in proportion to the bytes. */
#include "video.h"
#include "video/sound_track.h"

static void check(int (*read)(stk_video_track *t, const stk_media_reader *r, stk_error *err),
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
        FUZZ_CHECK(t.n && t.sound.coding != STK_CODING_OTHER && t.setup_len <= size + 300);
        for (uint32_t i = 0; i < t.n; i++)
            FUZZ_CHECK(t.frame[i].at <= size && t.frame[i].size <= size - t.frame[i].at);
    }
    stk_video_track_fini(&t);
    free(f.copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { data, size };

    (void)stk_adts_probe(in);
    check(stk_mp4_read_sound, data, size);
    check(stk_matroska_read_sound, data, size);
    check(stk_adts_read, data, size);
    return 0;
}
