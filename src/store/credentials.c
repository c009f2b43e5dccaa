/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c - the order in which keys are looked for, and where they are kept.
 *
 * One look at a time in the process.  Keys with an end are looked up again a minute before it.
 * What was not found is remembered too: a laptop asks the metadata address once, for a second. */
#include "store/credentials.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/halt.h"
#include "base/mem.h"
#include "store/dialect.h"
#include "store/key_sources.h"

#define MARGIN_S 60
#define ROLES_MAX 5 /* source_profile of source_profile of ... */

static stk_mutex finding = STK_MUTEX_INITIALIZER;

void stk_keys_forked(void)
{
    stk_mutex_init(&finding); /* its holder is in the parent */
}

/* The ring of a dialect's keys, which is made when it is first wanted. */
static stk_key_ring *ring_locked(stk_store *s, const stk_dialect *of) STK_REQUIRES(stk_store_lock)
{
    stk_key_ring *r = s->ring;

    while (r->of && r->of != of)
        r++;
    assert(r < s->ring + STK_RINGS); /* dialects with keys are fewer */
    r->of = of;
    return r;
}

int stk_keys_peek(stk_store *s, const stk_dialect *of, stk_keys *out, uint64_t *turn)
{
    stk_key_ring *r;
    int good;

    stk_mutex_lock(&stk_store_lock);
    r = ring_locked(s, of);
    good = r->known && (!r->keys.expires || r->keys.expires - MARGIN_S > (int64_t)time(NULL));
    *turn = r->turn;
    if (good)
        *out = r->keys;
    stk_mutex_unlock(&stk_store_lock);
    return good ? 0 : STK_PENDING;
}

void stk_keys_stale(stk_store *s, const stk_dialect *of, uint64_t turn)
{
    stk_key_ring *r;

    stk_mutex_lock(&stk_store_lock);
    r = ring_locked(s, of);
    if (r->turn == turn)
        r->known = 0;
    stk_mutex_unlock(&stk_store_lock);
}

/* ---- the order ---- */

static const char *env(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static int put(char *to, size_t size, const char *s)
{
    if (strlen(s) >= size)
        return 0;
    memcpy(to, s, strlen(s) + 1);
    return 1;
}

int stk_keys_take(stk_keys *out, const char *id, const char *secret, const char *token)
{
    memset(out, 0, sizeof *out);
    if (!id || !secret)
        return STK_END;
    if (!put(out->id, sizeof out->id, id) || !put(out->secret, sizeof out->secret, secret) ||
        (token && !put(out->token, sizeof out->token, token)))
        return STK_EINVAL;
    return 0;
}

static int by_environment(stk_keys *out)
{
    return stk_keys_take(out, env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"),
                         env("AWS_SESSION_TOKEN"));
}

static int by_web_identity(stk_store *s, stk_keys *out, stk_error *err)
{
    stk_role role = { .arn = env("AWS_ROLE_ARN"),
                      .session = env("AWS_ROLE_SESSION_NAME"),
                      .token_file = env("AWS_WEB_IDENTITY_TOKEN_FILE") };

    return role.arn && role.token_file ? stk_keys_of_role(s, &role, NULL, out, err) : STK_END;
}

static int by_source(stk_store *s, const char *source, stk_keys *out, stk_error *err)
{
    if (!strcmp(source, "Environment"))
        return by_environment(out);
    if (!strcmp(source, "EcsContainer"))
        return stk_keys_of_container(s, out, err);
    if (!strcmp(source, "Ec2InstanceMetadata"))
        return stk_keys_of_instance(s, out, err);
    return stk_fail(err, STK_EINVAL, "a profile has the unknown credential_source %.40s", source);
}

static int by_profile(stk_store *s, const char *profile, int depth, stk_keys *out, stk_error *err);

/* Keys of the role that a profile names, by those of another profile or place. */
static int by_role(stk_store *s, const stk_profile *p, int depth, stk_keys *out, stk_error *err)
{
    stk_role role = { .arn = p->role_arn,
                      .session = p->session,
                      .external_id = p->external_id,
                      .token_file = p->token_file };
    stk_keys base;
    int rc;

    if (role.token_file && role.token_file[0])
        return stk_keys_of_role(s, &role, NULL, out, err);
    if (p->source_profile[0] && !strcmp(p->source_profile, p->name))
        rc = stk_keys_take(&base, p->id, p->secret, p->token);
    else if (p->source_profile[0])
        rc = by_profile(s, p->source_profile, depth + 1, &base, err);
    else if (p->credential_source[0])
        rc = by_source(s, p->credential_source, &base, err);
    else
        return stk_fail(err, STK_EINVAL,
                        "profile %.60s has a role_arn, and neither source_profile nor "
                        "credential_source",
                        p->name);
    if (rc == STK_END)
        rc = stk_fail(err, STK_ENOTFOUND, "profile %.60s: no credentials to take its role with",
                      p->name);
    if (rc == 0)
        rc = stk_keys_of_role(s, &role, &base, out, err);
    explicit_bzero(&base, sizeof base);
    return rc;
}

static int by_profile(stk_store *s, const char *profile, int depth, stk_keys *out, stk_error *err)
{
    stk_profile *p = STK_NEW(stk_profile);
    char command[160];
    int rc;

    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    stk_profile_read(profile, p);
    if (depth > ROLES_MAX)
        rc = stk_fail(err, STK_EINVAL, "profiles name each other as source_profile without end");
    else if (!p->found)
        rc = depth || s->o.profile
                 ? stk_fail(err, STK_ENOTFOUND, "there is no profile %.60s in ~/.aws", profile)
                 : STK_END;
    else if (p->role_arn[0])
        rc = by_role(s, p, depth, out, err);
    else if (p->id[0])
        rc = stk_keys_take(out, p->id, p->secret, p->token);
    else if (p->process[0])
        rc = stk_keys_of_process(p->process, out, err);
    else if (p->sso && strlen(profile) < 60 && !strpbrk(profile, "'\\")) {
        snprintf(command, sizeof command,
                 "aws configure export-credentials --profile '%s' --format process", profile);
        rc = stk_keys_of_process(command, out, err);
    } else
        rc = STK_END;
    explicit_bzero(p, sizeof *p);
    stk_free(p);
    return rc;
}

static int by_function(const stk_store *s, stk_keys *out, stk_error *err)
{
    int rc;

    if (!s->o.credentials)
        return STK_END;
    memset(out, 0, sizeof *out);
    rc = s->o.credentials(s->o.cookie, out, err);
    out->id[sizeof out->id - 1] = out->secret[sizeof out->secret - 1] = 0;
    out->token[sizeof out->token - 1] = 0;
    return rc;
}

int stk_keys_given(const stk_store *s, int token, stk_keys *out, stk_error *err)
{
    int rc = stk_keys_take(out, s->o.access_key, s->o.secret_key,
                           token ? s->o.session_token : NULL);

    return rc == STK_END ? by_function(s, out, err) : rc;
}

int stk_keys_of_aws(stk_store *s, stk_keys *out, stk_error *err)
{
    const char *name = s->o.profile ? s->o.profile : env("AWS_PROFILE");
    int rc = stk_keys_given(s, 1, out, err);

    if (rc == STK_END && s->o.profile) /* said here: before the environment */
        rc = by_profile(s, name, 0, out, err);
    if (rc == STK_END && !s->o.profile)
        rc = by_environment(out);
    if (rc == STK_END && !s->o.profile)
        rc = by_profile(s, name ? name : "default", 0, out, err);
    if (rc == STK_END)
        rc = by_web_identity(s, out, err);
    if (rc == STK_END)
        rc = stk_keys_of_container(s, out, err);
    if (rc == STK_END)
        rc = stk_keys_of_instance(s, out, err);
    return rc;
}

int stk_keys_find(stk_store *s, const stk_dialect *of, uint64_t turn, stk_error *err)
{
    stk_keys found = { 0 };
    stk_key_ring *r;
    int rc = 0, done;

    stk_mutex_lock(&finding);
    stk_mutex_lock(&stk_store_lock);
    r = ring_locked(s, of);
    done = r->known && r->turn != turn;
    stk_mutex_unlock(&stk_store_lock);
    if (!done) {
        if (s->o.anonymous != STK_YES)
            rc = of->find_keys(s, &found, err);
        if (stk_halt_is(stk_halt_mine())) /* what was not found was not looked for to the end */
            rc = stk_fail_halted(err);
        if (rc == STK_END) { /* unsigned */
            memset(&found, 0, sizeof found);
            rc = 0;
        }
        stk_mutex_lock(&stk_store_lock);
        if (rc == 0) {
            r->keys = found;
            r->known = 1;
            r->turn++;
        }
        stk_mutex_unlock(&stk_store_lock);
    }
    stk_mutex_unlock(&finding);
    explicit_bzero(&found, sizeof found);
    return rc;
}
