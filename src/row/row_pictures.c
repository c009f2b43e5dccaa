/* SPDX-License-Identifier: Apache-2.0 */
/* row_pictures.c - a row of several pictures: pictures().
 *
 * They are found first: fields 0.jpg, 1.jpg, ... of a shard, which are read as one range since the
 * fields of a sample are stored side by side; the elements of a list column; names in a JSON list.
 * Then the size of each is drawn, so that the row gets its room, and each is made into its place as
 * a row of one picture is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "op/patch_size.h"
#include "op/several.h"
#include "row/row.h"

#define NAME_BYTES 4096     /* of a name, as JSON */
#define MOST STK_FILES_MOST /* pictures of a sample */

typedef struct sorted_field { /* of the sample: by name, or by number */
    const char *name;
    size_t len;
    uint64_t number;
    uint32_t field;
} sorted_field;

typedef struct list { /* while it is put together */
    stk_row *x;
    stk_picture_list *to;
    sorted_field *named; /* scratch memory; NULL: they were not needed so far */
    uint32_t n_named;
} list;

static const stk_pictures_state *state_of(const stk_row *x)
{
    return stk_row_chain(x)->many.pictures->state;
}

static int add(stk_picture_list *l, stk_bytes bytes, stk_error *err)
{
    if (l->n == MOST)
        return stk_fail(err, STK_ELIMIT, "a sample has at most %u pictures", MOST);
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 8;
        stk_bytes *grown = stk_grow(l->bytes, l->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        l->bytes = grown;
        l->cap = cap;
    }
    l->bytes[l->n++] = bytes;
    return 0;
}

/* ---- fields with numbers ---- */

/* Field k of the sample. */
static int field_at(const stk_row *x, uint32_t k, stk_field *out, stk_error *err)
{
    return x->req->data->ops->field(x->req->data, &x->req->entry, k, out, err);
}

/* Its bytes: in the range that was read for all of them, or in memory. */
static int bytes_of(const stk_row *x, const stk_field *f, stk_bytes *out, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    stk_place place;

    STK_TRY(stk_row_place_of(x, f, &place, err));
    *out = place.here;
    if (place.here.data)
        return 0;
    if (!want->file || place.shared || place.unpacked || place.name.data ||
        place.offset < want->place.offset || place.offset - want->place.offset > want->bytes.len ||
        place.len > want->bytes.len - (size_t)(place.offset - want->place.offset))
        return stk_fail(err, STK_ENOTSUP,
                        "field %.*s is not stored beside the other pictures: pack the data again "
                        "with stoker pack",
                        (int)f->name_len, f->name);
    *out = (stk_bytes){ want->bytes.data + (place.offset - want->place.offset), (size_t)place.len };
    return 0;
}

/* Room for all fields of the sample. */
static sorted_field *fields_room(const stk_row *x, stk_error *err)
{
    size_t size = (x->req->entry.n_fields + 1) * sizeof(sorted_field);
    sorted_field *room = stk_scratch_get(&x->m->scratch, size);

    if (!room)
        stk_row_no_room(x, size, err);
    return room;
}

static int by_number(const void *one, const void *two)
{
    const sorted_field *a = one, *b = two;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->field < b->field ? -1 : a->field > b->field;
}

/* Of fields with one number the first counts. */
static int add_numbered(list *l, stk_error *err)
{
    const stk_chain *c = stk_row_chain(l->x);
    sorted_field *at = fields_room(l->x, err);
    uint32_t n = 0;
    stk_bytes bytes;
    stk_field f;

    if (!at)
        return STK_ENOMEM;
    for (uint32_t k = 0; k < l->x->req->entry.n_fields; k++) {
        at[n].field = k;
        n += field_at(l->x, k, &f, NULL) == 0 &&
             stk_chain_numbered(c, f.name, f.name_len, &at[n].number);
    }
    qsort(at, n, sizeof *at, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (i && at[i].number == at[i - 1].number)
            continue;
        STK_TRY(field_at(l->x, at[i].field, &f, err));
        STK_TRY(bytes_of(l->x, &f, &bytes, err));
        STK_TRY(add(l->to, bytes, err));
    }
    return 0;
}

/* ---- names ---- */

static int by_name(const void *one, const void *two)
{
    const sorted_field *a = one, *b = two;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    return order ? order : a->len < b->len ? -1 : a->len > b->len;
}

static int sort_names(list *l, stk_error *err)
{
    stk_field f;

    l->named = fields_room(l->x, err);
    if (!l->named)
        return STK_ENOMEM;
    for (uint32_t k = 0; k < l->x->req->entry.n_fields; k++) {
        STK_TRY(field_at(l->x, k, &f, err));
        l->named[l->n_named++] = (sorted_field){ f.name, f.name_len, 0, k };
    }
    qsort(l->named, l->n_named, sizeof *l->named, by_name);
    return 0;
}

static const sorted_field *field_named(const list *l, const uint8_t *name, size_t len)
{
    const sorted_field want = { (const char *)name, len, 0, 0 };

    return bsearch(&want, l->named, l->n_named, sizeof want, by_name);
}

/* A field's own name, or the sample's key before it. */
static int find_field(list *l, stk_bytes name, const sorted_field **out, stk_error *err)
{
    const stk_bytes key = l->x->req->entry.key;
    const sorted_field *found;

    if (!l->named)
        STK_TRY(sort_names(l, err));
    found = field_named(l, name.data, name.len);
    if (!found && name.len > key.len && !memcmp(name.data, key.data, key.len) &&
        name.data[key.len] == '.')
        found = field_named(l, name.data + key.len + 1, name.len - key.len - 1);
    if (!found)
        return stk_fail(
            err, STK_ECORRUPT,
            "its list names \"%.*s\", which is no field of the sample; of files say where "
            "they are: pictures(root=\"/data\")",
            name.len > 80 ? 80 : (int)name.len, (const char *)name.data);
    *out = found;
    return 0;
}

static int add_field_named(list *l, stk_bytes name, stk_error *err)
{
    const sorted_field *found;
    stk_bytes bytes;
    stk_field f;

    STK_TRY(find_field(l, name, &found, err));
    STK_TRY(field_at(l->x, found->field, &f, err));
    STK_TRY(bytes_of(l->x, &f, &bytes, err));
    return add(l->to, bytes, err);
}

static int check_name(stk_bytes value, stk_error *err)
{
    if (value.len >= 2 && value.data[0] == '"' && value.len <= NAME_BYTES)
        return 0;
    return stk_fail(err, STK_ECORRUPT, "its list of pictures has %.*s, which is no name",
                    value.len > 40 ? 40 : (int)value.len, (const char *)value.data);
}

static int name_of(stk_bytes value, uint8_t text[NAME_BYTES], stk_bytes *out, stk_error *err)
{
    STK_TRY(check_name(value, err));
    out->data = text;
    return stk_json_unquote(value, text, &out->len, err);
}

static int add_name(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    uint8_t text[NAME_BYTES];
    stk_bytes name;

    (void)key;
    STK_TRY(name_of(value, text, &name, err));
    return add_field_named(cookie, name, err);
}

/* Files that were read before the row is made. */
static int add_files(list *l, stk_error *err)
{
    const stk_request *r = l->x->req;
    const stk_wanted *want = &r->want[l->x->output];

    for (uint32_t k = 0; k < want->n_files; k++)
        STK_TRY(add(l->to, stk_request_file(r, want->first_file + k), err));
    return 0;
}

/* While lengths are measured: how large the picture is. */
static int measure_name(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    list *l = cookie;
    const sorted_field *found;
    uint8_t text[NAME_BYTES];
    stk_bytes name;

    (void)key;
    STK_TRY(name_of(value, text, &name, err));
    if (state_of(l->x)->root[0])
        return stk_picture_sizes_file(l->x, state_of(l->x)->root, name, err);
    STK_TRY(find_field(l, name, &found, err));
    return stk_picture_sizes_field(l->x, found->field, err);
}

/* ---- what the field is ---- */

/* A list column: each element's length, then its bytes (format/text_list.h). */
static int add_elements(list *l, stk_bytes in, stk_error *err)
{
    while (in.len) {
        uint32_t len;

        if (in.len < sizeof len)
            return stk_fail(err, STK_ECORRUPT, "its list of pictures ends too early");
        memcpy(&len, in.data, sizeof len);
        in.data += sizeof len;
        in.len -= sizeof len;
        if (len > in.len)
            return stk_fail(err, STK_ECORRUPT, "its list of pictures ends too early");
        if (!len)
            return stk_fail(err, STK_ECORRUPT,
                            "picture %u of its list has no bytes: where a column has their paths, "
                            "take that one: from(images.path) | pictures(root=\"/data\")",
                            l->to->n + 1);
        STK_TRY(add(l->to, (stk_bytes){ in.data, len }, err));
        in.data += len;
        in.len -= len;
    }
    return 0;
}

static int is_list_column(const stk_row *x, uint32_t number)
{
    stk_field_type type = { 0 };

    return x->req->data->ops->type && x->req->data->ops->type(x->req->data, number, &type) &&
           type.ndim && !type.text && !type.dtype;
}

/* By its name: ids.json, images.json, json. */
static int is_list_of_names(const stk_field *f)
{
    return f->name_len >= 4 && !memcmp(f->name + f->name_len - 4, "json", 4);
}

static int is_numbered(const stk_row *x, const stk_field *f)
{
    uint64_t number;

    return stk_chain_numbered(stk_row_chain(x), f->name, f->name_len, &number);
}

/* No picture begins so. */
static int is_json_list(stk_bytes in)
{
    size_t at = 0;

    while (at < in.len && strchr(" \t\r\n", in.data[at]) && in.data[at])
        at++;
    return at < in.len && in.data[at] == '[';
}

static int collect(stk_row *x, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    list l = { .x = x, .to = &x->m->pictures };
    stk_bytes in = want->bytes;

    l.to->n = 0;
    if (want->number == UINT16_MAX || want->place.absent)
        return 0;
    if (stk_picture_sizes_are_known(want))
        return stk_picture_sizes_take(x, err);
    if (want->unpack)
        return stk_fail(err, STK_ENOTSUP, "pictures: its field is not stored as it is");
    if (is_list_column(x, want->number))
        return add_elements(&l, want->bytes, err);
    if (is_numbered(x, &want->field))
        return add_numbered(&l, err);
    if (is_list_of_names(&want->field) && want->file && !want->block)
        STK_TRY(bytes_of(x, &want->field, &in, err)); /* the whole sample was read */
    if (is_json_list(in))
        return x->plan->rows.measured ? stk_json_elements(in, measure_name, &l, err)
               : state_of(x)->root[0] ? add_files(&l, err)
                                      : stk_json_elements(in, add_name, &l, err);
    return add(l.to, in, err);
}

/* ---- files that it names ---- */

/* 1: if it is a list, then one of names of files. */
static int may_name_files(const stk_row *x)
{
    const stk_wanted *want = &x->req->want[x->output];

    return state_of(x)->root[0] && !x->plan->rows.measured && want->number != UINT16_MAX &&
           !want->place.absent && !want->unpack && !is_list_column(x, want->number) &&
           !is_numbered(x, &want->field);
}

static int list_file(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    stk_row *x = cookie;

    (void)key;
    STK_TRY(check_name(value, err));
    return stk_request_add_file(x->req, state_of(x)->root, value, err);
}

/* Outputs of one field share its files. */
static int list_files(stk_row *x, stk_error *err)
{
    stk_request *r = x->req;
    stk_wanted *want = &r->want[x->output];

    want->first_file = r->reads.named.n;
    want->n_files = 0;
    if (!may_name_files(x) || !is_json_list(want->bytes))
        return 0;
    for (uint32_t k = 0; k < x->output; k++)
        if (r->want[k].number == want->number && r->want[k].n_files &&
            !strcmp(r->reads.named.list[r->want[k].first_file].root, state_of(x)->root)) {
            want->first_file = r->want[k].first_file;
            want->n_files = r->want[k].n_files;
            return 0;
        }
    STK_TRY(stk_json_elements(want->bytes, list_file, x, err));
    want->n_files = r->reads.named.n - want->first_file;
    return 0;
}

/* ---- before it is read ---- */

/* The range of its pictures, or of the whole sample where a list names fields. */
static void know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    int named = want->number != UINT16_MAX && is_list_of_names(&want->field);
    uint64_t from = want->place.offset, to = from + want->place.len;
    stk_field f;

    want->learn = 0;
    want->hint = (stk_bytes){ 0 };
    want->n_files = 0;
    if (may_name_files(x))
        stk_request_expect_files(x->req);
    if (want->number == UINT16_MAX || !stk_request_has_range(x->req, x->output) || want->own ||
        is_list_column(x, want->number) || (!named && !is_numbered(x, &want->field)) ||
        (named && (state_of(x)->root[0] || x->plan->rows.measured)))
        return;
    if (!named) {
        stk_picture_sizes_know(x);
        if (!want->file)
            return;
    }
    for (uint32_t k = 0; k < x->req->entry.n_fields; k++) {
        if (field_at(x, k, &f, NULL) < 0 || (!named && !is_numbered(x, &f)))
            continue;
        from = f.offset < from ? f.offset : from;
        to = f.offset + f.size > to ? f.offset + f.size : to;
    }
    want->place.offset = from;
    want->place.len = to - from;
}

/* ---- the row ---- */

stk_grid_list *stk_row_grids_of(stk_row *x, uint32_t output, stk_error *err)
{
    uint32_t n = x->plan->chains.n_out;

    if (!x->m->grids) {
        x->m->grids = stk_zalloc(n, sizeof *x->m->grids);
        if (!x->m->grids) {
            stk_fail_nomem(err, n * sizeof *x->m->grids);
            return NULL;
        }
        x->m->n_grids = n;
    }
    return &x->m->grids[output];
}

/* An error says which of them it was. */
static int of_picture(const stk_row *x, uint32_t i, int rc, stk_error *err)
{
    char text[sizeof err->message];

    if (rc >= 0 || !err || rc == STK_ENOMEM || x->m->pictures.n < 2)
        return rc;
    memcpy(text, err->message, sizeof text);
    return stk_fail(err, rc, "picture %u of %u: %.200s", i + 1, x->m->pictures.n, text);
}

static void choose(stk_row *x, uint32_t i)
{
    stk_wanted *want = &x->req->want[x->output];

    if (!stk_picture_sizes_are_known(want))
        want->bytes = x->m->pictures.bytes[i];
    want->hint = (stk_bytes){ 0 };
    want->learn = 0;
    x->req->ranged[x->output].n = 0;
    x->picture = stk_row_chain(x)->spec.picture.several == STK_SEVERAL_SAME ? 0 : i;
}

static int check_size(const stk_row *x, const uint32_t size[2], stk_error *err)
{
    const stk_patch_spec *p = &stk_row_chain(x)->spec.picture.patch;
    uint32_t unit = p->side * p->block;

    if ((uint64_t)size[0] * size[1] > x->plan->policy.max_pixels)
        return stk_fail(err, STK_ELIMIT, "it comes out as %ux%u, over the limit of max_pixels",
                        size[0], size[1]);
    if (unit && (size[0] % unit || size[1] % unit))
        return stk_fail(err, STK_ECORRUPT,
                        "the picture is %ux%u at `patches`, which is not whole patches of %u: put "
                        "resize_to_patches before it",
                        size[0], size[1], unit);
    return 0;
}

int stk_row_counts_most(const stk_plan *p, uint32_t output)
{
    return p->rows.measured && p->chains.chain[output].sizes.drawn;
}

/* How large each comes out: grids of patches, or of pixels. */
static int measure(stk_row *x, stk_grid_list *g, stk_error *err)
{
    const stk_patch_spec *p = &stk_row_chain(x)->spec.picture.patch;
    uint32_t side = p->side ? p->side : 1, n = x->m->pictures.n;
    int known = stk_picture_sizes_are_known(&x->req->want[x->output]);

    g->row = stk_schedule_id(x->schedule, &x->where) + 1;
    g->n = 0;
    g->patches = 0;
    if (n > g->cap) {
        void *grown = stk_grow(g->at, 0, n * sizeof *g->at);

        if (!grown)
            return stk_fail_nomem(err, n * sizeof *g->at);
        g->at = grown;
        g->cap = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size[2];
        int rc;

        choose(x, i);
        rc = known ? stk_picture_size_known(x, i, size, err) : stk_picture_size(x, size, err);
        if (rc == 0)
            rc = check_size(x, size, err);
        STK_TRY(of_picture(x, i, rc, err));
        g->at[i][0] = size[1] / side;
        g->at[i][1] = size[0] / side;
        g->patches += stk_row_counts_most(x->plan, x->output) ? stk_row_chain(x)->sizes.most_patches
                                                              : (uint64_t)g->at[i][0] * g->at[i][1];
        g->n++;
    }
    return 0;
}

/* Blocks of all pictures if each keeps at most `level`. */
static uint64_t blocks_at(const stk_grid_list *g, uint32_t blocks_of, uint32_t level)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t size[2] = { g->at[i][1] / blocks_of, g->at[i][0] / blocks_of };

        stk_patch_cut(1, level, size);
        sum += (uint64_t)size[0] * size[1];
    }
    return sum;
}

/* A sample that is over its budget: the largest pictures are cut, to one level, so that all
 * together keep no more than fits. */
static int lower(stk_row *x, stk_grid_list *g, stk_error *err)
{
    uint64_t id = stk_schedule_id(x->schedule, &x->where);
    uint32_t keep = stk_schedule_keeps(x->schedule, x->output, id), lo = 1, hi = keep;
    uint32_t by = keep ? x->schedule->truncated.unit / stk_row_chain(x)->spec.picture.patch.side
                       : 1;

    x->keep = 0;
    if (!keep || blocks_at(g, by, UINT32_MAX) <= keep)
        return 0;
    if (g->n > keep)
        return stk_fail(err, STK_ECORRUPT,
                        "it is over max_tokens with %u pictures, of which each keeps %u patches at "
                        "least: %u fit",
                        g->n, by * by, keep * by * by);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;

        if (blocks_at(g, by, mid) <= keep)
            lo = mid;
        else
            hi = mid - 1;
    }
    x->keep = lo;
    g->patches = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t size[2] = { g->at[i][1], g->at[i][0] };

        stk_patch_cut(by, lo, size);
        g->at[i][0] = size[1];
        g->at[i][1] = size[0];
        g->patches += (uint64_t)size[0] * size[1];
    }
    return 0;
}

static int find_all(stk_row *x, stk_grid_list **g, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_bytes field = want->bytes;
    int rc;

    *g = stk_row_grids_of(x, x->output, err);
    if (!*g)
        return STK_ENOMEM;
    stk_scratch_reset(&x->m->scratch);
    rc = collect(x, err);
    x->keep = 0;
    if (rc == 0)
        rc = measure(x, *g, err);
    if (rc == 0)
        rc = lower(x, *g, err);
    want->bytes = field; /* the row may be made again */
    x->picture = 0;
    return rc;
}

static size_t values_of(const stk_row *x, const stk_grid_list *g)
{
    const stk_picture_spec *p = &stk_row_chain(x)->spec.picture;
    size_t side = p->patch.side;

    return side ? (size_t)g->patches * side * side * 3 * p->patch.frames
                : (size_t)g->n * p->width * p->height * 3;
}

static void note_shape(const stk_row *x, const stk_grid_list *g)
{
    const stk_picture_spec *p = &stk_row_chain(x)->spec.picture;
    stk_row_out *out = stk_row_out_of(x);
    int64_t patches[2] = { (int64_t)g->patches,
                           (int64_t)p->patch.side * p->patch.side * 3 * p->patch.frames };
    int64_t whole[4] = { g->n, p->height, p->width, 3 };

    if (p->layout == STK_CHW) {
        whole[1] = 3;
        whole[2] = p->height;
        whole[3] = p->width;
    }
    out->ndim = p->patch.side ? 2 : 4;
    memcpy(out->shape, p->patch.side ? patches : whole, out->ndim * sizeof *out->shape);
    out->shape[STK_GRID_AT] = g->n;
}

/* Where the picture in hand goes.  Room was taken by the sizes that headers said before: a file
 * that has changed meanwhile, or a decoder that answers otherwise, must not write past it. */
static int place(stk_row *x, stk_sample_job *job, stk_error *err)
{
    const stk_patch_spec *p = &stk_row_chain(x)->spec.picture.patch;
    stk_row_out *out = stk_row_out_of(x);
    size_t bytes = (size_t)job->view->vis_w * job->view->vis_h * 3 * stk_dtype_size(job->dtype) *
                   (p->side ? p->frames : 1);

    if (bytes > out->len - x->m->pictures.at)
        return stk_fail(err, STK_ECORRUPT, "the picture's size changed while it was read");
    job->dst = out->data + x->m->pictures.at;
    x->m->pictures.at += bytes;
    return 0;
}

static int make_each(stk_row *x, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_bytes field = want->bytes;
    int rc = 0;

    x->m->pictures.at = 0;
    for (uint32_t i = 0; rc == 0 && i < x->m->pictures.n; i++) {
        choose(x, i);
        rc = of_picture(x, i, stk_picture_make(x, err), err);
    }
    want->bytes = field;
    x->picture = 0;
    return rc;
}

static int make_all(stk_row *x, stk_error *err)
{
    stk_grid_list *g;
    size_t len, tail;
    uint8_t *dst;

    STK_TRY(find_all(x, &g, err));
    if (x->plan->rows.measured)
        return stk_length_note(x, 0);
    if (stk_row_chain(x)->spec.picture.patch.side)
        STK_TRY(stk_value_check(x, (int64_t)g->patches, err));
    len = values_of(x, g) * stk_dtype_size(stk_row_chain(x)->spec.dtype);
    tail = g->n * sizeof *g->at;
    note_shape(x, g);
    if (stk_row_ops_of(x)->goal->several)
        return stk_row_ops_of(x)->goal->several(x, g, make_each, err);
    stk_row_fresh(x);
    dst = stk_row_reserve(x, stk_grids_at(len) + tail, NULL);
    if (!dst)
        return stk_row_no_room(x, len, err);
    stk_row_out_of(x)->len = len;
    if (tail)
        memcpy(dst + stk_grids_at(len), g->at, tail);
    STK_TRY(make_each(x, err));
    if (x->m->pictures.at != len)
        return stk_fail(err, STK_ECORRUPT, "a picture's size changed while it was read");
    return 0;
}

static int make(stk_row *x, stk_error *err)
{
    int rc = make_all(x, err);

    x->keep = 0;
    stk_scratch_let_go(&x->m->scratch);
    return rc;
}

static int finish(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                  stk_error *err)
{
    if (!b->out[output].pictures)
        STK_TRY(stk_batch_take_grids(b, output, err));
    return stk_goal_row.finish(p, b, output, used, err);
}

const stk_row_from stk_from_pictures = { .name = "pictures", .know = know, .list = list_files };
const stk_row_work stk_work_pictures = { .name = "pictures",
                                         .make = make,
                                         .sample = stk_picture_sample };
const stk_row_goal stk_goal_pictures = { .name = "pictures", .place = place, .finish = finish };
