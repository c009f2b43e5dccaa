/* SPDX-License-Identifier: Apache-2.0 */
/* numeral.c - a number written as text.
 *
 * The grammar is Python's int() and float() without underscores; the locale of the process plays
 * no part. */
#include "base/numeral.h"

#include <string.h>
#include <strings.h>

#include "base/decimal.h"

static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

stk_bytes stk_trimmed(stk_bytes s)
{
    while (s.len && is_space(s.data[0]))
        s.data++, s.len--;
    while (s.len && is_space(s.data[s.len - 1]))
        s.len--;
    return s;
}

static int is_word(stk_bytes s, const char *word)
{
    return s.len == strlen(word) && !strncasecmp((const char *)s.data, word, s.len);
}

int stk_number_i64(stk_bytes s, int64_t *out)
{
    uint64_t v = 0, limit = INT64_MAX;
    int negative = 0;
    size_t i = 0;

    if (s.len && (s.data[0] == '-' || s.data[0] == '+'))
        negative = s.data[i++] == '-';
    limit += (uint64_t)negative;
    if (i == s.len)
        return 0;
    for (size_t k = i; k < s.len; k++)
        if (s.data[k] < '0' || s.data[k] > '9')
            return 0;
    for (; i < s.len; i++) {
        unsigned digit = s.data[i] - (unsigned)'0';

        if (v > (limit - digit) / 10)
            return -1;
        v = v * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - v : v);
    return 1;
}

/* [sign] (digits [. digits] | . digits) [e [sign] digits], or inf, infinity, nan. */
static int is_float(stk_bytes s)
{
    size_t i = 0, digits = 0;

    if (s.len && (s.data[0] == '-' || s.data[0] == '+'))
        s.data++, s.len--;
    if (is_word(s, "inf") || is_word(s, "infinity") || is_word(s, "nan"))
        return 1;
    for (; i < s.len && s.data[i] >= '0' && s.data[i] <= '9'; i++)
        digits++;
    if (i < s.len && s.data[i] == '.')
        for (i++; i < s.len && s.data[i] >= '0' && s.data[i] <= '9'; i++)
            digits++;
    if (!digits)
        return 0;
    if (i == s.len)
        return 1;
    if ((s.data[i++] | 0x20) != 'e')
        return 0;
    if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
        i++;
    for (digits = 0; i < s.len && s.data[i] >= '0' && s.data[i] <= '9'; i++)
        digits++;
    return digits && i == s.len;
}

int stk_number_f64(stk_bytes s, double *out)
{
    char text[STK_NUMBER_TEXT];

    if (!is_float(s))
        return 0;
    if (s.len >= sizeof text)
        return -1;
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    *out = stk_decimal(text, NULL);
    return 1;
}
