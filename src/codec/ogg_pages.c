/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_pages.c - see ogg_pages.h.
 *
 * Pages follow each other without gaps, each with a checksum; those of the stream that is read are
 * numbered.  A gap, a wrong sum, a missing number and a stream that begins after this one has ended
 * (a chained file) are errors: nothing of a recording is left out in silence. */
#include "codec/ogg_pages.h"

#include <string.h>

#include "codec/sound_points.h"

#define HEAD 27
#define MOST_PACKET ((size_t)16 << 20)
#define MOST_STREAMS 64 /* that begin together */
enum { CONTINUED = 1, FIRST = 2, LAST = 4 };

void stk_ogg_crc_init(stk_ogg_crc *c)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i << 24;

        for (int k = 0; k < 8; k++)
            v = v & 0x80000000u ? v << 1 ^ 0x04C11DB7u : v << 1;
        c->t[0][i] = v;
    }
    for (int t = 1; t < 8; t++)
        for (uint32_t i = 0; i < 256; i++)
            c->t[t][i] = c->t[t - 1][i] << 8 ^ c->t[0][c->t[t - 1][i] >> 24];
}

static uint32_t sum(const stk_ogg_crc *c, uint32_t v, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        v ^= (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        v = c->t[7][v >> 24] ^ c->t[6][v >> 16 & 255] ^ c->t[5][v >> 8 & 255] ^ c->t[4][v & 255] ^
            c->t[3][p[4]] ^ c->t[2][p[5]] ^ c->t[1][p[6]] ^ c->t[0][p[7]];
    }
    for (; n; n--, p++)
        v = v << 8 ^ c->t[0][(v >> 24) ^ *p];
    return v;
}

/* Bytes of the page at p, of which `len` are there; 0: it is none, or cut off. */
static size_t page_size(const uint8_t *p, size_t len)
{
    size_t size;

    if (len < HEAD || memcmp(p, "OggS", 4) || p[4] || len < HEAD + (size_t)p[26])
        return 0;
    size = HEAD + (size_t)p[26];
    for (uint32_t i = 0; i < p[26]; i++)
        size += p[HEAD + i];
    return size <= len ? size : 0;
}

static int sum_fits(const stk_ogg_crc *c, const uint8_t *p, size_t size)
{
    static const uint8_t zero[4];
    uint32_t v = sum(c, 0, p, 22);

    v = sum(c, v, zero, 4);
    return sum(c, v, p + 26, size - 26) == stk_le32(p + 22);
}

int stk_ogg_find(stk_bytes in, const char *magic, size_t len, uint64_t *at)
{
    size_t size;

    *at = 0;
    for (int i = 0; i < MOST_STREAMS; i++, *at += size) {
        const uint8_t *p = in.data + *at;

        size = page_size(p, in.len - (size_t)*at);
        if (!size || !(p[5] & FIRST))
            return 0;
        if (size >= HEAD + p[26] + len && !memcmp(p + HEAD + p[26], magic, len))
            return 1;
    }
    return 0;
}

int stk_ogg_last_granule(const stk_ogg_crc *crc, stk_bytes tail, uint32_t serial, int64_t *granule)
{
    for (size_t at = tail.len; at-- > 0;) {
        const uint8_t *p = tail.data + at;
        size_t left = tail.len - at;

        if (*p != 'O' || page_size(p, left) != left || !left || !sum_fits(crc, p, left))
            continue;
        *granule = (int64_t)stk_le64(p + 6);
        return stk_le32(p + 14) == serial && p[5] & LAST;
    }
    return 0;
}

void stk_ogg_begin(stk_ogg *o, const stk_ogg_crc *crc, stk_bytes in, uint64_t base, uint64_t at)
{
    *o = (stk_ogg){ .crc = crc, .in = in, .base = base, .at = at };
}

void stk_ogg_fini(stk_ogg *o)
{
    stk_free(o->joined);
    o->joined = NULL;
}

static int next_page(stk_ogg *o, stk_error *err)
{
    const uint8_t *p = o->in.data + o->at;
    size_t left = o->in.len - (size_t)o->at, size = left ? page_size(p, left) : 0;
    uint64_t at = o->base + o->at;

    if (!left)
        return STK_END;
    if (!size)
        return stk_fail(err, STK_ECORRUPT, "Ogg: no whole page at byte %" PRIu64, at);
    if (!sum_fits(o->crc, p, size))
        return stk_fail(err, STK_ECORRUPT, "Ogg: the page at byte %" PRIu64 " is damaged", at);
    o->at += size;
    if (o->begun && stk_le32(p + 14) != o->serial) {
        if (p[5] & FIRST && o->ended)
            return stk_fail(err, STK_ECORRUPT,
                            "Ogg: another stream begins at byte %" PRIu64 ", after the first has "
                            "ended: chained files are not read",
                            at);
        o->segments = o->segment = 0;
        return 0; /* of another stream */
    }
    if (o->begun && (stk_le32(p + 18) != o->sequence || o->ended))
        return stk_fail(err, STK_ECORRUPT, "Ogg: pages are missing before byte %" PRIu64, at);
    o->begun = 1;
    o->serial = stk_le32(p + 14);
    o->sequence = stk_le32(p + 18) + 1;
    o->flags = p[5];
    o->granule = (int64_t)stk_le64(p + 6);
    o->page = at;
    o->segments = p[26];
    o->segment = 0;
    o->lacing = p + HEAD;
    o->body = p + HEAD + p[26];
    o->ended = (p[5] & LAST) != 0;
    if (!(o->flags & CONTINUED) != !o->joined_len && o->segments)
        return stk_fail(err, STK_ECORRUPT,
                        "Ogg: the page at byte %" PRIu64 " does not continue "
                        "the packet before it",
                        at);
    return 0;
}

static int join(stk_ogg *o, const uint8_t *p, size_t n, stk_error *err)
{
    if (o->joined_len + n > MOST_PACKET)
        return stk_fail(err, STK_ELIMIT, "Ogg: a packet of more than %zu bytes", MOST_PACKET);
    if (o->joined_len + n > o->joined_room) {
        size_t room = 2 * (o->joined_len + n);
        uint8_t *more = stk_grow(o->joined, o->joined_len, room);

        if (!more)
            return stk_fail_nomem(err, room);
        o->joined = more;
        o->joined_room = room;
    }
    memcpy(o->joined + o->joined_len, p, n);
    o->joined_len += n;
    return 0;
}

static int more_ends(const stk_ogg *o) /* does another packet end on this page? */
{
    for (uint32_t i = o->segment; i < o->segments; i++)
        if (o->lacing[i] < 255)
            return 1;
    return 0;
}

int stk_ogg_next(stk_ogg *o, stk_ogg_packet *out, stk_error *err)
{
    for (;;) {
        const uint8_t *from = o->body;
        uint32_t first = o->segment;
        size_t n = 0;
        int whole = 0;

        if (o->segment >= o->segments) {
            int rc = next_page(o, err);

            if (rc == STK_END && o->joined_len)
                return stk_fail(err, STK_ECORRUPT, "Ogg is truncated: its last packet is cut off");
            if (rc != 0)
                return rc;
            continue;
        }
        while (o->segment < o->segments && !whole) {
            n += o->lacing[o->segment];
            whole = o->lacing[o->segment++] < 255;
        }
        o->body += n;
        if (!whole || o->joined_len)
            STK_TRY(join(o, from, n, err));
        if (!whole)
            continue;
        *out = (stk_ogg_packet){ .bytes = { from, n },
                                 .page = o->page,
                                 .fresh = !first && !(o->flags & CONTINUED),
                                 .last_of_page = !more_ends(o),
                                 .granule = o->granule,
                                 .end_of_stream = o->ended };
        if (o->joined_len)
            out->bytes = (stk_bytes){ o->joined, o->joined_len };
        o->joined_len = 0;
        return 0;
    }
}
