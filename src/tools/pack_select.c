/* SPDX-License-Identifier: Apache-2.0 */
/* pack_select.c - which samples a pack takes: chosen ids, less a list of bad ones, of these a part
 * by a hash of the key.  The hash makes the choice stay when data is added or comes in another
 * order, and keeps the parts of a split apart.  Samples are compared before they are split: no two
 * parts have samples that are alike.  Classes are balanced last, in each part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "loader/exclude.h"
#include "tools/pack_model.h"

#define SALT_FRACTION 0x6672616374696f6eu
#define SALT_SPLIT 0x73706c6974u

/* The key as a number in [0, 1). */
static double key_unit(stk_bytes key, uint64_t salt)
{
    return (double)(stk_mix64(stk_hash64(salt, key.data, key.len)) >> 11) * 0x1p-53;
}

typedef struct choice { /* ids, both sorted */
    stk_exclude out;
    uint64_t *in, n_in; /* NULL: all */
} choice;

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* NULL: it takes part; else the count of what left it out. */
static uint64_t *left_out_by(stk_pack_run *p, uint64_t id, const choice *c)
{
    char number[STK_PACK_KEY];

    if (c->out.n && stk_exclude_rank(&c->out, id) == UINT64_MAX)
        return &p->dropped.exclude;
    if (c->in && !bsearch(&id, c->in, c->n_in, sizeof id, by_id))
        return &p->dropped.where;
    if (!(p->o.fraction > 0))
        return NULL;
    return key_unit(stk_pack_key(p, id, number), SALT_FRACTION) >= p->o.fraction
               ? &p->dropped.fraction
               : NULL;
}

/* ---- what an earlier run could not make ---- */

static int id_of(stk_bytes v, uint64_t *out)
{
    int64_t n;

    if (stk_number_i64(v, &n) != 1 || n < 0)
        return 0;
    *out = (uint64_t)n;
    return 1;
}

/* The list goes by numbers: the sample must still be the one with that key. */
static int check_key(const stk_pack_run *p, uint64_t id, stk_bytes quoted, stk_error *err)
{
    char number[STK_PACK_KEY];
    stk_bytes key = id < stk_dataset_len(p->ds) ? stk_pack_key(p, id, number) : (stk_bytes){ 0 };
    stk_text now = { 0 };
    int rc = key.data ? stk_json_quote(&now, key, err) : 0;

    if (rc == 0 && (now.len != quoted.len || memcmp(now.s, quoted.data, now.len)))
        rc = stk_fail(err, STK_ESTALE,
                      "sample %" PRIu64
                      " is not the %.*s that failed: the data has other samples now, pack it again",
                      id, (int)(quoted.len < 80 ? quoted.len : 80), (const char *)quoted.data);
    stk_free(now.s);
    return rc;
}

/* Each once, in the order of the data. */
static void sort_once(uint64_t *id, uint64_t *n)
{
    uint64_t to = 0;

    qsort(id, *n, sizeof *id, by_id);
    for (uint64_t i = 0; i < *n; i++)
        if (!i || id[i] != id[i - 1])
            id[to++] = id[i];
    *n = to;
}

/* One id per line of the list. */
static int take_failed(stk_pack_run *p, stk_bytes text, stk_error *err)
{
    uint64_t n = 0, id;

    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '\n';
    p->again = stk_alloc((n + 1) * sizeof *p->again);
    if (!p->again)
        return stk_fail_nomem(err, n * sizeof *p->again);
    p->o.n_select = 0;
    while (text.len) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        stk_bytes line = { text.data, end ? (size_t)(end - text.data) : text.len }, v, key;

        if (!end || stk_json_find(line, "sample", &v, NULL) < 0 || !id_of(v, &id) ||
            stk_json_find(line, "key", &key, NULL) < 0)
            return stk_fail(err, STK_ECORRUPT,
                            "the list of samples that failed is damaged: pack again");
        STK_TRY(check_key(p, id, key, err));
        p->again[p->o.n_select++] = id;
        text.data += line.len + 1;
        text.len -= line.len + 1;
    }
    sort_once(p->again, &p->o.n_select);
    p->o.select = p->again;
    p->o.dedup = p->o.balance = NULL; /* what failed had been chosen by them */
    return 0;
}

int stk_pack_again(stk_pack_run *p, stk_error *err)
{
    stk_text text = { 0 };
    int rc = stk_stamp_read_failed(&p->pattern, &text, err);
    size_t len = strlen(p->pattern.prefix);
    char *prefix = stk_alloc(len + 8);

    if (rc == STK_ENOTFOUND && p->o.keep_to > 0) /* in another part of the split something failed */
        rc = 0;
    if (rc == 0 && !prefix)
        rc = stk_fail_nomem(err, len);
    if (rc == 0)
        rc = take_failed(p, (stk_bytes){ (const uint8_t *)text.s, text.len }, err);
    if (rc == 0) {
        snprintf(prefix, len + 8, "%sagain-", p->pattern.prefix);
        stk_free(p->pattern.prefix);
        p->pattern.prefix = prefix;
        prefix = NULL;
    }
    stk_free(prefix);
    stk_free(text.s);
    return rc;
}

static int options_check(const stk_pack_run *p, stk_error *err)
{
    const stk_pack_options *o = &p->o;
    uint64_t len = stk_dataset_len(p->ds);

    if (!(o->fraction >= 0 && o->fraction <= 1))
        return stk_fail(err, STK_EINVAL, "fraction is a number above 0 and up to 1, not %g",
                        o->fraction);
    if (!(o->keep_from >= 0 && o->keep_from <= o->keep_to && o->keep_to <= 1))
        return stk_fail(err, STK_EINVAL, "a split is from 0 to 1, not from %g to %g", o->keep_from,
                        o->keep_to);
    for (uint64_t i = 0; i < o->n_select; i++)
        if (o->select[i] >= len)
            return stk_fail(err, STK_EINVAL,
                            "select: there is no sample %" PRIu64 ", the data has %" PRIu64,
                            o->select[i], len);
    return 0;
}

static int choose(stk_pack_run *p, const choice *c, stk_error *err)
{
    uint64_t n = p->o.select ? p->o.n_select : stk_dataset_len(p->ds);

    p->id = stk_alloc((n + 1) * sizeof *p->id);
    if (!p->id)
        return stk_fail_nomem(err, n * sizeof *p->id);
    p->count = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = p->o.select ? p->o.select[i] : i, *why = left_out_by(p, id, c);

        if (why)
            (*why)++;
        else
            p->id[p->count++] = id;
    }
    return 0;
}

static void split(stk_pack_run *p)
{
    uint64_t to = 0;

    for (uint64_t i = 0; i < p->count; i++) {
        char number[STK_PACK_KEY];
        double unit = key_unit(stk_pack_key(p, p->id[i], number), SALT_SPLIT);

        if (unit >= p->o.keep_from && unit < p->o.keep_to)
            p->id[to++] = p->id[i];
    }
    p->dropped.split = p->count - to;
    p->count = to;
}

int stk_pack_select(stk_pack_run *p, stk_error *err)
{
    const stk_pack_options *o = &p->o;
    uint64_t len = stk_dataset_len(p->ds);
    choice c = { 0 };
    stk_sample_set set;
    stk_log log = { .fn = o->log, .cookie = o->log_cookie };
    int rc = 0;

    p->count = len;
    STK_TRY(options_check(p, err));
    if (!o->select && !o->exclude && !o->where && !(o->fraction > 0) && !(o->keep_to > 0) &&
        !o->dedup && !o->balance)
        return 0;
    if (o->exclude) {
        STK_TRY(stk_sample_set_init(&set, &len, 1, err));
        rc = stk_exclude_load(&c.out, o->exclude, &p->ds, &set, &log, err);
    }
    if (rc == 0 && o->where)
        rc = stk_dataset_where(p->ds, o->where, &c.in, &c.n_in, err);
    if (rc == 0)
        rc = choose(p, &c, err);
    if (rc == 0 && o->dedup)
        rc = stk_pack_drop_alike(p, err);
    if (rc == 0 && o->keep_to > 0)
        split(p);
    if (rc == 0 && o->balance)
        rc = stk_pack_balance(p, err);
    stk_dataset_where_free(&c.in);
    stk_free(c.out.id);
    return rc;
}
