/* SPDX-License-Identifier: Apache-2.0 */
/* pad - widen the canvas on each side: a color, the edge, or the mirror image. */
#include <string.h>

#include "op/padding.h"
#include "op/random.h"

int stk_spec_padding(const stk_args *args, const char *op, const char *name, stk_padding *out,
                     stk_error *err)
{
    uint32_t n = stk_args_count(args, name), v[4];

    if (n != 1 && n != 2 && n != 4)
        return stk_fail(err, STK_EINVAL,
                        "%s: %s is one number, (left and right, top and bottom) or (left, top, "
                        "right, bottom), not %u numbers",
                        op, name, n);
    for (uint32_t i = 0; i < 4; i++) {
        double side = stk_args_f64_at(args, name, i % n);

        if (!(side >= 0 && side <= STK_MAX_SIDE))
            return stk_fail(err, STK_EINVAL, "%s: %s of %g pixels is not in 0..%u", op, name, side,
                            STK_MAX_SIDE);
        v[i] = (uint32_t)side;
    }
    out->left = v[0];
    out->top = v[1];
    out->right = v[2];
    out->bottom = v[3];
    return 0;
}

static int border_of(const char *name)
{
    static const char *const names[] = { [STK_BORDER_FILL] = "constant",
                                         [STK_BORDER_EDGE] = "edge",
                                         [STK_BORDER_REFLECT] = "reflect",
                                         [STK_BORDER_SYMMETRIC] = "symmetric" };

    for (int i = 0; name && i <= STK_BORDER_SYMMETRIC; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

int stk_spec_fill(const stk_args *args, const char *op, stk_padding *out, stk_error *err)
{
    uint32_t fill;
    int border = stk_args_has(args, "padding_mode") ? border_of(stk_args_str(args, "padding_mode"))
                                                    : STK_BORDER_FILL;

    if (border < 0)
        return stk_fail(err, STK_EINVAL,
                        "%s: padding_mode is constant, edge, reflect or symmetric, not %s", op,
                        stk_args_str(args, "padding_mode"));
    STK_TRY(stk_arg_fill(args, op, &fill, err));
    for (uint32_t c = 0; c < 3; c++)
        out->fill[c] = border ? 0 : (uint8_t)(fill >> 8 * c);
    out->border = (stk_border)border;
    return 0;
}

struct pad {
    stk_padding by;
};

static int pad_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct pad *p = state;
    uint32_t w = spec->picture.width, h = spec->picture.height;

    STK_TRY(stk_spec_geometry(spec, "pad", err));
    STK_TRY(stk_spec_padding(args, "pad", "padding", &p->by, err));
    STK_TRY(stk_spec_fill(args, "pad", &p->by, err));
    if (w && h)
        stk_spec_size(spec, p->by.left + w + p->by.right, p->by.top + h + p->by.bottom);
    return 0;
}

static void pad_draw(const void *state, stk_rng *rng, stk_view *view)
{
    (void)rng;
    stk_view_pad(view, &((const struct pad *)state)->by);
}

static const stk_arg pad_args[] = {
    { "padding", STK_ARG_INTS, NULL, "pixels: one number, or (left, top, right, bottom)" },
    STK_ARG_FILL("0"),
    STK_ARG_PADDING_MODE,
    { 0 },
};

const stk_op stk_op_pad = { .abi = STK_PLUGIN_ABI,
                            .size = sizeof(stk_op),
                            .name = "pad",
                            .help = "widen the picture on each side",
                            .args = pad_args,
                            .state_size = sizeof(struct pad),
                            .plan = pad_plan,
                            .draw = pad_draw,
                            .can = STK_OP_VIEW };
