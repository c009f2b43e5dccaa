/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_pages.h - reads the packets of one stream of an Ogg file, page by page.  ogg_sound.c calls
 * it.  Thread: worker. */
#ifndef STOKER_CODEC_OGG_PAGES_H
#define STOKER_CODEC_OGG_PAGES_H

#include "base/err.h"
#include "base/mem.h"

#define STK_OGG_PAGE 65307u /* most bytes of a page */

typedef struct stk_ogg_crc { /* tables for the checksum of pages */
    uint32_t t[8][256];
} stk_ogg_crc;

typedef struct stk_ogg_packet {
    stk_bytes bytes;
    uint64_t page;     /* offset in the field of the page that the packet ends on */
    int fresh;         /* true if that page begins with this packet */
    int last_of_page;  /* true if it is the last packet that ends on that page */
    int64_t granule;   /* time of that page, as the codec counts it */
    int end_of_stream; /* true if that page is the stream's last */
} stk_ogg_packet;

typedef struct stk_ogg {
    const stk_ogg_crc *crc;
    stk_bytes in;
    uint64_t base; /* offset of `in` in the field */
    uint64_t at;   /* offset of the next page */
    uint32_t serial, sequence;
    int begun;       /* true once serial and sequence are known */
    uint8_t *joined; /* memory for a packet that is on several pages */
    size_t joined_len, joined_room;
    uint64_t page; /* offset of the current page; the next fields are of it, too */
    const uint8_t *lacing, *body;
    uint32_t segments, segment;
    int64_t granule;
    int flags, ended;
} stk_ogg;

void stk_ogg_crc_init(stk_ogg_crc *c);
/* Begins with the stream whose first page is at byte `at` of `in`; other streams are skipped. */
void stk_ogg_begin(stk_ogg *o, const stk_ogg_crc *crc, stk_bytes in, uint64_t base, uint64_t at);
void stk_ogg_fini(stk_ogg *o);
/* The next packet, valid until the call after it.  STK_END: the bytes end where a page does. */
int stk_ogg_next(stk_ogg *o, stk_ogg_packet *out, stk_error *err);
/* 1: `tail`, the last bytes of a field, ends with a whole page, the last one of stream `serial`;
 * sets *granule to its time. */
int stk_ogg_last_granule(const stk_ogg_crc *crc, stk_bytes tail, uint32_t serial, int64_t *granule);
/* Finds the first stream whose first packet begins with `magic`, and sets *at to its first page.
 * 0: there is none. */
int stk_ogg_find(stk_bytes in, const char *magic, size_t len, uint64_t *at);

#endif
