/* SPDX-License-Identifier: Apache-2.0 */
/* json - the raw text of one value of a JSON field: json(path) with steps parted by dots, keys
 * and array indexes. What follows may be nothing (rows are JSON values), `int`, `float`, `text`. */
#include "codec/codec.h"
#include "base/json.h"

#include <string.h>

/* What Python's int() takes by default (sys.get_int_max_str_digits()).  A row with a longer integer
 * can't be handed out there, so that it is a bad sample here, where it can be skipped. */
#define MAX_DIGITS 4300u

struct json {
    char path[256];
};

static int json_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct json *j = state;
    const char *path = stk_args_has(args, "path") ? stk_args_str(args, "path") : "";
    size_t n;

    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL, "json reads a field's bytes: put it first");
    if (!path)
        path = "";
    n = strlen(path);
    if (n >= sizeof j->path)
        return stk_fail(err, STK_EINVAL, "json: the path has %zu characters, at most %zu", n,
                        sizeof j->path - 1);
    if (n && (path[0] == '.' || path[n - 1] == '.' || strstr(path, "..")))
        return stk_fail(err, STK_EINVAL, "json: path `%s` has an empty step: write it as a.b.3.c",
                        path);
    memcpy(j->path, path, n + 1);
    spec->out = STK_OUT_JSON;
    return 0;
}

static int is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The digits of the number at p, if it is an integer, else 0.  *next: after it. */
static size_t integer_digits(const uint8_t *p, const uint8_t *end, const uint8_t **next)
{
    const uint8_t *start = p + (*p == '-');
    int real = 0;

    for (p = start; p < end && (is_digit(*p) || memchr("+-.eE", *p, 5)); p++)
        real |= !is_digit(*p);
    *next = p;
    return real ? 0 : (size_t)(p - start);
}

/* The digits of the first integer that has more than MAX_DIGITS, in a value that is known to be
 * JSON; 0: there is none.  So many digits in a row cover a multiple of MAX_DIGITS, so that a value
 * without them costs a look at one byte in 4,300. */
static size_t long_integer(stk_bytes v)
{
    const uint8_t *p = v.data, *end = v.data + v.len;
    size_t at = MAX_DIGITS;

    while (at < v.len && !is_digit(v.data[at]))
        at += MAX_DIGITS;
    while (at < v.len && p < end) {
        size_t n = 0;

        if (*p == '"')
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
        if (p < end && (is_digit(*p) || *p == '-'))
            n = integer_digits(p, end, &p);
        else
            p++;
        if (n > MAX_DIGITS)
            return n;
    }
    return 0;
}

static int json_extract(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                        stk_error *err)
{
    const struct json *j = state;
    stk_error why;
    size_t digits;
    int rc = stk_json_find(in, j->path, out, &why);

    (void)scratch;
    if (rc < 0)
        return stk_fail(err, rc, j->path[0] ? "json(%s): %s" : "json%s: %s", j->path, why.message);
    digits = long_integer(*out);
    if (digits)
        return stk_fail(err, STK_ECORRUPT,
                        j->path[0] ? "json(%s): an integer of %zu digits, at most %u"
                                   : "json%s: an integer of %zu digits, at most %u",
                        j->path, digits, MAX_DIGITS);
    return 0;
}

static const stk_arg json_args[] = {
    { "path", STK_ARG_NAME, "",
      "steps to the value: keys and array indexes parted by dots; absent: all of it" },
    { 0 },
};

const stk_codec stk_codec_json = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_codec),
                                   .name = "json",
                                   .help = "one value of a JSON field, as text",
                                   .args = json_args,
                                   .state_size = sizeof(struct json),
                                   .plan = json_plan,
                                   .extract = json_extract };
