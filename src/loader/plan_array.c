/* SPDX-License-Identifier: Apache-2.0 */
/* plan_array.c - chains of arrays: which array feeds which output, as which type, how many
 * samples that makes.  All that can be wrong with them is found here. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "loader/parts.h"

/* ---- which array ---- */

/* Of a data set with one array it is that one, unless the chain names another. */
static const stk_array *only_array(const stk_dataset *ds)
{
    stk_field_type first, more;

    if (!ds->ops->type(ds, 0, &first) || ds->ops->type(ds, 1, &more))
        return NULL;
    return ds->ops->immediate.array(ds, first.name);
}

static int bind(const stk_chain *c, const char *output, const stk_dataset *ds,
                const stk_array **out, stk_error *err)
{
    char have[96] = "";
    const char *name;
    size_t at = 0;

    *out = NULL;
    for (uint32_t i = 0; i < c->field.n_names && !*out; i++)
        *out = ds->ops->immediate.array(ds, c->field.name[i]);
    if (!*out && !c->field.given)
        *out = only_array(ds);
    if (*out)
        return 0;
    for (uint32_t i = 0; (name = stk_dataset_field(ds, i)) && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", name);
    return stk_fail(err, STK_EINVAL, "output %s: there is no array %s: the arrays are %s", output,
                    c->field.name[0], have);
}

static int check_tokens(const stk_chain *c, const char *output, const stk_array *a, stk_error *err)
{
    if (a->ndim)
        return stk_fail(err, STK_EINVAL,
                        "output %s: tokens are one number each; the rows of %s have %u dimensions",
                        output, a->name, a->ndim);
    if (a->dtype == STK_F16 || a->dtype == STK_BF16 || a->dtype == STK_F32 || a->dtype == STK_F64)
        return stk_fail(err, STK_EINVAL, "output %s: tokens are whole numbers; %s has type %s",
                        output, a->name, stk_dtype_name(a->dtype));
    for (uint32_t i = 0; (c->tokens->parted || c->tokens->pack) && i < a->n_parts; i++)
        if (!a->part[i].docs)
            return stk_fail(err, STK_EINVAL,
                            "output %s: %s, and these files know none: Megatron's .bin with an "
                            ".idx does",
                            output,
                            c->tokens->pack ? "pack= puts documents into rows"
                                            : "separator= stands between documents");
    return 0;
}

static int plan_out(stk_plan_chains *out, const stk_plan_data *data, uint32_t d, uint32_t i,
                    stk_error *err)
{
    const char *output = out->out[i].name;
    stk_array_out *o = &out->arrays->out[d * out->arrays->n_out + i];
    stk_chain *c = &out->chain[i];
    stk_spec *s = &c->spec;
    const stk_array *a;

    STK_TRY(bind(c, output, data->set[d], &a, err));
    o->array = a;
    if (c->tokens) {
        STK_TRY(check_tokens(c, output, a, err));
    } else if (!d) {
        s->ndim = a->ndim;
        memcpy(s->shape, a->shape, sizeof a->shape);
    } else if (s->ndim != a->ndim || memcmp(s->shape, a->shape, a->ndim * sizeof *a->shape)) {
        return stk_fail(err, STK_EINVAL, "output %s: the rows of data set %u have another shape",
                        output, d);
    }
    s->dtype = s->dtype ? s->dtype : a->dtype;
    if (s->dtype == a->dtype)
        return 0;
    o->convert = stk_convert_find(stk_cpu_level(), a->dtype, s->dtype);
    return o->convert ? 0
                      : stk_fail(err, STK_EINVAL,
                                 "output %s: %s is not made of %s: round it when you save it",
                                 output, stk_dtype_name(s->dtype), stk_dtype_name(a->dtype));
}

/* ---- windows ---- */

/* What all chains have to agree in, or none of them may have it. */
static int agree(stk_plan_chains *out, stk_error *err)
{
    stk_array_plan *p = out->arrays;
    const stk_tokens *t0 = out->chain[0].tokens;
    uint64_t max_shift = 0;

    for (uint32_t i = 0; i < p->n_out; i++) {
        const stk_tokens *t = out->chain[i].tokens;
        const char *what = !t != !t0                       ? "tokens"
                           : !t                            ? NULL
                           : t->block != t0->block         ? "block"
                           : t->stride != t0->stride       ? "stride"
                           : t->random != t0->random       ? "random"
                           : t->share != t0->share         ? "share"
                           : t->pack != t0->pack           ? "pack"
                           : t->repack != t0->repack       ? "repack"
                           : t->parted != t0->parted       ? "separator"
                           : t->separator != t0->separator ? "separator"
                                                           : NULL;

        if (what)
            return stk_fail(err, STK_EINVAL,
                            "outputs %s and %s differ in %s: a sample is one window, so all token "
                            "chains of a loader agree in everything but shift, give, pad and to()",
                            out->out[0].name, out->out[i].name, what);
        if (t && t->shift > max_shift)
            max_shift = t->shift;
    }
    if (!t0)
        return 0;
    p->cut = *t0;
    p->span = t0->block + max_shift;
    return 0;
}

/* Where parts begin when every document is one token longer. */
static int part_stream(const stk_array *a, stk_token_stream *s, stk_error *err)
{
    s->first = stk_zalloc((size_t)a->n_parts + 1, sizeof *s->first);
    if (!s->first)
        return stk_fail_nomem(err, a->n_parts * sizeof *s->first);
    for (uint32_t i = 0; i < a->n_parts; i++)
        s->first[i + 1] = s->first[i] + a->part[i].docs->tokens + a->part[i].docs->documents;
    s->tokens = s->first[a->n_parts];
    return 0;
}

static int plan_streams(stk_plan_chains *out, stk_error *err)
{
    stk_array_plan *p = out->arrays;
    uint64_t most = 0, all = 0;

    p->stream = stk_zalloc(p->n_data, sizeof *p->stream);
    if (!p->stream)
        return stk_fail_nomem(err, p->n_data * sizeof *p->stream);
    for (uint32_t d = 0; d < p->n_data; d++) {
        const stk_array *a = p->out[d * p->n_out].array;
        stk_token_stream *s = &p->stream[d];

        for (uint32_t i = 1; i < p->n_out; i++)
            if (p->out[d * p->n_out + i].array != a)
                return stk_fail(err, STK_EINVAL,
                                "outputs %s and %s take tokens of two arrays: a window is of one",
                                out->out[0].name, out->out[i].name);
        s->tokens = a->rows;
        if (p->cut.pack)
            continue;
        if (p->cut.parted)
            STK_TRY(part_stream(a, s, err));
        s->windows = s->tokens < p->span ? 0 : (s->tokens - p->span) / p->cut.stride + 1;
        out->start[d + 1] = out->start[d] + s->windows;
        most = s->tokens > most ? s->tokens : most;
        all += s->windows;
    }
    if (p->cut.pack)
        return stk_plan_documents_make(out, err);
    if (!all && !out->megatron) /* which can go over the documents several times */
        return stk_fail(err, STK_EINVAL,
                        "there are %" PRIu64 " tokens, and a window takes %" PRIu64 ": lower block",
                        most, p->span);
    return 0;
}

/* Rows: as many as the arrays that are used have. */
static int plan_rows(stk_plan_chains *out, stk_error *err)
{
    const stk_array_plan *p = out->arrays;

    for (uint32_t d = 0; d < p->n_data; d++) {
        const stk_array *a = p->out[d * p->n_out].array;

        for (uint32_t i = 1; i < p->n_out; i++) {
            const stk_array *b = p->out[d * p->n_out + i].array;

            if (a->rows != b->rows)
                return stk_fail(err, STK_EINVAL,
                                "%s has %" PRIu64 " rows and %s has %" PRIu64
                                ": a sample has a row of each",
                                a->name, a->rows, b->name, b->rows);
        }
        out->start[d + 1] = out->start[d] + a->rows;
    }
    return 0;
}

/* ---- memory ---- */

static int settle(stk_plan_chains *out, uint32_t i, stk_error *err)
{
    const stk_array_plan *p = out->arrays;
    stk_out_plan *o = &out->out[i];
    stk_chain *c = &out->chain[i];
    size_t size = stk_dtype_size(c->spec.dtype), count = 1;
    uint64_t fit;

    for (uint32_t k = 0; k < c->spec.ndim; k++)
        if (__builtin_mul_overflow(count, (size_t)c->spec.shape[k], &count))
            count = SIZE_MAX / size;
    if (__builtin_mul_overflow(count, size, &c->row_bytes) || c->row_bytes > PTRDIFF_MAX)
        return stk_fail(err, STK_ELIMIT, "output %s: its rows are too large", o->name);
    if (p->cut.share) {
        if (c->spec.dtype != out->chain[0].spec.dtype)
            return stk_fail(err, STK_EINVAL, "outputs %s and %s share memory and differ in type",
                            out->out[0].name, o->name);
        o->shared = 1;
        o->skip = (size_t)c->tokens->shift * size;
        c->row_bytes = (size_t)p->span * size;
    }
    if (p->cut.parted && size < sizeof fit &&
        stk_convert_c(STK_I64, c->spec.dtype)(&fit, &p->cut.separator, 1))
        return stk_fail(err, STK_EINVAL, "output %s: separator %" PRId64 " is not a %s", o->name,
                        p->cut.separator, stk_dtype_name(c->spec.dtype));
    o->spec = c->spec;
    o->row_bytes = c->row_bytes;
    return p->cut.pack ? stk_plan_documents_settle(out, i, err) : 0;
}

int stk_plan_array_make(stk_plan_chains *out, const stk_plan_data *data, stk_error *err)
{
    uint32_t n = out->n_out, n_data = data->n;
    stk_array_plan *p = STK_NEW(stk_array_plan);

    out->arrays = p;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->n_out = n;
    p->n_data = n_data;
    p->out = stk_zalloc((size_t)n * n_data, sizeof *p->out);
    if (!p->out)
        return stk_fail_nomem(err, n * sizeof *p->out);
    for (uint32_t d = 0; d < n_data; d++)
        for (uint32_t i = 0; i < n; i++)
            STK_TRY(plan_out(out, data, d, i, err));
    STK_TRY(agree(out, err));
    STK_TRY(p->cut.block ? plan_streams(out, err) : plan_rows(out, err));
    for (uint32_t i = 0; i < n; i++) {
        STK_TRY(settle(out, i, err));
        p->sample_bytes += (p->cut.block ? p->cut.block : 1) * p->out[i].array->row_bytes;
    }
    if (p->cut.share)
        p->sample_bytes = p->span * p->out[0].array->row_bytes;
    return 0;
}

void stk_plan_array_close(stk_array_plan **pp)
{
    stk_array_plan *p = *pp;

    *pp = NULL;
    if (!p)
        return;
    for (uint32_t d = 0; p->stream && d < p->n_data; d++)
        stk_free(p->stream[d].first);
    stk_free(p->stream);
    stk_plan_documents_fini(p);
    stk_free(p->out);
    stk_free(p);
}
