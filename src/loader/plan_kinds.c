/* SPDX-License-Identifier: Apache-2.0 */
/* plan_kinds.c - of each output: where its input comes from, what makes its rows of it, and where
 * they go.
 *
 * Three tables, asked one by one: the first line that fits is taken, and the last line of each fits
 * always.  What a chain, the data and the GPU have to do with each other is asked here once, not
 * while rows are made. */
#include <assert.h>

#include "gpu/pic_program.h"
#include "loader/parts.h"
#include "row/row.h"

typedef struct asked { /* an output, of a table */
    const stk_plan_rows *out;
    const stk_plan *plan;
    const stk_chain *chain;
    uint32_t output;
    int measured; /* rows are only measured */
    stk_rows_of kind;
} asked;

static int always(const asked *a)
{
    (void)a;
    return 1;
}

/* ---- what is asked ---- */

static int of_arrays(const asked *a)
{
    return a->plan->data.immediate;
}

/* The first output made it. */
static int with_first(const asked *a)
{
    return of_arrays(a) && a->plan->chains.arrays->cut.share && a->output;
}

/* The array is on the GPU. */
static int is_resident(const asked *a)
{
    return of_arrays(a) && a->kind == STK_ROWS_RESIDENT && a->plan->cache.gather[a->output].count;
}

static int of_documents(const asked *a)
{
    return of_arrays(a) && a->plan->chains.arrays->packed;
}

static int of_megatron(const asked *a)
{
    return of_arrays(a) && a->plan->chains.megatron;
}

static int of_parted(const asked *a)
{
    return of_arrays(a) && a->plan->chains.arrays->cut.parted;
}

static int of_windows(const asked *a)
{
    return of_arrays(a) && a->plan->chains.arrays->cut.block;
}

static int is_clip(const asked *a)
{
    return a->chain->clip != NULL;
}

/* A GPU makes its frames, or finishes them. */
static int is_gpu_clip(const asked *a)
{
    return is_clip(a) && a->plan->chains.out[a->output].gpu_made;
}

static int is_clip_repair(const asked *a)
{
    return is_gpu_clip(a) && a->kind == STK_ROWS_REPAIR;
}

static int is_sound(const asked *a)
{
    return a->chain->sound && !a->chain->calls.n;
}

/* Rows have any number of pictures. */
static int gives_pictures(const asked *a)
{
    return a->chain->many.pictures != NULL;
}

/* The rows are pictures. */
static int gives_picture(const asked *a)
{
    return a->chain->spec.kind == STK_KIND_IMAGE;
}

/* Functions of the program's take pictures. */
static int calls_picture(const asked *a)
{
    return a->chain->calls.n && a->chain->calls.first == STK_KIND_IMAGE;
}

static int has_picture(const asked *a)
{
    return gives_picture(a) || calls_picture(a);
}

static int is_tiled(const asked *a)
{
    return gives_picture(a) && a->chain->tiled;
}

static int for_gpu(const asked *a)
{
    return has_picture(a) && !is_clip(a) && a->plan->chains.out[a->output].gpu_made;
}

static int for_gpu_called(const asked *a)
{
    return for_gpu(a) && a->chain->calls.n;
}

/* A row made again is a host's row, sent as it is. */
static int for_gpu_pictures(const asked *a)
{
    return gives_pictures(a) && for_gpu(a) && a->kind != STK_ROWS_REPAIR;
}

static int gpu_decodes_pictures(const asked *a)
{
    return for_gpu_pictures(a) && a->plan->gpu.decode && stk_pic_program_can(a->chain);
}

static int is_repair(const asked *a)
{
    return for_gpu(a) && a->kind == STK_ROWS_REPAIR;
}

static int gpu_decodes(const asked *a)
{
    return for_gpu(a) && a->plan->gpu.decode && stk_pic_program_can(a->chain);
}

static int is_cached(const asked *a)
{
    return a->kind == STK_ROWS_USUAL && a->plan->cache.keep && a->plan->cache.keep[a->output] &&
           !a->chain->calls.n && gpu_decodes(a);
}

/* A value whose shape the plan knows, as it is stored. */
static int is_value(const asked *a)
{
    const stk_chain *c = a->chain;

    return c->parse && c->row_bytes && !c->calls.n && !c->sound && !c->pack && !c->like.how &&
           !c->n_turns;
}

/* Where a shape is all that is asked for, steps after its codec are left out. */
static int has_steps(const asked *a)
{
    const stk_chain *c = a->chain;

    return c->calls.n || c->sound || (c->like.how && !c->pack) ||
           (c->n_turns && !c->pack && (c->row_bytes || !a->measured || c->many.tokens));
}

static int is_parsed(const asked *a)
{
    return a->chain->parse != NULL;
}

static int is_direct(const asked *a)
{
    return !a->measured && !is_parsed(a) && !has_steps(a) && a->chain->spec.out == STK_OUT_BYTES &&
           a->chain->n_steps == 1;
}

static int is_measured(const asked *a)
{
    return a->measured && (gives_pictures(a) || !gives_picture(a)) && !is_value(a);
}

static int is_packed(const asked *a)
{
    return a->chain->pack != NULL;
}

/* ---- the tables ---- */

/* Where input comes from. */
static const struct {
    int (*fits)(const asked *a);
    const stk_row_from *from;
} inputs[] = {
    { of_arrays, &stk_from_array },         { is_clip, &stk_from_clip },
    { is_sound, &stk_from_recording },      { is_cached, &stk_from_cached },
    { gives_pictures, &stk_from_pictures }, { has_picture, &stk_from_picture },
    { is_direct, &stk_from_direct },        { always, &stk_from_field },
};

/* What makes rows of it. */
static const struct {
    int (*fits)(const asked *a);
    const stk_row_work *work;
} works[] = {
    { with_first, &stk_work_nothing },
    { is_resident, &stk_work_place },
    { of_documents, &stk_work_documents },
    { of_megatron, &stk_work_megatron },
    { of_parted, &stk_work_parted },
    { of_windows, &stk_work_window },
    { of_arrays, &stk_work_row },
    { is_clip_repair, &stk_work_gpu_clip_ready },
    { is_gpu_clip, &stk_work_gpu_clip },
    { is_clip, &stk_work_clip },
    { calls_picture, &stk_work_called },
    { is_cached, &stk_work_cached },
    { gives_pictures, &stk_work_pictures },
    { is_tiled, &stk_work_tile },
    { gives_picture, &stk_work_picture },
    { has_steps, &stk_work_steps },
    { is_value, &stk_work_value },
    { is_parsed, &stk_work_shaped },
    { always, &stk_work_bytes },
};

/* Where they go. */
static const struct {
    int (*fits)(const asked *a);
    const stk_row_goal *goal;
} goals[] = {
    { of_arrays, &stk_goal_row },
    { is_measured, &stk_goal_length },
    { gpu_decodes_pictures, &stk_goal_gpu_pictures },
    { for_gpu_pictures, &stk_goal_gpu_pictures_ops },
    { gives_pictures, &stk_goal_pictures },
    { is_packed, &stk_goal_packed },
    { for_gpu_called, &stk_goal_gpu_color },
    { is_repair, &stk_goal_gpu_ready },
    { gpu_decodes, &stk_goal_gpu },
    { for_gpu, &stk_goal_gpu_ops },
    { always, &stk_goal_row },
};

/* Another output reads the same picture. */
static int is_shared(const asked *a)
{
    const uint32_t *share = a->out->share;

    for (uint32_t k = 0; share && k < a->plan->chains.n_out; k++)
        if (k != a->output && share[k] == share[a->output])
            return 1;
    return 0;
}

void stk_plan_kind(const stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                   stk_rows_of kind, uint32_t output, stk_row_ops *ops)
{
    const asked a = { .out = out,
                      .plan = so_far,
                      .chain = &so_far->chains.chain[output],
                      .output = output,
                      .measured = in->measured != NULL,
                      .kind = kind };
    uint32_t i = 0;

    while (!inputs[i].fits(&a))
        i++;
    ops->from = inputs[i].from;
    for (i = 0; !works[i].fits(&a);)
        i++;
    ops->work = works[i].work;
    for (i = 0; !goals[i].fits(&a);)
        i++;
    ops->goal = goals[i].goal;
    ops->shared = is_shared(&a);
    /* a picture that the GPU may have goes to the GPU */
    assert(ops->work != &stk_work_cached || ops->goal == &stk_goal_gpu);
}
