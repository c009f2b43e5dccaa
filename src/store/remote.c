/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - files of stores, of any dialect, as a source: they are read by range.
 *
 * Opening sends nothing.  Where the index knew size and version, nothing has to be asked at all:
 * every read carries the version, and an answer of another one is an error.  Otherwise ready() asks
 * for one byte, whose answer says both. */
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "config.h"
#include "store/dialect.h"

#if STK_HAVE_STORES
#include "base/mem.h"
#include "source/hidden.h"
#include "store/store_cache.h"

#define ASK_TRIES 5
#define FILL (64 * STK_CHUNK) /* asked for at once */
/* bytes between two reads: fetching and dropping them is cheaper than a second request */
#define MERGE_GAP (16u << 10)
#define MERGE_HOLE (64u << 10)
/* bytes of reads that become one: few enough not to wait for each other */
#define MERGE_MOST (2u << 20)

typedef struct remote_file {
    stk_file base;
    stk_target *to;
    char *url;                          /* for the cache, without secrets; NULL: there is none */
    _Atomic(stk_cache_object *) cached; /* what is on disk; NULL: not known, or not wanted */
    /* stk_store_lock: */
    int known, said;       /* said: a read told `info`, and no one has looked at it since */
    stk_file_info info;    /* stays as it is once known */
    char why[STK_WHY_MAX]; /* the last failure */
} remote_file;

typedef struct remote_read { /* one request on its way */
    stk_transfer t;          /* first */
    remote_file *f;
    stk_io *io; /* the read, or several: a list by offset */
    stk_io *at; /* of several: where its bytes have got to */
} remote_read;

/* ---- the cache ---- */

/* Whom a bucket is asked of, unless it goes without saying, is a part of what the file is. */
static int cache_url(remote_file *f, const char *url, stk_error *err)
{
    const char *origin = f->to->bucket[0] ? f->to->origin : NULL, *usual = f->to->dialect->usual;
    stk_text t = { 0 };
    int rc;

    if (!f->to->store->cache)
        return 0;
    if (origin && usual && !strcmp(origin, usual))
        origin = NULL;
    rc = stk_url_hide(url, &t, err);
    if (rc == 0 && origin)
        rc = stk_text_put(&t, " @", 2, err);
    if (rc == 0 && origin)
        rc = stk_text_put(&t, origin, strlen(origin), err);
    f->url = t.s;
    return rc;
}

/* Size and version are known.  A file that can't be cached is read as usual. */
static void attach(remote_file *f, const stk_file_info *info)
{
    stk_cache_object *mine = NULL, *none = NULL;
    stk_cache_id id = { f->url, info->etag, info->size };

    if (!f->url || !info->etag[0] || atomic_load_explicit(&f->cached, memory_order_acquire) ||
        stk_cache_object_open(&mine, f->to->store->cache, &id, NULL) < 0)
        return;
    if (stk_puller_hold(NULL) < 0) {
        stk_cache_object_unref(&mine);
        return;
    }
    if (!atomic_compare_exchange_strong_explicit(&f->cached, &none, mine, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        stk_cache_object_unref(&mine); /* another thread was quicker */
        stk_puller_drop();
    }
}

static void detach(remote_file *f)
{
    stk_cache_object *o = atomic_load_explicit(&f->cached, memory_order_acquire);

    if (!o)
        return;
    stk_cache_object_unref(&o);
    stk_puller_drop();
}

/* Is it worth while to go through the cache, though not all of it is there? */
static stk_cache_object *cache_for(remote_file *f, const stk_io *io)
{
    stk_cache_object *o = atomic_load_explicit(&f->cached, memory_order_acquire);

    if (!o || !io->len || io->offset >= o->size)
        return NULL;
    if (!stk_cache_folder_full(o->folder))
        return o;
    for (uint64_t at = io->offset; at < o->size && at - io->offset < io->len;
         at = (at / STK_CHUNK + 1) * STK_CHUNK)
        if (stk_cache_object_has(o, at / STK_CHUNK) != STK_CHUNK_ABSENT)
            return o;
    return NULL;
}

static int pull(remote_file *f, stk_cache_object *o, stk_io *io)
{
    stk_pull_from from = {
        .object = o, .to = f->to, .etag = f->info.etag, .why = f->why, .halt = stk_halt_mine()
    };

    return stk_pull_start(&from, io);
}

static void pulled(stk_io *io)
{
    stk_wait_came(io->cookie);
}

static int pull_now(remote_file *f, stk_cache_object *o, stk_io *io)
{
    stk_halt halt = { .above = stk_halt_mine() };
    const stk_halt *was = stk_halt_enter(&halt);
    stk_wait w;
    stk_io mine = { .offset = io->offset,
                    .len = io->len,
                    .dst = io->dst,
                    .file = io->file,
                    .done = pulled,
                    .cookie = &w };
    int rc;

    stk_wait_init(&w, 1);
    rc = pull(f, o, &mine);
    if (rc < 0)
        mine.rc = rc;
    if (rc == STK_PENDING && stk_wait_look(&w) < 0) {
        stk_halt_set(&halt, 1);
        stk_source_look();
    }
    if (rc == STK_PENDING)
        stk_wait_all(&w);
    stk_wait_fini(&w);
    stk_halt_enter(was);
    io->got = mine.got;
    io->sys = mine.sys;
    return io->rc = mine.rc;
}

int stk_remote_fd(const stk_file *file)
{
    stk_cache_object *o = atomic_load_explicit(&((const remote_file *)file)->cached,
                                               memory_order_acquire);

    return o ? stk_cache_object_whole(o) : -1;
}

int stk_remote_fill(stk_file *file, stk_error *err)
{
    remote_file *f = (remote_file *)file;
    stk_cache_object *o;
    stk_file_info info;

    if (!f->url) /* there is no cache */
        return STK_END;
    STK_TRY(stk_remote_ready(file, 1, &info, err));
    o = atomic_load_explicit(&f->cached, memory_order_acquire);
    if (!o)
        return STK_END;
    for (uint64_t at = 0; at < o->size; at += FILL) {
        uint64_t len = o->size - at < FILL ? o->size - at : FILL;
        stk_io io = { .offset = at, .len = (size_t)len, .file = file };
        char why[STK_REASON_MAX];

        if (stk_cache_object_covers(o, at, (size_t)len))
            continue;
        if (pull_now(f, o, &io) == STK_ELIMIT)
            return STK_END;
        if (io.rc < 0)
            return stk_fail(err, io.rc, "filling the cache failed: %s",
                            stk_io_reason(&io, why, sizeof why));
    }
    return stk_cache_object_whole(o) < 0 ? STK_END : 0;
}

/* What is on disk is read as a local file is: by what the page cache has, then by io_uring. */
int stk_remote_try_read(stk_file *file, stk_io *io)
{
    stk_cache_object *o = atomic_load_explicit(&((remote_file *)file)->cached,
                                               memory_order_acquire);

    if (!o || !stk_cache_object_covers(o, io->offset, io->len))
        return STK_PENDING;
    io->file = o->local;
    return o->local->source->try_read(o->local, io);
}

/* ---- open, close, ready ---- */

static int has_key(const char *url)
{
    const char *rest = strstr(url, "://"), *slash = rest ? strchr(rest + 3, '/') : NULL;

    return slash && slash[1];
}

int stk_remote_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    remote_file *f = STK_NEW(remote_file);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->base.source = &stk_dialect_of(o->url)->source;
    rc = stk_http_hold(err);
    if (rc < 0) {
        stk_free(f);
        return rc;
    }
    rc = stk_target_open(&f->to, o->url, o->store, err);
    if (rc == 0 && f->to->bucket[0] && !has_key(o->url))
        rc = stk_fail(err, STK_EINVAL,
                      "that is a %s: name an object in it, or end with / for the .tar files right "
                      "under it",
                      f->to->dialect->bucket);
    if (rc == 0)
        rc = o->uncached ? 0 : cache_url(f, o->url, err);
    if (rc < 0) {
        stk_remote_close(&f->base);
        return rc;
    }
    if (o->size != UINT64_MAX && o->etag && o->etag[0] && strlen(o->etag) < sizeof f->info.etag) {
        f->known = 1;
        f->info.size = o->size;
        memcpy(f->info.etag, o->etag, strlen(o->etag) + 1);
        attach(f, &f->info);
    }
    *out = &f->base;
    return 0;
}

void stk_remote_close(stk_file *file)
{
    remote_file *f = (remote_file *)file;

    detach(f);
    stk_target_close(&f->to);
    stk_free(f->url);
    stk_free(f);
    stk_http_drop();
}

/* Size and version, by the answer to a range. */
static void note_info(const stk_transfer *t, stk_file_info *out)
{
    memset(out, 0, sizeof *out);
    out->size = t->status == 416 && t->answer.total == UINT64_MAX ? 0 : t->answer.total;
    stk_answer_version(&t->answer, t->to->dialect->linked, out->etag);
}

/* One byte is asked for, since HEAD says nothing of why it failed.  `whole`: the server sent all of
 * a file in answer, or a page that says what failed. */
static int ask_once(remote_file *f, stk_file_info *out, int *whole, stk_error *err)
{
    uint8_t byte;
    stk_transfer t = {
        .to = f->to,
        .method = "GET",
        .len = 1,
        .dst = &byte,
        .budget_ms = stk_store_patience(f->to->store, 1),
    };
    int rc;

    rc = stk_http_run(&t, err);
    *whole = t.own.whole;
    if (rc == 0) {
        note_info(&t, out);
        if (out->size == UINT64_MAX)
            rc = stk_fail(err, STK_ENOTSUP,
                          "the server does not say how large the file is (no Content-Range)");
    }
    stk_transfer_fini(&t);
    return rc;
}

/* A server without ranges answers twice the same; a page that says what failed once had another
 * length. */
static int ask(remote_file *f, stk_file_info *out, stk_error *err)
{
    stk_file_info before = { .size = UINT64_MAX };
    int whole = 0;

    for (int i = 0; i < ASK_TRIES; i++) {
        STK_TRY(ask_once(f, out, &whole, err));
        if (!whole || (out->size == before.size && !strcmp(out->etag, before.etag)))
            return 0;
        before = *out;
    }
    return stk_fail(err, STK_EIO, "the server gives the file another size at each of %d tries",
                    ASK_TRIES);
}

int stk_remote_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err)
{
    remote_file *f = (remote_file *)file;
    stk_file_info now;
    int known, said, rc;

    stk_mutex_lock(&stk_store_lock);
    known = f->known;
    said = f->said;
    *out = now = f->info;
    stk_mutex_unlock(&stk_store_lock);
    if (known)
        return 0;
    if (!wait && !said)
        return STK_PENDING;
    rc = said ? 0 : ask(f, &now, err);
    if (rc < 0)
        return rc;
    stk_mutex_lock(&stk_store_lock);
    if (!f->known)
        f->info = now;
    f->known = 1;
    *out = f->info;
    stk_mutex_unlock(&stk_store_lock);
    attach(f, out);
    return 0;
}

/* ---- reading ---- */

/* Its part of what has come. */
static void io_finish(const remote_read *r, stk_io *io)
{
    uint64_t before = io->offset - r->t.offset;

    io->got = r->t.got <= before ? 0 : r->t.got - before < io->len ? r->t.got - before : io->len;
    io->rc = r->t.rc;
    io->sys = r->t.rc < 0 ? -(r->t.status ? r->t.status : 1) : 0;
}

/* Of a file that no one has asked about, the answer to a read says size and version.  One that is
 * the whole file may be a page that says what failed (ask()). */
static void read_finish(remote_read *r)
{
    remote_file *f = r->f;
    stk_file_info info;

    note_info(&r->t, &info);
    stk_mutex_lock(&stk_store_lock);
    if (r->t.rc < 0)
        memcpy(f->why, r->t.why, sizeof f->why);
    else if (!f->known && !f->said && !r->t.own.whole && info.size != UINT64_MAX) {
        f->info = info;
        f->said = 1;
    }
    stk_mutex_unlock(&stk_store_lock);
    stk_transfer_fini(&r->t);
}

static void read_set(remote_read *r, remote_file *f, stk_io *io)
{
    *r = (remote_read){
        .t = { .to = f->to, .method = "GET", .offset = io->offset, .len = io->len, .dst = io->dst },
        .f = f,
        .io = io
    };
    stk_mutex_lock(&stk_store_lock);
    r->t.etag = f->known ? f->info.etag : NULL;
    r->t.size = f->known ? f->info.size : 0;
    stk_mutex_unlock(&stk_store_lock);
    io->got = 0;
    io->rc = io->sys = 0;
}

static void submitted(stk_transfer *t)
{
    remote_read *r = (remote_read *)t;
    stk_io *next = NULL;

    read_finish(r);
    for (stk_io *io = r->io; io; io = next) {
        next = io->next;
        io_finish(r, io);
        io->done(io); /* it may be used again from here on */
    }
    stk_free(r);
}

int stk_remote_submit(stk_file *file, stk_io *io)
{
    stk_cache_object *o = cache_for((remote_file *)file, io);
    remote_read *r;

    if (o)
        return pull((remote_file *)file, o, io);
    r = STK_NEW(remote_read);
    if (!r)
        return STK_ENOMEM;
    read_set(r, (remote_file *)file, io);
    if (!io->len) {
        stk_free(r);
        return 0;
    }
    io->next = NULL;
    r->t.done = submitted;
    stk_http_start(&r->t);
    return STK_PENDING;
}

/* ---- several reads at once: neighbours become one request ---- */

/* Bytes go to the reads that want them; those between two reads go nowhere. */
static void scatter(stk_transfer *t, const void *p, size_t len)
{
    remote_read *r = (remote_read *)t;
    uint64_t from = t->offset + t->got, end = from + len;

    if (from < r->at->offset) /* a second answer, from the start on */
        r->at = r->io;
    for (stk_io *io = r->at; io && io->offset < end; io = io->next) {
        uint64_t a = from > io->offset ? from : io->offset;
        uint64_t b = end < io->offset + io->len ? end : io->offset + io->len;

        r->at = io;
        if (a < b)
            memcpy((uint8_t *)io->dst + (a - io->offset), (const uint8_t *)p + (a - from), b - a);
    }
}

/* Bytes that are read in vain rather than by a second request.  Those of fields of which parts are
 * wanted count less: they would have been read whole. */
static uint64_t gap_between(const stk_io *a, const stk_io *b)
{
    uint64_t unwanted = a->after + b->before;

    return MERGE_GAP + (unwanted < MERGE_HOLE ? unwanted : MERGE_HOLE);
}

/* Cut a list after the reads that become one request.  *end: where that ends.  Answers the
 * others. */
static stk_io *cut_neighbours(stk_io *first, uint64_t *end)
{
    stk_io *last = first, *rest;

    *end = first->offset + first->len;
    for (; (rest = last->next); last = rest) {
        if (first->len > MERGE_MOST || rest->len > MERGE_MOST || rest->offset < *end ||
            rest->offset - *end > gap_between(last, rest) ||
            rest->offset + rest->len - first->offset > MERGE_MOST)
            break;
        last->after = rest->before = 0; /* they are between the two */
        *end = rest->offset + rest->len;
    }
    last->next = NULL;
    return rest;
}

static remote_read *read_several(remote_file *f, stk_io **list)
{
    remote_read *r = STK_NEW(remote_read);
    stk_io *first = *list;
    uint64_t end;

    if (!r)
        return NULL;
    *list = cut_neighbours(first, &end);
    read_set(r, f, first);
    r->t.done = submitted;
    if (!first->next)
        return r;
    r->at = first;
    r->t.dst = NULL;
    r->t.put = scatter;
    r->t.len = (size_t)(end - first->offset);
    return r;
}

int stk_remote_submit_all(stk_file *file, stk_io *list)
{
    remote_file *f = (remote_file *)file;
    stk_transfer *first = NULL, **end = &first, *t;

    for (const stk_io *io = list; io; io = io->next)
        if (cache_for(f, io))
            return STK_ENOTSUP;
    while (list) {
        remote_read *r = read_several(f, &list);

        if (!r)
            break;
        *end = &r->t;
        end = &r->t.next;
    }
    for (; (t = first);) { /* all of them, or none */
        first = t->next;
        if (list)
            stk_free(t);
        else
            stk_http_start(t);
    }
    return list ? STK_ENOMEM : STK_PENDING;
}

int stk_remote_read(stk_file *file, stk_io *io)
{
    stk_file_info info;
    stk_cache_object *o;
    remote_read r;
    int whole;

    if (((remote_file *)file)->url)
        /* what is cached is found by size and version */
        (void)stk_remote_ready(file, 1, &info, NULL);
    o = cache_for((remote_file *)file, io);
    if (o && stk_cache_object_covers(o, io->offset, io->len))
        return o->local->source->read(o->local, io);
    if (o)
        return pull_now((remote_file *)file, o, io);
    read_set(&r, (remote_file *)file, io);
    if (!io->len)
        return 0;
    (void)stk_http_run(&r.t, NULL);
    whole = r.t.own.whole && !r.t.size;
    io_finish(&r, io);
    read_finish(&r);
    if (whole && stk_remote_ready(file, 1, &info, NULL) == 0 && info.size) {
        /* a file of that size, or a page that says what failed? */
        read_set(&r, (remote_file *)file, io);
        (void)stk_http_run(&r.t, NULL);
        io_finish(&r, io);
        read_finish(&r);
    }
    return io->rc;
}

void stk_source_look(void)
{
    stk_puller_look();
    stk_http_look();
}

int stk_remote_reason(const stk_io *io, char *text, size_t size)
{
    remote_file *f = (remote_file *)io->file;

    stk_mutex_lock(&stk_store_lock);
    snprintf(text, size, "%s", f->why);
    stk_mutex_unlock(&stk_store_lock);
    return text[0] != 0;
}

uint64_t stk_remote_asked(const stk_source *self, const stk_store *s)
{
    return stk_store_asked(s, ((const stk_dialect *)self)->env);
}

#else /* no libcurl, OpenSSL or expat */

static int never_open(const stk_open_info *o, stk_file **out, stk_error *err)
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
    return never_open(NULL, &f, err);
}

static int never_put(const char *url, const stk_store *s, stk_put **out, stk_error *err)
{
    stk_file *f;

    (void)url, (void)s;
    *out = NULL;
    return never_open(NULL, &f, err);
}

void stk_source_look(void)
{
}

int stk_source_owing(const char *url, stk_owing *out)
{
    (void)url, (void)out;
    return 0;
}

#define STK_STORE(x)                                                                               \
    const stk_dialect stk_dialect_##x = {                                                          \
        .source = { .abi = STK_PLUGIN_ABI,                                                         \
                    .size = sizeof(stk_source),                                                    \
                    .name = #x,                                                                    \
                    .help = #x "://...: this build reads no remote data",                          \
                    .scheme = #x,                                                                  \
                    .can = STK_SOURCE_REMOTE | STK_SOURCE_LISTS | STK_SOURCE_PUTS |                \
                           STK_SOURCE_RETRIES,                                                     \
                    .open = never_open,                                                            \
                    .ready = never_ready,                                                          \
                    .read = never_read,                                                            \
                    .close = never_close,                                                          \
                    .list = never_list,                                                            \
                    .put = never_put },                                                            \
    };
#include "registry.def"
#endif
