/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - text -> steps with their states; names -> fields.
 *
 * All that can be wrong with a chain is found here, before the first sample: unknown names,
 * arguments, an order of steps that makes no sense, fields that no sample has. */
#include "chain/chain.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/expr.h"
#include "base/registry.h"
#include "codec/codec.h"
#include "op/open.h"
#include "chain/segment.h"
#include "op/view.h"

_Static_assert(STK_MAX_STEPS > STK_EXPR_CALLS, "every call may be a step, and one more is");

static const stk_arg from_args[] = { { "names", STK_ARG_NAMES, NULL, "fields to try, in order" },
                                     { "default", STK_ARG_ANY, "",
                                       "what a sample that has none of them has instead" },
                                     { 0 } };

static const stk_arg columns_args[] = { { "names", STK_ARG_NAMES, NULL,
                                          "columns of numbers, or patterns: 'x*'" },
                                        { "default", STK_ARG_FLOAT, "", "what stands for a null" },
                                        { 0 } };

/* The default as the text that a field would have. */
static int plan_default(stk_chain *c, const stk_args *args, stk_error *err)
{
    const char *text = stk_args_str(args, "default");
    char number[40];

    if (stk_args_count(args, "default") != 1)
        return stk_fail(err, STK_EINVAL, "from(): default is one number or one quoted text");
    snprintf(number, sizeof number, "%.17g", stk_args_f64(args, "default"));
    c->fallback = stk_strdup(text ? text : number);
    return c->fallback ? 0 : stk_fail_nomem(err, 64);
}

/* `exact`: of pictures, 1 whatever is written.  Up to version 0.1 a chain could leave it at 0. */
void stk_chain_print_call(stk_chain *c, const char *name, uint32_t version, const stk_args *args,
                          const char *exact)
{
    c->print = stk_hash64(c->print, name, strlen(name));
    c->print = stk_args_hash_as(args, c->print + version, exact, 1);
    c->old_print = stk_hash64(c->old_print, name, strlen(name));
    c->old_print = stk_args_hash_as(args, c->old_print + version, exact, 0);
}

static int plan_from(stk_chain *c, const stk_call *call, stk_error *err)
{
    stk_args *args = NULL;
    int rc = stk_args_check(&args, call, from_args, err);

    for (uint32_t i = 0; rc == 0 && i < stk_args_count(args, "names"); i++) {
        if (i == STK_MAX_FROM) {
            rc = stk_fail(err, STK_EINVAL, "from() takes at most %d names", STK_MAX_FROM);
            break;
        }
        c->from[i] = stk_strdup(stk_args_str_at(args, "names", i));
        if (!c->from[i])
            rc = stk_fail_nomem(err, 64);
        else
            c->n_from++;
    }
    if (rc == 0 && stk_args_has(args, "default"))
        rc = plan_default(c, args, err);
    if (rc == 0)
        stk_chain_print_call(c, "from", 0, args, NULL);
    stk_args_close(&args);
    return rc;
}

static int plan_columns(stk_chain *c, const stk_chain_head *head, const stk_call *call,
                        stk_error *err)
{
    if (!head->type)
        return stk_fail(err, STK_EINVAL,
                        "columns() takes columns of a table (Parquet, Arrow) together");
    STK_TRY(stk_args_check(&c->columns, call, columns_args, err));
    stk_chain_print_call(c, "columns", 0, c->columns, NULL);
    return 0;
}

int stk_chain_unknown(const stk_registry *r, const char *name, stk_error *err)
{
    const char *near = stk_chain_other_name(r, name), *batch = stk_chain_batch_name(name);

    if (batch)
        return stk_fail(err, STK_EINVAL,
                        "no step is called `%s`: %s works on whole batches, outside of chains: "
                        "batch_ops=[\"%s\"]",
                        name, name, batch);
    if (!near)
        near = stk_registry_nearest(r, STK_PLUGIN_OP, name);
    if (!near)
        near = stk_registry_nearest(r, STK_PLUGIN_CODEC, name);
    if (near)
        return stk_fail(err, STK_EINVAL,
                        "no step is called `%s`: did you mean `%s`? (`stoker ops` lists them)",
                        name, near);
    return stk_fail(err, STK_EINVAL, "no step is called `%s`: `stoker ops` lists them", name);
}

/* What the pipe does for a codec, as its flags say. */
static int note_codec(stk_chain *c, const stk_step *s, stk_error *err)
{
    uint32_t can = s->codec->can;

    c->raw_print = c->print;
    if (s->codec->parse)
        c->parse = s;
    if (can & STK_CODEC_SOUND)
        c->sound = s;
    if (can & STK_CODEC_WINDOWS)
        c->tokens = s->state;
    if (can & STK_CODEC_VIDEO)
        c->clip = s;
    if (!(can & STK_CODEC_OPENS))
        return 0;
    c->open_root = ((const stk_open_state *)s->state)->root;
    if (c->n_steps > 1)
        return stk_fail(err, STK_EINVAL, "%s stands first, or right after from()", s->codec->name);
    if (c->fallback)
        return stk_fail(err, STK_ENOTSUP, "%s reads a file: from() takes no default before it",
                        s->codec->name);
    return 0;
}

/* ints(shape=...) of a column of lists: rows have that shape. */
static int shape_stored(stk_chain *c, const stk_spec *spec, stk_error *err)
{
    stk_field_type t = c->stored->type;

    if (t.ndim != 1)
        return stk_fail(err, STK_EINVAL, "shape= is for lists, and the field %s is none", t.name);
    t.ndim = spec->ndim;
    memcpy(t.shape, spec->shape, sizeof t.shape);
    return stk_stored_begin(c->stored, &t, &c->spec, err);
}

/* int, float, ints and floats of a field that has a type say which type is wanted. */
static int plan_number(stk_chain *c, const stk_call *call, const stk_codec *codec, stk_error *err)
{
    stk_spec spec = { .kind = STK_KIND_BYTES, .out = STK_OUT_BYTES };
    stk_args *args = NULL;
    void *state = NULL;
    int rc;

    if (!(codec->can & STK_CODEC_NUMBERS) || c->n_steps > 1 || c->spec.dtype_fixed)
        return stk_fail(err, STK_EINVAL,
                        "%s reads bytes; the field %s has a type (%s) and comes as it is stored: "
                        "leave it out, and turn its type with to()",
                        call->name, c->stored->type.name, stk_dtype_name(c->stored->type.dtype));
    rc = stk_args_check(&args, call, codec->args, err);
    if (rc == 0 && !(state = stk_zalloc(1, codec->state_size)))
        rc = stk_fail_nomem(err, codec->state_size);
    if (rc == 0)
        rc = codec->plan(state, args, &spec, err);
    if (rc == 0 && stk_args_has(args, "null"))
        rc = stk_fail(err, STK_EINVAL,
                      "%s: null= is for lists that are written as text; the field %s has a type: "
                      "say stoker.open(..., null=-1)",
                      call->name, c->stored->type.name);
    if (rc == 0 && stk_args_has(args, "shape"))
        rc = shape_stored(c, &spec, err);
    if (rc == 0 && spec.ndim != c->spec.ndim)
        rc = stk_fail(err, STK_EINVAL, "%s is of %u dimensions, and the field %s of %u", call->name,
                      spec.ndim, c->stored->type.name, c->spec.ndim);
    if (rc == 0)
        stk_chain_print_call(c, call->name, codec->version, args, NULL);
    c->raw_print = c->print;
    c->spec.dtype = spec.dtype;
    stk_free(state);
    stk_args_close(&args);
    return rc;
}

/* A part of a recording that nothing has changed yet need not be read whole. */
static void note_part(stk_chain *c, const stk_op *op)
{
    stk_step *s = &c->step[c->n_steps - 1];

    if (c->sound && op->can & STK_OP_PART && (s - 1 == c->sound || s[-1].early))
        s->early = 1;
}

/* Does this op make other numbers of a sample's?  `before` is what it was given. */
static int note_value_op(stk_chain *c, const stk_op *op, const stk_spec *before, stk_error *err)
{
    if (op->can & STK_OP_PACKS && (c->n_turns || c->sound) && !c->n_calls)
        return stk_fail(err, STK_ENOTSUP,
                        "%s takes numbers as they are stored: put to() after it, or leave it out",
                        op->name);
    if (!op->value || before->kind != STK_KIND_VALUE || before->array)
        return 0;
    if (c->pack)
        return stk_fail(err, STK_EINVAL, "%s stands before pack(), not after it", op->name);
    note_part(c, op);
    if (!c->n_turns++ && !c->n_calls) {
        c->parsed = *before;
        c->parsed.max_len = 0;
    }
    return 0;
}

static int is_picture(const stk_chain *c)
{
    return c->spec.kind == STK_KIND_IMAGE ||
           (c->n_calls && c->called == STK_KIND_IMAGE && !c->like);
}

/* Of a chain that has functions before like(): nothing else may stand there. */
static int check_before_like(const stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < c->like_at; i++)
        if (c->step[i].op && c->step[i].op->can & (STK_OP_VIEW | STK_OP_ACT | STK_OP_CHOOSE))
            return stk_fail(err, STK_EINVAL,
                            "like gives all the geometry: %s can't stand before it",
                            c->step[i].op->name);
    return 0;
}

/* Numbers follow one view of a picture that has several. */
static int check_view(const stk_chain *c, const stk_chain *lead, stk_error *err)
{
    uint32_t views = stk_spec_lead(&lead->spec, STK_LEAD_VIEWS),
             drawn = stk_spec_draws(&lead->spec);

    if (c->like->view_given && c->keeps)
        return stk_fail(err, STK_EINVAL,
                        "like: view is for what follows a picture; a list follows the "
                        "view of its boxes");
    if (!c->keeps && views && !c->like->view_given)
        return stk_fail(err, STK_EINVAL,
                        "like: the picture has %u views: say which one these numbers follow, in an "
                        "output each: like(..., view=0)",
                        views);
    if (!c->keeps && c->like->view >= drawn)
        return stk_fail(err, STK_EINVAL, "like: view=%u: the picture has %u, counted from 0",
                        c->like->view, drawn);
    return 0;
}

/* What like() needs of the output that it names. */
static int note_like(stk_chain *c, const stk_step *s, stk_error *err)
{
    const stk_chain *lead = c->leader;

    c->like = s->state;
    c->like_at = c->n_steps - 1;
    c->called_first = c->n_calls > 0;
    if (c->called_first)
        STK_TRY(check_before_like(c, err));
    if (!lead && c->part)
        return 0;
    if (!lead)
        return stk_fail(err, STK_EINVAL, "like works in a loader, beside the output that it names");
    while (is_picture(lead) && lead->leader) { /* a mask follows what its leader follows */
        stk_like_inherit(s->state, lead->like, lead->spec.picture.mode);
        c->leader_output = lead->leader_output;
        lead = c->leader = lead->leader;
    }
    c->keeps = !is_picture(lead);
    if (c->keeps &&
        (c->spec.kind == STK_KIND_IMAGE || !lead->like || lead->like->points || lead->keeps))
        return stk_fail(err, STK_EINVAL,
                        "like names an output that is neither a picture nor boxes of one");
    if (c->keeps && lead->called_first && lead->called == STK_KIND_IMAGE)
        return stk_fail(err, STK_ENOTSUP,
                        "like can't follow boxes that a function made of a picture");
    if (c->spec.kind == STK_KIND_VALUE) {
        STK_TRY(check_view(c, lead, err));
        if (!c->like->points && c->spec.out == STK_OUT_DENSE)
            return stk_fail(err, STK_EINVAL,
                            "like drops boxes: rows need any number of them: shape=(-1, 4)");
        return 0;
    }
    if (!c->clip != !lead->clip || (c->clip && stk_spec_lead(&c->spec, STK_LEAD_FRAMES) !=
                                                   stk_spec_lead(&lead->spec, STK_LEAD_FRAMES)))
        return stk_fail(err, STK_EINVAL,
                        "like: a clip follows a clip of as many frames, and a picture a picture");
    c->spec.n_leads = lead->spec.n_leads;
    memcpy(c->spec.lead, lead->spec.lead, sizeof c->spec.lead);
    c->views_at = c->like_at;
    c->spec.picture.width = lead->spec.picture.width;
    c->spec.picture.height = lead->spec.picture.height;
    c->spec.out = lead->spec.picture.width && lead->spec.picture.height ? STK_OUT_DENSE
                                                                        : STK_OUT_LIST;
    return 0;
}

/* A function of the program's: what is made for the first of them, and how. */
static int note_call(stk_chain *c, const stk_spec *before, stk_error *err)
{
    stk_call_step *s = c->step[c->n_steps - 1].state;

    if (c->pack)
        return stk_fail(err, STK_EINVAL, "call stands before pack(), not after it");
    if (c->clip)
        return stk_fail(err, STK_ENOTSUP,
                        "call does not work on clips: take batch_ops=, or a Python data set");
    if (before->array && !c->stored)
        return stk_fail(err, STK_ENOTSUP,
                        "call: rows of arrays have no functions: take batch_ops=, or a Python data "
                        "set");
    c->raw_print = c->print;
    c->touched = 0; /* what it gives is a picture of its own */
    c->tiled |= before->kind == STK_KIND_IMAGE;
    if (c->n_calls++)
        return 0;
    c->called = before->kind;
    if (before->kind != STK_KIND_VALUE || c->n_turns)
        return 0;
    c->parsed = *before;
    if (c->stored) { /* it is copied as it is stored; the function makes other numbers of it */
        c->parsed.dtype = before->dtype ? before->dtype : c->stored->type.dtype;
        c->parsed.array = c->parsed.dtype_fixed = 0;
        s->dtype = s->dtype ? s->dtype : c->parsed.dtype;
        c->spec.dtype = s->dtype;
        return stk_stored_settle(c->stored, c->parsed.dtype, err);
    }
    return 0;
}

static int plan_step(stk_chain *c, const stk_call *call, uint8_t number, stk_error *err)
{
    const stk_codec *codec = stk_registry_find(c->registry, STK_PLUGIN_CODEC, call->name);
    const stk_op *op = codec ? NULL : stk_registry_find(c->registry, STK_PLUGIN_OP, call->name);
    stk_step *s = &c->step[c->n_steps];
    stk_spec before = c->spec;
    stk_args *args = NULL;
    int rc, pictures;

    if (!codec && !op)
        return stk_chain_unknown(c->registry, call->name, err);
    if (codec && c->n_calls)
        return stk_fail(err, STK_ENOTSUP,
                        "%s can't stand after call: put it before, or leave it out", codec->name);
    if (op && op->can & STK_OP_VIEWS)
        c->views_at = c->n_steps;
    if (c->stored && codec)
        return plan_number(c, call, codec, err);
    if (op && op->can & (STK_OP_ACT | STK_OP_CHOOSE | STK_OP_VIEW)) {
        c->n_steps++; /* also where it fails: what it took is freed with the chain */
        return stk_segment_plan(c, s, call, number, err);
    }
    if (c->spec.array && codec && (!(codec->can & STK_CODEC_WINDOWS) || c->pack))
        return stk_fail(err, STK_EINVAL,
                        "%s reads fields of samples; rows of arrays come as they are stored: leave "
                        "it out, and turn their type with to()",
                        call->name);
    rc = stk_args_check(&args, call, codec ? codec->args : op->args, err);
    if (rc == 0) {
        *s = (stk_step){ .codec = codec,
                         .op = op,
                         .number = number,
                         .state = stk_zalloc(1, codec ? codec->state_size : op->state_size) };
        c->n_steps++;
        if (s->state && op && op->cookie)
            memcpy(s->state, &op->cookie, sizeof op->cookie);
        rc = !s->state ? stk_fail_nomem(err, 64)
             : codec   ? codec->plan(s->state, args, &c->spec, err)
                       : op->plan(s->state, args, &c->spec, err);
    }
    pictures = codec && codec->can & STK_CODEC_PICTURES;
    if (rc == 0)
        stk_chain_print_call(c, call->name, codec ? codec->version : op->version, args,
                             pictures ? "exact" : NULL);
    if (rc == 0 && pictures && stk_args_has(args, "exact"))
        c->inexact = !stk_args_bool(args, "exact");
    if (rc == 0 && op)
        rc = note_value_op(c, op, &before, err);
    if (rc == 0 && op && op->can & STK_OP_CALL)
        rc = note_call(c, &before, err);
    if (rc == 0 && op && op->can & STK_OP_LIKE)
        rc = note_like(c, s, err);
    if (rc == 0 && op && op->can & STK_OP_PACKS) {
        c->pack = s->state;
        c->raw = before;
    }
    if (rc == 0 && codec)
        rc = note_codec(c, s, err);
    stk_args_close(&args);
    return rc;
}

/* Numbers that a function made of each view. */
static int leads_of_numbers(stk_spec *s, const char *name, stk_error *err)
{
    if (s->out != STK_OUT_DENSE || s->ndim + s->n_leads >= STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL,
                        "output %s: views have numbers of one shape: say shape= in call()", name);
    stk_spec_put_leads(s);
    return 0;
}

static int settle(stk_chain *c, const char *name, stk_error *err)
{
    stk_spec *s = &c->spec;
    size_t count = 1;

    if (s->array && (!c->stored || c->pack))
        return 0;
    if (s->kind == STK_KIND_BYTES && c->n_steps == 0)
        return stk_fail(
            err, STK_EINVAL,
            "output %s: the chain says where from, but not what to make of it: add `image`, "
            "`int`, `text` or `bytes`",
            name);
    if (s->kind == STK_KIND_BYTES)
        return 0;
    if (s->kind == STK_KIND_VALUE && s->n_leads)
        STK_TRY(leads_of_numbers(s, name, err));
    if (s->kind == STK_KIND_VALUE && s->out == STK_OUT_LIST) { /* each row says its own shape */
        s->out = STK_OUT_DENSE;
        return 0;
    }
    if (s->kind == STK_KIND_IMAGE) {
        s->out = STK_OUT_DENSE;
        s->ndim = s->picture.mode == STK_MODE_INDEX || s->picture.patch.side ? 2 : 3;
        if ((!s->picture.width || !s->picture.height) && s->n_leads && !c->part)
            return stk_fail(err, STK_EINVAL,
                            "output %s: %s have one size: end with a crop or a resize to "
                            "(height, width)",
                            name, c->clip ? "frames" : "views");
        if (!s->picture.width || !s->picture.height)
            return 0;
        s->ndim = stk_spec_picture_shape(s, s->shape);
        stk_spec_put_leads(s);
        if (s->picture.channels_first) {
            s->shape[s->n_leads] = s->shape[s->n_leads - 1];
            s->shape[s->n_leads - 1] = s->picture.mode ? 1 : 3;
        }
    }
    for (uint32_t i = 0; i < s->ndim; i++)
        count *= (size_t)s->shape[i];
    c->row_bytes = count * stk_dtype_size(s->dtype);
    return 0;
}

/* Decimals are asked for as text: NAME.text, where a data set has it, comes before NAME. */
static int take_texts(stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < 2 * STK_MAX_FROM && i < c->n_from; i += 2) {
        size_t len = strlen(c->from[i]);
        char *text = stk_alloc(len + sizeof ".text");

        if (!text)
            return stk_fail_nomem(err, len);
        memcpy(text, c->from[i], len);
        memcpy(text + len, ".text", sizeof ".text");
        memmove(c->from + i + 1, c->from + i, (c->n_from - i) * sizeof *c->from);
        c->from[i] = text;
        c->n_from++;
    }
    return 0;
}

enum { TEXTS = 2 }; /* JSON lists of texts */

/* Where the field has a type, the first step is the one that copies it.  *text: 1: it is bytes that
 * are text, or TEXTS. */
static int plan_head(stk_chain *c, const stk_chain_head *head, const stk_call *next, int *text,
                     stk_error *err)
{
    stk_field_type type = { 0 };
    stk_step *s = c->step;

    if (!head->type)
        return 0;
    STK_TRY(head->type(head->cookie, c, &type, err));
    if (c->columns) {
        c->from[0] = stk_strdup(type.name);
        c->n_from = c->from[0] != NULL;
        if (!c->from[0])
            return stk_fail_nomem(err, strlen(type.name));
    }
    *text = type.text && type.ndim ? TEXTS : type.text;
    if (type.decimal && next && !strcmp(next->name, "text"))
        return take_texts(c, err);
    if (!type.dtype)
        return 0;
    *s = (stk_step){ .codec = &stk_codec_stored, .state = STK_NEW(stk_stored) };
    if (!s->state)
        return stk_fail_nomem(err, sizeof(stk_stored));
    c->n_steps = 1;
    c->parse = s;
    c->raw_print = c->print;
    c->stored = s->state;
    return stk_stored_begin(c->stored, &type, &c->spec, err);
}

static int settle_stored(stk_chain *c, const char *name, stk_error *err)
{
    stk_error why;

    if (!c->spec.dtype && !c->pack)
        c->spec.dtype = c->stored->type.dtype;
    if (stk_stored_settle(c->stored, c->pack ? c->raw.dtype : c->spec.dtype, &why) < 0)
        return stk_fail(err, why.code, "output %s: %s", name, why.message);
    return 0;
}

static int plan_begin(stk_chain *c, const stk_chain_head *head, const char *name, const stk_expr *e,
                      int *text, stk_error *err)
{
    const stk_call *first = &e->call[0];

    if (!strcmp(first->name, "from")) {
        c->from_given = 1;
        STK_TRY(plan_from(c, first, err));
        if (c->spec.array && c->fallback)
            return stk_fail(err, STK_EINVAL, "from(): every row of an array is there: no default");
    } else if (!strcmp(first->name, "columns")) {
        c->from_given = 1;
        STK_TRY(plan_columns(c, head, first, err));
    } else {
        c->from[0] = stk_strdup(name);
        c->n_from = c->from[0] != NULL;
        if (!c->from[0])
            return stk_fail_nomem(err, 64);
    }
    first += c->from_given;
    return plan_head(c, head, first < e->call + e->n_calls ? first : NULL, text, err);
}

/* The calls after from(); of a column of texts alone, or of lists of them, as it is stored. */
static int plan_steps(stk_chain *c, const stk_expr *e, const char *name, int text, stk_error *err)
{
    const stk_call as_stored = { .name = text == TEXTS ? "json" : "text" };

    for (uint32_t i = (uint32_t)c->from_given; i < e->n_calls; i++) {
        if (!strcmp(e->call[i].name, "from") || !strcmp(e->call[i].name, "columns"))
            return stk_fail(err, STK_EINVAL, "output %s: %s() stands at the beginning of a chain",
                            name, e->call[i].name);
        STK_TRY(plan_step(c, &e->call[i], (uint8_t)i, err));
    }
    return text && c->from_given && e->n_calls == 1 ? plan_step(c, &as_stored, 1, err) : 0;
}

static int plan_chain(stk_chain *c, const stk_chain_head *head, const char *name, const char *text,
                      stk_error *err)
{
    stk_expr *e = NULL;
    int is_text = 0, rc = stk_expr_parse(&e, text, err);

    c->leader = head ? head->leader : NULL;
    c->leader_output = head ? head->leader_output : 0;
    c->part = head && head->part;

    if (rc == 0)
        rc = plan_begin(c, head, name, e, &is_text, err);
    if (rc == 0)
        rc = plan_steps(c, e, name, is_text, err);
    if (rc == 0 && c->stored && !c->n_calls)
        rc = settle_stored(c, name, err);
    if (rc == 0)
        rc = settle(c, name, err);
    for (uint32_t i = 0; rc == 0 && i < c->n_steps; i++)
        c->extracts |= c->step[i].codec && c->step[i].codec->extract;
    stk_expr_close(&e);
    if (rc < 0)
        stk_chain_fini(c);
    return rc;
}

static void begin(stk_chain *c, stk_registry *r)
{
    const stk_codec *codec;

    memset(c, 0, sizeof *c);
    stk_registry_seal(r);
    c->registry = r;
    for (size_t i = 0; (codec = stk_registry_get(r, STK_PLUGIN_CODEC, i)); i++)
        if (codec->can & STK_CODEC_UNPACKS && c->n_unpackers < STK_MAX_UNPACKERS)
            c->unpacker[c->n_unpackers++] = (stk_unpacker){ codec, strlen(codec->suffix) };
}

int stk_chain_plan_field(stk_chain *c, const stk_chain_head *head, const char *name,
                         const char *text, stk_error *err)
{
    begin(c, head->registry);
    c->spec.kind = STK_KIND_BYTES;
    c->spec.out = STK_OUT_BYTES;
    return plan_chain(c, head, name, text, err);
}

int stk_chain_plan(stk_chain *c, stk_registry *r, const char *name, const char *text,
                   stk_error *err)
{
    return stk_chain_plan_field(c, &(stk_chain_head){ .registry = r }, name, text, err);
}

int stk_chain_plan_rows(stk_chain *c, stk_registry *r, const char *name, const char *text,
                        stk_error *err)
{
    begin(c, r);
    c->spec.kind = STK_KIND_VALUE;
    c->spec.out = STK_OUT_DENSE;
    c->spec.array = 1;
    return plan_chain(c, &(stk_chain_head){ 0 }, name, text, err);
}

void stk_chain_fini(stk_chain *c)
{
    for (uint32_t i = 0; i < c->n_from; i++)
        stk_free(c->from[i]);
    stk_args_close(&c->columns);
    stk_free(c->fallback);
    stk_free((void *)(uintptr_t)c->boxes);
    stk_free(c->fallback_row);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        stk_step *s = &c->step[i];

        if (s->codec && s->codec->fini && s->state)
            s->codec->fini(s->state);
        stk_segment_fini(s);
        stk_free(s->state);
    }
    memset(c, 0, sizeof *c);
}

static int no_such_field(const stk_chain *c, const char *output, const stk_dataset *ds,
                         stk_error *err)
{
    char wanted[96] = "", have[96] = "";
    const char *field;
    size_t at = 0;
    uint32_t i;

    for (i = 0; i < c->n_from && at < sizeof wanted; i++)
        at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", i ? ", " : "", c->from[i]);
    for (i = 0, at = 0; (field = stk_dataset_field(ds, i)) && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", field);
    return stk_fail(err, STK_EINVAL, "output %s: no sample has a field %s: the fields are %s",
                    output, wanted, have);
}

/* A compressed field, unless it is asked for by its whole name: then it is taken as it is. */
static const stk_codec *unpack_of(const stk_chain *c, const char *name)
{
    size_t len = strlen(name);

    for (uint32_t k = 0; k < c->n_unpackers; k++) {
        const stk_unpacker *u = &c->unpacker[k];

        if (len <= u->len || strcmp(name + len - u->len, u->codec->suffix) != 0)
            continue;
        for (uint32_t i = 0; i < c->n_from; i++)
            if (!strcmp(c->from[i], name))
                return NULL;
        return u->codec;
    }
    return NULL;
}

static int find_field(const stk_chain *c, const stk_dataset *ds, uint32_t schema, const char *name,
                      stk_binding *out)
{
    int found = ds->ops->find(ds, schema, name);
    char packed[256];

    out->unpack = found >= 0 ? unpack_of(c, name) : NULL;
    for (uint32_t k = 0; found < 0 && k < c->n_unpackers; k++)
        if ((size_t)snprintf(packed, sizeof packed, "%s%s", name, c->unpacker[k].codec->suffix) <
            sizeof packed) {
            found = ds->ops->find(ds, schema, packed);
            out->unpack = found >= 0 ? unpack_of(c, packed) : NULL;
        }
    out->field = found >= 0 ? (uint16_t)found : UINT16_MAX;
    return found >= 0;
}

static const char *const kinds[] = { "jpg", "jpeg", "png", "webp" };

uint32_t stk_picture_word(const char *name)
{
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i]))
            return 1u << (i ? i : 1); /* jpg and jpeg are one */
    return 0;
}

/* One rule for names of pictures: jpg and jpeg are one word; `image` is a picture of any kind; and
 * a picture that is called `image`, as in folders, goes by its kind too. */
static int find_picture(const stk_chain *c, const stk_dataset *ds, uint32_t schema,
                        const char *name, stk_binding *out)
{
    size_t n = sizeof kinds / sizeof *kinds, k = 0;
    int found = 0;

    for (size_t i = 0; i < n && !strcmp(name, "image") && !found; i++)
        found = find_field(c, ds, schema, kinds[i], out);
    while (k < n && strcmp(name, kinds[k]) != 0)
        k++;
    if (!found && k < 2)
        found = find_field(c, ds, schema, kinds[1 - k], out);
    if (!found && k < n)
        found = find_field(c, ds, schema, "image", out);
    return found;
}

int stk_chain_bind(const stk_chain *c, const char *output, const stk_dataset *ds, stk_binding **out,
                   stk_error *err)
{
    uint32_t schemas = ds->ops->schemas(ds), s, i, bound = 0;
    stk_binding *map = stk_alloc((schemas + 1) * sizeof *map);

    *out = map;
    if (!map)
        return stk_fail_nomem(err, schemas * sizeof *map);
    for (s = 0; s < schemas; s++) {
        int found = 0;

        map[s] = (stk_binding){ .field = UINT16_MAX };
        for (i = 0; i < c->n_from && !found; i++)
            found = find_field(c, ds, s, c->from[i], &map[s]);
        for (i = 0; i < c->n_from && !found; i++)
            found = find_picture(c, ds, s, c->from[i], &map[s]);
        if (!found && !c->from_given && ds->can & STK_DATA_ONE_FIELD) {
            map[s].field = 0;
            found = 1;
        }
        bound += (uint32_t)found;
    }
    if (!bound && c->fallback)
        return STK_END;
    if (!bound && stk_dataset_len(ds)) {
        stk_free(map);
        *out = NULL;
        return no_such_field(c, output, ds, err);
    }
    return 0;
}
