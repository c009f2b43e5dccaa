/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - find one value in a JSON text by its path, without building a tree.
 *
 * Strict RFC 8259: no comments, no trailing commas, UTF-8 checked; but NaN,
 * Infinity and -Infinity are numbers, as Python writes them.  A value is skipped
 * with one bit a level instead of recursion, so that depth costs no stack.  Every level of the
 * path walks its container once, to the end: a later equal key wins, and the document is known
 * to be whole.  Time is (levels of the path + 1) x length. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64

typedef struct scan {
    const uint8_t *start, *p, *end;
    const char *why; /* what was expected at p */
} scan;

static int expect(scan *s, const char *why)
{
    s->why = why;
    return -1;
}

static void skip_space(scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static int peek(const scan *s)
{
    return s->p < s->end ? *s->p : -1;
}

static int hex4(const uint8_t *p, unsigned *out)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++) {
        unsigned d = p[i] | 0x20u;

        if (p[i] >= '0' && p[i] <= '9')
            v = v << 4 | (p[i] - (unsigned)'0');
        else if (d >= 'a' && d <= 'f')
            v = v << 4 | (d - 'a' + 10);
        else
            return -1;
    }
    *out = v;
    return 0;
}

/* At an opening quote; ends after the closing one. */
static int skip_string(scan *s, stk_bytes *out)
{
    const uint8_t *first = s->p++;
    unsigned unit;

    while (s->p < s->end && *s->p != '"') {
        if (*s->p < 0x20)
            return expect(s, "control characters in strings must be escaped");
        if (*s->p++ != '\\')
            continue;
        if (s->p < s->end && *s->p == 'u') {
            if (s->end - s->p < 5 || hex4(s->p + 1, &unit) < 0)
                return expect(s, "\\u needs four hexadecimal digits");
            s->p += 5;
        } else if (s->p < s->end && *s->p && strchr("\"\\/bfnrt", *s->p)) {
            s->p++;
        } else {
            return expect(s, "no such escape");
        }
    }
    if (s->p >= s->end)
        return expect(s, "the string has no end");
    s->p++;
    if (out)
        *out = (stk_bytes){ first, (size_t)(s->p - first) };
    return 0;
}

static int skip_digits(scan *s)
{
    if (!(s->p < s->end && *s->p >= '0' && *s->p <= '9'))
        return expect(s, "a digit was expected");
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return 0;
}

static int skip_word(scan *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
        return expect(s, "a value was expected");
    s->p += n;
    return 0;
}

static int skip_number(scan *s)
{
    if (peek(s) == '-')
        s->p++;
    if (peek(s) == 'I')
        return skip_word(s, "Infinity");
    if (peek(s) == '0')
        s->p++;
    else if (skip_digits(s) < 0)
        return -1;
    if (peek(s) == '.') {
        s->p++;
        if (skip_digits(s) < 0)
            return -1;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->p++;
        if (peek(s) == '+' || peek(s) == '-')
            s->p++;
        return skip_digits(s);
    }
    return 0;
}

static int skip_scalar(scan *s)
{
    switch (peek(s)) {
    case '"': return skip_string(s, NULL);
    case 't': return skip_word(s, "true");
    case 'f': return skip_word(s, "false");
    case 'n': return skip_word(s, "null");
    case 'N': return skip_word(s, "NaN");
    case 'I': return skip_word(s, "Infinity");
    case -1: return expect(s, "the text ends where a value was expected");
    default:
        if (peek(s) == '-' || (peek(s) >= '0' && peek(s) <= '9'))
            return skip_number(s);
        return expect(s, "a value was expected");
    }
}

/* "key" : at the key; ends at the value. */
static int skip_key(scan *s, stk_bytes *key)
{
    if (peek(s) != '"')
        return expect(s, "a key was expected");
    if (skip_string(s, key) < 0)
        return -1;
    skip_space(s);
    if (peek(s) != ':')
        return expect(s, "':' was expected");
    s->p++;
    skip_space(s);
    return 0;
}

/* After an element: 1 when another follows (at its beginning), 0 when the container ended. */
static int skip_between(scan *s, char close)
{
    skip_space(s);
    if (peek(s) == close) {
        s->p++;
        return 0;
    }
    if (peek(s) != ',')
        return expect(s, close == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
    s->p++;
    skip_space(s);
    return 1;
}

/* Into a container: 1 when it has an element (at its beginning), 0 when it is empty (after it). */
static int skip_open(scan *s)
{
    char close = *s->p++ == '{' ? '}' : ']';

    skip_space(s);
    if (peek(s) != close)
        return 1;
    s->p++;
    return 0;
}

/* At the first byte of a value that is `depth` containers deep; ends after it. */
static int skip_value(scan *s, unsigned depth)
{
    uint64_t objects = 0; /* bit d: level d is an object */
    unsigned d = depth;
    int more;

    for (;;) {
        if (peek(s) == '{' || peek(s) == '[') {
            uint64_t object = peek(s) == '{';

            if (d == MAX_DEPTH)
                return expect(s, "nested deeper than 64 levels");
            objects = (objects & ~(1ull << d)) | object << d;
            d++;
            more = skip_open(s);
        } else {
            if (skip_scalar(s) < 0)
                return -1;
            more = d > depth ? skip_between(s, objects >> (d - 1) & 1 ? '}' : ']') : 0;
        }
        while (more == 0 && d > depth) {
            d--; /* a container ended: it is an element itself */
            more = d > depth ? skip_between(s, objects >> (d - 1) & 1 ? '}' : ']') : 0;
        }
        if (more <= 0)
            return more;
        if (objects >> (d - 1) & 1 && skip_key(s, NULL) < 0)
            return -1;
    }
}

/* The escape at p, checked by skip_string(): its code point (a lone surrogate: itself).  Returns
 * its length. */
static size_t read_escape(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned hi = 0, lo;

    if (p[1] != 'u') {
        *out = (uint8_t)to[strchr(from, p[1]) - from];
        return 2;
    }
    (void)hex4(p + 2, &hi);
    *out = hi;
    if (hi < 0xD800 || hi >= 0xDC00 || end - p < 12 || p[6] != '\\' || p[7] != 'u' ||
        hex4(p + 8, &lo) < 0 || lo < 0xDC00 || lo >= 0xE000)
        return 6;
    *out = 0x10000 + ((hi - 0xD800) << 10) + (lo - 0xDC00);
    return 12;
}

/* Give a quoted string's characters to `sink` as UTF-8, until it says no or half a surrogate
 * pair comes. */
static int each_char(stk_bytes s, int (*sink)(void *to, const uint8_t *bytes, size_t n), void *to)
{
    const uint8_t *p = s.data + 1, *end = s.data + s.len - 1;
    uint8_t utf8[4];
    uint32_t c;

    while (p < end) {
        if (*p != '\\') {
            if (sink(to, p++, 1) < 0)
                return -1;
            continue;
        }
        p += read_escape(p, end, &c);
        if ((c >= 0xD800 && c < 0xE000) || sink(to, utf8, stk_utf8_put(utf8, c)) < 0)
            return -1;
    }
    return 0;
}

static int sink_match(void *to, const uint8_t *bytes, size_t n)
{
    stk_bytes *rest = to;

    if (rest->len < n || memcmp(rest->data, bytes, n))
        return -1;
    rest->data += n;
    rest->len -= n;
    return 0;
}

static int sink_copy(void *to, const uint8_t *bytes, size_t n)
{
    uint8_t **dst = to;

    memcpy(*dst, bytes, n);
    *dst += n;
    return 0;
}

int stk_json_unquote(stk_bytes s, uint8_t *dst, size_t *len, stk_error *err)
{
    uint8_t *p = dst;
    char shown[STK_SHOWN_MAX];

    if (s.len < 2 || s.data[0] != '"')
        return stk_fail(err, STK_ECORRUPT, "JSON value is not a string: %s", stk_shown(s, shown));
    if (each_char(s, sink_copy, &p) < 0)
        return stk_fail(err, STK_ECORRUPT, "JSON string has half a surrogate pair: %s",
                        stk_shown(s, shown));
    *len = (size_t)(p - dst);
    return 0;
}

static int key_is(stk_bytes key, stk_bytes want)
{
    stk_bytes rest = want;

    return each_char(key, sink_match, &rest) == 0 && rest.len == 0;
}

/* The array index that a path's step spells, or UINT64_MAX. */
static uint64_t step_index(stk_bytes step)
{
    uint64_t v = 0;

    if (!step.len || step.len > 18 || (step.len > 1 && step.data[0] == '0'))
        return UINT64_MAX;
    for (size_t i = 0; i < step.len; i++) {
        if (step.data[i] < '0' || step.data[i] > '9')
            return UINT64_MAX;
        v = v * 10 + (uint64_t)(step.data[i] - '0');
    }
    return v;
}

/* At a container: walk it to its end, *out the element that `step` names (its data NULL: there
 * is none). */
static int find_step(scan *s, stk_bytes step, unsigned depth, stk_bytes *out)
{
    char close = peek(s) == '{' ? '}' : ']';
    uint64_t want = close == ']' ? step_index(step) : 0, i;
    stk_bytes key;
    int more;

    *out = (stk_bytes){ 0 };
    if (depth == MAX_DEPTH)
        return expect(s, "nested deeper than 64 levels");
    more = skip_open(s);
    for (i = 0; more > 0; i++) {
        const uint8_t *value;

        if (close == '}' && skip_key(s, &key) < 0)
            return -1;
        value = s->p;
        if (skip_value(s, depth + 1) < 0)
            return -1;
        if (close == '}' ? key_is(key, step) : i == want)
            *out = (stk_bytes){ value, (size_t)(s->p - value) };
        more = skip_between(s, close);
    }
    return more;
}

static int fail_at(const scan *s, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "not JSON: %s (byte %zu)", s->why,
                    (size_t)(s->p - s->start));
}

static int utf8_only(stk_bytes doc, stk_error *err)
{
    size_t bad = stk_utf8_span(doc);

    return bad == doc.len ? 0 : stk_fail(err, STK_ECORRUPT, "not JSON: byte %zu is not UTF-8", bad);
}

static int at_end(scan *s, stk_error *err)
{
    skip_space(s);
    if (s->p == s->end)
        return 0;
    s->why = "something follows the value";
    return fail_at(s, err);
}

/* Every element of a container; those of an array have no key. */
static int each(stk_bytes doc, char close, stk_json_fn fn, void *cookie, stk_error *err)
{
    scan s = { doc.data, doc.data, doc.data + doc.len, "" };
    int more;

    STK_TRY(utf8_only(doc, err));
    skip_space(&s);
    if (peek(&s) != (close == '}' ? '{' : '['))
        return stk_fail(err, STK_ECORRUPT,
                        close == '}' ? "not a JSON object ({...})" : "not a JSON array ([...])");
    for (more = skip_open(&s); more > 0; more = skip_between(&s, close)) {
        const uint8_t *value;
        stk_bytes key = { 0 };

        if (close == '}' && skip_key(&s, &key) < 0)
            return fail_at(&s, err);
        value = s.p;
        if (skip_value(&s, 1) < 0)
            return fail_at(&s, err);
        STK_TRY(fn(cookie, key, (stk_bytes){ value, (size_t)(s.p - value) }, err));
    }
    return more < 0 ? fail_at(&s, err) : at_end(&s, err);
}

int stk_json_members(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err)
{
    return each(doc, '}', fn, cookie, err);
}

int stk_json_elements(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err)
{
    return each(doc, ']', fn, cookie, err);
}

int stk_json_find(stk_bytes doc, const char *path, stk_bytes *out, stk_error *err)
{
    scan s = { doc.data, doc.data, doc.data + doc.len, "" };
    const uint8_t *value;
    unsigned depth = 0;

    STK_TRY(utf8_only(doc, err));
    skip_space(&s);
    value = s.p;
    if (skip_value(&s, 0) < 0)
        return fail_at(&s, err);
    *out = (stk_bytes){ value, (size_t)(s.p - value) };
    STK_TRY(at_end(&s, err));
    while (*path) {
        size_t n = strcspn(path, ".");
        stk_bytes step = { (const uint8_t *)path, n };

        s = (scan){ doc.data, out->data, out->data + out->len, "" };
        if (peek(&s) != '{' && peek(&s) != '[')
            *out = (stk_bytes){ 0 };
        else if (find_step(&s, step, depth++, out) < 0)
            return fail_at(&s, err);
        if (!out->data)
            return stk_fail(err, STK_ECORRUPT, "JSON has nothing at `%.*s` of its path", (int)n,
                            path);
        path += n + (path[n] == '.');
    }
    return 0;
}

/* ---- writing ---- */

static int put_escaped(stk_text *out, const char *fmt, unsigned value, stk_error *err)
{
    char text[16];
    int n = snprintf(text, sizeof text, fmt, value);

    return stk_text_put(out, text, (size_t)n, err);
}

/* Bytes at the beginning that need no escape. */
static size_t plain_span(stk_bytes s)
{
    size_t n = stk_utf8_span(s), i = 0;

    while (i < n && s.data[i] >= 32 && s.data[i] != '"' && s.data[i] != '\\')
        i++;
    return i;
}

int stk_json_quote(stk_text *out, stk_bytes s, stk_error *err)
{
    STK_TRY(stk_text_put(out, "\"", 1, err));
    while (s.len) {
        size_t n = plain_span(s);

        STK_TRY(stk_text_put(out, s.data, n, err));
        s.data += n;
        s.len -= n;
        if (!s.len)
            break;
        if (*s.data == '"' || *s.data == '\\')
            STK_TRY(put_escaped(out, "\\%c", *s.data, err));
        else
            STK_TRY(put_escaped(out, *s.data < 32 ? "\\u%04x" : "\\udc%02x", *s.data, err));
        s.data++;
        s.len--;
    }
    return stk_text_put(out, "\"", 1, err);
}
