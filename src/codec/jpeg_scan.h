/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_scan.h - entropy decoding of the part of a scan that a rectangle sees.  Private to our JPEG
 * decoder (jpeg_base.c, jpeg_loop.h).
 *
 * A stream decodes one row of MCUs after the other, chunk by chunk, into a small buffer.  At the
 * end of a chunk, the sink takes what is in the buffer.  Without seek points, there is one stream,
 * which reads everything up to the last block that is wanted.  With them there are two, each of
 * which takes the next free row, so that two chains of dependent lookups run at once. */
#ifndef STOKER_JPEG_SCAN_H
#define STOKER_JPEG_SCAN_H

#include "codec/jpeg_base.h"
#include "codec/jpeg_idct.h"
#include "codec/jpeg_seek.h"

typedef struct stk_jpeg_op { /* one block of a chunk, in the order of the scan */
    const uint32_t *dc, *ac;
    const uint16_t *skip;
    uint16_t at;        /* index of its first coefficient in the buffer */
    uint8_t slot, comp; /* slot: group * 4 + place in the group */
} stk_jpeg_op;

typedef struct stk_jpeg_regs { /* what the loop keeps in registers */
    stk_jpeg_bits b;
    const stk_jpeg_op *op; /* the current block */
    const uint32_t *ac;    /* its AC table */
    int16_t *block;        /* its coefficients */
    uint32_t k, e;         /* place of the last coefficient; the entry that step() left */
} stk_jpeg_regs;

typedef struct stk_jpeg_stream {
    stk_jpeg_regs r;
    const stk_jpeg_op *stop; /* end of the run, which is part of a chunk */
    uint32_t row, col, run;  /* first MCU of the run; MCUs in it */
    uint32_t until;          /* column after the last one that is decoded */
    uint32_t chunk;          /* number of the chunk in its row */
    int skip;                /* true if the chunk is not wanted and only read over */
    uint32_t left, marker;   /* MCUs to the next restart; number of its marker */
    uint64_t at;             /* with seek points: bit at which the chunk must end */
    int32_t pred[STK_JPEG_COMPS];
    uint8_t last[STK_JPEG_CHUNK_BLOCKS];
    _Alignas(64) int16_t coef[STK_JPEG_CHUNK_BLOCKS * 64];
} stk_jpeg_stream;

typedef struct stk_jpeg_part { /* bytes of a scan: all of it, or rows that seek points find */
    const uint8_t *data;
    size_t len;
    uint64_t from; /* offset of `data` in the scan */
} stk_jpeg_part;

typedef struct stk_jpeg_scan stk_jpeg_scan;
struct stk_jpeg_scan {
    const stk_jpeg_head *head;
    stk_jpeg_part in;
    const stk_jpeg_seek *seek;
    stk_jpeg_point *points;  /* stores what is found at each chunk; NULL: nothing is stored */
    uint32_t cols, rows;     /* MCUs of the picture */
    uint32_t chunk, chunks;  /* MCUs of a chunk, chunks of a row */
    uint32_t blocks;         /* blocks of an MCU */
    uint32_t x0, x1, y0, y1; /* MCUs that are wanted */
    uint32_t next_row;       /* with seek points: the next row that no stream has taken */
    uint64_t end;            /* offset of the marker after the last MCU; set there */
    /* Takes chunk s->chunk of s->row; NULL: coefficients are not used. */
    void (*sink)(const stk_jpeg_scan *d, const stk_jpeg_stream *s);
    void *cookie;
    stk_jpeg_op op[STK_JPEG_CHUNK_BLOCKS];
    stk_jpeg_lut dc[STK_JPEG_COMPS], ac[STK_JPEG_COMPS];
    uint32_t n_dc, n_ac; /* tables built; components may share one */
    uint8_t dc_of[STK_JPEG_COMPS], ac_of[STK_JPEG_COMPS];
    stk_jpeg_long more[2][STK_JPEG_COMPS];
    stk_jpeg_stream s[2];
    _Alignas(64) uint32_t ac_fast[STK_JPEG_COMPS][1 << STK_JPEG_AC_BITS];
    uint32_t dc_fast[STK_JPEG_COMPS][1 << STK_JPEG_DC_BITS];
    uint16_t ac_skip[STK_JPEG_COMPS][1 << STK_JPEG_AC_BITS]; /* built if needed */
    int may_skip;                                            /* true if ac_skip is built */
};

/* Sets up tables and geometry of a picture.  All of it is wanted, and coefficients are not used. */
void stk_jpeg_scan_init(stk_jpeg_scan *d, const stk_jpeg_job *job);

/* Decodes.  Returns 0, STK_ECORRUPT, or STK_ESTALE if seek points were used and do not fit. */
int stk_jpeg_scan_run(stk_jpeg_scan *d, stk_cpu level);

/* The loops call it at the end of a run.  1: s->r is at the start of the next one; 0: nothing is
 * left; negative: an error. */
int stk_jpeg_scan_next(stk_jpeg_scan *d, stk_jpeg_stream *s);

/* The loops of one CPU level.  one() and two() decode until a stream has nothing left (0: the
 * first, 1: the second) or fails (negative).  begin() goes to the first block that is wanted; 0:
 * there is none. */
typedef struct stk_jpeg_loops {
    int (*begin)(stk_jpeg_scan *d, stk_jpeg_stream *s);
    int (*one)(stk_jpeg_scan *d, stk_jpeg_stream *s);
    int (*two)(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_stream *t);
} stk_jpeg_loops;
extern const stk_jpeg_loops stk_jpeg_loops_c, stk_jpeg_loops_bmi2;

#endif
