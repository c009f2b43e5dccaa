/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_pages.h - pages and packets of one stream of an Ogg file.  Thread: worker. */
#ifndef STOKER_CODEC_OGG_PAGES_H
#define STOKER_CODEC_OGG_PAGES_H

#include "base/err.h"
#include "base/mem.h"

#define STK_OGG_PAGE 65307u /* bytes of a page, at most */

typedef struct stk_ogg_crc { /* its tables */
    uint32_t t[8][256];
} stk_ogg_crc;

typedef struct stk_ogg_packet {
    stk_bytes bytes;
    uint64_t page;     /* byte of the field at which the page begins that it ends on */
    int fresh;         /* the first packet of a page that begins with it */
    int last_of_page;  /* the last one that ends on its page */
    int64_t granule;   /* of that page */
    int end_of_stream; /* that page is the stream's last */
} stk_ogg_packet;

typedef struct stk_ogg {
    const stk_ogg_crc *crc;
    stk_bytes in;
    uint64_t base; /* of in.data in the field */
    uint64_t at;   /* the next page */
    uint32_t serial, sequence;
    int begun;       /* serial and sequence are known */
    uint8_t *joined; /* a packet of several pages */
    size_t joined_len, joined_room;
    uint64_t page; /* the page in hand */
    const uint8_t *lacing, *body;
    uint32_t segments, segment;
    int64_t granule;
    int flags, ended;
} stk_ogg;

void stk_ogg_crc_init(stk_ogg_crc *c);
/* Packets of the stream whose first page is at byte `at` of `in`; other streams are passed over. */
void stk_ogg_begin(stk_ogg *o, const stk_ogg_crc *crc, stk_bytes in, uint64_t base, uint64_t at);
void stk_ogg_fini(stk_ogg *o);
/* The next packet, valid until the call after it.  STK_END: the bytes end where a page does. */
int stk_ogg_next(stk_ogg *o, stk_ogg_packet *out, stk_error *err);
/* 1: `tail`, the last bytes of a field, ends with a whole page, which is the last one of stream
 * `serial`; its time. */
int stk_ogg_last_granule(const stk_ogg_crc *crc, stk_bytes tail, uint32_t serial, int64_t *granule);
/* The first packet of the first stream that begins with `magic`: where its page is.  1, or 0. */
int stk_ogg_find(stk_bytes in, const char *magic, size_t len, uint64_t *at);

#endif
