/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - well-formed UTF-8, and foreign text made fit for one line of a message. */
#include "base/json.h"

#include <stdio.h>

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
