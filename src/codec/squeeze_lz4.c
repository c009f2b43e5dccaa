/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze_lz4.c - LZ4 frames, with a compressor of our own: greedy, one probe per position.
 *
 * A frame has independent blocks of up to 4 MiB, its size, and a checksum (xxHash-32) of what it
 * holds.  A block that would not become smaller is kept as it is.  The format: lz4's
 * doc/lz4_Frame_format.md and lz4_Block_format.md. */
#include "codec/squeeze.h"

#include <string.h>

#include "base/mem.h"

#define MAGIC 0x184D2204u
#define FLAGS 0x6C  /* version 1, independent blocks, size and checksum of the content */
#define BLOCKS 0x70 /* of at most 4 MiB */
#define BLOCK ((size_t)4 << 20)
#define STORED 0x80000000u
#define HASH_BITS 14
#define LAST_LITERALS 5u  /* the last bytes of a block are literals, */
#define NO_MATCH_FROM 12u /* and no match begins among the last twelve */
#define REACH 65535u

typedef struct lz4 {
    stk_framer base;
    uint8_t *block;                  /* BLOCK bytes: what is larger is kept as it is */
    uint32_t table[1u << HASH_BITS]; /* by hash of four bytes: where they were seen, plus 1 */
} lz4;

/* ---- xxHash-32 ---- */

#define P1 0x9E3779B1u
#define P2 0x85EBCA77u
#define P3 0xC2B2AE3Du
#define P4 0x27D4EB2Fu
#define P5 0x165667B1u

static uint32_t word(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v); /* little-endian: config.h refuses others */
    return v;
}

static uint32_t turn(uint32_t v, int by)
{
    return v << by | v >> (32 - by);
}

uint32_t stk_xxh32(stk_bytes in)
{
    const uint8_t *p = in.data, *end = in.data + in.len;
    uint32_t v[4] = { P1 + P2, P2, 0, 0u - P1 }, h = P5;

    if (in.len >= 16) {
        for (; end - p >= 16; p += 16)
            for (int i = 0; i < 4; i++)
                v[i] = turn(v[i] + word(p + (ptrdiff_t)4 * i) * P2, 13) * P1;
        h = turn(v[0], 1) + turn(v[1], 7) + turn(v[2], 12) + turn(v[3], 18);
    }
    h += (uint32_t)in.len;
    for (; end - p >= 4; p += 4)
        h = turn(h + word(p) * P3, 17) * P4;
    for (; p < end; p++)
        h = turn(h + *p * P5, 11) * P1;
    h = (h ^ h >> 15) * P2;
    h = (h ^ h >> 13) * P3;
    return h ^ h >> 16;
}

/* ---- blocks ---- */

typedef struct room { /* for a block; full: it has become no smaller */
    uint8_t *at, *end;
    int full;
} room;

static void put_length(room *r, size_t n) /* what four bits of the token could not say */
{
    for (; n >= 255 && r->at < r->end; n -= 255)
        *r->at++ = 255;
    if (r->at < r->end)
        *r->at++ = (uint8_t)n;
}

/* Literals, then a match of `len` bytes (0: none, it is the end) from `back` bytes before. */
static void put_sequence(room *r, stk_bytes literals, size_t len, size_t back)
{
    size_t match = len ? len - 4 : 0,
           need = 1 + literals.len / 255 + 1 + literals.len + 2 + match / 255 + 1;

    if (r->full || need > (size_t)(r->end - r->at)) {
        r->full = 1;
        return;
    }
    *r->at++ = (uint8_t)((literals.len < 15 ? literals.len : 15) << 4 | (match < 15 ? match : 15));
    if (literals.len >= 15)
        put_length(r, literals.len - 15);
    memcpy(r->at, literals.data, literals.len);
    r->at += literals.len;
    if (!len)
        return;
    *r->at++ = (uint8_t)back;
    *r->at++ = (uint8_t)(back >> 8);
    if (match >= 15)
        put_length(r, match - 15);
}

static size_t match_length(const uint8_t *a, const uint8_t *b, size_t most)
{
    size_t n = 4;

    while (n < most && a[n] == b[n])
        n++;
    return n;
}

/* How many bytes the block has packed; 0: no fewer than before. */
static size_t block(lz4 *z, stk_bytes in)
{
    room r = { z->block, z->block + in.len - 1, 0 };
    size_t from = 0, end = in.len > NO_MATCH_FROM ? in.len - NO_MATCH_FROM : 0;

    memset(z->table, 0, sizeof z->table);
    for (size_t i = 0; i < end && !r.full;) {
        uint32_t *seen = &z->table[word(in.data + i) * P1 >> (32 - HASH_BITS)];
        size_t at = *seen;

        *seen = (uint32_t)i + 1;
        if (at && i - (at - 1) <= REACH && word(in.data + at - 1) == word(in.data + i)) {
            size_t n = match_length(in.data + at - 1, in.data + i, in.len - LAST_LITERALS - i);

            put_sequence(&r, (stk_bytes){ in.data + from, i - from }, n, i - (at - 1));
            i += n;
            from = i;
        } else {
            i += 1 + (i - from) / 64; /* where nothing is found, look at fewer places */
        }
    }
    put_sequence(&r, (stk_bytes){ in.data + from, in.len - from }, 0, 0);
    return r.full ? 0 : (size_t)(r.at - z->block);
}

/* ---- frames ---- */

static int put_word(stk_text *out, uint32_t v, stk_error *err)
{
    uint8_t b[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

    return stk_text_put(out, b, sizeof b, err);
}

static int put_head(uint64_t size, stk_text *out, stk_error *err)
{
    uint8_t h[11] = { FLAGS, BLOCKS };

    for (int i = 0; i < 8; i++)
        h[2 + i] = (uint8_t)(size >> 8 * i);
    h[10] = (uint8_t)(stk_xxh32((stk_bytes){ h, 10 }) >> 8);
    STK_TRY(put_word(out, MAGIC, err));
    return stk_text_put(out, h, sizeof h, err);
}

static int lz4_frame(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err)
{
    lz4 *z = (lz4 *)f;

    STK_TRY(put_head(in.len, out, err));
    for (size_t at = 0; at < in.len; at += BLOCK) {
        stk_bytes part = { in.data + at, in.len - at < BLOCK ? in.len - at : BLOCK };
        size_t n = block(z, part);

        STK_TRY(put_word(out, n ? (uint32_t)n : (uint32_t)part.len | STORED, err));
        STK_TRY(stk_text_put(out, n ? z->block : part.data, n ? n : part.len, err));
    }
    STK_TRY(put_word(out, 0, err));
    return put_word(out, stk_xxh32(in), err);
}

static void lz4_close(stk_framer *f)
{
    stk_free(((lz4 *)f)->block);
    stk_free(f);
}

int stk_squeeze_lz4(stk_framer **out, stk_error *err)
{
    lz4 *z = STK_NEW(lz4);

    *out = NULL;
    if (z)
        z->block = stk_alloc(BLOCK);
    if (!z || !z->block) {
        stk_free(z);
        return stk_fail_nomem(err, BLOCK);
    }
    z->base = (stk_framer){ .frame = lz4_frame, .close = lz4_close };
    *out = &z->base;
    return 0;
}
