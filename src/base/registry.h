/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - looking plug-ins up by name; src/registry.c keeps the lists.
 *
 * A registry NULL is the process's: what ships and what stk_plugin_add() added. */
#ifndef STOKER_REGISTRY_H
#define STOKER_REGISTRY_H

#include <stoker/plugin.h>

/* Plug-in i of a kind, those of the parent first; NULL past the last. */
const void *stk_registry_get(const stk_registry *r, stk_plugin_kind kind, size_t i);
size_t stk_registry_count(const stk_registry *r, stk_plugin_kind kind);
/* NULL: none of that name. */
const void *stk_registry_find(const stk_registry *r, stk_plugin_kind kind, const char *name);
/* The name that is most like this one; NULL: none is near. */
const char *stk_registry_nearest(const stk_registry *r, stk_plugin_kind kind, const char *name);

/* A chain is planned with it: from now on it is read-only.  The process's stays open. */
void stk_registry_seal(stk_registry *r);
stk_registry *stk_registry_ref(stk_registry *r); /* let go with stk_registry_close(); NULL-safe */

/* The source for a URL by its scheme; NULL: unknown scheme. */
const stk_source *stk_registry_source(const char *url);

#endif
