/* SPDX-License-Identifier: Apache-2.0 */
/* err.c - errors are values: a code, an address, one line.  No globals, no errno. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *stk_code_name(int code)
{
    static const char *const names[] = { "OK",       "EINVAL",    "ENOMEM", "EIO",
                                         "ECORRUPT", "ENOTFOUND", "ESTALE", "ELIMIT",
                                         "ENOTSUP",  "ETIMEOUT",  "ECLOSED" };

    if (code == STK_END)
        return "END";
    if (code == STK_PENDING)
        return "PENDING";
    if (code > 0 || (size_t)-code >= sizeof names / sizeof *names)
        return "?";
    return names[-code];
}

void stk_error_clear(stk_error *err)
{
    if (!err)
        return;
    err->code = 0;
    err->offset = STK_NO_OFFSET;
    err->sample = UINT64_MAX;
    err->shard[0] = err->key[0] = err->message[0] = 0;
}

int stk_fail(stk_error *err, int code, const char *fmt, ...)
{
    char raw[512];
    va_list ap;

    if (!err)
        return code;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap); /* before the rest: an argument may be of *err */
    va_end(ap);
    stk_error_clear(err);
    err->code = code;
    stk_secrets_hide(raw);
    stk_text_show(raw, strlen(raw), err->message, sizeof err->message);
    return code;
}

int stk_fail_nomem(stk_error *err, size_t size)
{
    return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", size);
}

void stk_error_at(stk_error *err, const char *shard, uint64_t offset, stk_bytes key)
{
    char name[2048];
    size_t len;

    if (!err)
        return;
    if (shard && !err->shard[0]) {
        if (strstr(shard, "://")) {
            snprintf(name, sizeof name, "%s", shard);
            stk_secrets_hide(name);
            shard = name;
        }
        len = strlen(shard);
        if (len >= sizeof err->shard)
            shard += len - (sizeof err->shard - 1);
        snprintf(err->shard, sizeof err->shard, "%s", shard);
    }
    if (offset != STK_NO_OFFSET && err->offset == STK_NO_OFFSET)
        err->offset = offset;
    if (key.len && !err->key[0])
        snprintf(err->key, sizeof err->key, "%.*s", (int)(key.len < 127 ? key.len : 127),
                 (const char *)key.data);
}

/* ", shard NAME" at the end of `where`. */
static void where_add(char *where, size_t size, const char *what, const char *name)
{
    size_t n = strlen(where);

    n += (size_t)snprintf(where + n, size - n, "%s%s ", n ? ", " : "", what);
    if (n < size)
        stk_text_show(name, strlen(name), where + n, size - n);
}

size_t stk_error_format(const stk_error *err, char *buf, size_t size)
{
    char where[800] = "", number[24];
    int len;

    if (err->shard[0])
        where_add(where, sizeof where, "shard", err->shard);
    snprintf(number, sizeof number, "%" PRIu64, err->offset);
    if (err->offset != STK_NO_OFFSET)
        where_add(where, sizeof where, "offset", number);
    if (err->key[0])
        where_add(where, sizeof where, "key", err->key);
    len = where[0] ? snprintf(buf, size, "%s [%s]", err->message, where)
                   : snprintf(buf, size, "%s", err->message);
    return len < 0 ? 0 : (size_t)len;
}

/* Levenshtein distance of short words; words beyond the table are far from everything. */
static size_t distance(const char *a, const char *b)
{
    size_t row[33], la = strlen(a), lb = strlen(b), i, j;

    if (la > 32 || lb > 32)
        return SIZE_MAX;
    for (j = 0; j <= lb; j++)
        row[j] = j;
    for (i = 1; i <= la; i++) {
        size_t diag = row[0];

        row[0] = i;
        for (j = 1; j <= lb; j++) {
            size_t up = row[j], best = diag + (a[i - 1] != b[j - 1]);

            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diag = up;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *stk_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_d = strlen(word) / 2 + 1, i; /* more than half the letters wrong is no typo */

    for (i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);

        if (d < best_d) {
            best_d = d;
            best = candidates[i];
        }
    }
    return best;
}
