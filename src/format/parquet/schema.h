/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - reads the schema in a Parquet footer.  footer.c calls it. */
#ifndef STOKER_PARQUET_SCHEMA_H
#define STOKER_PARQUET_SCHEMA_H

#include "format/parquet/parquet.h"
#include "format/parquet/thrift.h"

/* Reads field 2 of the footer to f->leaf.  Errors of Thrift stay in t->bad. */
int stk_pq_schema_read(stk_thrift *t, const stk_thrift_field *field, stk_pq_file *f,
                       stk_error *err);

/* arrow_hint.c: marks lists of one fixed length, by the footer's ARROW:schema. */
int stk_pq_arrow_hint(stk_pq_file *f, stk_bytes text, stk_error *err);

#endif
