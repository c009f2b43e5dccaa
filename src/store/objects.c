/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c - objects of a bucket by their address: the public functions over the tables of
 * sources. */
#include <stdio.h>
#include <stoker/store.h>

#include "base/registry.h"
#include "store/remote.h"

#define READ_MAX (256u << 20)

const char *stk_stores_that(uint32_t can, char *text, size_t size)
{
    const stk_source *s, *last = NULL;
    size_t n = 0;

    text[0] = 0;
    for (size_t i = 0; (s = stk_registry_get(NULL, STK_PLUGIN_SOURCE, i)) && n < size; i++) {
        if (!(s->can & STK_SOURCE_REMOTE) || !(s->can & can))
            continue;
        if (last)
            n += (size_t)snprintf(text + n, size - n, "%s%s://", n ? ", " : "", last->scheme);
        last = s;
    }
    if (last && n < size)
        snprintf(text + n, size - n, "%s%s://", n ? " or " : "", last->scheme);
    return text;
}

static int refuse(const char *url, stk_error *err)
{
    char names[100];

    return stk_fail(err, STK_ENOTSUP, "pack can't write to %.100s: write to a folder, %s", url,
                    stk_stores_that(STK_SOURCE_PUTS, names, sizeof names));
}

int stk_object_writable(const char *url, stk_error *err)
{
    const stk_source *s = stk_is_address(url) ? stk_registry_source(url) : NULL;

    return s && s->put && s->list && s->remove ? 0 : refuse(url, err);
}

int stk_object_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const struct stk_listed *f, stk_error *err),
                    void *cookie, stk_error *err)
{
    const stk_source *from = stk_registry_source(prefix);
    char names[100];

    if (!from || !from->list)
        return stk_fail(err, STK_ENOTSUP, "%.120s can't be listed: give an address of %s", prefix,
                        stk_stores_that(STK_SOURCE_LISTS, names, sizeof names));
    return from->list(prefix, s, each, cookie, err);
}

int stk_object_read(const char *url, const stk_store *s, void **out, size_t *len, stk_error *err)
{
    stk_open_info o = { .url = url, .size = UINT64_MAX, .store = s, .uncached = 1 };
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_source_open(stk_registry_source(url), &o, &f, err);

    *out = NULL;
    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && info.size > READ_MAX)
        rc = stk_fail(err, STK_ELIMIT, "%.120s has more than %u bytes", url, READ_MAX);
    if (rc == 0 && !(*out = stk_zalloc(1, (size_t)info.size + 1)))
        rc = stk_fail_nomem(err, (size_t)info.size);
    if (rc == 0)
        rc = stk_file_read(f, 0, *out, (size_t)info.size, err);
    *len = (size_t)info.size;
    stk_file_close(&f);
    if (rc < 0) {
        stk_free(*out);
        *out = NULL;
    }
    return rc;
}

int stk_object_put(const char *url, const stk_store *s, stk_put **out, stk_error *err)
{
    const stk_source *to = stk_registry_source(url);

    *out = NULL;
    return to && to->put ? to->put(url, s, out, err) : refuse(url, err);
}

int stk_object_write(const char *url, const stk_store *s, const void *data, size_t len,
                     stk_error *err)
{
    stk_put *to = NULL;
    int rc = stk_object_put(url, s, &to, err);

    if (rc == 0)
        rc = to->write(to, data, len, err);
    if (rc == 0)
        rc = to->commit(to, err);
    if (to)
        to->close(to);
    return rc;
}

int stk_object_remove(const char *url, const stk_store *s, stk_error *err)
{
    const stk_source *from = stk_registry_source(url);

    return from && from->remove ? from->remove(url, s, err) : refuse(url, err);
}

int stk_object_sweep(const char *prefix, const stk_store *s,
                     int (*dead)(void *cookie, const char *url), void *cookie, stk_error *err)
{
    const stk_source *from = stk_registry_source(prefix);

    return from && from->sweep ? from->sweep(prefix, s, dead, cookie, err) : 0;
}
