/* SPDX-License-Identifier: Apache-2.0 */
/* several.h - the argument of the step `pictures`: where files are that a list names.  Rows that
 * have several pictures read it (row/row_pictures.c). */
#ifndef STOKER_OP_SEVERAL_H
#define STOKER_OP_SEVERAL_H

typedef struct stk_pictures_state {
    char root[1024]; /* absolute; "": names are of fields of the sample */
} stk_pictures_state;

#endif
