/* SPDX-License-Identifier: Apache-2.0 */
/* index_json.h - reads values of an index.json, for mds.c and litdata.c.  Values are raw text of a
 * document that was checked before. */
#ifndef STOKER_INDEX_JSON_H
#define STOKER_INDEX_JSON_H

#include "base/err.h"

int stk_doc_is(stk_bytes text, const char *what);
/* Sets *out to a quoted text; frees the text that it had. */
int stk_doc_text(stk_bytes v, char **out, stk_error *err);
int stk_doc_number(stk_bytes v, uint64_t most, uint64_t *out, stk_error *err);
/* list(): begins an array.  element(): sets *out to its next element; 0: there are no more. */
int stk_doc_list(stk_bytes *list, stk_error *err);
int stk_doc_element(stk_bytes *list, stk_bytes *out);
/* STK_ECORRUPT: this is not the name of a file below the index's folder. */
int stk_doc_name(const char *name, stk_error *err);

#endif
