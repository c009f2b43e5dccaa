/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - finds plug-ins (sources, formats, codecs, decoders, ops, kinds of data) by name.
 * Whatever compiles chains or opens data calls it.
 *
 * A registry NULL is the process's: what ships, and what stk_plugin_add() added. */
#ifndef STOKER_REGISTRY_H
#define STOKER_REGISTRY_H

#include <stoker/plugin.h>

#define STK_PLUGIN_KINDS (STK_PLUGIN_DATA + 1)

typedef struct stk_registry_need { /* a function that each table of a kind must have */
    size_t at;                     /* its offset in the table */
    const char *name;
} stk_registry_need;

typedef struct stk_registry_kind { /* one kind of plug-ins */
    const char *name;              /* in errors */
    const void *const *ships;      /* the n tables that ship */
    size_t n;
    size_t size; /* sizeof a table in this build */
    stk_registry_need needs[6];
    /* Of a table that is added to `r`.  NULL: no more checks. */
    int (*check)(const stk_registry *r, const void *table, stk_error *err);
} stk_registry_kind;

/* shipped.c, the one file that knows the tables of all folders. */
extern const stk_registry_kind stk_registry_kinds[STK_PLUGIN_KINDS];

/* Plug-in i of a kind, those of the parent first.  NULL: there are fewer. */
const void *stk_registry_get(const stk_registry *r, stk_plugin_kind kind, size_t i);
size_t stk_registry_count(const stk_registry *r, stk_plugin_kind kind);
/* NULL: no plug-in of the kind has that name. */
const void *stk_registry_find(const stk_registry *r, stk_plugin_kind kind, const char *name);
/* The most similar name, for errors.  NULL: none is similar. */
const char *stk_registry_nearest(const stk_registry *r, stk_plugin_kind kind, const char *name);

/* Makes it read-only, because a chain was planned with it.  The process's stays open. */
void stk_registry_seal(stk_registry *r);
stk_registry *stk_registry_ref(stk_registry *r); /* release with stk_registry_close(); NULL-safe */

/* The source for a URL, by its scheme.  NULL: the scheme is unknown. */
const stk_source *stk_registry_source(const char *url);

#endif
