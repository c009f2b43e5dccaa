/* SPDX-License-Identifier: Apache-2.0 */
/* json_stream.h - reads a JSON file of any size, value by value.  The COCO format calls it.
 *
 * It finds the ends of values by brackets and quotes; callers check that a value is JSON
 * (base/json.h). */
#ifndef STOKER_FORMAT_JSON_STREAM_H
#define STOKER_FORMAT_JSON_STREAM_H

#include "source/source.h"

typedef struct stk_json_stream { /* end with stk_free(buf).  Thread: one */
    stk_file *file;
    uint64_t size, at; /* at: offset of buf[0] in the file */
    uint8_t *buf;
    size_t len, cap, pos, from; /* pos: the next byte; from: first byte that stays, with `keep` */
    int keep;                   /* true while a value stays in the buffer */
} stk_json_stream;

int stk_json_stream_init(stk_json_stream *r, stk_file *f, uint64_t size, stk_error *err);
/* Returns STK_ECORRUPT, with the offset. */
int stk_json_broken(const stk_json_stream *r, const char *what, stk_error *err);
/* Sets *c to the next byte that is not white space, without taking it.  The end of the file is an
 * error. */
int stk_json_mark(stk_json_stream *r, uint8_t *c, stk_error *err);
/* Skips the value that begins here; counts its brackets and does not check it. */
int stk_json_pass(stk_json_stream *r, stk_error *err);
/* Takes the value that begins here; *out is valid until the next call. */
int stk_json_take(stk_json_stream *r, stk_bytes *out, stk_error *err);

#endif
