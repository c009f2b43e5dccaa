/* SPDX-License-Identifier: Apache-2.0 */
/* like - the geometry that another output drew, for what belongs to its picture: masks, boxes,
 * keypoints; and, of a list beside boxes (labels), those whose boxes were kept.
 *
 * What it does to a row is in row/row_picture.c and row/row_boxes.c: both know the other output. */
#include "op/like.h"

#include <string.h>

#include "base/expr.h"
#include "op/padding.h"

int stk_like_leader(const char *chain, char *name, size_t room)
{
    stk_expr *e = NULL;
    stk_error err;
    int found = 0;

    if (stk_expr_parse(&e, chain, &err) < 0)
        return 0; /* the plan says what is wrong */
    for (uint32_t i = 0; i < e->n_calls; i++) {
        const stk_call *c = &e->call[i];

        if (strcmp(c->name, "like") || !c->n_args || c->arg[0].value[0].type != STK_V_NAME ||
            strlen(c->arg[0].value[0].text) >= room)
            continue;
        strcpy(name, c->arg[0].value[0].text);
        found = 1;
    }
    stk_expr_close(&e);
    return found;
}

void stk_like_inherit(stk_like *l, const stk_like *from, stk_mode mode)
{
    if (mode == STK_MODE_INDEX)
        return;
    if (!l->filter_given && from->filter_given)
        l->filter_given = 1, l->filter = from->filter;
    if (!l->fill_given && from->fill_given)
        l->fill_given = 1, memcpy(l->fill, from->fill, sizeof l->fill);
}

static int plan_flip(stk_like *l, const char *text, stk_error *err)
{
    uint8_t seen[STK_LIKE_POINTS] = { 0 };

    for (const char *p = text; *p;) {
        uint32_t v = 0, digits = 0;

        for (; *p >= '0' && *p <= '9' && v < 1000; p++, digits++)
            v = v * 10 + (uint32_t)(*p - '0');
        if (!digits || (*p && *p != ' ') || v >= STK_LIKE_POINTS || l->n_flip == STK_LIKE_POINTS)
            return stk_fail(err, STK_EINVAL,
                            "like: flip_idx='%s' is not numbers of 0..%d with a space between",
                            text, STK_LIKE_POINTS - 1);
        l->flip[l->n_flip++] = (uint8_t)v;
        while (*p == ' ')
            p++;
    }
    for (uint32_t i = 0; i < l->n_flip; i++)
        if (l->flip[i] >= l->n_flip || seen[l->flip[i]]++)
            return stk_fail(err, STK_EINVAL,
                            "like: flip_idx must have each of 0..%u once, and has %u",
                            l->n_flip - 1, l->flip[i]);
    return 0;
}

static int plan_boxes(stk_like *l, const stk_args *args, stk_error *err)
{
    static const char *const names[] = { "xyxy", "xywh", "cxcywh" };
    const char *format = stk_args_str(args, "format");
    int i = 0;

    while (i < 3 && (!format || strcmp(format, names[i])))
        i++;
    if (i == 3)
        return stk_fail(err, STK_EINVAL, "like: format is xyxy, xywh or cxcywh, not %s",
                        format ? format : "a number");
    l->format = (stk_box_format)i;
    l->normalized = stk_args_bool(args, "normalized");
    l->points = stk_args_bool(args, "points");
    l->min_size = stk_args_f64(args, "min_size");
    l->min_area = stk_args_f64(args, "min_area");
    if (!(l->min_size >= 0 && l->min_area >= 0))
        return stk_fail(err, STK_EINVAL, "like: min_size and min_area are pixels, 0 or more");
    STK_TRY(stk_spec_chance(args, "like", "min_visible", &l->min_visible, err));
    return stk_args_has(args, "flip_idx") ? plan_flip(l, stk_args_str(args, "flip_idx"), err) : 0;
}

/* Numbers differ in how many are left of them from view to view, so an output follows one. */
static int plan_view(stk_like *l, const stk_args *args, const stk_spec *spec, stk_error *err)
{
    int64_t view = stk_args_i64(args, "view");

    l->view_given = stk_args_has(args, "view");
    if (l->view_given && spec->kind == STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL, "like: view is for numbers; a mask follows all views");
    if (view < 0 || view > UINT16_MAX)
        return stk_fail(err, STK_EINVAL, "like: view=%lld is not in 0..%d", (long long)view,
                        UINT16_MAX);
    l->view = (uint32_t)view;
    return 0;
}

static int plan_sampling(stk_like *l, const stk_args *args, const stk_spec *spec, stk_error *err)
{
    int index = spec->picture.mode == STK_MODE_INDEX;
    stk_padding by = { 0 };

    l->fill_given = (uint8_t)stk_args_has(args, "fill");
    if (l->fill_given)
        STK_TRY(stk_spec_fill(args, "like", &by, err));
    memcpy(l->fill, by.fill, sizeof l->fill);
    l->filter_given = (uint8_t)stk_args_has(args, "interpolation");
    if (!l->filter_given && stk_args_has(args, "antialias"))
        return stk_fail(err, STK_EINVAL,
                        "like: antialias goes with interpolation=; without it a picture has its "
                        "leader's filter");
    if (l->filter_given)
        STK_TRY(stk_spec_filter(args, "like", &l->filter, err));
    if (index && l->filter_given && l->filter != STK_NEAREST)
        return stk_fail(err, STK_EINVAL,
                        "like: indices have no values between them: interpolation=nearest");
    if (index)
        l->filter_given = 1, l->filter = STK_NEAREST;
    return 0;
}

static int like_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_like *l = state;

    if (spec->array || (spec->kind != STK_KIND_IMAGE && spec->kind != STK_KIND_VALUE))
        return stk_fail(err, STK_EINVAL, "like follows an image or numbers: put it after them");
    if (spec->picture.like || spec->dtype_fixed || spec->picture.normalized ||
        spec->picture.resized || stk_spec_lead(spec, STK_LEAD_VIEWS))
        return stk_fail(err, STK_EINVAL,
                        "like gives all the geometry: it stands right after image or numbers");
    spec->picture.like = 1;
    STK_TRY(plan_sampling(l, args, spec, err));
    STK_TRY(plan_view(l, args, spec, err));
    return plan_boxes(l, args, err);
}

/* Numbers become others: row_boxes.c does it, which knows the picture. */
static int like_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                      stk_error *err)
{
    (void)state;
    (void)row;
    (void)scratch;
    return stk_fail(err, STK_EINVAL, "like works in a loader, beside the output that it names");
}

static const stk_arg like_args[] = {
    { "output", STK_ARG_NAME, NULL, "the picture that it belongs to; of labels: the boxes" },
    { "interpolation", STK_ARG_NAME, "",
      "of pictures: as for resize; absent: its leader's, of indices nearest" },
    { "antialias", STK_ARG_BOOL, "", "with interpolation: as for resize" },
    { "fill", STK_ARG_INTS, "",
      "0 to 255: gray, or (red, green, blue); absent: its leader's if both have one mode, else 0" },
    { "format", STK_ARG_NAME, "xyxy", "of boxes: xyxy, xywh or cxcywh" },
    { "normalized", STK_ARG_BOOL, "false", "coordinates are shares of width and height" },
    { "min_size", STK_ARG_FLOAT, "1", "boxes with a shorter side are dropped, pixels" },
    { "min_area", STK_ARG_FLOAT, "1", "... with a smaller area" },
    { "min_visible", STK_ARG_FLOAT, "0", "... of which less than this share is left" },
    { "points", STK_ARG_BOOL, "false", "numbers are keypoints: (x, y) or (x, y, visibility)" },
    { "flip_idx", STK_ARG_NAME, "", "which keypoint is which in a mirror: '0 2 1 4 3'" },
    { "view", STK_ARG_INT, "",
      "of boxes and keypoints: which of the picture's views(), from 0 on" },
    { 0 },
};

const stk_op stk_op_like = { .abi = STK_PLUGIN_ABI,
                             .size = sizeof(stk_op),
                             .name = "like",
                             .help = "the geometry of another output, for masks, boxes, keypoints",
                             .args = like_args,
                             .state_size = sizeof(stk_like),
                             .version = 1, /* a picture has its leader's filter and fill */
                             .plan = like_plan,
                             .can = STK_OP_LIKE,
                             .value = like_value };
