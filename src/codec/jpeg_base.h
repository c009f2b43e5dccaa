/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_base.h - our own decoder of baseline JPEGs: only the blocks that a rectangle sees.
 *
 * What comes out equals libjpeg-turbo's default decode (accurate DCT, fancy upsampling) bit for
 * bit.  The decoder takes no damage: at the first thing that is not right it says STK_ECORRUPT,
 * and the caller asks libjpeg-turbo, whose pixels or error then count.
 *
 * With seek points (jpeg_seek.h) decoding starts at the first chunk of each row of blocks that
 * the rectangle sees; every chunk must end where the next point is, with its DC values, else
 * STK_ESTALE: the caller
 * decodes without them and counts it.  Without, everything above and beside is read over. */
#ifndef STOKER_JPEG_BASE_H
#define STOKER_JPEG_BASE_H

#include "base/cpu.h"
#include "base/mem.h"
#include "codec/decoders.h"
#include "codec/jpeg_head.h"
#include "codec/jpeg_seek.h"

typedef struct stk_jpeg stk_jpeg; /* Tables and buffers, kept from image to image.  Thread: one. */

int stk_jpeg_open(stk_jpeg **out, stk_cpu level, stk_error *err);
void stk_jpeg_close(stk_jpeg **j);

typedef struct stk_jpeg_job {
    const stk_jpeg_head *head; /* stk_jpeg_parse() of `in`, or stk_jpeg_seek_open() */
    stk_bytes in;              /* the file; with seek points perhaps a part of it */
    const stk_jpeg_seek *seek; /* or NULL */
    uint32_t at;               /* `in` begins with this byte of the file; 0: it is the file */
} stk_jpeg_job;

/* The first and the last byte of the scan that `in` has. */
static inline uint64_t stk_jpeg_job_from(const stk_jpeg_job *job)
{
    return job->at > job->head->scan ? job->at - job->head->scan : 0;
}

static inline uint64_t stk_jpeg_job_to(const stk_jpeg_job *job)
{
    uint64_t end = (uint64_t)job->at + job->in.len;

    return end > job->head->scan ? end - job->head->scan : 0;
}

/* The pixels of ask->need, in scratch memory (two of its blocks); out->area is what was asked for.
 * In bands, where they are asked for and there are no seek points.
 * 0; STK_ECORRUPT: ask libjpeg-turbo; STK_ESTALE: the seek points do not fit, decode without;
 * STK_EINVAL: `need` is not inside of the picture; STK_ENOMEM. */
int stk_jpeg_decode(stk_jpeg *j, const stk_jpeg_job *job, const stk_decode_request *ask,
                    stk_scratch *scratch, stk_pixels *out, stk_error *err);

/* Rows *y0 to *y1 - 1 of MCUs are decoded for these pixels. */
void stk_jpeg_rows(const stk_jpeg_head *h, const stk_rect *need, uint32_t *y0, uint32_t *y1);

/* All quantized coefficients, one component after the other, blocks of 64 in natural order; a
 * component has mcus_y * v rows of mcus_x * h blocks.  For tests and benches. */
int stk_jpeg_coefs(stk_jpeg *j, const stk_jpeg_job *job, stk_scratch *scratch, int16_t **out,
                   stk_error *err);

/* Seek points of one image, packed, in scratch memory (two of its blocks).  0; STK_ECORRUPT: the
 * scan is damaged, no points; STK_ENOMEM. */
int stk_jpeg_seek_build(stk_jpeg *j, const stk_jpeg_head *head, stk_bytes in, stk_scratch *scratch,
                        stk_bytes *out, stk_error *err);

/* For code that decodes elsewhere: what jpeg.c's decoder knows of a picture; where all its bytes
 * were read, after its header().  seek: points that fit as far as can be told, or NULL.
 * STK_ENOTSUP: it is none for us; STK_ESTALE: the points are not of these bytes. */
int stk_jpeg_peek(const stk_picture_source *from, const stk_rect *need, stk_jpeg_job *out);

#endif
