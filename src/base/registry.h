/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - looking plug-ins up by name; src/registry.c keeps the table. */
#ifndef STOKER_REGISTRY_H
#define STOKER_REGISTRY_H

#include <stoker/plugin.h>

const void *stk_registry_get(stk_plugin_kind kind, size_t i);          /* NULL past the last */
const void *stk_registry_find(stk_plugin_kind kind, const char *name); /* NULL: none of that name */
const char *stk_registry_nearest(stk_plugin_kind kind, const char *name); /* NULL: none is near */

/* The source for a URL by its scheme; NULL: unknown scheme. */
const stk_source *stk_registry_source(const char *url);

#endif
