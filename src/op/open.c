/* SPDX-License-Identifier: Apache-2.0 */
/* open - the file that a field names, in place of the name.  The request reads the file: at once
 * where the index knows the name, else after the name (fetch/request_stages.c).  When the row is
 * made there is nothing left to do here. */
#include "codec/codec.h"
#include "op/open.h"
#include "index/index.h"

#include <string.h>

static int open_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_open_state *o = state;
    const char *root = stk_args_str(args, "root");
    char *path = NULL;
    size_t len;

    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL, "open reads the file that a field names: put it first");
    spec->out = STK_OUT_BYTES;
    if (!root || !*root)
        return 0;
    STK_TRY(stk_path_absolute(root, &path, err));
    len = strlen(path);
    if (len < sizeof o->root)
        memcpy(o->root, path, len + 1);
    stk_free(path);
    if (len >= sizeof o->root)
        return stk_fail(err, STK_ELIMIT, "open: root has %zu bytes, %zu are allowed", len,
                        sizeof o->root - 1);
    return 0;
}

static const stk_arg open_args[] = {
    { "root", STK_ARG_NAME, "", "folder of the files; else that of the manifest or table" },
    { 0 },
};

const stk_codec stk_codec_open = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "open",
    .help = "the file that a field of a manifest or a column of a table names: "
            "from(path) | open(root=\"/data\") | image",
    .args = open_args,
    .state_size = sizeof(stk_open_state),
    .plan = open_plan,
    .can = STK_CODEC_OPENS
};
