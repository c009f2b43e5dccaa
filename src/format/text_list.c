/* SPDX-License-Identifier: Apache-2.0 */
/* text_list.c - lists of texts to JSON; see text_list.h. */
#include "format/text_list.h"

#include <string.h>

static void put(stk_text_list *t, const void *bytes, size_t n)
{
    if (t->dst && t->len <= t->room && n <= t->room - t->len)
        memcpy(t->dst + t->len, bytes, n);
    t->len += n;
}

void stk_text_list_begin(stk_text_list *t)
{
    put(t, "[", 1);
    t->more = 0;
}

void stk_text_list_end(stk_text_list *t)
{
    put(t, "]", 1);
}

void stk_text_list_blob(stk_text_list *t, stk_bytes bytes)
{
    uint32_t len = (uint32_t)bytes.len; /* below 2^31: stk_pq_ref */

    put(t, &len, sizeof len);
    if (bytes.len)
        put(t, bytes.data, bytes.len);
}

static void next(stk_text_list *t)
{
    if (t->more)
        put(t, ",", 1);
    t->more = 1;
}

void stk_text_list_null(stk_text_list *t)
{
    next(t);
    put(t, "null", 4);
}

static int is_plain(uint8_t c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void put_escaped(stk_text_list *t, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

    if (c >= 0x20) {
        text[1] = (char)c;
        put(t, text, 2);
    } else
        put(t, text, 6);
}

void stk_text_list_put(stk_text_list *t, stk_bytes text)
{
    next(t);
    put(t, "\"", 1);
    for (size_t i = 0, from = 0; i < text.len; from = i) {
        while (i < text.len && is_plain(text.data[i]))
            i++;
        put(t, text.data + from, i - from);
        if (i < text.len)
            put_escaped(t, text.data[i++]);
    }
    put(t, "\"", 1);
}
