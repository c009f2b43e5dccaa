/* SPDX-License-Identifier: Apache-2.0 */
/* pack_plan_file.c - a plan on disk: one JSON object.
 *
 *     {"stoker": "pack plan", "version": 1, "shards": 64, "samples": 640000,
 *      "fingerprint": "0123456789abcdef", "args": ["raw/", "out/", "--samples", "10000"],
 *      "check": "0123456789abcdef"}
 *
 * "check" is a hash of the rest, for a damaged letter of a target would be another target.  After a
 * change by hand it is to be removed. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "tools/pack_plan_file.h"
#include "tools/pack_side.h"

#define CHECK ",\n \"check\": \""
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
            rc = stk_side_quote(&t, p->args[i], err);
    }
    if (rc == 0)
        rc = stk_text_put(&t, "]", 1, err);
    if (rc == 0)
        rc = put_check(&t, err);
    if (rc == 0)
        rc = stk_side_write(path, NULL, &t, err);
    stk_free(t.s);
    return rc;
}

/* ---- reading ---- */

static int not_a_plan(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "this is not a plan: write one with `stoker pack --write-plan`");
}

/* The hash of what comes before its own member, which is the last. */
static int check_of(stk_bytes doc, stk_error *err)
{
    const uint8_t *at = doc.len ? memmem(doc.data, doc.len, CHECK, sizeof CHECK - 1) : NULL;
    uint64_t want = 0;

    if (!at || (stk_side_number(doc, "check", &want) &&
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
    if (!stk_side_number(doc, "version", &version) || version != 1 ||
        !stk_side_number(doc, "shards", &p->shards) ||
        !stk_side_number(doc, "samples", &p->samples) ||
        !stk_side_number(doc, "fingerprint", &p->fingerprint) ||
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

int stk_pack_plan_load(stk_pack_plan **out, const char *path, stk_error *err)
{
    stk_text text = { 0 };
    int rc = stk_side_read(path, NULL, &text, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    rc = stk_pack_plan_parse(out, (stk_bytes){ (const uint8_t *)text.s, text.len }, err);
    stk_free(text.s);
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
