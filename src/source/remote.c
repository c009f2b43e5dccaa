/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - http, https, s3, gs and hf as sources: files that are read by range.
 *
 * Opening sends nothing.  Where the index knew size and version, nothing has to be asked at all:
 * every read carries the version, and an answer of another one is an error.  Otherwise ready() asks
 * for one byte, whose answer says both. */
#include "source/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "config.h"

#if STK_HAVE_STORES
#include "base/mem.h"
#include "source/http.h"

typedef struct remote_file {
    stk_file base;
    stk_target *to;
    /* stk_store_lock: */
    int known;
    stk_file_info info; /* stays as it is once known */
    char why[STK_WHY_MAX]; /* the last failure */
} remote_file;

typedef struct remote_read { /* one read on its way */
    stk_transfer t;          /* first */
    remote_file *f;
    stk_io *io;
} remote_read;

static int remote_open(const stk_source *source, const stk_open_info *o, stk_file **out,
                       stk_error *err)
{
    remote_file *f = STK_NEW(remote_file);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->base.source = source;
    rc = stk_http_hold(err);
    if (rc < 0) {
        stk_free(f);
        return rc;
    }
    rc = stk_target_open(&f->to, o->url, o->store, err);
    if (rc < 0) {
        f->base.source->close(&f->base);
        return rc;
    }
    if (o->size != UINT64_MAX && o->etag && o->etag[0] && strlen(o->etag) < sizeof f->info.etag) {
        f->known = 1;
        f->info.size = o->size;
        memcpy(f->info.etag, o->etag, strlen(o->etag) + 1);
    }
    *out = &f->base;
    return 0;
}

static void remote_close(stk_file *file)
{
    remote_file *f = (remote_file *)file;

    stk_target_close(&f->to);
    stk_free(f);
    stk_http_drop();
}

static void ask_to_pay(const remote_file *f, stk_transfer *t)
{
    if (f->to->store->o.requester_pays == STK_YES && f->to->bucket[0])
        t->header[0] = "x-amz-request-payer:requester";
}

/* One byte is asked for, since HEAD says nothing of why it failed. */
static int ask(remote_file *f, stk_file_info *out, stk_error *err)
{
    uint8_t byte;
    stk_transfer t = { .to = f->to, .method = "GET", .len = 1, .dst = &byte,
                       .budget_ms = STK_ASK_BUDGET_MS };
    const stk_answer *a = &t.answer;
    int rc;

    ask_to_pay(f, &t);
    rc = stk_http_run(&t, err);
    if (rc == 0) {
        memset(out, 0, sizeof *out);
        out->size = t.status == 416 && a->total == UINT64_MAX ? 0 : a->total;
        stk_etag_short(f->to->linked && a->linked_etag[0] ? a->linked_etag : a->etag, out->etag);
        if (out->size == UINT64_MAX)
            rc = stk_fail(err, STK_ENOTSUP,
                          "the server does not say how large the file is (no Content-Range)");
    }
    stk_transfer_fini(&t);
    return rc;
}

static int remote_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err)
{
    remote_file *f = (remote_file *)file;
    stk_file_info now;
    int known, rc;

    stk_mutex_lock(&stk_store_lock);
    known = f->known;
    *out = f->info;
    stk_mutex_unlock(&stk_store_lock);
    if (known)
        return 0;
    if (!wait)
        return STK_PENDING;
    rc = ask(f, &now, err);
    if (rc < 0)
        return rc;
    stk_mutex_lock(&stk_store_lock);
    f->info = *out = now;
    f->known = 1;
    stk_mutex_unlock(&stk_store_lock);
    return 0;
}

/* ---- reading ---- */

static void read_finish(remote_read *r)
{
    remote_file *f = r->f;
    stk_io *io = r->io;

    io->got = r->t.got;
    io->rc = r->t.rc;
    io->sys = r->t.rc < 0 ? -(r->t.status ? r->t.status : 1) : 0;
    if (r->t.rc < 0) {
        stk_mutex_lock(&stk_store_lock);
        memcpy(f->why, r->t.why, sizeof f->why);
        stk_mutex_unlock(&stk_store_lock);
    }
    stk_transfer_fini(&r->t);
}

static void read_set(remote_read *r, remote_file *f, stk_io *io)
{
    *r = (remote_read){ .t = { .to = f->to, .method = "GET", .offset = io->offset, .len = io->len,
                               .dst = io->dst, .budget_ms = STK_READ_BUDGET_MS },
                        .f = f,
                        .io = io };
    stk_mutex_lock(&stk_store_lock);
    r->t.etag = f->known ? f->info.etag : NULL;
    stk_mutex_unlock(&stk_store_lock);
    ask_to_pay(f, &r->t);
    io->got = 0;
    io->rc = io->sys = 0;
}

static void submitted(stk_transfer *t)
{
    remote_read *r = (remote_read *)t;
    stk_io *io = r->io;

    read_finish(r);
    stk_free(r);
    io->done(io);
}

static int remote_submit(stk_file *file, stk_io *io)
{
    remote_read *r = STK_NEW(remote_read);

    if (!r)
        return STK_ENOMEM;
    read_set(r, (remote_file *)file, io);
    if (!io->len) {
        stk_free(r);
        return 0;
    }
    r->t.done = submitted;
    stk_http_start(&r->t);
    return STK_PENDING;
}

static int remote_read_now(stk_file *file, stk_io *io)
{
    remote_read r;

    read_set(&r, (remote_file *)file, io);
    if (!io->len)
        return 0;
    (void)stk_http_run(&r.t, NULL);
    read_finish(&r);
    return io->rc;
}

static int remote_reason(const stk_io *io, char *text, size_t size)
{
    remote_file *f = (remote_file *)io->file;

    stk_mutex_lock(&stk_store_lock);
    snprintf(text, size, "%s", f->why);
    stk_mutex_unlock(&stk_store_lock);
    return text[0] != 0;
}

#define OPEN(x)                                                                                    \
    static int x##_open(const stk_open_info *o, stk_file **out, stk_error *err)                    \
    {                                                                                              \
        return remote_open(&stk_source_##x, o, out, err);                                          \
    }
#define PARTS(x)                                                                                   \
    .open = x##_open, .ready = remote_ready, .read = remote_read_now, .submit = remote_submit,     \
    .close = remote_close, .reason = remote_reason

OPEN(http)
OPEN(https)
OPEN(s3)
OPEN(gs)
OPEN(hf)

#else /* no libcurl, OpenSSL or expat */

static int remote_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    (void)o;
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP,
                    "this build reads no remote data: install libcurl4-openssl-dev, libssl-dev and "
                    "libexpat1-dev, then build again");
}

static int never_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)f, (void)wait, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build reads no remote data");
}

static int never_read(stk_file *f, stk_io *io)
{
    (void)f;
    return io->rc = STK_ENOTSUP;
}

static void never_close(stk_file *f)
{
    (void)f;
}

static int never_list(const char *prefix, const stk_store *s,
                      int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                      stk_error *err)
{
    stk_file *f;

    (void)prefix, (void)s, (void)each, (void)cookie;
    return remote_open(NULL, &f, err);
}

static int never_put(const char *url, const stk_store *s, stk_put **out, stk_error *err)
{
    stk_file *f;

    (void)url, (void)s;
    *out = NULL;
    return remote_open(NULL, &f, err);
}

int stk_url_hide(const char *url, stk_text *out, stk_error *err)
{
    return stk_text_put(out, url, strlen(url), err);
}

#define stk_remote_list never_list
#define stk_hub_list never_list
#define stk_remote_put never_put
#define PARTS(x)                                                                                   \
    .open = remote_open, .ready = never_ready, .read = never_read, .close = never_close
#endif

#define TABLE(x, text, flags, ...)                                                                 \
    const stk_source stk_source_##x = { .abi = STK_PLUGIN_ABI,                                     \
                                        .size = sizeof(stk_source),                                \
                                        .name = #x,                                                \
                                        .help = text,                                              \
                                        .scheme = #x,                                              \
                                        .can = STK_SOURCE_REMOTE | STK_SOURCE_RETRIES | (flags),   \
                                        PARTS(x),                                                  \
                                        __VA_ARGS__ };

TABLE(http, "http://host/path: files of a web server", 0, .list = NULL)
TABLE(https, "https://host/path: files of a web server", 0, .list = NULL)
TABLE(s3, "s3://bucket/key: objects of S3 and what speaks like it", STK_SOURCE_LISTS | STK_SOURCE_PUTS,
      .list = stk_remote_list, .put = stk_remote_put)
TABLE(gs, "gs://bucket/key: objects of Google Cloud Storage", STK_SOURCE_LISTS | STK_SOURCE_PUTS,
      .list = stk_remote_list, .put = stk_remote_put)
TABLE(hf, "hf://datasets/org/name/path: files of the Hugging Face Hub", STK_SOURCE_LISTS,
      .list = stk_hub_list)
