/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - files of a remote store, read over HTTP.  Sources, listings and uploads of every
 * dialect (S3, GCS, Azure, HTTP, the Hub) call these functions. */
#ifndef STOKER_STORE_REMOTE_H
#define STOKER_STORE_REMOTE_H

#include "base/text.h"
#include "source/source.h"

/* The functions of a source, for STK_REMOTE() of dialect.h. */
int stk_remote_open(const stk_open_info *o, stk_file **out, stk_error *err);
int stk_remote_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err);
int stk_remote_read(stk_file *file, stk_io *io);
int stk_remote_try_read(stk_file *file, stk_io *io);
int stk_remote_submit(stk_file *file, stk_io *io);
int stk_remote_submit_all(stk_file *file, stk_io *list);
int stk_remote_fd(const stk_file *file);
int stk_remote_fill(stk_file *file, stk_error *err);
void stk_remote_close(stk_file *file);
int stk_remote_reason(const stk_io *io, char *text, size_t size);
uint64_t stk_remote_asked(const stk_source *self, const stk_store *s);

/* "s3:// or gs://": the schemes of the stores that can do this (a flag of stk_source.can), for
 * errors. */
const char *stk_stores_that(uint32_t can, char *text, size_t size);

/* Call after a halt was set: reads with that halt end at once, with STK_ECLOSED. */
void stk_source_look(void);

typedef struct stk_owing { /* a host that was asked and has not answered */
    char host[128];
    uint32_t pending, retries; /* requests; those sent again since its last answer */
    uint64_t since_ns;         /* on stk_now_ns() */
    char why[160];             /* of the last that was sent again; "": none was */
} stk_owing;
/* Of all hosts the one that `url` names, else the one that is waited for longest.  0: there is
 * none. */
int stk_source_owing(const char *url, stk_owing *out);

/* xml.c */
typedef struct stk_xml_names { /* of the elements of a listing */
    const char *entry;         /* what is listed, with these in it: */
    const char *key, *size, *etag;
    const char *more; /* "true": there is another page; NULL: if there is `next` */
    const char *next, *after;
} stk_xml_names;
extern const stk_xml_names stk_xml_objects, stk_xml_uploads; /* S3's */

typedef struct stk_xml_list { /* a page of a listing */
    const stk_xml_names *names;
    /* of uploads: their id in place of the etag */
    int (*each)(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err);
    void *cookie;
    int more;         /* there is another page */
    char token[4096]; /* token that asks for the next page; for uploads the key before it */
    char after[2048]; /* for uploads: the upload before the next page */
} stk_xml_list;
int stk_xml_listing(stk_bytes doc, stk_xml_list *l, stk_error *err);

/* Checks that the pages of a listing end, by the text that asks for the next one.  Begins as
 * zeros. */
typedef struct stk_pages {
    uint64_t earlier; /* hash of an earlier text; of the 1st, 2nd, 4th, 8th ... page in turn */
    uint32_t n, until;
} stk_pages;
/* Call for each next page.  STK_ECORRUPT: the listing repeats itself, or does not say how it
 * continues. */
int stk_pages_next(stk_pages *p, const char *text, stk_error *err);

/* list.c, put.c */
size_t stk_bucket_len(const char *url); /* length of "scheme://bucket" */
int stk_remote_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                    stk_error *err);
int stk_remote_put(const char *url, const stk_store *s, stk_put **out, stk_error *err);

/* remove.c */
int stk_remote_remove(const char *url, const stk_store *s, stk_error *err);
int stk_remote_sweep(const char *prefix, const stk_store *s,
                     int (*dead)(void *cookie, const char *url), void *cookie, stk_error *err);

#endif
