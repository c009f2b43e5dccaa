/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - settings of remote sources as one object, shared by all files that are opened with
 * it. */
#include "store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/opts.h"
#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "source/hidden.h"
#include "store/credentials.h"
#include "store/store_cache.h"

#define STK_TIMEOUT_MAX 86400 /* seconds */
#define FIRST_MS 5000u        /* a first question has at least that, where all have */

typedef struct stk_region {
    struct stk_region *next;
    char region[64];
    char bucket[];
} stk_region;

stk_mutex stk_store_lock = STK_MUTEX_INITIALIZER;
static stk_store *usual STK_GUARDED(stk_store_lock);
static stk_log sink STK_GUARDED(stk_store_lock);

void stk_store_log(stk_log_fn fn, void *cookie)
{
    stk_mutex_lock(&stk_store_lock);
    sink = (stk_log){ fn, cookie };
    stk_mutex_unlock(&stk_store_lock);
}

void stk_store_say(stk_log_level level, const char *fmt, ...)
{
    char line[512];
    stk_log to;
    va_list list;

    va_start(list, fmt);
    vsnprintf(line, sizeof line, fmt, list);
    va_end(list);
    stk_mutex_lock(&stk_store_lock);
    to = sink;
    stk_mutex_unlock(&stk_store_lock);
    stk_log_line(&to, level, "%s", line);
}

void stk_store_before_fork(void) STK_UNCHECKED /* given back by the next one */
{
    stk_mutex_lock(&stk_store_lock);
    stk_mutex_lock(&stk_hidden_lock);
}

void stk_store_after_fork(void) STK_UNCHECKED
{
    stk_mutex_unlock(&stk_hidden_lock);
    stk_mutex_unlock(&stk_store_lock);
}

/* The texts of the options, which the store has copies of. */
static const char **texts(stk_store_options *o, size_t i)
{
    const char **all[] = { &o->profile,    &o->region,        &o->endpoint, &o->access_key,
                           &o->secret_key, &o->session_token, &o->cache };

    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static int copy_texts(stk_store_options *o, stk_error *err)
{
    const char **at;
    int rc = 0;

    for (size_t i = 0; (at = texts(o, i)); i++) {
        if (!*at)
            continue;
        *at = stk_strdup(*at);
        if (!*at)
            rc = stk_fail_nomem(err, 1);
    }
    return rc;
}

static int check_options(const stk_store_options *o, stk_error *err)
{
    if (!o->access_key != !o->secret_key)
        return stk_fail(err, STK_EINVAL, "access_key and secret_key belong together: give both");
    if (o->access_key && (strlen(o->access_key) >= sizeof((stk_keys *)0)->id ||
                          strlen(o->secret_key) >= sizeof((stk_keys *)0)->secret))
        return stk_fail(err, STK_EINVAL, "access_key or secret_key is too long to be one");
    if (o->session_token && strlen(o->session_token) >= sizeof((stk_keys *)0)->token)
        return stk_fail(err, STK_EINVAL, "session_token is too long to be one");
    if (o->timeout > STK_TIMEOUT_MAX)
        return stk_fail(err, STK_EINVAL, "timeout must be 1 to %d seconds", STK_TIMEOUT_MAX);
    if (o->endpoint && strncmp(o->endpoint, "http://", 7) && strncmp(o->endpoint, "https://", 8))
        return stk_fail(err, STK_EINVAL, "endpoint \"%.100s\" must begin with http:// or https://",
                        o->endpoint);
    return 0;
}

/* A folder that is named in the environment, or full, is no reason to fail: it is said, and what is
 * remote is read without. */
static int open_cache(stk_store *s, stk_error *err)
{
    const char *path = s->o.cache ? s->o.cache : getenv("STOKER_STORE_CACHE"),
               *most = getenv("STOKER_STORE_CACHE_LIMIT");
    uint64_t limit = s->o.cache_limit;
    stk_error why = { 0 };
    int rc;

    if (!path || !*path)
        return 0;
    if (!limit && most && *most && stk_size_parse(most, &limit) < 0)
        return stk_fail(err, STK_EINVAL,
                        "STOKER_STORE_CACHE_LIMIT is \"%.40s\": write a size, as in 500GB", most);
    rc = stk_cache_folder_open(&s->cache, path, limit, &why);
    if (rc < 0 && s->o.cache && !stk_is_full(errno)) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0)
        stk_store_say(STK_LOG_WARN, "%s", why.message);
    return 0;
}

int stk_store_open(stk_store **out, const stk_store_options *opt, stk_error *err)
{
    stk_store *s;
    int rc;

    *out = NULL;
    s = STK_NEW(stk_store);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    atomic_init(&s->refs, 1);
    stk_options_take(&s->o, sizeof s->o, opt);
    rc = copy_texts(&s->o, err);
    if (rc == 0)
        rc = check_options(&s->o, err);
    if (rc == 0)
        rc = open_cache(s, err);
    if (rc < 0) {
        s->o.released = NULL; /* the cookie stays the caller's */
        stk_store_unref(&s);
    }
    *out = s;
    return rc;
}

stk_store *stk_store_ref(stk_store *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void stk_store_unref(stk_store **sp)
{
    stk_store *s = *sp;
    const char **at;

    *sp = NULL;
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->o.released)
        s->o.released(s->o.cookie);
    for (size_t i = 0; (at = texts(&s->o, i)); i++) {
        if (*at)
            explicit_bzero((char *)(uintptr_t)*at, strlen(*at));
        stk_free((char *)(uintptr_t)*at);
    }
    explicit_bzero(s->ring, sizeof s->ring);
    stk_cache_folder_close(&s->cache);
    while (s->regions) {
        stk_region *next = s->regions->next;

        stk_free(s->regions);
        s->regions = next;
    }
    stk_free(s);
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return stk_hash64(h, text ? text : "", text ? strlen(text) : 0);
}

uint64_t stk_store_asked(const stk_store *s, const char *const *env)
{
    uint64_t h = hash_text(0, s ? s->o.endpoint : NULL);

    h = hash_text(h, s ? s->o.profile : NULL);
    h = hash_text(h, s ? s->o.access_key : NULL);
    for (; env && *env; env++)
        h = hash_text(h, getenv(*env));
    return h;
}

/* It stays until the process ends: keys and regions are found once. */
stk_store *stk_store_usual(stk_error *err)
{
    stk_store *s, *mine = NULL;

    stk_mutex_lock(&stk_store_lock);
    s = stk_store_ref(usual);
    stk_mutex_unlock(&stk_store_lock);
    if (s || stk_store_open(&mine, NULL, err) < 0)
        return s;
    stk_mutex_lock(&stk_store_lock);
    if (!usual) {
        usual = mine;
        mine = NULL;
    }
    s = stk_store_ref(usual);
    stk_mutex_unlock(&stk_store_lock);
    stk_store_unref(&mine); /* another thread was quicker */
    return s;
}

/* ---- region, endpoint, clock ---- */

static const char *env(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static void settle(stk_store *s)
{
    char region[64] = "", endpoint[256] = "";
    const char *r = s->o.region         ? s->o.region
                    : env("AWS_REGION") ? env("AWS_REGION")
                                        : env("AWS_DEFAULT_REGION");
    const char *e = s->o.endpoint                ? s->o.endpoint
                    : env("AWS_ENDPOINT_URL_S3") ? env("AWS_ENDPOINT_URL_S3")
                                                 : env("AWS_ENDPOINT_URL");

    if (r)
        snprintf(region, sizeof region, "%s", r);
    else
        stk_profile_setting(s, "region", region, sizeof region);
    if (e)
        snprintf(endpoint, sizeof endpoint, "%s", e);
    else
        stk_profile_setting(s, "endpoint_url", endpoint, sizeof endpoint);
    while (endpoint[0] && endpoint[strlen(endpoint) - 1] == '/')
        endpoint[strlen(endpoint) - 1] = 0;
    stk_mutex_lock(&stk_store_lock);
    memcpy(s->region, region[0] ? region : "us-east-1", region[0] ? sizeof region : 10);
    memcpy(s->endpoint, endpoint, sizeof endpoint);
    s->settled = 1;
    stk_mutex_unlock(&stk_store_lock);
}

static void settle_once(stk_store *s)
{
    int settled;

    stk_mutex_lock(&stk_store_lock);
    settled = s->settled;
    stk_mutex_unlock(&stk_store_lock);
    if (!settled)
        settle(s);
}

static stk_region *find_locked(stk_store *s, const char *bucket) STK_REQUIRES(stk_store_lock)
{
    stk_region *r = s->regions;

    while (r && strcmp(r->bucket, bucket) != 0)
        r = r->next;
    return r;
}

void stk_store_region(stk_store *s, const char *bucket, char *out, size_t size)
{
    stk_region *r;

    settle_once(s);
    stk_mutex_lock(&stk_store_lock);
    r = find_locked(s, bucket);
    snprintf(out, size, "%s", r ? r->region : s->region);
    stk_mutex_unlock(&stk_store_lock);
}

void stk_store_endpoint(stk_store *s, char *out, size_t size)
{
    settle_once(s);
    stk_mutex_lock(&stk_store_lock);
    snprintf(out, size, "%s", s->endpoint);
    stk_mutex_unlock(&stk_store_lock);
}

int stk_store_note_region(stk_store *s, const char *bucket, const char *region)
{
    stk_region *r;
    int news = 0;

    for (const char *p = region; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-'))
            return 0; /* it becomes a part of a host's name */
    stk_mutex_lock(&stk_store_lock);
    r = find_locked(s, bucket);
    if (r) {
        news = strcmp(r->region, region) != 0;
    } else if (strcmp(s->region, region) != 0) {
        r = stk_alloc(sizeof *r + strlen(bucket) + 1);
        news = r != NULL;
        if (r) {
            memcpy(r->bucket, bucket, strlen(bucket) + 1);
            r->next = s->regions;
            s->regions = r;
        }
    }
    if (news)
        snprintf(r->region, sizeof r->region, "%s", region);
    stk_mutex_unlock(&stk_store_lock);
    return news;
}

uint32_t stk_store_patience(const stk_store *s, int first)
{
    const char *text = env("STOKER_STORE_TIMEOUT");
    int given = s->o.timeout ? (int)s->o.timeout : text ? atoi(text) : 0;
    uint32_t ms = (given > 0 && given <= STK_TIMEOUT_MAX ? (uint32_t)given : 120u) * 1000u;

    if (first && ms > FIRST_MS)
        ms = ms / 6 > FIRST_MS ? ms / 6 : FIRST_MS;
    return ms;
}

void stk_store_note_clock(stk_store *s, int64_t server)
{
    atomic_store_explicit(&s->skew, server - (int64_t)time(NULL), memory_order_relaxed);
}

time_t stk_store_clock(const stk_store *s)
{
    return time(NULL) + (time_t)atomic_load_explicit(&s->skew, memory_order_relaxed);
}
