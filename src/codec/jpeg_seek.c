/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_seek.c - seek points packed and taken apart; the layout is in jpeg_seek.h.
 *
 * Every field has one width for the whole image, so that any point can be read without those
 * before it, on a GPU too.  Nothing here trusts the bytes: sizes are checked at open, and what a
 * point says only decides where decoding starts, which must end where the next point is. */
#include "codec/jpeg_seek.h"

#include "base/hash.h"
#include "codec/exif.h"

#define VERSION 2
#define FIXED 44          /* bytes of the head of version 1; from 2 on the turn follows */
#define SUM 4             /* bytes of a row's sum */
#define SMALL (24u << 10) /* bytes of a file that is read whole anyway, and has no sums */
#define SHARE 24          /* thousandths of the file that points aim for, DC values included */
#define MOST 25           /* beyond which they are not kept */
#define RECORD 12         /* bytes around them where they are kept */
#define MAX_LEN 65535

enum { STANDARD = 1, ROWS_ONLY = 2, WIDE_QUANT = 4, SUMS = 8 };

/* ---- bits and bytes ---- */

/* `n` bits (32 at most) at bit `at`; zero bits after the end. */
static uint32_t get_bits(stk_bytes b, uint64_t at, unsigned n)
{
    return (uint32_t)(stk_jpeg_seek_word(b, at) & (((uint64_t)1 << n) - 1));
}

typedef struct writer {
    uint8_t *p;
    uint64_t acc;
    unsigned n;
} writer;

static void put_bits(writer *w, uint32_t v, unsigned n)
{
    w->acc |= (uint64_t)v << w->n;
    for (w->n += n; w->n >= 8; w->n -= 8, w->acc >>= 8)
        *w->p++ = (uint8_t)w->acc;
}

static void put_end(writer *w)
{
    put_bits(w, 0, (8 - w->n) % 8);
}

static void put_byte(writer *w, uint32_t v)
{
    *w->p++ = (uint8_t)v;
}

static void put_le(writer *w, uint32_t v, unsigned bytes)
{
    for (; bytes; bytes--, v >>= 8)
        put_byte(w, v);
}

static unsigned width(uint32_t v)
{
    return v ? 32 - (unsigned)__builtin_clz(v) : 0;
}

static size_t bytes_of(uint64_t bits)
{
    return (size_t)((bits + 7) / 8);
}

/* ---- points ---- */

uint32_t stk_jpeg_seek_row(const stk_jpeg_seek *s, uint32_t row)
{
    return get_bits(s->row, (uint64_t)row * s->row_bits, s->row_bits);
}

uint32_t stk_jpeg_seek_len(const stk_jpeg_seek *s, uint32_t row, uint32_t chunk)
{
    uint64_t i = (uint64_t)row * (s->chunks - 1) + chunk;

    return s->base + get_bits(s->len, i * s->len_bits, s->len_bits);
}

void stk_jpeg_seek_dc(const stk_jpeg_seek *s, uint32_t row, uint32_t dc, int32_t out[])
{
    uint64_t v = stk_jpeg_seek_word(s->dc, ((uint64_t)row * s->dcs + dc) * s->dc_sum);

    for (unsigned c = 0; c < s->n_comps; c++) {
        out[c] = s->dc_min[c] + (int32_t)(v & (((uint64_t)1 << s->dc_bits[c]) - 1));
        v >>= s->dc_bits[c];
    }
}

/* Where a row's bytes begin, and those of the row after the last. */
static uint64_t row_begin(const stk_jpeg_seek *s, uint32_t row)
{
    return row < s->rows ? stk_jpeg_seek_row(s, row) / 8 : s->scan_len;
}

static uint64_t row_end(const stk_jpeg_seek *s, uint32_t row)
{
    return row + 1 < s->rows ? ((uint64_t)stk_jpeg_seek_row(s, row + 1) + 7) / 8 : s->scan_len;
}

#define AFTER 2 /* bytes: the end marker, or the zero that follows 0xFF */

void stk_jpeg_seek_bytes(const stk_jpeg_seek *s, uint32_t y0, uint32_t y1, uint64_t *from,
                         uint64_t *to)
{
    uint64_t end = (uint64_t)s->scan_len + AFTER;

    *from = row_begin(s, y0);
    *to = row_end(s, y1 - 1) + AFTER;
    *to = *to < end ? *to : end;
}

static uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int stk_jpeg_seek_check_rows(const stk_jpeg_seek *s, uint32_t y0, uint32_t y1, stk_bytes in,
                             uint64_t at)
{
    for (uint32_t y = y0; y < y1; y++) {
        uint64_t from = row_begin(s, y), to = row_end(s, y);

        if (from < at || to < from || to - at > in.len ||
            stk_crc32c(0, in.data + (from - at), (size_t)(to - from)) !=
                le32(s->sum.data + (size_t)y * SUM))
            return STK_ESTALE;
    }
    return 0;
}

/* ---- packing ---- */

typedef struct shape { /* what the points of an image need */
    uint32_t rows, chunks, base;
    unsigned row_bits, len_bits, dc_bits[STK_JPEG_COMPS], dc_sum;
    int32_t dc_min[STK_JPEG_COMPS];
    int rows_only;
    uint32_t dc_step;
} shape;

static void measure(shape *s, const stk_jpeg_head *h, const stk_jpeg_point *p)
{
    int32_t max[STK_JPEG_COMPS] = { INT16_MIN, INT16_MIN, INT16_MIN };
    uint32_t longest = 0, n;

    *s = (shape){ .rows = stk_jpeg_mcus_y(h), .base = UINT32_MAX };
    s->chunks = stk_jpeg_ceil(stk_jpeg_mcus_x(h), stk_jpeg_chunk(h));
    n = s->rows * s->chunks;
    for (unsigned c = 0; c < h->n_comps; c++)
        s->dc_min[c] = INT16_MAX;
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned c = 0; c < h->n_comps; c++) {
            s->dc_min[c] = p[i].dc[c] < s->dc_min[c] ? p[i].dc[c] : s->dc_min[c];
            max[c] = p[i].dc[c] > max[c] ? p[i].dc[c] : max[c];
        }
        if ((i + 1) % s->chunks == 0)
            continue;
        s->base = p[i + 1].at - p[i].at < s->base ? p[i + 1].at - p[i].at : s->base;
        longest = p[i + 1].at - p[i].at > longest ? p[i + 1].at - p[i].at : longest;
    }
    s->row_bits = width(p[n - s->chunks].at);
    s->rows_only = longest > MAX_LEN;
    if (s->chunks == 1 || s->rows_only)
        s->base = longest = 0;
    s->len_bits = width(longest - s->base);
    for (unsigned c = 0; c < h->n_comps; c++)
        s->dc_sum += s->dc_bits[c] = width((uint32_t)(max[c] - s->dc_min[c]));
}

static size_t points_size(const shape *s, uint32_t dc_step)
{
    uint64_t dcs = stk_jpeg_ceil(s->chunks, dc_step), rows = s->rows;
    size_t n = bytes_of(rows * s->row_bits) + bytes_of(rows * dcs * s->dc_sum);

    return s->rows_only ? n : n + bytes_of(rows * (s->chunks - 1) * s->len_bits);
}

static int is_standard(const stk_jpeg_head *h)
{
    stk_jpeg_huff t;

    for (unsigned c = 0; c < h->n_comps; c++) {
        unsigned dc = h->comp[c].dc, ac = h->comp[c].ac;

        if (dc > 1 || ac > 1)
            return 0;
        stk_jpeg_standard(&t, dc);
        if (memcmp(&t, &h->dc[dc], sizeof t))
            return 0;
        stk_jpeg_standard(&t, 2 + ac);
        if (memcmp(&t, &h->ac[ac], sizeof t))
            return 0;
    }
    return 1;
}

/* Which of tables 0..3 the components name, as bits: quantizers, DC, AC. */
static void used(const stk_jpeg_head *h, unsigned set[3])
{
    set[0] = set[1] = set[2] = 0;
    for (unsigned c = 0; c < h->n_comps; c++) {
        set[0] |= 1u << h->comp[c].quant;
        set[1] |= 1u << h->comp[c].dc;
        set[2] |= 1u << h->comp[c].ac;
    }
}

static int is_wide(const stk_jpeg_head *h)
{
    for (unsigned c = 0; c < h->n_comps; c++)
        for (int i = 0; i < 64; i++)
            if (h->quant[h->comp[c].quant][i] > 255)
                return 1;
    return 0;
}

static void put_tables(writer *w, const stk_jpeg_head *h, unsigned flags)
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;
    unsigned set[3];

    used(h, set);
    for (unsigned t = 0; t < 4; t++)
        for (unsigned i = 0; set[0] >> t & 1 && i < 64; i++)
            put_le(w, h->quant[t][natural[i]], flags & WIDE_QUANT ? 2 : 1);
    for (unsigned kind = 1; !(flags & STANDARD) && kind < 3; kind++)
        for (unsigned t = 0; t < 4; t++) {
            const stk_jpeg_huff *k = kind == 1 ? &h->dc[t] : &h->ac[t];

            if (!(set[kind] >> t & 1))
                continue;
            memcpy(w->p, k->bits, 16);
            memcpy(w->p + 16, k->vals, k->n);
            w->p += 16 + k->n;
        }
}

static void put_head(writer *w, const stk_jpeg_head *h, const shape *s, unsigned flags,
                     const uint32_t file[2], unsigned turn)
{
    put_byte(w, 'J');
    put_byte(w, VERSION);
    put_byte(w, flags);
    put_byte(w, h->n_comps);
    put_le(w, h->width, 2);
    put_le(w, h->height, 2);
    put_le(w, h->restart, 2);
    put_le(w, h->scan, 4);
    put_le(w, file[0], 4);
    put_le(w, file[1], 4);
    put_byte(w, stk_jpeg_chunk(h));
    put_le(w, s->dc_step, 2);
    put_le(w, s->base, 2);
    put_byte(w, s->row_bits);
    put_byte(w, s->len_bits);
    for (unsigned c = 0; c < STK_JPEG_COMPS; c++) {
        const stk_jpeg_comp *k = &h->comp[c];

        put_byte(w, k->h | (uint32_t)k->v << 4);
        put_byte(w, k->quant | (uint32_t)k->dc << 2 | (uint32_t)k->ac << 4);
        put_byte(w, s->dc_bits[c]);
        put_le(w, (uint32_t)s->dc_min[c], 2);
    }
    put_byte(w, turn);
}

size_t stk_jpeg_seek_room(const stk_jpeg_head *h)
{
    size_t n = (size_t)stk_jpeg_mcus_y(h) * stk_jpeg_ceil(stk_jpeg_mcus_x(h), stk_jpeg_chunk(h));

    return FIXED + 1 + 3 * 128 + 6 * 272 + n * (2 + 2 * STK_JPEG_COMPS) +
           (size_t)stk_jpeg_mcus_y(h) * (4 + SUM) + SUM + 64;
}

static void put_points(writer *w, const stk_jpeg_head *h, const shape *s, const stk_jpeg_point *p)
{
    for (uint32_t r = 0; r < s->rows; r++)
        put_bits(w, p[(size_t)r * s->chunks].at, s->row_bits);
    put_end(w);
    for (uint32_t r = 0; r < s->rows && !s->rows_only; r++) {
        const stk_jpeg_point *q = p + (size_t)r * s->chunks;

        for (uint32_t i = 0; i + 1 < s->chunks; i++)
            put_bits(w, q[i + 1].at - q[i].at - s->base, s->len_bits);
    }
    put_end(w);
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t i = 0; i < s->chunks; i += s->dc_step)
            for (unsigned c = 0; c < h->n_comps; c++)
                put_bits(w, (uint32_t)(p[(size_t)r * s->chunks + i].dc[c] - s->dc_min[c]),
                         s->dc_bits[c]);
    put_end(w);
}

/* Sums of `scan`, which ends before its end marker. */
static void put_sums(writer *w, const shape *s, const stk_jpeg_point *p, stk_bytes scan)
{
    for (uint32_t r = 0; r < s->rows; r++) {
        size_t from = p[(size_t)r * s->chunks].at / 8, to = scan.len;

        if (r + 1 < s->rows)
            to = bytes_of(p[(size_t)(r + 1) * s->chunks].at);
        put_le(w, stk_crc32c(0, scan.data + from, to - from), SUM);
    }
}

/* As many of the points as `limit` bytes hold: DC values of fewer chunks, or rows only.  Where not
 * even those fit, all: whether to keep them is not decided here. */
static void thin(shape *s, size_t fixed, size_t limit)
{
    shape rows = *s;

    rows.rows_only = 1;
    rows.base = rows.len_bits = 0;
    rows.dc_step = s->chunks;
    for (s->dc_step = s->rows_only ? s->chunks : 1; s->dc_step < s->chunks; s->dc_step++)
        if (fixed + points_size(s, s->dc_step) <= limit)
            return;
    if (fixed + points_size(s, s->dc_step) > limit &&
        fixed + points_size(&rows, rows.dc_step) <= limit)
        *s = rows;
}

static size_t pack(uint8_t *to, const stk_jpeg_head *h, stk_bytes in, size_t scan_end,
                   const stk_jpeg_point *points, unsigned sums)
{
    uint32_t file[2] = { (uint32_t)(scan_end - h->scan), stk_crc32c(0, in.data, scan_end) };
    unsigned flags = (is_standard(h) ? STANDARD : 0) | (is_wide(h) ? WIDE_QUANT : 0) | sums;
    writer w = { .p = to };
    shape s;

    measure(&s, h, points);
    put_tables(&w, h, flags);
    thin(&s, FIXED + 1 + (size_t)(w.p - to) + (flags & SUMS ? ((size_t)s.rows + 1) * SUM : 0),
         in.len * SHARE / 1000);
    flags |= s.rows_only ? ROWS_ONLY : 0;
    w.p = to;
    put_head(&w, h, &s, flags, file, stk_exif_turn(in));
    put_tables(&w, h, flags);
    put_points(&w, h, &s, points);
    if (flags & SUMS) {
        put_sums(&w, &s, points, (stk_bytes){ in.data + h->scan, file[0] });
        put_le(&w, stk_crc32c(0, to, (size_t)(w.p - to)), SUM);
    }
    return (size_t)(w.p - to);
}

int stk_jpeg_seek_pays(stk_bytes packed, stk_bytes in)
{
    return packed.len + RECORD <= in.len * MOST / 1000;
}

/* Sums are left out where points with them would take too much. */
size_t stk_jpeg_seek_pack(uint8_t *to, const stk_jpeg_head *h, stk_bytes in, size_t scan_end,
                          const stk_jpeg_point *points)
{
    size_t len = pack(to, h, in, scan_end, points, in.len >= SMALL ? SUMS : 0);

    if (in.len >= SMALL && !stk_jpeg_seek_pays((stk_bytes){ to, len }, in))
        len = pack(to, h, in, scan_end, points, 0);
    return len;
}

/* ---- taking apart ---- */

typedef struct packed {
    const uint8_t *p, *end;
    int bad;
} packed;

static uint32_t take(packed *r, unsigned bytes)
{
    uint32_t v = 0;

    if ((size_t)(r->end - r->p) < bytes) {
        r->bad = 1;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint32_t)*r->p++ << 8 * i;
    return v;
}

static stk_bytes take_bits(packed *r, uint64_t bits)
{
    stk_bytes b = { r->p, bytes_of(bits) };

    if (bits / 8 > (uint64_t)(r->end - r->p) || b.len > (size_t)(r->end - r->p)) {
        r->bad = 1;
        b.len = 0;
    }
    r->p += b.len;
    return b;
}

static void take_tables(packed *r, stk_jpeg_head *h, unsigned flags)
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;
    unsigned set[3];

    used(h, set);
    for (unsigned t = 0; t < 4; t++)
        for (unsigned i = 0; set[0] >> t & 1 && i < 64; i++)
            h->quant[t][natural[i]] = (uint16_t)take(r, flags & WIDE_QUANT ? 2 : 1);
    for (unsigned kind = 1; kind < 3; kind++)
        for (unsigned t = 0; t < 4; t++) {
            stk_jpeg_huff *k = kind == 1 ? &h->dc[t] : &h->ac[t];
            unsigned n = 0;

            if (!(set[kind] >> t & 1))
                continue;
            if (flags & STANDARD) {
                stk_jpeg_standard(k, (kind - 1) * 2 + (t & 1));
                continue;
            }
            for (unsigned i = 0; i < 16; i++)
                n += k->bits[i] = (uint8_t)take(r, 1);
            for (unsigned i = 0; i < n && n <= 256; i++)
                k->vals[i] = (uint8_t)take(r, 1);
            k->n = (uint16_t)n;
        }
}

static unsigned take_head(packed *r, unsigned version, stk_jpeg_seek *s, stk_jpeg_head *h)
{
    unsigned flags, tables;

    flags = take(r, 1);
    h->n_comps = s->n_comps = (uint8_t)take(r, 1);
    h->width = take(r, 2);
    h->height = take(r, 2);
    h->restart = take(r, 2);
    h->scan = take(r, 4);
    s->scan_len = take(r, 4);
    s->crc = take(r, 4);
    s->chunk = take(r, 1);
    s->dc_step = take(r, 2);
    s->base = take(r, 2);
    s->row_bits = (uint8_t)take(r, 1);
    s->len_bits = (uint8_t)take(r, 1);
    for (unsigned c = 0; c < STK_JPEG_COMPS; c++) {
        unsigned factors = take(r, 1);

        tables = take(r, 1);
        h->comp[c] = (stk_jpeg_comp){ .h = factors & 15,
                                      .v = (uint8_t)(factors >> 4),
                                      .quant = tables & 3,
                                      .dc = tables >> 2 & 3,
                                      .ac = tables >> 4 & 3 };
        s->dc_bits[c] = (uint8_t)take(r, 1);
        s->dc_min[c] = (int16_t)take(r, 2);
    }
    s->turn = version > 1 ? take(r, 1) : 0;
    return flags;
}

static int broken(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "JPEG seek points are damaged: index again");
}

int stk_jpeg_seek_open(stk_jpeg_seek *s, stk_jpeg_head *h, stk_bytes in, stk_error *err)
{
    packed r = { in.data, in.data + in.len, 0 };
    unsigned flags, version;

    memset(s, 0, sizeof *s);
    memset(h, 0, sizeof *h);
    if (in.len < FIXED || take(&r, 1) != 'J')
        return broken(err);
    version = take(&r, 1);
    if (!version || version > VERSION)
        return broken(err);
    if (version > 1 && in.data[2] & SUMS) {
        r.end -= SUM;
        if (stk_crc32c(0, in.data, in.len - SUM) != le32(r.end))
            return broken(err);
    }
    flags = take_head(&r, version, s, h);
    if ((h->n_comps != 1 && h->n_comps != 3) || s->turn > 8 || (version > 1 && !s->turn))
        return broken(err);
    take_tables(&r, h, flags);
    if (r.bad || stk_jpeg_head_check(h, NULL) < 0)
        return broken(err);
    s->rows = stk_jpeg_mcus_y(h);
    s->cols = stk_jpeg_mcus_x(h);
    s->rows_only = flags & ROWS_ONLY ? 1 : 0;
    if (!s->chunk || s->chunk % 4 || s->chunk * stk_jpeg_mcu_blocks(h) > STK_JPEG_CHUNK_BLOCKS ||
        !s->dc_step || s->row_bits > 32 || s->len_bits > 16 || h->scan > UINT32_MAX / 8)
        return broken(err);
    for (unsigned c = 0; c < h->n_comps; c++) {
        if (s->dc_bits[c] > 16)
            return broken(err);
        s->dc_sum += s->dc_bits[c];
    }
    s->chunks = stk_jpeg_ceil(s->cols, s->chunk);
    s->dcs = stk_jpeg_ceil(s->chunks, s->dc_step);
    s->row = take_bits(&r, (uint64_t)s->rows * s->row_bits);
    s->len = take_bits(&r, s->rows_only ? 0 : (uint64_t)s->rows * (s->chunks - 1) * s->len_bits);
    s->dc = take_bits(&r, (uint64_t)s->rows * s->dcs * s->dc_sum);
    if (version > 1 && flags & SUMS)
        s->sum = take_bits(&r, (uint64_t)s->rows * SUM * 8);
    return r.bad || r.p != r.end ? broken(err) : 0;
}

int stk_jpeg_seek_check(const stk_jpeg_seek *s, const stk_jpeg_head *h, stk_bytes in,
                        stk_error *err)
{
    if (in.len < h->scan || s->scan_len > in.len - h->scan ||
        stk_crc32c(0, in.data, (size_t)h->scan + s->scan_len) != s->crc)
        return stk_fail(err, STK_ESTALE, "JPEG changed since its seek points were made");
    return 0;
}
