/* SPDX-License-Identifier: Apache-2.0 */
/* encode_jpeg.c - pictures to JPEG by libjpeg-turbo: chroma at half size, optimized tables off, as
 * Pillow's save(). */
#include "codec/encode.h"

#include <config.h>

#if STK_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

typedef struct jpeg_out {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    unsigned char *bytes; /* libjpeg's, by malloc() */
    unsigned long len;
} jpeg_out;

static _Noreturn void on_error(j_common_ptr cinfo)
{
    jpeg_out *c = cinfo->client_data;

    longjmp(c->escape, 1);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo; /* the library never prints */
}

static void write_rows(jpeg_out *c, const stk_encode_pixels *p, int quality)
{
    c->cinfo.image_width = p->width;
    c->cinfo.image_height = p->height;
    c->cinfo.input_components = (int)p->channels;
    c->cinfo.in_color_space = p->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&c->cinfo);
    jpeg_set_quality(&c->cinfo, quality, TRUE);
    jpeg_mem_dest(&c->cinfo, &c->bytes, &c->len);
    jpeg_start_compress(&c->cinfo, TRUE);
    while (c->cinfo.next_scanline < p->height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(p->data + c->cinfo.next_scanline * p->stride);

        jpeg_write_scanlines(&c->cinfo, &row, 1);
    }
    jpeg_finish_compress(&c->cinfo);
}

static int jpeg_encode(const stk_encoding *e, const stk_encode_in *in, stk_text *out,
                       stk_error *err)
{
    stk_encode_pixels p;
    jpeg_out c = { .bytes = NULL };
    volatile int rc = 0;

    STK_TRY(stk_encode_pixels_of(in, 0, &p, err));
    c.cinfo.err = jpeg_std_error(&c.errors);
    c.errors.error_exit = on_error;
    c.errors.output_message = on_output;
    c.cinfo.client_data = &c;
    if (setjmp(c.escape)) {
        rc = stk_fail(err, STK_ENOMEM, "libjpeg-turbo could not write a picture of %u x %u",
                      p.width, p.height);
    } else {
        jpeg_create_compress(&c.cinfo);
        c.cinfo.client_data = &c; /* creating clears it */
        write_rows(&c, &p, e->quality);
    }
    jpeg_destroy_compress(&c.cinfo);
    if (rc == 0)
        rc = stk_text_put(out, c.bytes, c.len, err);
    free(c.bytes);
    return rc;
}

#else
#define jpeg_encode NULL
#endif

const stk_encoder stk_encode_jpeg = { .name = "jpeg",
                                      .library = "libjpeg-turbo",
                                      .pictures = 1,
                                      .low = 1,
                                      .high = 100,
                                      .usual = 90,
                                      .encode = jpeg_encode };
