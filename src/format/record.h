/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - samples that are put together while they are indexed: their fields are texts, which
 * the index keeps, and files, which it names.
 *
 * All of it is after the sample's key and a NUL: four bytes, so many bytes that hold for the whole
 * shard (of its first sample only), then the fields.  A field's offset, less the sample's, is its
 * place in there: 'T' and the text, or 'F', the number of its folder, and the file's name with a
 * NUL.  Its size is that of the text or file. */
#ifndef STOKER_FORMAT_RECORD_H
#define STOKER_FORMAT_RECORD_H

#include "base/text.h"
#include "format/format.h"

#define STK_RECORD_FIELDS 65534u

typedef struct stk_record { /* init with zeros and a scan, end with fini.  Thread: one */
    stk_scan *scan;
    stk_text blob;
    stk_field *field;
    uint32_t n, cap;
} stk_record;

/* A new sample.  head: what holds for the whole shard. */
int stk_record_begin(stk_record *r, stk_bytes key, stk_bytes head, stk_error *err);
/* name: borrowed until the report. */
int stk_record_text(stk_record *r, const char *name, stk_bytes text, stk_error *err);
int stk_record_file(stk_record *r, const char *name, uint8_t folder, stk_bytes file, uint64_t size,
                    stk_error *err);
int stk_record_report(stk_record *r, uint64_t offset, stk_error *err);
void stk_record_fini(stk_record *r);

/* What was given as `head`, of the key of a shard's first sample. */
stk_bytes stk_record_head(stk_bytes key);

/* Where a field's bytes are.  folders: absolute, by number.  listed: names come from listing them,
 * so that symlinks are followed. */
int stk_record_locate(const stk_entry *e, const stk_field *field, const stk_names *folders,
                      int listed, stk_place *out, stk_error *err);

#endif
