/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - mem://NAME: bytes that the process holds already, for tests, fuzzers and benches.
 *
 * The list of names is the one thing here that is written after start; a lock guards it.  An
 * open file has its own copy of the range and no tie to the list, so dropping a name while a
 * file is open is fine as long as the bytes stay. */
#include "source/source.h"

#include <string.h>

#include "base/lock.h"

#define SCHEME "mem://"

typedef struct named {
    struct named *next;
    const uint8_t *data;
    size_t len;
    char name[];
} named;

typedef struct memory_file {
    stk_file base;
    const uint8_t *data;
    size_t len;
} memory_file;

static stk_mutex list_lock = STK_MUTEX_INITIALIZER;
static named *list STK_GUARDED(list_lock);

/* The link that points to the entry of that name, or to the end. */
static named **find_locked(const char *name) STK_REQUIRES(list_lock)
{
    named **at = &list;

    while (*at && strcmp((*at)->name, name))
        at = &(*at)->next;
    return at;
}

static const char *bare(const char *url)
{
    return strncmp(url, SCHEME, sizeof SCHEME - 1) ? url : url + sizeof SCHEME - 1;
}

int stk_memory_put(const char *name, const void *data, size_t len, stk_error *err)
{
    named *fresh = NULL, *old, **at;
    size_t n;

    name = bare(name);
    n = strlen(name);
    if (data) {
        fresh = stk_alloc(sizeof *fresh + n + 1);
        if (!fresh)
            return stk_fail_nomem(err, sizeof *fresh + n + 1);
        fresh->data = data;
        fresh->len = len;
        memcpy(fresh->name, name, n + 1);
    }
    stk_mutex_lock(&list_lock);
    at = find_locked(name);
    old = *at;
    if (old)
        *at = old->next;
    if (fresh) {
        fresh->next = list;
        list = fresh;
    }
    stk_mutex_unlock(&list_lock);
    stk_free(old);
    return 0;
}

static int memory_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    memory_file *f = STK_NEW(memory_file);
    const named *e;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    stk_mutex_lock(&list_lock);
    e = *find_locked(bare(o->url));
    if (e) {
        f->data = e->data;
        f->len = e->len;
    }
    stk_mutex_unlock(&list_lock);
    if (!e) {
        stk_free(f);
        stk_fail(err, STK_ENOTFOUND, "no bytes have this name: stk_memory_put() gives them one");
        stk_error_at(err, o->url, STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_ENOTFOUND;
    }
    f->base.source = &stk_source_memory;
    *out = &f->base;
    return 0;
}

static int memory_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err)
{
    memset(out, 0, sizeof *out);
    out->size = ((memory_file *)file)->len;
    (void)err;
    return 0;
}

static int memory_read(stk_file *file, stk_io *io)
{
    memory_file *f = (memory_file *)file;
    size_t left = io->offset < f->len ? f->len - (size_t)io->offset : 0;

    io->rc = io->sys = 0;
    io->got = io->len < left ? io->len : left;
    if (io->got)
        memcpy(io->dst, f->data + io->offset, io->got);
    return 0;
}

static const void *memory_peek(stk_file *file, uint64_t offset, size_t len)
{
    memory_file *f = (memory_file *)file;

    if (offset > f->len || len > f->len - offset)
        return NULL;
    return f->data + offset;
}

static void memory_close(stk_file *file)
{
    stk_free(file);
}

const stk_source stk_source_memory = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "memory",
    .help = "mem://NAME: bytes given to stk_memory_put(), for tests",
    .scheme = "mem",
    .open = memory_open,
    .ready = memory_ready,
    .read = memory_read,
    .try_read = memory_read,
    .peek = memory_peek,
    .close = memory_close,
};
