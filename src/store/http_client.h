/* SPDX-License-Identifier: Apache-2.0 */
/* http_client.h - the parts of the HTTP client that its files share: http.c, hedge.c (a second
 * request for a slow one), key_look.c (credentials), halted.c, and http_process.c, which holds the
 * one client of a process.  Other folders use store/http.h. */
#ifndef STOKER_STORE_HTTP_CLIENT_H
#define STOKER_STORE_HTTP_CLIENT_H

#include <pthread.h>

#include "store/http.h"
#include "store/remote.h"

#define STK_SLOTS 256u
#define STK_HOSTS 16u /* most hosts whose answers are counted */

typedef struct stk_asked_host { /* the client's lock */
    char name[128];             /* "host:port"; "": none */
    _Atomic uint32_t pending;   /* transfers; 0: the entry is free.  Thread: any */
    uint32_t retries;           /* since its last answer */
    uint64_t since_ns;          /* when it began to owe an answer */
    char why[STK_WHY_MAX];
} stk_asked_host;

typedef struct stk_http_slot {
    void *easy;      /* a CURL */
    stk_transfer *t; /* NULL: free */
    struct stk_http_slot *next;
    struct curl_slist *lines;
    uint64_t started_ns;
    size_t head; /* bytes of headers so far */
    stk_text url;
    char failure[256]; /* CURL_ERROR_SIZE */
} stk_http_slot;

/* A look-up of keys in a separate thread, since it may send requests, and the transfers that wait
 * for it.  Nothing waits for the thread: whichever of it and the client ends last frees this. */
typedef struct stk_key_look {
    struct stk_key_look *next, *next_found;
    _Atomic uint32_t refs;
    uint64_t client;  /* number of the client that wants the keys */
    stk_store *store; /* with a reference */
    const stk_dialect *of;
    uint64_t turn;
    stk_halt halt;      /* set when nothing waits for the keys any more */
    stk_transfer *wait; /* client's thread: transfers that wait for the keys */
    int rc;
    char why[STK_WHY_MAX];
} stk_key_look;

/* How many requests may run at once (pace.c), and the measurements that decide it. */
typedef struct stk_client_pace_state {
    uint32_t allowed;    /* requests at once */
    uint64_t fine;       /* good answers since `allowed` last changed */
    uint64_t slow_until; /* ns: no request begins before, since a server asked for a pause */
    uint64_t fell_ns;    /* when `allowed` was last halved because answers were slow */
    uint64_t waits;      /* answers since then */
    uint64_t wait_us;    /* how long such answers took to begin, on average */
    uint64_t calm_us;    /* how long an answer takes to begin while few requests run */
} stk_client_pace_state;

typedef struct stk_client {
    void *multi; /* a CURLM */
    int epoll, event;
    pthread_t thread;
    uint64_t number; /* number of this client among all that this process had */
    stk_mutex lock;
    stk_transfer *in, **in_end;     /* lock */
    stk_key_look *found;            /* lock */
    int stop, look;                 /* lock; look: a halt was set */
    stk_asked_host host[STK_HOSTS]; /* lock */
    /* only the client's thread uses the fields below */
    stk_transfer *waiting, **waiting_end, *later;
    stk_key_look *looks;
    stk_http_slot *idle, *all[STK_SLOTS];
    uint32_t n_slots, running;
    uint64_t bytes, timer_ns, random;
    stk_client_pace_state pace;
    stk_day_key day_key;
    stk_hedge hedge;
    uint64_t hedge_look_ns; /* when to look for slow reads next; 0: no second requests are sent */
} stk_client;

/* http.c.  Thread: the client's. */
stk_http_slot *stk_slot_take(stk_client *c); /* NULL: all are busy */
void stk_slot_give(stk_client *c, stk_http_slot *s);
void stk_client_begin(stk_client *c, stk_http_slot *s, stk_transfer *t);
void stk_client_cut(stk_client *c, stk_http_slot *s);
void stk_client_finish(stk_transfer *t);
void stk_client_wait(stk_client *c, stk_transfer *t); /* the transfer waits for a slot */

/* http.c.  Thread: any. */
int stk_client_open(stk_client **out, stk_error *err); /* starts its thread */
void stk_client_close(stk_client **c);                 /* ends its thread; NULL: nothing */
void stk_client_push(stk_client *c, stk_transfer *t);  /* a new transfer, in the order of calls */
void stk_client_wake(stk_client *c); /* makes its thread look at what other threads changed */

/* http_process.c.  Thread: any. */
void stk_client_post(stk_key_look *l); /* gives keys to the client that wants them, if it is open */

/* hosts.c.  Thread: the client's. */
void stk_client_asks(stk_client *c, stk_transfer *t, const char *url); /* a request begins */
/* A request has an answer, or failed.  network: as for stk_transfer_judge(). */
void stk_client_asked(stk_client *c, const stk_transfer *t, stk_verdict v, const char *network);
void stk_transfer_ends(stk_transfer *t); /* it waits for no answer any more */
/* Finds the host that has owed an answer for longest.  Thread: any. */
int stk_client_owes(stk_client *c, const char *url, stk_owing *out);

/* http_env.c.  Thread: any. */
const char *stk_ca_bundle(void);                  /* a file; NULL: libcurl's own */
int stk_env_seconds(const char *name, int usual); /* environment variable, 1 to 3,599 */
/* The milliseconds that a strict transfer has left; 0: no limit. */
long stk_transfer_strict_ms(const stk_transfer *t, uint64_t now);

/* halted.c.  Thread: the client's. */
void stk_client_halted(stk_client *c);     /* ends all transfers whose halt is set */
void stk_transfer_halted(stk_transfer *t); /* ends this one */

/* key_look.c.  Thread: the client's. */
void stk_client_keys(stk_client *c, stk_transfer *t); /* looks up the keys that it waits for */
void stk_client_found(stk_client *c, stk_key_look *list);
void stk_key_looks_close(stk_client *c);

/* hedge.c.  Thread: the client's. */
void stk_hedge_watch(stk_client *c, const stk_transfer *t, uint64_t now); /* a transfer begins */
void stk_hedge_look(stk_client *c, uint64_t now); /* sends second requests for slow reads */
/* A transfer has an answer.  1: it is finished and may be freed. */
int stk_hedge_settle(stk_client *c, stk_transfer *t, stk_verdict v, uint64_t took_ns);
void stk_hedge_drop(stk_client *c, stk_transfer *t); /* drops its second request */

/* pace.c.  Thread: the client's. */
typedef struct stk_timing { /* times of one request */
    uint64_t now, started;  /* ns */
    uint64_t waited_us;     /* time until the first byte of the answer, or until it failed */
} stk_timing;
/* Call when a transfer has an answer, or failed. */
void stk_client_pace(stk_client *c, const stk_transfer *t, const stk_timing *when, uint64_t random);
/* Call before a request begins: takes over a pause that a server asked another process for. */
void stk_client_heed(stk_client *c, const stk_transfer *next, uint64_t now);

#endif
