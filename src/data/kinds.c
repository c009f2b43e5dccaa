/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - which kind of data some names mean, of those in the registry, in its order. */
#include <string.h>

#include "base/registry.h"
#include "data/data.h"

/* Is one of the words in `suffixes` how the name ends? */
static int ends(const char *name, const char *suffixes)
{
    size_t len = strlen(name);

    for (const char *at = suffixes; *at;) {
        size_t n = strcspn(at, " ");

        if (n && n < len && !strncmp(name + len - n, at, n))
            return 1;
        at += n + (at[n] == ' ');
    }
    return 0;
}

static int is_meant(const stk_data_kind *k, const char *const *urls, size_t n,
                    const stk_dataset_options *o)
{
    for (size_t i = 0; k->suffixes && i < n; i++)
        if (ends(urls[i], k->suffixes))
            return 1;
    return k->meant && k->meant(urls, n, o);
}

const stk_data_kind *stk_kind_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    const stk_data_kind *k;

    for (size_t i = 0; !o->format && (k = stk_registry_get(NULL, STK_PLUGIN_DATA, i)); i++)
        if (is_meant(k, urls, n, o))
            return k;
    return NULL;
}
