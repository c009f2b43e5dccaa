/* SPDX-License-Identifier: Apache-2.0 */
/* row_picture_sizes.c - several pictures of a sample while lengths are measured: how large they are
 * is known from HASH.media, so that none of them is read.
 *
 * It is for fields with numbers, each of which has a record.  One that has none is damaged, or of a
 * kind without sizes: then the row reads them all, and says what is wrong. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kern/turn.h"
#include "row/row.h"

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

/* Fills x->m->pictures.known.  0: some picture has no record. */
static int find(stk_row *x)
{
    const stk_request *r = x->req;
    const stk_mediafile *m = atomic_load_explicit(&r->data->media, memory_order_acquire);
    stk_picture_list *l = &x->m->pictures;

    l->n = 0;
    for (uint32_t k = 0; m && k < r->entry.n_fields; k++) {
        stk_known_picture p = { .field = k };
        stk_media_column column;
        stk_field f;

        if (r->data->ops->field(r->data, &r->entry, k, &f, NULL) < 0 ||
            !stk_chain_numbered(stk_row_chain(x), f.name, f.name_len, &p.number))
            continue;
        column = stk_mediafile_column(m, r->entry.shard, f.name);
        p.rec = stk_media_at(&column, r->entry.row);
        if (p.rec.kind != STK_PICTURE + 1 || !p.rec.width || !p.rec.height || !add(l, &p))
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
