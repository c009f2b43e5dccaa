/* SPDX-License-Identifier: Apache-2.0 */
/* json_stream.c - a window slides over the file; it grows for a value that is kept and does not
 * fit. */
#include "format/json_stream.h"

#include <string.h>

#define WINDOW ((size_t)1 << 20)
#define VALUE_MAX ((size_t)256 << 20)

int stk_json_stream_init(stk_json_stream *r, stk_file *f, uint64_t size, stk_error *err)
{
    *r = (stk_json_stream){ .file = f, .size = size };
    r->cap = size < WINDOW ? (size_t)size + 1 : WINDOW;
    r->buf = stk_alloc(r->cap);
    return r->buf ? 0 : stk_fail_nomem(err, r->cap);
}

/* More of the file after what is there.  STK_END: there is no more. */
static int refill(stk_json_stream *r, stk_error *err)
{
    size_t from = r->keep ? r->from : r->pos, n;
    uint64_t left;

    memmove(r->buf, r->buf + from, r->len - from);
    r->at += from;
    r->len -= from;
    r->pos -= from;
    r->from = 0;
    if (r->len == r->cap) {
        uint8_t *grown = r->cap < VALUE_MAX ? stk_grow(r->buf, r->len, 2 * r->cap) : NULL;

        if (!grown)
            return stk_fail(err, STK_ELIMIT, "a value has more than %zu bytes", r->cap);
        r->buf = grown;
        r->cap *= 2;
    }
    left = r->size - r->at - r->len;
    n = left < r->cap - r->len ? (size_t)left : r->cap - r->len;
    if (!n)
        return STK_END;
    STK_TRY(stk_file_read(r->file, r->at + r->len, r->buf + r->len, n, err));
    r->len += n;
    return 0;
}

int stk_json_broken(const stk_json_stream *r, const char *what, stk_error *err)
{
    stk_fail(err, STK_ECORRUPT, "not the JSON of annotations: %s", what);
    stk_error_at(err, NULL, r->at + r->pos, (stk_bytes){ 0 });
    return STK_ECORRUPT;
}

/* The next byte, which stays; an end of the file is an error. */
static int peek(stk_json_stream *r, uint8_t *c, stk_error *err)
{
    if (r->pos == r->len) {
        int rc = refill(r, err);

        if (rc)
            return rc < 0 ? rc : stk_json_broken(r, "it ends in the middle", err);
    }
    *c = r->buf[r->pos];
    return 0;
}

int stk_json_mark(stk_json_stream *r, uint8_t *c, stk_error *err)
{
    STK_TRY(peek(r, c, err));
    while (*c == ' ' || *c == '\n' || *c == '\r' || *c == '\t') {
        r->pos++;
        STK_TRY(peek(r, c, err));
    }
    return 0;
}

/* Past the string that begins here. */
static int pass_string(stk_json_stream *r, stk_error *err)
{
    uint8_t c;

    for (r->pos++;; r->pos++) {
        STK_TRY(peek(r, &c, err));
        if (c == '"')
            break;
        if (c == '\\') {
            r->pos++;
            STK_TRY(peek(r, &c, err));
        }
    }
    r->pos++;
    return 0;
}

int stk_json_pass(stk_json_stream *r, stk_error *err)
{
    size_t depth = 0;
    uint8_t c;

    do {
        STK_TRY(stk_json_mark(r, &c, err));
        if (c == '"') {
            STK_TRY(pass_string(r, err));
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']' || c == ':'))
            return stk_json_broken(r, "a value is missing", err);
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':') {
            r->pos++;
            continue;
        }
        while (c != ',' && c != '}' && c != ']' && c != ':' && c != '"' && c > ' ') {
            r->pos++;
            STK_TRY(peek(r, &c, err));
        }
        if (c < ' ' && c != '\n' && c != '\r' && c != '\t')
            return stk_json_broken(r, "a control character", err);
    } while (depth);
    return 0;
}

int stk_json_take(stk_json_stream *r, stk_bytes *out, stk_error *err)
{
    int rc;

    r->keep = 1;
    r->from = r->pos;
    rc = stk_json_pass(r, err);
    r->keep = 0;
    *out = (stk_bytes){ r->buf + r->from, r->pos - r->from };
    return rc;
}
