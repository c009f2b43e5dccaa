/* SPDX-License-Identifier: Apache-2.0 */
/* dict.c - names and schemas get numbers.
 *
 * Two hash tables with open addressing over flat arrays: a data set has a handful of schemas as
 * a rule, and a hostile one at most 65535, so nothing is ever removed and the tables hold plain
 * numbers. */
#include "index/dict.h"

#include <string.h>

#include "base/hash.h"
#include "index/layout.h"

int idx_reserve(void **p, size_t *cap, size_t need, size_t elem, stk_error *err)
{
    size_t want = *cap + *cap / 2 + 16;
    void *q;

    if (need <= *cap)
        return 0;
    if (want < need)
        want = need;
    if (want > SIZE_MAX / 4 / elem)
        return stk_fail_nomem(err, SIZE_MAX);
    q = stk_grow(*p, *cap * elem, want * elem);
    if (!q)
        return stk_fail_nomem(err, want * elem);
    *p = q;
    *cap = want;
    return 0;
}

static uint64_t name_hash(const idx_dict *d, uint32_t id)
{
    const char *s = idx_dict_text(d, id);

    return stk_hash64(1, s, strlen(s));
}

static uint64_t schema_hash(const idx_dict *d, uint32_t id)
{
    uint32_t n;
    const uint32_t *ids = idx_dict_ids(d, id, &n);

    return stk_hash64(2, ids, n * sizeof *ids);
}

/* Keep the table at most half full. */
static int slots_grow(const idx_dict *d, uint32_t **slots, size_t *n_slots, size_t n,
                      uint64_t (*hash)(const idx_dict *, uint32_t), stk_error *err)
{
    size_t want = *n_slots ? *n_slots * 2 : 16;
    uint32_t *t;

    if (n * 2 < *n_slots)
        return 0;
    t = stk_zalloc(want, sizeof *t);
    if (!t)
        return stk_fail_nomem(err, want * sizeof *t);
    for (uint32_t i = 0; i < n; i++) {
        size_t s = hash(d, i) & (want - 1);

        while (t[s])
            s = (s + 1) & (want - 1);
        t[s] = i + 1;
    }
    stk_free(*slots);
    *slots = t;
    *n_slots = want;
    return 0;
}

int idx_dict_name(idx_dict *d, const char *name, size_t len, uint32_t *id, stk_error *err)
{
    size_t s;

    if (memchr(name, 0, len))
        return stk_fail(err, STK_ECORRUPT, "a field's name holds a zero byte");
    STK_TRY(slots_grow(d, &d->name_slots, &d->n_name_slots, d->n_names, name_hash, err));
    s = stk_hash64(1, name, len) & (d->n_name_slots - 1);
    for (; d->name_slots[s]; s = (s + 1) & (d->n_name_slots - 1)) {
        const char *t = idx_dict_text(d, d->name_slots[s] - 1);

        if (!strncmp(t, name, len) && !t[len]) {
            *id = d->name_slots[s] - 1;
            return 0;
        }
    }
    if (d->text_len + len >= UINT32_MAX || d->n_names >= UINT32_MAX - 1)
        return stk_fail(err, STK_ELIMIT, "the names of fields take more than 4 GiB");
    STK_TRY(idx_reserve((void **)&d->text, &d->text_cap, d->text_len + len + 1, 1, err));
    STK_TRY(idx_reserve((void **)&d->names, &d->names_cap, d->n_names + 1, sizeof *d->names, err));
    memcpy(d->text + d->text_len, name, len);
    d->text[d->text_len + len] = 0;
    d->names[d->n_names] = (uint32_t)d->text_len;
    d->text_len += len + 1;
    *id = (uint32_t)d->n_names++;
    d->name_slots[s] = *id + 1;
    return 0;
}

int idx_dict_schema(idx_dict *d, const uint32_t *ids, uint32_t n, uint32_t *id, stk_error *err)
{
    size_t s;

    STK_TRY(slots_grow(d, &d->schema_slots, &d->n_schema_slots, d->n_schemas, schema_hash, err));
    s = stk_hash64(2, ids, n * sizeof *ids) & (d->n_schema_slots - 1);
    for (; d->schema_slots[s]; s = (s + 1) & (d->n_schema_slots - 1)) {
        uint32_t m;
        const uint32_t *have = idx_dict_ids(d, d->schema_slots[s] - 1, &m);

        if (m == n && (!n || !memcmp(have, ids, n * sizeof *ids))) {
            *id = d->schema_slots[s] - 1;
            return 0;
        }
    }
    if (d->n_schemas >= IDX_MAX_SCHEMAS)
        return stk_fail(
            err, STK_ELIMIT,
            "more than %u different lists of field names: are keys and extensions mixed up?",
            IDX_MAX_SCHEMAS);
    if (d->n_ids + n >= UINT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "the different lists of field names have more than 2^32 names");
    STK_TRY(idx_reserve((void **)&d->ids, &d->ids_cap, d->n_ids + n, sizeof *d->ids, err));
    STK_TRY(idx_reserve((void **)&d->ends, &d->ends_cap, d->n_schemas + 1, sizeof *d->ends, err));
    if (n)
        memcpy(d->ids + d->n_ids, ids, n * sizeof *ids);
    d->n_ids += n;
    d->ends[d->n_schemas] = (uint32_t)d->n_ids;
    *id = (uint32_t)d->n_schemas++;
    d->schema_slots[s] = *id + 1;
    return 0;
}

void idx_dict_fini(idx_dict *d)
{
    stk_free(d->text);
    stk_free(d->names);
    stk_free(d->ids);
    stk_free(d->ends);
    stk_free(d->name_slots);
    stk_free(d->schema_slots);
    memset(d, 0, sizeof *d);
}
