/* SPDX-License-Identifier: Apache-2.0 */
/* types.c - the element types by size and name, and what this build is. */
#include <config.h>
#include <stoker/base.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [STK_U8] = { "u8", 1 },   [STK_I8] = { "i8", 1 },     [STK_U16] = { "u16", 2 },
    [STK_I16] = { "i16", 2 }, [STK_I32] = { "i32", 4 },   [STK_I64] = { "i64", 8 },
    [STK_F16] = { "f16", 2 }, [STK_BF16] = { "bf16", 2 }, [STK_F32] = { "f32", 4 },
    [STK_F64] = { "f64", 8 }, [STK_U32] = { "u32", 4 },
};

size_t stk_dtype_size(stk_dtype d)
{
    return (size_t)d < sizeof dtypes / sizeof *dtypes ? dtypes[d].size : 0;
}

const char *stk_dtype_name(stk_dtype d)
{
    return (size_t)d < sizeof dtypes / sizeof *dtypes && dtypes[d].name ? dtypes[d].name : "?";
}

const char *stk_version(void)
{
    return STK_VERSION;
}

const char *stk_build_info(void)
{
    return "stoker " STK_VERSION "; jpeg: libjpeg " STK_BUILD_JPEG "; png: libspng " STK_BUILD_PNG
           "; webp: libwebp " STK_BUILD_WEBP "; zlib: " STK_BUILD_ZLIB "; zstd: " STK_BUILD_ZSTD
           "; lz4: " STK_BUILD_LZ4 "; brotli: " STK_BUILD_BROTLI "; dav1d: " STK_BUILD_DAV1D
           "; curl: " STK_BUILD_CURL "; cold reads: liburing " STK_BUILD_URING
#if STK_HAVE_AVX2
           "; kernels: c avx2";
#else
           "; kernels: c";
#endif
}
