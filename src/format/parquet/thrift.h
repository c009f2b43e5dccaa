/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.h - reads the compact protocol of Apache Thrift in place.  Readers of Parquet's footer and
 * page headers call it.
 *
 * A reader never leaves its bytes.  The first error is stored in `bad`, and from then on every call
 * returns zero, so that callers check once, at the end.  A list never has more elements than bytes
 * are left, so that no count can ask for more memory than the file has bytes. */
#ifndef STOKER_PARQUET_THRIFT_H
#define STOKER_PARQUET_THRIFT_H

#include "base/err.h"

enum { /* types on the wire */
       STK_THRIFT_TRUE = 1,
       STK_THRIFT_FALSE,
       STK_THRIFT_I8,
       STK_THRIFT_I16,
       STK_THRIFT_I32,
       STK_THRIFT_I64,
       STK_THRIFT_DOUBLE,
       STK_THRIFT_BINARY,
       STK_THRIFT_LIST,
       STK_THRIFT_SET,
       STK_THRIFT_MAP,
       STK_THRIFT_STRUCT,
};

typedef struct stk_thrift {
    const uint8_t *p, *end;
    const char *bad; /* static text of the first error; NULL: none */
} stk_thrift;

typedef struct stk_thrift_field { /* starts as zeros for each struct */
    int32_t id;
    int type;
} stk_thrift_field;

uint64_t stk_thrift_varint(stk_thrift *t);
/* Goes to the next field of a struct.  0: the struct ends here, or there was an error. */
int stk_thrift_next(stk_thrift *t, stk_thrift_field *f);
/* The value of the current field; another type is an error. */
int64_t stk_thrift_int(stk_thrift *t, const stk_thrift_field *f);
int stk_thrift_bool(stk_thrift *t, const stk_thrift_field *f);
stk_bytes stk_thrift_binary(stk_thrift *t, const stk_thrift_field *f);
/* For a list: the number of elements that follow, which must have the type `want`. */
uint32_t stk_thrift_list(stk_thrift *t, const stk_thrift_field *f, int want);
/* 1: a struct follows. */
int stk_thrift_struct(stk_thrift *t, const stk_thrift_field *f);
void stk_thrift_skip(stk_thrift *t, const stk_thrift_field *f);

#endif
