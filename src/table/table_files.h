/* SPDX-License-Identifier: Apache-2.0 */
/* table_files.h - which files a data set of tables has.
 *
 * Patterns are expanded as for shards.  A folder means the files of the kind in it, sorted by name;
 * names that begin with . or _ are others' (markers and logs of the writers). */
#ifndef STOKER_TABLE_FILES_H
#define STOKER_TABLE_FILES_H

#include "table/table_data.h"

typedef struct stk_table_files_of { /* a kind of files */
    const char *const *ends;        /* of their names; NULL after the last */
    const char *hides;              /* how names begin that do not count; NULL: all do */
    int below;                      /* those in folders of the folder are meant too */
    const char *magic; /* how files without an ending in their names begin; NULL: none counts */
} stk_table_files_of;

/* Do any of these names mean such files? */
int stk_table_files_meant(const stk_table_files_of *of, const char *const *urls, size_t n);
/* The names, absolute, in order.  STK_ENOTFOUND: none. */
int stk_table_files_names(const stk_table_files_of *of, stk_names *out, const char *const *urls,
                          size_t n, stk_error *err);

#endif
