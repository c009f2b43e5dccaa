/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - adjacent members with one key are one sample (formats: WebDataset's group_by_keys).
 *
 * Fields keep the archive's order and are lower-cased (ASCII only), keys are not.  A field that
 * comes twice is an error, as it is there; names are looked up by hash, so that a sample of many
 * fields costs no more than many samples.  A sample that has a non-empty field "__bad__" is left
 * out, as it is there. */
#include "format/group.h"

#include <string.h>

#include "base/hash.h"

#define FIELDS_MAX 65535u

/* What names samples have, as long as it is the same for all. */
static int note_names(stk_group *g, stk_error *err)
{
    if (g->mixed)
        return 0;
    if (!g->usual.len)
        return stk_text_put(&g->usual, g->names.s, g->names.len, err);
    g->mixed = g->usual.len != g->names.len || memcmp(g->usual.s, g->names.s, g->names.len) != 0;
    return 0;
}

int stk_group_is_cut(const stk_group *g)
{
    return g->open && !g->bad && !g->mixed && g->names.len < g->usual.len &&
           !memcmp(g->usual.s, g->names.s, g->names.len);
}

int stk_group_flush(stk_group *g, stk_error *err)
{
    stk_bytes key = { (const uint8_t *)g->key.s, g->key.len };
    const char *name = g->names.s;
    int rc;

    if (!g->open)
        return 0;
    g->open = 0;
    if (g->bad)
        return 0;
    STK_TRY(note_names(g, err));
    for (uint32_t i = 0; i < g->n; i++) {
        g->field[i].name = name;
        name += g->field[i].name_len + 1;
    }
    rc = g->scan->sample(g->scan, key, g->start, g->field, g->n, err);
    if (rc < 0)
        stk_error_at(err, NULL, g->start, key);
    return rc;
}

static int begin(stk_group *g, const stk_member *m, size_t key_len, stk_error *err)
{
    g->key.len = g->names.len = 0;
    g->n = 0;
    g->bad = 0;
    if (g->table) {
        g->mask = 15; /* a sample of many fields does not slow those after it */
        memset(g->table, 0, 16 * sizeof *g->table);
    }
    STK_TRY(stk_text_put(&g->key, m->name, key_len, err));
    g->start = m->start;
    g->open = 1;
    return 0;
}

/* The name's slot in the table: it holds the field of that name or 0. */
static uint32_t *slot(stk_group *g, const char *name, size_t len)
{
    uint32_t i = (uint32_t)stk_hash64(0, name, len) & g->mask;

    for (; g->table[i]; i = (i + 1) & g->mask) {
        const stk_field *f = &g->field[g->table[i] - 1];

        if (f->name_len == len && !memcmp(g->names.s + (uintptr_t)f->name, name, len))
            break;
    }
    return &g->table[i];
}

static int table_grow(stk_group *g, stk_error *err)
{
    uint32_t slots = g->table ? (g->mask + 1) * 2 : 16;

    if (slots > g->table_cap) {
        stk_free(g->table);
        g->table_cap = 0;
        g->table = stk_alloc(slots * sizeof *g->table);
        if (!g->table)
            return stk_fail_nomem(err, slots * sizeof *g->table);
        g->table_cap = slots;
    }
    memset(g->table, 0, slots * sizeof *g->table);
    g->mask = slots - 1;
    for (uint32_t i = 0; i < g->n; i++)
        *slot(g, g->names.s + (uintptr_t)g->field[i].name, g->field[i].name_len) = i + 1;
    return 0;
}

/* Room for one more field, in the list and (half full at most) in the table. */
static int reserve(stk_group *g, stk_error *err)
{
    uint32_t cap = g->cap ? g->cap * 2 : 8;
    stk_field *grown;

    if (g->n == g->cap) {
        grown = stk_grow(g->field, g->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        g->field = grown;
        g->cap = cap;
    }
    return g->table && g->n < (g->mask + 1) / 2 ? 0 : table_grow(g, err);
}

static int refuse(const stk_group *g, const stk_member *m, const char *why, const char *name,
                  stk_error *err)
{
    stk_fail(err, STK_ECORRUPT, "field \"%.80s\" of key \"%.80s\" %s", name, g->key.s, why);
    stk_error_at(err, NULL, m->at, (stk_bytes){ (const uint8_t *)g->key.s, g->key.len });
    return STK_ECORRUPT;
}

static int add_field(stk_group *g, const stk_member *m, size_t ext, stk_error *err)
{
    size_t at = g->names.len, len = m->name_len - ext;
    uint32_t *place;
    char *name;

    STK_TRY(reserve(g, err));
    STK_TRY(stk_text_put(&g->names, m->name + ext, len, err));
    STK_TRY(stk_text_put(&g->names, "", 1, err));
    name = g->names.s + at;
    for (size_t i = 0; i < len; i++)
        name[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
    place = slot(g, name, len);
    if (*place)
        return refuse(g, m, "comes twice in one sample", name, err);
    if (!strcmp(name, "__key__") ||
        !strcmp(name, "__url__")) /* WebDataset adds these itself and collides */
        return refuse(g, m, "has a reserved name", name, err);
    if (g->n == FIELDS_MAX)
        return refuse(g, m, "is one too many: a sample has at most 65535 fields", name, err);
    g->bad |= m->size && !strcmp(name, "__bad__");
    g->field[g->n] = (stk_field){ (const char *)(uintptr_t)at, len, m->data, m->size };
    *place = ++g->n;
    return 0;
}

int stk_group_add(stk_group *g, const stk_member *m, stk_error *err)
{
    size_t key_len, ext;

    if (stk_wds_ignored(m->name, m->name_len) ||
        !stk_wds_split(m->name, m->name_len, &key_len, &ext))
        return 0;
    if (!g->open || g->key.len != key_len || memcmp(g->key.s, m->name, key_len)) {
        STK_TRY(stk_group_flush(g, err));
        STK_TRY(begin(g, m, key_len, err));
    }
    return add_field(g, m, ext, err);
}

void stk_group_fini(stk_group *g)
{
    stk_free(g->key.s);
    stk_free(g->names.s);
    stk_free(g->usual.s);
    stk_free(g->field);
    stk_free(g->table);
    memset(g, 0, sizeof *g);
}
