/* SPDX-License-Identifier: Apache-2.0 */
/* limit_jpeg.c - a bare libjpeg-turbo loop: decode the crops that Stoker would, and nothing else.
 *
 *     limit_jpeg SHARDS THREADS EPOCHS [FIELD]      epochs 1 to EPOCHS; 0 is the other side's
 *                                                   warm-up
 *
 * Order and crops are Stoker's own, drawn before the clock starts; the files are in memory.  Timed
 * is per picture: header, crop_scanline, skip_scanlines, the rows of the crop into a buffer of the
 * thread.  No resize, no color beyond RGB, no batch. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "base/rng.h"
#include "kern/sample.h"
#include "order/order.h"
#include "chain/chain.h"
#include "shards.h"
#include "timing.h"

#define CHAIN "from(jpg) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)"

typedef struct crop {
    span jpeg;
    stk_rect need;
} crop;

typedef struct job {
    crop *crops;
    uint64_t n;
    _Atomic uint64_t next;
} job;

static void give_up(j_common_ptr c)
{
    char line[JMSG_LENGTH_MAX];

    c->err->format_message(c, line);
    fprintf(stderr, "limit_jpeg: %s\n", line);
    exit(3);
}

static void be_silent(j_common_ptr c)
{
    (void)c;
}

static void decode_crop(struct jpeg_decompress_struct *c, const crop *x, uint8_t **buf, size_t *cap)
{
    JDIMENSION left = x->need.x, width = x->need.w;
    size_t stride;

    jpeg_mem_src(c, x->jpeg.data, x->jpeg.len);
    jpeg_read_header(c, TRUE);
    c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(c);
    if (width < c->output_width)
        jpeg_crop_scanline(c, &left, &width);
    stride = (size_t)c->output_width * 4;
    if (stride * x->need.h > *cap) {
        *cap = stride * x->need.h;
        *buf = realloc(*buf, *cap);
        if (!*buf)
            exit(3);
    }
    if (x->need.y)
        jpeg_skip_scanlines(c, x->need.y);
    for (uint32_t row = 0; row < x->need.h;) {
        JSAMPROW rows[8];
        uint32_t n = x->need.h - row < 8 ? x->need.h - row : 8;

        for (uint32_t i = 0; i < n; i++)
            rows[i] = *buf + (row + i) * stride;
        row += jpeg_read_scanlines(c, rows, n);
    }
    jpeg_abort_decompress(c);
}

static void work(void *arg, unsigned number)
{
    job *j = arg;
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr err;
    uint8_t *buf = NULL;
    size_t cap = 0;
    uint64_t i;

    (void)number;
    c.err = jpeg_std_error(&err);
    err.error_exit = give_up;
    err.output_message = be_silent;
    jpeg_create_decompress(&c);
    while ((i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n)
        decode_crop(&c, &j->crops[i], &buf, &cap);
    jpeg_destroy_decompress(&c);
    free(buf);
}

static void read_size(span jpeg, stk_image_info *out)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr err;

    c.err = jpeg_std_error(&err);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, jpeg.data, jpeg.len);
    jpeg_read_header(&c, TRUE);
    *out = (stk_image_info){ c.image_width, c.image_height };
    jpeg_destroy_decompress(&c);
}

static void draw(const stk_chain *chain, crop *x, uint64_t epoch, uint64_t position)
{
    stk_image_info info;
    stk_draws d;

    read_size(x->jpeg, &info);
    stk_chain_draw(chain, &(stk_address){ .position = position, .epoch = (uint32_t)epoch },
                   (uint32_t[2]){ info.width, info.height }, &d, NULL);
    stk_sample_need(d.view, &x->need);
}

static void draw_epoch(const held_shards *h, const stk_chain *chain, uint64_t epoch, crop *out)
{
    stk_perm perm;

    stk_perm_init(&perm, h->n_samples, 0, epoch);
    for (uint64_t p = 0; p < h->n_samples; p++) {
        out[p].jpeg = h->sample[stk_perm_at(&perm, p)];
        draw(chain, &out[p], epoch, p);
    }
}

int main(int argc, char **argv)
{
    held_shards h = { 0 };
    stk_chain chain;
    stk_error err;
    job j = { 0 };
    unsigned threads, epochs;
    double cpu, seconds;

    if (argc < 4) {
        fprintf(stderr, "usage: limit_jpeg SHARDS THREADS EPOCHS [FIELD]\n");
        return 2;
    }
    threads = (unsigned)strtoul(argv[2], NULL, 10);
    epochs = (unsigned)strtoul(argv[3], NULL, 10);
    if (threads < 1 || threads > MAX_THREADS || !epochs)
        return 2;
    hold_shards(&h, argv[1], argc > 4 ? argv[4] : "jpg");
    if (stk_chain_plan(&chain, NULL, "image", CHAIN, &err) < 0)
        die(&err);
    j.n = h.n_samples * epochs;
    j.crops = calloc(j.n, sizeof *j.crops);
    if (!j.crops)
        return 3;
    for (unsigned e = 0; e < epochs; e++)
        draw_epoch(&h, &chain, e + 1, j.crops + e * h.n_samples);
    cpu = cpu_s();
    seconds = run_threads(threads, work, &j);
    report("limit_jpeg", j.n, seconds, cpu_s() - cpu);
    return 0;
}
