/* SPDX-License-Identifier: Apache-2.0 */
/* annotated.h - what the formats of annotated pictures share (COCO, Pascal VOC, YOLO).  A sample is
 * a record (record.h) that names a picture and has boxes, labels and more as JSON texts.
 *
 * The head that the records of a shard share is the folder of the pictures, then the classes, each
 * with a NUL.  The folder is absolute, or relative to that of the shard, so that both can be
 * moved. */
#ifndef STOKER_FORMAT_ANNOTATED_H
#define STOKER_FORMAT_ANNOTATED_H

#include "format/record.h"

extern const stk_format stk_format_coco;
extern const stk_format stk_format_voc;

typedef struct stk_annotated { /* the state of these formats, and of pairs */
    stk_names folders;         /* by shard: folder of its pictures */
    stk_names classes;
} stk_annotated;

/* stk_format's open, close, class_name and locate. */
int stk_annotated_open(const stk_format_data *in, void **out, stk_error *err);
void stk_annotated_close(void *state);
const char *stk_annotated_class(const void *state, uint32_t i);
int stk_annotated_locate(const stk_entry *e, const stk_field *field, stk_place *out,
                         stk_error *err);

/* pairs.c: the same for pairs:// and frames://. */
int stk_pairs_open(const stk_format_data *in, void **out, stk_error *err);
int stk_pairs_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err);

/* Begins an element of a JSON list: adds "[", or ", " after another element. */
int stk_list_next(stk_text *list, stk_error *err);
int stk_list_end(stk_text *list, stk_error *err); /* adds "]" */
/* Adds a number with as few digits as give the same double back. */
int stk_real_put(stk_text *t, double v, stk_error *err);
int stk_int_put(stk_text *t, int64_t v, stk_error *err);

/* Sets *size to the size of the picture root/name, or *missing to 1 if there is none.  `name` must
 * stay below root. */
int stk_annotated_stat(const char *root, stk_bytes name, uint64_t *size, int *missing,
                       stk_error *err);
stk_bytes stk_picture_stem(stk_bytes name); /* without its suffix: the key of its sample */
/* Writes the absolute path of the folder `root`, which is absolute or relative to the shard's
 * folder. */
int stk_annotated_root(const char *shard, const char *root, stk_text *out, stk_error *err);

#endif
