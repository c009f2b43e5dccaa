/* SPDX-License-Identifier: Apache-2.0 */
/* resize - to a size.  One number is the shorter side, the other follows
 * as in torchvision: int(size * long / short); (height, width) is exact.  max_size bounds the
 * longer side. */
#include "op/spec.h"

struct resize {
    uint32_t h, w;     /* shorter: both the same number */
    uint32_t max_size; /* 0: none */
    int shorter;
    uint8_t filter;
};

/* Output size for a w x h picture; a side may come out as 0. */
static void resize_to(const struct resize *r, uint32_t w, uint32_t h, uint64_t *out_w,
                      uint64_t *out_h)
{
    uint64_t small = w <= h ? w : h, large = w <= h ? h : w, new_small = r->w, new_large;

    if (!r->shorter) {
        *out_w = r->w;
        *out_h = r->h;
        return;
    }
    new_large = new_small * large / small;
    if (r->max_size && new_large > r->max_size) {
        new_small = r->max_size * new_small / new_large;
        new_large = r->max_size;
    }
    *out_w = w <= h ? new_small : new_large;
    *out_h = w <= h ? new_large : new_small;
}

static int resize_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct resize *r = state;
    uint64_t w = 0, h = 0;
    int n = stk_spec_sides(args, "resize", &r->h, &r->w, err);
    int64_t max_size;

    if (n < 0)
        return n;
    r->shorter = n == 1;
    r->max_size = 0;
    if (stk_args_has(args, "max_size")) {
        max_size = stk_args_i64(args, "max_size");
        if (!r->shorter)
            return stk_fail(
                err, STK_EINVAL,
                "resize: max_size goes with one number as size, not with (height, width)");
        if (max_size <= r->w || max_size > STK_MAX_SIDE)
            return stk_fail(err, STK_EINVAL,
                            "resize: max_size=%" PRId64 " must be larger than size=%u, at most %u",
                            max_size, r->w, STK_MAX_SIDE);
        r->max_size = (uint32_t)max_size;
    }
    STK_TRY(stk_spec_filter(args, "resize", &r->filter, err));
    STK_TRY(stk_spec_resize(spec, "resize", err));
    if (!r->shorter || (spec->picture.width && spec->picture.height))
        resize_to(r, spec->picture.width, spec->picture.height, &w, &h);
    if (w > STK_MAX_SIDE || h > STK_MAX_SIDE)
        return stk_fail(err, STK_EINVAL,
                        "resize: %" PRIu64 "x%" PRIu64 " is more than %u pixels wide or high", w, h,
                        STK_MAX_SIDE);
    stk_spec_size(spec, (uint32_t)w, (uint32_t)h);
    return 0;
}

static void resize_draw(const void *state, stk_rng *rng, stk_view *view)
{
    uint64_t w, h;

    (void)rng;
    if (view->refused)
        return;
    resize_to(state, view->vis_w, view->vis_h, &w, &h);
    if (w > STK_MAX_SIDE || h > STK_MAX_SIDE) {
        view->refused = "resize makes a side longer than 65535 pixels: give max_size";
        return;
    }
    stk_view_resize(view, (uint32_t)w, (uint32_t)h);
    view->filter = ((const struct resize *)state)->filter;
}

static const stk_arg resize_args[] = {
    { "size", STK_ARG_INTS, NULL, "the shorter side, or (height, width)" },
    { "max_size", STK_ARG_INT, "", "the longer side is at most this" },
    STK_ARGS_FILTER,
    { 0 },
};

const stk_op stk_op_resize = { .abi = STK_PLUGIN_ABI,
                               .size = sizeof(stk_op),
                               .name = "resize",
                               .help = "resize; one number: the shorter side",
                               .args = resize_args,
                               .state_size = sizeof(struct resize),
                               .plan = resize_plan,
                               .draw = resize_draw,
                               .can = STK_OP_VIEW };
