/* SPDX-License-Identifier: Apache-2.0 */
/* image - a picture.  Which decoder reads it is settled by its first bytes, sample by sample;
 * here is only what a row looks like while nothing has turned the view: u8, three planes, as
 * large as the picture. */
#include "codec/codec.h"

#include <string.h>

static int mode_of(const char *name, stk_mode *out, stk_error *err)
{
    static const struct {
        const char *name;
        stk_mode mode;
    } all[] = { { "rgb", STK_MODE_RGB },
                { "gray", STK_MODE_GRAY },
                { "index", STK_MODE_INDEX },
                { "gray16", STK_MODE_GRAY16 } };

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) {
            *out = all[i].mode;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "image: mode is rgb, gray, gray16 or index, not %s",
                    name ? name : "a number");
}

static int check_bits(const stk_args *args, stk_mode mode, stk_error *err)
{
    int64_t bits = stk_args_i64(args, "bits");

    if (!stk_args_has(args, "bits"))
        return 0;
    if (bits != 8)
        return stk_fail(err, STK_EINVAL, "image: bits is 8, not %" PRId64 "; mode=gray16 keeps 16",
                        bits);
    if (mode > STK_MODE_GRAY)
        return stk_fail(err, STK_EINVAL,
                        "image: bits=8 is of brightness, and mode=%s keeps values as they are: "
                        "leave one of them out",
                        mode == STK_MODE_INDEX ? "index" : "gray16");
    return 0;
}

static int image_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_mode one = STK_MODE_RGB;

    (void)state;
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "image reads a field's bytes: put it first");
    STK_TRY(mode_of(stk_args_str(args, "mode"), &one, err));
    STK_TRY(check_bits(args, one, err));
    *spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                        .out = STK_OUT_LIST,
                        .dtype = one == STK_MODE_GRAY16 ? STK_U16 : STK_U8,
                        .picture = { .layout = STK_CHW,
                                     .exif = stk_args_bool(args, "exif"),
                                     .mode = one,
                                     .high_byte = stk_args_has(args, "bits"),
                                     .mul = { 1, 1, 1 } } };
    return 0;
}

static const stk_arg image_args[] = {
    { "exif", STK_ARG_BOOL, "false", "turn it upright by its EXIF orientation" },
    { "exact", STK_ARG_BOOL, "true", "the only way: false is taken, and warned of" },
    { "mode", STK_ARG_NAME, "rgb",
      "rgb; gray: one channel; gray16: one of 16 bits; index: of a palette, for masks", 1 },
    { "bits", STK_ARG_INT, "", "8: gray of 16 bits becomes its high byte; absent: it is refused",
      1 },
    { 0 },
};

const stk_codec stk_codec_image = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "image",
    .help = "decode a picture to RGB; its content says what it is (JPEG, PNG, WebP, PPM)",
    .args = image_args,
    .plan = image_plan,
    .can = STK_CODEC_PICTURES
};
