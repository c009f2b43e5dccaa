/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_scan.h - entropy decoding of the part of a scan that a rectangle sees; private to our JPEG
 * decoder.
 *
 * A stream decodes one row of MCUs after the other, chunk by chunk, into a small buffer; at the end
 * of a chunk the sink takes what is in it.  Without seek points there is one stream, which goes
 * through everything up to the last block that is wanted; with them there are two, each taking
 * the next row that no one has, so that two chains of dependent lookups run at once. */
#ifndef STOKER_JPEG_SCAN_H
#define STOKER_JPEG_SCAN_H

#include "codec/jpeg_base.h"
#include "codec/jpeg_idct.h"
#include "codec/jpeg_seek.h"

typedef struct stk_jpeg_op { /* one block of a chunk, in the order of the scan */
    const uint32_t *dc, *ac;
    const uint16_t *skip;
    uint16_t at;        /* of its first coefficient in the buffer */
    uint8_t slot, comp; /* slot: group * 4 + place in the group */
} stk_jpeg_op;

typedef struct stk_jpeg_regs { /* what the loop keeps in registers */
    stk_jpeg_bits b;
    const stk_jpeg_op *op; /* the block in hand */
    const uint32_t *ac;
    int16_t *block;
    uint32_t k, e; /* place of the last coefficient; the entry that needs a look */
} stk_jpeg_regs;

typedef struct stk_jpeg_stream {
    stk_jpeg_regs r;
    const stk_jpeg_op *stop; /* the end of the run */
    uint32_t row, col, run;  /* MCU of the run's begin; MCUs in it */
    uint32_t until;          /* the column at which the row ends for us */
    uint32_t chunk;          /* number in the row */
    int skip;                /* no one wants this chunk: read over it */
    uint32_t left, marker;   /* MCUs to the next restart, number of its marker */
    uint64_t at;             /* seek points: where the chunk must end */
    int32_t pred[STK_JPEG_COMPS];
    uint8_t last[STK_JPEG_CHUNK_BLOCKS];
    _Alignas(64) int16_t coef[STK_JPEG_CHUNK_BLOCKS * 64];
} stk_jpeg_stream;

typedef struct stk_jpeg_part { /* of a scan: all of it, or rows that seek points find */
    const uint8_t *data;
    size_t len;
    uint64_t from; /* data is byte number `from` of the scan */
} stk_jpeg_part;

typedef struct stk_jpeg_scan stk_jpeg_scan;
struct stk_jpeg_scan {
    const stk_jpeg_head *head;
    stk_jpeg_part in;
    const stk_jpeg_seek *seek;
    stk_jpeg_point *points;  /* NULL, or: keep what is found at each chunk */
    uint32_t cols, rows;     /* MCUs of the picture */
    uint32_t chunk, chunks;  /* MCUs of a chunk, chunks of a row */
    uint32_t blocks;         /* of an MCU */
    uint32_t x0, x1, y0, y1; /* MCUs that are wanted */
    uint32_t next_row;       /* seek points: that no stream has yet */
    uint64_t end;            /* set at the picture's last MCU: byte of the marker after it */
    /* Takes the chunk s->chunk of s->row; NULL: nothing is kept. */
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
    uint16_t ac_skip[STK_JPEG_COMPS][1 << STK_JPEG_AC_BITS]; /* built where it is needed */
    int may_skip;
};

/* Tables and geometry of a picture; all of it is wanted, nothing is kept. */
void stk_jpeg_scan_init(stk_jpeg_scan *d, const stk_jpeg_job *job);

/* Decode; 0, STK_ECORRUPT, or STK_ESTALE where seek points were used and do not fit. */
int stk_jpeg_scan_run(stk_jpeg_scan *d, stk_cpu level);

/* For the loops: the run is decoded.  1: r is at the next one's start; 0: nothing left; negative:
 * an error. */
int stk_jpeg_scan_next(stk_jpeg_scan *d, stk_jpeg_stream *s);

/* The loops, one pair a CPU level: from the middle of blocks until a stream has nothing left
 * (0: the first, 1: the second) or fails (negative).  begin() goes to the first block that
 * is wanted; 0: there is none. */
typedef struct stk_jpeg_loops {
    int (*begin)(stk_jpeg_scan *d, stk_jpeg_stream *s);
    int (*one)(stk_jpeg_scan *d, stk_jpeg_stream *s);
    int (*two)(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_stream *t);
} stk_jpeg_loops;
extern const stk_jpeg_loops stk_jpeg_loops_c, stk_jpeg_loops_bmi2;

#endif
