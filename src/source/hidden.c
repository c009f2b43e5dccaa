/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.c - what is not shown of web addresses: queries and passwords.
 *
 * They can be secrets, and addresses become names in indexes and errors.  So stk_url_hide() cuts
 * them off when names are expanded and keeps them here, by the rest, for the one who opens the
 * file.  A query says which file it is, but for the parameters of a signature: a hash of the others
 * is put into the name, before the file's own, http://host/folder/?0123456789abcdef~file.tar. */
#include "source/hidden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"

typedef struct hidden {
    struct hidden *next;
    stk_hidden is;
    char url[];
} hidden;

#define LISTS 4096u

stk_mutex stk_hidden_lock = STK_MUTEX_INITIALIZER;
static hidden *lists[LISTS] STK_GUARDED(stk_hidden_lock);

static hidden **list_of(const char *url)
{
    return &lists[stk_hash64(0, url, strlen(url)) % LISTS];
}

static hidden *find_locked(const char *url) STK_REQUIRES(stk_hidden_lock)
{
    hidden *h = *list_of(url);

    while (h && strcmp(h->url, url) != 0)
        h = h->next;
    return h;
}

stk_url_parts stk_url_split(const char *url)
{
    const char *host = strstr(url, "://") + 3, *at;
    size_t len = strcspn(host, "/?#");

    at = memrchr(host, '@', len);
    return (stk_url_parts){ .scheme = (size_t)(host - url),
                            .user = at ? (size_t)(at + 1 - host) : 0,
                            .path = (size_t)(host - url) + len,
                            .query = strcspn(url, "?#") };
}

static int keep(const char *bare, const char *url, const stk_url_parts *p)
{
    size_t len = strlen(bare) + 1, n = url[p->query] == '?' ? strcspn(url + p->query + 1, "#") : 0;
    hidden *h, *fresh = stk_zalloc(1, sizeof *fresh + len);

    if (!fresh)
        return STK_ENOMEM;
    memcpy(fresh->url, bare, len);
    fresh->is.user = p->user ? stk_strndup(url + p->scheme, p->user - 1) : NULL;
    fresh->is.query = n ? stk_strndup(url + p->query + 1, n) : NULL;
    stk_mutex_lock(&stk_hidden_lock);
    h = find_locked(bare);
    if (h) { /* signed again: the later one counts */
        stk_hidden was = h->is;

        h->is = fresh->is;
        fresh->is = was;
    } else {
        fresh->next = *list_of(bare);
        *list_of(bare) = fresh;
        fresh = NULL;
    }
    stk_mutex_unlock(&stk_hidden_lock);
    if (fresh) {
        stk_hidden_fini(&fresh->is);
        stk_free(fresh);
    }
    return 0;
}

/* Does the query have this parameter? */
static int has_parameter(const char *query, size_t len, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = query, *end = query + len; p < end;) {
        size_t all = (size_t)(end - p), one = strcspn(p, "&");

        if (one > all)
            one = all;
        if (one >= n && !strncasecmp(p, name, n) && (one == n || p[n] == '='))
            return 1;
        p += one + (one < all);
    }
    return 0;
}

static int in_words(const char *words, const char *name, size_t len)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (n == len && !strncasecmp(words, name, len))
            return 1;
    }
    return 0;
}

/* Does the parameter belong to a signature?  Names that others use too do so beside their mark:
 * CloudFront, version 2 of AWS and Google, Aliyun; Azure; Tencent. */
static int is_signature(const char *query, size_t len, const char *name, size_t n)
{
    static const struct {
        const char *mark, *names;
    } schemes[] = {
        { "signature", "signature expires policy key-pair-id awsaccesskeyid googleaccessid "
                       "ossaccesskeyid security-token" },
        { "sig", "sig sv ss srt sp se st spr sr sip si skoid sktid skt ske sks skv saoid suoid "
                 "scid sdd" },
        { "q-signature", "q-signature q-sign-algorithm q-ak q-sign-time q-key-time q-header-list "
                         "q-url-param-list" },
    };

    if (n > 6 && (!strncasecmp(name, "x-amz-", 6) || !strncasecmp(name, "x-oss-", 6)))
        return 1;
    if (n > 7 && !strncasecmp(name, "x-goog-", 7))
        return 1;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (in_words(schemes[i].names, name, n) && has_parameter(query, len, schemes[i].mark))
            return 1;
    return 0;
}

/* A hash of the parameters that say which file it is; 0: there are none. */
static uint64_t query_identity(const char *query, size_t len)
{
    uint64_t hash = 0;

    for (const char *p = query, *end = query + len; p < end;) {
        size_t all = (size_t)(end - p), one = strcspn(p, "&");

        if (one > all)
            one = all;
        if (one && !is_signature(query, len, p, strcspn(p, "=&") < one ? strcspn(p, "=&") : one))
            hash = stk_hash64(hash + 1, p, one) | 1u;
        p += one + (one < all);
    }
    return hash;
}

const char *stk_url_mark(const char *url)
{
    const char *mark = strpbrk(url, "?#");

    return mark && mark > url && mark[-1] == '/' && *mark == '?' &&
                   strspn(mark + 1, "0123456789abcdef") == STK_URL_MARK - 2 &&
                   mark[STK_URL_MARK - 1] == '~' && !strchr(mark, '/')
               ? mark
               : NULL;
}

/* The path, with the query's mark before the name of the file. */
static int put_marked(stk_text *out, const char *path, size_t len, uint64_t identity,
                      stk_error *err)
{
    const char *slash = memrchr(path, '/', len);
    size_t head = slash ? (size_t)(slash + 1 - path) : 0;
    char mark[STK_URL_MARK + 2];

    snprintf(mark, sizeof mark, "%s?%016" PRIx64 "~", slash ? "" : "/", identity);
    STK_TRY(stk_text_put(out, path, slash ? head : len, err));
    STK_TRY(stk_text_put(out, mark, strlen(mark), err));
    return slash ? stk_text_put(out, path + head, len - head, err) : 0;
}

int stk_url_hide(const char *url, stk_text *out, stk_error *err)
{
    stk_url_parts p;
    uint64_t identity;

    if (stk_url_mark(url)) /* it is hidden already */
        return stk_text_put(out, url, strlen(url), err);
    p = stk_url_split(url);
    identity = url[p.query] == '?'
                   ? query_identity(url + p.query + 1, strcspn(url + p.query + 1, "#"))
                   : 0;
    STK_TRY(stk_text_put(out, url, p.scheme, err));
    STK_TRY(stk_text_put(out, url + p.scheme + p.user, p.path - p.scheme - p.user, err));
    if (identity)
        STK_TRY(put_marked(out, url + p.path, p.query - p.path, identity, err));
    else
        STK_TRY(stk_text_put(out, url + p.path, p.query - p.path, err));
    if (!p.user && !url[p.query])
        return 0;
    return keep(out->s, url, &p) < 0 ? stk_fail_nomem(err, strlen(url)) : 0;
}

static int copy(char **out, const char *s, stk_error *err)
{
    *out = s ? stk_strdup(s) : NULL;
    return *out || !s ? 0 : stk_fail_nomem(err, strlen(s) + 1);
}

int stk_url_reveal(const char *url, stk_hidden *out, stk_error *err)
{
    hidden *h;
    int rc = 0;

    *out = (stk_hidden){ 0 };
    stk_mutex_lock(&stk_hidden_lock);
    h = find_locked(url);
    if (h)
        rc = copy(&out->query, h->is.query, err);
    if (h && rc == 0)
        rc = copy(&out->user, h->is.user, err);
    stk_mutex_unlock(&stk_hidden_lock);
    if (rc < 0)
        stk_hidden_fini(out);
    return rc;
}

void stk_secret_free(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    stk_free(*secret);
    *secret = NULL;
}

void stk_hidden_fini(stk_hidden *h)
{
    stk_secret_free(&h->query);
    stk_secret_free(&h->user);
}
