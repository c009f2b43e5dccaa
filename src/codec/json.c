/* SPDX-License-Identifier: Apache-2.0 */
/* json - the raw text of one value of a JSON field: json(path) with steps parted by dots, keys
 * and array indexes. What follows may be nothing (rows are JSON values), `int`, `float`, `text`. */
#include "codec/codec.h"
#include "codec/text.h"

#include <string.h>

struct json {
    char path[256];
};

static int json_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct json *j = state;
    const char *path = stk_args_has(args, "path") ? stk_args_str(args, "path") : "";
    size_t n;

    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL, "json reads a field's bytes: put it first");
    if (!path)
        path = "";
    n = strlen(path);
    if (n >= sizeof j->path)
        return stk_fail(err, STK_EINVAL, "json: the path has %zu characters, at most %zu", n,
                        sizeof j->path - 1);
    if (n && (path[0] == '.' || path[n - 1] == '.' || strstr(path, "..")))
        return stk_fail(err, STK_EINVAL, "json: path `%s` has an empty step: write it as a.b.3.c",
                        path);
    memcpy(j->path, path, n + 1);
    spec->out = STK_OUT_JSON;
    return 0;
}

static int json_narrow(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err)
{
    const struct json *j = state;
    stk_error why;
    int rc = stk_json_find(in, j->path, out, &why);

    (void)scratch;
    if (rc < 0)
        return stk_fail(err, rc, j->path[0] ? "json(%s): %s" : "json%s: %s", j->path, why.message);
    return 0;
}

static const stk_arg json_args[] = {
    { "path", STK_ARG_NAME, "",
      "steps to the value: keys and array indexes parted by dots; absent: all of it" },
    { 0 },
};

const stk_codec stk_codec_json = { .abi = STK_PLUGIN_ABI,
                                   .name = "json",
                                   .help = "one value of a JSON field, as text",
                                   .args = json_args,
                                   .state_size = sizeof(struct json),
                                   .plan = json_plan,
                                   .narrow = json_narrow };
