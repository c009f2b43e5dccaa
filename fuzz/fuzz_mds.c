/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_mds - any bytes as index.json and a shard of MDS or LitData, with a line between them: all
 * columns of some samples, or a clean error. */
#include <string.h>

#include "format/mds.h"
#include "fuzz.h"

#define ROWS 64u

static void look(const stk_mds_index *x, stk_bytes shard, uint32_t samples)
{
    volatile unsigned all = 0;
    stk_error err;

    for (uint32_t i = 0; i < samples && i < ROWS; i++) {
        stk_mds_span at;

        if (stk_mds_place(shard, samples, shard.len, i, &at, &err) < 0)
            return;
        for (uint32_t c = 0; c < x->n_columns; c++) {
            stk_bytes v;

            if (stk_mds_value(x, (stk_bytes){ shard.data + at.at, (size_t)at.len }, c, &v, &err) ==
                0)
                for (size_t k = 0; k < v.len; k++)
                    all += v.data[k]; /* every byte is touched */
        }
    }
}

/* Tables of a chunk that is packed in frames: what they say is inside the file, and inside the
 * frame. */
static void look_frames(const stk_mds_index *x, stk_bytes file)
{
    const stk_mds_shard *s = &x->shard[0];
    uint64_t need = stk_litdata_head(s->samples, x->frame_rows), at, len;
    stk_bytes head = { file.data, need < file.len ? (size_t)need : file.len };
    stk_litdata_chunk c = { head, s->samples, x->frame_rows, file.len };
    stk_litdata_frame f;
    stk_error err;

    for (uint32_t i = 0; i < s->samples && i < ROWS; i++) {
        if (stk_litdata_frame_of(&c, i, &f, &err) < 0)
            return;
        FUZZ_CHECK(f.offset + f.len <= file.len && f.first <= i && i - f.first < f.n);
        if (stk_litdata_in_frame(head, &f, i, &at, &len, &err) == 0)
            FUZZ_CHECK(at + len <= f.unpacked);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    stk_mds_index x;
    stk_error err;

    if (stk_mds_index_read(&x, (stk_bytes){ data, n }, &err) < 0 &&
        stk_litdata_index_read(&x, (stk_bytes){ data, n }, &err) < 0)
        return 0;
    if (end && x.frame_rows)
        look_frames(&x, (stk_bytes){ end + 1, size - n - 1 });
    else if (end)
        look(&x, (stk_bytes){ end + 1, size - n - 1 }, x.shard[0].samples);
    stk_mds_index_fini(&x);
    return 0;
}
