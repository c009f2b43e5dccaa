/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - how remote data (http, https, s3, gs, hf) is reached: keys, region, endpoint, cache.
 *
 * Without a store object everything comes from the environment, as for AWS's own tools: see
 * docs/stores.md.  Keys are never written to logs, errors, states or index names. */
#ifndef STOKER_STORE_H
#define STOKER_STORE_H

#include <stoker/base.h>
#include <stoker/dataset.h> /* stk_store */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_keys { /* what requests are signed with */
    char id[256];         /* "" with a token: the token is sent as bearer token */
    char secret[256];
    char token[8192]; /* of a session; "": none */
    int64_t expires;  /* seconds since 1970; 0: never */
} stk_keys;

typedef struct stk_store_options {
    uint32_t size;        /* sizeof this struct as the caller compiled it */
    const char *profile;  /* of ~/.aws; NULL: $AWS_PROFILE, else "default" */
    const char *region;   /* NULL: from environment or profile, else us-east-1 */
    const char *endpoint; /* "http://127.0.0.1:9000"; NULL: from the environment, else the cloud's */
    const char *access_key, *secret_key, *session_token;
    stk_tri anonymous;      /* send unsigned requests */
    stk_tri requester_pays; /* agree to pay for requests */
    stk_tri hedge;          /* ask a second time for the slowest percent of reads */
    /* Asked for keys where access_key is not set, and again before they expire; on any thread, one call
     * at a time.  Negative: failed.  released() is called with the cookie when the store ends. */
    int (*credentials)(void *cookie, stk_keys *out, stk_error *err);
    void (*released)(void *cookie);
    void *cookie;
    const char *cache;    /* a folder for chunks of remote files; NULL: $STOKER_STORE_CACHE */
    uint64_t cache_limit; /* bytes of it; 0: half of what is free there */
} stk_store_options;

/* *out is the caller's, end with stk_store_unref().  Sends nothing. */
STK_API STK_MUST_CHECK int stk_store_open(stk_store **out, const stk_store_options *opt,
                                          stk_error *err);
STK_API stk_store *stk_store_ref(stk_store *s); /* NULL is fine */
STK_API void stk_store_unref(stk_store **s);    /* nulls; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
