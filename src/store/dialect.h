/* SPDX-License-Identifier: Apache-2.0 */
/* dialect.h - what differs between kinds of stores: one table per store, in a file per store.
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
    /* Query of the POST that begins an upload, whose answer has an UploadId.  NULL: an upload need
     * not be begun: its id is a random number, and the store removes parts that are left. */
    const char *begin;
    /* Writes the query that sends a part, from 1; part 0: the query that ends or aborts the
     * upload. */
    int (*query)(stk_text *q, const char *upload, uint32_t part, stk_error *err);
    /* Adds a line to the list of parts, which is sent to end the upload. */
    int (*note)(stk_text *list, const char *upload, uint32_t part, const char *etag,
                stk_error *err);
    const char *method, *head, *tail; /* request with that list: method, text before and after it */
} stk_parts;

struct stk_dialect {    /* read-only */
    stk_source source;  /* first: STK_REMOTE(...) */
    const char *bucket; /* its word for a bucket; NULL: it has none */
    const char *usual;  /* default origin; NULL: none */
    const char *region; /* region in signatures, if it is always the same; NULL: the bucket's */
    /* environment variables that decide which server is asked, and as which user; up to NULL */
    const char *const *env;

    /* Sets the target's origin, path and bucket from the address. */
    int (*open)(stk_target *t, const char *url, stk_error *err);
    /* Writes the origin, which may depend on what was learned (a bucket's region).  NULL: the
     * target's origin is used. */
    int (*origin)(const stk_target *t, stk_text *to);

    /* Adds header lines that prove who asks, and others that every request needs; may add to the
     * URL.  STK_PENDING: keys must be looked up first.  NULL: there are none. */
    int (*sign)(const stk_lines *s, stk_transfer *t);
    /* Looks for keys: 0, STK_END (there are none) or an error.  May wait.  NULL: it has no keys. */
    int (*find_keys)(stk_store *s, stk_keys *out, stk_error *err);

    int ranges; /* true if a whole file as the answer to a range is an error */
    int linked; /* true if the version is in x-linked-etag of the answer that redirects */

    /* Codes of errors (<Code>), as lists with blanks between; NULL: none. */
    const char *expired; /* the keys have expired */
    const char *skewed;  /* our clock is wrong */
    const char *no_bucket;
    const char *elsewhere; /* the bucket is elsewhere; handled as a redirect */
    const char *check;     /* what users should check if access is denied; NULL: the usual text */
    /* Handles a redirect, or `elsewhere`.  1: *v is the verdict, and rc and why are set.  0, or a
     * NULL function: the redirect is followed. */
    int (*moved)(stk_transfer *t, stk_verdict *v);

    /* Writes the query for a page of the files under a prefix of a bucket; token "": the first. */
    int (*list_query)(stk_text *q, const char *prefix, const char *token, stk_error *err);
    const stk_xml_names *listing;

    const char *put_header; /* header line for a file that is put as a whole; NULL: none */
    const stk_parts *parts;
};

/* The dialect of an address by its scheme; an unknown scheme gets that of the web. */
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
