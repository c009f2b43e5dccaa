/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fields.c - shards of samples that chains make: `jpg=image | resize(256) | encode(jpeg, 90)`.
 *
 * A loader runs the chains over the samples of the plan, in its order: position p of the epoch is
 * position p of the plan, so draws do not depend on the part that is made or on the workers.  A
 * stage encodes the rows of a batch on the worker that ended it, and reads the fields that stay as
 * they are.  The caller's thread takes batch after batch and writes shards.
 *
 * A bad sample is left out and listed; what is wrong with the machine ends the run. */
#include "tools/pack_arrays.h"

#include <stdio.h>
#include <string.h>

#include <stoker/plugin_loader.h>
#include <stoker/stoker.h>

#include "base/json.h"
#include "base/mem.h"
#include "dataset/read_some.h"
#include "loader/leave.h"

#define ROWS 8u    /* of a batch: a worker encodes them one after the other */
#define AHEAD 32u  /* batches; at most so many are between the stage and the writer */
#define PLACES 64u /* more than AHEAD, so that a place is free when its turn comes */
#define CHAIN_MAX 4200
#define ALL_BAD 10000u /* so many bad samples and no good one: it is the chain's fault */

typedef struct member {
    const char *name; /* the plan's, or the data set's */
    size_t at, len;   /* of place.bytes */
} member;

typedef struct made_row {
    uint32_t first, n; /* of place.member */
    int rc;            /* of encoding it */
    stk_error err;
} made_row;

typedef struct place { /* one batch between the stage and the writer */
    stk_text bytes;
    member *member;
    uint32_t n, cap;
    made_row row[ROWS];
} place;

typedef struct maker {
    stk_pack_run *p;
    stk_pack_fields *f;
    stk_loader *loader;
    stk_stage stage;
    place place[PLACES];
    uint64_t good, bad; /* samples of this run */
    uint32_t ahead;     /* batches; 0: as it was opened */
    int rest;           /* there are fields that no chain makes */
} maker;

/* ---- planning ---- */

static int has_16_bits(const stk_expr *e)
{
    for (uint32_t i = 0; i < e->n_calls; i++)
        for (uint32_t k = 0; !strcmp(e->call[i].name, "image") && k < e->call[i].n_args; k++)
            if (e->call[i].arg[k].value[0].type == STK_V_NAME &&
                !strcmp(e->call[i].arg[k].value[0].text, "gray16"))
                return 1;
    return 0;
}

static int chain_text(stk_pack_field *f, stk_expr *e, stk_error *err)
{
    int picture = f->encoding.encoder->pictures, typed;
    size_t len;

    if (e->n_calls < 2)
        return stk_fail(err, STK_EINVAL,
                        "field %s: encode needs something before it: image | encode(%s)", f->name,
                        f->encoding.encoder->name);
    e->n_calls--;
    typed = !strcmp(e->call[e->n_calls - 1].name, "to");
    len = stk_expr_text(e, f->chain, CHAIN_MAX - 20);
    e->n_calls++;
    if (len >= CHAIN_MAX - 20)
        return stk_fail(err, STK_ELIMIT, "field %s: the chain is too long", f->name);
    if (picture && !typed && f->encoding.encoder == &stk_encode_png && has_16_bits(e))
        memcpy(f->chain + len, " | to(hwc)", sizeof " | to(hwc)");
    else if (picture && !typed)
        memcpy(f->chain + len, " | to(u8, hwc)", sizeof " | to(u8, hwc)");
    return 0;
}

/* How the rows of a chain are written, by the step that makes them; NULL: they are bytes. */
static const char *encoding_for(const stk_expr *e)
{
    static const struct {
        const char *step, *encoding;
    } all[] = { { "image", "jpeg, 90" }, { "int", "text" },    { "float", "text" },
                { "text", "text" },      { "vocab", "text" },  { "json", "json" },
                { "ints", "json" },      { "floats", "json" }, { "npy", "npy" },
                { "raw", "raw" },        { "one_hot", "npy" }, { "multi_hot", "npy" } };
    const char *found = NULL;

    for (uint32_t k = 0; k < e->n_calls; k++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (!strcmp(e->call[k].name, all[i].step))
                found = all[i].encoding;
    return found;
}

static int no_encoding(const char *name, const char *text, const stk_expr *e, stk_error *err)
{
    const char *how = encoding_for(e);

    if (how)
        return stk_fail(err, STK_EINVAL,
                        "field %s: the last step says how it is written, as in `%.80s | "
                        "encode(%s)`",
                        name, text, how);
    return stk_fail(err, STK_EINVAL,
                    "field %s: `%.80s` are bytes as they are: a field that no chain makes is kept, "
                    "so leave it out; under another name write `%.80s | encode(raw)`",
                    name, text, text);
}

static int field_plan(stk_pack_field *f, const char *text, stk_error *err)
{
    stk_expr *e = NULL;
    int rc = stk_expr_parse(&e, text, err);

    if (rc == 0 && strcmp(e->call[e->n_calls - 1].name, "encode"))
        rc = no_encoding(f->name, text, e, err);
    if (rc == 0)
        rc = stk_encoding_plan(&f->encoding, &e->call[e->n_calls - 1], err);
    f->chain = rc == 0 ? stk_zalloc(1, CHAIN_MAX) : NULL;
    if (rc == 0)
        rc = f->chain ? chain_text(f, e, err) : stk_fail_nomem(err, CHAIN_MAX);
    stk_expr_close(&e);
    return rc;
}

/* A row of an array is what encode(npy) makes of it. */
static int row_plan(stk_pack_field *f, const char *text, stk_error *err)
{
    stk_expr *e = NULL;
    char whole[CHAIN_MAX];
    int rc = stk_expr_parse(&e, text, err),
        has = rc == 0 && !strcmp(e->call[e->n_calls - 1].name, "encode");

    stk_expr_close(&e);
    STK_TRY(rc);
    if (snprintf(whole, sizeof whole, "%s%s", text, has ? "" : " | encode(npy)") >= CHAIN_MAX)
        return stk_fail(err, STK_ELIMIT, "field %s: the chain is too long", f->name);
    return field_plan(f, whole, err);
}

static int name_check(const stk_output *all, uint32_t i, stk_error *err)
{
    const char *name = all[i].name;

    if (!name || !*name || strchr(name, '/'))
        return stk_fail(err, STK_EINVAL, "a field's name is a word without slashes, not `%.40s`",
                        name ? name : "");
    for (uint32_t k = 0; k < i; k++)
        if (!strcmp(all[k].name, name))
            return stk_fail(err, STK_EINVAL, "field %s comes twice: leave one", name);
    return 0;
}

int stk_pack_fields_plan(stk_pack_fields *f, const stk_pack_options *o, stk_error *err)
{
    const stk_output *in = o->fields;
    uint32_t n = o->n_fields;

    f->field = stk_zalloc(n + 1, sizeof *f->field);
    if (!f->field)
        return stk_fail_nomem(err, n * sizeof *f->field);
    for (uint32_t i = 0; i < n; i++) {
        STK_TRY(name_check(in, i, err));
        f->field[f->n].name = in[i].name;
        f->n++;
        if (in[i].chain && *in[i].chain)
            STK_TRY((o->arrays == STK_YES ? row_plan : field_plan)(&f->field[i], in[i].chain, err));
    }
    return 0;
}

void stk_pack_fields_fini(stk_pack_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        stk_free(f->field[i].chain);
    stk_free(f->field);
    stk_free(f->failed.s);
    *f = (stk_pack_fields){ 0 };
}

/* ---- the stage: rows to members ---- */

static int member_add(place *b, const char *name, size_t at, stk_error *err)
{
    if (b->n == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 64;
        void *more = stk_grow(b->member, b->cap * sizeof *b->member, cap * sizeof *b->member);

        if (!more)
            return stk_fail_nomem(err, cap * sizeof *b->member);
        b->member = more;
        b->cap = cap;
    }
    b->member[b->n++] = (member){ name, at, b->bytes.len - at };
    return 0;
}

/* Folders call a picture `image`: a chain for jpg, png or webp makes that one. */
static int is_picture_name(const char *name)
{
    return !strcmp(name, "jpg") || !strcmp(name, "jpeg") || !strcmp(name, "png") ||
           !strcmp(name, "webp");
}

static int is_made(const maker *m, const char *name)
{
    const char *file = stk_pack_file_field(m->p);
    int image = m->p->name ? is_picture_name(name) : file && !strcmp(name, file);

    for (uint32_t i = 0; i < m->f->n; i++)
        if (!strcmp(m->f->field[i].name, name) || (image && is_picture_name(m->f->field[i].name)))
            return 1;
    return 0;
}

/* The data set's own word for a field, which lives as long as it does. */
static const char *known_name(const stk_dataset *ds, const char *name)
{
    const char *s = NULL;

    for (uint32_t i = 0; (s = stk_dataset_field(ds, i)) && strcmp(s, name); i++)
        ;
    return s;
}

static int has_rest(const maker *m)
{
    const char *name;

    for (uint32_t i = 0; m->p->o.arrays != STK_YES && (name = stk_dataset_field(m->p->ds, i)); i++)
        if (!is_made(m, name))
            return 1;
    return 0;
}

static int is_rest(void *cookie, const char *name)
{
    return !is_made(cookie, name);
}

/* Fields that no chain makes stay as they are.  The others were read by the loader. */
static int copy_rest(const maker *m, place *b, uint64_t id, stk_error *err)
{
    const stk_field_choice choice = { is_rest, (void *)(uintptr_t)m };
    stk_sample *s = NULL;
    int rc = stk_dataset_read_some(m->p->ds, id, &choice, &s, err);
    uint32_t n = rc == 0 ? stk_sample_fields(s) : 0;

    for (uint32_t k = 0; rc == 0 && k < n; k++) {
        const void *data;
        size_t len, at = b->bytes.len;
        const char *name = stk_sample_field(s, k, &data, &len);
        stk_bytes in = { data, len };

        if (is_made(m, name) || (m->p->name && !data))
            continue;
        name = m->p->name ? stk_pack_member(m->p, k, in) : known_name(m->p->ds, name);
        if (!name || is_made(m, name))
            continue;
        rc = m->p->name ? stk_pack_value(m->p, k, in, &b->bytes, err)
                        : stk_text_put(&b->bytes, data, len, err);
        if (rc == 0)
            rc = member_add(b, name, at, err);
    }
    stk_sample_close(&s);
    return rc;
}

static int encode_row(const maker *m, const stk_batch *batch, uint32_t row, place *b,
                      stk_error *err)
{
    for (uint32_t i = 0, out = 0; i < m->f->n; i++) {
        const stk_pack_field *f = &m->f->field[i];
        stk_encode_in in;
        size_t at = b->bytes.len;

        if (!f->chain)
            continue; /* it is left out */
        in.kind = stk_batch_output_kind(batch, out);
        STK_TRY(stk_batch_row(batch, out++, row, &in.tensor));
        STK_TRY(stk_encode(&f->encoding, &in, &b->bytes, err));
        STK_TRY(member_add(b, f->name, at, err));
    }
    return m->rest ? copy_rest(m, b, stk_batch_ids(batch)[row], err) : 0;
}

/* A row that could not be made: before the stage comes to its batch. */
static void is_bad(void *cookie, const stk_batch *batch, uint32_t row, const stk_error *why)
{
    maker *m = cookie;
    made_row *r = &m->place[stk_batch_step(batch) % PLACES].row[row];

    if (stk_batch_epoch(batch))
        return;
    r->rc = why->code;
    r->err = *why;
}

/* What a sample is to blame for: it is left out, and the run goes on. */
static int is_sample_fault(int rc)
{
    return rc == STK_ECORRUPT || rc == STK_EINVAL || rc == STK_ENOTSUP || rc == STK_ELIMIT;
}

static int stage_run(void *state, stk_batch *batch, stk_ticket *ticket, stk_error *err)
{
    maker *m = state;
    place *b = &m->place[stk_batch_step(batch) % PLACES];
    const uint8_t *valid = stk_batch_valid(batch);

    (void)ticket;
    if (stk_batch_epoch(batch)) /* the loader reads ahead into a second epoch, which no one takes */
        return 0;
    b->bytes.len = 0;
    b->n = 0;
    for (uint32_t r = 0; r < stk_batch_rows(batch); r++) {
        made_row *row = &b->row[r];
        size_t before = b->bytes.len;

        row->first = b->n;
        row->n = 0;
        if (!valid[r]) /* is_bad() was called */
            continue;
        stk_error_clear(&row->err);
        row->rc = encode_row(m, batch, r, b, &row->err);
        if (row->rc < 0 && !is_sample_fault(row->rc)) {
            if (err)
                *err = row->err;
            return row->rc;
        }
        if (row->rc < 0) {
            b->bytes.len = before;
            b->n = row->first;
        }
        row->n = b->n - row->first;
    }
    return 0;
}

/* ---- samples that were left out ---- */

static int fail_line(maker *m, uint64_t id, const stk_error *why, stk_error *err)
{
    stk_text *t = &m->f->failed;
    char head[48], number[STK_PACK_KEY];
    stk_bytes key = stk_pack_key(m->p, id, number),
              text = { (const uint8_t *)why->message, strlen(why->message) };
    int n = snprintf(head, sizeof head, "{\"sample\": %" PRIu64 ", \"key\": ", id);

    if (t->len)
        STK_TRY(stk_text_put(t, ", ", 2, err));
    STK_TRY(stk_text_put(t, head, (size_t)n, err));
    STK_TRY(stk_json_quote(t, key, err));
    STK_TRY(stk_text_put(t, ", \"reason\": ", 12, err));
    STK_TRY(stk_json_quote(t, text, err));
    return stk_text_put(t, "}", 1, err);
}

/* Some of this pack was made by an earlier run, or by other parts. */
static int made_before(const stk_pack_run *p)
{
    for (uint64_t i = 0; i < p->n; i++)
        if (p->stamp.size[i] && stk_stamp_failed(&p->stamp, i) < p->first[i + 1] - p->first[i])
            return 1;
    return 0;
}

/* Of a part nothing can be concluded: all that is bad may be in it. */
static int is_chain_fault(const maker *m)
{
    return !m->good && !m->p->o.parts && (m->bad == ALL_BAD || m->bad == m->p->count) &&
           !made_before(m->p);
}

static int leave_out(maker *m, uint64_t id, const made_row *row, stk_error *err)
{
    stk_bytes key = { (const uint8_t *)row->err.key, strlen(row->err.key) };
    int rc;

    m->bad++;
    if (!is_chain_fault(m))
        return fail_line(m, id, &row->err, err);
    rc = stk_fail(err, STK_EINVAL, "none of the first %" PRIu64 " samples could be made: %s",
                  m->bad, row->err.message);
    /* one speaks for all */
    stk_error_at(err, row->err.shard[0] ? row->err.shard : NULL, row->err.offset, key);
    return rc;
}

/* ---- writing ---- */

typedef struct shard_out {
    uint64_t k;
    stk_tar_writer *tar;
    stk_sample_out out;
    stk_array_shard arrays; /* in place of the tar */
} shard_out;

static int shard_begin(maker *m, shard_out *s, uint64_t k, stk_error *err)
{
    s->k = k;
    m->f->failed.len = 0;
    stk_sample_out_begin(&s->out);
    if (m->p->o.arrays == STK_YES)
        return stk_array_shard_open(&s->arrays, m->p, m->f, k, err);
    return stk_shard_open(&s->tar, &m->p->pattern, k, m->p->o.force == STK_YES, err);
}

static int arrays_end(maker *m, shard_out *s, stk_error *err)
{
    stk_stamp_line line = { .shard = s->k, .failed = &m->f->failed };

    STK_TRY(stk_array_shard_finish(&s->arrays, &line.size, err));
    STK_TRY(stk_stamp_add(&m->p->stamp, &line, err));
    m->p->stamp.size[s->k] = line.size;
    return stk_array_shard_publish(&s->arrays, err);
}

static int shard_end(maker *m, shard_out *s, stk_error *err)
{
    int rc = m->p->o.arrays == STK_YES ? arrays_end(m, s, err)
                                       : stk_pack_publish(m->p, s->k, s->tar, &m->f->failed, err);

    stk_tar_writer_close(&s->tar);
    return rc;
}

static int put_row(maker *m, shard_out *s, stk_bytes key, const stk_part *parts, uint32_t n,
                   stk_error *err)
{
    if (m->p->o.arrays == STK_YES)
        return stk_array_shard_add(&s->arrays, key, parts, n, err);
    STK_TRY(stk_sample_out_check(&s->out, key, parts, n, err));
    return stk_sample_out_put(&s->out, s->tar, parts, n, err);
}

static int write_row(maker *m, shard_out *s, const place *b, const made_row *row, uint64_t id,
                     stk_error *err)
{
    stk_part *parts = stk_alloc((row->n + 1) * sizeof *parts);
    uint64_t bytes = 0;
    char suffix[STK_PACK_SUFFIX], number[STK_PACK_KEY];
    stk_bytes key = stk_pack_key(m->p, id, number);
    int rc = parts ? 0 : stk_fail_nomem(err, row->n * sizeof *parts);

    stk_pack_name_file(m->p, &key, NULL, suffix);
    for (uint32_t i = 0; rc == 0 && i < row->n; i++) {
        const member *x = &b->member[row->first + i];

        parts[i] = (stk_part){ .name = x->name, .data = b->bytes.s + x->at, .len = x->len };
        bytes += stk_tar_member_bytes(key.len + 1 + strlen(x->name), x->len);
    }
    if (rc == 0)
        rc = put_row(m, s, key, parts, row->n, err);
    stk_free(parts);
    if (rc == 0 && stk_pack_tell(m->p, bytes))
        rc = stk_fail(err, STK_ECLOSED, "stopped; the shards that are finished stay");
    return rc;
}

/* The rows of a batch from position `at` on, up to the end of the run of shards. */
static int take_batch(maker *m, shard_out *s, const stk_batch *batch, uint64_t *at, uint64_t end,
                      stk_error *err)
{
    const place *b = &m->place[stk_batch_step(batch) % PLACES];
    const uint8_t *valid = stk_batch_valid(batch);

    for (uint32_t r = 0; r < stk_batch_rows(batch) && *at < end; r++, ++*at) {
        uint64_t id = stk_pack_at(m->p, *at);

        if (!s->tar && !s->arrays.open)
            STK_TRY(shard_begin(m, s, s->k, err));
        if (!valid[r] || b->row[r].rc < 0)
            STK_TRY(leave_out(m, id, &b->row[r], err));
        else
            STK_TRY(write_row(m, s, b, &b->row[r], id, err));
        m->good += valid[r] && b->row[r].rc == 0;
        if (*at + 1 == m->p->first[s->k + 1]) {
            STK_TRY(shard_end(m, s, err));
            s->k++;
        }
    }
    return 0;
}

/* Batches of this run that are still to come: what the loader makes beyond them is thrown away. */
static void bound_ahead(maker *m, uint64_t at, uint64_t end)
{
    uint64_t left = (end - at + ROWS - 1) / ROWS;
    uint32_t ahead = left < AHEAD ? (uint32_t)left : AHEAD;
    stk_error err;

    if (ahead == m->ahead)
        return;
    m->ahead = ahead;
    while (stk_loader_set_ahead(m->loader, ahead, &err) < 0 && ahead > 1) /* it has fewer slots */
        ahead /= 2;
}

/* Shards first..last - 1, none of which is there. */
static int write_run(maker *m, uint64_t first, uint64_t last, stk_error *err)
{
    uint64_t at = m->p->first[first], end = m->p->first[last];
    shard_out s = { .k = first, .out = { .adapt = 1, .mtime = m->p->o.mtime } };
    int rc;

    bound_ahead(m, at, end);
    rc = stk_loader_resume(m->loader, 0, at, err);
    while (rc == 0 && at < end) {
        stk_batch *batch = NULL;

        bound_ahead(m, at, end);
        rc = stk_loader_next(m->loader, &batch, -1, err);
        if (rc == 0)
            rc = take_batch(m, &s, batch, &at, end, err);
        stk_batch_release(&batch);
    }
    atomic_fetch_add_explicit(&m->p->adapted, s.out.adapted, memory_order_relaxed);
    stk_tar_writer_close(&s.tar);
    stk_array_shard_close(&s.arrays);
    stk_sample_out_fini(&s.out);
    return rc;
}

static int write_missing(maker *m, stk_error *err)
{
    uint64_t n = m->p->n;

    for (uint64_t i = 0, end; i < n; i = end) {
        int keep = m->p->keep[i];

        for (end = i + 1; end < n && m->p->keep[end] == keep; end++)
            ;
        if (!keep)
            STK_TRY(write_run(m, i, end, err));
    }
    return 0;
}

/* ---- the whole ---- */

static int order_list(const stk_pack_run *p, uint64_t **out, stk_error *err)
{
    *out = NULL;
    if (!p->id && p->o.shuffle != STK_YES)
        return 0;
    *out = stk_alloc((p->count + 1) * sizeof **out);
    if (!*out)
        return stk_fail_nomem(err, p->count * sizeof **out);
    for (uint64_t i = 0; i < p->count; i++)
        (*out)[i] = stk_pack_at(p, i);
    return 0;
}

static int loader_open(maker *m, stk_output *outputs, uint64_t *order, stk_error *err)
{
    const stk_stage *stages[] = { &m->stage };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = ROWS,
                             .outputs = outputs,
                             .num_workers = (int32_t)m->p->o.num_workers,
                             .prefetch = AHEAD,
                             .seed = m->p->o.seed,
                             .on_error = STK_ON_ERROR_SKIP,
                             .collate = STK_COLLATE_LIST,
                             .stages = stages,
                             .n_stages = 1,
                             .select = order,
                             .n_select = order ? m->p->count : 0,
                             .log = m->p->o.log,
                             .log_cookie = m->p->o.log_cookie,
                             .registry = m->p->o.registry };

    for (uint32_t i = 0; i < m->f->n; i++)
        if (m->f->field[i].chain)
            outputs[o.n_outputs++] = (stk_output){ m->f->field[i].name, m->f->field[i].chain };
    if (!o.n_outputs)
        return stk_fail(err, STK_EINVAL,
                        "no field is made by a chain: without chains fields are copied");
    STK_TRY(stk_loader_open(&m->loader, &m->p->ds, 1, &o, err));
    stk_loader_leave_bad(m->loader, (stk_leave){ is_bad, m });
    return 0;
}

static void maker_close(maker *m)
{
    if (!m)
        return;
    stk_loader_close(&m->loader);
    for (uint32_t i = 0; i < PLACES; i++) {
        stk_free(m->place[i].bytes.s);
        stk_free(m->place[i].member);
    }
    stk_free(m);
}

int stk_pack_make(stk_pack_run *p, stk_pack_fields *f, stk_error *err)
{
    maker *m = STK_NEW(maker);
    stk_output *outputs = stk_zalloc(f->n + 1, sizeof *outputs);
    uint64_t *order = NULL;
    int rc = m && outputs ? 0 : stk_fail_nomem(err, sizeof *m);

    if (rc == 0) {
        m->p = p;
        m->f = f;
        m->stage = (stk_stage){ .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_stage),
                                .name = "encode",
                                .state = m,
                                .run = stage_run };
        m->rest = has_rest(m);
        rc = order_list(p, &order, err);
    }
    if (rc == 0)
        rc = loader_open(m, outputs, order, err);
    if (rc == 0)
        rc = write_missing(m, err);
    stk_free(order);
    stk_free(outputs);
    maker_close(m);
    return rc;
}
