/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c - which encoder, with what; see encode.h. */
#include "codec/encode.h"

#include <string.h>

static const stk_encoder *const encoders[] = { &stk_encode_jpeg, &stk_encode_png, &stk_encode_webp,
                                               &stk_encode_npy,  &stk_encode_raw, &stk_encode_text,
                                               &stk_encode_json };
#define ENCODERS (sizeof encoders / sizeof *encoders)

const stk_arg stk_encode_args[] = {
    { "format", STK_ARG_NAME, NULL, "jpeg, png, webp, npy, raw, text or json" },
    { "quality", STK_ARG_INT, "",
      "jpeg, webp: 1 to 100 (absent: 90, 80); png: level 0 to 9 (absent: 6)" },
    { "lossless", STK_ARG_BOOL, "false", "webp" },
    { 0 },
};

static int take(stk_encoding *e, const stk_args *a, stk_error *err)
{
    const char *name = stk_args_str(a, "format"), *all[ENCODERS], *near;
    int64_t q = stk_args_i64(a, "quality");

    if (name && !strcmp(name, "jpg"))
        name = "jpeg";
    for (size_t i = 0; i < ENCODERS; i++) {
        all[i] = encoders[i]->name;
        if (name && !strcmp(name, all[i]))
            e->encoder = encoders[i];
    }
    if (!e->encoder) {
        near = name ? stk_nearest(name, all, ENCODERS) : NULL;
        return stk_fail(err, STK_EINVAL,
                        "encode: `%s` is not known%s%s: jpeg png webp npy raw text json",
                        name ? name : "", near ? ", did you mean " : "", near ? near : "");
    }
    if (!e->encoder->encode)
        return stk_fail(err, STK_ENOTSUP, "this build has no encoder for %s: build with %s",
                        e->encoder->name, e->encoder->library);
    e->quality = e->encoder->usual;
    e->lossless = stk_args_bool(a, "lossless");
    if (!stk_args_has(a, "quality"))
        return 0;
    if (!e->encoder->high || q < e->encoder->low || q > e->encoder->high)
        return stk_fail(err, STK_EINVAL,
                        e->encoder->high ? "encode(%s): quality is %d to %d"
                                         : "encode(%s) has no quality: leave it away",
                        e->encoder->name, e->encoder->low, e->encoder->high);
    e->quality = (int)q;
    return 0;
}

int stk_encoding_plan(stk_encoding *e, const stk_call *call, stk_error *err)
{
    stk_args *a = NULL;
    int rc;

    *e = (stk_encoding){ 0 };
    STK_TRY(stk_args_check(&a, call, stk_encode_args, err));
    rc = take(e, a, err);
    stk_args_close(&a);
    return rc;
}

int stk_encode_pixels_of(const stk_encode_in *in, int deep, stk_encode_pixels *out, stk_error *err)
{
    const stk_tensor *t = &in->tensor;
    int64_t channels = t->ndim == 3 ? t->shape[2] : 0;
    int is_deep = t->dtype == STK_U16 && channels == 1;

    if (is_deep && !deep)
        return stk_fail(
            err, STK_EINVAL,
            "encode: 16 bits are written by png alone: encode(png), or image(mode=gray, "
            "bits=8)");
    if (in->kind > STK_OUT_LIST || (t->dtype != STK_U8 && !is_deep) ||
        (channels != 1 && channels != 3) || t->strides[2] != 1 || t->strides[1] != channels ||
        t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > 65535 || t->shape[1] > 65535)
        return stk_fail(err, STK_EINVAL,
                        "encode: a picture is u8 pixels, interleaved, 1 to 65535 a side: leave "
                        "`normalize` and `to` "
                        "away before it");
    *out = (stk_encode_pixels){ .data = t->data,
                                .width = (uint32_t)t->shape[1],
                                .height = (uint32_t)t->shape[0],
                                .channels = (uint32_t)channels,
                                .stride = (size_t)t->strides[0] * (is_deep ? 2 : 1),
                                .deep = is_deep };
    return 0;
}

int stk_encode(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err)
{
    return e->encoder->encode(e, in, out, err);
}
