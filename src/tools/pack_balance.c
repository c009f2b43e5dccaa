/* SPDX-License-Identifier: Apache-2.0 */
/* pack_balance.c - `balance`: as many samples of each class.  Which ones is a matter of their keys'
 * hashes: a sample that is taken stays when others are added, as far as its class allows. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "tools/pack_model.h"

#define SALT 0x62616C616E6365u
#define ROWS 1024u

typedef struct member {
    uint64_t class, hash, at; /* at: position among the samples that take part */
} member;

static int by_class(const void *a, const void *b)
{
    const member *x = a, *y = b;

    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* "cls", "cls:1000".  *most 0: as many as the smallest class has.  *name is the caller's. */
static int take_text(const char *text, char **name, uint64_t *most, stk_error *err)
{
    const char *colon = strrchr(text, ':');
    int64_t n = 0;

    *name = NULL;
    if (colon &&
        (stk_number_i64((stk_bytes){ (const uint8_t *)colon + 1, strlen(colon + 1) }, &n) != 1 ||
         n < 1))
        return stk_fail(
            err, STK_EINVAL,
            "balance is a field, or a field and how many of each, as cls:1000, not \"%.60s\"",
            text);
    *most = (uint64_t)n;
    *name = stk_strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    return *name ? 0 : stk_fail_nomem(err, strlen(text));
}

/* A number for each value of `n` samples from `first` on; equal values have equal ones.  Null has
 * 0. */
static int classes(const stk_column *c, uint64_t first, uint64_t n, uint64_t *out, stk_error *err)
{
    uint8_t valid[ROWS];
    const char *text[ROWS];
    size_t len[ROWS];
    union {
        int64_t i[ROWS];
        double f[ROWS];
    } v;
    stk_column_type kind = stk_column_kind(c);

    STK_TRY(stk_column_valid(c, first, n, valid, err));
    STK_TRY(kind == STK_COLUMN_TEXT  ? stk_column_text(c, first, n, text, len, err)
            : kind == STK_COLUMN_I64 ? stk_column_i64(c, first, n, v.i, err)
                                     : stk_column_f64(c, first, n, v.f, err));
    for (uint64_t i = 0; i < n; i++) {
        if (kind == STK_COLUMN_F64)
            v.f[i] += 0.0; /* -0 is 0 */
        if (kind != STK_COLUMN_TEXT)
            out[i] = stk_hash64(SALT, &v.i[i], sizeof v.i[i]) | 1;
        else if (valid[i])
            out[i] = stk_hash64(SALT, text[i], len[i]) | 1;
        if (!valid[i])
            out[i] = 0;
    }
    return 0;
}

/* The class of every sample of the data set. */
static int read_classes(stk_pack_run *p, const char *name, uint64_t *class, stk_error *err)
{
    stk_column_options how = { .size = sizeof how,
                               .num_workers = p->o.num_workers,
                               .read = STK_YES };
    uint64_t len = stk_dataset_len(p->ds);
    stk_column *c = NULL;
    int rc = stk_column_open(&c, p->ds, name, &how, err);

    for (uint64_t i = 0; rc == 0 && i < len; i += ROWS)
        rc = classes(c, i, len - i < ROWS ? len - i : ROWS, class + i, err);
    stk_column_close(&c);
    return rc;
}

static uint64_t smallest(const member *list, uint64_t n)
{
    uint64_t least = n, from = 0;

    for (uint64_t i = 1; i <= n; i++)
        if (i == n || list[i].class != list[from].class) {
            least = i - from < least ? i - from : least;
            from = i;
        }
    return least;
}

/* The first `most` of each class keep their place. */
static void drop(stk_pack_run *p, const member *list, uint64_t n, uint64_t most)
{
    uint64_t from = 0, to = 0;
    uint64_t *old = p->id;

    for (uint64_t i = 0; i < n; i++) {
        if (list[i].class != list[from].class)
            from = i;
        if (i - from < most)
            old[list[i].at] |= (uint64_t)1 << 63; /* ids are below that */
    }
    for (uint64_t i = 0; i < p->count; i++)
        if (old[i] >> 63)
            old[to++] = old[i] & (UINT64_MAX >> 1);
    p->dropped.balance = p->count - to;
    p->count = to;
}

static uint64_t list_members(const stk_pack_run *p, const uint64_t *class, member *list)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < p->count; i++) {
        char number[STK_PACK_KEY];
        stk_bytes key = stk_pack_key(p, p->id[i], number);

        if (class[p->id[i]])
            list[n++] = (member){ class[p->id[i]], stk_mix64(stk_hash64(SALT, key.data, key.len)),
                                  i };
    }
    return n;
}

int stk_pack_balance(stk_pack_run *p, stk_error *err)
{
    uint64_t most = 0, n;
    uint64_t *class = stk_zalloc(stk_dataset_len(p->ds) + 1, sizeof *class);
    member *list = stk_zalloc(p->count + 1, sizeof *list);
    char *name = NULL;
    int rc = class && list ? take_text(p->o.balance, &name, &most, err)
                           : stk_fail_nomem(err, p->count * sizeof *list);

    if (rc == 0)
        rc = read_classes(p, name, class, err);
    if (rc == 0) {
        n = list_members(p, class, list);
        qsort(list, n, sizeof *list, by_class);
        drop(p, list, n, most ? most : smallest(list, n));
    }
    stk_free(name);
    stk_free(list);
    stk_free(class);
    return rc;
}
