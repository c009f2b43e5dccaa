/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_loop.h - the loops over Huffman symbols of our JPEG decoder, compiled once for each CPU
 * level by jpeg_loop*.c.  jpeg_scan.c calls them.
 *
 * A refill gives 56 bits, enough for five lookups of 11, so no test for bits is needed in between.
 * One comparison per symbol finds whatever is not an ordinary coefficient.  State is copied into
 * local variables whose address is never taken, so that it stays in registers; the rare calls of
 * other functions get copies. */
#include "codec/jpeg_scan.h"

#define INLINE static inline __attribute__((always_inline))
#define COLD static __attribute__((noinline))
#define RARE(x) __builtin_expect(!!(x), 0)

_Static_assert(5 * STK_JPEG_AC_BITS <= 56, "a refill must last for five lookups");

/* Zigzag to the place in a group (jpeg_idct.h). */
#define AT(n) (n) / 8 * 32 + (n) % 8
#define AT8(a, b, c, d, e, f, g, h) AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h)
static const uint8_t group_at[64] = {
    AT8(0, 1, 8, 16, 9, 2, 3, 10),       AT8(17, 24, 32, 25, 18, 11, 4, 5),
    AT8(12, 19, 26, 33, 40, 48, 41, 34), AT8(27, 20, 13, 6, 7, 14, 21, 28),
    AT8(35, 42, 49, 56, 57, 50, 43, 36), AT8(29, 22, 15, 23, 30, 37, 44, 51),
    AT8(58, 59, 52, 45, 38, 31, 39, 46), AT8(53, 60, 61, 54, 47, 55, 62, 63),
};

COLD void refill_slow(stk_jpeg_bits *b)
{
    stk_jpeg_refill_slow(b);
}

INLINE void refill(stk_jpeg_bits *b)
{
    uint32_t n = b->n & 255;

    if (RARE(b->p > b->ok)) {
        stk_jpeg_bits t = *b;

        refill_slow(&t);
        *b = t;
        return;
    }
    b->buf |= stk_jpeg_be64(b->p) >> n;
    b->p += (63 - n) >> 3;
    b->n = n | 56;
}

/* One symbol; 1: r->e is not an ordinary coefficient, or it is the block's last. */
INLINE int step(stk_jpeg_regs *r)
{
    uint32_t e = r->ac[r->b.buf >> (64 - STK_JPEG_AC_BITS)];

    r->b.buf <<= e & 63;
    r->b.n -= e;
    r->k += e >> 8 & 255;
    if (RARE(r->k >= 63)) {
        __asm__("" : "+r"(e)); /* else what special() asks for is computed for every symbol */
        r->e = e;
        return 1;
    }
    r->block[group_at[r->k]] = (int16_t)(e >> 16);
    return 0;
}

/* The value bits after a code that was taken already. */
INLINE int32_t value_bits(stk_jpeg_bits *b, uint32_t size)
{
    int64_t t = (int64_t)b->buf;
    uint64_t minus = ~(uint64_t)(t >> 63);
    uint32_t v = (uint32_t)((b->buf ^ minus) >> (64 - size));

    b->buf <<= size;
    b->n -= size;
    return (int32_t)((v ^ (uint32_t)minus) - (uint32_t)minus);
}

/* A DC code that the lookup does not hold: its symbol, or -1. */
COLD int long_dc(stk_jpeg_scan *d, const stk_jpeg_op *op, uint64_t buf)
{
    const stk_jpeg_lut *t = &d->dc[op->comp];

    return stk_jpeg_long_code(t->more, t->vals, buf);
}

/* Decodes the DC value of the current block. */
INLINE int begin_block(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_regs *r)
{
    const stk_jpeg_op *op = r->op;
    int32_t *pred = &s->pred[op->comp], diff;
    uint32_t e;

    r->block = s->coef + op->at;
    r->ac = op->ac;
    r->k = 0;
    refill(&r->b);
    e = op->dc[r->b.buf >> (64 - STK_JPEG_DC_BITS)];
    r->b.buf <<= e & 63;
    r->b.n -= e;
    diff = (int16_t)(e >> 16);
    if (RARE(e & 0xC000)) {
        uint32_t size = e >> 16;

        if (RARE(e >> 8 & 1)) {
            int code = long_dc(d, op, r->b.buf);

            if (code < 0)
                return STK_ECORRUPT;
            size = (uint32_t)code & 255;
            r->b.buf <<= code >> 8;
            r->b.n -= (uint32_t)code >> 8;
        }
        diff = size ? value_bits(&r->b, size) : 0;
    }
    *pred = (int32_t)((uint32_t)*pred + (uint32_t)diff);
    r->block[0] = (int16_t)*pred;
    return 1;
}

/* An AC code that the lookup does not hold: its symbol, or -1. */
COLD int long_ac(stk_jpeg_scan *d, const stk_jpeg_op *op, uint64_t buf)
{
    const stk_jpeg_lut *t = &d->ac[op->comp];

    return stk_jpeg_long_code(t->more, t->vals, buf);
}

/* One AC symbol without its value; 1: go on, 0: the block is done, negative: damage. */
INLINE int skip_one(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_regs *r)
{
    uint32_t e = r->op->ac[r->b.buf >> (64 - STK_JPEG_AC_BITS)], what = e >> 8 & 255, symbol;

    r->b.buf <<= e & 63;
    r->b.n -= e;
    if (what == STK_JPEG_STEP_EOB)
        return 0;
    if (what >= 64) {
        int code = (int)(e >> 16);

        if (what == STK_JPEG_STEP_LONG)
            code = long_ac(d, r->op, r->b.buf);
        if (code < 0)
            return STK_ECORRUPT;
        symbol = (uint32_t)code & 255;
        code = (code >> 8) + (code & 15);
        r->b.buf <<= code;
        r->b.n -= (uint32_t)code;
        if (!(symbol & 15) && symbol != 0xF0)
            return 0;
        what = (symbol >> 4) + 1;
    }
    r->k += what;
    return r->k < 63 ? 1 : r->k == 63 ? 0 : STK_ECORRUPT;
}

/* The AC symbols of a block, several at a time.  Where the block would end among them they are
 * taken one by one. */
INLINE int skip_block(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_regs *r)
{
    const uint16_t *skip = r->op->skip;
    int rc = 1;

    while (rc > 0) {
        refill(&r->b);
        for (int i = 0; i < 3; i++) {
            uint32_t e = skip[r->b.buf >> (64 - STK_JPEG_AC_BITS)], k = r->k + (e >> 8);

            if (RARE(k >= 63)) {
                if (k >= STK_JPEG_STEP_EOB && k - STK_JPEG_STEP_EOB < 63) {
                    r->b.buf <<= e & 63;
                    r->b.n -= e;
                    return 1;
                }
                refill(&r->b);
                rc = skip_one(d, s, r);
                break;
            }
            r->b.buf <<= e & 63;
            r->b.n -= e;
            r->k = k;
        }
    }
    return rc < 0 ? rc : 1;
}

/* Skips runs that are not wanted.  s->r is at the start of a run, and then of one that is
 * wanted. */
COLD int skip_runs(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    int rc = 1;

    while (rc > 0 && s->skip) {
        stk_jpeg_regs r = s->r;

        for (; r.op < s->stop; r.op++)
            if (begin_block(d, s, &r) < 0 || skip_block(d, s, &r) < 0)
                return STK_ECORRUPT;
        s->r = r;
        rc = stk_jpeg_scan_next(d, s);
    }
    return rc;
}

/* Handles a symbol that step() left.  1: go on; 0: nothing is left; negative: an error. */
INLINE int special(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_regs *r)
{
    uint32_t what = r->e >> 8 & 255;

    if (what == STK_JPEG_STEP_EOB) {
        r->k -= STK_JPEG_STEP_EOB;
    } else if (what < 64) {
        if (r->k != 63)
            return STK_ECORRUPT;
        r->block[group_at[63]] = (int16_t)(r->e >> 16);
    } else {
        uint32_t symbol = r->e >> 16;

        r->k -= what;
        refill(&r->b);
        if (RARE(what == STK_JPEG_STEP_LONG)) {
            int code = long_ac(d, r->op, r->b.buf);

            if (code < 0)
                return STK_ECORRUPT;
            symbol = (uint32_t)code & 255;
            r->b.buf <<= code >> 8;
            r->b.n -= (uint32_t)code >> 8;
        }
        if (symbol & 15 || symbol == 0xF0) {
            r->k += (symbol >> 4) + 1;
            if (r->k > 63)
                return STK_ECORRUPT;
            r->block[group_at[r->k]] = (int16_t)(symbol & 15 ? value_bits(&r->b, symbol & 15) : 0);
            if (r->k < 63)
                return 1;
        }
    }
    s->last[r->op->slot] = (uint8_t)r->k;
    if (RARE(++r->op == s->stop)) {
        int rc;

        s->r = *r;
        rc = stk_jpeg_scan_next(d, s);
        if (rc > 0 && s->skip)
            rc = skip_runs(d, s);
        if (rc <= 0)
            return rc;
        *r = s->r;
    }
    return begin_block(d, s, r);
}

static int begin(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    int rc = s->skip ? skip_runs(d, s) : 1;
    stk_jpeg_regs r = s->r;

    if (rc <= 0)
        return rc;
    rc = begin_block(d, s, &r);
    s->r = r;
    return rc;
}

static int run_one(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    stk_jpeg_regs r = s->r;
    int rc;

    do {
        do
            refill(&r.b);
        while (!(step(&r) || step(&r) || step(&r) || step(&r) || step(&r)));
        rc = special(d, s, &r);
    } while (rc > 0);
    return rc;
}

/* After a special symbol of one stream the other one comes first. */
static int run_two(stk_jpeg_scan *d, stk_jpeg_stream *s, stk_jpeg_stream *t)
{
    stk_jpeg_regs a = s->r, b = t->r;
    int rc;

    for (;;) {
        refill(&a.b);
        refill(&b.b);
        if (step(&a))
            goto of_a;
with_b:
        if (step(&b))
            goto of_b;
        if (step(&a))
            goto of_a;
        if (step(&b))
            goto of_b;
        if (step(&a))
            goto of_a;
        if (step(&b))
            goto of_b;
        if (step(&a))
            goto of_a;
        if (step(&b))
            goto of_b;
        if (step(&a))
            goto of_a;
        if (step(&b))
            goto of_b;
        continue;
of_a:
        rc = special(d, s, &a);
        if (rc <= 0) {
            t->r = b;
            return rc;
        }
        refill(&a.b);
        refill(&b.b);
        goto with_b;
of_b:
        rc = special(d, t, &b);
        if (rc <= 0) {
            s->r = a;
            return rc < 0 ? rc : 1;
        }
    }
}
