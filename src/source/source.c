/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - what every source shares: reads of an exact length, closing, lists of names. */
#include "source/source.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define RETRIES 200 /* of a source that says "again": 0.2 s in all */

int stk_file_read(stk_file *f, uint64_t offset, void *dst, size_t len, stk_error *err)
{
    stk_io io = { .offset = offset, .len = len, .dst = dst, .file = f };
    char text[96];
    int tries = 0;

    while (f->source->read(f, &io) < 0 && (io.sys == EINTR || io.sys == EAGAIN) &&
           tries++ < RETRIES)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (io.rc < 0)
        stk_fail(err, io.rc, "reading %zu bytes failed: %s", len,
                 io.sys ? strerror_r(io.sys, text, sizeof text) : stk_code_name(io.rc));
    else if (io.got < len)
        io.rc = stk_fail(err, STK_ECORRUPT,
                         "the file ends after %zu of %zu bytes wanted here: it was cut short",
                         io.got, len);
    else
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

void stk_names_fini(stk_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        stk_free(l->name[i]);
    stk_free(l->name);
    memset(l, 0, sizeof *l);
}
