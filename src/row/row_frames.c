/* SPDX-License-Identifier: Apache-2.0 */
/* row_frames.c - a clip of numbered pictures: fields 000001.jpg, 000002.jpg, ... of one sample,
 * which are members of a tar or files of a folder.
 *
 * Frame k is the picture whose number is k more than the lowest one; a number that is not there is
 * an error if it is wanted.  Which frames a clip has is found as for a video: points are made of
 * how many there are.  Only wanted pictures are read: of a store as ranges before the row is made,
 * else one by one while it is made.  From then on they are frames like others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "codec/decoders.h"
#include "kern/turn.h"
#include "row/row_clip.h"
#include "video/clip.h"
#include "video/points_cache.h"

typedef stk_row_clip clip;

#define SPAN (1u << 20) /* from the lowest number to the highest */
#define NEAR 8192u      /* bytes between two pictures that are read with them */

typedef struct numbered {
    uint64_t number;
    uint32_t field;
} numbered;

struct stk_row_frames {
    numbered *at;     /* by number */
    uint32_t n, span; /* span: frames, with those that are missing */
    stk_bytes first;  /* of the first wanted frame */
};

int stk_row_frames_are(const stk_row *x)
{
    const stk_wanted *want = &x->req->want[x->output];
    uint64_t number;

    return want->number != UINT16_MAX && stk_row_chain(x)->clip &&
           stk_chain_numbered(stk_row_chain(x), want->field.name, want->field.name_len, &number);
}

/* ---- which fields ---- */

static int field_at(const stk_row *x, uint32_t k, stk_field *out, stk_error *err)
{
    return x->req->data->ops->field(x->req->data, &x->req->entry, k, out, err);
}

static int by_number(const void *one, const void *two)
{
    const numbered *a = one, *b = two;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->field < b->field ? -1 : a->field > b->field;
}

/* All numbered fields.  1.jpg and 01.jpg would be the same frame. */
static int list_fields(const stk_row *x, struct stk_row_frames *out, stk_error *err)
{
    size_t size = (x->req->entry.n_fields + 1) * sizeof *out->at;
    int sorted = 1;
    stk_field f;

    out->n = 0;
    out->at = stk_scratch_get(&x->m->scratch, size);
    if (!out->at)
        return stk_row_no_room(x, size, err);
    for (uint32_t k = 0; k < x->req->entry.n_fields; k++) {
        numbered *one = &out->at[out->n];

        STK_TRY(field_at(x, k, &f, err));
        if (!stk_chain_numbered(stk_row_chain(x), f.name, f.name_len, &one->number))
            continue;
        one->field = k;
        sorted &= !out->n || one[-1].number < one->number;
        out->n++;
    }
    if (!sorted)
        qsort(out->at, out->n, sizeof *out->at, by_number);
    for (uint32_t i = 1; i < out->n && !sorted; i++)
        if (out->at[i].number == out->at[i - 1].number)
            return stk_fail(err, STK_ECORRUPT,
                            "two of its pictures have the number %" PRIu64 ", as 1.jpg and 01.jpg",
                            out->at[i].number);
    if (!out->n || out->at[out->n - 1].number - out->at[0].number >= SPAN)
        return stk_fail(err, STK_ELIMIT, "numbers of its frames are further apart than %u", SPAN);
    out->span = (uint32_t)(out->at[out->n - 1].number - out->at[0].number) + 1;
    return 0;
}

/* As people know the file of a field: as the folder has it, or the member's own name. */
static stk_bytes file_of(const stk_row *x, const stk_field *f)
{
    stk_place place = { 0 };

    if (!(x->req->data->can & STK_DATA_RANGES) &&
        x->req->data->ops->locate(x->req->data, &x->req->entry, f, 0, &place, NULL) == 0 &&
        place.name.data)
        return place.name;
    return (stk_bytes){ (const uint8_t *)f->name, f->name_len };
}

/* What the missing file is called, if its neighbour is called so. */
static int missing(const stk_row *x, const struct stk_row_frames *l, uint64_t number,
                   stk_error *err)
{
    stk_bytes name;
    size_t dot, from;
    stk_field f;

    STK_TRY(field_at(x, l->at[0].field, &f, err));
    name = file_of(x, &f);
    for (dot = name.len; dot && name.data[dot - 1] != '.';)
        dot--;
    for (from = dot ? dot - 1 : 0;
         from && name.data[from - 1] >= '0' && name.data[from - 1] <= '9';)
        from--;
    return stk_fail(err, STK_ECORRUPT,
                    "frame %" PRIu64 " is missing: there is no %.*s%0*" PRIu64 ".%.*s among its %u "
                    "pictures, numbered %" PRIu64 " to %" PRIu64,
                    number - l->at[0].number, from > 100 ? 100 : (int)from, (const char *)name.data,
                    dot ? (int)(dot - 1 - from) : 0, number, (int)(name.len - dot),
                    (const char *)name.data + dot, l->n, l->at[0].number, l->at[l->n - 1].number);
}

/* The field of frame `show`, as it is counted from the first. */
static int find_frame(const stk_row *x, const struct stk_row_frames *l, uint64_t show,
                      stk_field *out, stk_error *err)
{
    const numbered want = { l->at[0].number + show, 0 };
    uint32_t low = 0, high = l->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (l->at[mid].number < want.number)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == l->n || l->at[low].number != want.number)
        return missing(x, l, want.number, err);
    return field_at(x, l->at[low].field, out, err);
}

/* ---- which frames ---- */

static int64_t time_of(const stk_clip_how *how, uint64_t show)
{
    return (int64_t)floor((double)show * 1e6 / (how->rate > 0 ? how->rate : 1) + 0.5);
}

/* Points of `span` frames that are all keyframes; their places mean nothing. */
static int make_points(stk_row *x, const stk_clip_how *how, uint32_t span, uint64_t key,
                       stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_video_track t = { 0 };
    uint8_t *dst = NULL;
    size_t len = 0;
    int rc;

    stk_video_track_begin(&t);
    t.codec = STK_VIDEO_MJPEG;
    t.width = t.height = 1;
    t.den = 1000000;
    t.field = span;
    t.last_len = time_of(how, 1);
    rc = stk_video_track_reserve(&t, span, err);
    for (uint32_t i = 0; rc == 0 && i < span; i++)
        rc = stk_video_track_add(&t, &(stk_video_frame){ i, time_of(how, i), 1, STK_FRAME_KEY },
                                 err);
    if (rc == 0)
        rc = stk_video_track_end(&t, err);
    if (rc == 0) {
        len = stk_video_points_pack(&t, 'F', NULL);
        dst = stk_scratch_get(&x->m->scratch, len);
        rc = dst ? 0 : stk_row_no_room(x, len, err);
    }
    if (rc == 0) {
        stk_video_points_pack(&t, 'F', dst);
        want->hint_shared = stk_points_cache_put(how->points, key, (stk_bytes){ dst, len });
        rc = want->hint_shared ? 0 : stk_fail_nomem(err, len);
    }
    stk_video_track_fini(&t);
    return rc;
}

static int has_no_times(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "numbered pictures have no times: say how many there are in a second, "
                    "video(rate=10, ...)");
}

static int pick(clip *c, struct stk_row_frames *l, stk_error *err)
{
    stk_wanted *want = &c->x->req->want[c->x->output];
    uint64_t key;

    if (!(c->how->rate > 0) && ((c->how->at[0] && !c->how->at_number) || c->how->fps > 0))
        return has_no_times(err);
    STK_TRY(list_fields(c->x, l, err));
    key = stk_hash64(l->span, &c->how->rate, sizeof c->how->rate);
    key += !key;
    stk_buffer_unref(want->hint_shared);
    want->hint_shared = stk_points_cache_get(c->how->points, key);
    if (!want->hint_shared)
        STK_TRY(make_points(c->x, c->how, l->span, key, err));
    c->points = (stk_media_points){ .head = { want->hint_shared->data, want->hint_shared->size } };
    c->untimed = !(c->how->rate > 0);
    return stk_row_clip_pick(c, &c->x->m->scratch, err);
}

/* ---- before it is read ---- */

/* The range of all of its pictures. */
static int widen(const stk_row *x, const struct stk_row_frames *l)
{
    stk_wanted *want = &x->req->want[x->output];
    uint64_t from = UINT64_MAX, to = 0;
    stk_field f;

    for (uint32_t i = 0; i < l->n; i++) {
        if (field_at(x, l->at[i].field, &f, NULL) < 0 || f.size > UINT64_MAX - f.offset)
            return 0;
        from = f.offset < from ? f.offset : from;
        to = f.offset + f.size > to ? f.offset + f.size : to;
    }
    want->place.offset = from;
    want->place.len = to - from;
    return 1;
}

/* Of those that are wanted. */
static int know_ranges(clip *c, const struct stk_row_frames *l, stk_ranged *g)
{
    const uint64_t base = c->x->req->want[c->x->output].place.offset;
    stk_media_range all[STK_MEDIA_RANGES + 1];
    uint64_t end = 0;
    stk_field f;

    for (uint32_t i = 0; i < c->n_wanted; i++) {
        uint64_t from, to;

        if (find_frame(c->x, l, c->wanted[i], &f, NULL) < 0 || !f.size)
            return 0;
        from = f.offset - base;
        to = from + f.size;
        if (i && from >= end && from - end <= NEAR)
            from = end;
        stk_clip_range_add(all, &g->n, from, to - from);
        end = to;
    }
    memcpy(g->range, all, g->n * sizeof *all);
    return 1;
}

static int is_remote(const stk_row *x)
{
    const stk_wanted *want = &x->req->want[x->output];

    return want->file && want->file->source->can & STK_SOURCE_REMOTE;
}

void stk_row_frames_know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_ranged *g = &x->req->ranged[x->output];
    struct stk_row_frames l = { 0 };
    clip c;

    want->hint = (stk_bytes){ 0 };
    want->learn = 0;
    if (!stk_request_has_range(x->req, x->output) || !want->place.len)
        return;
    if (!is_remote(x)) { /* make() reads frames by itself */
        g->range[0] = (stk_media_range){ 0, 1 };
        g->n = stk_row_clip_in_parts(x);
        return;
    }
    stk_row_clip_begin(&c, x);
    if (want->own || list_fields(x, &l, NULL) < 0 || !widen(x, &l) || !stk_row_clip_in_parts(x) ||
        !stk_row_clip_knows_time(x))
        return;
    if (pick(&c, &l, NULL) < 0 || stk_row_clip_note_span(&c, NULL) < 0 || !know_ranges(&c, &l, g) ||
        !stk_row_ranges_fit(g, want->place.len))
        g->n = 0;
}

/* ---- bytes ---- */

static int read_all(const stk_row *x, stk_file *f, const stk_place *place, stk_bytes *out,
                    stk_error *err)
{
    uint8_t *dst = place->len < SIZE_MAX / 4
                       ? stk_scratch_get(&x->m->scratch, (size_t)place->len + 64)
                       : NULL;

    if (!dst)
        return stk_row_no_room(x, (size_t)place->len, err);
    STK_TRY(stk_file_read(f, place->offset, dst, (size_t)place->len, err));
    x->req->ranged[x->output].later += place->len;
    *out = (stk_bytes){ dst, (size_t)place->len };
    return 0;
}

static int read_file(const stk_row *x, stk_place *place, stk_bytes *out, stk_error *err)
{
    const stk_request *r = x->req;
    stk_file *f = NULL;
    int rc = stk_named_open(&(stk_named){ r->data, r->entry.shard, NULL }, place, &f, err);

    if (rc == 0)
        rc = read_all(x, f, place, out, err);
    stk_file_close(&f);
    return rc;
}

/* Among what was read before. */
static int find_part(const stk_row *x, const stk_place *place, stk_bytes *out)
{
    const stk_wanted *want = &x->req->want[x->output];
    const stk_ranged *g = &x->req->ranged[x->output];
    const stk_media_part whole = { 0, want->bytes };
    uint64_t at = place->offset - want->place.offset;

    if (place->offset < want->place.offset)
        return 0;
    for (uint32_t i = 0; i < (g->n ? g->n : 1); i++) {
        const stk_media_part *p = g->n ? &g->part[i] : &whole;

        if (at >= p->offset && at - p->offset <= p->bytes.len &&
            place->len <= p->bytes.len - (at - p->offset)) {
            *out = (stk_bytes){ p->bytes.data + (at - p->offset), (size_t)place->len };
            return 1;
        }
    }
    return 0;
}

static int bytes_of(const stk_row *x, const stk_field *f, stk_bytes *out, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    stk_place place;

    STK_TRY(stk_row_place_of(x, f, &place, err));
    *out = place.here;
    if (place.here.data)
        return 0;
    if (place.name.data)
        return read_file(x, &place, out, err);
    if (!want->file || place.shared || place.unpacked)
        return stk_fail(err, STK_ENOTSUP,
                        "it is not stored as it is: pack the data again with stoker pack");
    if (is_remote(x) && find_part(x, &place, out))
        return 0;
    return read_all(x, want->file, &place, out, err);
}

/* ---- pixels ---- */

/* An error says which file it was. */
static int of_file(const stk_row *x, const stk_field *f, int rc, stk_error *err)
{
    char text[sizeof err->message];
    stk_bytes name;

    if (rc >= 0 || !err || rc == STK_ENOMEM || err->shard[0])
        return rc;
    memcpy(text, err->message, sizeof text);
    name = file_of(x, f);
    return stk_fail(err, rc, "%.*s: %.160s", name.len > 100 ? 100 : (int)name.len,
                    (const char *)name.data, text);
}

static int read_header(const stk_row *x, stk_bytes in, stk_picture_source *from,
                       stk_media_info *info, stk_error *err)
{
    int rc = stk_decoders_find(&x->m->decoders, in, &from->decoder, &from->ctx, err);

    if (rc == STK_END || (rc == 0 && stk_video_is(from->decoder)))
        return stk_fail(err, STK_ECORRUPT, "these %zu bytes are not a picture", in.len);
    if (rc == 0)
        rc = stk_picture_header(from, in, info, err);
    if (rc == 0 && info->medium != STK_PICTURE)
        rc = stk_fail(err, STK_ECORRUPT, "these %zu bytes are not a picture", in.len);
    return rc;
}

/* A picture as a frame: all of it where a GPU goes on with it, else what is seen. */
static int decode_one(clip *c, stk_bytes in, stk_planes *out, stk_error *err)
{
    stk_decode_request ask = { .need = { 0, 0, c->h.width, c->h.height } };
    stk_picture_source from = { 0 };
    stk_media_info info;
    stk_pixels px;

    STK_TRY(read_header(c->x, in, &from, &info, err));
    if (info.width != c->h.width || info.height != c->h.height ||
        (info.turn > 1 ? info.turn : 1) != c->h.turn)
        return stk_fail(err, STK_ECORRUPT,
                        "it is %ux%u in a clip of %ux%u: frames of a clip have one size and turn",
                        info.width, info.height, c->h.width, c->h.height);
    if (!c->x->plan->gpu.device)
        ask.need = stk_turn_rect(c->turn, c->filed, &c->need);
    *out = (stk_planes){ .kind = STK_PLANES_RGBX, .bits = 8, .area = ask.need };
    if (!ask.need.w || !ask.need.h)
        return 0;
    STK_TRY(stk_picture_whole(&from, in, &ask, &c->x->m->scratch, &px, err));
    out->data[0] = px.data;
    out->stride[0] = px.stride;
    out->area = px.area;
    return 0;
}

/* The first wanted frame says how large all are. */
static int open_first(clip *c, stk_error *err)
{
    struct stk_row_frames *l = c->frames;
    stk_picture_source from = { 0 };
    stk_media_info info;
    stk_field f;
    int rc;

    STK_TRY(find_frame(c->x, l, c->wanted[0], &f, err));
    rc = bytes_of(c->x, &f, &l->first, err);
    if (rc == 0)
        rc = read_header(c->x, l->first, &from, &info, err);
    if (rc < 0)
        return of_file(c->x, &f, rc, err);
    c->h.width = info.width;
    c->h.height = info.height;
    c->h.turn = info.turn > 1 ? info.turn : 1;
    return 0;
}

int stk_row_frames_open(clip *c, stk_error *err)
{
    stk_scratch *scratch = &c->x->m->scratch;

    stk_scratch_reset(scratch);
    stk_does_next(c->x->m, STK_STAGE_DECODE);
    c->frames = stk_scratch_get(scratch, sizeof *c->frames);
    if (!c->frames)
        return stk_row_no_room(c->x, sizeof *c->frames, err);
    STK_TRY(pick(c, c->frames, err));
    STK_TRY(open_first(c, err));
    c->job = (stk_media_job){ .points = &c->points, .ask = &c->ask, .scratch = scratch };
    return stk_row_clip_look(c, err);
}

int stk_row_frames_decode(clip *c, stk_row_clip_fn frame, stk_error *err)
{
    stk_scratch *scratch = &c->x->m->scratch;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < c->n_wanted; i++) {
        unsigned mark = stk_scratch_mark(scratch);
        stk_bytes in = c->frames->first;
        stk_planes p;
        stk_field f;

        rc = find_frame(c->x, c->frames, c->wanted[i], &f, err);
        if (rc < 0)
            return rc;
        if (i)
            rc = bytes_of(c->x, &f, &in, err);
        if (rc == 0)
            rc = decode_one(c, in, &p, err);
        rc = of_file(c->x, &f, rc, err);
        if (rc == 0)
            rc = frame(c, i, time_of(c->how, c->wanted[i]), &p, err);
        stk_scratch_rewind(scratch, mark);
    }
    return rc;
}
