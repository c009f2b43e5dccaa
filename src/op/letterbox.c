/* SPDX-License-Identifier: Apache-2.0 */
/* letterbox - resize to fit into a box with the ratio kept, and pad to the box, the picture in the
 * middle: what YOLO feeds.  Sides and margins are rounded as ultralytics' LetterBox rounds them. */
#include "op/padding.h"

struct letterbox {
    uint32_t h, w;
    stk_padding by;
    uint8_t filter;
};

static int letterbox_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct letterbox *b = state;

    STK_TRY(stk_spec_sides(args, "letterbox", &b->h, &b->w, err));
    STK_TRY(stk_spec_fill(args, "letterbox", &b->by, err));
    STK_TRY(stk_spec_filter(args, "letterbox", &b->filter, err));
    STK_TRY(stk_spec_resize(spec, "letterbox", err));
    stk_spec_size(spec, b->w, b->h);
    return 0;
}

/* A side of `have` pixels times r, and the margin before it in a side of `want`. */
static uint32_t fit(uint32_t have, double r, uint32_t want, uint32_t *margin)
{
    int64_t side = stk_round_even(have * r);

    side = side < 1 ? 1 : side > want ? want : side;
    *margin = (uint32_t)stk_round_even((double)(want - side) / 2 - 0.1);
    return (uint32_t)side;
}

static void letterbox_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct letterbox *b = state;
    double rw = (double)b->w / view->vis_w, rh = (double)b->h / view->vis_h, r = rw < rh ? rw : rh;
    stk_padding by = b->by;
    uint32_t w = fit(view->vis_w, r, b->w, &by.left), h = fit(view->vis_h, r, b->h, &by.top);

    (void)rng;
    by.right = b->w - w - by.left;
    by.bottom = b->h - h - by.top;
    stk_view_resize(view, w, h);
    view->filter = b->filter;
    stk_view_pad(view, &by);
}

static const stk_arg letterbox_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of the box, or (height, width)" },
    STK_ARG_FILL("114"),
    STK_ARGS_FILTER,
    { 0 },
};

const stk_op stk_op_letterbox = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_op),
                                  .name = "letterbox",
                                  .help = "resize into a box with the ratio kept, and pad to it",
                                  .args = letterbox_args,
                                  .state_size = sizeof(struct letterbox),
                                  .plan = letterbox_plan,
                                  .draw = letterbox_draw,
                                  .can = STK_OP_VIEW };
