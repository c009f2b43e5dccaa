/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - ops on pictures planned, with the chains that some of them have. */
#include "chain/segment.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/registry.h"
#include "base/rng.h"
#include "op/patch_size.h"

/* ---- plan ---- */

/* What is inside of a step must leave the row as it is, because it does not always run. */
static int same_row(const stk_spec *a, const stk_spec *b)
{
    return a->kind == b->kind && a->out == b->out && a->dtype == b->dtype &&
           a->picture.width == b->picture.width && a->picture.height == b->picture.height &&
           a->picture.layout == b->picture.layout && a->dtype_fixed == b->dtype_fixed &&
           a->picture.normalized == b->picture.normalized;
}

/* ---- how large pictures come out ---- */

/* A mirror image is as large; what crops, pads or resizes changes one of these. */
static int keeps_size(const stk_step *s)
{
    static const uint32_t sizes[][2] = { { 640, 480 }, { 333, 517 }, { 1600, 300 }, { 31, 17 } };
    const stk_address at = { 0 };

    if (s->op->can & STK_OP_SIZES)
        return 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stk_view v;
        stk_rng rng;

        stk_view_init(&v, sizes[i][0], sizes[i][1]);
        stk_rng_at(&rng, &at);
        s->op->draw(s->state, &rng, &v);
        if (v.refused || v.vis_w != sizes[i][0] || v.vis_h != sizes[i][1])
            return 0;
    }
    return 1;
}

static void note_size(stk_chain *c, const stk_step *s)
{
    stk_chain_sizes *z = &c->sizes;
    int inside = z->depth > 0; /* it does not always run */
    int patches = s->op == &stk_op_resize_to_patches ||
                  s->op == &stk_op_random_resized_crop_to_patches;

    if (!(s->op->can & STK_OP_VIEW) || ((inside || z->most_patches) && keeps_size(s)))
        return;
    z->drawn |= inside || s->op->can & STK_OP_SIZES;
    if (c->spec.picture.width && c->spec.picture.height)
        z->drawn = 0;
    z->most_patches = patches && !inside ? stk_patch_most(s->state) : 0;
}

static int plan_group(stk_chain *c, stk_step *s, stk_steps *g, const stk_expr *e, stk_error *err)
{
    uint32_t before = 0;
    stk_spec was = c->spec;

    for (stk_steps *k = s->group; k < g; k++)
        before += k->n;
    g->step = stk_zalloc(e->n_calls, sizeof *g->step);
    if (!g->step)
        return stk_fail_nomem(err, e->n_calls * sizeof *g->step);
    for (uint32_t i = 0; i < e->n_calls; i++) {
        const stk_call *call = &e->call[i];
        const stk_op *op = stk_registry_find(c->registry, STK_PLUGIN_OP, call->name);

        if (!op && !stk_registry_find(c->registry, STK_PLUGIN_CODEC, call->name))
            return stk_chain_unknown(c->registry, call->name, err);
        if (!op || !(op->can & (STK_OP_ACT | STK_OP_CHOOSE | STK_OP_VIEW)))
            return stk_fail(err, STK_EINVAL, "%s: `%s` does not work on pixels: put it outside",
                            s->op->name, call->name);
        if (before + i >= 254)
            return stk_fail(err, STK_ELIMIT, "%s has too many steps inside", s->op->name);
        g->n++;
        was.picture.resized = c->spec.picture.resized && !(c->touched && op->can & STK_OP_VIEW);
        STK_TRY(stk_segment_plan(c, &g->step[i], call, (uint8_t)(before + i), err));
        if (!same_row(&was, &c->spec) || (c->spec.picture.resized && !was.picture.resized))
            return stk_fail(err, STK_EINVAL,
                            "%s: `%s` changes the size, and would not always run: put it outside",
                            s->op->name, call->name);
    }
    return 0;
}

/* The chains that it has; each may be the one that runs, so a view after them begins a pass if any
 * of them changes pixels. */
static int plan_groups(stk_chain *c, stk_step *s, const stk_args *args, stk_error *err)
{
    uint32_t n = stk_args_count(args, "steps");
    int before = c->touched, after = before;

    if (!n || n > STK_MAX_GROUPS)
        return stk_fail(err, STK_EINVAL, "%s takes 1 to %d chains, not %u", s->op->name,
                        STK_MAX_GROUPS, n);
    s->group = stk_zalloc(n, sizeof *s->group);
    if (!s->group)
        return stk_fail_nomem(err, n * sizeof *s->group);
    for (uint32_t i = 0; i < n; i++) {
        s->n_groups++;
        c->touched = before;
        c->sizes.depth++;
        STK_TRY(plan_group(c, s, &s->group[i], stk_args_chain(args, "steps", i), err));
        c->sizes.depth--;
        after |= c->touched;
    }
    c->touched = after;
    return 0;
}

static void note(stk_chain *c, stk_step *s)
{
    note_size(c, s);
    if (s->op->can & STK_OP_VIEW) {
        s->opens = (uint8_t)c->touched;
        c->touched = 0;
    } else if (s->op->can & STK_OP_ACT && c->spec.picture.normalized) {
        c->row_acts = 1;
        c->tiled = 1;
    } else if (s->op->can & STK_OP_ACT) {
        c->touched = 1;
        c->tiled = 1;
    }
}

/* The output that the first argument names; a loader finds it. */
static int note_boxes(stk_chain *c, const stk_op *op, const stk_args *args, stk_error *err)
{
    const char *name = stk_args_str(args, op->args[0].name);

    if (c->calls.n)
        return stk_fail(err, STK_ENOTSUP, "%s looks at boxes: put it before call()", op->name);
    if (c->boxes.name && strcmp(c->boxes.name, name))
        return stk_fail(err, STK_EINVAL, "%s(%s): the chain looks at boxes of %s already", op->name,
                        name, c->boxes.name);
    if (c->boxes.name)
        return 0;
    c->boxes.name = stk_strdup(name);
    return c->boxes.name ? 0 : stk_fail_nomem(err, 64);
}

/* Pixels of 16 bits are moved, and no 8-bit arithmetic is done on them. */
static int check_deep(const stk_chain *c, const stk_op *op, stk_error *err)
{
    uint32_t pixels = STK_OP_POINT | STK_OP_NEAR | STK_OP_STATS | STK_OP_ROW;

    if (c->spec.picture.mode != STK_MODE_GRAY16 || (!(op->can & pixels) && !op->tile))
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%s works on pixels of 8 bits, and mode=gray16 has 16: image(mode=gray, "
                    "bits=8) scales them",
                    op->name);
}

int stk_segment_plan(stk_chain *c, stk_step *s, const stk_call *call, uint8_t number,
                     stk_error *err)
{
    const stk_op *op = stk_registry_find(c->registry, STK_PLUGIN_OP, call->name);
    stk_args *args = NULL;
    int rc;

    *s = (stk_step){ .op = op, .number = number, .id = (uint16_t)c->n_all };
    if (c->n_all == STK_MAX_ALL_STEPS)
        return stk_fail(err, STK_ELIMIT, "a chain has at most %d steps", STK_MAX_ALL_STEPS);
    c->all[c->n_all++] = s;
    if (op->can & STK_OP_VIEW && c->touched)
        c->spec.picture.resized = 0; /* what was made before it is a picture of its own */
    rc = check_deep(c, op, err);
    if (rc == 0)
        rc = stk_args_check(&args, call, op->args, err);
    if (rc == 0) {
        s->state = stk_zalloc(1, op->state_size);
        if (s->state && op->cookie)
            memcpy(s->state, &op->cookie, sizeof op->cookie);
        rc = s->state ? op->plan(s->state, args, &c->spec, err) : stk_fail_nomem(err, 64);
    }
    if (rc == 0) {
        stk_chain_print_call(c, call->name, op->version, args, NULL);
    }
    if (rc == 0 && op->can & STK_OP_BOXES)
        rc = note_boxes(c, op, args, err);
    if (rc == 0 && op->can & STK_OP_CHOOSE)
        rc = plan_groups(c, s, args, err);
    if (rc == 0)
        note(c, s);
    stk_args_close(&args);
    return rc;
}

void stk_segment_fini(stk_step *s)
{
    if (s->op && s->op->fini && s->state)
        s->op->fini(s->state);
    for (uint32_t g = 0; g < s->n_groups; g++) {
        for (uint32_t i = 0; i < s->group[g].n; i++) {
            stk_segment_fini(&s->group[g].step[i]);
            stk_free(s->group[g].step[i].state);
        }
        stk_free(s->group[g].step);
    }
    stk_free(s->group);
}

int stk_view_is_identity(const stk_view *v)
{
    return !v->clip.x && !v->clip.y && v->clip.w == v->src_w && v->clip.h == v->src_h &&
           v->res_w == v->src_w && v->res_h == v->src_h && !v->vis_x && !v->vis_y &&
           v->vis_w == v->src_w && v->vis_h == v->src_h && !v->flip_x && !v->flip_y;
}
