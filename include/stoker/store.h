/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - how remote data (http, https, s3, gs, az, hf) is reached: keys, region, endpoint.
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
    char id[256];         /* "": the token is sent as it is.  Of Azure: the account's name */
    char secret[256];
    char token[8192]; /* of a session; "": none */
    int64_t expires;  /* seconds since 1970; 0: never */
} stk_keys;

typedef struct stk_store_options {
    uint32_t size;       /* sizeof this struct as the caller compiled it */
    const char *profile; /* of ~/.aws; NULL: $AWS_PROFILE, else "default" */
    const char *region;  /* NULL: from environment or profile, else us-east-1 */
    /* "http://127.0.0.1:9000"; NULL: from the environment, else the cloud's */
    const char *endpoint;
    const char *access_key, *secret_key, *session_token;
    stk_tri anonymous;      /* send unsigned requests */
    stk_tri requester_pays; /* agree to pay for requests */
    /* Asked for keys where access_key is not set, and again before they expire; on any thread, one
     * call at a time.  Negative: failed.  released() is called with the cookie when the store
     * ends. */
    int (*credentials)(void *cookie, stk_keys *out, stk_error *err);
    void (*released)(void *cookie);
    void *cookie;
    /* A folder on a local disk where remote data is kept, for all processes of the host; NULL:
     * $STOKER_STORE_CACHE; "": none. */
    const char *cache;
    uint64_t cache_limit; /* bytes in it; 0: $STOKER_STORE_CACHE_LIMIT, else most of what is free */
    /* reads that take unusually long are asked for a second time: 2 of 100 at most */
    stk_tri hedge;
    /* seconds without progress (less than 1 KB/s) after which a request fails; a first question
     * fails after a sixth of it, and not before 5.  0: $STOKER_STORE_TIMEOUT, else 120. */
    uint32_t timeout;
} stk_store_options;

/* *out is the caller's, end with stk_store_unref().  Sends nothing. */
STK_API STK_MUST_CHECK int stk_store_open(stk_store **out, const stk_store_options *opt,
                                          stk_error *err);
STK_API stk_store *stk_store_ref(stk_store *s); /* NULL is fine */
STK_API void stk_store_unref(stk_store **s);    /* nulls; NULL is fine */

/* ---- the cache of remote data ---- */

typedef struct stk_cached {  /* an object in it; borrowed for the call */
    uint32_t size;           /* sizeof this struct */
    const char *url, *etag;  /* torn: the file's path */
    uint64_t bytes, present; /* of the object, and of it in the cache */
    uint64_t bad_chunks;     /* found by comparing, and removed */
    int torn;                /* the file is not an object, or not whole */
    int in_use;              /* a process reads this data set */
} stk_cached;

typedef struct stk_cache_cleared {
    uint64_t objects, bytes, in_use;
} stk_cache_cleared;

typedef struct stk_cache_filled {
    uint64_t files, bytes;
    uint64_t left_out; /* files for which there was no room */
} stk_cache_filled;

typedef struct stk_cache_fill_options {
    uint32_t size;
    const stk_store *store;   /* NULL: of the environment */
    stk_progress_fn progress; /* in files */
    void *cookie;
} stk_cache_fill_options;

/* folder NULL: $STOKER_STORE_CACHE.  verify: compare checksums; what is bad is removed.  each()'s
 * answer other than 0 ends it and is returned. */
STK_API STK_MUST_CHECK int stk_cache_list(const char *folder, int verify,
                                          int (*each)(void *cookie, const stk_cached *c),
                                          void *cookie, stk_error *err);
/* Remove objects that no process reads, all or those whose address begins with prefix. */
STK_API STK_MUST_CHECK int stk_cache_clear(const char *folder, const char *prefix,
                                           stk_cache_cleared *out, stk_error *err);
/* Bring files into the cache of the store; patterns as for stk_dataset_open(). */
STK_API STK_MUST_CHECK int stk_cache_fill(const char *const *urls, size_t n,
                                          const stk_cache_fill_options *o, stk_cache_filled *out,
                                          stk_error *err);

/* ---- objects of a bucket by their address, for tools that write there (s3, gs) ---- */

struct stk_listed; /* plugin.h */
struct stk_put;

/* STK_ENOTSUP: nothing can be written and listed there. */
STK_API STK_MUST_CHECK int stk_object_writable(const char *url, stk_error *err);
/* Every object whose address begins with `prefix`, sorted bytewise.  each()'s answer other than 0
 * ends it and is returned. */
STK_API STK_MUST_CHECK int stk_object_list(const char *prefix, const stk_store *s,
                                           int (*each)(void *cookie, const struct stk_listed *f,
                                                       stk_error *err),
                                           void *cookie, stk_error *err);
/* A small one (256 MiB at most) as a whole.  *out: end with stk_free() (plugin.h); it has a null
 * byte after its end. */
STK_API STK_MUST_CHECK int stk_object_read(const char *url, const stk_store *s, void **out,
                                           size_t *len, stk_error *err);
/* The same, written; one that is there is replaced. */
STK_API STK_MUST_CHECK int stk_object_write(const char *url, const stk_store *s, const void *data,
                                            size_t len, stk_error *err);
/* Begin to write a large one, by multipart upload; it appears when it is committed. */
STK_API STK_MUST_CHECK int stk_object_put(const char *url, const stk_store *s, struct stk_put **out,
                                          stk_error *err);
/* One that is not there is not an error. */
STK_API STK_MUST_CHECK int stk_object_remove(const char *url, const stk_store *s, stk_error *err);
/* Abort uploads that dead processes left: of objects whose address begins with `prefix` and for
 * which dead() is not 0.  Who may not list uploads gets an error. */
STK_API STK_MUST_CHECK int stk_object_sweep(const char *prefix, const stk_store *s,
                                            int (*dead)(void *cookie, const char *url),
                                            void *cookie, stk_error *err);

/* Where lines about stores go (a cache that is full); for all stores of the process. */
STK_API void stk_store_log(stk_log_fn fn, void *cookie);

#ifdef __cplusplus
}
#endif
#endif
