/* SPDX-License-Identifier: Apache-2.0 */
/* row_value.c - bytes as they are, and values: parsed straight into the row where its size is
 * known, else into room cut off a ragged output. */
#include <assert.h>
#include <string.h>

#include "row/row.h"

/* What was counted for the output: where several count, its own.  Apart, so that the usual way
 * saves no registers for it. */
__attribute__((noinline)) static uint32_t part_of(const stk_row *x, uint64_t id)
{
    const stk_plan_chains *c = &x->plan->chains;
    const stk_bin_parts *p = &x->schedule->binning.parts;
    uint64_t values = 0, patches = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        values |= c->chain[i].counted && !c->chain[i].spec.picture.patch.side;
    if (!stk_row_chain(x)->spec.picture.patch.side)
        return p->length[id];
    for (uint32_t i = 0; i < x->output; i++)
        patches += c->chain[i].counted && c->chain[i].spec.picture.patch.side;
    return p->length[(values + patches) * p->stride + id];
}

int stk_value_check(const stk_row *x, int64_t len, stk_error *err)
{
    uint64_t id = stk_schedule_id(x->schedule, &x->where);
    uint32_t said;

    if (!x->schedule->lengths || !stk_row_chain(x)->counted)
        return 0;
    said = x->schedule->parts ? part_of(x, id) : x->schedule->lengths[id];
    if (len <= (int64_t)said || len <= 1)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "output %s: its row has %" PRId64 " values, and lengths say %u: give the "
                    "lengths that the data has, or leave them to be measured",
                    x->plan->chains.out[x->output].name, len, said);
}

/* ---- bytes ---- */

/* A field that is handed out as it is, and has a read to itself, is read straight into the row. */
static void prepare_direct(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_io *io = stk_request_own_io(x->req, x->output);
    void *dst;

    want->direct = 0;
    if (!io || !io->len)
        return;
    stk_row_fresh(x);
    dst = stk_batch_reserve(x->batch, x->output, x->row, io->len, &x->m->cut);
    if (!dst)
        return; /* make() says that there is no room */
    io->dst = dst;
    want->direct = 1;
}

static void *new_room(stk_row *x, size_t len)
{
    stk_row_fresh(x);
    return stk_row_reserve(x, len, stk_row_cut(x));
}

static int put_bytes(stk_row *x, stk_bytes in, void *dst, stk_error *err)
{
    stk_row_out *out = stk_row_out_of(x);

    if (!dst)
        return stk_row_no_room(x, in.len, err);
    assert(out->len >= in.len);   /* its room */
    if (in.len && in.data != dst) /* an empty field may have no address */
        memmove(dst, in.data, in.len);
    out->ndim = 1;
    out->shape[0] = (int64_t)in.len;
    return 0;
}

/* The room that was read into, unless a codec made more of the bytes; or new room. */
static int row_bytes(stk_row *x, stk_bytes in, stk_error *err)
{
    stk_row_out *out = stk_row_out_of(x);

    STK_TRY(stk_value_check(x, (int64_t)in.len, err));
    if (!x->req->want[x->output].direct || in.len > out->len)
        return put_bytes(x, in, new_room(x, in.len), err);
    out->len = in.len;
    return put_bytes(x, in, out->data, err);
}

static int make_bytes(stk_row *x, stk_error *err)
{
    stk_bytes in;

    STK_TRY(stk_row_input(x, &in, err));
    return stk_row_ops_of(x)->goal->bytes(x, in, err);
}

const stk_row_from stk_from_field = { .name = "field" };
const stk_row_from stk_from_direct = { .name = "direct", .prepare = prepare_direct };
const stk_row_work stk_work_bytes = { .name = "bytes", .make = make_bytes };

/* ---- values ---- */

/* What has to be extracted first, or whose codec keeps a state. */
static int make_dense_slowly(stk_row *x, stk_error *err)
{
    stk_bytes in;

    stk_scratch_reset(&x->m->scratch);
    STK_TRY(stk_row_input(x, &in, err));
    return stk_row_parse(x, in, stk_batch_place(x->batch, x->output, x->row), err);
}

static int make_dense(stk_row *x, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_wanted *want = &x->req->want[x->output];
    stk_maker *m = x->m;

    if (want->unpack || c->extracts || c->parse->codec->open || m->scratch.used)
        return make_dense_slowly(x, err);
    return c->parse->codec->parse(c->parse->state, &m->work, want->bytes,
                                  stk_batch_place(x->batch, x->output, x->row), err);
}

int stk_row_runs(const stk_chain *c)
{
    return c->field.stored && c->parse && c->parse->state == c->field.stored && !c->spec.max_len &&
           !c->n_turns && !c->calls.n && !c->extracts && !c->pack && !c->like.how &&
           !c->spec.n_leads;
}

/* Rows of so many values: how many of the span are so long, from the first on. */
static uint64_t even_rows(const stk_value_span *s, uint64_t values)
{
    uint64_t n = 0;

    while (n < s->n && s->first[n + 1] - s->first[n] == values)
        n++;
    return n;
}

/* All at once; where a value does not fit, row by row up to that one. */
static uint64_t make_dense_run(const stk_row *x, const stk_value_span *s)
{
    const stk_stored *st = stk_row_chain(x)->field.stored;
    size_t size = stk_dtype_size(st->type.dtype), each = st->count * size,
           made = stk_row_chain(x)->row_bytes;
    uint8_t *dst = stk_batch_place(x->batch, x->output, x->row);
    uint64_t n = s->n, i = 0;

    if (s->first)
        n = s->width == size ? even_rows(s, st->count) : 0;
    else if (s->width != each)
        n = 0;
    /* rows follow each other there too */
    assert(x->batch->common->out[x->output].row_bytes == made);
    if (!st->convert && n)
        memcpy(dst, s->data, n * each);
    if (!st->convert || !st->convert(dst, s->data, n * st->count))
        return n;
    while (i < n && !st->convert(dst + i * made, s->data + i * each, st->count))
        i++;
    return i;
}

const stk_row_work stk_work_value = { .name = "value",
                                      .make = make_dense,
                                      .make_run = make_dense_run };

int stk_value_shape(const stk_row *x, stk_bytes in, stk_spec *spec, size_t *size, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    size_t bytes;

    *spec = c->pack ? c->raw : c->n_turns ? c->parsed : c->spec;
    if (c->calls.n)
        *spec = c->parsed; /* truncate() is for what the functions give */
    else if (c->n_turns && !stk_boxes_cut_late(c)) {
        spec->max_len = c->spec.max_len;
        spec->keep_last = c->spec.keep_last;
    }
    STK_TRY(c->parse->codec->shape(c->parse->state, in, spec, err));
    bytes = stk_dtype_size(spec->dtype);
    if (!bytes || spec->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_ENOTSUP, "a row of %u dimensions and type %s: at most %d, typed",
                        spec->ndim, stk_dtype_name(spec->dtype), STK_MAX_DIMS - 1);
    for (uint32_t i = 0; i < spec->ndim; i++)
        if (spec->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)spec->shape[i], &bytes))
            return stk_fail(err, STK_ECORRUPT, "a row of more bytes than there is memory");
    *size = bytes;
    return 0;
}

/* Room for a row of that shape. */
static int value_place(stk_row *x, const stk_spec *spec, size_t bytes, void **dst, stk_error *err)
{
    stk_row_out *out = stk_row_out_of(x);

    out->dtype = spec->dtype;
    out->ndim = spec->ndim;
    memcpy(out->shape, spec->shape, sizeof out->shape);
    *dst = new_room(x, bytes);
    return *dst ? 0 : stk_row_no_room(x, bytes, err);
}

/* truncate() makes it shorter. */
static int is_cut(const stk_spec *spec)
{
    return spec->max_len && spec->ndim && spec->shape[0] > spec->max_len;
}

/* A row that truncate() makes shorter is made whole beside its place: codecs know nothing of it. */
static int row_room(stk_row *x, const stk_spec *spec, size_t bytes, void **dst, stk_error *err)
{
    int cut = is_cut(spec);

    if (spec->ndim)
        STK_TRY(stk_value_check(x, cut ? spec->max_len : spec->shape[0], err));
    if (!cut)
        return value_place(x, spec, bytes, dst, err);
    *dst = stk_scratch_get(&x->m->scratch, bytes);
    return *dst ? 0 : stk_fail_nomem(err, bytes);
}

static int put_shorter(stk_row *x, const stk_spec *spec, const void *made, stk_error *err)
{
    stk_spec shorter = *spec;
    size_t cut = stk_dtype_size(spec->dtype) * (size_t)spec->max_len, skip = 0;
    void *dst;

    for (uint32_t i = 1; i < spec->ndim; i++)
        cut *= (size_t)spec->shape[i];
    if (spec->keep_last)
        skip = cut / (size_t)spec->max_len * (size_t)(spec->shape[0] - spec->max_len);
    shorter.shape[0] = spec->max_len;
    STK_TRY(value_place(x, &shorter, cut, &dst, err));
    memcpy(dst, (const uint8_t *)made + skip, cut);
    return 0;
}

static int row_filled(stk_row *x, const stk_spec *spec, const void *made, stk_error *err)
{
    return is_cut(spec) ? put_shorter(x, spec, made, err) : 0;
}

static int make_shaped(stk_row *x, stk_error *err)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;
    void *dst = NULL;
    stk_spec spec;
    stk_bytes in;
    size_t bytes;
    int rc;

    stk_scratch_reset(&x->m->scratch);
    STK_TRY(stk_row_input(x, &in, err));
    STK_TRY(stk_value_shape(x, in, &spec, &bytes, err));
    rc = to->room(x, &spec, bytes, &dst, err);
    if (rc)
        return rc < 0 ? rc : 0;
    STK_TRY(stk_row_parse(x, in, dst, err));
    return to->filled == row_filled && !is_cut(&spec) ? 0 : to->filled(x, &spec, dst, err);
}

/* ---- values that steps turn into others ---- */

int stk_value_parse(stk_row *x, stk_value_row *row, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_spec spec = c->parsed;
    stk_bytes in;
    size_t bytes = stk_dtype_size(spec.dtype);

    if (c->sound)
        return stk_sound_value(x, row, err);

    in = x->req->want[x->output].bytes;
    if (x->req->want[x->output].unpack || c->extracts)
        STK_TRY(stk_row_extract_more(x, &in, err));
    for (uint32_t i = 0; i < spec.ndim; i++)
        bytes *= spec.out == STK_OUT_DENSE ? (size_t)spec.shape[i] : 1;
    if (c->parsed.out != STK_OUT_DENSE)
        STK_TRY(stk_value_shape(x, in, &spec, &bytes, err));
    *row = (stk_value_row){ .dtype = spec.dtype, .ndim = spec.ndim };
    memcpy(row->shape, spec.shape, sizeof row->shape);
    row->data = stk_scratch_get(&x->m->scratch, bytes + 1);
    if (!row->data)
        return stk_fail_nomem(err, bytes);
    STK_TRY(stk_row_parse(x, in, row->data, err));
    if (spec.max_len && spec.ndim && row->shape[0] > spec.max_len) {
        size_t each = bytes / (size_t)row->shape[0];

        if (spec.keep_last)
            row->data = (uint8_t *)row->data + each * (size_t)(row->shape[0] - spec.max_len);
        row->shape[0] = spec.max_len;
    }
    return 0;
}

/* Bytes of a row.  Steps of plug-ins shape rows too, so nothing about it is sure. */
static int bytes_of(const stk_row *x, const stk_value_row *row, size_t *bytes, stk_error *err)
{
    const char *name = x->plan->chains.out[x->output].name;
    size_t n = stk_dtype_size(row->dtype);

    if (!n || row->ndim > STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL,
                        "output %s: a step gave %u dimensions (at most %d) of type %s", name,
                        row->ndim, STK_MAX_DIMS, stk_dtype_name(row->dtype));
    for (uint32_t i = 0; i < row->ndim; i++)
        if (row->shape[i] < 0 || __builtin_mul_overflow(n, (size_t)row->shape[i], &n))
            return stk_fail(err, STK_EINVAL, "output %s: a step gave a length of %" PRId64, name,
                            row->shape[i]);
    *bytes = n;
    return 0;
}

int stk_value_put(stk_row *x, const stk_value_row *row, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    size_t bytes = 0, planned = c->row_bytes / stk_spec_times(&c->spec);
    stk_spec spec = { .dtype = row->dtype, .ndim = row->ndim };
    void *dst;

    STK_TRY(bytes_of(x, row, &bytes, err));
    if (planned) {
        if (bytes != planned)
            return stk_fail(err, STK_EINVAL,
                            "output %s: its steps gave %zu bytes, and their plan says %zu",
                            x->plan->chains.out[x->output].name, bytes, planned);
        memcpy((uint8_t *)stk_batch_place(x->batch, x->output, x->row) + x->view * bytes, row->data,
               bytes);
        return 0;
    }
    memcpy(spec.shape, row->shape, sizeof spec.shape);
    STK_TRY(stk_value_check(x, row->ndim ? row->shape[0] : 0, err));
    STK_TRY(value_place(x, &spec, bytes, &dst, err));
    memcpy(dst, row->data, bytes);
    return 0;
}

void stk_value_rng(const stk_row *x, const stk_step *s, stk_rng *rng)
{
    stk_rng_at(rng, &(stk_address){ .seed = x->plan->policy.seed,
                                    .position = x->position,
                                    .path = stk_path(s->number),
                                    .epoch = (uint32_t)x->batch->epoch,
                                    .output = x->output,
                                    .view = x->view });
}

int stk_value_step(stk_row *x, const stk_step *s, stk_value_row *row, stk_error *err)
{
    stk_rng rng;

    if (!s->op || !s->op->value || s->early)
        return 0;
    if (s->op->can & STK_OP_LIKE)
        return stk_boxes_like(x, row, err);
    if (s->op->can & STK_OP_COUNTS)
        return stk_row_image_tokens(x, s, row, err);
    stk_value_rng(x, s, &rng);
    return s->op->value(s->state, row, &rng, &x->m->scratch, err);
}

/* Up to the first row whose length is not a multiple of its parts, that has no room, or has a value
 * that does not fit. */
static uint64_t make_ragged_run(const stk_row *x, const stk_value_span *s)
{
    const stk_stored *st = stk_row_chain(x)->field.stored;
    size_t size = stk_dtype_size(st->type.dtype), made = stk_dtype_size(st->to);
    const uint8_t *from = s->data;
    stk_row one = *x;

    if (!st->ragged || !st->count || (s->first ? s->width != size : s->width % size))
        return 0;
    for (uint64_t i = 0; i < s->n; i++, one.row++) {
        size_t n = s->first ? s->first[i + 1] - s->first[i] : s->width / size;
        stk_row_out *out = stk_row_out_of(&one);
        void *dst;

        stk_row_fresh(&one);
        dst = n % st->count ? NULL : stk_row_reserve(&one, n * made, &x->m->cut);
        if (!dst || (st->convert && st->convert(dst, from, n)))
            return i;
        if (!st->convert && n)
            memcpy(dst, from, n * size);
        out->dtype = st->to;
        out->ndim = st->type.ndim;
        memcpy(out->shape, st->type.shape, st->type.ndim * sizeof *out->shape);
        out->shape[0] = (int64_t)(n / st->count);
        from += n * size;
    }
    return s->n;
}

const stk_row_work stk_work_shaped = { .name = "shaped",
                                       .make = make_shaped,
                                       .make_run = make_ragged_run };

/* ---- its place in the batch ---- */

/* truncate(), where functions gave the row: they are not told of it. */
static void cut_row(const stk_spec *spec, stk_value_row *row)
{
    size_t each = stk_dtype_size(row->dtype);

    if (!spec->max_len || !row->ndim || row->shape[0] <= spec->max_len)
        return;
    for (uint32_t i = 1; i < row->ndim; i++)
        each *= (size_t)row->shape[i];
    if (spec->keep_last)
        row->data = (uint8_t *)row->data + each * (size_t)(row->shape[0] - spec->max_len);
    row->shape[0] = spec->max_len;
}

static int row_put(stk_row *x, const stk_value_row *row, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_value_row own = *row;

    if (c->spec.kind == STK_KIND_BYTES)
        return row_bytes(x, (stk_bytes){ row->data, (size_t)row->shape[0] }, err);
    if (c->calls.n)
        cut_row(&c->spec, &own);
    return stk_value_put(x, &own, err);
}

/* Rows that differ become one tensor, where that was asked for. */
static int row_pad(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                   stk_error *err)
{
    const stk_batch_plan *c = p->outputs.common;

    (void)used;
    return stk_out_pads(&c->out[output], c->batch) && !b->out[output].padded
               ? stk_batch_pad(b, output, err)
               : 0;
}

const stk_row_goal stk_goal_row = { .name = "row",
                                    .bytes = row_bytes,
                                    .room = row_room,
                                    .filled = row_filled,
                                    .put = row_put,
                                    .place = stk_picture_place,
                                    .finish = row_pad };
