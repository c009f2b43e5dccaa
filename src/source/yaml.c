/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.c - values of a top-level key.  What is not understood is an error, never a guess: anchors,
 * tags, texts of several lines, maps in maps. */
#include "source/yaml.h"

#include <stdio.h>
#include <string.h>

#include "base/numeral.h"

#define VALUES_MAX 100000u
#define YAML_MAX ((uint64_t)4 << 20)

typedef struct reader {
    stk_bytes rest; /* after the line */
    stk_bytes line; /* without its end and its comment */
} reader;

static int is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static stk_bytes trimmed(stk_bytes s)
{
    while (s.len && is_blank(s.data[s.len - 1]))
        s.len--;
    while (s.len && is_blank(s.data[0]))
        s = (stk_bytes){ s.data + 1, s.len - 1 };
    return s;
}

/* The state of quotes after one more byte: 0, or the quote that is open. */
static uint8_t quote_after(uint8_t open, const stk_bytes *s, size_t i)
{
    uint8_t c = s->data[i];
    int begins = !i || is_blank(s->data[i - 1]) || strchr("[{,:-", s->data[i - 1]);

    if (open)
        return c == open && !(open == '"' && s->data[i - 1] == '\\') ? 0 : open;
    return (c == '"' || c == '\'') && begins ? c : 0;
}

/* 0: there is none. */
static int next_line(reader *r)
{
    const uint8_t *nl = r->rest.len ? memchr(r->rest.data, '\n', r->rest.len) : NULL;
    size_t len = nl ? (size_t)(nl - r->rest.data) : r->rest.len;
    uint8_t open = 0;

    if (!r->rest.len)
        return 0;
    r->line = (stk_bytes){ r->rest.data, len };
    r->rest = (stk_bytes){ r->rest.data + len + (nl != NULL), r->rest.len - len - (nl != NULL) };
    for (size_t i = 0; i < r->line.len; i++) {
        open = quote_after(open, &r->line, i);
        if (!open && r->line.data[i] == '#' && (!i || is_blank(r->line.data[i - 1])))
            r->line.len = i;
    }
    return 1;
}

static int not_read(stk_bytes what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "\"%.*s\" is YAML that is not understood: write a value, a "
                    "list, or numbered values",
                    what.len > 60 ? 60 : (int)what.len, (const char *)what.data);
}

static int add_value(stk_bytes v, stk_names *out, stk_error *err)
{
    uint8_t quote = v.len && (v.data[0] == '"' || v.data[0] == '\'') ? v.data[0] : 0;
    stk_text t = { 0 };
    int rc;

    if (out->n >= VALUES_MAX)
        return stk_fail(err, STK_ELIMIT, "a list has more than %u values", VALUES_MAX);
    if (memchr(v.len ? v.data : (const uint8_t *)"", 0, v.len) ||
        (v.len && !quote && strchr("&*!|>[]{}%@`,", v.data[0])) ||
        (quote && (v.len < 2 || v.data[v.len - 1] != quote)))
        return not_read(v, err);
    if (!quote)
        return stk_names_add(out, v.len ? (const char *)v.data : "", v.len, err);
    rc = stk_text_put(&t, "", 0, err);
    for (size_t i = 1; rc == 0 && i + 1 < v.len; i++) {
        int doubled = quote == '\'' && v.data[i] == '\'' && i + 2 < v.len;
        int escaped = quote == '"' && v.data[i] == '\\';

        if (escaped && (i + 2 >= v.len || !strchr("\"\\/", v.data[i + 1])))
            rc = not_read(v, err);
        i += (size_t)(doubled || escaped);
        if (rc == 0)
            rc = stk_text_put(&t, v.data + i, 1, err);
    }
    if (rc == 0)
        rc = stk_names_add(out, t.s, t.len, err);
    stk_free(t.s);
    return rc;
}

/* "k: v": v, where k is the number that comes next. */
static int add_numbered(stk_bytes item, stk_names *out, stk_error *err)
{
    const uint8_t *colon = item.len ? memchr(item.data, ':', item.len) : NULL;
    size_t at = colon ? (size_t)(colon - item.data) : 0;
    int64_t k;

    if (!colon || stk_number_i64(trimmed((stk_bytes){ item.data, at }), &k) != 1)
        return not_read(item, err);
    if (k != (int64_t)out->n)
        return stk_fail(err, STK_ECORRUPT,
                        "values are numbered 0, 1, 2, ... in this order: %zu "
                        "was expected, not %lld",
                        out->n, (long long)k);
    return add_value(trimmed((stk_bytes){ colon + 1, item.len - at - 1 }), out, err);
}

/* [a, b] or {0: a, 1: b}, over lines. */
static int add_flow(stk_bytes text, stk_names *out, stk_error *err)
{
    int numbered = text.data[0] == '{';
    uint8_t open = 0, end = numbered ? '}' : ']';
    stk_text t = { 0 };
    int rc = 0, closed = 0, comment = 0;

    for (size_t i = 1; rc == 0 && !closed && i < text.len; i++) {
        uint8_t c = text.data[i];

        comment = c != '\n' && (comment || (!open && c == '#' && is_blank(text.data[i - 1])));
        if (comment)
            continue;
        open = quote_after(open, &text, i);
        closed = !open && c == end;
        if (!open && (c == ',' || closed)) {
            stk_bytes item = trimmed((stk_bytes){ (uint8_t *)t.s, t.len });

            if (item.len)
                rc = numbered ? add_numbered(item, out, err) : add_value(item, out, err);
            else if (!closed)
                rc = not_read(text, err);
            t.len = 0;
        } else {
            rc = stk_text_put(&t, c == '\n' ? (const uint8_t *)" " : text.data + i, 1, err);
        }
    }
    stk_free(t.s);
    return rc == 0 && !closed ? not_read(text, err) : rc;
}

/* The lines after "key:", while they belong to it. */
static int add_block(reader r, stk_names *out, stk_error *err)
{
    while (next_line(&r)) {
        stk_bytes item = trimmed(r.line);

        if (!item.len)
            continue;
        if (item.data[0] == '-' && (item.len == 1 || is_blank(item.data[1])))
            STK_TRY(add_value(trimmed((stk_bytes){ item.data + 1, item.len - 1 }), out, err));
        else if (is_blank(r.line.data[0]))
            STK_TRY(add_numbered(item, out, err));
        else
            break;
    }
    return 0;
}

int stk_yaml_values(stk_bytes text, const char *key, stk_names *out, stk_error *err)
{
    size_t n = strlen(key);
    reader r = { .rest = text };

    while (next_line(&r)) {
        stk_bytes value;

        if (r.line.len <= n || memcmp(r.line.data, key, n) != 0 || r.line.data[n] != ':')
            continue;
        value = trimmed((stk_bytes){ r.line.data + n + 1, r.line.len - n - 1 });
        if (!value.len)
            return add_block(r, out, err);
        if (value.data[0] == '[' || value.data[0] == '{')
            return add_flow((stk_bytes){ value.data, (size_t)(text.data + text.len - value.data) },
                            out, err);
        return add_value(value, out, err);
    }
    return STK_END;
}

int stk_yaml_read(const char *path, stk_text *out, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_source_local.open(STK_URL(path, NULL), &f, err);

    out->len = 0;
    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && info.size > YAML_MAX)
        rc = stk_fail(err, STK_ELIMIT, "the file has more than %u MiB", (unsigned)(YAML_MAX >> 20));
    if (rc == 0)
        rc = stk_text_put(out, "", 0, err);
    while (rc == 0 && out->len < info.size) {
        char part[4096];
        size_t left = (size_t)info.size - out->len, n = left < sizeof part ? left : sizeof part;

        rc = stk_file_read(f, out->len, part, n, err);
        if (rc == 0)
            rc = stk_text_put(out, part, n, err);
    }
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}
