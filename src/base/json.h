/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - text in place: UTF-8, JSON values, and foreign text shown in an error. */
#ifndef STOKER_BASE_JSON_H
#define STOKER_BASE_JSON_H

#include "base/err.h"
#include "base/text.h"

#define STK_SHOWN_MAX 160 /* room for 32 bytes, all escaped, quoted, with an ellipsis */

/* The offset of the first byte that is not well-formed UTF-8 (RFC 3629), or len. */
size_t stk_utf8_span(stk_bytes s);
/* The character as UTF-8; answers its length. */
size_t stk_utf8_put(uint8_t dst[4], uint32_t c);

#define STK_RECODED_MAX 3 /* bytes of UTF-8 that a byte of another encoding becomes at most */
/* *len bytes in buf, which has room for `room`, become UTF-8 there: encoding[b] is the code point
 * of byte b, UINT32_MAX: it has none, which is STK_ECORRUPT. */
int stk_recode(const uint32_t encoding[256], uint8_t *buf, size_t *len, size_t room,
               stk_error *err);

/* At most 32 bytes of `s` in quotes, everything unprintable escaped.  Returns `buf`. */
const char *stk_shown(stk_bytes s, char buf[STK_SHOWN_MAX]);

/* The value at `path` ("a.b.3.c", "" for the whole document) as raw text in `doc`.  The whole
 * document is checked (RFC 8259, depth 64).  Of equal keys the last one counts, as in Python. */
int stk_json_find(stk_bytes doc, const char *path, stk_bytes *out, stk_error *err);

typedef int (*stk_json_fn)(void *cookie, stk_bytes key, stk_bytes value, stk_error *err);

/* Every member of the object `doc`, in order, key and value as raw text in it; the whole is checked
 * like above, so fn may have been called before an error.  fn's negative answer ends it. */
int stk_json_members(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err);
/* The same of an array; keys are empty. */
int stk_json_elements(stk_bytes doc, stk_json_fn fn, void *cookie, stk_error *err);

/* The characters of a JSON string, checked by stk_json_find(), as UTF-8.  dst: at least s.len
 * bytes. */
int stk_json_unquote(stk_bytes s, uint8_t *dst, size_t *len, stk_error *err);

/* Append `s` as a JSON string.  Bytes that are not UTF-8 become \udc80 to \udcff, as Python's
 * surrogateescape has them. */
int stk_json_quote(stk_text *out, stk_bytes s, stk_error *err);

#endif
