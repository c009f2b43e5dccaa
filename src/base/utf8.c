/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - well-formed UTF-8, and foreign text made fit for one line of a message.
 *
 * Names in data may hold anything: escape sequences that move a cursor or rename a window,
 * characters that turn the direction of what follows, or that can't be seen at all.  Shown, they
 * are ASCII that says what they are. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* Bytes of the well-formed character at s[i], 0 if there is none (the ranges of RFC 3629 section
 * 4: no overlong form, no surrogate, nothing above U+10FFFF). */
static size_t char_len(const uint8_t *p, size_t left)
{
    uint8_t lo = 0x80, hi = 0xBF;
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (left < n)
        return 0;
    if (p[0] == 0xE0)
        lo = 0xA0;
    else if (p[0] == 0xED)
        hi = 0x9F;
    else if (p[0] == 0xF0)
        lo = 0x90;
    else if (p[0] == 0xF4)
        hi = 0x8F;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return n;
}

size_t stk_utf8_span(stk_bytes s)
{
    size_t i = 0, n;

    while (i < s.len) {
        n = char_len(s.data + i, s.len - i);
        if (!n)
            return i;
        i += n;
    }
    return i;
}

size_t stk_utf8_put(uint8_t d[4], uint32_t c)
{
    if (c < 0x80) {
        d[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        d[0] = (uint8_t)(0xC0 | c >> 6);
        d[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        d[0] = (uint8_t)(0xE0 | c >> 12);
        d[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        d[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    d[0] = (uint8_t)(0xF0 | c >> 18);
    d[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    d[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    d[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

int stk_recode(const uint32_t encoding[256], uint8_t *buf, size_t *len, size_t room, stk_error *err)
{
    uint8_t utf8[4];
    size_t to = 0;

    for (size_t i = 0; i < *len; i++) {
        uint32_t c = encoding[buf[i]];

        if (c > 0xFFFF || (c >= 0xD800 && c < 0xE000))
            return stk_fail(err, STK_ECORRUPT, "byte 0x%02X is no character of the file's encoding",
                            buf[i]);
        to += stk_utf8_put(utf8, c);
    }
    if (to > room)
        return stk_fail(err, STK_ECORRUPT,
                        "a text has %zu bytes in UTF-8, and there is room for %zu", to, room);
    for (size_t i = *len, at = to; i--;) { /* the end first: nothing is written over what is left */
        size_t n = stk_utf8_put(utf8, encoding[buf[i]]);

        at -= n;
        memcpy(buf + at, utf8, n);
    }
    *len = to;
    return 0;
}

static uint32_t code_point(const uint8_t *p, size_t n)
{
    uint32_t c = n == 1 ? p[0] : p[0] & (0xFFu >> (n + 1));

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3F);
    return c;
}

/* Control characters, those that have no width, and those that turn the direction of text. */
static int hidden(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } range[] = {
        { 0x00, 0x1F },     { 0x7F, 0x9F },     { 0xAD, 0xAD },     { 0x34F, 0x34F },
        { 0x61C, 0x61C },   { 0x115F, 0x1160 }, { 0x17B4, 0x17B5 }, { 0x180B, 0x180F },
        { 0x200B, 0x200F }, { 0x2028, 0x202E }, { 0x2060, 0x206F }, { 0x3164, 0x3164 },
        { 0xFEFF, 0xFEFF }, { 0xFFA0, 0xFFA0 }, { 0xFFF0, 0xFFFB }, { 0xE0000, 0xE0FFF },
    };

    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i].first && c <= range[i].last)
            return 1;
    return 0;
}

/* The character at `p` as it is shown; its bytes in *n, of which one is taken where it is none. */
static size_t show_one(const uint8_t *p, size_t left, char out[12], size_t *n)
{
    size_t len = char_len(p, left);
    uint32_t c = len ? code_point(p, len) : p[0];

    *n = len ? len : 1;
    if (len && !hidden(c)) {
        memcpy(out, p, len);
        return len;
    }
    if (c == '\n')
        return (size_t)snprintf(out, 12, "\\n");
    return (size_t)snprintf(out, 12,
                            c < 0x100     ? "\\x%02x"
                            : c < 0x10000 ? "\\u%04x"
                                          : "\\U%08x",
                            (unsigned)c);
}

size_t stk_text_show(const char *text, size_t len, char *buf, size_t size)
{
    size_t full = 0, at = 0, n;
    char one[12];

    for (size_t i = 0; i < len; i += n) {
        size_t k = show_one((const uint8_t *)text + i, len - i, one, &n);

        if (at == full &&
            full + k < size) { /* whole characters: the first that is too long ends it */
            memcpy(buf + at, one, k);
            at += k;
        }
        full += k;
    }
    if (size)
        buf[at] = 0;
    return full;
}

const char *stk_shown(stk_bytes s, char buf[STK_SHOWN_MAX])
{
    size_t n = s.len < 32 ? s.len : 32, k = 0;

    buf[k++] = '"';
    for (size_t i = 0; i < n; i++) {
        uint8_t b = s.data[i];

        if (b >= 0x20 && b < 0x7F && b != '"' && b != '\\')
            buf[k++] = (char)b;
        else
            k += (size_t)snprintf(buf + k, 5, "\\x%02x", b);
    }
    snprintf(buf + k, STK_SHOWN_MAX - k, "\"%s", s.len > n ? "..." : "");
    return buf;
}
