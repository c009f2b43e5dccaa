/* SPDX-License-Identifier: Apache-2.0 */
/* braces.c - brace expansion with the meaning that Python's braceexpand 0.1.7 gives it, which
 * WebDataset uses.
 *
 * A pattern becomes a tree: CAT is the product of its children (the last turns fastest), ALT one
 * child after the other, INTS and CHARS are ranges.  Every node knows how many strings it stands
 * for, so the i-th name is arithmetic and a pattern of a billion names costs nothing until the
 * caller's limit refuses it.
 *
 * Two quirks are kept on purpose, since names must come out alike: a '}' before its '{' counts
 * as depth -1, so "}{" is balanced; and backslashes are taken off once per level of nesting, not
 * once in all. */
#include "source/braces.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define DEPTH_MAX 64
#define NODES_MAX (1u << 20)
#define NAME_MAX_LEN (1u << 20)
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

typedef enum kind { LIT, INTS, CHARS, CAT, ALT } kind;

typedef struct node {
    kind kind;
    uint32_t child, next; /* numbers of nodes; 0: none */
    uint64_t count;
    const char *text; /* LIT */
    size_t len;
    int64_t first, step; /* INTS, CHARS: values first, first + step, ... */
    int width;           /* INTS: zero-padded to it */
} node;

struct stk_braces {
    char *pattern;
    size_t len;
    node *nodes; /* [0] is unused, so that 0 can mean none */
    uint32_t n, cap;
    uint32_t root;
    stk_text out;
};

typedef struct span {
    const char *s;
    size_t len;
} span;

static int parse_pattern(stk_braces *b, span p, int depth, uint32_t *out, stk_error *err);

static uint64_t sat_mul(uint64_t a, uint64_t c)
{
    return a && c > UINT64_MAX / a ? UINT64_MAX : a * c;
}

static uint64_t sat_add(uint64_t a, uint64_t c)
{
    return c > UINT64_MAX - a ? UINT64_MAX : a + c;
}

static int add_node(stk_braces *b, kind k, uint32_t *out, stk_error *err)
{
    uint32_t cap = b->cap ? b->cap * 2 : 16;
    node *grown;

    if (b->n == NODES_MAX)
        return stk_fail(err, STK_ELIMIT, "the pattern \"%.100s\" has too many parts", b->pattern);
    if (b->n == b->cap) {
        grown = stk_grow(b->nodes, b->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        b->nodes = grown;
        b->cap = cap;
    }
    memset(&b->nodes[b->n], 0, sizeof *b->nodes);
    b->nodes[b->n].kind = k;
    b->nodes[b->n].count = k == ALT ? 0 : 1;
    *out = b->n++;
    return 0;
}

/* Hang `child` after `*last` (0: as the first) under `parent`. */
static void append(stk_braces *b, uint32_t parent, uint32_t *last, uint32_t child)
{
    node *p = &b->nodes[parent];

    if (*last)
        b->nodes[*last].next = child;
    else
        p->child = child;
    *last = child;
    p->count = p->kind == ALT ? sat_add(p->count, b->nodes[child].count)
                              : sat_mul(p->count, b->nodes[child].count);
}

static int add_literal(stk_braces *b, uint32_t parent, uint32_t *last, span text, stk_error *err)
{
    uint32_t id = 0;

    STK_TRY(add_node(b, LIT, &id, err));
    b->nodes[id].text = text.s;
    b->nodes[id].len = text.len;
    append(b, parent, last, id);
    return 0;
}

/* ---- ranges ---- */

static size_t digits(span s, size_t at)
{
    size_t n = 0;

    while (at + n < s.len && s.s[at + n] >= '0' && s.s[at + n] <= '9')
        n++;
    return n;
}

static int dots(span s, size_t at)
{
    return at + 2 <= s.len && s.s[at] == '.' && s.s[at + 1] == '.';
}

/* "..STEP" or nothing up to the end; a newline may follow, as with `$` in Python. */
static int range_tail(span s, size_t at, span *step)
{
    size_t n;

    *step = (span){ NULL, 0 };
    if (dots(s, at)) {
        at += 2;
        at += at < s.len && s.s[at] == '-';
        n = digits(s, at);
        if (!n)
            return 0;
        *step = (span){ s.s + at, n };
        at += n;
    }
    return at == s.len || (at + 1 == s.len && s.s[at] == '\n');
}

static int int_bound(span s, size_t at, span *out)
{
    size_t sign = at < s.len && s.s[at] == '-', n = digits(s, at + sign);

    *out = (span){ s.s + at, sign + n };
    return n > 0;
}

static int is_int_range(span s, span *a, span *z, span *step)
{
    if (!int_bound(s, 0, a) || !dots(s, a->len) || !int_bound(s, a->len + 2, z))
        return 0;
    return range_tail(s, a->len + 2 + z->len, step);
}

static int is_char_range(span s, span *step)
{
    if (s.len < 4 || !dots(s, 1) || !memchr(LETTERS, s.s[0], 52) || !memchr(LETTERS, s.s[3], 52))
        return 0;
    return range_tail(s, 4, step);
}

/* Values that fit 18 digits; larger ones are refused by the caller (steps are just that large). */
static int number(span s, int64_t *out)
{
    size_t i = s.len && s.s[0] == '-';
    int64_t v = 0;

    for (; i < s.len; i++) {
        if (v > INT64_MAX / 16)
            return 0;
        v = v * 10 + (s.s[i] - '0');
    }
    *out = s.len && s.s[0] == '-' ? -v : v;
    return 1;
}

static int zero_led(span s)
{
    size_t sign = s.len && s.s[0] == '-';

    return s.len > sign + 1 && s.s[sign] == '0';
}

static void set_range(node *n, int64_t first, int64_t last, span step)
{
    int64_t by = 1;

    if (step.len && !number(step, &by))
        by = INT64_MAX / 4;
    by = by ? by : 1;
    n->first = first;
    n->step = first < last ? by : -by;
    n->count = (uint64_t)(first < last ? last - first : first - last) / (uint64_t)by + 1;
}

static int add_int_range(stk_braces *b, span a, span z, span step, uint32_t *out, stk_error *err)
{
    size_t width = a.len > z.len ? a.len : z.len;
    int64_t first, last;

    if (!number(a, &first) || !number(z, &last) || width > 4096)
        return stk_fail(err, STK_ELIMIT, "a number in the braces of \"%.120s\" has too many digits",
                        b->pattern);
    STK_TRY(add_node(b, INTS, out, err));
    set_range(&b->nodes[*out], first, last, step);
    b->nodes[*out].width = zero_led(a) || zero_led(z) ? (int)width : 0;
    return 0;
}

static int add_char_range(stk_braces *b, span expr, span step, uint32_t *out, stk_error *err)
{
    STK_TRY(add_node(b, CHARS, out, err));
    set_range(&b->nodes[*out], strchr(LETTERS, expr.s[0]) - LETTERS,
              strchr(LETTERS, expr.s[3]) - LETTERS, step);
    return 0;
}

/* ---- the tree ---- */

/* A comma list; *out stays 0 when there is no comma outside inner braces. */
static int parse_sequence(stk_braces *b, span s, int depth, uint32_t *out, stk_error *err)
{
    size_t start = 0, pos;
    int64_t inner = 0;
    uint32_t id = 0, last = 0;

    *out = 0;
    for (pos = 0; pos <= s.len; pos++) {
        char c = pos < s.len ? s.s[pos] : ','; /* the end closes the last part */

        if (c == '\\') {
            pos++;
            continue;
        }
        inner += c == '{';
        inner -= c == '}';
        if (c != ',' || inner || (pos == s.len && !*out))
            continue;
        if (!*out)
            STK_TRY(add_node(b, ALT, out, err));
        STK_TRY(parse_pattern(b, (span){ s.s + start, pos - start }, depth + 1, &id, err));
        append(b, *out, &last, id);
        start = pos + 1;
    }
    return 0;
}

/* What stands between a pair of braces: a range, a list, or neither (then the braces are
 * letters). */
static int parse_expression(stk_braces *b, span expr, int depth, uint32_t *out, stk_error *err)
{
    span a, z, step;

    if (is_int_range(expr, &a, &z, &step))
        return add_int_range(b, a, z, step, out, err);
    if (is_char_range(expr, &step))
        return add_char_range(b, expr, step, out, err);
    return parse_sequence(b, expr, depth, out, err);
}

static int add_expression(stk_braces *b, span expr, int depth, uint32_t parent, uint32_t *last,
                          stk_error *err)
{
    uint32_t id = 0;

    STK_TRY(parse_expression(b, expr, depth, &id, err));
    if (id) {
        append(b, parent, last, id);
        return 0;
    }
    STK_TRY(add_literal(b, parent, last, (span){ "{", 1 }, err));
    STK_TRY(parse_pattern(b, expr, depth + 1, &id, err));
    append(b, parent, last, id);
    return add_literal(b, parent, last, (span){ "}", 1 }, err);
}

static int parse_pattern(stk_braces *b, span p, int depth, uint32_t *out, stk_error *err)
{
    size_t start = 0, pos;
    int64_t open = 0;
    uint32_t last = 0;

    if (depth > DEPTH_MAX)
        return stk_fail(err, STK_ELIMIT, "braces nest deeper than %d in \"%.120s\"", DEPTH_MAX,
                        b->pattern);
    STK_TRY(add_node(b, CAT, out, err));
    for (pos = 0; pos < p.len; pos++) {
        if (p.s[pos] == '\\') {
            pos++;
        } else if (p.s[pos] == '{') {
            if (!open && pos > start) {
                STK_TRY(add_literal(b, *out, &last, (span){ p.s + start, pos - start }, err));
                start = pos;
            }
            open++;
        } else if (p.s[pos] == '}' && --open == 0) {
            span expr = { p.s + start + 1, pos - start - 1 };

            STK_TRY(add_expression(b, expr, depth, *out, &last, err));
            start = pos + 1;
        }
    }
    if (open)
        return stk_fail(
            err, STK_EINVAL,
            "unbalanced braces in \"%.150s\": write \\{ or \\} for the character itself",
            b->pattern);
    if (start < p.len)
        return add_literal(b, *out, &last, (span){ p.s + start, p.len - start }, err);
    return 0;
}

/* ---- names ---- */

static int put(stk_braces *b, const char *s, size_t len, stk_error *err)
{
    if (len > NAME_MAX_LEN || b->out.len + len > NAME_MAX_LEN)
        return stk_fail(err, STK_ELIMIT, "a name from \"%.120s\" is longer than 1 MiB", b->pattern);
    return stk_text_put(&b->out, s, len, err);
}

/* Take one level of backslashes off out[from..]; one before a newline or at the end stays. */
static void unescape(stk_braces *b, size_t from)
{
    size_t r, w = from;

    for (r = from; r < b->out.len; r++) {
        if (b->out.s[r] == '\\' && r + 1 < b->out.len && b->out.s[r + 1] != '\n')
            r++;
        b->out.s[w++] = b->out.s[r];
    }
    b->out.len = w;
}

static int emit(stk_braces *b, uint32_t id, uint64_t i, stk_error *err);

static int emit_cat(stk_braces *b, const node *n, uint64_t i, stk_error *err)
{
    uint64_t below = n->count;
    size_t from = b->out.len;

    for (uint32_t c = n->child; c; c = b->nodes[c].next) {
        below /= b->nodes[c].count;
        STK_TRY(emit(b, c, i / below, err));
        i %= below;
    }
    unescape(b, from);
    return 0;
}

static int emit_range(stk_braces *b, const node *n, uint64_t i, stk_error *err)
{
    int64_t value = n->first + (int64_t)i * n->step;
    char text[4128];

    if (n->kind == CHARS)
        return put(b, &LETTERS[value], 1, err);
    return put(b, text,
               (size_t)snprintf(text, sizeof text, "%0*" PRId64, n->width ? n->width : 1, value),
               err);
}

static int emit(stk_braces *b, uint32_t id, uint64_t i, stk_error *err)
{
    const node *n = &b->nodes[id];
    uint32_t c;

    switch (n->kind) {
    case LIT: return put(b, n->text, n->len, err);
    case INTS:
    case CHARS: return emit_range(b, n, i, err);
    case CAT: return emit_cat(b, n, i, err);
    case ALT: break;
    }
    for (c = n->child; i >= b->nodes[c].count; c = b->nodes[c].next)
        i -= b->nodes[c].count;
    return emit(b, c, i, err);
}

int stk_braces_open(stk_braces **out, const char *pattern, size_t len, stk_error *err)
{
    stk_braces *b = STK_NEW(stk_braces);
    uint32_t unused;
    int rc;

    *out = NULL;
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    b->len = len;
    b->pattern = stk_strndup(pattern, len);
    rc = b->pattern ? add_node(b, LIT, &unused, err) : stk_fail_nomem(err, len + 1);
    if (rc == 0)
        rc = parse_pattern(b, (span){ b->pattern, len }, 0, &b->root, err);
    if (rc < 0)
        stk_braces_close(&b);
    *out = b;
    return rc;
}

void stk_braces_close(stk_braces **b)
{
    if (!*b)
        return;
    stk_free((*b)->pattern);
    stk_free((*b)->nodes);
    stk_free((*b)->out.s);
    stk_free(*b);
    *b = NULL;
}

uint64_t stk_braces_count(const stk_braces *b)
{
    return b->nodes[b->root].count;
}

int stk_braces_at(stk_braces *b, uint64_t i, stk_bytes *out, stk_error *err)
{
    b->out.len = 0;
    STK_TRY(emit(b, b->root, i, err));
    *out = (stk_bytes){ (const uint8_t *)b->out.s, b->out.len };
    return 0;
}
