/* SPDX-License-Identifier: Apache-2.0 */
/* shard_columns.c - columns('x*') of shards whose fields are texts: cells of CSV, members of JSON
 * lines, features of TFRecord.
 *
 * A row's fields are close together, so the range from the first to the last that is asked for is
 * read, and each text in it becomes a float64.  Where they are is the index's to say, field by
 * field; which field of a sample a column is, is found once per schema. */
#include <string.h>

#include "base/mem.h"
#include "base/numeral.h"
#include "data/shard_data.h"

#define TEXT_MAX 1024u       /* bytes that a number is unpacked to */
#define SPAN_MAX (64u << 20) /* bytes from the first to the last */
#define LOOK 64u             /* samples that say whether a column has numbers */
#define NO_FIELD UINT16_MAX

enum { OTHER, NUMBER, NOTHING }; /* what a text is */

typedef struct piece { /* bytes of a shard */
    uint64_t at;
    stk_bytes bytes;
} piece;

/* ---- a value ---- */

static int parse(stk_bytes text, double *out)
{
    stk_bytes s = stk_trimmed(text);

    if (!s.len || (s.len == 4 && !memcmp(s.data, "null", 4)))
        return NOTHING;
    if ((s.len == 4 && !memcmp(s.data, "true", 4)) || (s.len == 5 && !memcmp(s.data, "false", 5))) {
        *out = s.len == 4;
        return NUMBER;
    }
    return stk_number_f64(s, out) == 1 ? NUMBER : OTHER;
}

/* Where field k is. */
static int place_of(const stk_shard_data *s, const stk_entry *e, uint32_t k, stk_place *out,
                    stk_error *err)
{
    stk_entry with = *e;
    stk_field f;

    with.state = s->state;
    *out = (stk_place){ 0 };
    STK_TRY(stk_index_field(s->index, e, k, &f, err));
    return s->format->locate(&with, &f, out, err);
}

/* As parse(); the place's bytes are in `in`. */
static int value_of(const stk_shard_data *s, const stk_place *p, const piece *in, double *out,
                    stk_error *err)
{
    uint8_t text[TEXT_MAX];
    size_t len = sizeof text;
    stk_bytes raw;

    if (p->here.data)
        return parse(p->here, out);
    if (p->name.data || p->shared || p->unpacked > sizeof text)
        return OTHER;
    if (p->offset < in->at || p->len > in->bytes.len || p->offset - in->at > in->bytes.len - p->len)
        return stk_fail(
            err, STK_ECORRUPT,
            "the index says that a column is outside its row; run: stoker index --force ...");
    raw = (stk_bytes){ in->bytes.data + (p->offset - in->at), (size_t)p->len };
    if (!p->unpacked)
        return parse(raw, out);
    STK_TRY(s->format->unpack(raw, text, &len, err));
    return parse((stk_bytes){ text, len }, out);
}

/* ---- which columns ---- */

/* What sample i has in this field, by its name: as parse(), or an error. */
static int look_at(const stk_shard_data *s, uint64_t i, const char *name, stk_error *err)
{
    uint8_t bytes[TEXT_MAX];
    stk_file *f = NULL;
    stk_place p;
    stk_entry e;
    double v;
    int k, rc = 0;

    STK_TRY(stk_index_entry(s->index, i, &e, err));
    k = stk_index_schema_find(s->index, e.schema, name);
    if (k < 0)
        return NOTHING;
    STK_TRY(place_of(s, &e, (uint32_t)k, &p, err));
    if (!p.here.data && p.len > sizeof bytes)
        return OTHER;
    if (!p.here.data && !p.name.data) {
        STK_TRY(stk_shards_acquire(s->shards, e.shard, &f, err));
        rc = stk_file_read(f, p.offset, bytes, (size_t)p.len, err);
        stk_shards_release(s->shards, e.shard);
    }
    return rc < 0 ? rc : value_of(s, &p, &(piece){ p.offset, { bytes, (size_t)p.len } }, &v, err);
}

/* A text is a number, unless a pattern is to pass over those that are none in the first samples. */
static int type_of(const stk_dataset *d, uint32_t field, int wild, stk_field_type *out)
{
    const stk_shard_data *s = (const stk_shard_data *)d;
    uint64_t n = stk_index_samples(s->index);
    int what = NOTHING;
    stk_error none;

    *out = (stk_field_type){ .name = stk_index_name(s->index, field), .dtype = STK_F64 };
    for (uint64_t i = 0; out->name && wild && what == NOTHING && i < n && i < LOOK; i++)
        what = look_at(s, i, out->name, &none);
    if (wild && what != NUMBER)
        out->dtype = 0;
    return out->name != NULL;
}

int stk_shard_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err)
{
    stk_shard_data *s = (stk_shard_data *)(uintptr_t)d;

    if (!s->format->locate || !s->format->unpack)
        return stk_fail(err, STK_ENOTSUP,
                        "columns() takes columns of tables and of lines (CSV, JSON) together, not "
                        "fields of %s shards",
                        s->format->name);
    if (stk_index_names(s->index) >= STK_GATHER_FIRST)
        return stk_fail(err, STK_ELIMIT,
                        "columns() takes columns of data with fewer than %u fields",
                        STK_GATHER_FIRST);
    return stk_gather_add(&s->gathers, d, type_of, ask, out, err);
}

/* ---- a row ---- */

/* By column: the number of the field in samples of this schema. */
static int fields_of(const stk_shard_data *s, const stk_gather *g, uint32_t schema,
                     const uint16_t **out, stk_error *err)
{
    uint16_t *have = atomic_load_explicit(&g->by_schema[schema], memory_order_acquire), *mine;

    *out = have;
    if (have)
        return 0;
    mine = stk_alloc(g->n * sizeof *mine);
    if (!mine)
        return stk_fail_nomem(err, g->n * sizeof *mine);
    for (uint32_t c = 0; c < g->n; c++) {
        int k = stk_index_schema_find(s->index, schema,
                                      stk_index_name(s->index, g->column[c].field));

        mine[c] = k < 0 ? NO_FIELD : (uint16_t)k;
    }
    if (atomic_compare_exchange_strong_explicit(&g->by_schema[schema], &have, mine,
                                                memory_order_acq_rel, memory_order_acquire))
        have = mine;
    else
        stk_free(mine);
    *out = have;
    return 0;
}

int stk_shard_gather_locate(const stk_shard_data *s, const stk_gather *g, const stk_entry *e,
                            stk_place *out, stk_error *err)
{
    uint64_t first = UINT64_MAX, end = 0;
    const uint16_t *field;

    STK_TRY(fields_of(s, g, e->schema, &field, err));
    for (uint32_t c = 0; c < g->n; c++) {
        stk_place p;

        if (field[c] == NO_FIELD)
            continue;
        STK_TRY(place_of(s, e, field[c], &p, err));
        if (p.here.data || p.name.data || p.shared || p.offset > INT64_MAX || p.len > INT64_MAX)
            continue;
        first = p.offset < first ? p.offset : first;
        end = p.offset + p.len > end ? p.offset + p.len : end;
    }
    if (first >= end) { /* nothing is read of it, but a place has bytes */
        first = e->offset;
        end = first + 1;
    }
    if (end - first > SPAN_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "columns(): its columns are %" PRIu64 " bytes apart in the file",
                        end - first);
    out->offset = first;
    out->len = end - first;
    out->unpacked = (uint64_t)g->n * g->size;
    out->row = e->row << 16 | g->number;
    return 0;
}

int stk_shard_gather_unpack(const stk_shard_data *s, stk_unpack_job *job, stk_error *err)
{
    const stk_gather *g = stk_gather_number(&s->gathers, stk_shard_gathered(job->place));
    piece in = { job->place->offset, job->raw };
    const uint16_t *field;
    stk_shard_info shard;
    stk_entry e;

    STK_TRY(stk_index_shard(s->index, job->shard, &shard, err));
    STK_TRY(stk_index_entry(s->index, shard.first + (job->place->row >> 16), &e, err));
    STK_TRY(fields_of(s, g, e.schema, &field, err));
    for (uint32_t c = 0; c < g->n; c++) {
        int what = NOTHING;
        double v = 0;
        stk_place p;

        if (field[c] != NO_FIELD) {
            STK_TRY(place_of(s, &e, field[c], &p, err));
            what = value_of(s, &p, &in, &v, err);
        }
        if (what < 0)
            return what;
        if (what == OTHER)
            return stk_fail(err, STK_ECORRUPT, "its column %.60s is not a number",
                            stk_index_name(s->index, g->column[c].field));
        memcpy((uint8_t *)job->dst + (size_t)c * sizeof v,
               what == NUMBER ? (const void *)&v : g->empty, sizeof v);
    }
    job->len = (size_t)g->n * g->size;
    return 0;
}
