/* SPDX-License-Identifier: Apache-2.0 */
/* patch_size.c - see patch_size.h.  The order of operations is that of the originals: doubles, one
 * rounding each, so that no size differs from theirs. */
#include "op/patch_size.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define EPS 1e-5

static const stk_patch_model models[] = {
    { "naflex",
      { STK_PATCH_COUNT, 16, 1, .max_patches = 576 },
      STK_BICUBIC,
      STK_FILTER_PILLOW,
      0,
      0,
      1 },
    { "siglip2",
      { STK_PATCH_COUNT, 16, 1, .max_patches = 256 },
      STK_BILINEAR,
      STK_FILTER_TORCH,
      0,
      0,
      1 },
    { "qwen2_vl",
      { STK_PATCH_PIXELS, 14, 2, .min_pixels = 56 * 56, .max_pixels = 12845056 },
      STK_BICUBIC,
      STK_FILTER_TORCH,
      1,
      1,
      2 },
    { "qwen3_vl",
      { STK_PATCH_PIXELS, 16, 2, .min_pixels = 65536, .max_pixels = 16777216 },
      STK_BICUBIC,
      STK_FILTER_TORCH,
      1,
      1,
      2 },
    { "kimi",
      { STK_PATCH_PAD, 14, 2, .max_patches = 16384, .max_side = 512 },
      STK_BICUBIC,
      STK_FILTER_PILLOW,
      0,
      1,
      1 },
};

const stk_patch_model *stk_patch_model_named(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, name))
            return &models[i];
    return NULL;
}

/* ---- the rules ---- */

/* Patches of a side of `side` pixels that is scaled. */
static uint64_t scaled(uint32_t side, double scale, double patch)
{
    double n = ceil(side * scale / patch);

    return n > 1 ? (uint64_t)n : 1;
}

/* timm: get_image_size_for_seq(); SigLIP2: get_image_size_for_max_num_patches().  They halve the
 * same range with each scale tried.  More patches follow from a larger scale, never fewer: so a
 * scale below one that fits, or above one that does not, needs no try. */
static void by_count(const stk_patch_sizing *s, uint32_t w, uint32_t h, uint64_t *out_w,
                     uint64_t *out_h)
{
    double lo = EPS / 10, hi = 100, unit = (double)s->patch * s->merge;
    uint64_t most = s->max_patches / ((uint64_t)s->merge * s->merge);
    double guess = sqrt((double)most / ((double)w * h)) * unit, below = guess * 0.9;
    double above = guess * 1.01; /* whole patches are never fewer than the scaled area has */

    if (scaled(h, below, unit) * scaled(w, below, unit) > most)
        below = 0;
    if (scaled(h, above, unit) * scaled(w, above, unit) <= most)
        above = INFINITY;
    while (hi - lo >= EPS) {
        double mid = (lo + hi) / 2;

        if (mid <= below || (mid < above && scaled(h, mid, unit) * scaled(w, mid, unit) <= most))
            lo = mid;
        else
            hi = mid;
    }
    if (s->max_ratio > 0 && s->max_ratio < lo)
        lo = s->max_ratio;
    *out_w = scaled(w, lo, unit) * s->patch * s->merge;
    *out_h = scaled(h, lo, unit) * s->patch * s->merge;
}

/* Qwen: smart_resize(). */
static const char *by_pixels(const stk_patch_sizing *s, uint32_t w, uint32_t h, uint64_t *out_w,
                             uint64_t *out_h)
{
    double f = (double)s->patch * s->merge, area = (double)h * w, by;
    double a = nearbyint(h / f) * f, b = nearbyint(w / f) * f;

    if ((double)(w > h ? w : h) / (w > h ? h : w) > 200)
        return "one side of the picture is more than 200 times the other: Qwen's rule takes no "
               "such; crop it first";
    if (a * b > (double)s->max_pixels) {
        by = sqrt(area / (double)s->max_pixels);
        a = floor(h / by / f) * f;
        b = floor(w / by / f) * f;
        a = a > f ? a : f;
        b = b > f ? b : f;
    } else if (a * b < (double)s->min_pixels) {
        by = sqrt((double)s->min_pixels / area);
        a = ceil(h * by / f) * f;
        b = ceil(w * by / f) * f;
    }
    *out_w = (uint64_t)b;
    *out_h = (uint64_t)a;
    return a >= 1 && b >= 1 ? NULL : "the picture is smaller than half a patch: raise min_pixels";
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Kimi: navit_resize(). */
static void by_padding(const stk_patch_sizing *s, uint32_t w, uint32_t h, stk_patch_size *out)
{
    uint32_t p = s->patch, unit = p * s->merge;
    double high = h / p > 1 ? h / p : 1, wide = w / p > 1 ? w / p : 1;
    double side = (double)s->max_side * p;
    double scale = least(least(1, sqrt((double)s->max_patches / (high * wide))),
                         least(side / h, side / w));
    double new_h = floor(h * scale), new_w = floor(w * scale);

    out->h = (uint32_t)least(new_h > 1 ? new_h : 1, side);
    out->w = (uint32_t)least(new_w > 1 ? new_w : 1, side);
    out->canvas_h = (out->h + unit - 1) / unit * unit;
    out->canvas_w = (out->w + unit - 1) / unit * unit;
}

const char *stk_patch_size_of(const stk_patch_sizing *s, uint32_t w, uint32_t h,
                              stk_patch_size *out)
{
    uint64_t to_w = 0, to_h = 0;
    const char *why = NULL;

    if (s->rule == STK_PATCH_PAD) {
        by_padding(s, w, h, out);
        return NULL;
    }
    if (s->rule == STK_PATCH_COUNT)
        by_count(s, w, h, &to_w, &to_h);
    else
        why = by_pixels(s, w, h, &to_w, &to_h);
    if (!why && (to_w > STK_MAX_SIDE || to_h > STK_MAX_SIDE))
        why = "the picture gets a side longer than 65535 pixels: crop it first";
    if (!why)
        *out = (stk_patch_size){ (uint32_t)to_w, (uint32_t)to_h, (uint32_t)to_w, (uint32_t)to_h };
    return why;
}

/* max_pixels, but where a side is at least one block, or a small picture is rounded up. */
static uint64_t most_by_pixels(const stk_patch_sizing *s)
{
    double f = (double)s->patch * s->merge, least_side = sqrt((double)s->min_pixels / 200);
    double thin = f * sqrt((double)s->max_pixels * 200), most = (double)s->max_pixels;
    double small = (200 * least_side + f) * (least_side + f); /* the sum of sides is largest here */

    if (s->max_pixels < 200 * f * f && thin > most)
        most = thin;
    if (s->min_pixels && small > most)
        most = small;
    return (uint64_t)(most / ((double)s->patch * s->patch));
}

uint64_t stk_patch_most(const stk_patch_sizing *s)
{
    uint64_t unit = s->merge;

    if (s->rule == STK_PATCH_COUNT)
        return s->max_patches;
    if (s->rule == STK_PATCH_PIXELS)
        return most_by_pixels(s);
    return s->max_patches + 2 * unit * s->max_side + unit * unit; /* what padding adds */
}

void stk_patch_cut(uint32_t unit, uint32_t most, uint32_t size[2])
{
    uint32_t across = size[0] / unit, down = size[1] / unit;

    assert(unit && most);
    if (size[0] % unit || size[1] % unit || (uint64_t)across * down <= most)
        return;
    size[0] = (across < most ? across : most) * unit;
    size[1] = (across < most ? most / across : 1) * unit;
}

/* ---- arguments ---- */

int stk_patch_arg(const stk_args *args, const char *op, uint32_t *patch,
                  const stk_patch_model **model, stk_error *err)
{
    const char *name = stk_args_str(args, "patch");
    double side = stk_args_f64_at(args, "patch", 0);

    *model = name ? stk_patch_model_named(name) : NULL;
    if (name && !*model)
        return stk_fail(
            err, STK_EINVAL,
            "%s: `%s` is not known: the side of a patch in pixels, or " STK_PATCH_MODELS, op, name);
    if (!name &&
        (!(side >= 1 && side <= 1024) || side != floor(side) || stk_args_count(args, "patch") != 1))
        return stk_fail(err, STK_EINVAL, "%s: a patch of %g pixels is not one of 1 to 1024", op,
                        side);
    *patch = name ? (*model)->sizing.patch : (uint32_t)side;
    return 0;
}

/* A whole number of an argument, or what the model says. */
static int whole(const stk_args *args, const char *op, const char *name, uint64_t most,
                 uint64_t *out, stk_error *err)
{
    int64_t v;

    if (!stk_args_has(args, name))
        return 0;
    v = stk_args_i64(args, name);
    if (v < 1 || (uint64_t)v > most)
        return stk_fail(err, STK_EINVAL, "%s: %s=%" PRId64 " is not in 1..%" PRIu64, op, name, v,
                        most);
    *out = (uint64_t)v;
    return 0;
}

static int rule_of(const stk_args *args, const char *op, stk_patch_sizing *s, stk_error *err)
{
    int pixels = stk_args_has(args, "min_pixels") || stk_args_has(args, "max_pixels");

    if (stk_args_has(args, "pad") && stk_args_bool(args, "pad"))
        s->rule = STK_PATCH_PAD;
    else if (!s->rule)
        s->rule = pixels ? STK_PATCH_PIXELS : STK_PATCH_COUNT;
    if (pixels && s->rule != STK_PATCH_PIXELS)
        return stk_fail(err, STK_EINVAL,
                        "%s: max_patches and min_pixels or max_pixels are two rules: give one", op);
    if (s->rule == STK_PATCH_PIXELS && (!s->max_pixels || s->min_pixels > s->max_pixels))
        return stk_fail(err, STK_EINVAL,
                        "%s: give min_pixels and max_pixels, the first not above the second", op);
    if (s->rule != STK_PATCH_PIXELS && !s->max_patches)
        return stk_fail(err, STK_EINVAL,
                        "%s: how large? give max_patches, or min_pixels and max_pixels", op);
    if (s->rule == STK_PATCH_PIXELS && stk_args_has(args, "max_patches"))
        return stk_fail(err, STK_EINVAL,
                        "%s: max_patches and min_pixels or max_pixels are two rules: give one", op);
    if (s->rule == STK_PATCH_COUNT && s->max_patches < (uint64_t)s->merge * s->merge)
        return stk_fail(err, STK_EINVAL, "%s: max_patches=%" PRIu64 " is less than a block of %u",
                        op, s->max_patches, s->merge * s->merge);
    return 0;
}

int stk_patch_sizing_plan(const stk_args *args, const char *op, stk_patch_sizing *out,
                          const stk_patch_model **model, stk_error *err)
{
    uint64_t merge, side;
    uint32_t patch;

    STK_TRY(stk_patch_arg(args, op, &patch, model, err));
    *out = *model ? (*model)->sizing : (stk_patch_sizing){ .merge = 1 };
    out->patch = patch;
    merge = out->merge;
    side = out->max_side ? out->max_side : STK_MAX_SIDE / patch;
    STK_TRY(whole(args, op, "merge", 16, &merge, err));
    STK_TRY(whole(args, op, "max_patches", (uint64_t)1 << 32, &out->max_patches, err));
    STK_TRY(whole(args, op, "min_pixels", (uint64_t)1 << 40, &out->min_pixels, err));
    STK_TRY(whole(args, op, "max_pixels", (uint64_t)1 << 40, &out->max_pixels, err));
    STK_TRY(whole(args, op, "max_side", STK_MAX_SIDE / patch, &side, err));
    out->merge = (uint32_t)merge;
    out->max_side = (uint32_t)side;
    out->max_ratio = stk_args_has(args, "max_ratio") ? stk_args_f64(args, "max_ratio") : 0;
    if (stk_args_has(args, "max_ratio") && !(out->max_ratio > EPS && out->max_ratio < 100))
        return stk_fail(err, STK_EINVAL, "%s: max_ratio=%g is not between 0.00001 and 100", op,
                        out->max_ratio);
    return rule_of(args, op, out, err);
}

int stk_patch_filter(const stk_args *args, const char *op, const stk_patch_model *model,
                     uint8_t *filter, stk_error *err)
{
    *filter = (uint8_t)(model ? model->filter : STK_BICUBIC);
    if (stk_args_has(args, "interpolation"))
        STK_TRY(stk_spec_filter(args, op, filter, err));
    return stk_patch_exact(args, op, model, filter, err);
}

int stk_patch_exact(const stk_args *args, const char *op, const stk_patch_model *model,
                    uint8_t *filter, stk_error *err)
{
    if (model && !stk_args_has(args, "exact") &&
        !(model->exact == STK_FILTER_TORCH && (*filter & STK_FILTER_KIND) == STK_LANCZOS))
        *filter |= model->exact;
    return stk_spec_exact(args, op, filter, err);
}

const void *stk_patch_limited(const stk_op *op, const void *state, const stk_address *at,
                              uint64_t room[STK_PATCH_STATE])
{
    stk_patch_sizing *s = (stk_patch_sizing *)(void *)room; /* which both ops' states begin with */

    if ((!at->max_patches && !at->patch) ||
        (op != &stk_op_resize_to_patches && op != &stk_op_random_resized_crop_to_patches))
        return state;
    assert(op->state_size <= STK_PATCH_STATE * sizeof *room);
    memcpy(room, state, op->state_size);
    s->max_patches = at->max_patches ? at->max_patches : s->max_patches;
    s->patch = at->patch ? at->patch : s->patch;
    return room;
}

/* ---- buckets ---- */

static void add_bucket(stk_bucket_sizes *b, uint32_t w, uint32_t h)
{
    uint32_t at = 0;

    while (at < b->n && (b->w[at] < w || (b->w[at] == w && b->h[at] < h)))
        at++;
    if ((at < b->n && b->w[at] == w && b->h[at] == h) || b->n == STK_MAX_BUCKETS || !w || !h)
        return;
    memmove(b->w + at + 1, b->w + at, (b->n - at) * sizeof *b->w);
    memmove(b->h + at + 1, b->h + at, (b->n - at) * sizeof *b->h);
    b->w[at] = w;
    b->h[at] = h;
    b->n++;
}

void stk_bucket_sizes_make(stk_bucket_sizes *b, uint64_t area, uint32_t step, uint32_t least_side,
                           uint32_t most)
{
    uint32_t square = (uint32_t)(floor(sqrt((double)area) / step)) * step;

    b->n = 0;
    add_bucket(b, square, square);
    for (uint32_t w = least_side; w <= most; w += step) {
        uint64_t h = area / w / step * step;

        h = h < most ? h : most;
        if (h < least_side)
            continue;
        add_bucket(b, w, (uint32_t)h);
        add_bucket(b, (uint32_t)h, w);
    }
}

uint32_t stk_bucket_of(const stk_bucket_sizes *b, uint32_t w, uint32_t h, uint64_t *res_w,
                       uint64_t *res_h)
{
    double aspect = (double)w / h, best = INFINITY, scale;
    uint32_t at = 0;

    for (uint32_t i = 0; i < b->n; i++) {
        double off = fabs((double)b->w[i] / b->h[i] - aspect);

        if (b->w[i] == w && b->h[i] == h) {
            at = i;
            break;
        }
        if (off < best) {
            best = off;
            at = i;
        }
    }
    scale = aspect > (double)b->w[at] / b->h[at] ? (double)b->h[at] / h : (double)b->w[at] / w;
    *res_w = (uint64_t)(w * scale + 0.5);
    *res_h = (uint64_t)(h * scale + 0.5);
    return at;
}

static uint64_t to_steps(double x, uint32_t step)
{
    uint64_t n = (uint64_t)(x + 0.5);

    return n - n % step;
}

/* BucketManager.select_bucket() without upscaling: rounded by its width or by its height, whichever
 * is nearer to its ratio. */
void stk_bucket_no_upscale(uint64_t area, uint32_t step, uint32_t w, uint32_t h,
                           stk_bucket_size *out)
{
    double aspect = (double)w / h, wide = sqrt((double)area * aspect), high = (double)area / wide;
    uint64_t by_w = to_steps(wide, step), h_of = to_steps((double)by_w / aspect, step);
    uint64_t by_h = to_steps(high, step), w_of = to_steps((double)by_h * aspect, step);

    out->w = w;
    out->h = h;
    if ((uint64_t)w * h > area && h_of && by_h) {
        double off_w = fabs((double)by_w / (double)h_of - aspect);
        double off_h = fabs((double)w_of / (double)by_h - aspect);

        if (off_w < off_h) {
            out->w = by_w;
            out->h = (uint64_t)((double)by_w / aspect + 0.5);
        } else {
            out->w = (uint64_t)((double)by_h * aspect + 0.5);
            out->h = by_h;
        }
    }
    out->cut_w = (uint64_t)w * h > area && !(h_of && by_h) ? 0 : out->w - out->w % step;
    out->cut_h = out->h - out->h % step;
}
