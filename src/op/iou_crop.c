/* SPDX-License-Identifier: Apache-2.0 */
/* iou_crop - a window that has the middle of some box and overlaps one of them enough:
 * torchvision's RandomIoUCrop, of SSD.  Boxes whose middle is outside are dropped. */
#include "base/rng.h"
#include "op/spec.h"

#define MAX_OPTIONS 16
#define ROUNDS 64 /* options that are tried; torchvision tries until 1 is drawn */

struct iou_crop {
    double scale[2], ratio[2], option[MAX_OPTIONS];
    uint32_t n, trials;
};

typedef struct window {
    double x0, y0, x1, y1;
} window;

static int plan_range(const stk_args *args, const char *name, double most, double out[2],
                      stk_error *err)
{
    out[0] = stk_args_f64_at(args, name, 0);
    out[1] = stk_args_f64_at(args, name, 1);
    if (stk_args_count(args, name) != 2 || !(out[0] > 0 && out[0] <= out[1] && out[1] <= most))
        return stk_fail(err, STK_EINVAL, "iou_crop: %s is (least, most), above 0 and at most %g",
                        name, most);
    return 0;
}

static int iou_crop_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct iou_crop *c = state;
    double trials = stk_args_f64(args, "trials");

    STK_TRY(stk_spec_geometry(spec, "iou_crop", err));
    STK_TRY(plan_range(args, "scale", 1, c->scale, err));
    STK_TRY(plan_range(args, "ratio", 1e6, c->ratio, err));
    c->n = stk_args_count(args, "options");
    for (uint32_t i = 0; i < c->n; i++) {
        c->option[i] = stk_args_f64_at(args, "options", i);
        if (!(c->option[i] >= 0 && c->option[i] <= 1))
            return stk_fail(err, STK_EINVAL, "iou_crop: options=%g is not in 0..1", c->option[i]);
    }
    if (!(trials >= 1 && trials <= 1000))
        return stk_fail(err, STK_EINVAL, "iou_crop: trials=%g is not in 1..1000", trials);
    c->trials = (uint32_t)trials;
    stk_spec_size(spec, 0, 0);
    return 0;
}

static int has_middle(const window *w, const double b[4])
{
    double x = 0.5 * (b[0] + b[2]), y = 0.5 * (b[1] + b[3]);

    return w->x0 < x && x < w->x1 && w->y0 < y && y < w->y1;
}

static double overlap(const window *w, const double b[4])
{
    double x0 = w->x0 > b[0] ? w->x0 : b[0], x1 = w->x1 < b[2] ? w->x1 : b[2],
           y0 = w->y0 > b[1] ? w->y0 : b[1], y1 = w->y1 < b[3] ? w->y1 : b[3];
    double both = x1 > x0 && y1 > y0 ? (x1 - x0) * (y1 - y0) : 0;

    return both / ((w->x1 - w->x0) * (w->y1 - w->y0) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}

/* Some box has its middle in the window, and one of these overlaps it enough. */
static int is_good(const window *w, const stk_box_list *boxes, double least)
{
    double most = -1;

    for (uint32_t i = 0; i < boxes->n; i++)
        if (boxes->keep[i] && has_middle(w, boxes->at[i])) {
            double v = overlap(w, boxes->at[i]);

            most = v > most ? v : most;
        }
    return most >= 0 && most >= least;
}

/* A window of whole pixels; 0: of another ratio, or empty. */
static int draw_window(const struct iou_crop *c, stk_rng *rng, const stk_view *v, window *out)
{
    double range = c->scale[1] - c->scale[0], ratio, x, y;
    uint32_t w = (uint32_t)(v->vis_w * (c->scale[0] + range * stk_rng_unit(rng))),
             h = (uint32_t)(v->vis_h * (c->scale[0] + range * stk_rng_unit(rng)));

    if (!w || !h)
        return 0;
    ratio = (double)w / h;
    if (ratio < c->ratio[0] || ratio > c->ratio[1])
        return 0;
    x = (uint32_t)((v->vis_w - w) * stk_rng_unit(rng));
    y = (uint32_t)((v->vis_h - h) * stk_rng_unit(rng));
    *out = (window){ x, y, x + w, y + h };
    return 1;
}

static int find_window(const struct iou_crop *c, stk_rng *rng, const stk_view *v,
                       const stk_box_list *boxes, window *out)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double least = c->option[stk_rng_below(rng, c->n)];

        if (least >= 1)
            return 0;
        for (uint32_t i = 0; i < c->trials; i++)
            if (draw_window(c, rng, v, out) && is_good(out, boxes, least))
                return 1;
    }
    return 0;
}

static void iou_crop_draw(const void *state, stk_rng *rng, stk_view *view, stk_box_list *boxes)
{
    uint32_t some = 0;
    window w;

    for (uint32_t i = 0; i < boxes->n; i++)
        some += boxes->keep[i];
    if (!some || !find_window(state, rng, view, boxes, &w))
        return;
    for (uint32_t i = 0; i < boxes->n; i++)
        boxes->keep[i] = boxes->keep[i] && has_middle(&w, boxes->at[i]);
    stk_view_crop(view, (int32_t)w.x0, (int32_t)w.y0, (uint32_t)(w.x1 - w.x0),
                  (uint32_t)(w.y1 - w.y0));
}

static const stk_arg iou_crop_args[] = {
    { "boxes", STK_ARG_NAME, NULL, "the output of boxes that are like() this picture" },
    { "scale", STK_ARG_FLOATS, "(0.3, 1)", "least and most of width and of height" },
    { "ratio", STK_ARG_FLOATS, "(0.5, 2)", "least and most of width over height" },
    { "options", STK_ARG_FLOATS, "(0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)",
      "overlaps (intersection over union) of which one is drawn; 1: all of the picture" },
    { "trials", STK_ARG_INT, "40", "windows that are tried for an option" },
    { 0 },
};

const stk_op stk_op_iou_crop = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "iou_crop",
                                 .help = "a window that overlaps some box enough",
                                 .args = iou_crop_args,
                                 .state_size = sizeof(struct iou_crop),
                                 .plan = iou_crop_plan,
                                 .can = STK_OP_VIEW | STK_OP_BOXES | STK_OP_SIZES,
                                 .draw_boxes = iou_crop_draw };
