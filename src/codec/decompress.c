/* SPDX-License-Identifier: Apache-2.0 */
/* decompress.c - gunzip, unzstd and unlz4: the steps that make a packed field plain, before
 * everything else in a chain. */
#include <config.h>

#include "codec/codec.h"
#include "compress/unpack.h"

static int first_of_all(const char *name, const stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "%s unpacks a field's bytes: put it first", name);
    return 0;
}

static const stk_arg no_args[] = { { 0 } };

#define STEP(NAME, SUFFIX, FORMAT, HAVE, LIBRARY, PACKAGE)                                         \
    static int NAME##_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)      \
    {                                                                                              \
        (void)state, (void)args;                                                                   \
        if (!HAVE)                                                                                 \
            return stk_no_library(#NAME, LIBRARY, PACKAGE, err);                                   \
        return first_of_all(#NAME, spec, err);                                                     \
    }                                                                                              \
                                                                                                   \
    static int NAME##_extract(const void *state, stk_bytes in, stk_scratch *scratch,               \
                              stk_bytes *out, stk_error *err)                                      \
    {                                                                                              \
        (void)state;                                                                               \
        return stk_##NAME##_bytes(in, scratch, out, err);                                          \
    }                                                                                              \
                                                                                                   \
    const stk_codec stk_codec_##NAME = {                                                           \
        .abi = STK_PLUGIN_ABI,                                                                     \
        .size = sizeof(stk_codec),                                                                 \
        .name = #NAME,                                                                             \
        .help = "unpack " FORMAT ", at most 256 MiB; done unasked where from(x) finds x" SUFFIX,   \
        .args = no_args,                                                                           \
        .plan = NAME##_plan,                                                                       \
        .extract = NAME##_extract,                                                                 \
        .can = STK_CODEC_UNPACKS,                                                                  \
        .suffix = SUFFIX                                                                           \
    }

STEP(gunzip, ".gz", "gzip", STK_HAVE_ZLIB, "zlib", "zlib1g-dev");
STEP(unzstd, ".zst", "Zstandard", STK_HAVE_ZSTD, "libzstd", "libzstd-dev");
STEP(unlz4, ".lz4", "LZ4 frames", STK_HAVE_LZ4, "liblz4 1.9.4", "liblz4-dev");
