/* SPDX-License-Identifier: Apache-2.0 */
/* flac_frame.h - decodes one frame of a FLAC stream: its header and its samples.  flac.c and
 * flac_ogg.c call it.  Thread: worker. */
#ifndef STOKER_CODEC_FLAC_FRAME_H
#define STOKER_CODEC_FLAC_FRAME_H

#include "base/err.h"
#include "base/mem.h"

#define STK_FLAC_CHANNELS 8
#define STK_FLAC_HEADER 16 /* most bytes of a frame's header */

typedef struct stk_flac_stream {                         /* STREAMINFO */
    uint32_t min_block, max_block, min_frame, max_frame; /* frames: bytes; 0: not known */
    uint32_t rate, channels, bits;
    uint64_t units; /* 0: not known */
} stk_flac_stream;

typedef struct stk_flac_head { /* the header of a frame */
    uint32_t block;            /* samples */
    uint32_t assignment; /* of channels: 0..7 as many, 8 left/side, 9 side/right, 10 mid/side */
    uint32_t size;       /* bytes of the header */
    uint32_t rate;       /* samples per second; 0: as the stream says */
    uint64_t first;      /* number of its first sample in the stream */
} stk_flac_head;

struct stk_flac_bits;

typedef struct stk_flac { /* tables, and memory for one frame */
    uint16_t crc16[8][256];
    uint8_t crc8[256];
    int32_t *values; /* samples of all channels, `room` for each */
    float *floats;
    int64_t *wide; /* memory for the side channel of 32-bit streams; NULL: not needed so far */
    uint32_t room, room_channels;
    float *channel[STK_FLAC_CHANNELS]; /* samples of the last decoded frame */
    /* The loop over residuals that this processor runs fastest: flac_bits.h. */
    void (*rice)(struct stk_flac_bits *b, int32_t *out, uint32_t n, uint32_t k);
} stk_flac;

void stk_flac_init(stk_flac *f);
void stk_flac_fini(stk_flac *f);
/* Reads the 34 bytes of STREAMINFO. */
int stk_flac_stream_read(stk_flac_stream *s, const uint8_t *p, stk_error *err);
/* 1: a frame of this stream may begin here; its rate is not compared. */
int stk_flac_head_read(const stk_flac *f, const stk_flac_stream *s, stk_bytes in,
                       stk_flac_head *out);
/* STK_ECORRUPT: its rate is not the stream's. */
int stk_flac_check_rate(const stk_flac_stream *s, const stk_flac_head *head, stk_error *err);
uint16_t stk_flac_crc(const stk_flac *f, stk_bytes in);
/* Decodes the frame at the start of `in` and checks its checksum; sets *size to its length.
 * f->channel is valid until the next call.  STK_ECORRUPT: it is damaged, or `in` ends too early. */
int stk_flac_decode(stk_flac *f, const stk_flac_stream *s, const stk_flac_head *head, stk_bytes in,
                    size_t *size, stk_error *err);

#endif
