/* SPDX-License-Identifier: Apache-2.0 */
/* flac_frame.c - one frame of FLAC, as RFC 9639 has it: all kinds of subframes, 4 to 32 bits.
 *
 * Residuals are decoded into the place of their samples, and the predictor runs over them.  It runs
 * in 32 bits where the sums fit, else in 64.  Sums of damaged frames wrap around (unsigned), and
 * their checksum refuses them.  Only the side channel of 32-bit streams has 33 bits: it has a
 * slow way of its own. */
#include "codec/flac_frame.h"

#include <config.h>

#include <string.h>

#include "base/cpu.h"
#include "codec/flac_bits.h"

#define ORDER 32 /* of a predictor, at most */

/* ---- checksums ---- */

void stk_flac_init(stk_flac *f)
{
    memset(f, 0, sizeof *f);
    f->rice = stk_flac_rice_c;
#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX2)
        f->rice = stk_flac_rice_bmi2;
#endif
    for (unsigned i = 0; i < 256; i++) {
        unsigned a = i, b = i << 8;

        for (int k = 0; k < 8; k++) {
            a = a & 0x80 ? (a << 1 ^ 0x07) & 0xFF : a << 1;
            b = b & 0x8000 ? (b << 1 ^ 0x8005) & 0xFFFF : b << 1;
        }
        f->crc8[i] = (uint8_t)a;
        f->crc16[0][i] = (uint16_t)b;
    }
    for (unsigned t = 1; t < 8; t++)
        for (unsigned i = 0; i < 256; i++) {
            uint16_t c = f->crc16[t - 1][i];

            f->crc16[t][i] = (uint16_t)((c << 8) ^ f->crc16[0][c >> 8]);
        }
}

void stk_flac_fini(stk_flac *f)
{
    stk_free(f->values);
    stk_free(f->floats);
    stk_free(f->wide);
    memset(f, 0, sizeof *f);
}

uint16_t stk_flac_crc(const stk_flac *f, stk_bytes in)
{
    const uint8_t *p = in.data, *end = in.data + in.len;
    uint16_t c = 0;

    for (; end - p >= 8; p += 8)
        c = f->crc16[7][p[0] ^ (c >> 8)] ^ f->crc16[6][p[1] ^ (c & 0xFF)] ^ f->crc16[5][p[2]] ^
            f->crc16[4][p[3]] ^ f->crc16[3][p[4]] ^ f->crc16[2][p[5]] ^ f->crc16[1][p[6]] ^
            f->crc16[0][p[7]];
    for (; p < end; p++)
        c = (uint16_t)(c << 8) ^ f->crc16[0][(c >> 8) ^ *p];
    return c;
}

/* ---- headers ---- */

int stk_flac_stream_read(stk_flac_stream *s, const uint8_t *p, stk_error *err)
{
    *s = (stk_flac_stream){ .min_block = (uint32_t)p[0] << 8 | p[1],
                            .max_block = (uint32_t)p[2] << 8 | p[3],
                            .min_frame = (uint32_t)p[4] << 16 | (uint32_t)p[5] << 8 | p[6],
                            .max_frame = (uint32_t)p[7] << 16 | (uint32_t)p[8] << 8 | p[9],
                            .rate = (uint32_t)p[10] << 12 | (uint32_t)p[11] << 4 | p[12] >> 4,
                            .channels = (p[12] >> 1 & 7u) + 1,
                            .bits = ((p[12] & 1u) << 4 | p[13] >> 4) + 1,
                            .units = (uint64_t)(p[13] & 15) << 32 | (uint64_t)p[14] << 24 |
                                     (uint64_t)p[15] << 16 | (uint64_t)p[16] << 8 | p[17] };
    if (s->bits < 4 || s->max_block < 16 || s->min_block > s->max_block || !s->rate)
        return stk_fail(err, STK_ECORRUPT,
                        "FLAC: its header has %u bits, blocks of %u to %u samples, a rate of %u",
                        s->bits, s->min_block, s->max_block, s->rate);
    return 0;
}

/* A number as UTF-8 writes it, of up to 36 bits.  How many bytes; 0: it is none. */
static uint32_t read_number(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    uint32_t more = 0, first;

    if (p >= end)
        return 0;
    first = *p;
    if (first < 0x80) {
        *out = first;
        return 1;
    }
    while (more < 7 && first & 0x40u >> more)
        more++;
    if (!more || more > 6 || end - p <= (ptrdiff_t)more)
        return 0;
    *out = first & (0x3Fu >> more);
    for (uint32_t i = 1; i <= more; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        *out = *out << 6 | (p[i] & 0x3F);
    }
    return more + 1;
}

/* By the code of a frame's header; `more`: the bytes that follow codes 12 and above. */
static uint32_t rate_of(uint32_t code, const uint8_t *more)
{
    static const uint32_t rates[12] = { 0,     88200, 176400, 192000, 8000,  16000,
                                        22050, 24000, 32000,  44100,  48000, 96000 };

    if (code < 12)
        return rates[code];
    if (code == 12)
        return more[0] * 1000u;
    return ((uint32_t)more[0] << 8 | more[1]) * (code == 14 ? 10 : 1);
}

/* The codes of block size, rate and bits that a frame of this stream has, or none. */
static int codes_fit(const stk_flac_stream *s, const uint8_t *p, const uint8_t **at,
                     const uint8_t *end, stk_flac_head *out)
{
    static const uint32_t depths[8] = { 0, 8, 12, 1, 16, 20, 24, 32 };
    uint32_t code = p[2] >> 4, rate = p[2] & 15, depth = depths[p[3] >> 1 & 7];
    uint32_t more = (code == 6) + 2 * (code == 7), of_rate = rate < 12 ? 0 : rate == 12 ? 1 : 2;

    if (!code || rate == 15 || depth == 1 || (depth && depth != s->bits) || p[3] & 1 ||
        end - *at < (ptrdiff_t)(more + of_rate))
        return 0;
    if (code == 1)
        out->block = 192;
    else if (code < 6)
        out->block = 576u << (code - 2);
    else if (code == 6)
        out->block = (*at)[0] + 1u;
    else if (code == 7)
        out->block = ((uint32_t)(*at)[0] << 8 | (*at)[1]) + 1;
    else
        out->block = 256u << (code - 8);
    out->rate = rate_of(rate, *at + more);
    *at += more + of_rate;
    return out->block <= s->max_block;
}

int stk_flac_head_read(const stk_flac *f, const stk_flac_stream *s, stk_bytes in,
                       stk_flac_head *out)
{
    const uint8_t *p = in.data, *at = p + 4, *end = p + in.len;
    uint64_t number = 0;
    uint32_t n;
    uint8_t crc = 0;

    if (in.len < 6 || p[0] != 0xFF || (p[1] & 0xFE) != 0xF8 ||
        (n = read_number(at, end, &number)) == 0)
        return 0;
    at += n;
    out->assignment = p[3] >> 4;
    if (out->assignment > 10 || (out->assignment < 8 ? out->assignment + 1 : 2) != s->channels ||
        !codes_fit(s, p, &at, end, out) || at >= end)
        return 0;
    for (const uint8_t *q = p; q < at; q++)
        crc = f->crc8[crc ^ *q];
    if (crc != *at)
        return 0;
    out->first = p[1] & 1 ? number : number * s->max_block;
    out->size = (uint32_t)(at + 1 - p);
    return 1;
}

int stk_flac_check_rate(const stk_flac_stream *s, const stk_flac_head *head, stk_error *err)
{
    if (!head->rate || head->rate == s->rate)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "FLAC: its header says %u samples per second, the frame of sample %" PRIu64
                    " says %u",
                    s->rate, head->first, head->rate);
}

/* ---- bits ---- */

static int64_t take_signed(bits *b, uint32_t k) /* at most 33 */
{
    uint64_t high = k > 32 ? take(b, k - 32) : 0, v = high << 32 | take(b, k > 32 ? 32 : k);

    return k ? (int64_t)(v << (64 - k)) >> (64 - k) : 0;
}

/* ---- residuals ---- */

static int residuals(bits *b, stk_flac_rice_fn *rice, int32_t *out, uint32_t block, uint32_t order)
{
    uint32_t method = take(b, 2), partitions = take(b, 4), width = method ? 5 : 4;
    uint32_t each = block >> partitions, escape = (1u << width) - 1;

    if (method > 1 || each << partitions != block || each < order)
        return 0;
    for (uint32_t p = 0; p < 1u << partitions && !b->over; p++) {
        uint32_t k = take(b, width), n = p ? each : each - order;

        if (k == escape) {
            uint32_t raw = take(b, 5);

            for (uint32_t i = 0; i < n && !b->over; i++)
                out[i] = (int32_t)take_signed(b, raw);
        } else {
            rice(b, out, n, k);
        }
        out += n;
    }
    return !b->over;
}

/* ---- predictors ---- */

typedef struct predictor {
    uint32_t order, shift;
    int32_t c[ORDER]; /* of the last sample, the one before it, ... */
} predictor;

/* The product with the last sample is apart: it alone is waited for. */
#define LPC(name, sum_type)                                                                        \
    static inline __attribute__((always_inline)) void name(int32_t *s, uint32_t n,                 \
                                                           const predictor *p, uint32_t order)     \
    {                                                                                              \
        sum_type last = (sum_type)s[-1], c0 = (sum_type)p->c[0];                                   \
                                                                                                   \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            sum_type sum = 0;                                                                      \
                                                                                                   \
            for (uint32_t j = order - 1; j >= 1; j--)                                              \
                sum += (sum_type)p->c[j] * (sum_type)s[(ptrdiff_t)i - 1 - (ptrdiff_t)j];           \
            sum += c0 * last;                                                                      \
            s[i] = (int32_t)((uint32_t)s[i] + (uint32_t)((name##_signed)sum >> p->shift));         \
            last = (sum_type)s[i];                                                                 \
        }                                                                                          \
    }
typedef int32_t lpc32_signed;
typedef int64_t lpc64_signed;
LPC(lpc32, uint32_t)
LPC(lpc64, int64_t)

static void predict(int32_t *s, uint32_t n, const predictor *p, int narrow)
{
    if (!narrow) {
        lpc64(s, n, p, p->order);
        return;
    }
#define CASE(k)                                                                                    \
    case k: lpc32(s, n, p, k); break
    switch (p->order) { /* a constant: the loop over coefficients has no branch left */
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
        CASE(12);
    default: lpc32(s, n, p, p->order);
    }
#undef CASE
}

static void predict_wide(int64_t *s, uint32_t n, const predictor *p)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sum = 0;

        for (uint32_t j = 0; j < p->order; j++)
            sum += (uint64_t)p->c[j] * (uint64_t)s[(ptrdiff_t)i - 1 - (ptrdiff_t)j];
        s[i] = (int64_t)((uint64_t)s[i] + (uint64_t)((int64_t)sum >> p->shift));
    }
}

/* ---- subframes ---- */

typedef struct subframe {
    uint32_t block, depth; /* depth: bits of a sample, without wasted ones */
    int32_t *out;
    int64_t *wide; /* not NULL: 33 bits, and the samples are here */
    stk_flac_rice_fn *rice;
} subframe;

static void put(const subframe *s, uint32_t i, int64_t v)
{
    if (s->wide)
        s->wide[i] = v;
    else
        s->out[i] = (int32_t)v;
}

static int read_predictor(bits *b, predictor *p, uint32_t type)
{
    static const int32_t fixed[5][4] = { { 0 }, { 1 }, { 2, -1 }, { 3, -3, 1 }, { 4, -6, 4, -1 } };
    uint32_t precision;

    p->shift = 0;
    if (type < 16) {
        p->order = type & 7;
        if (p->order > 4)
            return 0;
        memcpy(p->c, fixed[p->order], sizeof fixed[0]);
        return 1;
    }
    p->order = (type & 31) + 1;
    precision = take(b, 4) + 1;
    p->shift = take(b, 5);
    if (precision == 16 || p->shift > 15) /* a negative shift is forbidden */
        return 0;
    for (uint32_t i = 0; i < p->order; i++)
        p->c[i] = (int32_t)take_signed(b, precision);
    return 1;
}

/* Do sums of the products fit 32 bits? */
static int is_narrow(const predictor *p, uint32_t depth)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->order; i++)
        sum += (uint64_t)(p->c[i] < 0 ? -(int64_t)p->c[i] : p->c[i]);
    return depth <= 32 && sum << (depth - 1) <= INT32_MAX;
}

static int read_predicted(bits *b, const subframe *s, uint32_t type)
{
    predictor p = { .order = type < 16 ? type & 7 : (type & 31) + 1 };

    if (p.order > s->block)
        return 0;
    for (uint32_t i = 0; i < p.order; i++)
        put(s, i, take_signed(b, s->depth));
    if (!read_predictor(b, &p, type) || !residuals(b, s->rice, s->out + p.order, s->block, p.order))
        return 0;
    if (s->wide) {
        for (uint32_t i = p.order; i < s->block; i++)
            s->wide[i] = s->out[i];
        predict_wide(s->wide + p.order, s->block - p.order, &p);
    } else if (p.order) {
        predict(s->out + p.order, s->block - p.order, &p, is_narrow(&p, s->depth));
    }
    return 1;
}

/* 1, or 0: damaged. */
static int read_subframe(bits *b, subframe *s)
{
    uint32_t head = take(b, 8), type = head >> 1 & 63, wasted = 0;
    int good = 1;

    if (head & 0x80)
        return 0;
    if (head & 1)
        wasted = take_unary(b) + 1;
    if (wasted >= s->depth)
        return 0;
    s->depth -= wasted;
    if (type == 0) {
        int64_t v = take_signed(b, s->depth);

        for (uint32_t i = 0; i < s->block; i++)
            put(s, i, v);
    } else if (type == 1) {
        for (uint32_t i = 0; i < s->block && !b->over; i++)
            put(s, i, take_signed(b, s->depth));
    } else if ((type >= 8 && type <= 12) || type >= 32) {
        good = read_predicted(b, s, type);
    } else {
        return 0;
    }
    for (uint32_t i = 0; wasted && i < s->block; i++) {
        if (s->wide)
            s->wide[i] = (int64_t)((uint64_t)s->wide[i] << wasted);
        else
            s->out[i] = (int32_t)((uint32_t)s->out[i] << wasted);
    }
    return good && !b->over;
}

/* ---- channels ---- */

static void add_stereo(const stk_flac *f, const stk_flac_head *h)
{
    int32_t *a = f->values, *b = f->values + f->room;

    for (uint32_t i = 0; h->assignment == 8 && i < h->block; i++)
        b[i] = (int32_t)((uint32_t)a[i] - (uint32_t)b[i]);
    for (uint32_t i = 0; h->assignment == 9 && i < h->block; i++)
        a[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
    for (uint32_t i = 0; h->assignment == 10 && i < h->block; i++) {
        uint32_t side = (uint32_t)b[i], mid = (uint32_t)a[i] << 1 | (side & 1);

        a[i] = (int32_t)(mid + side) >> 1;
        b[i] = (int32_t)(mid - side) >> 1;
    }
}

static void add_stereo_wide(const stk_flac *f, const stk_flac_head *h)
{
    int32_t *a = f->values, *b = f->values + f->room;

    for (uint32_t i = 0; i < h->block; i++) {
        uint64_t side = (uint64_t)f->wide[i];

        if (h->assignment == 8) {
            b[i] = (int32_t)((uint64_t)a[i] - side);
        } else if (h->assignment == 9) {
            a[i] = (int32_t)((uint64_t)b[i] + side);
        } else {
            uint64_t mid = (uint64_t)a[i] << 1 | (side & 1);

            a[i] = (int32_t)((int64_t)(mid + side) >> 1);
            b[i] = (int32_t)((int64_t)(mid - side) >> 1);
        }
    }
}

static int make_room(stk_flac *f, const stk_flac_stream *s, int wide, stk_error *err)
{
    uint32_t room = (s->max_block + 15) & ~15u;
    size_t n = (size_t)room * s->channels;

    if (f->room != room || f->room_channels < s->channels) {
        stk_free(f->values);
        stk_free(f->floats);
        stk_free(f->wide);
        f->wide = NULL;
        f->room = f->room_channels = 0;
        f->values = stk_zalloc(n, sizeof *f->values);
        f->floats = stk_zalloc(n, sizeof *f->floats);
        if (!f->values || !f->floats)
            return stk_fail_nomem(err, n * sizeof *f->values);
        f->room = room;
        f->room_channels = s->channels;
    }
    if (wide && !f->wide)
        f->wide = stk_zalloc(room, sizeof *f->wide);
    return wide && !f->wide ? stk_fail_nomem(err, room * sizeof *f->wide) : 0;
}

static int damaged(const stk_flac_head *head, const char *how, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "FLAC: the frame at sample %" PRIu64 " %s", head->first,
                    how);
}

int stk_flac_decode(stk_flac *f, const stk_flac_stream *s, const stk_flac_head *head, stk_bytes in,
                    size_t *size, stk_error *err)
{
    bits b = { .p = in.data + head->size, .end = in.data + in.len };
    float scale = 1 / (float)((uint64_t)1 << (s->bits - 1));
    uint32_t side = head->assignment < 8 ? STK_FLAC_CHANNELS : head->assignment != 9;
    int wide = s->bits == 32 && side < STK_FLAC_CHANNELS;

    STK_TRY(make_room(f, s, wide, err));
    for (uint32_t c = 0; c < s->channels; c++) {
        subframe sub = { head->block, s->bits + (c == side), f->values + (size_t)c * f->room,
                         wide && c == side ? f->wide : NULL, f->rice };

        if (!read_subframe(&b, &sub))
            return damaged(head, b.over ? "is truncated" : "is damaged", err);
    }
    *size = (size_t)(b.p - in.data) - b.n / 8;
    if (in.len - *size < 2)
        return damaged(head, "is truncated", err);
    *size += 2;
    if (stk_flac_crc(f, (stk_bytes){ in.data, *size }))
        return damaged(head, "is damaged: its checksum is another", err);
    if (wide)
        add_stereo_wide(f, head);
    else
        add_stereo(f, head);
    for (uint32_t c = 0; c < s->channels; c++) {
        const int32_t *v = f->values + (size_t)c * f->room;

        f->channel[c] = f->floats + (size_t)c * f->room;
        for (uint32_t i = 0; i < head->block; i++)
            f->channel[c][i] = (float)v[i] * scale;
    }
    return 0;
}
