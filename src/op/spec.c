/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - rules that the ops share.  Each refusal is one line that says where the op belongs. */
#include "op/spec.h"

#include <math.h>
#include <string.h>

int stk_spec_geometry(const stk_spec *spec, const char *op, stk_error *err)
{
    if (spec->kind != STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL, "%s works on an image: put `image` before it", op);
    if (spec->typed)
        return stk_fail(err, STK_EINVAL, "%s comes after `to`: `to` must be the last of a chain",
                        op);
    if (spec->normalized)
        return stk_fail(err, STK_EINVAL, "%s comes after `normalize`: put it before", op);
    if (spec->like)
        return stk_fail(
            err, STK_EINVAL,
            "%s comes after `like`, which gives all the geometry: put it into the chain "
            "of the output that like names",
            op);
    return 0;
}

int stk_spec_resize(stk_spec *spec, const char *op, stk_error *err)
{
    STK_TRY(stk_spec_geometry(spec, op, err));
    spec->resized = 1;
    return 0;
}

void stk_spec_size(stk_spec *spec, uint32_t w, uint32_t h)
{
    spec->width = w;
    spec->height = h;
    spec->out = w && h ? STK_OUT_DENSE : STK_OUT_LIST;
}

int stk_spec_sides(const stk_args *args, const char *op, uint32_t *h, uint32_t *w, stk_error *err)
{
    uint32_t n = stk_args_count(args, "size");
    double first = stk_args_f64_at(args, "size", 0),
           last = stk_args_f64_at(args, "size", n == 2 ? 1 : 0);

    if (n != 1 && n != 2)
        return stk_fail(err, STK_EINVAL,
                        "%s: size is one number or (height, width), not %u numbers", op, n);
    if (!(first >= 1 && first <= STK_MAX_SIDE && last >= 1 && last <= STK_MAX_SIDE))
        return stk_fail(err, STK_EINVAL, "%s: a side of %.0f pixels is not in 1..%u", op,
                        first >= 1 && first <= STK_MAX_SIDE ? last : first, STK_MAX_SIDE);
    *h = (uint32_t)first;
    *w = (uint32_t)last;
    return (int)n;
}

int stk_spec_filter(const stk_args *args, const char *op, uint8_t *filter, stk_error *err)
{
    static const char *const names[] = { [STK_BILINEAR] = "bilinear",
                                         [STK_NEAREST] = "nearest",
                                         [STK_BICUBIC] = "bicubic",
                                         [STK_LANCZOS] = "lanczos" };
    const char *name = stk_args_str(args, "interpolation");
    int smooth = !stk_args_has(args, "antialias") || stk_args_bool(args, "antialias");

    for (uint8_t i = 0; i <= STK_LANCZOS; i++) {
        if (!name || strcmp(names[i], name) != 0)
            continue;
        if (i == STK_LANCZOS && !smooth)
            return stk_fail(err, STK_EINVAL,
                            "%s: interpolation=lanczos has no antialias=false: take bicubic", op);
        *filter = (uint8_t)(i | (smooth || i == STK_NEAREST ? 0 : STK_FILTER_SHARP));
        return 0;
    }
    return stk_fail(err, STK_EINVAL,
                    "%s: interpolation is nearest, bilinear, bicubic or lanczos, not %s", op,
                    name ? name : "a number");
}

int stk_spec_chance(const stk_args *args, const char *op, const char *name, double *out,
                    stk_error *err)
{
    *out = stk_args_f64(args, name);
    if (!(*out >= 0 && *out <= 1))
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in 0..1", op, name, *out);
    return 0;
}

int64_t stk_round_even(double x)
{
    return (int64_t)nearbyint(x); /* in the default rounding mode, which the library never leaves */
}

uint32_t stk_spec_picture_shape(const stk_spec *spec, int64_t shape[STK_MAX_DIMS])
{
    int64_t channels = spec->mode ? 1 : 3;

    if (spec->mode == STK_MODE_INDEX) {
        shape[0] = spec->height;
        shape[1] = spec->width;
        return 2;
    }
    shape[0] = spec->layout == STK_HWC ? spec->height : channels;
    shape[1] = spec->layout == STK_HWC ? spec->width : spec->height;
    shape[2] = spec->layout == STK_HWC ? channels : spec->width;
    return 3;
}
