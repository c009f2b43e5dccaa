/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - settings of remote sources as one object, shared by all files that are opened with
 * it. */
#include "source/store.h"

#include <string.h>

#include "base/mem.h"
#include "base/opts.h"

/* The texts of the options, which the store has copies of. */
static const char **texts(stk_store_options *o, size_t i)
{
    const char **all[] = { &o->profile,    &o->region,     &o->endpoint,     &o->cache,
                           &o->access_key, &o->secret_key, &o->session_token };

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
    if (o->endpoint && strncmp(o->endpoint, "http://", 7) && strncmp(o->endpoint, "https://", 8))
        return stk_fail(err, STK_EINVAL,
                        "endpoint \"%.100s\" must begin with http:// or https://", o->endpoint);
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
    stk_mutex_init(&s->lock);
    stk_options_take(&s->o, sizeof s->o, opt);
    rc = copy_texts(&s->o, err);
    if (rc == 0)
        rc = check_options(&s->o, err);
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
    explicit_bzero(&s->keys, sizeof s->keys);
    stk_mutex_destroy(&s->lock);
    stk_free(s);
}
