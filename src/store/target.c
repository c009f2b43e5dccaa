/* SPDX-License-Identifier: Apache-2.0 */
/* target.c - from a URL to the address that requests go to, by the dialect of its scheme.
 *
 * A key can have any character: all of it up to the end of the URL belongs to it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "source/hidden.h"
#include "store/dialect.h"

#define STK_STORE(x) &stk_dialect_##x,
static const stk_dialect *const dialects[] = {
#include "registry.def"
};

const stk_dialect *stk_dialect_of(const char *url)
{
    size_t len = stk_scheme_len(url);

    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (strlen(dialects[i]->source.scheme) == len &&
            !memcmp(dialects[i]->source.scheme, url, len))
            return dialects[i];
    return &stk_dialect_http;
}

int stk_copy_text(char **out, const char *s, size_t len, stk_error *err)
{
    *out = stk_strndup(s, len);
    return *out ? 0 : stk_fail_nomem(err, len + 1);
}

const char *stk_env_or(const char *name, const char *usual)
{
    const char *text = getenv(name);

    return text && *text ? text : usual;
}

int stk_target_bucket(stk_target *t, const char *rest, const char **key, stk_error *err)
{
    size_t len = strcspn(rest, "/");
    const char *what = t->dialect->bucket;

    *key = rest + len + (rest[len] == '/');
    STK_TRY(stk_copy_text(&t->bucket, rest, len, err));
    for (const char *p = t->bucket; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p))
            return stk_fail(err, STK_EINVAL, "the name of a %s can't have '%c'", what, *p);
    return len ? 0 : stk_fail(err, STK_EINVAL, "the address has no %s", what);
}

int stk_target_path(stk_target *t, const char *key, int with_bucket, stk_error *err)
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

int stk_target_open(stk_target **out, const char *url, const stk_store *store, stk_error *err)
{
    stk_target *t = STK_NEW(stk_target);
    int rc;

    *out = NULL;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    t->dialect = stk_dialect_of(url);
    t->store = store ? stk_store_ref((stk_store *)(uintptr_t)store) : stk_store_usual(err);
    rc = t->store ? 0 : STK_ENOMEM;
    if (rc == 0)
        rc = t->dialect->open(t, url, err);
    if (rc == 0 && !t->bucket)
        rc = stk_copy_text(&t->bucket, "", 0, err);
    if (rc < 0)
        stk_target_close(&t);
    *out = t;
    return rc;
}

void stk_target_close(stk_target **tp)
{
    stk_target *t = *tp;

    *tp = NULL;
    if (!t)
        return;
    stk_secret_free(&t->origin);
    stk_free(t->path);
    stk_secret_free(&t->query);
    stk_free(t->bucket);
    stk_secret_free(&t->token);
    stk_store_unref(&t->store);
    stk_free(t);
}
