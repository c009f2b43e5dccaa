/* SPDX-License-Identifier: Apache-2.0 */
/* key_find.c - samples by their keys: a table of the keys that are looked for, and one look at
 * every key of the index.
 *
 * Open addressing, at most half full; a slot holds a key's number plus one.  Keys that are asked
 * for twice have two slots. */
#include <string.h>
#include <stoker/dataset.h>

#include "base/hash.h"
#include "base/mem.h"
#include "data/data.h"

typedef struct wanted {
    const stk_key *key;
    uint64_t *slot;
    uint64_t mask;
} wanted;

static uint64_t hash_of(const char *text, size_t len)
{
    return stk_hash64(0, text, len);
}

static int wanted_init(wanted *w, const stk_key *keys, uint64_t n, stk_error *err)
{
    uint64_t size = 16;

    while (size / 2 < n)
        size *= 2;
    w->key = keys;
    w->mask = size - 1;
    w->slot = stk_zalloc(size, sizeof *w->slot);
    if (!w->slot)
        return stk_fail_nomem(err, size * sizeof *w->slot);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = hash_of(keys[i].text, keys[i].len) & w->mask;

        while (w->slot[at])
            at = (at + 1) & w->mask;
        w->slot[at] = i + 1;
    }
    return 0;
}

/* Every key that is `text`. */
static int tell(const wanted *w, stk_bytes text, uint64_t sample, stk_found_fn found, void *cookie)
{
    uint64_t at = hash_of((const char *)text.data, text.len) & w->mask, i;
    int rc = 0;

    for (; rc == 0 && (i = w->slot[at]); at = (at + 1) & w->mask)
        if (w->key[i - 1].len == text.len && !memcmp(w->key[i - 1].text, text.data, text.len))
            rc = found(cookie, i - 1, sample);
    return rc;
}

int stk_dataset_find_keys(const stk_dataset *ds, const stk_key *keys, uint64_t n,
                          stk_found_fn found, void *cookie, stk_error *err)
{
    uint64_t samples;
    wanted w;
    int rc;

    STK_TRY(stk_needs_index(ds, "finding by key", err));
    samples = stk_dataset_len(ds);
    STK_TRY(wanted_init(&w, keys, n, err));
    rc = 0;
    for (uint64_t i = 0; rc == 0 && i < samples; i++) {
        stk_entry e;

        rc = ds->ops->entry(ds, i, &e, err);
        if (rc == 0 && tell(&w, stk_key_shown(e.key), i, found, cookie))
            rc = stk_fail(err, STK_ECLOSED, "the search for keys was stopped");
    }
    stk_free(w.slot);
    return rc;
}
