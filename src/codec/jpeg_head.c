/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_head.c - the markers of a JPEG (ITU-T T.81, annex B).
 *
 * Stricter than libjpeg-turbo wherever that one warns and goes on: a file that is odd in any way
 * is refused, so that the odd cases have one judge, and a head that is accepted here means to
 * us what it means there.  Tables may come again before the scan; the last one counts. */
#include "codec/jpeg_head.h"

#define MAX_SIDE 65500 /* libjpeg's */

typedef struct reader {
    stk_jpeg_head *h;
    stk_bytes in;
    size_t at;
    uint8_t id[STK_JPEG_COMPS];
    int jfif, adobe, transform, frame;
    unsigned have_quant;
    stk_error *err;
} reader;

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static int corrupt(reader *r, const char *what)
{
    return stk_fail(r->err, STK_ECORRUPT, "JPEG: %s before byte %zu", what, r->at);
}

static int other(stk_error *err, const char *what)
{
    return stk_fail(err, STK_ENOTSUP, "JPEG with %s is for libjpeg-turbo", what);
}

/* ---- segments: p[0..n) is what follows the length ---- */

static int read_quant(reader *r, const uint8_t *p, size_t n)
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;

    while (n) {
        unsigned wide = p[0] >> 4, which = p[0] & 15;
        size_t size = wide ? 129 : 65;

        if (wide > 1 || which > 3 || n < size)
            return corrupt(r, "a broken quantization table");
        for (unsigned i = 0; i < 64; i++)
            r->h->quant[which][natural[i]] = (uint16_t)(wide ? be16(p + 1 + 2 * (size_t)i)
                                                             : p[1 + i]);
        r->have_quant |= 1u << which;
        p += size;
        n -= size;
    }
    return 0;
}

static int read_huffman(reader *r, const uint8_t *p, size_t n)
{
    while (n) {
        stk_jpeg_huff *t;
        unsigned sum = 0;

        if (n < 17 || (p[0] & 0xEC))
            return corrupt(r, "a broken Huffman table");
        t = p[0] & 16 ? &r->h->ac[p[0] & 3] : &r->h->dc[p[0] & 3];
        for (unsigned i = 0; i < 16; i++)
            sum += t->bits[i] = p[1 + i];
        if (sum > 256 || n < 17 + sum)
            return corrupt(r, "a broken Huffman table");
        memset(t->vals, 0, sizeof t->vals);
        memcpy(t->vals, p + 17, sum);
        t->n = (uint16_t)sum;
        p += 17 + sum;
        n -= 17 + sum;
    }
    return 0;
}

static int read_frame(reader *r, const uint8_t *p, size_t n)
{
    stk_jpeg_head *h = r->h;

    if (r->frame++ || n < 6 || n != 6 + 3 * (size_t)p[5])
        return corrupt(r, "a broken frame header");
    if (p[0] != 8)
        return other(r->err, "other than 8 bits a sample");
    h->height = be16(p + 1);
    h->width = be16(p + 3);
    h->n_comps = p[5];
    if (h->n_comps != 1 && h->n_comps != 3)
        return other(r->err, "neither 1 nor 3 components");
    for (unsigned i = 0; i < h->n_comps; i++) {
        const uint8_t *c = p + 6 + 3 * (size_t)i;

        r->id[i] = c[0];
        h->comp[i] = (stk_jpeg_comp){ .h = c[1] >> 4, .v = c[1] & 15, .quant = c[2] };
    }
    return 0;
}

static int read_scan(reader *r, const uint8_t *p, size_t n)
{
    stk_jpeg_head *h = r->h;

    if (!r->frame)
        return corrupt(r, "no frame header");
    if (n < 1 || n != 4 + 2 * (size_t)p[0])
        return corrupt(r, "a broken scan header");
    if (p[0] != h->n_comps)
        return other(r->err, "several scans");
    for (unsigned i = 0; i < h->n_comps; i++) {
        const uint8_t *c = p + 1 + 2 * (size_t)i;

        for (unsigned k = 0; k < i; k++)
            if (r->id[k] == r->id[i])
                return other(r->err, "components of one name");
        if (c[0] != r->id[i])
            return other(r->err, "components in another order");
        h->comp[i].dc = c[1] >> 4;
        h->comp[i].ac = c[1] & 15;
    }
    p += 1 + 2 * (size_t)h->n_comps;
    if (p[0] != 0 || p[1] != 63 || p[2] != 0)
        return other(r->err, "a progressive scan");
    return 0;
}

static void read_app(reader *r, unsigned marker, const uint8_t *p, size_t n)
{
    if (marker == 0xE0 && n >= 14 && !memcmp(p, "JFIF", 5))
        r->jfif = 1;
    if (marker == 0xEE && n >= 12 && !memcmp(p, "Adobe", 5)) {
        r->adobe = 1;
        r->transform = p[11];
    }
}

/* What three components mean, as libjpeg guesses. */
static int is_ycc(const reader *r)
{
    if (r->jfif)
        return 1;
    if (r->adobe)
        return r->transform != 0;
    return !(r->id[0] == 'R' && r->id[1] == 'G' && r->id[2] == 'B');
}

/* One segment; 1 after the scan's header. */
static int segment(reader *r, unsigned marker, const uint8_t *p, size_t n)
{
    switch (marker) {
    case 0xC0:
    case 0xC1: return read_frame(r, p, n);
    case 0xC4: return read_huffman(r, p, n);
    case 0xDB: return read_quant(r, p, n);
    case 0xDD:
        if (n != 2)
            return corrupt(r, "a broken restart interval");
        r->h->restart = be16(p);
        return 0;
    case 0xDA: STK_TRY(read_scan(r, p, n)); return 1;
    default: break;
    }
    if (marker >= 0xC2 && marker <= 0xCF)
        return other(r->err, marker <= 0xC3 || (marker >= 0xC5 && marker <= 0xC7)
                                 ? "progressive or lossless coding"
                                 : "arithmetic coding");
    if ((marker >= 0xE0 && marker <= 0xEF) || marker == 0xFE) {
        read_app(r, marker, p, n);
        return 0;
    }
    return corrupt(r, "an unexpected marker");
}

static int read_markers(reader *r)
{
    const uint8_t *d = r->in.data;
    int done = 0;

    if (r->in.len < 4 || d[0] != 0xFF || d[1] != 0xD8)
        return corrupt(r, "no start of an image");
    for (r->at = 2; !done;) {
        size_t left = r->in.len - r->at, n;
        unsigned marker;

        if (left < 4 || d[r->at] != 0xFF)
            return corrupt(r, left < 4 ? "the end" : "something that is not a marker");
        marker = d[r->at + 1];
        if (marker == 0xFF) { /* fill */
            r->at++;
            continue;
        }
        n = be16(d + r->at + 2);
        if (n < 2 || n > left - 2)
            return corrupt(r, "a segment that does not fit");
        r->at += 2 + n;
        done = segment(r, marker, d + r->at - n + 2, n - 2);
        if (done < 0)
            return done;
    }
    return 0;
}

/* ---- what must hold ---- */

static int check_tables(const stk_jpeg_head *h, stk_error *err)
{
    stk_jpeg_long t;

    for (unsigned i = 0; i < h->n_comps; i++) {
        const stk_jpeg_comp *c = &h->comp[i];

        if (c->quant > 3 || c->dc > 3 || c->ac > 3)
            return stk_fail(err, STK_ECORRUPT, "JPEG: a component names a table beyond 3");
        if (stk_jpeg_long_build(&t, &h->dc[c->dc], 1) || stk_jpeg_long_build(&t, &h->ac[c->ac], 0))
            return stk_fail(err, STK_ECORRUPT, "JPEG: a Huffman table is missing or broken");
    }
    return 0;
}

int stk_jpeg_head_check(stk_jpeg_head *h, stk_error *err)
{
    if (h->n_comps != 1 && h->n_comps != 3)
        return other(err, "neither 1 nor 3 components");
    if (!h->width || !h->height)
        return stk_fail(err, STK_ECORRUPT, "JPEG: empty picture of %ux%u", h->width, h->height);
    if (h->width > MAX_SIDE || h->height > MAX_SIDE)
        return other(err, "a side beyond 65500 pixels");
    if (h->restart > 65535)
        return stk_fail(err, STK_ECORRUPT, "JPEG: a restart interval beyond 65535");
    h->max_h = h->max_v = 1;
    for (unsigned i = 0; i < h->n_comps; i++) {
        const stk_jpeg_comp *c = &h->comp[i];

        if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4)
            return stk_fail(err, STK_ECORRUPT, "JPEG: sampling factors %ux%u", c->h, c->v);
        h->max_h = c->h > h->max_h ? c->h : h->max_h;
        h->max_v = c->v > h->max_v ? c->v : h->max_v;
    }
    for (unsigned i = 0; i < h->n_comps; i++)
        if (h->max_h % h->comp[i].h || h->max_v % h->comp[i].v)
            return other(err, "fractional sampling");
    if (h->n_comps == 1) /* one component is never interleaved: its factors mean nothing */
        h->comp[0].h = h->comp[0].v = h->max_h = h->max_v = 1;
    if (stk_jpeg_mcu_blocks(h) > STK_JPEG_MCU_BLOCKS)
        return stk_fail(err, STK_ECORRUPT, "JPEG: more than 10 blocks in a unit");
    return check_tables(h, err);
}

int stk_jpeg_parse(stk_jpeg_head *h, stk_bytes in, stk_error *err)
{
    reader r = { .h = h, .in = in, .err = err };

    memset(h, 0, sizeof *h);
    if (in.len > UINT32_MAX / 8) /* offsets in bits are 32 bits wide */
        return other(err, "more than 512 MiB");
    STK_TRY(read_markers(&r));
    h->scan = (uint32_t)r.at;
    STK_TRY(stk_jpeg_head_check(h, err));
    if (h->n_comps == 3 && !is_ycc(&r))
        return other(err, "RGB components");
    for (unsigned i = 0; i < h->n_comps; i++)
        if (!(r.have_quant >> h->comp[i].quant & 1))
            return stk_fail(err, STK_ECORRUPT, "JPEG: a quantization table is missing");
    return 0;
}

/* ---- annex K ---- */

static const uint8_t standard_bits[4][16] = {
    { 0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0 },
    { 0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0 },
    { 0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d },
    { 0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77 },
};

static const uint8_t standard_ac[2][162] = {
    { 0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61,
      0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52,
      0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25,
      0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
      0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
      0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
      0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
      0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
      0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3,
      0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
      0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa },
    { 0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61,
      0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33,
      0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18,
      0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44,
      0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63,
      0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
      0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97,
      0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4,
      0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca,
      0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7,
      0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa },
};

void stk_jpeg_standard(stk_jpeg_huff *h, unsigned which)
{
    memset(h, 0, sizeof *h);
    memcpy(h->bits, standard_bits[which], 16);
    h->n = which < 2 ? 12 : 162;
    for (unsigned i = 0; i < h->n; i++)
        h->vals[i] = which < 2 ? (uint8_t)i : standard_ac[which - 2][i];
}
