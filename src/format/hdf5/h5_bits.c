/* SPDX-License-Identifier: Apache-2.0 */
/* h5_bits.c - HDF5's filters that store numbers in fewer bits: nbit and scale-offset.
 *
 * Both write numbers one after another without gaps, the most significant bit of each first.  What
 * the numbers are is said by the filter's values, which come from the file: they are checked
 * against the size of the chunk before anything is written. */
#include <math.h>
#include <string.h>

#include "format/hdf5/h5_filters.h"

#define DEPTH 8u

typedef struct bits { /* past the end it gives zeros and is bad from then on */
    const uint8_t *p, *end;
    uint32_t have; /* bits of *p that were not taken */
    int bad;
} bits;

static bits bits_over(stk_bytes b)
{
    return (bits){ b.data, b.data + b.len, 8, 0 };
}

static uint64_t take(bits *b, uint32_t n) /* up to 64 */
{
    uint64_t v = 0;

    while (n) {
        uint32_t k = n < b->have ? n : b->have;

        if (b->p == b->end) {
            b->bad = 1;
            return 0;
        }
        v = v << k | (*b->p >> (b->have - k) & ((1u << k) - 1));
        b->have -= k;
        n -= k;
        if (!b->have) {
            b->p++;
            b->have = 8;
        }
    }
    return v;
}

static void put(uint8_t *dst, uint64_t v, uint32_t size, int big)
{
    for (uint32_t i = 0; i < size; i++, v >>= 8)
        dst[big ? size - 1 - i : i] = (uint8_t)v;
}

static uint64_t ones(uint32_t n) /* below 64 */
{
    return ((uint64_t)1 << n) - 1;
}

/* ---- nbit: a type as a list of numbers ---- */

typedef struct plan { /* what is left of the filter's values */
    const uint32_t *value;
    uint32_t n;
    int bad;
} plan;

static uint32_t next(plan *p)
{
    if (!p->n) {
        p->bad = 1;
        return 0;
    }
    p->n--;
    return *p->value++;
}

enum { ATOMIC = 1, ARRAY, COMPOUND, PLAIN }; /* classes of types */

/* The size of the type that comes next, which is passed over; 0: it is damaged. */
static uint32_t type_size(plan *p, uint32_t depth)
{
    uint32_t class = next(p), size = next(p), each, n;

    if (p->bad || depth > DEPTH)
        return 0;
    switch (class) {
    case ATOMIC: {
        uint32_t order = next(p), precision = next(p), offset = next(p);

        return size && size <= 8 && order < 2 && precision && precision <= 8 * size &&
                       offset <= 8 * size - precision
                   ? size
                   : 0;
    }
    case ARRAY: each = type_size(p, depth + 1); return each && size && size % each == 0 ? size : 0;
    case COMPOUND:
        n = next(p);
        for (uint32_t i = 0; i < n && !p->bad; i++) {
            uint32_t offset = next(p);

            each = type_size(p, depth + 1);
            if (!each || each > size || offset > size - each)
                return 0;
        }
        /* every type takes bits: the chunk's length bounds the work */
        return p->bad || !n ? 0 : size;
    case PLAIN: return size;
    default: return 0;
    }
}

/* One element of the type that comes next.  The type was checked. */
static void take_element(bits *b, plan *p, uint8_t *dst)
{
    uint32_t class = next(p), size = next(p), n, each;

    if (class == ATOMIC) {
        uint32_t order = next(p), precision = next(p), offset = next(p);

        put(dst, take(b, precision) << offset, size, order == 1);
    } else if (class == ARRAY) {
        plan sized = *p, again;

        each = type_size(&sized, 0);
        for (uint32_t i = 0; i < size && !b->bad; i += each) {
            again = *p;
            take_element(b, &again, dst + i);
        }
        *p = sized;
    } else if (class == COMPOUND) {
        n = next(p);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t offset = next(p);

            take_element(b, p, dst + offset);
        }
    } else
        for (uint32_t i = 0; i < size && !b->bad; i++)
            dst[i] = (uint8_t)take(b, 8);
}

int stk_unnbit(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    plan type = { f->value + 3, f->n > 3 ? f->n - 3 : 0, f->n < 5 }, checked = type;
    uint32_t size = f->n < 5 ? 0 : type_size(&checked, 0);
    bits b = bits_over(in);

    if (f->n > 1 && f->value[1]) { /* its writer saw that nothing is gained */
        if (in.len != len)
            return stk_fail(err, STK_ECORRUPT, "nbit: a chunk has %zu bytes instead of %zu", in.len,
                            len);
        memcpy(dst, in.data, len);
        return 0;
    }
    if (!size || len % size || f->value[2] != len / size)
        return stk_fail(err, STK_ECORRUPT, "nbit: its values do not fit the type and the chunk");
    memset(dst, 0, len); /* bits between numbers */
    for (size_t at = 0; at < len && !b.bad; at += size) {
        plan again = type;

        take_element(&b, &again, dst + at);
    }
    return b.bad ? stk_fail(err, STK_ECORRUPT, "nbit: a chunk is too short") : 0;
}

/* ---- scale-offset: differences to the least value; of floats in units of 10^-D ---- */

#define SCALE_HEAD 21u

typedef struct scaled {
    uint32_t size, width; /* bytes of a number, bits of what is stored of it */
    int big, is_float, has_fill;
    uint64_t least, fill;
    double unit; /* 10^D */
} scaled;

static int read_scaled(scaled *s, const stk_h5_filter *f, stk_bytes in, size_t len, stk_error *err)
{
    uint32_t least = in.len > 4 ? in.data[4] : 0;

    if (f->n < 8 || in.len < SCALE_HEAD || !f->value[4] || len % f->value[4] ||
        f->value[2] != len / f->value[4])
        return stk_fail(err, STK_ECORRUPT,
                        "scale-offset: a chunk or its values do not fit the type");
    *s = (scaled){ .size = f->value[4],
                   .big = f->value[6] == 1,
                   .is_float = f->value[3] == 1,
                   .has_fill = f->value[7] == 1 };
    if (s->is_float && f->value[0] != 0)
        return stk_fail(
            err, STK_ENOTSUP,
            "scale-offset: floats are packed in a way that no library reads: repack them");
    if (s->size > 8 || (s->size & (s->size - 1)) || f->value[3] > 1 || (s->is_float && s->size < 4))
        return stk_fail(err, STK_ECORRUPT, "scale-offset: numbers of %u bytes", s->size);
    for (uint32_t i = 0; i < 4; i++)
        s->width |= (uint32_t)in.data[i] << 8 * i;
    for (uint32_t i = 0; i < least && i < 8; i++)
        s->least |= (uint64_t)in.data[5 + i] << 8 * i;
    for (uint32_t i = 8; i < f->n && i < 10; i++)
        s->fill |= (uint64_t)f->value[i] << 32 * (i - 8);
    if (s->width > 8 * s->size || (s->has_fill && f->n < (s->size > 4 ? 10u : 9u)))
        return stk_fail(err, STK_ECORRUPT, "scale-offset: numbers of %u bits", s->width);
    s->unit = s->size == 4 ? (double)powf(10.0f, (float)(int32_t)f->value[1])
                           : pow(10.0, (double)(int32_t)f->value[1]);
    return 0;
}

/* In the arithmetic of the number's own type, as libhdf5 computes it. */
static uint64_t unscale_float(const scaled *s, uint64_t v)
{
    uint64_t out = 0;

    if (s->size == 4) {
        float least;
        uint32_t low = (uint32_t)s->least;

        memcpy(&least, &low, sizeof least);
        least = (float)(int32_t)(uint32_t)v / (float)s->unit + least;
        memcpy(&low, &least, sizeof low);
        return low;
    }
    double d;

    memcpy(&d, &s->least, sizeof d);
    d = (double)(int64_t)v / s->unit + d;
    memcpy(&out, &d, sizeof out);
    return out;
}

int stk_unscale(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    bits b = bits_over(
        (stk_bytes){ in.data + SCALE_HEAD, in.len < SCALE_HEAD ? 0 : in.len - SCALE_HEAD });
    scaled s = { 0 };

    STK_TRY(read_scaled(&s, f, in, len, err));
    /* as they are, in the order of the machine that wrote them: little-endian, as all are */
    if (s.width == 8 * s.size) {
        for (size_t at = 0; at < len && len <= in.len - SCALE_HEAD; at += s.size)
            for (uint32_t i = 0; i < s.size; i++)
                dst[at + (s.big ? s.size - 1 - i : i)] = in.data[SCALE_HEAD + at + i];
        b.bad = len > in.len - SCALE_HEAD;
    }
    for (size_t at = 0; at < len && s.width < 8 * s.size && !b.bad; at += s.size) {
        uint64_t v = s.width ? take(&b, s.width) : 0;

        if (s.has_fill && v == ones(s.width))
            v = s.fill;
        else
            v = s.is_float ? unscale_float(&s, v) : v + s.least;
        put(dst + at, v, s.size, s.big);
    }
    return b.bad ? stk_fail(err, STK_ECORRUPT, "scale-offset: a chunk is too short") : 0;
}
