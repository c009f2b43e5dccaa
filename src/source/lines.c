/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - the URL and the header lines of a request, signed. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "source/credentials.h"
#include "source/http.h"

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
    if (t->moved)
        return put(s->url, t->moved);
    STK_TRY(stk_target_origin(to, s->url));
    STK_TRY(put(s->url, to->path));
    if (to->query || t->query)
        STK_TRY(put(s->url, "?"));
    STK_TRY(put(s->url, to->query));
    STK_TRY(put(s->url, to->query && t->query ? "&" : NULL));
    return put(s->url, t->query);
}

static int add_plain_lines(const stk_lines *s, const stk_transfer *t)
{
    char line[160];
    int typed = 0;

    STK_TRY(add_line(s, "Accept:"));
    STK_TRY(add_line(s, "Expect:"));
    STK_TRY(add_line(s, "Accept-Encoding: identity")); /* offsets count stored bytes */
    for (int i = 0; i < 4; i++) {
        STK_TRY(add_line(s, t->header[i]));
        typed |= t->header[i] && !strncasecmp(t->header[i], "content-type:", 13);
    }
    if (t->body && !typed)
        STK_TRY(add_line(s, "Content-Type:"));
    if (t->len) {
        snprintf(line, sizeof line, "Range: bytes=%" PRIu64 "-%" PRIu64, t->offset + t->got,
                 t->offset + t->len - 1);
        STK_TRY(add_line(s, line));
    }
    if (t->etag && t->etag[0] && !strchr("#@", t->etag[0]) && strncmp(t->etag, "W/", 2) &&
        !t->to->linked) {
        snprintf(line, sizeof line, "If-Match: \"%s\"", t->etag);
        STK_TRY(add_line(s, line));
    }
    return 0;
}

/* Authorization is for the target's own host, not for where that sends us. */
static int add_auth(const stk_lines *s, const stk_transfer *t, const stk_keys *keys)
{
    const char *more[6], *host = strstr(s->url->s, "://") + 3;
    char region[64], token[sizeof keys->token + 32], name[300], body_hash[2 * STK_SHA256 + 1];
    uint8_t hash[STK_SHA256];
    stk_signed out;
    stk_sign_in in = { .method = t->method,
                       .path = t->to->path,
                       .query = t->query,
                       .payload = STK_UNSIGNED,
                       .region = region,
                       .service = t->service ? t->service : "s3",
                       .keys = keys,
                       .now = stk_store_clock(t->to->store),
                       .headers = more,
                       .kept = s->day_key };

    if (!keys->id[0]) {
        snprintf(token, sizeof token, "Authorization: Bearer %s", keys->token);
        return add_line(s, token);
    }
    snprintf(region, sizeof region, "%s", t->to->region ? t->to->region : "");
    if (!region[0])
        stk_store_region(t->to->store, t->to->bucket, region, sizeof region);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(host, "/?"), host);
    in.host = name;
    if (t->service) { /* others than S3 want the body's hash */
        stk_sha256(t->body ? t->body : "", t->body_len, hash);
        stk_hex(hash, sizeof hash, body_hash);
        in.payload = body_hash;
    }
    for (int i = 0; i < 4; i++)
        if (t->header[i] && !strncmp(t->header[i], "x-amz-", 6))
            more[in.n_headers++] = t->header[i];
    if (keys->token[0]) {
        snprintf(token, sizeof token, "x-amz-security-token:%s", keys->token);
        more[in.n_headers++] = token;
        STK_TRY(add_line(s, token));
    }
    STK_TRY(stk_sign(&in, &out, NULL));
    STK_TRY(add_line(s, out.authorization));
    STK_TRY(add_line(s, out.date));
    return add_line(s, out.content);
}

/* 0; STK_PENDING: its keys must be looked up first. */
static int add_keys(const stk_lines *s, stk_transfer *t)
{
    char line[sizeof((stk_keys *)0)->token + 32];
    stk_keys keys;
    int rc;

    if (t->moved || t->to->auth == STK_AUTH_NONE)
        return 0;
    if (t->to->auth == STK_AUTH_BEARER) {
        if (!t->to->token)
            return 0;
        snprintf(line, sizeof line, "Authorization: Bearer %s", t->to->token);
        return add_line(s, line);
    }
    if (t->keys)
        return add_auth(s, t, t->keys);
    rc = stk_keys_peek(t->to->store, t->to->google, &keys, &t->keys_turn);
    if (rc == 0 && (keys.id[0] || keys.token[0]))
        rc = add_auth(s, t, &keys);
    explicit_bzero(&keys, sizeof keys);
    return rc;
}

int stk_lines_make(const stk_lines *s, stk_transfer *t)
{
    STK_TRY(url_of(s, t));
    STK_TRY(add_plain_lines(s, t));
    return add_keys(s, t);
}
