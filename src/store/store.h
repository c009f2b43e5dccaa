/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the settings of remote stores (stk_store), and what was learned with them: keys,
 * regions of buckets, the server's clock.  The files of this folder use it. */
#ifndef STOKER_STORE_STORE_H
#define STOKER_STORE_STORE_H

#include <stdatomic.h>
#include <stoker/store.h>
#include <time.h>

#include "base/err.h"
#include "base/lock.h"

struct stk_dialect;
typedef struct stk_key_ring {     /* the keys for one dialect.  All fields: lock */
    const struct stk_dialect *of; /* NULL: this entry is free */
    stk_keys keys;
    int known;     /* true after a look-up, even one that found no keys */
    uint64_t turn; /* number of look-ups */
} stk_key_ring;

#define STK_RINGS 8 /* most dialects of one store */

/* Lock of the changing fields of all stores.  It is held for short times, and during fork(), so
 * that a child can go on. */
extern stk_mutex stk_store_lock;

struct stk_store { /* Thread: any.  "lock" is stk_store_lock. */
    _Atomic uint32_t refs;
    stk_store_options o; /* with copies of its texts */
    stk_key_ring ring[STK_RINGS];
    struct stk_region *regions;     /* lock: regions of buckets that servers told */
    char region[64], endpoint[256]; /* lock: from options, environment or profile */
    int settled;                    /* lock: true once these two are known */
    _Atomic int64_t skew;           /* seconds that servers are ahead of our clock */
    struct stk_cache_folder *cache; /* remote data on a local disk; NULL: none */
};

/* Call around fork(), so that the child has consistent settings. */
void stk_store_before_fork(void);
void stk_store_after_fork(void);

/* A line for stk_store_log()'s sink. */
void stk_store_say(stk_log_level level, const char *fmt, ...) STK_PRINTF(2, 3);

/* The settings of the process, for files without a store, with a reference for the caller. */
stk_store *stk_store_usual(stk_error *err);

/* A hash of what decides which server is asked, and as which user: the options, and the environment
 * variables in `env`, up to NULL. */
uint64_t stk_store_asked(const stk_store *s, const char *const *env);

void stk_store_region(stk_store *s, const char *bucket, char *out, size_t size);
/* "" where there is none. */
void stk_store_endpoint(stk_store *s, char *out, size_t size);
/* Stores the region of a bucket.  1: it was another one, or not known. */
int stk_store_note_region(stk_store *s, const char *bucket, const char *region);
/* Milliseconds without progress after which a request fails.  first: for the first request to a
 * server, which may get less time. */
uint32_t stk_store_patience(const stk_store *s, int first);
void stk_store_note_clock(stk_store *s, int64_t server);
time_t stk_store_clock(const stk_store *s);

#endif
