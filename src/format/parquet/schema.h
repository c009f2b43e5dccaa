/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the schema part of a footer, for footer.c. */
#ifndef STOKER_PARQUET_SCHEMA_H
#define STOKER_PARQUET_SCHEMA_H

#include "format/parquet/parquet.h"
#include "format/parquet/thrift.h"

/* Field 2 of the footer: fills f->leaf.  What thrift finds wrong stays in t->bad. */
int stk_pq_schema_read(stk_thrift *t, const stk_thrift_field *field, stk_pq_file *f,
                       stk_error *err);

/* arrow_hint.c: lists that have one length, as the footer's ARROW:schema says it. */
int stk_pq_arrow_hint(stk_pq_file *f, stk_bytes text, stk_error *err);

#endif
