/* SPDX-License-Identifier: Apache-2.0 */
/* index_json.h - pieces of an index.json, for mds.c and litdata.c: values as raw text of a document
 * that was checked. */
#ifndef STOKER_INDEX_JSON_H
#define STOKER_INDEX_JSON_H

#include "base/err.h"

int stk_doc_is(stk_bytes text, const char *what);
/* A quoted text; *out is freed and replaced. */
int stk_doc_text(stk_bytes v, char **out, stk_error *err);
int stk_doc_number(stk_bytes v, uint64_t most, uint64_t *out, stk_error *err);
/* An array without its bracket, then its elements.  0: there is none left. */
int stk_doc_list(stk_bytes *list, stk_error *err);
int stk_doc_element(stk_bytes *list, stk_bytes *out);
/* Is it the name of a file below the index's folder? */
int stk_doc_name(const char *name, stk_error *err);

#endif
