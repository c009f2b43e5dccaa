/* SPDX-License-Identifier: Apache-2.0 */
/* table_files.h - finds the files that the names of a data set mean, for the kinds of tables.
 *
 * Patterns are expanded as for shards.  A folder means the files of the kind in it, sorted by name.
 * Names that begin with . or _ are ignored (markers and logs of the writers). */
#ifndef STOKER_TABLE_FILES_H
#define STOKER_TABLE_FILES_H

#include "table/table_data.h"

typedef struct stk_table_files_of { /* a kind of files */
    const char *const *ends;        /* suffixes of their names; NULL after the last */
    const char *hides;              /* first characters of names that are ignored; NULL: none */
    int below;                      /* true if files in folders below count, too */
    /* first bytes by which files without a suffix are found; NULL: they are not */
    const char *magic;
} stk_table_files_of;

/* 1: some of these names mean such files. */
int stk_table_files_meant(const stk_table_files_of *of, const char *const *urls, size_t n);
/* Adds the absolute names of the files, in order.  STK_ENOTFOUND: there are none. */
int stk_table_files_names(const stk_table_files_of *of, stk_names *out, const char *const *urls,
                          size_t n, stk_error *err);

#endif
