/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - sizes as people write them: 2000000000, 2GB, 1.5GiB.
 *
 * K, M, G, T, P and E, with or without a B, are powers of 1,000; with an i (Ki, KiB) powers of
 * 1,024.  Letters may be small.  The arithmetic is exact: "0.1GB" is 100,000,000. */
#include "base/size.h"

#include <stdio.h>
#include <string.h>

#define FRACTION 1000000000u /* digits after the ninth are read and dropped */

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits; *text is moved past them.  0: none, or more than 64 bits. */
static int read_digits(const char **text, uint64_t *out)
{
    uint64_t v = 0;

    if (!is_digit(**text))
        return 0;
    for (; is_digit(**text); (*text)++) {
        unsigned d = (unsigned)(**text - '0');

        if (v > (UINT64_MAX - d) / 10)
            return 0;
        v = v * 10 + d;
    }
    *out = v;
    return 1;
}

/* What stands after a point, in billionths; a point without a digit is not part of the number. */
static uint32_t read_fraction(const char **text)
{
    uint32_t v = 0;

    if (**text != '.' || !is_digit((*text)[1]))
        return 0;
    (*text)++;
    for (uint32_t scale = FRACTION / 10; is_digit(**text); (*text)++, scale /= 10)
        v += (uint32_t)(**text - '0') * scale;
    return v;
}

/* The unit, perhaps after blanks; 1 where there is none. */
static uint64_t read_unit(const char **text)
{
    static const char letters[] = "KMGTPE";
    const char *p = *text + strspn(*text, " "), *letter;
    uint64_t base = 1000, unit = 1;

    letter = *p ? strchr(letters, *p & ~0x20) : NULL;
    if (letter) {
        p++;
        if (*p == 'i' || *p == 'I') {
            base = 1024;
            p++;
        }
        for (const char *l = letters; l <= letter; l++)
            unit *= base;
    }
    if (*p == 'B' || *p == 'b')
        p++;
    else if (!letter)
        return 1;
    *text = p;
    return unit;
}

int stk_size_read(const char *text, uint64_t *bytes, const char **end)
{
    uint64_t whole, unit, part;
    uint32_t fraction;

    if (!read_digits(&text, &whole))
        return 0;
    fraction = read_fraction(&text);
    unit = read_unit(&text);
    part = fraction * (unit / FRACTION) + fraction * (unit % FRACTION) / FRACTION;
    if (whole > (UINT64_MAX - part) / unit)
        return 0;
    *bytes = whole * unit + part;
    *end = text;
    return 1;
}

int stk_size_parse(const char *text, uint64_t *bytes)
{
    const char *end;
    uint64_t v;

    if (!stk_size_read(text, &v, &end) || *end)
        return STK_EINVAL;
    *bytes = v;
    return 0;
}

const char *stk_size_format(char buf[16], uint64_t bytes)
{
    static const char *const unit[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
    double v = (double)bytes;
    int i = 0;

    for (; v >= 999.5 && i < 6; i++)
        v /= 1000;
    snprintf(buf, 16, i && v < 99.95 ? "%.1f %s" : "%.0f %s", v, unit[i]);
    return buf;
}
