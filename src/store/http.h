/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - the one HTTP client of the process.  Sources, listings and uploads of all stores use it.
 *
 * A transfer is one request and its answer; it is tried again as long as that makes sense
 * (retry.c).  The client is the only thing in the library that the whole process shares and
 * changes.  It runs in a thread of its own while someone holds it.  A forked child makes its own at
 * first use. */
#ifndef STOKER_STORE_HTTP_H
#define STOKER_STORE_HTTP_H

#include <string.h>

#include "base/halt.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/sign.h"
#include "store/store.h"

#define STK_WHY_MAX 176
#define STK_HEADERS 4 /* most header lines that a caller adds to a request */

typedef struct stk_dialect stk_dialect; /* dialect.h */

typedef struct stk_target { /* an address; read-only once made */
    const stk_dialect *dialect;
    /* "https://host:port", and what comes before each path; NULL: the dialect knows it */
    char *origin;
    char *path;       /* encoded, begins with "/" */
    char *query;      /* given with the address; NULL: none.  Secret. */
    char *bucket;     /* "": no bucket */
    char *token;      /* token for this address; NULL: none.  Secret. */
    stk_store *store; /* holds a reference */
} stk_target;

typedef struct stk_answer { /* headers of the answer */
    char etag[160], region[64], location[2048], content_type[64], encoding[32];
    uint64_t first, last, total; /* content-range; UINT64_MAX: missing */
    uint64_t length;             /* content-length; UINT64_MAX: missing */
    int64_t date, modified;      /* seconds since 1970; 0: missing */
    int unclear;                 /* a range or length came twice with different values */
    uint32_t retry_after;        /* seconds; 0: missing */
    uint64_t linked_size;
    char linked_etag[160];
    /* link, rel="next": the query of the next page; "": none */
    char next[1024];
} stk_answer;

void stk_answer_clear(stk_answer *a);
void stk_answer_header(stk_answer *a, const char *line, size_t len); /* hostile text */
/* Writes an etag as the index stores it: without quotes, long ones as a hash. */
void stk_etag_short(const char *etag, char out[64]);
/* Writes the version that the index stores: the etag, else "@" and the time of modification, else
 * "". */
void stk_answer_version(const stk_answer *a, int linked, char out[64]);

typedef struct stk_reached {     /* how far a transfer has come */
    struct stk_asked_host *host; /* host that owes an answer; NULL: none, or too many to count */
    size_t earlier;    /* end of the bytes of earlier answers; newer ones may be dropped */
    size_t due;        /* end of this answer by its headers */
    size_t counted;    /* bytes that moved the deadline */
    uint32_t past_end; /* how often the server said that the range is past the end */
} stk_reached;
#define STK_STAYS UINT32_MAX /* stk_course.redirects */

typedef struct stk_transfer stk_transfer;
typedef struct stk_course { /* state of a transfer while the client tries it */
    uint64_t due_ns;        /* when the next try begins */
    uint64_t deadline_ns;   /* when it gives up without progress */
    uint64_t body_at;       /* offset in the file of the next byte of the body */
    uint64_t keys_turn;     /* number of the look-up whose keys signed it */
    /* redirects followed so far; STK_STAYS: none may be, the request has a secret */
    uint32_t redirects;
    stk_transfer *twin; /* the other of two requests for the same bytes; NULL: there is one */
    int is_twin;
    stk_text error; /* body of an answer that is an error */
    char *moved;    /* where a redirect leads; NULL: no redirect */
    uint32_t tries;
    int whole, looked, refreshed, skewed, bad_body, keys_rc;
} stk_course;

struct stk_transfer {
    /* asked */
    const stk_target *to;
    const char *method;
    const char *query; /* encoded; NULL */
    /* "name: value", more of them; the dialect signs those that it knows */
    const char *header[STK_HEADERS];
    uint64_t offset;
    size_t len;    /* bytes of a range; 0: the whole file */
    uint64_t size; /* size of the whole file; 0: not known */
    /* the version that is wanted (stk_answer_version()): another one is STK_ESTALE; NULL, "":
     * any */
    const char *etag;
    const void *body;
    size_t body_len;
    uint8_t *dst; /* memory for the `len` bytes of a range */
    /* used instead of dst: receives the next bytes, from offset `got` on */
    void (*put)(stk_transfer *t, const void *p, size_t len);
    stk_text *text;       /* receives the body if neither dst nor put is set */
    uint32_t budget_ms;   /* time without progress, over all tries; 0: the store's limit */
    int strict;           /* true: a try is cut off when that time is over */
    uint32_t connect_ms;  /* time to connect; 0: the default */
    const stk_keys *keys; /* keys to sign with; NULL: the store's */
    const char *service;  /* service in the signature; NULL: "s3" */
    /* the transfer ends with STK_ECLOSED when this is set; NULL: the calling thread's */
    const stk_halt *halt;
    void (*done)(stk_transfer *t); /* the client's thread, once */
    void *cookie;
    /* answer */
    int rc;
    int status;     /* HTTP's; 0: there was none */
    size_t got;     /* bytes of the body that were received */
    stk_reached at; /* progress of `got` */
    stk_answer answer;
    char code[64]; /* the store's code of an error */
    char why[STK_WHY_MAX];
    /* used by the client */
    stk_transfer *next;
    stk_course own;
};

/* target.c */
int stk_target_open(stk_target **out, const char *url, const stk_store *store, stk_error *err);
void stk_target_close(stk_target **t);
/* For dialects.  Splits "bucket/key": checks the bucket and stores it in the target; *key points
 * after it. */
int stk_target_bucket(stk_target *t, const char *rest, const char **key, stk_error *err);
/* Sets the target's path to "/bucket/key" or "/key", encoded. */
int stk_target_path(stk_target *t, const char *key, int with_bucket, stk_error *err);
int stk_copy_text(char **out, const char *s, size_t len, stk_error *err);
const char *stk_env_or(const char *name, const char *usual); /* "" counts as not set */

int stk_http_hold(stk_error *err); /* starts the client if needed, and keeps it until drop() */
void stk_http_drop(void);

/* Begins a transfer.  The client owns `t` until it calls t->done(). */
void stk_http_start(stk_transfer *t);
/* Call after a halt was set: transfers with that halt end at once. */
void stk_http_look(void);
/* Begins a transfer and waits for it.  Returns t->rc; *err has the text of an error. */
int stk_http_run(stk_transfer *t, stk_error *err);
void stk_transfer_fini(stk_transfer *t); /* what the client keeps in it */

/* Stores the next bytes of a range, which were received. */
static inline void stk_transfer_put(stk_transfer *t, const void *p, size_t len)
{
    if (t->put)
        t->put(t, p, len);
    else
        memcpy(t->dst + t->got, p, len);
    t->got += len;
}

/* lines.c: makes the URL and header lines of a request.  STK_PENDING: its keys must be looked up
 * first. */
typedef struct stk_lines {
    stk_text *url;
    stk_day_key *day_key;
    int (*add)(void *cookie, const char *line);
    void *cookie;
    char range[64], match[96]; /* header lines that it has; "": it has none */
} stk_lines;
int stk_lines_make(stk_lines *s, stk_transfer *t);
int stk_transfer_sends(const stk_transfer *t); /* 1: it has a body, if only an empty one */

/* retry.c: decides what an answer means: the transfer is done, tried again, or needs keys.
 * network: why there was no answer; NULL: there was one. */
typedef enum stk_verdict { STK_DONE, STK_AGAIN, STK_KEYS } stk_verdict;
stk_verdict stk_transfer_judge(stk_transfer *t, const char *network, int final);
/* Call before the first byte of a body.  1: it is the wanted one. */
int stk_transfer_accepts(stk_transfer *t);
uint64_t stk_retry_pause_ns(const stk_transfer *t, uint64_t random);
/* Call at the end of a try.  1: enough bytes came since the last call to move the deadline. */
int stk_transfer_progressed(stk_transfer *t);
const char *stk_transfer_remedy(const stk_transfer *t); /* what to check if access was denied */
void stk_transfer_gave_up(stk_transfer *t);             /* sets `why`: no time is left */

/* hedge.c: measures how long requests take, and decides when to send a second request for the same
 * bytes.  Thread: the client's. */
#define STK_HEDGE_READS 128u
typedef struct stk_hedge {
    uint32_t took_us[STK_HEDGE_READS]; /* of the last reads */
    uint64_t n, sent;                  /* reads, and second requests */
    /* a read that takes longer gets a second request; 0: not known */
    uint64_t after_ns;
    uint64_t calm_ns; /* no second request before this time, since a server said "slow down" */
} stk_hedge;
void stk_hedge_note(stk_hedge *h, uint64_t took_ns);
void stk_hedge_slow(stk_hedge *h, uint64_t now);
int stk_hedge_now(const stk_hedge *h, uint64_t now, uint64_t started); /* 1: ask again */

/* xml.c: the text of the first element of that name, unescaped; "" if there is none. */
void stk_xml_text(stk_bytes doc, const char *name, char *out, size_t size);

#endif
