/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - the URL and the header lines of a request, which its dialect signs. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/dialect.h"

static int add_line(const stk_lines *s, const char *line)
{
    return line ? s->add(s->cookie, line) : 0;
}

static int put(stk_text *t, const char *s)
{
    return s ? stk_text_put(t, s, strlen(s), NULL) : 0;
}

/* The query that the address has, and the request's. */
static int url_of(const stk_lines *s, const stk_transfer *t)
{
    const stk_target *to = t->to;

    s->url->len = 0;
    if (t->own.moved)
        return put(s->url, t->own.moved);
    STK_TRY(to->dialect->origin ? to->dialect->origin(to, s->url) : put(s->url, to->origin));
    STK_TRY(put(s->url, to->path));
    if (to->query || t->query)
        STK_TRY(put(s->url, "?"));
    STK_TRY(put(s->url, to->query));
    STK_TRY(put(s->url, to->query && t->query ? "&" : NULL));
    return put(s->url, t->query);
}

int stk_transfer_sends(const stk_transfer *t)
{
    return t->body || !strcmp(t->method, "PUT") || !strcmp(t->method, "POST");
}

/* A version that If-Match can name: not one of ours, nor one that the bytes' own server does not
 * know. */
static int can_match(const stk_transfer *t)
{
    return t->etag && t->etag[0] && !strchr("#@", t->etag[0]) && strncmp(t->etag, "W/", 2) &&
           !t->to->dialect->linked;
}

static int add_plain_lines(stk_lines *s, const stk_transfer *t)
{
    int typed = 0;

    STK_TRY(add_line(s, "Accept:"));
    STK_TRY(add_line(s, "Expect:"));
    STK_TRY(add_line(s, "Accept-Encoding: identity")); /* offsets count stored bytes */
    for (int i = 0; i < STK_HEADERS; i++) {
        STK_TRY(add_line(s, t->header[i]));
        typed |= t->header[i] && !strncasecmp(t->header[i], "content-type:", 13);
    }
    if (stk_transfer_sends(t) && !typed)
        STK_TRY(add_line(s, "Content-Type:"));
    s->range[0] = s->match[0] = 0;
    if (t->len)
        snprintf(s->range, sizeof s->range, "Range: bytes=%" PRIu64 "-%" PRIu64, t->offset + t->got,
                 t->offset + t->len - 1);
    if (can_match(t))
        snprintf(s->match, sizeof s->match, "If-Match: \"%s\"", t->etag);
    STK_TRY(add_line(s, s->range[0] ? s->range : NULL));
    return add_line(s, s->match[0] ? s->match : NULL);
}

/* Keys are for the target's own host, not for where that sends us. */
int stk_lines_make(stk_lines *s, stk_transfer *t)
{
    STK_TRY(url_of(s, t));
    STK_TRY(add_plain_lines(s, t));
    return t->own.moved || !t->to->dialect->sign ? 0 : t->to->dialect->sign(s, t);
}
