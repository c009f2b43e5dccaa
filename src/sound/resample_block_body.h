/* SPDX-License-Identifier: Apache-2.0 */
/* resample_block_body.h - the kernel of resample_fft.h, for eight blocks at once, one per lane.
 * The including file defines STK_BLOCK, the name of the function. */
#include "sound/fft_body.h"
#include "sound/lanes_body.h"
#include "sound/resample_fft.h"

/* The spectrum of real samples out of that of half as many complex ones, times the gain: values
 * below b->top of `out`. */
static void filtered(const stk_block_rate *b, v8 *const z[2], v8 *out_re, v8 *out_im)
{
    const v8 *re = z[0], *im = z[1];
    uint32_t h = b->n_in / 2;

    out_re[0] = (re[0] + im[0]) * b->gain[0];
    out_im[0] = re[0] - re[0];
    for (uint32_t k = 1; k < b->top; k++) {
        float c = b->turn_in[2 * k], d = b->turn_in[2 * k + 1], g = b->gain[k];
        v8 er = (re[k] + re[h - k]) * 0.5f, ei = (im[k] - im[h - k]) * 0.5f;
        v8 dr = (im[k] + im[h - k]) * 0.5f, di = (re[h - k] - re[k]) * 0.5f;

        out_re[k] = (er + dr * c - di * d) * g;
        out_im[k] = (ei + dr * d + di * c) * g;
    }
}

/* Complex values of which the inverse transform has the even samples as real parts and the odd ones
 * as imaginary ones.  Real and imaginary parts are exchanged: a forward transform of that is the
 * inverse one, exchanged again. */
static void folded(const stk_block_rate *b, const v8 *re, const v8 *im, v8 *out_re, v8 *out_im)
{
    uint32_t h = b->n_out / 2;

    for (uint32_t k = 0; k < h; k++) {
        float c = b->turn_out[2 * k], d = -b->turn_out[2 * k + 1];
        v8 er = (re[k] + re[h - k]) * 0.5f, ei = (im[k] - im[h - k]) * 0.5f;
        v8 dr = (re[k] - re[h - k]) * 0.5f, di = (im[k] + im[h - k]) * 0.5f;
        v8 tr = dr * c - di * d, ti = dr * d + di * c;

        out_im[k] = er - ti;
        out_re[k] = ei + tr;
    }
}

void STK_BLOCK(const stk_block_rate *b, float *work)
{
    uint32_t h = (b->n_in > b->n_out ? b->n_in : b->n_out) / 2;
    v8 *buf[4], *made[2], *re, *im;

    buf[0] = (v8 *)(void *)(work + (size_t)STK_BLOCK_LANES * 2 * h);
    for (int i = 1; i < 4; i++)
        buf[i] = buf[i - 1] + h;
    re = buf[3] + h;
    im = re + h + 1;
    stk_spread(work, b->n_in, buf[0], buf[1]);
    transform(&b->in, buf, made);
    filtered(b, made, re, im);
    memset(re + b->top, 0, (b->n_out / 2 + 1 - b->top) * sizeof *re);
    memset(im + b->top, 0, (b->n_out / 2 + 1 - b->top) * sizeof *im);
    folded(b, re, im, buf[0], buf[1]);
    transform(&b->out, buf, made);
    stk_gather(made[1], made[0], b->n_out, work);
}
