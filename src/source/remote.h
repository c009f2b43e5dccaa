/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - files read over HTTP: what sources, listings and uploads share. */
#ifndef STOKER_SOURCE_REMOTE_H
#define STOKER_SOURCE_REMOTE_H

#include "base/text.h"
#include "source/source.h"

/* An http[s] URL without its query and password, which are kept for when it is opened. */
int stk_url_hide(const char *url, stk_text *out, stk_error *err);

/* xml.c */
typedef struct stk_xml_list { /* a page of a listing */
    /* of uploads: their id in place of the etag */
    int (*each)(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err);
    void *cookie;
    int uploads;      /* it lists uploads, not files */
    int more;         /* there is another page */
    char token[4096]; /* that asks for it; of uploads the key before it */
    char after[2048]; /* of uploads: the upload before it */
} stk_xml_list;
int stk_xml_listing(stk_bytes doc, stk_xml_list *l, stk_error *err);

/* Pages of a listing, by the text that asks for the next one.  Zeros to begin with. */
typedef struct stk_pages {
    uint64_t kept; /* hash of an earlier text; of the 1st, 2nd, 4th, 8th ... page in turn */
    uint32_t n, until;
} stk_pages;
/* There is another page.  STK_ECORRUPT: the listing repeats itself, or says not how it goes on. */
int stk_pages_next(stk_pages *p, const char *text, stk_error *err);

/* list.c, put.c */
int stk_remote_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                    stk_error *err);
int stk_hub_list(const char *prefix, const stk_store *s,
                 int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                 stk_error *err);
int stk_remote_put(const char *url, const stk_store *s, stk_put **out, stk_error *err);

/* remove.c */
int stk_remote_remove(const char *url, const stk_store *s, stk_error *err);
int stk_remote_sweep(const char *prefix, const stk_store *s,
                     int (*dead)(void *cookie, const char *url), void *cookie, stk_error *err);

#endif
