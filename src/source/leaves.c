/* SPDX-License-Identifier: Apache-2.0 */
/* leaves.c - small documents of two levels: {top: {sub: value or [values]}} and {top: [values]}.
 *
 * Enough for the indexes of other tools, which programs write.  Deeper values of a JSON document
 * are passed over; YAML beyond what those programs write is refused, not guessed. */
#include "source/leaves.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"

typedef struct leaves {
    stk_leaf_fn fn;
    void *cookie;
    stk_text top, sub, value; /* empty text: s may be NULL */
    unsigned line;            /* of YAML */
    size_t indent;            /* of sub's level; 0: top has none yet */
} leaves;

static void leaves_fini(leaves *l)
{
    stk_free(l->top.s);
    stk_free(l->sub.s);
    stk_free(l->value.s);
}

static int set(stk_text *t, const void *s, size_t len, stk_error *err)
{
    t->len = 0;
    return memchr(s, 0, len) ? stk_fail(err, STK_ECORRUPT, "a null character in a name")
                             : stk_text_put(t, s, len, err);
}

static const char *of(const stk_text *t)
{
    return t->len ? t->s : "";
}

static int emit(leaves *l, const char *value, stk_error *err)
{
    return l->fn(l->cookie, of(&l->top), of(&l->sub), value, err);
}

/* ---- JSON ---- */

/* A string without quotes, anything else as it is written. */
static int set_json(stk_text *t, stk_bytes raw, stk_error *err)
{
    uint8_t *plain;
    size_t len = 0;
    int rc;

    if (!raw.len || raw.data[0] != '"')
        return set(t, raw.data, raw.len, err);
    plain = stk_alloc(raw.len);
    rc = plain ? stk_json_unquote(raw, plain, &len, err) : stk_fail_nomem(err, raw.len);
    if (rc == 0)
        rc = set(t, plain, len, err);
    stk_free(plain);
    return rc;
}

static int json_item(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    leaves *l = cookie;

    (void)key;
    if (value.data[0] == '{' || value.data[0] == '[')
        return 0;
    STK_TRY(set_json(&l->value, value, err));
    return emit(l, of(&l->value), err);
}

static int json_value(leaves *l, stk_bytes value, stk_error *err)
{
    if (value.data[0] != '[')
        return json_item(l, (stk_bytes){ 0 }, value, err);
    STK_TRY(emit(l, NULL, err));
    return stk_json_elements(value, json_item, l, err);
}

static int json_sub(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    leaves *l = cookie;

    STK_TRY(set_json(&l->sub, key, err));
    return json_value(l, value, err);
}

static int json_top(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    leaves *l = cookie;

    STK_TRY(set_json(&l->top, key, err));
    l->sub.len = 0;
    return value.data[0] == '{' ? stk_json_members(value, json_sub, l, err)
                                : json_value(l, value, err);
}

int stk_leaves_json(stk_bytes text, stk_leaf_fn fn, void *cookie, stk_error *err)
{
    leaves l = { .fn = fn, .cookie = cookie };
    int rc = stk_json_members(text, json_top, &l, err);

    leaves_fini(&l);
    return rc;
}

/* ---- YAML ---- */

static int refuse(const leaves *l, const char *why, stk_error *err)
{
    return stk_fail(err, STK_ENOTSUP,
                    "line %u: %s; only maps, lists with dashes and plain or quoted values are read",
                    l->line, why);
}

static stk_bytes trim(stk_bytes s)
{
    while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\r'))
        s.len--;
    while (s.len && s.data[0] == ' ') {
        s.data++;
        s.len--;
    }
    return s;
}

/* Length of the quoted text at the beginning of s; 0: it has no end on this line. */
static size_t quoted(stk_bytes s)
{
    uint8_t q = s.data[0];

    for (size_t i = 1; i < s.len; i++)
        if (q == '"' && s.data[i] == '\\')
            i++;
        else if (s.data[i] == q && q == '\'' && i + 1 < s.len && s.data[i + 1] == q)
            i++;
        else if (s.data[i] == q)
            return i + 1;
    return 0;
}

static int unquote(leaves *l, stk_text *t, stk_bytes s, stk_error *err)
{
    stk_bytes all;

    if (s.data[0] == '"') { /* what JSON and YAML share */
        STK_TRY(stk_json_find(s, "", &all, err));
        return set_json(t, all, err);
    }
    STK_TRY(set(t, "", 0, err));
    for (size_t i = 1; i + 1 < s.len; i++) {
        STK_TRY(s.data[i] ? stk_text_put(t, s.data + i, 1, err)
                          : refuse(l, "a null character", err));
        i += s.data[i] == '\'';
    }
    return 0;
}

/* A value or key as the text it stands for. */
static int scalar(leaves *l, stk_text *t, stk_bytes s, stk_error *err)
{
    size_t end = s.len && (s.data[0] == '"' || s.data[0] == '\'') ? quoted(s) : 0;

    if (end && end == s.len)
        return unquote(l, t, s, err);
    if (!s.len || strchr("\"'[]{}&*!|>%@`?,", s.data[0]))
        return refuse(l, "a value of another kind", err);
    return set(t, s.data, s.len, err);
}

/* A comment after a plain value; in quotes "#" is nothing special. */
static stk_bytes without_comment(stk_bytes s)
{
    size_t from = s.len && (s.data[0] == '"' || s.data[0] == '\'') ? quoted(s) : 0;

    for (size_t i = from; i < s.len; i++)
        if (s.data[i] == '#' && (i == 0 || s.data[i - 1] == ' '))
            return trim((stk_bytes){ s.data, i });
    return s;
}

static int is_text(stk_bytes s, const char *what)
{
    return s.len == strlen(what) && !memcmp(s.data, what, s.len);
}

static int yaml_value(leaves *l, stk_bytes s, stk_error *err)
{
    if (!s.len || is_text(s, "[]") || is_text(s, "{}"))
        return emit(l, NULL, err);
    STK_TRY(scalar(l, &l->value, s, err));
    return emit(l, of(&l->value), err);
}

static int yaml_item(leaves *l, size_t indent, stk_bytes s, stk_error *err)
{
    if (!l->top.len)
        return refuse(l, "a list without a name", err);
    if (l->sub.len && indent < l->indent)
        return refuse(l, "a list that belongs to nothing", err);
    STK_TRY(scalar(l, &l->value, s, err));
    return emit(l, of(&l->value), err);
}

/* Where the key's colon is; s.len: there is none. */
static size_t colon(stk_bytes s)
{
    size_t i = s.data[0] == '"' || s.data[0] == '\'' ? quoted(s) : 0;

    while (i < s.len && !(s.data[i] == ':' && (i + 1 == s.len || s.data[i + 1] == ' ')))
        i++;
    return i;
}

static int yaml_key(leaves *l, size_t indent, stk_bytes s, stk_error *err)
{
    size_t cut = colon(s);
    stk_bytes key = { s.data, cut }, value;

    if (cut == s.len)
        return refuse(l, "a line without a key", err);
    value = without_comment(trim((stk_bytes){ s.data + cut + 1, s.len - cut - 1 }));
    if (!indent) {
        l->sub.len = l->indent = 0;
        STK_TRY(scalar(l, &l->top, key, err));
        return yaml_value(l, value, err);
    }
    if (!l->top.len || (l->indent && l->indent != indent))
        return refuse(l, "nested deeper than two levels", err);
    l->indent = indent;
    STK_TRY(scalar(l, &l->sub, key, err));
    return yaml_value(l, value, err);
}

static int yaml_line(leaves *l, stk_bytes line, stk_error *err)
{
    size_t indent = 0;
    stk_bytes s;

    while (indent < line.len && line.data[indent] == ' ')
        indent++;
    s = trim(line);
    if (!s.len || s.data[0] == '#' || is_text(s, "---") || is_text(s, "..."))
        return 0;
    if (memchr(line.data, '\t', line.len))
        return refuse(l, "a tab", err);
    if (s.data[0] == '-' && (s.len == 1 || s.data[1] == ' '))
        return yaml_item(l, indent, without_comment(trim((stk_bytes){ s.data + 1, s.len - 1 })),
                         err);
    return yaml_key(l, indent, s, err);
}

int stk_leaves_yaml(stk_bytes text, stk_leaf_fn fn, void *cookie, stk_error *err)
{
    leaves l = { .fn = fn, .cookie = cookie };
    int rc = 0;

    while (rc == 0 && text.len) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;

        l.line++;
        rc = yaml_line(&l, (stk_bytes){ text.data, len }, err);
        len += end != NULL;
        text.data += len;
        text.len -= len;
    }
    leaves_fini(&l);
    return rc;
}
