/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - samples whose fields are stored in the index itself: texts, and names of files.  The
 * formats of annotated pictures and of folders make records while they index, and read them.
 *
 * A record is stored after the sample's key and a NUL: a length of four bytes, as many bytes that
 * hold for the whole shard (only in its first sample), then the fields.  A field's offset, less the
 * sample's, is its place in the record.  There is 'T' and the text, or 'F', the number of its
 * folder, and the file's name with a NUL.  Its size is that of the text or file. */
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

/* Begins a sample.  head: what holds for the whole shard. */
int stk_record_begin(stk_record *r, stk_bytes key, stk_bytes head, stk_error *err);
/* These add a field; `name` is borrowed until stk_record_report(), which passes the sample to the
 * scan. */
int stk_record_text(stk_record *r, const char *name, stk_bytes text, stk_error *err);
int stk_record_file(stk_record *r, const char *name, uint8_t folder, stk_bytes file, uint64_t size,
                    stk_error *err);
int stk_record_report(stk_record *r, uint64_t offset, stk_error *err);
void stk_record_fini(stk_record *r);

/* The `head` of a shard, from the key of its first sample. */
stk_bytes stk_record_head(stk_bytes key);

/* Sets *out to where a field's bytes are.  folders: absolute, by number.  listed: names come from
 * listing the folders, so symlinks are followed. */
int stk_record_locate(const stk_entry *e, const stk_field *field, const stk_names *folders,
                      int listed, stk_place *out, stk_error *err);

#endif
