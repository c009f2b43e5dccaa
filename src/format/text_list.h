/* SPDX-License-Identifier: Apache-2.0 */
/* text_list.h - a list of texts as it is handed out: a JSON array of strings, with null where an
 * element is null, so that json(...) reads it as it reads any other field. */
#ifndef STOKER_FORMAT_TEXT_LIST_H
#define STOKER_FORMAT_TEXT_LIST_H

#include "base/err.h"

#define STK_TEXT_LIST_MAX ((uint64_t)1 << 30) /* bytes of one */

/* One list, or several one after another.  Like snprintf(): `len` counts on where `room` is used
 * up, and nothing is written from there on. */
typedef struct stk_text_list {
    uint8_t *dst; /* NULL: it is only counted */
    uint64_t room, len;
    int more; /* the list that is open has an element */
} stk_text_list;

void stk_text_list_begin(stk_text_list *t);
/* An element; bytes that are not UTF-8 stay as they are. */
void stk_text_list_put(stk_text_list *t, stk_bytes text);
void stk_text_list_null(stk_text_list *t);
void stk_text_list_end(stk_text_list *t);
/* An element of a list of bytes, without beginning and end: its length as u32, then itself. */
void stk_text_list_blob(stk_text_list *t, stk_bytes bytes);

#endif
