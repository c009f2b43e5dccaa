/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - rules that the ops share.  Each refusal is one line that says where the op belongs. */
#include "op/spec.h"

#include <math.h>
#include <string.h>

int stk_spec_geometry(const stk_spec *spec, const char *op, stk_error *err)
{
    if (spec->kind != STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL, "%s works on an image: put `image` before it", op);
    if (spec->dtype_fixed)
        return stk_fail(err, STK_EINVAL, "%s comes after `to`: `to` must be the last of a chain",
                        op);
    if (spec->picture.patch.side)
        return stk_fail(err, STK_EINVAL, "%s comes after `patches`: only `to` may follow it", op);
    if (spec->picture.normalized)
        return stk_fail(err, STK_EINVAL, "%s comes after `normalize`: put it before", op);
    if (spec->picture.like)
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
    spec->picture.resized = 1;
    return 0;
}

void stk_spec_size(stk_spec *spec, uint32_t w, uint32_t h)
{
    spec->picture.width = w;
    spec->picture.height = h;
    spec->out = w && h ? STK_OUT_DENSE : STK_OUT_LIST;
}

int stk_spec_add_lead(stk_spec *spec, const char *op, stk_lead lead, stk_error *err)
{
    uint32_t at = spec->n_leads;

    if (spec->n_leads == STK_MAX_LEADS || stk_spec_lead(spec, lead.kind))
        return stk_fail(err, STK_EINVAL, "%s: rows have that dimension already: leave one", op);
    while (at && spec->lead[at - 1].kind > lead.kind) {
        spec->lead[at] = spec->lead[at - 1];
        at--;
    }
    spec->lead[at] = lead;
    spec->n_leads++;
    return 0;
}

void stk_spec_put_leads(stk_spec *spec)
{
    uint32_t n = spec->n_leads;

    memmove(spec->shape + n, spec->shape, spec->ndim * sizeof *spec->shape);
    for (uint32_t i = 0; i < n; i++)
        spec->shape[i] = spec->lead[i].n;
    spec->ndim += n;
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

    for (int i = 0; i <= STK_LANCZOS; i++) {
        if (!name || strcmp(names[i], name) != 0)
            continue;
        if (i == STK_LANCZOS && !smooth)
            return stk_fail(err, STK_EINVAL,
                            "%s: interpolation=lanczos has no antialias=false: take bicubic", op);
        *filter = (uint8_t)(i | (smooth || i == STK_NEAREST ? 0 : STK_FILTER_SHARP));
        return stk_spec_exact(args, op, filter, err);
    }
    return stk_fail(err, STK_EINVAL,
                    "%s: interpolation is nearest, bilinear, bicubic or lanczos, not %s", op,
                    name ? name : "a number");
}

int stk_spec_exact(const stk_args *args, const char *op, uint8_t *filter, stk_error *err)
{
    const char *name = stk_args_str(args, "exact");
    int torch = name && !strcmp(name, "torchvision");

    if (!stk_args_has(args, "exact"))
        return 0;
    if (!torch && (!name || strcmp(name, "pillow") != 0))
        return stk_fail(err, STK_EINVAL, "%s: exact is pillow or torchvision, not %s", op,
                        name ? name : "a number");
    if (*filter & STK_FILTER_SHARP)
        return stk_fail(err, STK_EINVAL,
                        "%s: exact=%s is of smoothed pictures: leave antialias=", op, name);
    if (torch && (*filter & STK_FILTER_KIND) == STK_LANCZOS)
        return stk_fail(err, STK_EINVAL,
                        "%s: exact=torchvision has bilinear and bicubic, not lanczos", op);
    *filter = (uint8_t)((*filter & ~(STK_FILTER_PILLOW | STK_FILTER_TORCH)) |
                        (torch ? STK_FILTER_TORCH : STK_FILTER_PILLOW));
    return 0;
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
    int64_t channels = spec->picture.mode ? 1 : 3;
    const stk_patch_spec *p = &spec->picture.patch;

    if (p->side) {
        shape[0] = (int64_t)(spec->picture.height / p->side) * (spec->picture.width / p->side);
        shape[1] = (int64_t)p->side * p->side * 3 * p->frames;
        return 2;
    }
    if (spec->picture.mode == STK_MODE_INDEX) {
        shape[0] = spec->picture.height;
        shape[1] = spec->picture.width;
        return 2;
    }
    shape[0] = spec->picture.layout == STK_HWC ? spec->picture.height : channels;
    shape[1] = spec->picture.layout == STK_HWC ? spec->picture.width : spec->picture.height;
    shape[2] = spec->picture.layout == STK_HWC ? channels : spec->picture.width;
    return 3;
}
