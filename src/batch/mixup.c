/* SPDX-License-Identifier: Apache-2.0 */
/* mixup.c - mixup, cutmix and the choice between them, as timm has them, and label smoothing: ops
 * on whole batches.
 *
 * Row i of n is mixed with row n - 1 - i of the same batch.  What is drawn is addressed by (seed,
 * epoch, position of the global batch's first sample) and by the op's place in the list, as output
 * 2^32 - 1: it does not depend on workers, and all ranks draw the same.  Partners are in the rank's
 * own batch, so rows are the same for equal batch and world size only.
 *
 * Arithmetic: a * lam + b * (1 - lam) in f32, each operation rounded by itself, so that other
 * hardware can give the same bits; f16 and bf16 are widened for it.  Draws use no function of the
 * system's libm.
 *
 * Pictures that a GPU makes are mixed there (kern/blend.h), labels with them: what was drawn waits
 * in the batch.  So does every op after such a one, as it may use what that makes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "base/rng.h"
#include "batch/batch_ops.h"
#include "kern/half.h"

#define OUTPUT UINT32_MAX /* of the address: batch ops are no output's */
#define TRIES 256         /* of a draw by rejection; the chance that all fail is below 10^-20 */

typedef enum mode { BATCH, PAIR, ELEM } mode;

typedef struct picture { /* a row as boxes are cut out of it */
    int64_t planes, height, width;
    size_t pixel; /* bytes */
} picture;

typedef struct rows { /* an output that is mixed */
    uint32_t output;
    stk_dtype dtype;
    size_t bytes, count; /* of a row: bytes, numbers */
} rows;

struct stk_batch_op {
    uint64_t seed;
    uint32_t number; /* place in the list */
    int smooths;     /* label_smoothing() */
    int deferred;    /* done on a GPU */
    rows image, label;
    picture shape;
    double mixup, cutmix, choice, p; /* the two alphas; 0: never */
    mode mode;
    double smoothing;
};

typedef struct mix { /* what one row gets */
    double lam;
    int cut;
    int64_t y0, y1, x0, x1;
} mix;

/* ---- draws ---- */

/* log with the same bits everywhere: x = m * 2^e, and a series of atanh((m - 1) / (m + 1)). */
static double fixed_log(double x)
{
    int e;
    double m = frexp(x, &e), s, s2, sum = 0;

    if (m < 0.70710678118654757) {
        m *= 2;
        e--;
    }
    s = (m - 1) / (m + 1);
    s2 = s * s;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return 2 * s * sum + e * 0.69314718055994530942;
}

/* exp(x) for x <= 0. */
static double fixed_exp(double x)
{
    double r = x < -640 ? 0 : stk_exp(x / 32);

    for (int i = 0; i < 5; i++)
        r *= r;
    return r;
}

static double unit(stk_rng *rng)
{
    return ((double)stk_rng_u32(rng) + 0.5) / 4294967296.0; /* never 0, never 1 */
}

/* Beta(a, a).  Up to 1/2 by Joehnk's method, above by Ulrich's with a point of the unit disc, whose
 * angle stands for the sine (Devroye, Non-Uniform Random Variate Generation, IX.3). */
static double draw_beta(stk_rng *rng, double a)
{
    for (int i = 0; i < TRIES; i++) {
        double u = unit(rng), v = unit(rng);

        if (a <= 0.5) {
            double x = fixed_log(u) / a, y = fixed_log(v) / a, most = x > y ? x : y;

            if (fixed_exp(x) + fixed_exp(y) <= 1)
                return fixed_exp(x - most) / (fixed_exp(x - most) + fixed_exp(y - most));
        } else {
            double s;

            u = 2 * u - 1;
            v = 2 * v - 1;
            s = u * u + v * v;
            if (s > 0 && s < 1)
                return 0.5 + u * v / s * sqrt(1 - fixed_exp(fixed_log(s) * 2 / (2 * a - 1)));
        }
    }
    return 0.5;
}

static int64_t clip(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* The box that is cut out, of about 1 - lam of the area; what is outside the picture makes it
 * smaller, and lam is what is left. */
static void draw_box(stk_rng *rng, const picture *p, mix *m)
{
    double ratio = sqrt(1 - m->lam);
    int64_t h = (int64_t)((double)p->height * ratio), w = (int64_t)((double)p->width * ratio);
    int64_t cy = (int64_t)(unit(rng) * (double)p->height);
    int64_t cx = (int64_t)(unit(rng) * (double)p->width);

    m->y0 = clip(cy - h / 2, p->height);
    m->y1 = clip(cy + h / 2, p->height);
    m->x0 = clip(cx - w / 2, p->width);
    m->x1 = clip(cx + w / 2, p->width);
    m->lam = 1 - (double)((m->y1 - m->y0) * (m->x1 - m->x0)) / (double)(p->height * p->width);
}

static mix draw_mix(const stk_batch_op *op, stk_rng *rng)
{
    mix m = { .lam = 1 };
    int both = op->mixup > 0 && op->cutmix > 0;

    if (op->p < 1 && unit(rng) >= op->p)
        return m;
    m.cut = both ? unit(rng) < op->choice : op->cutmix > 0;
    m.lam = draw_beta(rng, m.cut ? op->cutmix : op->mixup);
    if (m.cut)
        draw_box(rng, &op->shape, &m);
    return m;
}

/* ---- rows ---- */

static uint8_t *row_at(stk_batch *b, const rows *r, uint32_t row)
{
    return stk_batch_place(b, r->output, row);
}

static void blend_f32(float *a, const float *b, size_t n, float l, float k)
{
    for (size_t i = 0; i < n; i++)
        a[i] = a[i] * l + b[i] * k;
}

static void blend_f16(uint16_t *a, const uint16_t *b, size_t n, float l, float k)
{
    for (size_t i = 0; i < n; i++)
        a[i] = stk_f16_from(stk_f16_to(a[i]) * l + stk_f16_to(b[i]) * k);
}

static void blend_bf16(uint16_t *a, const uint16_t *b, size_t n, float l, float k)
{
    for (size_t i = 0; i < n; i++)
        a[i] = stk_bf16_from(stk_bf16_to(a[i]) * l + stk_bf16_to(b[i]) * k);
}

/* a = a * lam + b * (1 - lam). */
static void blend(const rows *r, void *a, const void *b, double lam)
{
    float l = (float)lam, k = (float)(1 - lam);

    if (r->dtype == STK_F32)
        blend_f32(a, b, r->count, l, k);
    else if (r->dtype == STK_F16)
        blend_f16(a, b, r->count, l, k);
    else
        blend_bf16(a, b, r->count, l, k);
}

static void paste(const picture *p, uint8_t *a, const uint8_t *b, const mix *m)
{
    size_t line = (size_t)p->width * p->pixel, from = (size_t)m->x0 * p->pixel;
    size_t len = (size_t)(m->x1 - m->x0) * p->pixel;

    for (int64_t plane = 0; plane < p->planes; plane++)
        for (int64_t y = m->y0; y < m->y1; y++) {
            size_t at = (size_t)(plane * p->height + y) * line + from;

            memcpy(a + at, b + at, len);
        }
}

/* Row `a` of both outputs, with `image` and `label` as they were before its partner was mixed. */
static void mix_row(const stk_batch_op *op, stk_batch *b, uint32_t row, const void *const from[2],
                    const mix *m)
{
    if (m->lam == 1)
        return;
    if (m->cut)
        paste(&op->shape, row_at(b, &op->image, row), from[0], m);
    else
        blend(&op->image, row_at(b, &op->image, row), from[0], m->lam);
    blend(&op->label, row_at(b, &op->label, row), from[1], m->lam);
}

/* Where a label is after a picture, aligned to any type. */
static size_t label_at(const stk_batch_op *op)
{
    return (op->image.bytes + 15) & ~(size_t)15;
}

/* Rows i and j with each other; `first_row` has room for a row of both outputs. */
static void mix_pair(const stk_batch_op *op, stk_batch *b, uint32_t i, uint32_t j, const mix of[2],
                     uint8_t *first_row)
{
    const void *first[2] = { first_row, first_row + label_at(op) };
    const void *second[2] = { row_at(b, &op->image, j), row_at(b, &op->label, j) };

    memcpy(first_row, row_at(b, &op->image, i), op->image.bytes);
    memcpy(first_row + label_at(op), row_at(b, &op->label, i), op->label.bytes);
    mix_row(op, b, i, i == j ? first : second, &of[0]);
    if (i != j)
        mix_row(op, b, j, first, &of[1]);
}

/* ---- on a GPU ---- */

static stk_blend_row as_row(const mix *m)
{
    return (stk_blend_row){ .on = m->lam != 1,
                            .cut = (uint32_t)m->cut,
                            .l = (float)m->lam,
                            .k = (float)(1 - m->lam),
                            .y0 = (uint32_t)m->y0,
                            .y1 = (uint32_t)m->y1,
                            .x0 = (uint32_t)m->x0,
                            .x1 = (uint32_t)m->x1 };
}

static stk_blend part_of(const rows *r, const picture *p)
{
    uint32_t size = (uint32_t)stk_dtype_size(r->dtype);
    stk_blend m = { .count = r->count, .dtype = r->dtype, .size = size };

    if (p && p->pixel) {
        m.boxes = 1;
        m.width = (uint32_t)p->width;
        m.height = (uint32_t)p->height;
        m.pixel = (uint32_t)(p->pixel / size);
    }
    return m;
}

/* After those that wait already. */
static stk_deferred_mix *defer(stk_batch *b, uint32_t n)
{
    stk_deferred_mix **at = &b->mixes, *m;

    m = stk_zalloc(1, sizeof *m + n * sizeof *m->row);
    if (!m)
        return NULL;
    m->rows = n;
    while (*at)
        at = &(*at)->next;
    *at = m;
    return m;
}

static int defer_mix(const stk_batch_op *op, stk_batch *b, stk_rng *rng, stk_error *err)
{
    uint32_t n = b->rows;
    stk_deferred_mix *m = defer(b, n);
    mix of[2];

    if (!m)
        return stk_fail_nomem(err, n * sizeof *m->row);
    m->n_parts = 2;
    m->output[0] = op->image.output;
    m->output[1] = op->label.output;
    m->part[0] = part_of(&op->image, &op->shape);
    m->part[1] = part_of(&op->label, NULL);
    of[0] = of[1] = draw_mix(op, rng);
    for (uint32_t i = 0; i < n - n / 2; i++) {
        if (op->mode != BATCH && i)
            of[0] = of[1] = draw_mix(op, rng);
        if (op->mode == ELEM)
            of[1] = draw_mix(op, rng);
        m->row[n - 1 - i] = as_row(&of[1]);
        /* the middle one is its own partner, and the first of the pair */
        m->row[i] = as_row(&of[0]);
    }
    return 0;
}

static int defer_smooth(const stk_batch_op *op, stk_batch *b, stk_error *err)
{
    stk_deferred_mix *m = defer(b, 0);

    if (!m)
        return stk_fail_nomem(err, sizeof *m);
    m->n_parts = 1;
    m->output[0] = op->label.output;
    m->part[0] = part_of(&op->label, NULL);
    m->part[0].keep = (float)(1 - op->smoothing);
    m->part[0].add = (float)(op->smoothing / (double)op->label.count);
    return 0;
}

/* ---- here ---- */

static int run_mix(const stk_batch_op *op, stk_batch *b, stk_rng *rng, stk_error *err)
{
    uint32_t n = b->rows, half = n - n / 2;
    uint8_t *first_row = stk_alloc(label_at(op) + op->label.bytes);
    mix of[2];

    if (!first_row)
        return stk_fail_nomem(err, label_at(op) + op->label.bytes);
    of[0] = of[1] = draw_mix(op, rng);
    for (uint32_t i = 0; i < half; i++) {
        if (op->mode != BATCH && i)
            of[0] = of[1] = draw_mix(op, rng);
        if (op->mode == ELEM)
            of[1] = draw_mix(op, rng);
        mix_pair(op, b, i, n - 1 - i, of, first_row);
    }
    stk_free(first_row);
    return 0;
}

static void smooth(const stk_batch_op *op, stk_batch *b)
{
    const rows *r = &op->label;
    float keep = (float)(1 - op->smoothing), add = (float)(op->smoothing / (double)r->count);

    for (uint32_t row = 0; row < b->rows; row++) {
        void *at = row_at(b, r, row);

        for (size_t i = 0; i < r->count; i++) {
            if (r->dtype == STK_F32)
                ((float *)at)[i] = ((float *)at)[i] * keep + add;
            else if (r->dtype == STK_F16)
                ((uint16_t *)at)[i] = stk_f16_from(stk_f16_to(((uint16_t *)at)[i]) * keep + add);
            else
                ((uint16_t *)at)[i] = stk_bf16_from(stk_bf16_to(((uint16_t *)at)[i]) * keep + add);
        }
    }
}

int stk_batch_op_run(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err)
{
    const stk_batch_op *op = state;
    stk_address at = { .seed = op->seed,
                       .position = b->start,
                       .path = stk_path(op->number),
                       .epoch = (uint32_t)b->epoch,
                       .output = OUTPUT };
    stk_rng rng;

    (void)ticket;
    if (op->smooths && op->deferred)
        return defer_smooth(op, b, err);
    if (op->smooths) {
        smooth(op, b);
        return 0;
    }
    stk_rng_at(&rng, &at);
    return op->deferred ? defer_mix(op, b, &rng, err) : run_mix(op, b, &rng, err);
}

/* ---- the plan ---- */

typedef struct place { /* the outputs that a call may name */
    const stk_out_plan *out;
    uint32_t n;
} place;

static int find_output(const place *at, const char *op, const char *name, uint32_t *out,
                       stk_error *err)
{
    char have[120] = "";
    size_t used = 0;

    for (*out = 0; *out < at->n; ++*out)
        if (!strcmp(at->out[*out].name, name))
            return 0;
    for (uint32_t i = 0; i < at->n && used < sizeof have; i++)
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%s", i ? ", " : "",
                                 at->out[i].name);
    return stk_fail(err, STK_EINVAL, "%s: there is no output %.60s: the outputs are %s", op, name,
                    have);
}

static int is_float(stk_dtype t)
{
    return t == STK_F32 || t == STK_F16 || t == STK_BF16;
}

static int take_rows(const place *at, const char *op, const char *name, rows *out, stk_error *err)
{
    const stk_out_plan *p;
    size_t bytes;

    STK_TRY(find_output(at, op, name, &out->output, err));
    p = &at->out[out->output];
    if (p->gather.count || p->shared)
        return stk_fail(err, STK_ENOTSUP,
                        "%s: rows of %s are gathered on the GPU or shared with another output, and "
                        "cannot be mixed: leave cache= and share= away, or mix in a function of "
                        "batch_ops",
                        op, name);
    bytes = p->gpu_bytes ? p->gpu_bytes : p->row_bytes;
    if (!bytes || p->pad)
        return stk_fail(err, STK_EINVAL,
                        "%s: rows of %s differ in size: give them one, as resize((224, 224)) does",
                        op, name);
    out->dtype = p->spec.dtype;
    out->bytes = bytes;
    out->count = bytes / stk_dtype_size(p->spec.dtype);
    return 0;
}

static int take_label(const place *at, const char *op, const char *name, rows *out, stk_error *err)
{
    STK_TRY(take_rows(at, op, name, out, err));
    if (is_float(out->dtype) && out->count > 1)
        return 0;
    if (out->dtype == STK_F64 && out->count > 1)
        return stk_fail(err, STK_EINVAL, "%s: %s has f64 numbers: add to(f32) to its chain", op,
                        name);
    return stk_fail(err, STK_EINVAL,
                    "%s: %s has %s, and mixing needs soft labels: add one_hot(classes) to its "
                    "chain, as in from(cls) | int | one_hot(1000)",
                    op, name, out->count > 1 ? "whole numbers" : "one number per sample");
}

static int take_shape(const stk_out_plan *p, const char *op, picture *out, stk_error *err)
{
    const stk_spec *s = &p->spec;
    size_t each = stk_dtype_size(s->dtype);
    int64_t channels = 1;

    if (s->picture.patch.side)
        return stk_fail(err, STK_EINVAL,
                        "%s cuts boxes out of pictures: %s is cut into patches; take mixup", op,
                        p->name);
    if (s->kind == STK_KIND_IMAGE) {
        out->height = s->picture.height;
        out->width = s->picture.width;
        if (s->picture.layout != STK_CHW)
            channels = s->shape[s->picture.layout == STK_HWC ? s->ndim - 1 : s->ndim - 3];
    } else if (s->ndim >= 2) {
        out->height = s->shape[s->ndim - 2];
        out->width = s->shape[s->ndim - 1];
    } else {
        return stk_fail(err, STK_EINVAL, "%s cuts boxes out of pictures: %s has none", op, p->name);
    }
    out->pixel = each * (size_t)channels;
    out->planes = (int64_t)((p->gpu_bytes ? p->gpu_bytes : p->row_bytes) /
                            (out->pixel * (size_t)(out->height * out->width)));
    return 0;
}

static int take_mode(const stk_args *args, const char *op, mode *out, stk_error *err)
{
    static const char *const modes[] = { "batch", "pair", "elem" };
    const char *name = stk_args_str(args, "mode");

    for (int i = 0; name && i < 3; i++)
        if (!strcmp(name, modes[i])) {
            *out = (mode)i;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "%s: mode is batch, pair or elem, not %s", op,
                    name ? name : "a number");
}

static int take_number(const stk_args *args, const char *op, const char *arg, double most,
                       double *out, stk_error *err)
{
    *out = stk_args_f64(args, arg);
    if (!(*out >= 0 && *out <= most)) /* also rejects NaN */
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in 0..%g", op, arg, *out, most);
    return 0;
}

static int take_numbers(stk_batch_op *op, const stk_args *args, const char *name, stk_error *err)
{
    int both = !strcmp(name, "mixup_cutmix");

    STK_TRY(take_number(args, name, "p", 1, &op->p, err));
    if (both)
        STK_TRY(take_number(args, name, "switch", 1, &op->choice, err));
    if (strcmp(name, "cutmix") != 0)
        STK_TRY(take_number(args, name, both ? "mixup" : "alpha", 1000, &op->mixup, err));
    if (strcmp(name, "mixup") != 0)
        STK_TRY(take_number(args, name, both ? "cutmix" : "alpha", 1000, &op->cutmix, err));
    if (op->mixup == 0 && op->cutmix == 0)
        return stk_fail(err, STK_EINVAL,
                        "%s: %s: nothing is ever mixed: make it more than 0, or leave it away",
                        name, both ? "mixup and cutmix are 0" : "alpha is 0");
    return take_mode(args, name, &op->mode, err);
}

static int plan_mix(stk_batch_op *op, const char *name, const stk_args *args, const place *at,
                    stk_error *err)
{
    const char *image = stk_args_str(args, "image");

    STK_TRY(take_numbers(op, args, name, err));
    STK_TRY(take_rows(at, name, image, &op->image, err));
    STK_TRY(take_label(at, name, stk_args_str(args, "label"), &op->label, err));
    if (op->mixup > 0 && !is_float(op->image.dtype))
        return stk_fail(err, STK_EINVAL,
                        "%s: %s has %s numbers, and mixing needs floats: add to(f32) to its chain",
                        name, image, stk_dtype_name(op->image.dtype));
    return op->cutmix > 0 ? take_shape(&at->out[op->image.output], name, &op->shape, err) : 0;
}

static int plan_smooth(stk_batch_op *op, const char *name, const stk_args *args, const place *at,
                       stk_error *err)
{
    op->smooths = 1;
    op->smoothing = stk_args_f64(args, "smoothing");
    if (!(op->smoothing >= 0 && op->smoothing < 1))
        return stk_fail(err, STK_EINVAL, "%s: smoothing=%g is not in 0..1", name, op->smoothing);
    return take_label(at, name, stk_args_str(args, "label"), &op->label, err);
}

#define BOTH                                                                                       \
    { "image", STK_ARG_NAME, NULL, "the output with the pictures, or other rows of floats" },      \
    {                                                                                              \
        "label", STK_ARG_NAME, NULL, "the output with soft labels"                                 \
    }
#define HOW                                                                                        \
    { "p", STK_ARG_FLOAT, "1", "how often it is done" },                                           \
    {                                                                                              \
        "mode", STK_ARG_NAME, "batch", "one draw per batch, pair or elem"                          \
    }

static const stk_arg both_args[] = {
    BOTH,
    { "mixup", STK_ARG_FLOAT, "0.8", "lam is Beta(alpha, alpha) with this alpha; 0: never" },
    { "cutmix", STK_ARG_FLOAT, "1", "the same for cutmix" },
    { "switch", STK_ARG_FLOAT, "0.5", "how often it is cutmix" },
    HOW,
    { 0 },
};
static const stk_arg one_args[] = {
    BOTH, { "alpha", STK_ARG_FLOAT, "1", "lam is Beta(alpha, alpha)" }, HOW, { 0 }
};
static const stk_arg smooth_args[] = {
    { "label", STK_ARG_NAME, NULL, "the output with soft labels" },
    { "smoothing", STK_ARG_FLOAT, "0.1", "so much of the weight goes to all classes" },
    { 0 },
};

static const struct {
    const char *name;
    const stk_arg *args;
    int (*plan)(stk_batch_op *op, const char *name, const stk_args *args, const place *at,
                stk_error *err);
} ops[] = {
    { "mixup_cutmix", both_args, plan_mix },
    { "mixup", one_args, plan_mix },
    { "cutmix", one_args, plan_mix },
    { "label_smoothing", smooth_args, plan_smooth },
};
#define N_OPS (sizeof ops / sizeof *ops)

static int unknown(const char *name, stk_error *err)
{
    const char *names[N_OPS], *near;

    for (size_t i = 0; i < N_OPS; i++)
        names[i] = ops[i].name;
    near = stk_nearest(name, names, N_OPS);
    return stk_fail(err, STK_EINVAL,
                    "batch_ops: no op on batches is called `%.60s`%s%s%s: there are mixup_cutmix, "
                    "mixup, cutmix, label_smoothing, and functions of your own",
                    name, near ? ": did you mean `" : "", near ? near : "", near ? "`?" : "");
}

static int plan_one(stk_batch_op *op, const stk_call *call, const place *at, stk_error *err)
{
    stk_args *args = NULL;
    int rc;

    for (size_t i = 0; i < N_OPS; i++) {
        if (strcmp(ops[i].name, call->name) != 0)
            continue;
        rc = stk_args_check(&args, call, ops[i].args, err);
        if (rc == 0)
            rc = ops[i].plan(op, call->name, args, at, err);
        stk_args_close(&args);
        return rc;
    }
    return unknown(call->name, err);
}

int stk_batch_ops_plan(stk_batch_op ***out, uint32_t *n, const char *text,
                       const stk_batch_op_input *in, stk_error *err)
{
    place at = { in->outputs, in->n_outputs };
    stk_expr *e = NULL;
    int rc = stk_expr_parse(&e, text, err);

    *out = NULL;
    *n = 0;
    if (rc == 0) {
        *out = stk_zalloc(e->n_calls, sizeof **out);
        rc = *out ? 0 : stk_fail_nomem(err, e->n_calls * sizeof **out);
    }
    for (uint32_t i = 0; rc == 0 && i < e->n_calls; i++) {
        stk_batch_op *op = STK_NEW(stk_batch_op);

        if (!op)
            rc = stk_fail_nomem(err, sizeof *op);
        else
            (*out)[(*n)++] = op;
        if (rc == 0) {
            op->seed = in->seed;
            op->number = i;
            rc = plan_one(op, &e->call[i], &at, err);
        }
        if (rc == 0)
            op->deferred = (i && (*out)[i - 1]->deferred) ||
                           (!op->smooths && in->outputs[op->image.output].gpu_made);
    }
    stk_expr_close(&e);
    if (rc < 0)
        stk_batch_ops_close(out, *n);
    return rc;
}

void stk_batch_ops_close(stk_batch_op ***list, uint32_t n)
{
    for (uint32_t i = 0; *list && i < n; i++)
        stk_free((*list)[i]);
    stk_free(*list);
    *list = NULL;
}
