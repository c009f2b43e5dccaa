/* SPDX-License-Identifier: Apache-2.0 */
/* plan_made.c - where an output is made: on a GPU, or by workers and why.
 *
 * Two tables with one reason per rule; the first rule that holds is the answer.  What finish[]
 * lists goes to the GPU in its final form.  What pixels[] lists goes as pixels, of which the GPU
 * does color and type.  Of all others the GPU decodes what it can. */
#include <string.h>

#include "gpu/pic_program.h"
#include "loader/parts.h"

typedef struct asked {
    const stk_plan_gpu *gpu;
    const stk_chain *chain;
    const stk_out_plan *out;
    const char *no_clips; /* why NVDEC does not decode clips here */
} asked;

/* ---- what is asked ---- */

static int no_gpu(const asked *a)
{
    return !a->gpu->device;
}

static int no_picture(const asked *a)
{
    return a->chain->spec.kind != STK_KIND_IMAGE;
}

static int is_padded_views(const asked *a)
{
    return a->out->pad && a->chain->spec.n_leads;
}

static int is_deep(const asked *a)
{
    return a->chain->spec.picture.mode == STK_MODE_GRAY16;
}

static int has_mode(const asked *a)
{
    return a->chain->spec.picture.mode != 0;
}

static int calls_several(const asked *a)
{
    return a->chain->many.pictures && a->chain->calls.n;
}

static int needs_boxes(const asked *a)
{
    return a->chain->boxes.name != NULL;
}

static int calls(const asked *a)
{
    return a->chain->calls.n != 0;
}

static int calls_with_views(const asked *a)
{
    return a->chain->spec.n_leads && calls(a);
}

static int lacks_code(const asked *a)
{
    return !stk_pic_program_can(a->chain);
}

static int is_clip_without_code(const asked *a)
{
    return a->chain->clip && lacks_code(a);
}

static int cpu_decodes(const asked *a)
{
    return !a->gpu->decode;
}

static int clips_here(const asked *a)
{
    return a->chain->clip && a->no_clips;
}

/* ---- the rules ---- */

typedef struct rule {
    int (*holds)(const asked *a);
    const char *why; /* NULL: the text that goes with the rule is made elsewhere */
} rule;

/* A GPU decodes for what is made there, and its pixels would have to come back. */
static const char a_function[] = "a function of the program's is in its chain, and takes pixels in "
                                 "host memory";
static const char no_code[] = " has no device code"; /* of an op, which is named before it */

static const rule finish[] = {
    { no_gpu, "device is \"cpu\"" },
    { no_picture, "it is not a picture" },
    { is_deep, "16-bit pictures have no device code" },
    { has_mode, "pictures of one channel have no device code" },
    { calls_several, a_function },
    { is_padded_views, "views are padded as finished rows" },
    { needs_boxes, "its crop depends on boxes, which workers read" },
    { calls_with_views, a_function },
    { is_clip_without_code, no_code },
    { NULL, NULL },
};

static const rule pixels[] = {
    { calls, a_function }, { lacks_code, no_code }, { cpu_decodes, "decode is \"cpu\"" },
    { clips_here, NULL },  { NULL, NULL },
};

static const rule *find(const rule *r, const asked *a)
{
    while (r->holds && !r->holds(a))
        r++;
    return r->holds ? r : NULL;
}

int stk_plan_is_gpu_made(const stk_plan_gpu *gpu, const stk_chain *c, const stk_out_plan *out)
{
    const asked a = { .gpu = gpu, .chain = c, .out = out };

    return !find(finish, &a);
}

/* The first op that changes pixels without device code. */
static const char *op_without_code(const stk_chain *c)
{
    for (uint32_t i = 0; i < c->n_all; i++)
        if (c->all[i]->op->can & STK_OP_ACT && !(c->all[i]->op->can & STK_OP_GPU))
            return c->all[i]->op->name;
    return "an op";
}

stk_made stk_plan_made(const stk_plan *so_far, const char *no_clips, uint32_t i)
{
    const asked a = { &so_far->gpu, &so_far->chains.chain[i], &so_far->chains.out[i],
                      no_clips && no_clips[0] ? no_clips : NULL };
    const rule *r = find(a.out->gpu_made ? pixels : finish, &a);
    stk_made made = { "", NULL };

    if (!r)
        return made;
    made.why = r->why ? r->why : no_clips;
    if (r->why == no_code)
        made.what = op_without_code(a.chain);
    return made;
}

int stk_plan_check_made(const stk_plan_gpu *gpu, const stk_out_plan *out, const stk_made *made,
                        stk_error *err)
{
    if (!gpu->alone || !made->why || out->spec.kind != STK_KIND_IMAGE)
        return 0;
    return stk_fail(
        err, STK_ENOTSUP,
        "decode=\"gpu\": workers would make output %s, since %s%s: leave decode= out to "
        "allow that",
        out->name, made->what, made->why);
}
