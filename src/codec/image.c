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
    } all[] = { { "rgb", STK_MODE_RGB }, { "gray", STK_MODE_GRAY }, { "index", STK_MODE_INDEX } };

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) {
            *out = all[i].mode;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "image: mode is rgb, gray or index, not %s",
                    name ? name : "a number");
}

static int image_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_mode one = STK_MODE_RGB;

    (void)state;
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "image reads a field's bytes: put it first");
    STK_TRY(mode_of(stk_args_str(args, "mode"), &one, err));
    *spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                        .out = STK_OUT_LIST,
                        .dtype = STK_U8,
                        .layout = STK_CHW,
                        .exif = stk_args_bool(args, "exif"),
                        .mode = one,
                        .mul = { 1, 1, 1 } };
    return 0;
}

static const stk_arg image_args[] = {
    { "exif", STK_ARG_BOOL, "false", "turn it upright by its EXIF orientation" },
    { "exact", STK_ARG_BOOL, "true", "the only way: false is taken, and warned of" },
    { "mode", STK_ARG_NAME, "rgb", "rgb; gray: one channel; index: of a palette, for masks", 1 },
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
