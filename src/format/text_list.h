/* SPDX-License-Identifier: Apache-2.0 */
/* text_list.h - writes a list of texts as a JSON array of strings and nulls, so that the codec json
 * reads it like any other field.  Readers of Arrow and Parquet call it. */
#ifndef STOKER_FORMAT_TEXT_LIST_H
#define STOKER_FORMAT_TEXT_LIST_H

#include "base/err.h"

#define STK_TEXT_LIST_MAX ((uint64_t)1 << 30) /* most bytes of one list */

/* One list, or several one after the other.  As with snprintf(), `len` goes on counting when `room`
 * is used up, and nothing is written from there on. */
typedef struct stk_text_list {
    uint8_t *dst; /* NULL: bytes are only counted */
    uint64_t room, len;
    int more; /* true once the open list has an element */
} stk_text_list;

void stk_text_list_begin(stk_text_list *t);
/* Adds an element; bytes that are not UTF-8 stay as they are. */
void stk_text_list_put(stk_text_list *t, stk_bytes text);
void stk_text_list_null(stk_text_list *t);
void stk_text_list_end(stk_text_list *t);
/* Adds an element of a list of bytes, which has no begin() and end(): its length as u32, then its
 * bytes. */
void stk_text_list_blob(stk_text_list *t, stk_bytes bytes);

#endif
