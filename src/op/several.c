/* SPDX-License-Identifier: Apache-2.0 */
/* pictures - the pictures of a sample, any number from 0, each as `image` decodes it.
 *
 * What they are is settled when a row is made (row/row_pictures.c): fields 0.jpg, 1.jpg, ..., a
 * list column of a table, names in a JSON list, or one picture.  Here is only what a row looks
 * like. */
#include "op/several.h"

#include <string.h>

#include "codec/codec.h"
#include "index/index.h"

static int take_root(stk_pictures_state *s, const char *root, stk_error *err)
{
    char *path = NULL;
    size_t len;

    if (!root || !*root)
        return 0;
    STK_TRY(stk_path_absolute(root, &path, err));
    len = strlen(path);
    if (len < sizeof s->root)
        memcpy(s->root, path, len + 1);
    stk_free(path);
    return len < sizeof s->root
               ? 0
               : stk_fail(err, STK_ELIMIT, "pictures: root has %zu bytes, %zu are allowed", len,
                          sizeof s->root - 1);
}

static int pictures_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    STK_TRY(take_root(state, stk_args_str(args, "root"), err));
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "pictures reads fields of a sample: put it first");
    *spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                        .out = STK_OUT_LIST,
                        .dtype = STK_U8,
                        .picture = { .layout = STK_CHW,
                                     .exif = stk_args_bool(args, "exif"),
                                     .several = stk_args_bool(args, "same") ? STK_SEVERAL_SAME
                                                                            : STK_SEVERAL,
                                     .mul = { 1, 1, 1 } } };
    return 0;
}

static const stk_arg pictures_args[] = {
    { "same", STK_ARG_BOOL, "false", "all pictures of a sample get the same draws" },
    { "root", STK_ARG_NAME, "", "the folder of files that a list names; else fields are named" },
    { "exif", STK_ARG_BOOL, "false", "turn them upright by their EXIF orientation" },
    { 0 },
};

const stk_codec stk_codec_pictures = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "pictures",
    .help = "all pictures of a sample: fields 0.jpg, 1.jpg, ..., a list column, a JSON list",
    .args = pictures_args,
    .state_size = sizeof(stk_pictures_state),
    .plan = pictures_plan,
    .can = STK_CODEC_PICTURES | STK_CODEC_SEVERAL
};
