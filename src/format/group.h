/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - puts neighbouring members of an archive together to samples, by WebDataset's rules.
 * The formats of archives call it while they index. */
#ifndef STOKER_FORMAT_GROUP_H
#define STOKER_FORMAT_GROUP_H

#include "format/format.h"
#include "base/text.h"

typedef struct stk_member { /* a regular file of an archive */
    const char *name;
    size_t name_len;
    uint64_t start; /* offset of all that belongs to it, which is the offset of a sample */
    uint64_t at;    /* offset of its header, for errors */
    uint64_t data, size;
} stk_member;

/* The sample that is being put together.  Init with zeros and a scan, end with fini.  Thread:
 * one. */
typedef struct stk_group {
    stk_scan *scan;
    int open, bad;
    uint64_t start;
    stk_text key, names; /* names: the names of all fields, each with a NUL */
    stk_field *field;    /* until the sample is complete, .name is an offset in `names` */
    uint32_t n, cap;
    uint32_t *table; /* hash table of field numbers + 1, by name; 0: free */
    uint32_t mask, table_cap;
    stk_text usual; /* names of fields that all samples so far have */
    int mixed;      /* true once samples had different fields */
} stk_group;

/* Adds the next member; a complete sample goes to scan->sample().  Members that are no fields are
 * left out. */
int stk_group_add(stk_group *g, const stk_member *m, stk_error *err);
int stk_group_flush(stk_group *g, stk_error *err); /* the archive ends */
/* 1: the open sample has only the first of the fields that every sample before it has. */
int stk_group_is_cut(const stk_group *g);
void stk_group_fini(stk_group *g);

#endif
