/* SPDX-License-Identifier: Apache-2.0 */
/* resize_to_bucket - to the bucket whose ratio is nearest, covered and then cropped: aspect buckets
 * as kohya makes them.  Each bucket is one size, so that batches of one bucket are stacked. */
#include "op/patch_size.h"

#include <stdlib.h>
#include <string.h>

struct to_bucket {
    stk_bucket_sizes sizes;
    uint8_t filter;
    int random;    /* the place of the crop */
    uint64_t area; /* no_upscale; 0: it is not */
    uint32_t step;
};

static int side_of(const stk_args *args, const char *name, uint32_t *out, stk_error *err)
{
    int64_t v = stk_args_i64(args, name);

    if (v < 1 || v > STK_MAX_SIDE)
        return stk_fail(err, STK_EINVAL, "resize_to_bucket: %s=%" PRId64 " is not in 1..%u", name,
                        v, STK_MAX_SIDE);
    *out = (uint32_t)v;
    return 0;
}

/* Sizes as they are written: "512x768", height first. */
static int take_sizes(const stk_args *args, stk_bucket_sizes *b, stk_error *err)
{
    uint32_t n = stk_args_count(args, "sizes");

    if (n > STK_MAX_BUCKETS)
        return stk_fail(err, STK_EINVAL, "resize_to_bucket: %u sizes, at most %u", n,
                        STK_MAX_BUCKETS);
    for (b->n = 0; b->n < n; b->n++) {
        const char *text = stk_args_str_at(args, "sizes", b->n);
        char *end = NULL;
        unsigned long h = text ? strtoul(text, &end, 10) : 0, w;

        w = end && *end == 'x' ? strtoul(end + 1, &end, 10) : 0;
        if (!h || !w || *end || h > STK_MAX_SIDE || w > STK_MAX_SIDE)
            return stk_fail(err, STK_EINVAL,
                            "resize_to_bucket: a size is written \"512x768\", height first, not %s",
                            text ? text : "a number");
        b->h[b->n] = (uint32_t)h;
        b->w[b->n] = (uint32_t)w;
    }
    return 0;
}

static int make_sizes(const stk_args *args, stk_bucket_sizes *b, stk_error *err)
{
    int64_t area = stk_args_i64(args, "area");
    uint32_t step = 0, least = 0, most = 0;

    STK_TRY(side_of(args, "step", &step, err));
    STK_TRY(side_of(args, "least", &least, err));
    STK_TRY(side_of(args, "most", &most, err));
    if (area < 1 || area > (int64_t)STK_MAX_SIDE * STK_MAX_SIDE || least > most ||
        (most - least) / step > STK_MAX_BUCKETS / 2 - 2)
        return stk_fail(err, STK_EINVAL,
                        "resize_to_bucket: area=%" PRId64 " with sides of %u to %u by steps of %u "
                        "makes no list of at most %u sizes",
                        area, least, most, step, STK_MAX_BUCKETS);
    stk_bucket_sizes_make(b, (uint64_t)area, step, least, most);
    return b->n ? 0
                : stk_fail(err, STK_EINVAL,
                           "resize_to_bucket: no size of %u to %u pixels has an area of %" PRId64,
                           least, most, area);
}

static int take_no_upscale(struct to_bucket *t, const stk_args *args, stk_error *err)
{
    int64_t area = stk_args_i64(args, "area");

    if (!stk_args_bool(args, "no_upscale"))
        return 0;
    if (!stk_args_has(args, "area"))
        return stk_fail(err, STK_EINVAL,
                        "resize_to_bucket: no_upscale goes with area, not with sizes");
    STK_TRY(side_of(args, "step", &t->step, err));
    t->area = (uint64_t)area;
    return 0;
}

static int to_bucket_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *crop = stk_args_str(args, "crop");
    struct to_bucket *t = state;
    int named = stk_args_count(args, "sizes") > 0;

    if (named == stk_args_has(args, "area"))
        return stk_fail(err, STK_EINVAL,
                        "resize_to_bucket: give sizes, as \"512x768\", or area: one of the two");
    STK_TRY(named ? take_sizes(args, &t->sizes, err) : make_sizes(args, &t->sizes, err));
    STK_TRY(take_no_upscale(t, args, err));
    t->random = crop && !strcmp(crop, "random");
    if (!t->random && (!crop || strcmp(crop, "center") != 0))
        return stk_fail(err, STK_EINVAL, "resize_to_bucket: crop is center or random, not %s",
                        crop ? crop : "a number");
    STK_TRY(stk_spec_filter(args, "resize_to_bucket", &t->filter, err));
    STK_TRY(stk_spec_resize(spec, "resize_to_bucket", err));
    if (t->area || t->sizes.n > 1)
        stk_spec_size(spec, 0, 0);
    else
        stk_spec_size(spec, t->sizes.w[0], t->sizes.h[0]);
    return 0;
}

static void find_size(const struct to_bucket *t, const stk_view *view, stk_bucket_size *out)
{
    uint32_t at;

    if (t->area) {
        stk_bucket_no_upscale(t->area, t->step, view->vis_w, view->vis_h, out);
        return;
    }
    at = stk_bucket_of(&t->sizes, view->vis_w, view->vis_h, &out->w, &out->h);
    out->cut_w = t->sizes.w[at];
    out->cut_h = t->sizes.h[at];
}

static void to_bucket_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct to_bucket *t = state;
    stk_bucket_size size;
    uint64_t w, h;
    uint32_t x, y, to_w, to_h;

    if (view->refused)
        return;
    find_size(t, view, &size);
    to_w = (uint32_t)size.cut_w;
    to_h = (uint32_t)size.cut_h;
    if (!to_w || !to_h) {
        view->refused = "the picture is smaller than a step of its buckets: leave no_upscale";
        return;
    }
    w = size.w > to_w ? size.w : to_w;
    h = size.h > to_h ? size.h : to_h;
    if (w > STK_MAX_SIDE || h > STK_MAX_SIDE) {
        view->refused = "the picture is too long and narrow for its bucket: crop it first";
        return;
    }
    stk_view_resize(view, (uint32_t)w, (uint32_t)h);
    view->filter = t->filter;
    x = (uint32_t)w - to_w;
    y = (uint32_t)h - to_h;
    x = t->random ? stk_rng_below(rng, x + 1) : x / 2;
    y = t->random ? stk_rng_below(rng, y + 1) : y / 2;
    stk_view_crop(view, (int32_t)x, (int32_t)y, to_w, to_h);
}

static const stk_arg to_bucket_args[] = {
    { "sizes", STK_ARG_NAMES, "", "sizes of the buckets: \"512x768\", \"768x512\"; height first" },
    { "area", STK_ARG_INT, "", "in place of sizes: about so many pixels each" },
    { "step", STK_ARG_INT, "64", "with area: sides are multiples of this, ..." },
    { "least", STK_ARG_INT, "256", "... not shorter than this ..." },
    { "most", STK_ARG_INT, "1024", "... and not longer" },
    { "no_upscale", STK_ARG_BOOL, "false",
      "with area: a smaller picture is only cut to whole steps, not enlarged" },
    { "crop", STK_ARG_NAME, "center", "which part is kept: center or random" },
    { "interpolation", STK_ARG_NAME, "bilinear", "nearest, bilinear, bicubic or lanczos" },
    STK_ARG_EXACT("the pixels are those of pillow or torchvision, to the bit"),
    { 0 },
};

const stk_op stk_op_resize_to_bucket = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "resize_to_bucket",
    .help = "resize and crop to the bucket whose ratio is nearest",
    .args = to_bucket_args,
    .state_size = sizeof(struct to_bucket),
    .plan = to_bucket_plan,
    .draw = to_bucket_draw,
    .can = STK_OP_VIEW
};
