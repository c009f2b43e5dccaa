/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - settings of remote sources, and what was found by them: keys, regions, the server's
 * clock. */
#ifndef STOKER_STORE_STORE_H
#define STOKER_STORE_STORE_H

#include <stdatomic.h>
#include <stoker/store.h>
#include <time.h>

#include "base/err.h"
#include "base/lock.h"

struct stk_dialect;
typedef struct stk_key_ring {     /* of one dialect */
    const struct stk_dialect *of; /* lock; NULL: free */
    stk_keys keys;                /* lock */
    int known;                    /* lock: they are what was found, also if that is none */
    uint64_t turn;                /* lock: counts how often they were looked up */
} stk_key_ring;

#define STK_RINGS 8

/* Of what changes in all stores: held for moments, and over fork(), so that a child can go on. */
extern stk_mutex stk_store_lock;

struct stk_store { /* Thread: any.  "lock" is stk_store_lock. */
    _Atomic uint32_t refs;
    stk_store_options o; /* texts are its own */
    stk_key_ring ring[STK_RINGS];
    struct stk_region *regions;     /* lock: of buckets, as they were found out */
    char region[64], endpoint[256]; /* lock: by options, environment, profile */
    int settled;                    /* lock: these two are known */
    _Atomic int64_t skew;           /* seconds that servers are ahead of our clock */
    struct stk_cache_folder *cache; /* remote data on a local disk; NULL: none */
};

/* Around fork(): what was found stays whole for the child. */
void stk_store_before_fork(void);
void stk_store_after_fork(void);

/* A line for stk_store_log()'s sink. */
void stk_store_say(stk_log_level level, const char *fmt, ...) STK_PRINTF(2, 3);

/* The settings of the process, for files without a store; held. */
stk_store *stk_store_usual(stk_error *err);

/* Who is asked, and as whom, as a hash: by the options and these variables, up to NULL. */
uint64_t stk_store_asked(const stk_store *s, const char *const *env);

void stk_store_region(stk_store *s, const char *bucket, char *out, size_t size);
/* "" where there is none. */
void stk_store_endpoint(stk_store *s, char *out, size_t size);
/* 1: that is news. */
int stk_store_note_region(stk_store *s, const char *bucket, const char *region);
/* Milliseconds without progress after which a request fails; `first`: of a first question. */
uint32_t stk_store_patience(const stk_store *s, int first);
void stk_store_note_clock(stk_store *s, int64_t server);
time_t stk_store_clock(const stk_store *s);

#endif
