/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.h - removes secrets (query, password) from web addresses, so that names can be shown and
 * logged, and finds them again when a request is sent.  Lists of names hide; store/target.c
 * reveals. */
#ifndef STOKER_SOURCE_HIDDEN_H
#define STOKER_SOURCE_HIDDEN_H

#include "base/err.h"
#include "base/lock.h"
#include "base/text.h"

typedef struct stk_url_parts { /* parts of scheme://user:password@host/path?query, as lengths */
    size_t scheme;             /* "scheme://" */
    size_t user;               /* "user:password@" after it; 0: there is none */
    size_t path, query;        /* offsets at which these begin */
} stk_url_parts;
stk_url_parts stk_url_split(const char *url);

/* Writes an address without its query and password to `out`, and stores those in memory until the
 * address is opened. */
int stk_url_hide(const char *url, stk_text *out, stk_error *err);

typedef struct stk_hidden { /* the caller's own; end with stk_hidden_fini() */
    char *query, *user;     /* NULL: none.  Secret. */
} stk_hidden;
/* Sets *out to the query and user that stk_url_hide() removed from this URL. */
int stk_url_reveal(const char *url, stk_hidden *out, stk_error *err);
void stk_hidden_fini(stk_hidden *h);
void stk_secret_free(char **secret); /* overwrites it first; NULL-safe, nulls */

/* The mark of a hidden query in a URL; NULL: it has none. */
#define STK_URL_MARK 18u /* bytes: "?0123456789abcdef~" */
const char *stk_url_mark(const char *url);

extern stk_mutex stk_hidden_lock; /* held over fork() */

#endif
