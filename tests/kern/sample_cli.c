/* SPDX-License-Identifier: Apache-2.0 */
/* sample_cli.c - the sampling pass for test_sampling.py: a stream of jobs in, raw outputs out.
 *
 * A job is 18 native 32-bit words: picture w h; clip x y w h; resized w h; window x y w h;
 * flip_x flip_y; dtype (stk_dtype), layout (stk_layout), level (stk_cpu), filter (stk_view.filter);
 * then six floats (mul, add), then the picture as RGBX. Only the needed rectangle is handed on, in
 * memory of its own size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kern/sample.h"

#define MAX_SIDE 20000

static int read_all(void *dst, size_t size)
{
    return fread(dst, 1, size, stdin) == size;
}

/* The part that the view needs, as a decoder would give it; data is NULL when there is none. */
static int cut(stk_pixels *out, const stk_view *v, const uint8_t *picture)
{
    stk_sample_need(v, &out->area);
    out->stride = (size_t)out->area.w * 4;
    out->data = NULL;
    if (out->area.w == 0)
        return 1;
    out->data = stk_alloc(out->stride * out->area.h);
    if (!out->data)
        return 0;
    for (uint32_t y = 0; y < out->area.h; y++)
        memcpy(out->data + y * out->stride,
               picture + ((size_t)(out->area.y + y) * v->src_w + out->area.x) * 4, out->stride);
    return 1;
}

static int run_job(const int32_t *a, stk_scratch *scratch)
{
    stk_view v = { .src_w = (uint32_t)a[0],
                   .src_h = (uint32_t)a[1],
                   .clip = { (uint32_t)a[2], (uint32_t)a[3], (uint32_t)a[4], (uint32_t)a[5] },
                   .res_w = (uint32_t)a[6],
                   .res_h = (uint32_t)a[7],
                   .vis_x = a[8],
                   .vis_y = a[9],
                   .vis_w = (uint32_t)a[10],
                   .vis_h = (uint32_t)a[11],
                   .flip_x = (uint8_t)a[12],
                   .flip_y = (uint8_t)a[13],
                   .filter = (uint8_t)a[17] };
    stk_sample_job job = { .view = &v, .dtype = (stk_dtype)a[14], .layout = (stk_layout)a[15] };
    size_t in = (size_t)v.src_w * v.src_h * 4,
           out = (size_t)3 * v.vis_w * v.vis_h * stk_dtype_size(job.dtype);
    uint8_t *picture = stk_alloc(in);
    stk_pixels pixels = { 0 };
    int ok = 0;

    job.dst = stk_alloc(out);
    job.pixels = &pixels;
    stk_scratch_reset(scratch);
    if (picture && job.dst && read_all(job.mul, sizeof job.mul) &&
        read_all(job.add, sizeof job.add) && read_all(picture, in) && cut(&pixels, &v, picture))
        ok = stk_sample_run(stk_kern_table((stk_cpu)a[16]), &job, scratch, NULL) == 0 &&
             fwrite(job.dst, 1, out, stdout) == out;
    stk_free(pixels.data);
    stk_free(job.dst);
    stk_free(picture);
    return ok;
}

int main(void)
{
    stk_scratch scratch = { 0 };
    int32_t a[18];
    int ok = 1;

    while (ok && read_all(a, sizeof a)) {
        for (int i = 0; i < 12; i++)
            ok &= a[i] <= MAX_SIDE && (a[i] >= 0 || i == 8 || i == 9);
        ok = ok && a[16] <= (int)stk_cpu_level() && run_job(a, &scratch);
    }
    stk_scratch_fini(&scratch);
    return !ok;
}
