/* SPDX-License-Identifier: Apache-2.0 */
/* json_stream.h - a JSON file of any size, value by value.
 *
 * Values are told apart by their brackets and quotes; whether a value is JSON is for those who take
 * it (base/json.h). */
#ifndef STOKER_FORMAT_JSON_STREAM_H
#define STOKER_FORMAT_JSON_STREAM_H

#include "source/source.h"

typedef struct stk_json_stream { /* end with stk_free(buf).  Thread: one */
    stk_file *file;
    uint64_t size, at; /* at: of buf[0] */
    uint8_t *buf;
    size_t len, cap, pos, from; /* from: kept from here on, while `keep` */
    int keep;
} stk_json_stream;

int stk_json_stream_init(stk_json_stream *r, stk_file *f, uint64_t size, stk_error *err);
/* STK_ECORRUPT with the place. */
int stk_json_broken(const stk_json_stream *r, const char *what, stk_error *err);
/* The next byte that is not white space, which stays; an end of the file is an error. */
int stk_json_mark(stk_json_stream *r, uint8_t *c, stk_error *err);
/* Past the value that begins here: brackets are counted, what is in it is not looked at. */
int stk_json_pass(stk_json_stream *r, stk_error *err);
/* The value that begins here, in the buffer until the next call. */
int stk_json_take(stk_json_stream *r, stk_bytes *out, stk_error *err);

#endif
