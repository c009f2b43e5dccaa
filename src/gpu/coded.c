/* SPDX-License-Identifier: Apache-2.0 */
/* coded.c - see coded.h: the table of codings. */
#include "gpu/coded.h"

static const stk_gpu_coding *const codings[] = { &stk_gpu_jpeg };

#define CODINGS (sizeof codings / sizeof *codings)

int stk_gpu_file_peek(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out)
{
    int rc = STK_ENOTSUP;

    for (size_t i = 0; i < CODINGS && rc == STK_ENOTSUP; i++) {
        out->coding = codings[i];
        rc = codings[i]->peek(from, need, out);
    }
    return rc;
}

int stk_gpu_file_recall(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err)
{
    int rc = STK_ENOTSUP;

    for (size_t i = 0; i < CODINGS && rc < 0; i++) {
        out->coding = codings[i];
        rc = codings[i]->recall(points, out, size, err);
    }
    return rc;
}
