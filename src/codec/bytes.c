/* SPDX-License-Identifier: Apache-2.0 */
/* bytes, text - a field as it is, or as UTF-8 that has been checked.  After json(...), text is
 * the string itself, without its quotes and escapes. */
#include "codec/codec.h"
#include "base/json.h"

struct text {
    int quoted; /* comes from json(...) */
};

static int bytes_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args;
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL, "bytes reads a field's bytes: put it first");
    spec->out = STK_OUT_BYTES;
    return 0;
}

static int text_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct text *t = state;

    (void)args;
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "text reads a field's bytes: put it first, or after json(...)");
    t->quoted = spec->out == STK_OUT_JSON;
    spec->out = STK_OUT_TEXT;
    return 0;
}

static int text_extract(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                        stk_error *err)
{
    const struct text *t = state;
    size_t good;
    uint8_t *dst;

    if (!t->quoted) {
        good = stk_utf8_span(in);
        if (good < in.len)
            return stk_fail(err, STK_ECORRUPT, "text: byte %zu (0x%02x) is not UTF-8", good,
                            in.data[good]);
        *out = in;
        return 0;
    }
    dst = stk_scratch_get(scratch, in.len);
    if (!dst)
        return stk_fail_nomem(err, in.len);
    out->data = dst;
    return stk_json_unquote(in, dst, &out->len, err);
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_bytes = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_codec),
                                    .name = "bytes",
                                    .help = "the field as it is",
                                    .args = no_args,
                                    .plan = bytes_plan };

const stk_codec stk_codec_text = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "text",
    .help = "UTF-8 text; after json(...) a string without its quotes; of a decimal all its digits",
    .args = no_args,
    .state_size = sizeof(struct text),
    .plan = text_plan,
    .extract = text_extract
};
