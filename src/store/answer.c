/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - what the headers of an answer say.  They come from anyone: all of it is bounded, and
 * what can't be understood counts as not said. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/hash.h"
#include "store/http.h"

void stk_answer_clear(stk_answer *a)
{
    memset(a, 0, sizeof *a);
    a->first = a->last = a->total = a->length = a->linked_size = UINT64_MAX;
}

static void take_text(char *out, size_t size, const char *s, size_t len)
{
    if (len >= size)
        len = 0; /* half of it would be another */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < ' ' || (unsigned char)s[i] >= 127)
            len = 0;
    memcpy(out, s, len);
    out[len] = 0;
}

/* Digits from s on; *end: after them.  UINT64_MAX: none, or too many. */
static uint64_t number(const char *s, const char **end)
{
    uint64_t n = 0;
    int digits = 0;

    for (; *s >= '0' && *s <= '9' && digits < 19; s++, digits++)
        n = n * 10 + (uint64_t)(*s - '0');
    *end = s;
    return digits && !isdigit((unsigned char)*s) ? n : UINT64_MAX;
}

/* "bytes 0-99/1234", where the total or the range can be "*". */
static void take_range(stk_answer *a, const char *s)
{
    uint64_t first = UINT64_MAX, last = UINT64_MAX;

    if (strncasecmp(s, "bytes ", 6))
        return;
    s += 6;
    if (*s == '*') {
        s++;
    } else {
        first = number(s, &s);
        if (first == UINT64_MAX || *s++ != '-')
            return;
        last = number(s, &s);
        if (last == UINT64_MAX || last < first)
            return;
    }
    if (*s++ != '/')
        return;
    a->unclear |= a->first != UINT64_MAX && (a->first != first || a->last != last);
    a->first = first;
    a->last = last;
    a->total = *s == '*' ? UINT64_MAX : number(s, &s);
}

static void take_length(stk_answer *a, const char *s)
{
    uint64_t length = number(s, &s);

    a->unclear |= a->length != UINT64_MAX && a->length != length;
    a->length = length;
}

static int64_t date(const char *s)
{
    struct tm tm = { 0 };

    return strptime(s, "%a, %d %b %Y %H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

/* <https://host/path?query>; rel="next", among others.  One that does not fit is kept as "?": a
 * listing that goes on without saying how. */
static void take_link(stk_answer *a, const char *s)
{
    if (!*s) /* too long, or odd */
        memcpy(a->next, "?", 2);
    for (const char *at = strchr(s, '<'); at; at = strchr(at + 1, '<')) {
        const char *close = strchr(at, '>'), *end = close ? close + strcspn(close, ",") : NULL;
        const char *rel = close ? strstr(close, "rel=\"next\"") : NULL, *query;

        if (!rel || rel > end)
            continue;
        query = memchr(at, '?', (size_t)(close - at));
        take_text(a->next, sizeof a->next, query ? query + 1 : "",
                  query ? (size_t)(close - query - 1) : 0);
        if (!a->next[0])
            memcpy(a->next, "?", 2);
        return;
    }
}

void stk_answer_header(stk_answer *a, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len), *end;
    char name[40], value[2048];
    size_t n, m;

    if (!colon || (size_t)(colon - line) >= sizeof name)
        return;
    n = (size_t)(colon - line);
    memcpy(name, line, n);
    name[n] = 0;
    for (m = len - n - 1, colon++; m && (*colon == ' ' || *colon == '\t'); m--)
        colon++;
    while (m && (unsigned char)colon[m - 1] <= ' ')
        m--;
    take_text(value, sizeof value, colon, m);
    if (!strcasecmp(name, "etag"))
        take_text(a->etag, sizeof a->etag, value, strlen(value));
    else if (!strcasecmp(name, "x-linked-etag"))
        take_text(a->linked_etag, sizeof a->linked_etag, value, strlen(value));
    else if (!strcasecmp(name, "x-linked-size"))
        a->linked_size = number(value, &end);
    else if (!strcasecmp(name, "content-length"))
        take_length(a, value);
    else if (!strcasecmp(name, "content-encoding"))
        snprintf(a->encoding, sizeof a->encoding, "%.31s", value[0] ? value : "unknown");
    else if (!strcasecmp(name, "content-range"))
        take_range(a, value);
    else if (!strcasecmp(name, "content-type"))
        take_text(a->content_type, sizeof a->content_type, value, strlen(value));
    else if (!strcasecmp(name, "location"))
        take_text(a->location, sizeof a->location, value, strlen(value));
    else if (!strcasecmp(name, "x-amz-bucket-region"))
        take_text(a->region, sizeof a->region, value, strlen(value));
    else if (!strcasecmp(name, "link"))
        take_link(a, value);
    else if (!strcasecmp(name, "date"))
        a->date = date(value);
    else if (!strcasecmp(name, "last-modified"))
        a->modified = date(value);
    else if (!strcasecmp(name, "retry-after") && number(value, &end) < 3600)
        a->retry_after = (uint32_t)number(value, &end);
}

void stk_etag_short(const char *etag, char out[64])
{
    size_t len = strlen(etag);
    int weak = !strncmp(etag, "W/", 2);

    if (weak) {
        etag += 2;
        len -= 2;
    }
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"') {
        etag++;
        len -= 2;
    }
    if (len + 2 < 64)
        snprintf(out, 64, "%s%.*s", weak ? "W/" : "", (int)len, etag);
    else
        snprintf(out, 64, "#%016llx%016llx", (unsigned long long)stk_hash64(1, etag, len),
                 (unsigned long long)stk_hash64(2, etag, len));
}

/* What was modified in the second of the answer may be modified again in that second: such a time
 * is not a version. */
void stk_answer_version(const stk_answer *a, int linked, char out[64])
{
    const char *etag = linked && a->linked_etag[0] ? a->linked_etag : a->etag;

    if (!etag[0] && a->modified && a->date > a->modified + 1)
        snprintf(out, 64, "@%lld", (long long)a->modified);
    else
        stk_etag_short(etag, out);
}
