/* SPDX-License-Identifier: Apache-2.0 */
/* plan_chains.c - every output's chain compiled, its rows shaped, its fields found in every data
 * set. */
#include <stddef.h>
#include <string.h>

#include "kern/tile.h"
#include "loader/parts.h"
#include "loader/plan_field.h"
#include "loader/ragged.h"
#include "op/sound.h"
#include "op/image_tokens.h"
#include "op/like.h"
#include "video/clip_codec.h"

static int check_kinds(const stk_plan_data *data, const stk_loader_options *o, stk_error *err)
{
    if (data->immediate && (o->exclude || (o->shuffle == STK_SHUFFLE_BLOCK && !o->order)))
        return stk_needs_index(data->set[0], o->exclude ? "exclude" : "shuffle=\"block\"", err);
    if (data->immediate && o->on_error == STK_ON_ERROR_SKIP)
        return stk_fail(
            err, STK_ENOTSUP,
            "on_error=\"skip\" is for samples that are decoded each by itself; a row of "
            "an array that can't be had means that the file is damaged or of another "
            "type: leave it at \"raise\"");
    return 0;
}

/* Pictures go to a GPU as records, in one buffer per batch. */
static void as_records(stk_out_plan *p)
{
    p->gpu_made = 1;
    p->gpu_bytes = p->row_bytes;
    p->row_bytes = 0;
    if (!p->spec.picture.several) /* else they are beside the records */
        p->note_bytes = sizeof(stk_pic_share) * stk_spec_times(&p->spec);
}

/* Lists of bytes are for pictures alone. */
static int check_list(const stk_plan_chains *out, uint32_t i, const stk_binding *b,
                      const stk_dataset *ds, stk_error *err)
{
    stk_field_type type;

    if (out->chain[i].many.pictures || b->field == UINT16_MAX || !ds->ops->type ||
        !ds->ops->type(ds, b->field, &type) || !type.refused || !type.ndim)
        return 0;
    return stk_fail(err, STK_ENOTSUP, "output %s: column %.60s: not supported because %s",
                    out->out[i].name, type.name, type.refused);
}

/* A field that is bytes elsewhere has a type in data set d: it becomes what the chain reads. */
static int write_typed(stk_plan_chains *out, uint32_t i, uint32_t d, const stk_plan_data *data,
                       stk_error *err)
{
    const stk_chain *c = &out->chain[i];
    stk_binding *b = out->binding[d][i];
    const stk_dataset *ds = data->set[d];
    stk_field_type type;
    stk_written *w;
    stk_error why;

    if (c->field.stored || b->field == UINT16_MAX || !ds->ops->type(ds, b->field, &type) ||
        !type.dtype)
        return 0;
    if (!out->written)
        out->written = stk_zalloc((size_t)data->n * out->n_out, sizeof *out->written);
    if (!out->written)
        return stk_fail_nomem(err, out->n_out * sizeof *out->written);
    w = &out->written[d * out->n_out + i];
    if (stk_written_plan(w, &type, c->n_steps ? c->step[0].codec : NULL, &why) < 0)
        return stk_fail(err, why.code, "output %s: %s", out->out[i].name, why.message);
    b->unpack = &stk_codec_written;
    b->state = w;
    return 0;
}

/* Which field feeds output i, in every data set. */
static int bind(stk_plan_chains *out, uint32_t i, const stk_plan_data *data, stk_error *err)
{
    const stk_chain *c = &out->chain[i];
    const char *name = out->out[i].name;
    int bound = 0, rc;

    for (uint32_t d = 0; d < data->n; d++) {
        const stk_dataset *ds = data->set[d];

        if (c->field.open_root && !(ds->can & STK_DATA_NAMES_FILES))
            return stk_fail(err, STK_ENOTSUP,
                            "output %s: open reads files that rows of a manifest (.csv, .jsonl) "
                            "or of a table (Parquet, Arrow, HDF5, MDS) name, and this is %s",
                            name, ds->ops->kind(ds));
        rc = stk_chain_bind(c, name, ds, &out->binding[d][i], err);
        if (rc < 0)
            return rc;
        bound |= rc != STK_END;
        if (rc == 0)
            STK_TRY(check_list(out, i, out->binding[d][i], ds, err));
        if (rc == 0)
            STK_TRY(write_typed(out, i, d, data, err));
    }
    if (!bound)
        return stk_fail(err, STK_EINVAL,
                        "output %s: no sample has a field %s, so that all would get the default: "
                        "check its name",
                        name, c->field.name[0]);
    return 0;
}

/* The output that like() of output i names; n_out: it has none. */
static int leader_of(const stk_loader_options *o, uint32_t i, uint32_t *lead, stk_error *err)
{
    char name[128];

    *lead = o->n_outputs;
    if (!o->outputs[i].chain || !stk_like_leader(o->outputs[i].chain, name, sizeof name))
        return 0;
    for (uint32_t k = 0; k < o->n_outputs; k++)
        if (o->outputs[k].name && !strcmp(o->outputs[k].name, name))
            *lead = k;
    if (*lead == o->n_outputs)
        return stk_fail(err, STK_EINVAL,
                        "output %s: like(%s) names no output: give the name of the picture's",
                        o->outputs[i].name, name);
    return *lead != i ? 0
                      : stk_fail(err, STK_EINVAL,
                                 "output %s: like(%s) names itself: give the name of the picture's",
                                 o->outputs[i].name, name);
}

/* The functions that output i names. */
static int find_functions(stk_chain *c, const char *name, const stk_caller *caller, stk_error *err)
{
    for (uint32_t i = 0; c->calls.n && i < c->n_steps; i++) {
        stk_call_step *s = c->step[i].state;

        if (!c->step[i].op || !(c->step[i].op->can & STK_OP_CALL))
            continue;
        if (!caller->call || !caller->find)
            return stk_fail(
                err, STK_EINVAL,
                "output %s: there is no function for call(%.80s): in Python give it to a "
                "chain that is built, stoker.image().call(function)",
                name, s->function);
        STK_TRY(caller->find(caller->cookie, s->function, s->which, &s->number, err));
    }
    return 0;
}

static int plan_output(stk_plan_chains *out, uint32_t i, const stk_plan_input *in,
                       const stk_plan *so_far, stk_error *err)
{
    uint32_t lead;
    const stk_output *asked = &in->o->outputs[i];
    stk_out_plan *p = &out->out[i];
    stk_chain *c = &out->chain[i];
    stk_chain_head head;

    if (!asked->name || !asked->chain)
        return stk_fail(err, STK_EINVAL, "output %u needs a name and a chain", i);
    p->name = stk_strdup(asked->name);
    if (!p->name)
        return stk_fail_nomem(err, 64);
    if (so_far->data.immediate)
        return stk_chain_plan_rows(c, so_far->policy.registry, p->name, asked->chain, err);
    head = (stk_chain_head){ so_far->policy.registry, stk_plan_field_type,
                             (void *)(uintptr_t)&so_far->data, NULL, 0 };
    STK_TRY(leader_of(in->o, i, &lead, err));
    if (lead < in->o->n_outputs) {
        head.leader = &out->chain[lead];
        head.leader_output = lead;
    }
    STK_TRY(stk_chain_plan_field(c, &head, p->name, asked->chain, err));
    STK_TRY(stk_ragged_plan(out, i, in, so_far->ranks.rows, err));
    STK_TRY(find_functions(c, p->name, &so_far->policy.caller, err));
    if (c->fingerprint.ignored)
        stk_log_line(&so_far->policy.log, STK_LOG_WARN,
                     "output %s: image(exact=false) has no effect: pixels are always exact; leave "
                     "it out",
                     p->name);
    p->spec = c->spec;
    p->row_bytes = c->row_bytes;
    p->clip_frames = c->clip ? ((const stk_clip_how *)c->clip->state)->frames : 0;
    if (stk_plan_is_gpu_made(&so_far->gpu, c, p))
        as_records(p);
    out->open_root[i] = c->field.open_root;
    if (c->field.fallback && c->field.stored)
        STK_TRY(stk_plan_field_default(c, &out->fallback[i], err));
    else if (c->many.pictures) /* none at all */
        out->fallback[i] = (stk_bytes){ (const uint8_t *)"", 0 };
    else if (c->field.fallback)
        out->fallback[i] = (stk_bytes){ (const uint8_t *)c->field.fallback,
                                        strlen(c->field.fallback) };
    return bind(out, i, &so_far->data, err);
}

static int make_room(stk_plan_chains *out, uint32_t n_out, const stk_plan_data *data,
                     stk_error *err)
{
    out->chain = stk_zalloc(n_out, sizeof *out->chain);
    out->out = stk_zalloc(n_out, sizeof *out->out);
    out->open_root = stk_zalloc(n_out, sizeof *out->open_root);
    out->fallback = stk_zalloc(n_out, sizeof *out->fallback);
    out->binding = stk_zalloc(data->n, sizeof *out->binding);
    out->start = stk_zalloc((size_t)data->n + 1, sizeof *out->start);
    if (!out->chain || !out->out || !out->open_root || !out->fallback || !out->binding ||
        !out->start)
        return stk_fail_nomem(err, n_out * sizeof *out->chain);
    out->n_out = n_out;
    for (uint32_t d = 0; d < data->n; d++) {
        out->start[d + 1] = out->start[d] + stk_dataset_len(data->set[d]);
        out->binding[d] = stk_zalloc(n_out, sizeof *out->binding[d]);
        if (!out->binding[d])
            return stk_fail_nomem(err, n_out * sizeof *out->binding[d]);
    }
    return 0;
}

/* Output i, and before it those that it follows. */
static int plan_after_leaders(stk_plan_chains *out, uint32_t i, const stk_plan_input *in,
                              const stk_plan *so_far, stk_error *err)
{
    uint32_t n = in->o->n_outputs, at = i, lead = n;

    if (out->out[i].name)
        return 0;
    if (!so_far->data.immediate)
        STK_TRY(leader_of(in->o, i, &lead, err));
    for (uint32_t k = lead; k < n;) { /* a walk longer than all outputs goes round */
        STK_TRY(leader_of(in->o, k, &k, err));
        if (k == i || at++ > i + n)
            return stk_fail(err, STK_EINVAL,
                            "output %s: like leads back to itself: one of them must be drawn by "
                            "itself",
                            in->o->outputs[i].name);
    }
    if (lead < n)
        STK_TRY(plan_after_leaders(out, lead, in, so_far, err));
    return plan_output(out, i, in, so_far, err);
}

/* The boxes that a picture's chain looks at: those that follow this picture. */
static int find_boxes(stk_plan_chains *out, uint32_t i, stk_error *err)
{
    stk_chain *c = &out->chain[i];

    if (!c->boxes.name)
        return 0;
    for (uint32_t k = 0; k < out->n_out; k++) {
        const stk_chain *b = &out->chain[k];

        if (strcmp(out->out[k].name, c->boxes.name))
            continue;
        if (b->spec.kind == STK_KIND_IMAGE || !b->like.how || b->like.how->points ||
            b->like.leader != c)
            break;
        c->boxes.output = k;
        return 0;
    }
    return stk_fail(err, STK_EINVAL,
                    "output %s: iou_crop(%s) names no output of boxes that are like(%s)",
                    out->out[i].name, c->boxes.name, out->out[i].name);
}

/* One time for a clip, or one for each of its frames. */
static int check_times(const char *name, const stk_clip_how *how, stk_error *err)
{
    if (how->n_at == 1)
        return 0;
    if (how->at_number)
        return stk_fail(err, STK_EINVAL,
                        "output %s: video(first=%s) has %u numbers, and a clip begins once", name,
                        how->at, how->n_at);
    if (how->n_offsets || how->fps > 0 || how->stride != 1)
        return stk_fail(err, STK_EINVAL,
                        "output %s: video(at=%s) has %u times, one for each frame: leave %s out",
                        name, how->at, how->n_at,
                        how->n_offsets ? "offsets="
                        : how->fps > 0 ? "fps="
                                       : "stride=");
    if (how->n_at != how->frames)
        return stk_fail(err, STK_EINVAL,
                        "output %s: video(at=%s) has %u times, and the clip %u frames: write "
                        "frames=%u",
                        name, how->at, how->n_at, how->frames, how->n_at);
    return 0;
}

/* The output that has the time of output i's clip. */
static int find_time(stk_plan_chains *out, uint32_t i, stk_error *err)
{
    stk_clip_how *how = out->chain[i].clip ? out->chain[i].clip->state : NULL;

    if (!how || !how->at[0])
        return 0;
    for (uint32_t k = 0; k < out->n_out; k++) {
        const stk_chain *c = &out->chain[k];

        if (strcmp(out->out[k].name, how->at))
            continue;
        if (!c->parse || c->n_turns || c->calls.n || c->pack || !c->row_bytes)
            break;
        how->at_output = k;
        how->n_at = (uint32_t)(c->row_bytes / stk_dtype_size(c->spec.dtype));
        return check_times(out->out[i].name, how, err);
    }
    return stk_fail(err, STK_EINVAL,
                    "output %s: video(%s=%s) names no output of one number per sample, as "
                    "{\"%s\": \"from(%s) | float\"} is, nor of one number per frame",
                    out->out[i].name, how->at_number ? "first" : "at", how->at, how->at, how->at);
}

/* The output whose clip says which part of a recording output i has. */
static int find_clip(stk_plan_chains *out, uint32_t i, stk_error *err)
{
    stk_chain *c = &out->chain[i];
    const stk_step *part = c->sound ? c->sound + 1 : NULL;
    const char *name = NULL;

    for (const stk_step *s = c->step; c->sound && s < c->step + c->n_steps; s++)
        if (s->op && s->op->can & STK_OP_PART && stk_part_clip(s->state)) {
            name = stk_part_clip(s->state);
            if (s != part || (s + 1 < c->step + c->n_steps && s[1].early))
                return stk_fail(err, STK_EINVAL,
                                "output %s: part(of=%s) stands right after sound, and is the only "
                                "part",
                                out->out[i].name, name);
        }
    if (!name)
        return 0;
    for (uint32_t k = 0; k < out->n_out; k++)
        if (!strcmp(out->out[k].name, name) && out->chain[k].clip) {
            c->like.clip = &out->chain[k];
            c->like.clip_output = k;
            out->chain[k].like.heard = 1;
            return 0;
        }
    return stk_fail(err, STK_EINVAL,
                    "output %s: part(of=%s) names no output of clips: {\"%s\": \"from(mp4) | "
                    "video(frames=16) | ...\"}",
                    out->out[i].name, name, name);
}

/* The output whose pictures the tokens of output i stand for. */
static int find_pictures(stk_plan_chains *out, uint32_t i, stk_error *err)
{
    stk_image_tokens *t = out->chain[i].many.tokens ? out->chain[i].many.tokens->state : NULL;

    if (!t)
        return 0;
    for (t->output = 0; t->output < out->n_out; t->output++)
        if (!strcmp(out->out[t->output].name, t->pictures))
            break;
    if (t->output < out->n_out && out->chain[t->output].many.pictures &&
        out->chain[t->output].spec.picture.patch.side)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "output %s: image_tokens(%s) names no output of pictures that are cut into "
                    "patches: {\"%s\": \"pictures | resize_to_patches(qwen2_vl) | "
                    "patches(qwen2_vl) | to(f32)\"}",
                    out->out[i].name, t->pictures, t->pictures);
}

/* What moves pixels is the same: views, and warps among the actions. */
static int same_geometry(const stk_draws *a, const stk_draws *b)
{
    uint32_t i = 0, k = 0;

    if (a->n_passes != b->n_passes)
        return 0;
    for (uint32_t n = 0; n < a->n_passes; n++)
        if (memcmp(&a->view[n], &b->view[n], offsetof(stk_view, split)) != 0)
            return 0;
    for (;; i++, k++) {
        while (i < a->n_actions && !stk_act_moves(a->action[i].code))
            i++;
        while (k < b->n_actions && !stk_act_moves(b->action[k].code))
            k++;
        if (i == a->n_actions || k == b->n_actions)
            return i == a->n_actions && k == b->n_actions;
        if (memcmp(a->action[i].v.f, b->action[k].v.f, 8 * sizeof(float)) != 0)
            return 0;
    }
}

#define DRAWS 32

/* 1: chance moves its pixels.  Found by drawing, as p=1 and ranges of one number leave nothing to
 * it. */
static int draws_geometry(const stk_chain *c)
{
    static const uint32_t size[2] = { 1500, 1100 };
    stk_draws first, other;

    if (c->boxes.name)
        return 1;
    for (uint32_t i = 0; i < DRAWS; i++) {
        stk_draws *d = i ? &other : &first;

        d->boxes = NULL;
        stk_chain_draw_through(c, &(stk_address){ .seed = 14, .position = i }, size, d);
        if (stk_draws_last(d)->refused)
            return 1; /* of this size; nothing is known */
        if (i && !same_geometry(&first, &other))
            return 1;
    }
    return 0;
}

static void warn_of(const stk_plan_chains *out, const stk_log *log, uint32_t k, uint32_t i)
{
    const char *a = out->out[k].name, *b = out->out[i].name;
    int both = draws_geometry(&out->chain[k]) && draws_geometry(&out->chain[i]);

    stk_log_line(log, STK_LOG_WARN,
                 both ? "outputs %s and %s draw their geometry apart: if they belong together, "
                        "write like(%s) in the "
                        "chain of %s"
                      : "output %s draws its geometry and the mask %s does not follow it: write "
                        "like(%s) in the chain "
                        "of %s",
                 a, b, a, b);
}

/* Two pictures of a sample that draw apart are mostly a mistake: a mask no longer fits its
 * picture. */
static void warn_of_two(const stk_plan_chains *out, const stk_log *log)
{
    for (uint32_t i = 0; i < out->n_out; i++)
        for (uint32_t k = 0; k < out->n_out; k++) {
            const stk_chain *a = &out->chain[k], *b = &out->chain[i];

            if (k == i || a->spec.kind != STK_KIND_IMAGE || b->spec.kind != STK_KIND_IMAGE ||
                a->like.leader || b->like.leader || !strcmp(a->field.name[0], b->field.name[0]) ||
                !draws_geometry(a) ||
                !(b->spec.picture.mode == STK_MODE_INDEX || (k < i && draws_geometry(b))))
                continue;
            warn_of(out, log, k, i);
            return;
        }
}

/* 1: the chains name pictures of kinds that they don't share, as from(jpg) and from(png). */
static int other_kinds(const stk_chain *a, const stk_chain *b)
{
    uint32_t x = 0, y = 0;

    for (uint32_t i = 0; i < a->field.n_names; i++)
        x |= stk_picture_word(a->field.name[i]);
    for (uint32_t i = 0; i < b->field.n_names; i++)
        y |= stk_picture_word(b->field.name[i]);
    return x && y && !(x & y);
}

/* In a folder every picture is a sample: a mask that goes by its kind would be the picture
 * itself. */
static int check_kinds_apart(const stk_plan_chains *out, const stk_plan_data *data, stk_error *err)
{
    for (uint32_t d = 0; d < data->n; d++)
        for (uint32_t i = 0; i < out->n_out; i++)
            for (uint32_t k = 0; k < i; k++) {
                const stk_chain *a = &out->chain[k], *b = &out->chain[i];
                const stk_binding *x = out->binding[d][k], *y = out->binding[d][i];

                if (x && y && x->field != UINT16_MAX && x->field == y->field && other_kinds(a, b))
                    return stk_fail(err, STK_EINVAL,
                                    "outputs %s and %s: from(%s) and from(%s) are the same file "
                                    "here, as every picture of a folder is a sample: open it with "
                                    "pairs=True (pairs://FOLDER) to make 1.jpg and 1.png one",
                                    out->out[k].name, out->out[i].name, a->field.name[0],
                                    b->field.name[0]);
            }
    return 0;
}

int stk_plan_chains_make(stk_plan_chains *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err)
{
    const stk_loader_options *o = in->o;

    STK_TRY(check_kinds(&so_far->data, o, err));
    STK_TRY(make_room(out, o->n_outputs, &so_far->data, err));
    out->megatron = o->shuffle == STK_SHUFFLE_MEGATRON && !o->order;
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (o->outputs[i].name && !strcmp(o->outputs[k].name, o->outputs[i].name))
                return stk_fail(err, STK_EINVAL, "two outputs are called %s", o->outputs[i].name);
    }
    for (uint32_t i = 0; i < o->n_outputs; i++)
        STK_TRY(plan_after_leaders(out, i, in, so_far, err));
    if (!so_far->data.immediate)
        STK_TRY(check_kinds_apart(out, &so_far->data, err));
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        STK_TRY(find_boxes(out, i, err));
        STK_TRY(find_time(out, i, err));
        STK_TRY(find_pictures(out, i, err));
        STK_TRY(find_clip(out, i, err));
    }
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (out->chain[i].like.leader)
            out->chain[out->chain[i].like.leader_output].like.followed = 1;
    if (!so_far->data.immediate)
        warn_of_two(out, &so_far->policy.log);
    return so_far->data.immediate ? stk_plan_array_make(out, &so_far->data, err) : 0;
}

void stk_plan_chains_fini(stk_plan_chains *p, uint32_t n_data)
{
    for (uint32_t d = 0; p->binding && d < n_data; d++) {
        for (uint32_t i = 0; p->binding[d] && i < p->n_out; i++)
            stk_free(p->binding[d][i]);
        stk_free(p->binding[d]);
    }
    stk_free(p->binding);
    stk_free(p->written);
    for (uint32_t i = 0; i < p->n_out; i++) {
        stk_chain_fini(&p->chain[i]);
        stk_free(p->out[i].name);
    }
    stk_free(p->chain);
    stk_free(p->out);
    stk_free(p->open_root);
    stk_free(p->fallback);
    stk_free(p->start);
    stk_plan_array_close(&p->arrays);
}
