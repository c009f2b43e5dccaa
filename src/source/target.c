/* SPDX-License-Identifier: Apache-2.0 */
/* target.c - from a URL to the address that requests go to.
 *
 *   s3://bucket/key                   the store's endpoint, or AWS by region
 *   gs://bucket/key                   Google's XML API, which speaks S3
 *   hf://datasets/org/name[@rev]/path resolve URLs of the Hub
 *   http://, https://                 as they are
 *
 * A key can have any character: all of it up to the end of the URL belongs to it.  Queries and
 * passwords of an http URL can be secrets, and URLs become names in indexes and errors; so
 * stk_url_hide() cuts them off when names are expanded and keeps them here, by the rest.  A query
 * says which file it is, but for the parameters of a signature: a hash of the others stands in the
 * name, before the file's own, http://host/folder/?0123456789abcdef~file.tar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"
#include "source/http.h"
#include "source/remote.h"

#define GOOGLE "https://storage.googleapis.com"
#define HUB "https://huggingface.co"

/* ---- what is hidden of URLs ---- */

typedef struct hidden {
    struct hidden *next;
    char *query, *user; /* NULL: none */
    char url[];
} hidden;

#define LISTS 4096u

static hidden *lists[LISTS] STK_GUARDED(stk_store_lock);

static hidden **list_of(const char *url)
{
    return &lists[stk_hash64(0, url, strlen(url)) % LISTS];
}

static hidden *find_locked(const char *url) STK_REQUIRES(stk_store_lock)
{
    hidden *h = *list_of(url);

    while (h && strcmp(h->url, url) != 0)
        h = h->next;
    return h;
}

/* The parts of http[s]://user:password@host/path?query. */
static void split(const char *url, size_t *scheme, size_t *user, size_t *query)
{
    const char *host = strstr(url, "://") + 3, *at;
    size_t len = strcspn(host, "/?#");

    *scheme = (size_t)(host - url);
    at = memrchr(host, '@', len);
    *user = at ? (size_t)(at + 1 - host) : 0;
    *query = strcspn(url, "?#");
}

static int keep(const char *bare, const char *url, size_t scheme, size_t user, size_t query)
{
    size_t len = strlen(bare) + 1, n = url[query] == '?' ? strcspn(url + query + 1, "#") : 0;
    hidden *h, *fresh = stk_zalloc(1, sizeof *fresh + len);

    if (!fresh)
        return STK_ENOMEM;
    memcpy(fresh->url, bare, len);
    fresh->user = user ? stk_strndup(url + scheme, user - 1) : NULL;
    fresh->query = n ? stk_strndup(url + query + 1, n) : NULL;
    stk_mutex_lock(&stk_store_lock);
    h = find_locked(bare);
    if (h) { /* signed again: the later one counts */
        char *q = h->query, *u = h->user;

        h->query = fresh->query;
        h->user = fresh->user;
        fresh->query = q;
        fresh->user = u;
    } else {
        fresh->next = *list_of(bare);
        *list_of(bare) = fresh;
        fresh = NULL;
    }
    stk_mutex_unlock(&stk_store_lock);
    if (fresh) {
        stk_free(fresh->query);
        stk_free(fresh->user);
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

#define MARK_LEN 18u /* "?0123456789abcdef~" */

/* Where the mark of a hidden name is; NULL: it has none. */
static char *mark_of(const char *url)
{
    char *mark = strpbrk(url, "?#");

    return mark && mark > url && mark[-1] == '/' && *mark == '?' &&
                   strspn(mark + 1, "0123456789abcdef") == MARK_LEN - 2 &&
                   mark[MARK_LEN - 1] == '~' && !strchr(mark, '/')
               ? mark
               : NULL;
}

/* The path, with the query's mark before the name of the file. */
static int put_marked(stk_text *out, const char *path, size_t len, uint64_t identity,
                      stk_error *err)
{
    const char *slash = memrchr(path, '/', len);
    size_t head = slash ? (size_t)(slash + 1 - path) : 0;
    char mark[MARK_LEN + 2];

    snprintf(mark, sizeof mark, "%s?%016" PRIx64 "~", slash ? "" : "/", identity);
    STK_TRY(stk_text_put(out, path, slash ? head : len, err));
    STK_TRY(stk_text_put(out, mark, strlen(mark), err));
    return slash ? stk_text_put(out, path + head, len - head, err) : 0;
}

int stk_url_hide(const char *url, stk_text *out, stk_error *err)
{
    size_t scheme, user, query, host;
    uint64_t identity;

    if (mark_of(url)) /* it is hidden already */
        return stk_text_put(out, url, strlen(url), err);
    split(url, &scheme, &user, &query);
    host = scheme + strcspn(url + scheme, "/?#");
    identity = url[query] == '?'
                   ? query_identity(url + query + 1, strcspn(url + query + 1, "#"))
                   : 0;
    STK_TRY(stk_text_put(out, url, scheme, err));
    STK_TRY(stk_text_put(out, url + scheme + user, host - scheme - user, err));
    if (identity)
        STK_TRY(put_marked(out, url + host, query - host, identity, err));
    else
        STK_TRY(stk_text_put(out, url + host, query - host, err));
    if (!user && !url[query])
        return 0;
    return keep(out->s, url, scheme, user, query) < 0 ? stk_fail_nomem(err, strlen(url)) : 0;
}

/* ---- targets ---- */

static int copy(char **out, const char *s, size_t len, stk_error *err)
{
    *out = stk_strndup(s, len);
    return *out ? 0 : stk_fail_nomem(err, len + 1);
}

static const char *env_or(const char *name, const char *usual)
{
    const char *text = getenv(name);

    return text && *text ? text : usual;
}

/* "/bucket/key" or "/key", encoded. */
static int object_path(stk_target *t, const char *key, int with_bucket, stk_error *err)
{
    stk_text p = { 0 };
    int rc = stk_text_put(&p, "/", 1, err);

    if (rc == 0 && with_bucket)
        rc = stk_uri_encode(&p, t->bucket, strlen(t->bucket), 0, err);
    if (rc == 0 && with_bucket)
        rc = stk_text_put(&p, "/", 1, err);
    if (rc == 0)
        rc = stk_uri_encode(&p, key, strlen(key), 1, err);
    t->path = p.s;
    return rc;
}

/* "https://{bucket}.host": the bucket is a part of the host's name. */
static int origin_with_bucket(stk_target *t, const char *endpoint, stk_error *err)
{
    const char *mark = strstr(endpoint, "{bucket}");
    stk_text o = { 0 };
    int rc = stk_text_put(&o, endpoint, (size_t)(mark - endpoint), err);

    if (rc == 0)
        rc = stk_text_put(&o, t->bucket, strlen(t->bucket), err);
    if (rc == 0)
        rc = stk_text_put(&o, mark + 8, strlen(mark + 8), err);
    t->origin = o.s;
    return rc;
}

static int check_bucket(const char *bucket, stk_error *err)
{
    for (const char *p = bucket; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p))
            return stk_fail(err, STK_EINVAL, "the name of a bucket can't have '%c'", *p);
    return *bucket ? 0 : stk_fail(err, STK_EINVAL, "the address has no bucket");
}

/* AWS without an endpoint: the origin depends on the region, which may turn out to be another. */
static int open_object(stk_target *t, const char *rest, const char *endpoint, stk_error *err)
{
    size_t len = strcspn(rest, "/");
    const char *key = rest[len] ? rest + len + 1 : rest + len;

    t->auth = STK_AUTH_AWS;
    t->ranges = 1;
    STK_TRY(copy(&t->bucket, rest, len, err));
    STK_TRY(check_bucket(t->bucket, err));
    if (!endpoint[0])
        return object_path(t, key, strchr(t->bucket, '.') != NULL, err);
    if (strstr(endpoint, "{bucket}")) {
        STK_TRY(origin_with_bucket(t, endpoint, err));
        return object_path(t, key, 0, err);
    }
    STK_TRY(copy(&t->origin, endpoint, strlen(endpoint), err));
    return object_path(t, key, 1, err);
}

int stk_target_origin(const stk_target *t, stk_text *to)
{
    char region[64], text[400];

    if (t->origin)
        return stk_text_put(to, t->origin, strlen(t->origin), NULL);
    stk_store_region(t->store, t->bucket, region, sizeof region);
    if (strchr(t->bucket, '.')) /* no certificate covers bucket.with.dots.s3... */
        snprintf(text, sizeof text, "https://s3.%s.amazonaws.com", region);
    else
        snprintf(text, sizeof text, "https://%.200s.s3.%s.amazonaws.com", t->bucket, region);
    return stk_text_put(to, text, strlen(text), NULL);
}

static int open_google(stk_target *t, const char *rest, stk_error *err)
{
    char endpoint[256];

    stk_store_endpoint(t->store, endpoint, sizeof endpoint);
    if (!t->store->o.endpoint)
        snprintf(endpoint, sizeof endpoint, "%s", env_or("STORAGE_EMULATOR_HOST", GOOGLE));
    t->google = 1;
    t->region = "auto";
    return open_object(t, rest, endpoint, err);
}

static int open_aws(stk_target *t, const char *rest, stk_error *err)
{
    char endpoint[256];

    stk_store_endpoint(t->store, endpoint, sizeof endpoint);
    return open_object(t, rest, endpoint, err);
}

/* Spaces and bytes beyond ASCII are encoded, the rest is the user's; the mark is ours. */
static int plain_path(stk_target *t, const char *path, const char *mark, stk_error *err)
{
    stk_text p = { 0 };
    int rc = path[0] == '/' ? 0 : stk_text_put(&p, "/", 1, err);

    for (; rc == 0 && *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (path == mark)
            path += MARK_LEN - 1;
        else
            rc = c <= ' ' || c >= 127 ? stk_uri_encode(&p, path, 1, 0, err)
                                      : stk_text_put(&p, path, 1, err);
    }
    t->path = p.s;
    return rc;
}

static int open_plain(stk_target *t, const char *url, stk_error *err)
{
    size_t scheme, user, query, host;
    char *mark = mark_of(url);
    hidden *h;
    int rc = 0;

    split(url, &scheme, &user, &query);
    host = scheme + strcspn(url + scheme, "/?#");
    if (host == scheme)
        return stk_fail(err, STK_EINVAL, "the address has no host");
    stk_mutex_lock(&stk_store_lock);
    h = find_locked(url);
    if (h && h->query)
        rc = copy(&t->query, h->query, strlen(h->query), err);
    if (rc == 0 && h && h->user) {
        size_t room = host + strlen(h->user) + 2;

        t->origin = stk_alloc(room);
        rc = t->origin ? 0 : stk_fail_nomem(err, room);
        if (rc == 0)
            snprintf(t->origin, room, "%.*s%s@%.*s", (int)scheme, url, h->user,
                     (int)(host - scheme), url + scheme);
    }
    stk_mutex_unlock(&stk_store_lock);
    if (rc == 0 && mark && !t->query)
        rc = stk_fail(err, STK_EINVAL,
                      "the address is shown without its query: give it as it was given first");
    if (rc == 0 && !t->origin)
        rc = copy(&t->origin, url, host, err);
    return rc == 0 ? plain_path(t, url + host, mark, err) : rc;
}

/* The token of $HF_TOKEN, else the file that huggingface-cli login writes. */
static int hub_token(stk_target *t, stk_error *err)
{
    const char *token = getenv("HF_TOKEN"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    char path[1024], text[512] = "";
    FILE *f;

    if (!token || !*token) {
        snprintf(path, sizeof path, "%s%s/token",
                 home   ? home
                 : user ? user
                        : "",
                 home ? "" : "/.cache/huggingface");
        f = fopen(path, "re");
        if (f && !fgets(text, sizeof text, f))
            text[0] = 0;
        if (f)
            fclose(f);
        text[strcspn(text, "\r\n")] = 0;
        token = text;
    }
    return *token ? copy(&t->token, token, strlen(token), err) : 0;
}

/* A revision has its slashes as %2F, but for the Hub's own: refs/pr/1, refs/convert/parquet. */
const char *stk_hub_path(const char *rest)
{
    const char *org = strncmp(rest, "datasets/", 9) ? NULL : rest + 9,
               *name = org ? strchr(org, '/') : NULL, *end = name ? strchr(name + 1, '/') : NULL,
               *at = end ? memchr(name, '@', (size_t)(end - name)) : NULL;

    if (at && (!strncmp(at, "@refs/pr/", 9) || !strncmp(at, "@refs/convert/", 14)))
        end = strchr(strchr(at + 6, '/') + 1, '/');
    return end;
}

/* As it is written in an address, with %2F, or as it is. */
static int put_revision(stk_text *p, const char *s, size_t len, stk_error *err)
{
    char text[256];
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof text; n++) {
        unsigned byte;
        int coded = s[i] == '%' && len - i >= 3 && sscanf(s + i + 1, "%2x", &byte) == 1;

        text[n] = coded ? (char)byte : s[i];
        i += coded ? 3 : 1;
    }
    return stk_uri_encode(p, text, n, 0, err);
}

/* datasets/org/name[@revision]/path */
static int open_hub(stk_target *t, const char *rest, stk_error *err)
{
    const char *end = stk_hub_path(rest), *org = rest + 9,
               *at = end ? memchr(org, '@', (size_t)(end - org)) : NULL,
               *base = env_or("HF_ENDPOINT", HUB);
    stk_text p = { 0 };
    int rc;

    if (!end || !end[1])
        return stk_fail(err, STK_EINVAL, "write it as hf://datasets/ORG/NAME/path/to/file");
    rc = stk_text_put(&p, "/datasets/", 10, err);
    if (rc == 0)
        rc = stk_uri_encode(&p, org, (size_t)((at ? at : end) - org), 1, err);
    if (rc == 0)
        rc = stk_text_put(&p, "/resolve/", 9, err);
    if (rc == 0)
        rc = put_revision(&p, at ? at + 1 : "main", at ? (size_t)(end - at - 1) : 4, err);
    if (rc == 0)
        rc = stk_uri_encode(&p, end, strlen(end), 1, err);
    t->path = p.s;
    t->auth = STK_AUTH_BEARER;
    t->linked = 1;
    if (rc == 0)
        rc = copy(&t->origin, base, strlen(base) - (base[strlen(base) - 1] == '/'), err);
    return rc == 0 ? hub_token(t, err) : rc;
}

int stk_target_open(stk_target **out, const char *url, const stk_store *store, stk_error *err)
{
    stk_target *t = STK_NEW(stk_target);
    int rc;

    *out = NULL;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    t->store = store ? stk_store_ref((stk_store *)(uintptr_t)store) : stk_store_usual(err);
    rc = t->store ? 0 : STK_ENOMEM;
    if (rc == 0 && !strncmp(url, "s3://", 5))
        rc = open_aws(t, url + 5, err);
    else if (rc == 0 && !strncmp(url, "gs://", 5))
        rc = open_google(t, url + 5, err);
    else if (rc == 0 && !strncmp(url, "hf://", 5))
        rc = open_hub(t, url + 5, err);
    else if (rc == 0)
        rc = open_plain(t, url, err);
    if (rc == 0 && !t->bucket)
        rc = copy(&t->bucket, "", 0, err);
    if (rc < 0)
        stk_target_close(&t);
    *out = t;
    return rc;
}

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    stk_free(secret);
}

void stk_target_close(stk_target **tp)
{
    stk_target *t = *tp;

    *tp = NULL;
    if (!t)
        return;
    wipe(t->origin);
    stk_free(t->path);
    wipe(t->query);
    stk_free(t->bucket);
    wipe(t->token);
    stk_store_unref(&t->store);
    stk_free(t);
}
