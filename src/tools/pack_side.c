/* SPDX-License-Identifier: Apache-2.0 */
/* pack_side.c - see pack_side.h. */
#include "tools/pack_side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/mem.h"
#include "source/source.h"

static int read_object(const char *url, const stk_store *store, stk_text *out, stk_error *err)
{
    void *text = NULL;
    size_t len = 0;
    int rc = stk_object_read(url, store, &text, &len, err);

    if (rc == 0)
        rc = stk_text_put(out, text, len, err);
    stk_free(text);
    return rc;
}

int stk_side_read(const char *path, const stk_store *store, stk_text *out, stk_error *err)
{
    char buf[8192], why[96];
    ssize_t got = 0;
    int fd, rc = 0;

    if (stk_is_address(path))
        return read_object(path, store, out, err);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && rc == 0 && out->len <= STK_SIDE_MAX && (got = read(fd, buf, sizeof buf)) > 0)
        rc = stk_text_put(out, buf, (size_t)got, err);
    if (rc == 0 && (fd < 0 || got < 0))
        rc = stk_fail(err, errno == ENOENT ? STK_ENOTFOUND : STK_EIO, "can't read %.160s: %s", path,
                      strerror_r(errno, why, sizeof why));
    if (rc == 0 && out->len > STK_SIDE_MAX)
        rc = stk_fail(err, STK_ELIMIT, "%.160s has more than %zu bytes", path, STK_SIDE_MAX);
    if (fd >= 0)
        close(fd);
    return rc;
}

int stk_side_write(const char *path, const stk_store *store, const stk_text *text, stk_error *err)
{
    return stk_is_address(path) ? stk_object_write(path, store, text->s, text->len, err)
                                : stk_atomic_put(path, text->s, text->len, STK_COMMIT_SYNC, err);
}

int stk_side_number(stk_bytes doc, const char *name, uint64_t *out)
{
    char text[32] = "", *end, *digits;
    stk_bytes v;

    if (stk_json_find(doc, name, &v, NULL) < 0 || !v.len || v.len >= sizeof text)
        return 0;
    memcpy(text, v.data, v.len);
    digits = text + (text[0] == '"');
    *out = strtoull(digits, &end, digits > text ? 16 : 10);
    return end > digits && (*end == 0 || *end == '"');
}

int stk_side_put(stk_text *t, const char *text, stk_error *err)
{
    return stk_text_put(t, text, strlen(text), err);
}

int stk_side_quote(stk_text *t, const char *text, stk_error *err)
{
    return stk_json_quote(t, (stk_bytes){ (const uint8_t *)text, strlen(text) }, err);
}
