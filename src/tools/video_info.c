/* SPDX-License-Identifier: Apache-2.0 */
/* video_info.c - what the tables of one video file say: its size, frames and keyframes.  Of a file
 * on a store these tables alone are read, in few requests.  A recording is read whole; its frames
 * are samples. */
#include "tools/video_info.h"

#include <config.h>
#include <stdio.h>

#include "codec/sound_decoders.h"
#include "data/data.h"
#include "fetch/field_reader.h"
#include "source/read_steps.h"
#include "source/source.h"
#include "video/libav.h"
#include "video/video.h"

#define HEAD 4096u

typedef struct reading {
    stk_file *file;
    stk_read_steps steps;
} reading;

static int fill(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    const reading *r = cookie;

    return stk_file_read(r->file, at, dst, len, err);
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

int stk_video_tell(stk_decoders *d, stk_scratch *scratch, const stk_media_reader *read,
                   const stk_bytes *head, stk_video_info *out, stk_error *err)
{
    stk_media_points points = { 0 };
    const stk_decoder *decoder;
    stk_video_head h;
    stk_bytes first;
    void *ctx;
    int rc;

    if (head)
        first = *head;
    else
        STK_TRY(read->read(read->cookie, 0, read->size < HEAD ? (size_t)read->size : HEAD, &first,
                           err));
    rc = stk_decoders_find(d, first, &decoder, &ctx, err);
    if (rc || !stk_video_is(decoder))
        return rc < 0 ? rc : STK_END;
    stk_scratch_reset(scratch);
    STK_TRY(decoder->points(ctx, read, scratch, &points.head, err));
    STK_TRY(stk_video_points_open(&h, &points, err));
    tell(&h, out);
    return 0;
}

static int sound_info_of(stk_decoders *d, const stk_media_reader *read, stk_video_info *out,
                         stk_error *err)
{
    const stk_media_points none = { 0 };
    const stk_decoder *decoder;
    stk_media_info info = { 0 };
    stk_bytes all;
    void *ctx;
    int rc;

    STK_TRY(read->read(read->cookie, 0, (size_t)read->size, &all, err));
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
    const stk_media_reader read = { &r->steps, size, stk_read_steps_read };
    stk_scratch scratch = { 0 };
    int rc;

    stk_read_steps_begin(&r->steps, size);
    r->steps.exact = !(r->file->source->can & STK_SOURCE_REMOTE);
    rc = stk_video_tell(d, &scratch, &read, NULL, out, err);
    stk_scratch_fini(&scratch);
    if (rc == STK_END)
        return sound_info_of(d, &read, out, err);
    if (rc == STK_ECORRUPT && sound_info_of(d, &read, out, NULL) == 0)
        return 0; /* sound alone */
    return rc;
}

int stk_video_info_read(const char *url, const stk_store *store, stk_video_info *out,
                        stk_error *err)
{
    reading r = { .steps = { .fill = fill, .cookie = &r } };
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
    stk_read_steps_fini(&r.steps);
    return rc;
}

void stk_video_libraries(char *out, size_t size)
{
    char av[500];

    stk_libav_tell(av, sizeof av);
#if STK_HAVE_DAV1D
    snprintf(out, size, "%s; dav1d %s (AV1)", av, STK_BUILD_DAV1D);
#else
    snprintf(out, size,
             "%s; dav1d none (AV1 by libavcodec; Debian: libdav1d-dev when Stoker is built)", av);
#endif
}

/* 1: the points that the index keeps say it. */
static int by_hint(stk_dataset *ds, stk_decoders *d, const stk_seek_field *at, stk_video_info *out)
{
    stk_seek_room room = { 0 };
    stk_media_points points = { 0 };
    const stk_decoder *decoder;
    stk_video_head h;
    void *ctx;
    int is = 0;

    if (ds->can & STK_DATA_HINTS)
        points.head = ds->ops->hint(ds, at, &room);
    if (points.head.len && !stk_decoders_of_points(d, points.head, &decoder, &ctx, NULL) &&
        stk_video_is(decoder) && !stk_video_points_open(&h, &points, NULL)) {
        tell(&h, out);
        is = 1;
    }
    stk_seek_room_fini(&room);
    return is;
}

static int by_tables(stk_dataset *ds, stk_decoders *d, const stk_entry *e, uint32_t field,
                     stk_video_info *out, stk_error *err)
{
    stk_field_reader *reader = NULL;
    stk_scratch scratch = { 0 };
    stk_media_reader read;
    int rc = stk_field_reader_open(&reader, ds, err);

    if (rc == 0)
        rc = stk_field_reader_take(reader, e, field, &read, err);
    if (rc == 0)
        rc = stk_video_tell(d, &scratch, &read, NULL, out, err);
    stk_scratch_fini(&scratch);
    stk_field_reader_close(&reader);
    return rc;
}

int stk_dataset_video_info(stk_dataset *ds, uint64_t id, uint32_t field, stk_video_info *out,
                           stk_error *err)
{
    stk_seek_field at = { .field = field };
    stk_decoders d = { 0 };
    stk_entry e;
    int rc;

    if (ds->can & STK_DATA_IMMEDIATE)
        return STK_END;
    STK_TRY(ds->ops->entry(ds, id, &e, err));
    if (field >= e.n_fields)
        return STK_END;
    at.shard = e.shard;
    at.row = e.row;
    rc = stk_decoders_init(&d, NULL, err);
    if (rc == 0 && !by_hint(ds, &d, &at, out))
        rc = by_tables(ds, &d, &e, field, out, err);
    stk_decoders_fini(&d);
    return rc;
}
