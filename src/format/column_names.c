/* SPDX-License-Identifier: Apache-2.0 */
/* column_names.c - columns of one name: see column_names.h.
 *
 * Names are sorted once, so that a table of thousands of columns costs little; only those that are
 * there twice are looked for among all, and there may be RENAMES_MAX of them. */
#include "format/column_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define RENAMES_MAX 1000u

typedef struct sorted {
    char **name;
    uint32_t at;
} sorted;

static int by_name(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    int order = strcmp(*x->name, *y->name);

    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int is_taken(char **const *name, uint32_t n, const char *text)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(*name[i], text))
            return 1;
    return 0;
}

static int rename_one(char **const *name, uint32_t n, char **which, stk_error *err)
{
    size_t room = strlen(*which) + 12;
    char *text = stk_alloc(room);

    if (!text)
        return stk_fail_nomem(err, room);
    for (uint32_t k = 1; k == 1 || is_taken(name, n, text); k++)
        snprintf(text, room, "%s_%u", *which, k);
    stk_free(*which);
    *which = text;
    return 0;
}

int stk_column_names(char **const *name, uint32_t n, stk_error *err)
{
    sorted *s = stk_alloc((n + 1u) * sizeof *s);
    uint32_t first = 0, renamed = 0;
    int rc = 0;

    if (!s)
        return stk_fail_nomem(err, n * sizeof *s);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (sorted){ name[i], i };
    qsort(s, n, sizeof *s, by_name);
    for (uint32_t i = 1; i < n && rc == 0; i++)
        if (strcmp(*s[i].name, *s[first].name) != 0)
            first = i;
        else if (++renamed > RENAMES_MAX)
            rc = stk_fail(err, STK_ELIMIT, "more than %u columns have the name of another",
                          RENAMES_MAX);
        else
            rc = rename_one(name, n, s[i].name, err);
    stk_free(s);
    return rc;
}
