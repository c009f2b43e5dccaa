/* SPDX-License-Identifier: Apache-2.0 */
/* video_info.c - what the tables of one video file say: its size, frames and keyframes.  Of a file
 * on a store these tables alone are read.  A recording is read whole; its frames are samples. */
#include <string.h>

#include <stoker/tools.h>

#include "base/mem.h"
#include "codec/sound_decoders.h"
#include "data/data.h"
#include "source/source.h"
#include "video/video.h"

#define HEAD 4096u

typedef struct reading {
    stk_file *file;
    uint8_t *bytes;
    size_t cap;
} reading;

static int read_range(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    reading *r = cookie;

    if (len > r->cap) {
        stk_free(r->bytes);
        r->cap = 0;
        r->bytes = stk_alloc(len);
        if (!r->bytes)
            return stk_fail_nomem(err, len);
        r->cap = len;
    }
    *out = (stk_bytes){ r->bytes, len };
    return stk_file_read(r->file, at, r->bytes, len, err);
}

static void tell(const stk_video_head *h, stk_video_info *out)
{
    int64_t first = stk_video_us(h, h->first), len = stk_video_us(h, h->end) - first;

    *out = (stk_video_info){ .size = sizeof *out,
                             .width = h->turn > 4 ? h->height : h->width,
                             .height = h->turn > 4 ? h->width : h->height,
                             .frames = h->shown,
                             .keyframes = h->keys,
                             .longest_gop = h->longest,
                             .first_us = first,
                             .duration_us = len,
                             .codec = stk_video_codec_name(h->codec) };
}

static int sound_info_of(stk_decoders *d, reading *r, uint64_t size, stk_video_info *out,
                         stk_error *err)
{
    const stk_media_points none = { 0 };
    const stk_decoder *decoder;
    stk_media_info info = { 0 };
    stk_bytes all;
    void *ctx;
    int rc;

    STK_TRY(read_range(r, 0, (size_t)size, &all, err));
    rc = stk_decoders_find_sound(d, all, &decoder, &ctx, err);
    if (rc == 0)
        rc = decoder->header(ctx, all, &none, &info, err);
    if (rc < 0)
        return rc;
    if (rc == STK_END || info.medium != STK_SOUND)
        return stk_fail(err, STK_ECORRUPT,
                        "it is neither a video that is read (MP4, MOV, Matroska, WebM) nor sound");
    *out = (stk_video_info){ .size = sizeof *out,
                             .frames = info.units,
                             .duration_us = info.duration_us,
                             .codec = decoder->name };
    return 0;
}

static int info_of(stk_decoders *d, reading *r, uint64_t size, stk_video_info *out, stk_error *err)
{
    const stk_media_reader reader = { r, size, read_range };
    stk_media_points points = { 0 };
    stk_scratch scratch = { 0 };
    const stk_decoder *decoder;
    stk_video_head h;
    stk_bytes head;
    void *ctx;
    int rc;

    STK_TRY(read_range(r, 0, size < HEAD ? (size_t)size : HEAD, &head, err));
    rc = stk_decoders_find(d, head, &decoder, &ctx, err);
    if (rc < 0)
        return rc;
    if (rc == STK_END || !stk_video_is(decoder))
        return sound_info_of(d, r, size, out, err);
    rc = decoder->points(ctx, &reader, &scratch, &points.head, err);
    if (rc == 0)
        rc = stk_video_points_open(&h, &points, err);
    if (rc == 0)
        tell(&h, out);
    stk_scratch_fini(&scratch);
    if (rc == STK_ECORRUPT && sound_info_of(d, r, size, out, NULL) == 0)
        return 0; /* sound alone */
    return rc;
}

int stk_video_info_read(const char *url, const stk_store *store, stk_video_info *out,
                        stk_error *err)
{
    reading r = { 0 };
    stk_decoders d = { 0 };
    stk_file_info info;
    int rc = stk_decoders_init(&d, NULL, err);

    if (rc == 0)
        rc = stk_url_open(STK_URL(url, store), &r.file, err);
    if (rc == 0)
        rc = stk_file_stat(r.file, &info, err);
    if (rc == 0)
        rc = info_of(&d, &r, info.size, out, err);
    if (rc < 0)
        stk_error_at(err, url, err ? err->offset : STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_file_close(&r.file);
    stk_decoders_fini(&d);
    stk_free(r.bytes);
    return rc;
}
