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
#include "op/sound.h"
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
    c->field.fallback = stk_strdup(text ? text : number);
    return c->field.fallback ? 0 : stk_fail_nomem(err, 64);
}

/* `exact`: of pictures, 1 whatever is written.  Up to version 0.1 a chain could leave it at 0. */
void stk_chain_print_call(stk_chain *c, const char *name, uint32_t version, const stk_args *args,
                          const char *exact)
{
    c->fingerprint.all = stk_hash64(c->fingerprint.all, name, strlen(name));
    c->fingerprint.all = stk_args_hash_as(args, c->fingerprint.all + version, exact, 1);
    c->fingerprint.inexact = stk_hash64(c->fingerprint.inexact, name, strlen(name));
    c->fingerprint.inexact = stk_args_hash_as(args, c->fingerprint.inexact + version, exact, 0);
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
        c->field.name[i] = stk_strdup(stk_args_str_at(args, "names", i));
        if (!c->field.name[i])
            rc = stk_fail_nomem(err, 64);
        else
            c->field.n_names++;
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
    STK_TRY(stk_args_check(&c->field.columns, call, columns_args, err));
    stk_chain_print_call(c, "columns", 0, c->field.columns, NULL);
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

    c->fingerprint.raw = c->fingerprint.all;
    if (s->codec->parse)
        c->parse = s;
    if (can & STK_CODEC_SOUND)
        c->sound = s;
    if (can & STK_CODEC_WINDOWS)
        c->tokens = s->state;
    if (can & STK_CODEC_SEVERAL)
        c->many.pictures = s;
    if (can & STK_CODEC_VIDEO)
        c->clip = s;
    if (!(can & STK_CODEC_OPENS))
        return 0;
    c->field.open_root = ((const stk_open_state *)s->state)->root;
    if (c->n_steps > 1)
        return stk_fail(err, STK_EINVAL, "%s stands first, or right after from()", s->codec->name);
    if (c->field.fallback)
        return stk_fail(err, STK_ENOTSUP, "%s reads a file: from() takes no default before it",
                        s->codec->name);
    return 0;
}

/* ints(shape=...) of a column of lists: rows have that shape. */
static int shape_stored(stk_chain *c, const stk_spec *spec, stk_error *err)
{
    stk_field_type t = c->field.stored->type;

    if (t.ndim != 1)
        return stk_fail(err, STK_EINVAL, "shape= is for lists, and the field %s is none", t.name);
    t.ndim = spec->ndim;
    memcpy(t.shape, spec->shape, sizeof t.shape);
    return stk_stored_begin(c->field.stored, &t, &c->spec, err);
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
                        call->name, c->field.stored->type.name,
                        stk_dtype_name(c->field.stored->type.dtype));
    rc = stk_args_check(&args, call, codec->args, err);
    if (rc == 0 && !(state = stk_zalloc(1, codec->state_size)))
        rc = stk_fail_nomem(err, codec->state_size);
    if (rc == 0)
        rc = codec->plan(state, args, &spec, err);
    if (rc == 0 && stk_args_has(args, "null"))
        rc = stk_fail(err, STK_EINVAL,
                      "%s: null= is for lists that are written as text; the field %s has a type: "
                      "say stoker.open(..., null=-1)",
                      call->name, c->field.stored->type.name);
    if (rc == 0 && stk_args_has(args, "shape"))
        rc = shape_stored(c, &spec, err);
    if (rc == 0 && spec.ndim != c->spec.ndim)
        rc = stk_fail(err, STK_EINVAL, "%s is of %u dimensions, and the field %s of %u", call->name,
                      spec.ndim, c->field.stored->type.name, c->spec.ndim);
    if (rc == 0)
        stk_chain_print_call(c, call->name, codec->version, args, NULL);
    c->fingerprint.raw = c->fingerprint.all;
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

/* Numbers that are stored are turned into tokens of another number. */
static int note_counts(stk_chain *c, const stk_step *s, const stk_spec *before, stk_error *err)
{
    if (c->calls.n || c->many.tokens || c->n_turns)
        return stk_fail(err, STK_ENOTSUP, "image_tokens stands right after what reads the tokens");
    c->many.tokens = s;
    c->parsed = *before;
    c->n_turns = 1;
    if (!c->field.stored)
        return 0;
    c->parsed.dtype = c->field.stored->type.dtype;
    c->parsed.array = c->parsed.dtype_fixed = 0;
    return stk_stored_settle(c->field.stored, c->parsed.dtype, err);
}

/* Does this op make other numbers of a sample's?  `before` is what it was given. */
static int note_value_op(stk_chain *c, const stk_op *op, const stk_spec *before, stk_error *err)
{
    if (op->can & STK_OP_PACKS && (c->n_turns || c->sound) && !c->calls.n)
        return stk_fail(err, STK_ENOTSUP,
                        "%s takes numbers as they are stored: put to() after it, or leave it out",
                        op->name);
    if (!op->value || before->kind != STK_KIND_VALUE || before->array || op->can & STK_OP_COUNTS)
        return 0;
    if (c->pack)
        return stk_fail(err, STK_EINVAL, "%s stands before pack(), not after it", op->name);
    note_part(c, op);
    if (!c->n_turns++ && !c->calls.n) {
        c->parsed = *before;
        c->parsed.max_len = 0;
    }
    return 0;
}

static int is_picture(const stk_chain *c)
{
    return c->spec.kind == STK_KIND_IMAGE ||
           (c->calls.n && c->calls.first == STK_KIND_IMAGE && !c->like.how);
}

/* Of a chain that has functions before like(): nothing else may stand there. */
static int check_before_like(const stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < c->like.at; i++)
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

    if (c->like.how->view_given && c->like.keeps)
        return stk_fail(err, STK_EINVAL,
                        "like: view is for what follows a picture; a list follows the "
                        "view of its boxes");
    if (!c->like.keeps && views && !c->like.how->view_given)
        return stk_fail(err, STK_EINVAL,
                        "like: the picture has %u views: say which one these numbers follow, in an "
                        "output each: like(..., view=0)",
                        views);
    if (!c->like.keeps && c->like.how->view >= drawn)
        return stk_fail(err, STK_EINVAL, "like: view=%u: the picture has %u, counted from 0",
                        c->like.how->view, drawn);
    return 0;
}

/* What like() needs of the output that it names. */
static int note_like(stk_chain *c, const stk_step *s, stk_error *err)
{
    const stk_chain *lead = c->like.leader;

    c->like.how = s->state;
    c->like.at = c->n_steps - 1;
    c->like.after_call = c->calls.n > 0;
    if (c->like.after_call)
        STK_TRY(check_before_like(c, err));
    if (!lead && c->part)
        return 0;
    if (lead && lead->spec.picture.several)
        return stk_fail(err, STK_ENOTSUP, "like can't follow several pictures");
    if (!lead)
        return stk_fail(err, STK_EINVAL, "like works in a loader, beside the output that it names");
    while (is_picture(lead) && lead->like.leader) { /* a mask follows what its leader follows */
        stk_like_inherit(s->state, lead->like.how, lead->spec.picture.mode);
        c->like.leader_output = lead->like.leader_output;
        lead = c->like.leader = lead->like.leader;
    }
    c->like.keeps = !is_picture(lead);
    if (c->like.keeps && (c->spec.kind == STK_KIND_IMAGE || !lead->like.how ||
                          lead->like.how->points || lead->like.keeps))
        return stk_fail(err, STK_EINVAL,
                        "like names an output that is neither a picture nor boxes of one");
    if (c->like.keeps && lead->like.after_call && lead->calls.first == STK_KIND_IMAGE)
        return stk_fail(err, STK_ENOTSUP,
                        "like can't follow boxes that a function made of a picture");
    if (c->spec.kind == STK_KIND_VALUE) {
        STK_TRY(check_view(c, lead, err));
        if (!c->like.how->points && c->spec.out == STK_OUT_DENSE)
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
    c->views_at = c->like.at;
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
    if (before->array && !c->field.stored)
        return stk_fail(err, STK_ENOTSUP,
                        "call: rows of arrays have no functions: take batch_ops=, or a Python data "
                        "set");
    c->fingerprint.raw = c->fingerprint.all;
    c->touched = 0; /* what it gives is a picture of its own */
    c->tiled |= before->kind == STK_KIND_IMAGE;
    if (c->calls.n++)
        return 0;
    c->calls.first = before->kind;
    if (before->kind != STK_KIND_VALUE || c->n_turns)
        return 0;
    c->parsed = *before;
    if (c->field.stored) { /* it is copied as stored; the function makes other numbers of it */
        c->parsed.dtype = before->dtype ? before->dtype : c->field.stored->type.dtype;
        c->parsed.array = c->parsed.dtype_fixed = 0;
        s->dtype = s->dtype ? s->dtype : c->parsed.dtype;
        c->spec.dtype = s->dtype;
        return stk_stored_settle(c->field.stored, c->parsed.dtype, err);
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
    if (codec && c->calls.n)
        return stk_fail(err, STK_ENOTSUP,
                        "%s can't stand after call: put it before, or leave it out", codec->name);
    if (op && op->can & STK_OP_VIEWS)
        c->views_at = c->n_steps;
    if (c->field.stored && codec)
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
        c->fingerprint.ignored = !stk_args_bool(args, "exact");
    if (rc == 0 && op)
        rc = note_value_op(c, op, &before, err);
    if (rc == 0 && op && op->can & STK_OP_COUNTS) {
        rc = note_counts(c, s, &before, err);
        c->fingerprint.raw = c->fingerprint.all;
    }
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

/* Rows of any number of pictures: (pictures, sides of one), or all their patches. */
static int settle_several(stk_chain *c, const char *name, stk_error *err)
{
    stk_spec *s = &c->spec;

    if (s->n_leads || c->calls.n || c->like.how || c->boxes.name)
        return stk_fail(err, STK_ENOTSUP,
                        "output %s: views, like(), iou_crop() and call() are for one picture: "
                        "write image in place of pictures",
                        name);
    if (!s->picture.patch.side && (!s->picture.width || !s->picture.height))
        return stk_fail(err, STK_EINVAL,
                        "output %s: pictures of any size make no row: end with patches(), or "
                        "resize((height, width))",
                        name);
    if (s->picture.layout == STK_CHANNELS_LAST)
        return stk_fail(err, STK_ENOTSUP, "output %s: pictures take to(..., chw) or to(..., hwc)",
                        name);
    s->out = STK_OUT_DENSE;
    s->ndim = s->picture.patch.side ? 2 : 4;
    return 0;
}

static int settle(stk_chain *c, const char *name, stk_error *err)
{
    stk_spec *s = &c->spec;
    size_t count = 1;

    if (s->array && (!c->field.stored || c->pack))
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
    if (s->kind == STK_KIND_IMAGE && s->picture.several)
        return settle_several(c, name, err);
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
    for (uint32_t i = 0; i < 2 * STK_MAX_FROM && i < c->field.n_names; i += 2) {
        size_t len = strlen(c->field.name[i]);
        char *text = stk_alloc(len + sizeof ".text");

        if (!text)
            return stk_fail_nomem(err, len);
        memcpy(text, c->field.name[i], len);
        memcpy(text + len, ".text", sizeof ".text");
        memmove(c->field.name + i + 1, c->field.name + i,
                (c->field.n_names - i) * sizeof *c->field.name);
        c->field.name[i] = text;
        c->field.n_names++;
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

    const stk_codec *reader = next ? stk_registry_find(c->registry, STK_PLUGIN_CODEC, next->name)
                                   : NULL;

    if (!head->type)
        return 0;
    c->many.takes_lists = reader && reader->can & STK_CODEC_SEVERAL;
    STK_TRY(head->type(head->cookie, c, &type, err));
    if (c->field.columns) {
        c->field.name[0] = stk_strdup(type.name);
        c->field.n_names = c->field.name[0] != NULL;
        if (!c->field.name[0])
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
    c->fingerprint.raw = c->fingerprint.all;
    c->field.stored = s->state;
    return stk_stored_begin(c->field.stored, &type, &c->spec, err);
}

static int settle_stored(stk_chain *c, const char *name, stk_error *err)
{
    stk_error why;

    if (!c->spec.dtype && !c->pack)
        c->spec.dtype = c->field.stored->type.dtype;
    if (stk_stored_settle(c->field.stored, c->pack ? c->raw.dtype : c->spec.dtype, &why) < 0)
        return stk_fail(err, why.code, "output %s: %s", name, why.message);
    return 0;
}

static int plan_begin(stk_chain *c, const stk_chain_head *head, const char *name, const stk_expr *e,
                      int *text, stk_error *err)
{
    const stk_call *first = &e->call[0];

    if (!strcmp(first->name, "from")) {
        c->field.given = 1;
        STK_TRY(plan_from(c, first, err));
        if (c->spec.array && c->field.fallback)
            return stk_fail(err, STK_EINVAL, "from(): every row of an array is there: no default");
    } else if (!strcmp(first->name, "columns")) {
        c->field.given = 1;
        STK_TRY(plan_columns(c, head, first, err));
    } else {
        c->field.name[0] = stk_strdup(name);
        c->field.n_names = c->field.name[0] != NULL;
        if (!c->field.name[0])
            return stk_fail_nomem(err, 64);
    }
    first += c->field.given;
    return plan_head(c, head, first < e->call + e->n_calls ? first : NULL, text, err);
}

/* The calls after from(); of a column of texts alone, or of lists of them, as it is stored. */
static int plan_steps(stk_chain *c, const stk_expr *e, const char *name, int text, stk_error *err)
{
    const stk_call as_stored = { .name = text == TEXTS ? "json" : "text" };

    for (uint32_t i = (uint32_t)c->field.given; i < e->n_calls; i++) {
        if (!strcmp(e->call[i].name, "from") || !strcmp(e->call[i].name, "columns"))
            return stk_fail(err, STK_EINVAL, "output %s: %s() stands at the beginning of a chain",
                            name, e->call[i].name);
        STK_TRY(plan_step(c, &e->call[i], (uint8_t)i, err));
    }
    return text && c->field.given && e->n_calls == 1 ? plan_step(c, &as_stored, 1, err) : 0;
}

static int plan_chain(stk_chain *c, const stk_chain_head *head, const char *name, const char *text,
                      stk_error *err)
{
    stk_expr *e = NULL;
    int is_text = 0, rc = stk_expr_parse(&e, text, err);

    c->like.leader = head ? head->leader : NULL;
    c->like.leader_output = head ? head->leader_output : 0;
    c->part = head && head->part;

    if (rc == 0)
        rc = plan_begin(c, head, name, e, &is_text, err);
    if (rc == 0)
        rc = plan_steps(c, e, name, is_text, err);
    if (rc == 0 && c->field.stored && !c->calls.n)
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
        if (codec->can & STK_CODEC_UNPACKS && c->field.n_unpackers < STK_MAX_UNPACKERS)
            c->field.unpacker[c->field.n_unpackers++] = (stk_unpacker){ codec,
                                                                        strlen(codec->suffix) };
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
    for (uint32_t i = 0; i < c->field.n_names; i++)
        stk_free(c->field.name[i]);
    stk_args_close(&c->field.columns);
    stk_free(c->field.fallback);
    stk_free((void *)(uintptr_t)c->boxes.name);
    stk_free(c->field.fallback_row);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        stk_step *s = &c->step[i];

        if (s->codec && s->codec->fini && s->state)
            s->codec->fini(s->state);
        stk_segment_fini(s);
        stk_free(s->state);
    }
    memset(c, 0, sizeof *c);
}

double stk_chain_seconds(const stk_chain *c, double seconds, uint64_t sample)
{
    for (const stk_step *s = c->sound + 1; s < c->step + c->n_steps; s++)
        seconds = stk_sound_seconds(s->op, s->state, seconds, sample);
    return seconds;
}
