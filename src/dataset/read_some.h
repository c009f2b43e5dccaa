/* SPDX-License-Identifier: Apache-2.0 */
/* read_some.h - stk_dataset_read() for some fields of a sample; the others are not read.  `stoker
 * pack` calls it. */
#ifndef STOKER_READ_SOME_H
#define STOKER_READ_SOME_H

#include <stoker/dataset.h>

typedef struct stk_field_choice {
    int (*wants)(void *cookie, const char *name); /* 1: read this field.  NULL: read all */
    void *cookie;
    /* the field that names a file whose bytes are read instead (STK_DATA_NAMES_FILES); NULL:
     * none */
    const char *open;
} stk_field_choice;

/* Fields that are not wanted have a name and no bytes in *out.  Not for arrays. */
int stk_dataset_read_some(stk_dataset *ds, uint64_t i, const stk_field_choice *choice,
                          stk_sample **out, stk_error *err);

#endif
