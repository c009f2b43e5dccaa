/* SPDX-License-Identifier: Apache-2.0 */
/* normalize - (x / 255 - mean) / std for each channel, of 16 bits x / 65535, folded into the one
 * multiply and add of the sampling pass.  The values are given on the scale 0..1, as torchvision's,
 * or by the name of the data they were taken from. */
#include "op/spec.h"

#include <string.h>

struct known {
    const char *name;
    double mean[3], std[3];
};

static const struct known known[] = {
    { "imagenet", { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 } },
    { "half", { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 } },
    { "clip", { 0.48145466, 0.4578275, 0.40821073 }, { 0.26862954, 0.26130258, 0.27577711 } },
    { "cifar10", { 0.4914, 0.4822, 0.4465 }, { 0.2470, 0.2435, 0.2616 } },
};
#define KNOWN (sizeof known / sizeof *known)

static int by_name(const char *name, struct known *out, stk_error *err)
{
    const char *names[KNOWN], *near;

    for (size_t i = 0; i < KNOWN; i++) {
        names[i] = known[i].name;
        if (!strcmp(name, known[i].name)) {
            *out = known[i];
            return 0;
        }
    }
    near = stk_nearest(name, names, KNOWN);
    if (near)
        return stk_fail(err, STK_EINVAL, "normalize: `%s` is not known: did you mean `%s`?", name,
                        near);
    return stk_fail(err, STK_EINVAL,
                    "normalize: `%s` is not known: imagenet, half, clip, cifar10, or (mean), (std)",
                    name);
}

static int three(const stk_args *args, const char *name, double out[3], stk_error *err)
{
    uint32_t n = stk_args_count(args, name);

    if ((n != 1 && n != 3) || stk_args_str(args, name))
        return stk_fail(err, STK_EINVAL,
                        "normalize: %s is three numbers, one a channel, on the scale 0..1", name);
    for (uint32_t i = 0; i < 3; i++) {
        if (stk_args_str_at(args, name, n == 3 ? i : 0))
            return stk_fail(err, STK_EINVAL, "normalize: %s is three numbers, not names", name);
        out[i] = stk_args_f64_at(args, name, n == 3 ? i : 0);
    }
    return 0;
}

static int normalize_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *name = stk_args_str(args, "mean");
    struct known k = { 0 };
    stk_spec place = *spec;

    (void)state;
    if (spec->picture.mode == STK_MODE_INDEX)
        return stk_fail(err, STK_EINVAL, "normalize: indices are not brightness: leave it out");
    if (spec->kind == STK_KIND_IMAGE && spec->picture.normalized)
        return stk_fail(err, STK_EINVAL, "normalize comes twice: leave one");
    place.picture.like = 0; /* it may follow */
    STK_TRY(stk_spec_geometry(&place, "normalize", err));
    if (name && stk_args_has(args, "std"))
        return stk_fail(err, STK_EINVAL, "normalize: `%s` brings its own std: leave std away",
                        name);
    if (!name && !stk_args_has(args, "std"))
        return stk_fail(err, STK_EINVAL,
                        "normalize: std is missing: write normalize((r, g, b), (r, g, b))");
    if (name) {
        STK_TRY(by_name(name, &k, err));
    } else {
        STK_TRY(three(args, "mean", k.mean, err));
        STK_TRY(three(args, "std", k.std, err));
    }
    for (int i = 0; i < 3; i++) {
        if (!(k.std[i] > 0))
            return stk_fail(err, STK_EINVAL, "normalize: std has %g, must be above 0", k.std[i]);
        spec->picture.mul[i] = (float)(1 / ((spec->picture.mode == STK_MODE_GRAY16 ? 65535 : 255) *
                                            k.std[i]));
        spec->picture.add[i] = (float)(-k.mean[i] / k.std[i]);
    }
    spec->picture.normalized = 1;
    spec->dtype = STK_F32;
    return 0;
}

static const stk_arg normalize_args[] = {
    { "mean", STK_ARG_ANY, NULL,
      "imagenet, half, clip, cifar10, or three numbers on the scale 0..1" },
    { "std", STK_ARG_FLOATS, "", "three numbers; goes with a mean in numbers" },
    { 0 },
};

const stk_op stk_op_normalize = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "normalize",
    .help = "(x / 255 - mean) / std for each channel; gives f32 unless `to` says otherwise",
    .args = normalize_args,
    .plan = normalize_plan
};
