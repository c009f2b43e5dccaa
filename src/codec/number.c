/* SPDX-License-Identifier: Apache-2.0 */
/* int, float - a number written as text: "7\n" in a .cls field, a value found by json(...).
 *
 * The grammar is Python's int() and float() without underscores; the locale of the process plays
 * no part.  Floats are rounded to f64 first and then to f32, as Python and NumPy do. */
#include "base/decimal.h"
#include "codec/codec.h"
#include "codec/text.h"

#include <string.h>
#include <strings.h>

#define FLOAT_TEXT 512 /* characters of a number, and the zero behind them */

struct number {
    int json;
};

static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static stk_bytes trimmed(stk_bytes s)
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

static int number_plan(struct number *n, const char *name, stk_dtype dtype, stk_spec *spec,
                       stk_error *err)
{
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "%s reads a field's bytes: put it first, or after json(...)", name);
    n->json = spec->out == STK_OUT_JSON;
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = dtype };
    return 0;
}

static int int_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)args;
    return number_plan(state, "int", STK_I64, spec, err);
}

static int float_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)args;
    return number_plan(state, "float", STK_F32, spec, err);
}

static int int_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
{
    const struct number *n = state;
    stk_bytes s = trimmed(in);
    char shown[STK_SHOWN_MAX];
    uint64_t v = 0, limit = INT64_MAX;
    int negative = 0;
    int64_t out;
    size_t i = 0;

    if (n->json && ((s.len == 4 && !memcmp(s.data, "true", 4)) ||
                    (s.len == 5 && !memcmp(s.data, "false", 5)))) {
        out = s.len == 4;
        memcpy(dst, &out, sizeof out);
        return 0;
    }
    if (s.len && (s.data[0] == '-' || s.data[0] == '+'))
        negative = s.data[i++] == '-';
    limit += (uint64_t)negative;
    if (i == s.len)
        return stk_fail(err, STK_ECORRUPT, "int: %s is no integer", stk_shown(in, shown));
    for (; i < s.len; i++) {
        unsigned digit = s.data[i] - (unsigned)'0';

        if (digit > 9)
            return stk_fail(err, STK_ECORRUPT, "int: %s is no integer", stk_shown(in, shown));
        if (v > (limit - digit) / 10)
            return stk_fail(err, STK_ECORRUPT, "int: %s does not fit 64 bits",
                            stk_shown(in, shown));
        v = v * 10 + digit;
    }
    out = (int64_t)(negative ? 0 - v : v);
    memcpy(dst, &out, sizeof out);
    return 0;
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

static int float_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
{
    stk_bytes s = trimmed(in);
    char text[FLOAT_TEXT], shown[STK_SHOWN_MAX];
    float out;

    (void)state;
    if (!is_float(s))
        return stk_fail(err, STK_ECORRUPT, "float: %s is no number", stk_shown(in, shown));
    if (s.len >= sizeof text)
        return stk_fail(err, STK_ECORRUPT, "float: a number of %zu characters, at most %zu", s.len,
                        sizeof text - 1);
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    out = (float)stk_decimal(text, NULL);
    memcpy(dst, &out, sizeof out);
    return 0;
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_int = { .abi = STK_PLUGIN_ABI,
                                  .name = "int",
                                  .help = "a decimal integer, as i64",
                                  .args = no_args,
                                  .state_size = sizeof(struct number),
                                  .plan = int_plan,
                                  .parse = int_parse };

const stk_codec stk_codec_float = { .abi = STK_PLUGIN_ABI,
                                    .name = "float",
                                    .help = "a decimal number, as f32",
                                    .args = no_args,
                                    .state_size = sizeof(struct number),
                                    .plan = float_plan,
                                    .parse = float_parse };
