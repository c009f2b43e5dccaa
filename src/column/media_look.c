/* SPDX-License-Identifier: Apache-2.0 */
/* media_look.c - the size of the media fields of one sample, by as few of their bytes as say it.
 *
 * Points that the index keeps say it without reading.  Else the first 4 KiB of every field are read
 * together; a decoder that knows a picture reads its header there, and one that can measure() what
 * it says of sound.  Where that is not enough the field is read further, and whole at last; of a
 * large field with a decoder that makes points, the points are made instead.  No format has a name
 * here. */
#include "codec/exif.h"
#include "codec/sound_decoders.h"
#include "column/media_sizes.h"
#include "fetch/request.h"

#define HEAD 4096u
#define LONG_HEAD 65536u
#define LARGE ((uint64_t)1 << 20) /* a field that is not read whole if points can be made of it */

struct stk_media_look {
    stk_dataset *ds;
    stk_request *request;
    stk_decoders decoders;
    stk_scratch scratch;
    stk_seek_room hint_room;
    uint8_t *bytes;
    size_t cap;
};

typedef struct looking { /* at one sample */
    stk_media_look *l;
    stk_entry entry;
    stk_media_take_fn take;
    void *cookie;
} looking;

int stk_media_look_open(stk_media_look **out, stk_dataset *ds, stk_error *err)
{
    stk_media_look *l = STK_NEW(stk_media_look);
    int rc = l ? stk_decoders_init(&l->decoders, NULL, err) : stk_fail_nomem(err, sizeof *l);

    if (l)
        l->ds = ds;
    if (rc < 0)
        stk_media_look_close(&l);
    *out = l;
    return rc;
}

void stk_media_look_close(stk_media_look **lp)
{
    stk_media_look *l = *lp;

    *lp = NULL;
    if (!l)
        return;
    stk_dataset_request_done(l->ds, &l->request);
    stk_decoders_fini(&l->decoders);
    stk_scratch_fini(&l->scratch);
    stk_seek_room_fini(&l->hint_room);
    stk_free(l->bytes);
    stk_free(l);
}

static stk_media_rec record_of(const stk_media_info *i)
{
    return (stk_media_rec){ .units = i->units,
                            .duration_us = i->duration_us,
                            .width = i->width,
                            .height = i->height,
                            .rate = i->rate,
                            .channels = (uint16_t)(i->channels < 65535 ? i->channels : 65535),
                            .kind = (uint8_t)(i->medium + 1),
                            .turn = (uint8_t)(i->turn <= 8 ? i->turn : 0) };
}

/* ---- reading ---- */

static stk_bytes bytes_of(const stk_request *r, uint32_t i)
{
    return r->ranged[i].n ? r->ranged[i].part[0].bytes : r->want[i].bytes;
}

/* Fields want[0..n).number, from byte `at` on up to `most` bytes, where that is possible. */
static int read_some(const looking *k, uint32_t n, uint64_t at, uint64_t most, stk_error *err)
{
    stk_media_look *l = k->l;
    stk_request *r = l->request;

    r->entry = k->entry;
    STK_TRY(stk_request_locate(r, n, err));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = r->want[i].place.len;

        if ((!at && most >= len) || !stk_request_has_range(r, i))
            continue;
        r->ranged[i].n = 1;
        r->ranged[i].range[0] = (stk_media_range){ at,
                                                   len > at && len - at < most ? len - at : most };
    }
    STK_TRY(stk_request_plan_parts(r, err));
    if (r->reads.total > l->cap) {
        uint8_t *grown = stk_grow(l->bytes, 0, r->reads.total);

        if (!grown)
            return stk_fail_nomem(err, r->reads.total);
        l->bytes = grown;
        l->cap = r->reads.total;
    }
    return stk_request_wait(r, l->bytes, err);
}

typedef struct part_reader { /* one field, for points() */
    const looking *k;
    uint32_t number;
} part_reader;

static int read_part(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    const part_reader *p = cookie;
    stk_request *r = p->k->l->request;

    stk_request_end(r);
    r->want[0].number = p->number;
    STK_TRY(read_some(p->k, 1, at, len, err));
    *out = bytes_of(r, 0);
    return out->len == len ? 0 : stk_fail(err, STK_ECORRUPT, "the field ends before its bytes");
}

/* ---- one field ---- */

static int give(const looking *k, const char *name, const stk_media_info *info, stk_error *err)
{
    stk_media_rec rec = record_of(info);

    if (info->medium == STK_PICTURE && (!info->width || !info->height))
        return 0;
    return k->take(k->cookie, name, &rec, err);
}

/* 1: the points that the index keeps say it. */
static int by_hint(const looking *k, uint32_t number, stk_media_info *info)
{
    stk_media_look *l = k->l;
    stk_seek_field at = { k->entry.shard, k->entry.row, number };
    stk_media_points points = { 0 };
    const stk_decoder *d;
    void *ctx;

    if (!(l->ds->can & STK_DATA_HINTS))
        return 0;
    points.head = l->ds->ops->hint(l->ds, &at, &l->hint_room);
    return points.head.len &&
           stk_decoders_of_points(&l->decoders, points.head, &d, &ctx, NULL) == 0 &&
           d->know(&points, 0, info, NULL) == 0 && (info->turn || info->medium == STK_SOUND);
}

/* The bytes of a field's head, as a reader of the field. */
static int read_head(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    const stk_bytes *head = cookie;

    if (at > head->len || head->len - (size_t)at < len)
        return stk_fail(err, STK_EINVAL, "that is past the head");
    *out = (stk_bytes){ head->data + at, len };
    return 0;
}

typedef struct field_todo { /* a field whose first HEAD bytes were not enough */
    uint32_t number;
    const char *name;
    uint64_t size;
    const stk_decoder *d; /* NULL: none knows its head */
    void *ctx;
} field_todo;

/* 1: the decoder says it by the few bytes that it asks for.  d: NULL, or without measure(): 0. */
static int by_measure(const stk_decoder *d, void *ctx, const stk_media_reader *reader,
                      stk_media_info *info)
{
    return d && d->measure && d->measure(ctx, reader, info, NULL) == 0;
}

/* The same, of the bytes of its head that are there; f->d and f->ctx are set.  STK_PENDING: they do
 * not say it. */
static int by_head(const looking *k, stk_bytes head, field_todo *f, stk_media_info *info)
{
    const stk_media_reader within = { &head, f->size, read_head };
    int rc = head.len ? stk_decoders_find(&k->l->decoders, head, &f->d, &f->ctx, NULL) : STK_END;

    if (rc != 0)
        f->d = NULL;
    if (rc < 0)
        return rc;
    return by_measure(f->d, f->ctx, &within, info) ? 1 : STK_PENDING;
}

/* Of want[i], of which the head was read. */
static uint64_t size_of(const stk_request *r, uint32_t i)
{
    return r->ranged[i].n ? r->want[i].place.len : r->want[i].bytes.len;
}

static int by_points(const looking *k, uint32_t number, uint64_t size, const stk_decoder *d,
                     void *ctx, stk_media_info *info)
{
    part_reader p = { k, number };
    const stk_media_reader reader = { &p, size, read_part };
    stk_media_points points = { 0 };

    stk_scratch_reset(&k->l->scratch);
    return d->points(ctx, &reader, &k->l->scratch, &points.head, NULL) == 0 &&
           d->know(&points, 0, info, NULL) == 0;
}

/* 1: a file that may have sound without video. */
static int may_be_sound(const looking *k, stk_bytes in)
{
    const stk_decoder *d;
    void *ctx;

    return in.len && stk_decoders_find_sound(&k->l->decoders, in, &d, &ctx, NULL) == 0 &&
           d->can & STK_DECODER_SOUND_TRACK;
}

static int by_sound(const looking *k, stk_bytes in, stk_media_info *info)
{
    const stk_media_points none = { 0 };
    const stk_decoder *d;
    void *ctx;

    return may_be_sound(k, in) &&
           stk_decoders_find_sound(&k->l->decoders, in, &d, &ctx, NULL) == 0 &&
           d->header(ctx, in, &none, info, NULL) == 0;
}

/* 1: known; 0: it is not media, or damaged; STK_PENDING: more of it has to be read. */
static int by_bytes(const looking *k, stk_bytes in, int whole, stk_media_info *info,
                    const stk_decoder **d, void **ctx)
{
    const stk_media_points none = { 0 };
    int rc = in.len ? stk_decoders_find(&k->l->decoders, in, d, ctx, NULL) : STK_END;

    *info = (stk_media_info){ 0 };
    if (rc < 0)
        return rc;
    if (rc == STK_END && !whole)
        return may_be_sound(k, in) ? STK_PENDING : 0;
    if (rc == STK_END || (*d)->header(*ctx, in, &none, info, NULL) < 0)
        return whole ? by_sound(k, in, info) : STK_PENDING;
    if (!whole && info->medium != STK_PICTURE) /* a head has not all frames */
        return STK_PENDING;
    if (!info->turn && info->medium == STK_PICTURE)
        info->turn = whole ? stk_exif_turn(in) : stk_exif_turn_head(in);
    return info->turn || whole ? 1 : STK_PENDING; /* a PNG may be turned by its last chunk */
}

typedef struct todo {
    uint32_t n;
    field_todo field[64];
} todo;

/* By the tables of a container, whose head was read: of its video, or else of its sound, as all of
 * its bytes would have it.  STK_PENDING: it has to be read whole. */
static int by_tables(const looking *k, const field_todo *f, const stk_decoder *d, void *ctx,
                     stk_media_info *info)
{
    part_reader part = { k, f->number };
    const stk_media_reader reader = { &part, f->size, read_part };
    const stk_decoder *sound;
    void *sound_ctx;

    if (stk_decoders_find_sound(&k->l->decoders, bytes_of(k->l->request, 0), &sound, &sound_ctx,
                                NULL) != 0 ||
        !(sound->can & STK_DECODER_SOUND_TRACK))
        sound = NULL;
    if (!d->points || !d->know || (!sound && f->size <= LARGE))
        return STK_PENDING;
    if (by_points(k, f->number, f->size, d, ctx, info))
        return 1;
    if (!sound)
        return 0;
    return by_measure(sound, sound_ctx, &reader, info) ? 1 : STK_PENDING;
}

static int look_further(const looking *k, field_todo *f, stk_error *err)
{
    part_reader part = { k, f->number };
    const stk_media_reader reader = { &part, f->size, read_part };
    stk_request *r = k->l->request;
    stk_media_info info;
    const stk_decoder *d = NULL;
    void *ctx;
    int rc = STK_PENDING;

    if (by_measure(f->d, f->ctx, &reader, &info))
        return give(k, f->name, &info, err);
    for (uint64_t most = LONG_HEAD; rc == STK_PENDING; most = UINT64_MAX) {
        if (most == UINT64_MAX && d && r->ranged[0].n) {
            rc = by_tables(k, f, d, ctx, &info);
            if (rc != STK_PENDING)
                break;
        }
        stk_request_end(r);
        r->want[0].number = f->number;
        STK_TRY(read_some(k, 1, 0, most, err));
        rc = by_head(k, bytes_of(r, 0), f, &info);
        if (rc == STK_PENDING)
            rc = by_bytes(k, bytes_of(r, 0), bytes_of(r, 0).len == f->size, &info, &d, &ctx);
    }
    return rc == 1 ? give(k, f->name, &info, err) : rc;
}

/* ---- one sample ---- */

static int look_at_heads(const looking *k, uint32_t n, todo *further, stk_error *err)
{
    stk_request *r = k->l->request;

    STK_TRY(read_some(k, n, 0, HEAD, err));
    for (uint32_t i = 0; i < n; i++) {
        stk_media_info info;
        const stk_decoder *d;
        void *ctx;
        field_todo *f = &further->field[further->n];
        int rc;

        *f = (field_todo){ r->want[i].number, r->want[i].field.name, size_of(r, i), NULL, NULL };
        rc = by_head(k, bytes_of(r, i), f, &info);
        if (rc == STK_PENDING)
            rc = by_bytes(k, bytes_of(r, i), !r->ranged[i].n, &info, &d, &ctx);
        if (rc == STK_PENDING) {
            further->n++;
            continue;
        }
        if (rc == 1)
            rc = give(k, r->want[i].field.name, &info, err);
        STK_TRY(rc);
    }
    return 0;
}

/* Numbers and texts of tables are no media. */
static int may_be_media(const stk_dataset *ds, uint32_t number)
{
    stk_field_type t;

    return ds->can & STK_DATA_INDEXED || !ds->ops->type(ds, number, &t) || (!t.dtype && !t.text);
}

/* Fields [from, to) of the sample. */
static int look_at_fields(const looking *k, uint32_t from, uint32_t to, const char *only,
                          stk_error *err)
{
    stk_dataset *ds = k->l->ds;
    stk_request *r = k->l->request;
    todo further = { 0 };
    uint32_t n = 0;
    int rc = 0;

    for (uint32_t i = from; i < to; i++) {
        stk_media_info info;
        stk_field f;

        STK_TRY(ds->ops->field(ds, &k->entry, i, &f, err));
        if ((only && strcmp(f.name, only) != 0) || !may_be_media(ds, i))
            continue;
        if (by_hint(k, i, &info))
            STK_TRY(give(k, f.name, &info, err));
        else
            r->want[n++].number = i;
    }
    if (n)
        rc = look_at_heads(k, n, &further, err);
    for (uint32_t i = 0; rc == 0 && i < further.n; i++)
        rc = look_further(k, &further.field[i], err);
    stk_request_end(r);
    return rc;
}

int stk_media_look_at(stk_media_look *l, uint64_t id, const char *only, stk_media_take_fn take,
                      void *cookie, stk_error *err)
{
    looking k = { .l = l, .take = take, .cookie = cookie };
    int rc = l->ds->ops->entry(l->ds, id, &k.entry, err);

    if (rc == 0 && !l->request)
        rc = stk_dataset_request(l->ds, 64, &l->request, err);
    if (rc == 0)
        l->request->reads.apart = 1; /* heads are few bytes of large fields */
    for (uint32_t at = 0; rc == 0 && at < k.entry.n_fields; at += 64)
        rc = look_at_fields(&k, at, at + 64 < k.entry.n_fields ? at + 64 : k.entry.n_fields, only,
                            err);
    return rc;
}
