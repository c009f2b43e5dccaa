/* SPDX-License-Identifier: Apache-2.0 */
/* dict.h - gives numbers to names of fields, and to ordered lists of names (schemas), in order of
 * first occurrence.  Building an index calls it. */
#ifndef STOKER_INDEX_DICT_H
#define STOKER_INDEX_DICT_H

#include "base/err.h"
#include "base/mem.h"

/* Makes room for `need` elements at *p; grows by half, and keeps the content. */
int idx_reserve(void **p, size_t *cap, size_t need, size_t elem, stk_error *err);

typedef struct idx_dict { /* init with zeros, end with fini.  Thread: one. */
    char *text;           /* all names, each with a NUL */
    size_t text_len, text_cap;
    uint32_t *names; /* by name: its offset in `text` */
    size_t n_names, names_cap;
    uint32_t *ids; /* numbers of the names of all schemas, one schema after the other */
    size_t n_ids, ids_cap;
    uint32_t *ends; /* by schema: end of its names in `ids` */
    size_t n_schemas, ends_cap;
    uint32_t *name_slots, *schema_slots; /* hash tables of number + 1; 0: free */
    size_t n_name_slots, n_schema_slots;
} idx_dict;

int idx_dict_name(idx_dict *d, const char *name, size_t len, uint32_t *id, stk_error *err);
int idx_dict_schema(idx_dict *d, const uint32_t *ids, uint32_t n, uint32_t *id, stk_error *err);
void idx_dict_fini(idx_dict *d);

static inline const char *idx_dict_text(const idx_dict *d, uint32_t name)
{
    return d->text + d->names[name];
}

static inline const uint32_t *idx_dict_ids(const idx_dict *d, uint32_t schema, uint32_t *n)
{
    uint32_t start = schema ? d->ends[schema - 1] : 0;

    *n = d->ends[schema] - start;
    return d->ids ? d->ids + start : NULL; /* no ids at all: every schema is empty */
}

#endif
