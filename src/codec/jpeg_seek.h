/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_seek.h - seek points of a baseline JPEG: where its chunks begin, and what is needed to
 * decode from there.  Our decoder, indexing, and code for GPUs use them.
 *
 * A chunk is a few MCUs (units of interleaved blocks) of one row of them.  Packed, little-endian:
 *     head     "J", version, flags, the frame and scan headers, what checks the file
 *     tables   quantizers (zigzag order), Huffman tables (none where they are the standard's)
 *     rows     bit offset of each row of MCUs, all of one width
 *     chunks   length in bits of each chunk but a row's last, less the smallest of all, one width
 *     DC       of each component at every dc_step-th chunk of a row, less its smallest, one width
 *     sums     CRC-32C of the bytes that hold each row of MCUs, then of the points themselves;
 *              files below 24 KiB, which are read whole anyway, have none
 * Version 1, which is still read, has no sums, and no turn of EXIF in its head.
 * Fields of bits are stored from the low bit of a byte on; each of the three parts begins at a
 * byte.  Offsets count bits from the scan's first byte, stuffing included: files stay as they are.
 *
 * stk_jpeg_seek_pack() takes the smallest dc_step with which the points stay within a share of the
 * file.  If none does, it leaves the chunks out. */
#ifndef STOKER_JPEG_SEEK_H
#define STOKER_JPEG_SEEK_H

#include <string.h>

#include "codec/jpeg_head.h"

#define STK_JPEG_CHUNK_BLOCKS 40 /* most blocks of a chunk */

/* Seek points that were unpacked; points into the packed bytes. */
typedef struct stk_jpeg_seek {
    uint32_t rows, cols;    /* MCUs */
    uint32_t chunk, chunks; /* MCUs of a chunk, chunks of a row */
    uint32_t dc_step, dcs;  /* chunks between DC values, such points in a row */
    uint32_t scan_len, crc; /* bytes of the scan up to its end marker; of the file up to there */
    uint32_t base;          /* bits of the shortest chunk */
    int32_t dc_min[STK_JPEG_COMPS];
    uint8_t n_comps, row_bits, len_bits, dc_bits[STK_JPEG_COMPS];
    uint32_t dc_sum; /* bits of the DC values of one point */
    int rows_only;   /* true if there are no chunks: one was too long, or the file is small */
    unsigned turn;   /* EXIF orientation, 1 to 8; 0: version 1 */
    stk_bytes row, len, dc; /* the parts rows, chunks and DC */
    stk_bytes sum;          /* the part sums; none in version 1 and for small files */
} stk_jpeg_seek;

/* Unpacks seek points, and checks all that can be checked without the file.  A hostile `packed` is
 * refused, or leads to STK_ESTALE or STK_ECORRUPT when decoding. */
int stk_jpeg_seek_open(stk_jpeg_seek *s, stk_jpeg_head *h, stk_bytes packed, stk_error *err);

/* Compares the file with the points' checksum: 0 or STK_ESTALE. */
int stk_jpeg_seek_check(const stk_jpeg_seek *s, const stk_jpeg_head *h, stk_bytes in,
                        stk_error *err);

/* Sets *from and *to: bytes [*from, *to) of the scan hold rows y0 to y1 - 1 of MCUs, and the bytes
 * after them that the decoder looks at. */
void stk_jpeg_seek_bytes(const stk_jpeg_seek *s, uint32_t y0, uint32_t y1, uint64_t *from,
                         uint64_t *to);

/* Compares these rows with their sums: 0 or STK_ESTALE.  `in` is the scan from byte `at` on. */
int stk_jpeg_seek_check_rows(const stk_jpeg_seek *s, uint32_t y0, uint32_t y1, stk_bytes in,
                             uint64_t at);

/* Bit offset of a row of MCUs. */
uint32_t stk_jpeg_seek_row(const stk_jpeg_seek *s, uint32_t row);

/* Length of a chunk that is not a row's last. */
uint32_t stk_jpeg_seek_len(const stk_jpeg_seek *s, uint32_t row, uint32_t chunk);

/* 57 bits or more at bit `at` of a packed part; zero bits after its end.  Every field of a point
 * fits, and the DC values of one point together. */
static inline uint64_t stk_jpeg_seek_word(stk_bytes b, uint64_t at)
{
    size_t from = (size_t)(at / 8);
    uint64_t v = 0;

    if (b.len >= 8 && from <= b.len - 8)
        memcpy(&v, b.data + from, 8);
    else if (from < b.len)
        memcpy(&v, b.data + from, b.len - from);
    return v >> at % 8;
}

/* Length of chunks first to end - 1 of a row; none of them is its last. */
static inline uint64_t stk_jpeg_seek_span(const stk_jpeg_seek *s, uint32_t row, uint32_t first,
                                          uint32_t end)
{
    uint64_t at = ((uint64_t)row * (s->chunks - 1) + first) * s->len_bits, sum = 0;
    const uint64_t mask = ((uint64_t)1 << s->len_bits) - 1;

    for (uint32_t i = first; i < end; i++, at += s->len_bits)
        sum += stk_jpeg_seek_word(s->len, at) & mask;
    return sum + (uint64_t)s->base * (end > first ? end - first : 0);
}

/* DC values at chunk number dc * dc_step. */
void stk_jpeg_seek_dc(const stk_jpeg_seek *s, uint32_t row, uint32_t dc, int32_t out[]);

/* What the decoder found at the start of a chunk. */
typedef struct stk_jpeg_point {
    uint32_t at;
    int16_t dc[STK_JPEG_COMPS];
} stk_jpeg_point;

/* MCUs of a chunk: about 4, more where an MCU is one block. */
static inline uint32_t stk_jpeg_chunk(const stk_jpeg_head *h)
{
    return h->n_comps == 1 ? 12 : 4;
}

/* Bytes that stk_jpeg_seek_pack() may write. */
size_t stk_jpeg_seek_room(const stk_jpeg_head *h);

/* Packs points[row * chunks + chunk], and returns the number of bytes. */
size_t stk_jpeg_seek_pack(uint8_t *to, const stk_jpeg_head *h, stk_bytes in, size_t scan_end,
                          const stk_jpeg_point *points);

/* 1: the points take at most 2.5 % of the file, so they are stored.  If the headers alone take
 * more, the picture is small, and decoding it from its beginning costs little. */
int stk_jpeg_seek_pays(stk_bytes packed, stk_bytes in);

#endif
