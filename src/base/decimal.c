/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c - strtod() without the locale: a program that speaks German still writes 0.5 in chains
 * and labels.
 *
 * A scaled number of at most 53 bits and 22 digits after the point is one division of two doubles
 * that are exact, which rounds once.  All others are written as digits and read by strtod(), which
 * rounds correctly too. */
#include "base/decimal.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define EXACT ((int64_t)1 << 53)
#define EXACT_SCALE 22
#define LIMBS (STK_SCALED_BYTES / 4 + 1)
#define NINE 1000000000u

double stk_decimal(const char *text, char **end)
{
    /* The C locale is a constant of the C library: nothing is allocated, and this cannot fail. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double v = strtod_l(text, end, c);

    freelocale(c);
    return v;
}

/* Byte i from the least significant one on. */
static uint8_t byte_at(const stk_scaled *s, size_t i)
{
    return s->bytes[s->big ? s->n - 1 - i : i];
}

/* Bytes that are more than a repeated sign. */
static size_t bytes_of(const stk_scaled *s, uint8_t sign)
{
    size_t n = s->n;

    while (n > 1 && byte_at(s, n - 1) == sign && (byte_at(s, n - 2) ^ sign) < 128)
        n--;
    return n;
}

/* Its magnitude, the low limb first; how many there are. */
static size_t limbs_of(const stk_scaled *s, size_t n, uint8_t sign, uint32_t limb[LIMBS])
{
    uint32_t carry = sign != 0;
    size_t k = 0;

    memset(limb, 0, LIMBS * sizeof *limb);
    for (size_t i = 0; i < n; i++) { /* below zero: all bits turned, and one more */
        uint32_t v = (uint32_t)(uint8_t)(byte_at(s, i) ^ sign) + carry;

        limb[i / 4] |= (v & 255) << 8 * (i % 4);
        carry = v >> 8;
    }
    if (n < LIMBS * 4)
        limb[n / 4] |= carry << 8 * (n % 4);
    for (size_t i = 0; i < LIMBS; i++)
        k = limb[i] ? i + 1 : k;
    return k;
}

/* The digits of the magnitude; how many, at least one. */
static size_t digits_of(uint32_t limb[LIMBS], size_t k, char *out)
{
    char low[LIMBS * 10 + 10];
    size_t n = 0;

    do {
        uint64_t rest = 0;

        for (size_t i = k; i--;) {
            rest = rest << 32 | limb[i];
            limb[i] = (uint32_t)(rest / NINE);
            rest %= NINE;
        }
        while (k && !limb[k - 1])
            k--;
        for (int i = 0; i < 9 && (k || rest || !n); i++, rest /= 10)
            low[n++] = (char)('0' + rest % 10);
    } while (k);
    for (size_t i = 0; i < n; i++)
        out[i] = low[n - 1 - i];
    return n;
}

static char *put(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

static char *zeros(char *to, size_t n)
{
    memset(to, '0', n);
    return to + n;
}

int stk_scaled_text(const stk_scaled *s, char out[STK_SCALED_TEXT])
{
    uint8_t sign = s->n && byte_at(s, s->n - 1) & 128 ? 255 : 0;
    size_t n = s->n ? bytes_of(s, sign) : 0, after = s->scale > 0 ? (size_t)s->scale : 0;
    char digit[LIMBS * 10 + 10], *at = out;
    uint32_t limb[LIMBS];

    if (n > STK_SCALED_BYTES || s->scale > STK_SCALED_MOST || s->scale < -STK_SCALED_MOST)
        return -1;
    n = digits_of(limb, limbs_of(s, n, sign, limb), digit);
    if (sign)
        *at++ = '-';
    at = n > after ? put(at, digit, n - after) : put(at, "0", 1);
    if (s->scale < 0 && digit[0] != '0')
        at = zeros(at, (size_t)-s->scale);
    if (after) {
        *at++ = '.';
        at = n < after ? zeros(at, after - n) : at;
        at = n < after ? put(at, digit, n) : put(at, digit + (n - after), after);
    }
    *at = 0;
    return (int)(at - out);
}

size_t stk_scaled_room(size_t n, int32_t scale)
{
    size_t digits = (n < STK_SCALED_BYTES ? n : STK_SCALED_BYTES) * 8 * 30103 / 100000 + 1;
    size_t after = scale > 0 ? (size_t)scale + 1 : 0;

    digits += scale < 0 ? (size_t) - (int64_t)scale : 0;
    return (digits > after ? digits : after) + 2; /* sign, point */
}

int stk_scaled_put(const stk_scaled *s, uint8_t *out, size_t room)
{
    char text[STK_SCALED_TEXT];
    int len = stk_scaled_text(s, text);

    if (len < 0 || (size_t)len > room)
        return -1;
    memcpy(out, text, (size_t)len);
    memset(out + len, 0, room - (size_t)len);
    return len;
}

/* 1: the value, which one word holds exactly as a double. */
static int small(const stk_scaled *s, int64_t *out)
{
    uint64_t v = s->n && byte_at(s, s->n - 1) & 128 ? UINT64_MAX : 0;
    size_t n = s->n ? bytes_of(s, (uint8_t)v) : 0;

    if (n > 8)
        return 0;
    for (size_t i = n; i--;)
        v = v << 8 | byte_at(s, i);
    *out = (int64_t)v;
    return *out <= EXACT && *out >= -EXACT;
}

int stk_scaled_f64(const stk_scaled *s, double *out)
{
    static const double ten[EXACT_SCALE + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    char text[STK_SCALED_TEXT];
    int64_t v;

    if (s->scale >= -EXACT_SCALE && s->scale <= EXACT_SCALE && small(s, &v)) {
        *out = s->scale < 0 ? (double)v * ten[-s->scale] : (double)v / ten[s->scale];
        return 0;
    }
    if (stk_scaled_text(s, text) < 0)
        return -1;
    *out = stk_decimal(text, NULL);
    return 0;
}
