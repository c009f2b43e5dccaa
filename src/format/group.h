/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - members side by side become samples, by WebDataset's rules. */
#ifndef STOKER_FORMAT_GROUP_H
#define STOKER_FORMAT_GROUP_H

#include "format/format.h"
#include "base/text.h"

typedef struct stk_member { /* a regular file of an archive */
    const char *name;
    size_t name_len;
    uint64_t start; /* of all that belongs to it: what a sample's offset is */
    uint64_t at;    /* of its header: where errors point */
    uint64_t data, size;
} stk_member;

/* The sample being gathered.  init with zeros and a scan, end with fini.  Thread: one. */
typedef struct stk_group {
    stk_scan *scan;
    int open, bad;
    uint64_t start;
    stk_text key, names; /* names: of all fields, one after the other, each with a NUL */
    stk_field *field;    /* while gathering, .name is an offset in names */
    uint32_t n, cap;
    uint32_t *table; /* field number + 1 by hash of the name; 0: free */
    uint32_t mask, table_cap;
    stk_text usual; /* names of the samples so far, while all have the same */
    int mixed;      /* they have not */
} stk_group;

/* Take the next member; a finished sample goes to scan->sample().  Members that are no fields
 * are left out. */
int stk_group_add(stk_group *g, const stk_member *m, stk_error *err);
int stk_group_flush(stk_group *g, stk_error *err); /* the archive ends */
/* Does the open sample have only the first of the fields that every sample before it has? */
int stk_group_is_cut(const stk_group *g);
void stk_group_fini(stk_group *g);

#endif
