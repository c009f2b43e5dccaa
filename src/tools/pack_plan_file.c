/* SPDX-License-Identifier: Apache-2.0 */
/* pack_plan_file.c - a plan on disk: one JSON object.
 *
 *     {"stoker": "pack plan", "version": 1, "shards": 64, "samples": 640000,
 *      "fingerprint": "0123456789abcdef", "args": ["raw/", "out/", "--samples", "10000"],
 *      "check": "0123456789abcdef"}
 *
 * "check" is a hash of the rest, for a damaged letter of a target would be another target.  After a
 * change by hand it is to be removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "tools/pack_plan_file.h"

#define CHECK ",\n \"check\": \""
#define PLAN_MAX (64u << 20)
#define ARGS_MAX 100000u

static int put_check(stk_text *t, stk_error *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, CHECK "%016" PRIx64 "\"}\n", stk_hash64(0, t->s, t->len));

    return stk_text_put(t, text, (size_t)n, err);
}

/* A plan is read by others: passwords and signed addresses do not belong into it. */
static int check_args(const stk_pack_plan *p, stk_error *err)
{
    for (uint32_t i = 0; i < p->n_args; i++) {
        char *shown = stk_strdup(p->args[i]);
        int rc = shown ? 0 : stk_fail_nomem(err, strlen(p->args[i]));

        if (shown)
            stk_secrets_hide(shown);
        if (rc == 0 && strcmp(shown, p->args[i]) != 0)
            rc = stk_fail(err, STK_EINVAL,
                          "a plan would show the password or query of %.120s: give an address "
                          "without one, and credentials by the environment",
                          shown);
        stk_free(shown);
        STK_TRY(rc);
    }
    return 0;
}

int stk_pack_plan_save(const char *path, const stk_pack_plan *p, stk_error *err)
{
    char head[256];
    stk_text t = { 0 };
    int n = snprintf(head, sizeof head,
                     "{\"stoker\": \"pack plan\", \"version\": 1, \"shards\": %" PRIu64
                     ", \"samples\": %" PRIu64 ",\n \"fingerprint\": \"%016" PRIx64
                     "\", \"args\": [",
                     p->shards, p->samples, p->fingerprint);
    int rc = check_args(p, err);

    if (rc == 0)
        rc = stk_text_put(&t, head, (size_t)n, err);
    for (uint32_t i = 0; rc == 0 && i < p->n_args; i++) {
        if (i)
            rc = stk_text_put(&t, ", ", 2, err);
        if (rc == 0)
            rc = stk_json_quote(&t, (stk_bytes){ (const uint8_t *)p->args[i], strlen(p->args[i]) },
                                err);
    }
    if (rc == 0)
        rc = stk_text_put(&t, "]", 1, err);
    if (rc == 0)
        rc = put_check(&t, err);
    if (rc == 0)
        rc = stk_atomic_put(path, t.s, t.len, STK_COMMIT_SYNC, err);
    stk_free(t.s);
    return rc;
}

/* ---- reading ---- */

static int not_a_plan(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "this is not a plan: write one with `stoker pack --write-plan`");
}

static int number_of(stk_bytes doc, const char *name, uint64_t *out)
{
    stk_bytes v;
    char text[24] = "", *end;

    if (stk_json_find(doc, name, &v, NULL) < 0 || !v.len || v.len >= sizeof text)
        return 0;
    memcpy(text, v.data, v.len);
    *out = text[0] == '"' ? strtoull(text + 1, &end, 16) : strtoull(text, &end, 10);
    return end > text + (text[0] == '"') && (*end == 0 || *end == '"');
}

/* The hash of what comes before its own member, which is the last. */
static int check_of(stk_bytes doc, stk_error *err)
{
    const uint8_t *at = doc.len ? memmem(doc.data, doc.len, CHECK, sizeof CHECK - 1) : NULL;
    uint64_t want = 0;

    if (!at || (number_of(doc, "check", &want) &&
                want == stk_hash64(0, doc.data, (size_t)(at - doc.data))))
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "this plan is damaged: write it again; if it was changed by hand, remove "
                    "\"check\" from it");
}

/* Bytes that were not UTF-8 stand as \udc80 to \udcff, which come out as three bytes each. */
static void unescape(char *s)
{
    uint8_t *from = (uint8_t *)s, *to = from;

    while (*from)
        if (from[0] == 0xED && from[1] >= 0xB2 && from[1] <= 0xB3 && from[2]) {
            *to++ = (uint8_t)(((from[1] & 3) << 6 | (from[2] & 0x3F)));
            from += 3;
        } else {
            *to++ = *from++;
        }
    *to = 0;
}

static int take_arg(stk_pack_plan *p, stk_bytes v, stk_error *err)
{
    char **args = (char **)(uintptr_t)p->args, *s;
    size_t len = 0;

    if (!v.len || v.data[0] != '"')
        return not_a_plan(err);
    s = stk_zalloc(1, v.len + 1);
    if (!s)
        return stk_fail_nomem(err, v.len);
    args[p->n_args++] = s;
    STK_TRY(stk_json_unquote(v, (uint8_t *)s, &len, err));
    s[len] = 0;
    unescape(s);
    return 0;
}

/* How many strings the list has at most, by its commas. */
static uint32_t count_args(stk_bytes list)
{
    uint32_t n = 1;

    for (size_t i = 0; i < list.len && n < ARGS_MAX; i++)
        n += list.data[i] == ',';
    return n;
}

int stk_pack_plan_parse(stk_pack_plan **out, stk_bytes doc, stk_error *err)
{
    stk_pack_plan *p = *out = STK_NEW(stk_pack_plan);
    uint64_t version = 0;
    stk_bytes list, v;
    uint32_t n;
    char name[32];

    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->size = sizeof *p;
    if (!number_of(doc, "version", &version) || version != 1 ||
        !number_of(doc, "shards", &p->shards) || !number_of(doc, "samples", &p->samples) ||
        !number_of(doc, "fingerprint", &p->fingerprint) ||
        stk_json_find(doc, "args", &list, NULL) < 0 || !list.len || list.data[0] != '[')
        return not_a_plan(err);
    STK_TRY(check_of(doc, err));
    n = count_args(list);
    p->args = stk_zalloc(n + 1, sizeof *p->args);
    if (!p->args)
        return stk_fail_nomem(err, n * sizeof *p->args);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%u", i);
        if (stk_json_find(list, name, &v, NULL) < 0)
            break;
        STK_TRY(take_arg(p, v, err));
    }
    return 0;
}

static int read_all(const char *path, char **text, size_t *len, stk_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char why[96];
    ssize_t got;

    *text = NULL;
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0)
            close(fd);
        return stk_fail(err, errno == ENOENT ? STK_ENOTFOUND : STK_EIO,
                        "can't read the plan %.160s: %s", path, strerror_r(errno, why, sizeof why));
    }
    *text = st.st_size <= PLAN_MAX ? stk_zalloc(1, (size_t)st.st_size + 1) : NULL;
    got = *text ? read(fd, *text, (size_t)st.st_size) : -1;
    close(fd);
    if (got < 0)
        return not_a_plan(err);
    *len = (size_t)got;
    return 0;
}

int stk_pack_plan_load(stk_pack_plan **out, const char *path, stk_error *err)
{
    char *text;
    size_t len = 0;
    int rc;

    *out = NULL;
    STK_TRY(read_all(path, &text, &len, err));
    rc = stk_pack_plan_parse(out, (stk_bytes){ (const uint8_t *)text, len }, err);
    stk_free(text);
    if (rc < 0) {
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
        stk_pack_plan_free(out);
    }
    return rc;
}

void stk_pack_plan_free(stk_pack_plan **pp)
{
    stk_pack_plan *p = *pp;

    *pp = NULL;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_args; i++)
        stk_free((void *)(uintptr_t)p->args[i]);
    stk_free((void *)(uintptr_t)p->args);
    stk_free(p);
}
