/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_base.h - our own decoder of baseline JPEGs, which decodes only the blocks that a rectangle
 * sees.  jpeg.c calls it, and code for GPUs uses its parts (gpu/coded_jpeg.c).
 *
 * Its pixels equal libjpeg-turbo's default decode (accurate DCT, fancy upsampling) bit for bit.  At
 * the first sign of damage it returns STK_ECORRUPT, and the caller then uses libjpeg-turbo, whose
 * pixels or error count.
 *
 * With seek points (jpeg_seek.h) decoding starts at the first chunk of each row of blocks that
 * the rectangle sees.  Every chunk must end where the next point is, with its DC values.  If not,
 * the result is STK_ESTALE, and the caller decodes without points.  Without points, everything
 * above and beside the rectangle is read, too. */
#ifndef STOKER_JPEG_BASE_H
#define STOKER_JPEG_BASE_H

#include "base/cpu.h"
#include "base/mem.h"
#include "codec/decoders.h"
#include "codec/jpeg_head.h"
#include "codec/jpeg_seek.h"

typedef struct stk_jpeg stk_jpeg; /* Tables and buffers, used for many images.  Thread: one. */

int stk_jpeg_open(stk_jpeg **out, stk_cpu level, stk_error *err);
void stk_jpeg_close(stk_jpeg **j);

typedef struct stk_jpeg_job {
    const stk_jpeg_head *head; /* stk_jpeg_parse() of `in`, or stk_jpeg_seek_open() */
    stk_bytes in;              /* the file; with seek points maybe a part of it */
    const stk_jpeg_seek *seek; /* NULL: no seek points */
    uint32_t at;               /* offset of `in` in the file; 0: it is the whole file */
} stk_jpeg_job;

/* `in` has bytes [from, to) of the scan. */
static inline uint64_t stk_jpeg_job_from(const stk_jpeg_job *job)
{
    return job->at > job->head->scan ? job->at - job->head->scan : 0;
}

static inline uint64_t stk_jpeg_job_to(const stk_jpeg_job *job)
{
    uint64_t end = (uint64_t)job->at + job->in.len;

    return end > job->head->scan ? end - job->head->scan : 0;
}

/* Decodes the pixels of ask->need to scratch memory (two of its blocks); out->area is what was
 * asked for.  If bands are asked for and there are no seek points, pixels come in bands.
 * STK_ECORRUPT: use libjpeg-turbo.  STK_ESTALE: the seek points do not fit, decode without.
 * STK_EINVAL: `need` is not inside the picture. */
int stk_jpeg_decode(stk_jpeg *j, const stk_jpeg_job *job, const stk_decode_request *ask,
                    stk_scratch *scratch, stk_pixels *out, stk_error *err);

/* Sets *y0 and *y1: rows *y0 to *y1 - 1 of MCUs are decoded for these pixels. */
void stk_jpeg_rows(const stk_jpeg_head *h, const stk_rect *need, uint32_t *y0, uint32_t *y1);

/* All quantized coefficients, one component after the other, blocks of 64 in natural order; a
 * component has mcus_y * v rows of mcus_x * h blocks.  For tests and benches. */
int stk_jpeg_coefs(stk_jpeg *j, const stk_jpeg_job *job, stk_scratch *scratch, int16_t **out,
                   stk_error *err);

/* Makes the seek points of one image, packed, in scratch memory (two of its blocks).  STK_ECORRUPT:
 * the scan is damaged, so it has no points. */
int stk_jpeg_seek_build(stk_jpeg *j, const stk_jpeg_head *head, stk_bytes in, stk_scratch *scratch,
                        stk_bytes *out, stk_error *err);

/* For code that decodes on a GPU: sets *out to what jpeg.c's decoder knows of a picture.  If all
 * its bytes were read, call the decoder's header() before.  out->seek: points that agree with what
 * was read, or NULL.  STK_ENOTSUP: our decoder does not take it.  STK_ESTALE: its points are of
 * other bytes. */
int stk_jpeg_peek(const stk_picture_source *from, const stk_rect *need, stk_jpeg_job *out);

#endif
