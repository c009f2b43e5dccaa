/* SPDX-License-Identifier: Apache-2.0 */
/* row_picture_sizes.c - several pictures of a sample while lengths are measured: how large they are
 * is known from HASH.media, so that none of them is read; of files that a list names the heads are.
 *
 * Fields, with numbers or in a list of names, have a record each.  One that has none is damaged, or
 * of a kind without sizes: it is read whole, and says what is wrong.  So is a file whose first
 * bytes do not say its size and how it is turned. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codec/exif.h"
#include "kern/turn.h"
#include "op/several.h"
#include "row/row.h"

#define MOST (1u << 16) /* pictures of a sample */
#define HEAD 4096u      /* bytes of a file that are read first */

/* Stands in for the bytes that are not read. */
static const uint8_t unread[1];

int stk_picture_sizes_are_known(const stk_wanted *want)
{
    return want->bytes.data == unread;
}

static int add(stk_picture_list *l, const stk_known_picture *p)
{
    if (l->n == l->known_cap) {
        uint32_t cap = l->known_cap ? 2 * l->known_cap : 8;
        stk_known_picture *grown = stk_grow(l->known, l->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return 0;
        l->known = grown;
        l->known_cap = cap;
    }
    l->known[l->n++] = *p;
    return 1;
}

static int by_number(const void *one, const void *two)
{
    const stk_known_picture *a = one, *b = two;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->field < b->field ? -1 : a->field > b->field;
}

/* Of fields with one number the first counts. */
static void sort(stk_picture_list *l)
{
    uint32_t n = 0;

    qsort(l->known, l->n, sizeof *l->known, by_number);
    for (uint32_t i = 0; i < l->n; i++)
        if (!n || l->known[i].number != l->known[n - 1].number)
            l->known[n++] = l->known[i];
    l->n = n;
}

/* What HASH.media says of field k of the sample; kind 0: nothing. */
static stk_media_rec record_of(const stk_row *x, const stk_field *f)
{
    const stk_request *r = x->req;
    const stk_mediafile *m = atomic_load_explicit(&r->data->media, memory_order_acquire);
    stk_media_column column;

    if (!m)
        return (stk_media_rec){ 0 };
    column = stk_mediafile_column(m, r->entry.shard, f->name);
    return stk_media_at(&column, r->entry.row);
}

static int is_size(const stk_media_rec *rec)
{
    return rec->kind == STK_PICTURE + 1 && rec->width && rec->height;
}

/* Fills x->m->pictures.known.  0: some picture has no record. */
static int find(stk_row *x)
{
    const stk_request *r = x->req;
    const stk_mediafile *m = atomic_load_explicit(&r->data->media, memory_order_acquire);
    stk_picture_list *l = &x->m->pictures;

    l->n = 0;
    for (uint32_t k = 0; m && k < r->entry.n_fields; k++) {
        stk_known_picture p = { .field = k };
        stk_field f;

        if (r->data->ops->field(r->data, &r->entry, k, &f, NULL) < 0 ||
            !stk_chain_numbered(stk_row_chain(x), f.name, f.name_len, &p.number))
            continue;
        p.rec = record_of(x, &f);
        if (!is_size(&p.rec) || !add(l, &p))
            return 0;
    }
    if (m)
        sort(l);
    return m != NULL;
}

void stk_picture_sizes_know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];

    if (!x->plan->rows.measured || want->own || want->block || !find(x))
        return;
    want->place.here = (stk_bytes){ unread, sizeof unread };
    want->file = NULL;
}

int stk_picture_sizes_take(stk_row *x, stk_error *err)
{
    return find(x) ? 0 : stk_fail(err, STK_ECORRUPT, "the sizes of its pictures have changed");
}

/* ---- pictures that a list names ---- */

static int add_size(stk_row *x, const stk_known_picture *p, stk_error *err)
{
    x->req->want[x->output].bytes = (stk_bytes){ unread, sizeof unread };
    if (x->m->pictures.n == MOST)
        return stk_fail(err, STK_ELIMIT, "a sample has at most %u pictures", MOST);
    return add(&x->m->pictures, p) ? 0 : stk_fail_nomem(err, sizeof *p);
}

/* 1: its first bytes say it; 0: more has to be read.  whole: these are all; an error says why they
 * do not. */
static int by_bytes(stk_row *x, stk_bytes in, int whole, stk_media_rec *out, stk_error *err)
{
    const stk_media_points none = { 0 };
    const stk_decoder *d;
    stk_media_info info;
    void *ctx;
    int rc = stk_picture_decoder(x->m, in, &d, &ctx, err);

    if (rc == 0)
        rc = d->header(ctx, in, &none, &info, err);
    if (rc < 0)
        return whole || rc == STK_ENOMEM ? rc : 0;
    *out = (stk_media_rec){ .width = info.width, .height = info.height };
    if (!stk_row_chain(x)->spec.picture.exif)
        return 1;
    out->turn = (uint8_t)(whole ? stk_exif_turn(in) : stk_exif_turn_head(in));
    return out->turn || whole;
}

/* Of the `len` bytes of a file from `at` on. */
static int add_read(stk_row *x, stk_file *f, uint64_t at, uint64_t len, stk_error *err)
{
    stk_known_picture p = { 0 };
    uint8_t head[HEAD], *all;
    size_t some = len < HEAD ? (size_t)len : HEAD;
    int rc;

    STK_TRY(stk_file_read(f, at, head, some, err));
    rc = by_bytes(x, (stk_bytes){ head, some }, some == len, &p.rec, err);
    if (rc == 0) {
        all = len < SIZE_MAX / 8 ? stk_scratch_get(&x->m->scratch, (size_t)len) : NULL;
        if (!all)
            return stk_row_no_room(x, (size_t)len, err);
        rc = stk_file_read(f, at, all, (size_t)len, err);
        if (rc == 0)
            rc = by_bytes(x, (stk_bytes){ all, (size_t)len }, 1, &p.rec, err);
    }
    return rc < 0 ? rc : add_size(x, &p, err);
}

int stk_picture_sizes_file(stk_row *x, const char *root, stk_bytes name, stk_error *err)
{
    const stk_request *r = x->req;
    stk_place place = { .name = name, .whole = 1 };
    stk_file *f = NULL;
    int rc = stk_named_open(&(stk_named){ r->data, r->entry.shard, root }, &place, &f, err);

    if (rc == 0)
        rc = add_read(x, f, place.offset, place.len, err);
    stk_file_close(&f);
    return rc;
}

int stk_picture_sizes_field(stk_row *x, uint32_t k, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_known_picture p = { .field = k };
    stk_place place;
    stk_field f;

    STK_TRY(x->req->data->ops->field(x->req->data, &x->req->entry, k, &f, err));
    p.rec = record_of(x, &f);
    if (is_size(&p.rec))
        return add_size(x, &p, err);
    STK_TRY(stk_row_place_of(x, &f, &place, err));
    if (place.here.data) {
        STK_TRY(by_bytes(x, place.here, 1, &p.rec, err));
        return add_size(x, &p, err);
    }
    if (!want->file || place.shared || place.unpacked || place.name.data)
        return stk_fail(err, STK_ENOTSUP,
                        "field %.*s is not stored as it is: pack the data again "
                        "with stoker pack",
                        (int)f.name_len, f.name);
    return add_read(x, want->file, place.offset, place.len, err);
}

int stk_picture_size_known(stk_row *x, uint32_t i, uint32_t size[2], stk_error *err)
{
    const stk_media_rec *rec = &x->m->pictures.known[i].rec;
    stk_image_info seen = { rec->width, rec->height };
    stk_draws d;

    STK_TRY(stk_picture_check(x, &seen, err));
    if (stk_row_chain(x)->spec.picture.exif && rec->turn)
        seen = stk_turn_size(rec->turn, seen);
    STK_TRY(stk_picture_draw(x, &seen, x->picture, &d, err));
    size[0] = stk_draws_last(&d)->vis_w;
    size[1] = stk_draws_last(&d)->vis_h;
    return 0;
}
