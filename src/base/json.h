/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - UTF-8, values of JSON documents that are read in place, and how foreign text is shown in
 * an error. */
#ifndef STOKER_BASE_JSON_H
#define STOKER_BASE_JSON_H

#include "base/err.h"
#include "base/text.h"

#define STK_SHOWN_MAX 160 /* room for 32 bytes, all escaped, quoted, with an ellipsis */

/* The offset of the first byte that is not well-formed UTF-8 (RFC 3629), or len. */
size_t stk_utf8_span(stk_bytes s);
/* Writes the character as UTF-8, and returns its length. */
size_t stk_utf8_put(uint8_t dst[4], uint32_t c);

#define STK_RECODED_MAX 3 /* most bytes of UTF-8 that a byte of another encoding becomes */
/* Converts *len bytes in buf, which has `room` bytes, to UTF-8 in place.  encoding[b] is the code
 * point of byte b; UINT32_MAX: it has none, which is STK_ECORRUPT. */
int stk_recode(const uint32_t encoding[256], uint8_t *buf, size_t *len, size_t room,
               stk_error *err);

/* Writes at most 32 bytes of `s` in quotes, with everything unprintable escaped.  Returns `buf`. */
const char *stk_shown(stk_bytes s, char buf[STK_SHOWN_MAX]);

/* Sets *out to the value at `path` ("a.b.3.c", "" for the whole document) as raw text in `doc`.
 * Checks the whole document (RFC 8259, depth 64).  Of equal keys the last one counts, as in
 * Python. */
int stk_json_find(stk_bytes doc, const char *path, stk_bytes *out, stk_error *err);

typedef int (*stk_json_fn)(void *cookie, stk_bytes key, stk_bytes value, stk_error *err);

/* Calls fn() for every member of the object `doc`, in order, with key and value as raw text in it.
 * Checks the whole document, so fn() may have been called before an error.  If fn() returns a
 * negative value, that ends the calls and is returned. */
int stk_json_members(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err);
/* The same for an array; keys are empty. */
int stk_json_elements(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err);

/* Writes the characters of a JSON string, which stk_json_find() checked, as UTF-8.  dst: at least
 * s.len bytes. */
int stk_json_unquote(stk_bytes s, uint8_t *dst, size_t *len, stk_error *err);

/* Appends `s` as a JSON string.  Bytes that are not UTF-8 become \udc80 to \udcff, as with Python's
 * surrogateescape. */
int stk_json_quote(stk_text *out, stk_bytes s, stk_error *err);

#endif
