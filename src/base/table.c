/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - a plug-in's table may be shorter than ours (it is older) or longer (it is newer).
 * Later code reads every field of the copy.  A field that we do not know must be zero: otherwise
 * the plug-in asks for something that this library cannot do. */
#include "base/table.h"

#include <string.h>

static int knows_all(const uint8_t *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (bytes[i])
            return 0;
    return 1;
}

int stk_table_take(void *dst, size_t size, const void *table, const char *what, stk_error *err)
{
    const stk_plugin *t = table;
    const char *name = t->name ? t->name : "(without a name)";

    if (t->abi != STK_PLUGIN_ABI)
        return stk_fail(err, STK_EINVAL, "%s %s was built for ABI %u, this is %d: rebuild it", what,
                        name, t->abi, STK_PLUGIN_ABI);
    if (t->size < sizeof *t || t->size > STK_TABLE_MAX)
        return stk_fail(err, STK_EINVAL, "%s %s has size %u: set it to the sizeof of its struct",
                        what, name, t->size);
    if (!knows_all(table, size, t->size))
        return stk_fail(err, STK_EINVAL,
                        "%s %s sets fields that this library does not have: it was built for a "
                        "newer one, update the library",
                        what, name);
    memset(dst, 0, size);
    memcpy(dst, table, t->size < size ? t->size : size);
    ((stk_plugin *)dst)->size = (uint32_t)size;
    return 0;
}
