/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fields.h - writes shards whose fields are made by chains while packing (`stoker pack
 * --field`). */
#ifndef STOKER_PACK_FIELDS_H
#define STOKER_PACK_FIELDS_H

#include "codec/encode.h"
#include "tools/pack_model.h"

typedef struct stk_pack_field {
    const char *name;
    char *chain; /* the chain without encode(); NULL: the field is left out */
    stk_encoding encoding;
} stk_pack_field;

typedef struct stk_pack_fields { /* init with zeros, end with fini */
    stk_pack_field *field;
    uint32_t n;
    /* samples of the current shard that were left out: JSON objects with commas between them */
    stk_text failed;
} stk_pack_fields;

/* Plans the fields of the options.  An empty chain leaves the field out; for arrays, a chain
 * without encode() ends in encode(npy).  Borrows the names. */
int stk_pack_fields_plan(stk_pack_fields *f, const stk_pack_options *o, stk_error *err);
void stk_pack_fields_fini(stk_pack_fields *f);
/* Writes the shards for which p->keep[] is 0. */
int stk_pack_make(stk_pack_run *p, stk_pack_fields *f, stk_error *err);

#endif
