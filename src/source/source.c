/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - what every source shares: reads of an exact length, with pauses between tries, why one
 * failed, closing, lists of names. */
#include "source/source.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LARGE ((size_t)64 << 10) /* bytes of a read next to which a look at the file is nothing */

long stk_io_pause_ns(uint32_t failed)
{
    return 2000000L << (2 * (failed - 1)); /* 2, 8, 32 ms */
}

void stk_io_read(stk_io *io, uint64_t *retried)
{
    for (uint32_t i = 1; i <= STK_IO_TRIES; i++) {
        struct timespec pause = { 0, stk_io_pause_ns(i) };

        io->got = 0;
        io->sys = 0;
        io->rc = io->file->source->read(io->file, io);
        if (io->rc != STK_EIO || io->file->source->can & STK_SOURCE_RETRIES)
            return;
        if (i < STK_IO_TRIES) {
            ++*retried;
            nanosleep(&pause, NULL);
        }
    }
}

const char *stk_io_reason(const stk_io *io, char *text, size_t size)
{
    const stk_source *source = io->file ? io->file->source : NULL;

    if (source && source->reason && source->reason(io, text, size))
        return text;
    if (io->sys < 0)
        snprintf(text, size, "HTTP status %d", -io->sys);
    return io->sys > 0 ? strerror_r(io->sys, text, size) : io->sys ? text : stk_code_name(io->rc);
}

/* ---- no file ---- */

static const void *nothing_peek(stk_file *f, uint64_t offset, size_t len)
{
    (void)f, (void)offset;
    return len ? NULL : "";
}

static int nothing_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->got = 0;
    return 0;
}

static void nothing_close(stk_file *f)
{
    (void)f;
}

static const stk_source nothing = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof nothing,
                                    .name = "nothing",
                                    .help = "",
                                    .read = nothing_read,
                                    .peek = nothing_peek,
                                    .close = nothing_close };
stk_file stk_no_file = { &nothing };

/* ---- files ---- */

int stk_source_open(const stk_source *source, const stk_open_info *o, stk_file **out,
                    stk_error *err)
{
    STK_TRY(source->open(o, out, err));
    /* A plug-in sets the table that it was compiled with, which may be shorter than ours. */
    if (!strcmp((*out)->source->name, source->name))
        (*out)->source = source;
    return 0;
}

int stk_file_stat(stk_file *f, stk_file_info *out, stk_error *err)
{
    *out = (stk_file_info){ 0 };
    return f->source->ready(f, 1, out, err);
}

int stk_file_unchanged(stk_file *f, int recent, stk_error *err)
{
    return f->source->unchanged ? f->source->unchanged(f, recent, err) : 0;
}

int stk_file_fd(const stk_file *f)
{
    return f->source->fd ? f->source->fd(f) : -1;
}

int stk_file_fill(stk_file *f, stk_error *err)
{
    if (stk_file_fd(f) >= 0)
        return 0;
    return f->source->fill ? f->source->fill(f, err) : STK_END;
}

int stk_file_read(stk_file *f, uint64_t offset, void *dst, size_t len, stk_error *err)
{
    stk_io io = { .offset = offset, .len = len, .dst = dst, .file = f };
    uint64_t retried = 0;
    char text[STK_REASON_MAX];

    stk_io_read(&io, &retried);
    if (io.rc < 0)
        stk_fail(err, io.rc, "reading %zu bytes failed: %s", len,
                 stk_io_reason(&io, text, sizeof text));
    else if ((io.rc = stk_file_unchanged(f, len < LARGE && io.got == len, err)) == 0 &&
             io.got < len)
        io.rc = stk_fail(err, STK_ECORRUPT,
                         "the file ends after %zu of %zu bytes wanted here: it was cut short",
                         io.got, len);
    if (io.rc == 0)
        return 0;
    stk_error_at(err, NULL, offset, (stk_bytes){ 0 });
    return io.rc;
}

void stk_file_close(stk_file **f)
{
    if (*f)
        (*f)->source->close(*f);
    *f = NULL;
}

int stk_names_add(stk_names *l, const char *name, size_t len, stk_error *err)
{
    size_t cap = l->cap ? l->cap * 2 : 16;
    char *copy, **grown;

    if (l->n == l->cap) {
        grown = stk_grow(l->name, l->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        l->name = grown;
        l->cap = cap;
    }
    copy = stk_strndup(name, len);
    if (!copy)
        return stk_fail_nomem(err, len + 1);
    l->name[l->n++] = copy;
    return 0;
}

int stk_names_promise(stk_names *l, uint64_t samples, stk_error *err)
{
    if (l->cap_samples < l->n) {
        uint64_t *grown = stk_grow(l->samples, l->n_samples * sizeof *grown,
                                   l->cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, l->cap * sizeof *grown);
        l->samples = grown;
        l->cap_samples = l->cap;
    }
    while (l->n_samples + 1 < l->n)
        l->samples[l->n_samples++] = UINT64_MAX;
    l->samples[l->n_samples++] = samples;
    return 0;
}

void stk_names_fini(stk_names *l)
{
    stk_free(l->samples);
    for (size_t i = 0; i < l->n; i++)
        stk_free(l->name[i]);
    stk_free(l->name);
    memset(l, 0, sizeof *l);
}
