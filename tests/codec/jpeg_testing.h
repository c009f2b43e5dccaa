/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_testing.h - for tests, benches and fuzzing: makes JPEGs with libjpeg-turbo, and decodes any
 * bytes with it. */
#ifndef STOKER_JPEG_TESTING_H
#define STOKER_JPEG_TESTING_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/err.h"

typedef struct jpeg_recipe {
    uint32_t w, h;
    int comps;      /* 1, 3 */
    int samp[3][2]; /* h, v of each component */
    int quality, restart, optimize, rough;
} jpeg_recipe;

/* Slopes, edges and noise; `rough` 0..255 is how much noise. */
static inline uint8_t jpeg_texture(uint32_t x, uint32_t y, int c, int rough)
{
    uint32_t v = (x * 2654435761u) ^ (y * 2246822519u) ^ ((uint32_t)c * 3266489917u);
    uint32_t slope = x * 3 + y * 2 + (uint32_t)c * 60, edge = (x / 13 + y / 9) % 5 * 30;

    v ^= v >> 15;
    v *= 2654435761u;
    v ^= v >> 13;
    return (uint8_t)(slope / 2 + edge + (rough ? v % (uint32_t)(rough + 1) : 0));
}

/* A JPEG; free() its data. */
static inline stk_bytes jpeg_make(const jpeg_recipe *r)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL;
    unsigned long len = 0;
    uint8_t *row = malloc((size_t)r->w * 3);
    JSAMPROW rows[1] = { row };

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &len);
    c.image_width = r->w;
    c.image_height = r->h;
    c.input_components = r->comps;
    c.in_color_space = r->comps == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, r->quality, TRUE);
    c.optimize_coding = r->optimize ? TRUE : FALSE;
    for (int i = 0; i < c.num_components; i++) {
        c.comp_info[i].h_samp_factor = r->samp[i][0];
        c.comp_info[i].v_samp_factor = r->samp[i][1];
    }
    c.restart_interval = (unsigned)r->restart;
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < r->h; y++) {
        for (uint32_t x = 0; x < r->w; x++)
            for (int k = 0; k < r->comps; k++)
                row[x * (uint32_t)r->comps + (uint32_t)k] = jpeg_texture(x, y, k, r->rough);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return (stk_bytes){ out, len };
}

typedef struct jpeg_judge {
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    long warnings;
} jpeg_judge;

static inline void jpeg_judge_exit(j_common_ptr c)
{
    longjmp(((jpeg_judge *)c->err)->escape, 1);
}

static inline void jpeg_judge_hush(j_common_ptr c)
{
    (void)c;
}

static inline void jpeg_judge_message(j_common_ptr c, int level)
{
    if (level < 0)
        ((jpeg_judge *)c->err)->warnings++;
}

static inline void jpeg_judge_init(struct jpeg_decompress_struct *d, jpeg_judge *g)
{
    memset(g, 0, sizeof *g);
    d->err = jpeg_std_error(&g->errors);
    g->errors.error_exit = jpeg_judge_exit;
    g->errors.output_message = jpeg_judge_hush;
    g->errors.emit_message = jpeg_judge_message;
}

/* The whole picture, 4 bytes a pixel: RGBX, or YCbCr (gray: one byte a pixel) as it is stored in
 * the file.  free() it.  NULL: an error.  *warnings: what libjpeg would have said. */
static inline uint8_t *jpeg_reference(stk_bytes in, long *warnings)
{
    struct jpeg_decompress_struct d;
    jpeg_judge g;
    uint8_t *volatile out = NULL;
    size_t stride;

    jpeg_judge_init(&d, &g);
    if (setjmp(g.escape)) {
        jpeg_destroy_decompress(&d);
        free(out);
        return NULL;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, in.data, in.len);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(&d);
    stride = (size_t)d.output_width * (size_t)d.output_components;
    out = malloc(stride * d.output_height);
    while (d.output_scanline < d.output_height) {
        JSAMPROW rows[1] = { out + d.output_scanline * stride };

        jpeg_read_scanlines(&d, rows, 1);
    }
    jpeg_finish_decompress(&d);
    *warnings = g.warnings;
    jpeg_destroy_decompress(&d);
    return out;
}

#endif
