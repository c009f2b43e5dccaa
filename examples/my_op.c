/* SPDX-License-Identifier: Apache-2.0 */
/* my_op.c - two ops of one's own in a shared object, for stoker.load_op("./my_op.so").
 *     cc -O3 -shared -fPIC -I include my_op.c -o my_op.so
 *
 * vignette(strength) darkens a picture towards its corners, for some pictures: it draws.
 * clamp(low, high) bounds numbers.  Both run in the loader's threads. */
#include <stoker/own_op.h>

static const stk_host *stk;

/* ---- pixels ---- */

struct vignette {
    double strength, p;
};

static int vignette_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct vignette *v = state;

    v->strength = stk->args_f64(args, "strength");
    v->p = stk->args_f64(args, "p");
    if (spec->kind != STK_KIND_IMAGE || spec->picture.normalized)
        return stk->fail(err, STK_EINVAL, "vignette comes after image and before normalize");
    if (!(v->strength >= 0 && v->strength <= 1))
        return stk->fail(err, STK_EINVAL, "vignette: strength=%g is not in 0..1", v->strength);
    return 0;
}

/* Whether it is done to this picture: numbers depend on (seed, epoch, position) alone. */
static uint32_t vignette_act(const void *state, stk_rng *rng, const stk_view *canvas,
                             stk_action *out)
{
    const struct vignette *v = state;

    (void)canvas;
    if (stk->rng_unit(rng) >= v->p)
        return 0;
    *out = (stk_action){ .code = STK_ACT_OWN, .n = 1 };
    out->v.f[0] = (float)v->strength;
    return 1;
}

static void vignette_tile(const void *state, const stk_action *a, stk_tile *t)
{
    float w = (float)t->width, h = (float)t->height;

    (void)state;
    for (uint32_t y = 0; y < t->height; y++)
        for (uint32_t x = 0; x < t->width; x++) {
            uint8_t *pixel = (uint8_t *)&t->data[(size_t)y * t->width + x];
            float dx = (2 * (float)x + 1 - w) / w, dy = (2 * (float)y + 1 - h) / h;
            float keep = 1 - a->v.f[0] * (dx * dx + dy * dy) / 2;

            for (int c = 0; c < 3; c++)
                pixel[c] = (uint8_t)((float)pixel[c] * keep + 0.5f);
        }
}

static const stk_arg vignette_args[] = {
    { .name = "strength",
      .type = STK_ARG_FLOAT,
      .fallback = "0.5",
      .help = "1: corners are black" },
    { .name = "p", .type = STK_ARG_FLOAT, .fallback = "1", .help = "how often" },
    { .name = NULL },
};

static const stk_op vignette = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "vignette",
                                 .help = "darken towards the corners",
                                 .args = vignette_args,
                                 .state_size = sizeof(struct vignette),
                                 .plan = vignette_plan,
                                 .version = 1,
                                 .can = STK_OP_POINT,
                                 .act = vignette_act,
                                 .tile = vignette_tile };

/* ---- numbers ---- */

struct clamp {
    float low, high;
};

static int clamp_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct clamp *c = state;

    c->low = (float)stk->args_f64(args, "low");
    c->high = (float)stk->args_f64(args, "high");
    if (spec->kind != STK_KIND_VALUE || spec->dtype != STK_F32)
        return stk->fail(err, STK_EINVAL, "clamp works on f32: put floats before it");
    return 0;
}

static int clamp_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                       stk_error *err)
{
    const struct clamp *c = state;
    float *v = row->data;
    int64_t n = 1;

    (void)rng, (void)scratch, (void)err;
    for (uint32_t i = 0; i < row->ndim; i++)
        n *= row->shape[i];
    for (int64_t i = 0; i < n; i++)
        v[i] = v[i] < c->low ? c->low : v[i] > c->high ? c->high : v[i];
    return 0;
}

static const stk_arg clamp_args[] = {
    { .name = "low", .type = STK_ARG_FLOAT, .fallback = "0", .help = "the least" },
    { .name = "high", .type = STK_ARG_FLOAT, .fallback = "1", .help = "the most" },
    { .name = NULL },
};

static const stk_op clamp = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "clamp",
                              .help = "bound numbers",
                              .args = clamp_args,
                              .state_size = sizeof(struct clamp),
                              .plan = clamp_plan,
                              .version = 1,
                              .value = clamp_value };

/* ---- what is in this object ---- */

const stk_op *const *stoker_ops(const stk_host *host);
const stk_op *const *stoker_ops(const stk_host *host)
{
    static const stk_op *const ops[] = { &vignette, &clamp, NULL };

    if (host->abi != STK_PLUGIN_ABI || host->size < sizeof *host)
        return NULL;
    stk = host;
    return ops;
}
