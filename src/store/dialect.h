/* SPDX-License-Identifier: Apache-2.0 */
/* dialect.h - what one kind of store has of its own: a table per store, in a file per store.
 *
 * s3.c, google.c, hub.c, web.c and azure.c fill a table each.  The rest of store/ reads it and
 * knows no store by name: target.c, lines.c, retry.c, list.c, put.c, credentials.c.  A new store is
 * a file with its table and a line STK_STORE(scheme) in registry.def: docs/adding.md. */
#ifndef STOKER_STORE_DIALECT_H
#define STOKER_STORE_DIALECT_H

#include "store/http.h"
#include "store/remote.h"

/* How a file of several parts is written. */
typedef struct stk_parts {
    /* The query of the POST that begins, whose answer has an UploadId.  NULL: nothing has to be
     * begun, the id is a random number, and parts that are left go away by themselves. */
    const char *begin;
    /* The query that sends a part, from 1; 0: that ends or aborts the upload. */
    int (*query)(stk_text *q, const char *upload, uint32_t part, stk_error *err);
    /* A line of the list of parts, which ends the upload. */
    int (*note)(stk_text *list, const char *upload, uint32_t part, const char *etag,
                stk_error *err);
    const char *method, *head, *tail; /* of the request with that list */
} stk_parts;

struct stk_dialect {    /* read-only */
    stk_source source;  /* first: STK_REMOTE(...) */
    const char *bucket; /* what it calls a bucket; NULL: it has none */
    const char *usual;  /* the origin that is asked unless another is set; NULL: none */
    const char *region; /* of signatures, where it is always the same; NULL: the bucket's */
    /* variables that say who is asked, and as whom; up to NULL */
    const char *const *env;

    /* From the address to the target's origin, path and bucket. */
    int (*open)(stk_target *t, const char *url, stk_error *err);
    /* The origin, with what is known by now.  NULL: the target's. */
    int (*origin)(const stk_target *t, stk_text *to);

    /* Header lines by which the server knows who asks, and what else it wants of each request; may
     * add to the URL.  STK_PENDING: keys must be looked up first.  NULL: there are none. */
    int (*sign)(const stk_lines *s, stk_transfer *t);
    /* Look for keys: 0, STK_END (there are none) or an error.  May wait.  NULL: it has none. */
    int (*find_keys)(stk_store *s, stk_keys *out, stk_error *err);

    int ranges; /* a whole file in answer to a range is a fault */
    int linked; /* the version is in x-linked-etag, of the answer that redirects */

    /* Words for errors (<Code>), each a list with blanks between; NULL: none. */
    const char *expired; /* keys */
    const char *skewed;  /* our clock is wrong */
    const char *no_bucket;
    const char *elsewhere; /* as a redirect */
    const char *check;     /* what to check where access is denied; NULL: credentials and ... */
    /* A redirect, or `elsewhere`.  1: *v is the verdict, with rc and why.  NULL: follow it. */
    int (*moved)(stk_transfer *t, stk_verdict *v);

    /* A page of the files under a prefix of a bucket; token "": the first one. */
    int (*list_query)(stk_text *q, const char *prefix, const char *token, stk_error *err);
    const stk_xml_names *listing;

    const char *put_header; /* with a file that is put as a whole; NULL: none */
    const stk_parts *parts;
};

/* The dialect of an address by its scheme; one that is not known is asked as the web is. */
const stk_dialect *stk_dialect_of(const char *url);

/* ---- what s3.c shares with google.c ---- */
int stk_s3_open(stk_target *t, const char *rest, const char *endpoint, stk_error *err);
int stk_s3_sign(const stk_lines *s, stk_transfer *t);
int stk_s3_moved(stk_transfer *t, stk_verdict *v);
int stk_s3_list_query(stk_text *q, const char *prefix, const char *token, stk_error *err);
extern const stk_parts stk_s3_parts;
#define STK_S3_SOURCE(x, text)                                                                     \
    STK_REMOTE(x, text, STK_SOURCE_LISTS | STK_SOURCE_PUTS, .list = stk_remote_list,               \
               .put = stk_remote_put, .remove = stk_remote_remove, .sweep = stk_remote_sweep)
#define STK_S3_SPEAKS                                                                              \
    .bucket = "bucket", .sign = stk_s3_sign, .ranges = 1,                                          \
    .expired =                                                                                     \
        "ExpiredToken TokenRefreshRequired InvalidToken RequestExpired ExpiredTokenException",     \
    .skewed = "RequestTimeTooSkewed", .no_bucket = "NoSuchBucket",                                 \
    .elsewhere = "AuthorizationHeaderMalformed", .moved = stk_s3_moved,                            \
    .list_query = stk_s3_list_query, .listing = &stk_xml_objects, .parts = &stk_s3_parts

/* The functions of remote.c as a source. */
#define STK_REMOTE(x, text, flags, ...)                                                            \
    {                                                                                              \
        .abi = STK_PLUGIN_ABI, .size = sizeof(stk_source), .name = #x, .help = text, .scheme = #x, \
        .can = STK_SOURCE_REMOTE | STK_SOURCE_RETRIES | (flags), .open = stk_remote_open,          \
        .ready = stk_remote_ready, .read = stk_remote_read, .try_read = stk_remote_try_read,       \
        .submit = stk_remote_submit, .fd = stk_remote_fd, .fill = stk_remote_fill,                 \
        .submit_all = stk_remote_submit_all, .close = stk_remote_close,                            \
        .reason = stk_remote_reason, .asked = stk_remote_asked, __VA_ARGS__                        \
    }

#define STK_STORE(name) extern const stk_dialect stk_dialect_##name;
#include "registry.def"

#endif
