/* SPDX-License-Identifier: Apache-2.0 */
/* check_model.h - what the files of stk_check() share: check.c runs it, check_field.c decodes one
 * field, check_walk.c compares a shard with its index. */
#ifndef STOKER_CHECK_MODEL_H
#define STOKER_CHECK_MODEL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "data/shard_data.h"
#include "indexer/indexer.h"
#include "pipe/engine.h"

#define STK_MAX_DECODERS 32 /* most decoders whose fields are counted separately */

/* What a field was decoded as.  Below STK_MAX_DECODERS: a picture, by its decoder's number. */
typedef enum check_kind {
    CHECK_GZIP = STK_MAX_DECODERS,
    CHECK_ZSTD,
    CHECK_NPY,
    CHECK_NPZ,
    CHECK_JSON,
    CHECK_TEXT,
    CHECK_INT,
    CHECK_KINDS,
    CHECK_NONE = CHECK_KINDS, /* it was only read */
} check_kind;

#define CHECK_FIRST_CODEC CHECK_GZIP

typedef struct check {
    stk_check_options o;
    stk_dataset *ds;
    uint64_t *id, count;                              /* samples that are checked; id NULL: all */
    stk_chain chain[CHECK_KINDS - CHECK_FIRST_CODEC]; /* planned chains of check_codecs[] */
    uint8_t missing[CHECK_KINDS - CHECK_FIRST_CODEC]; /* 1: this build lacks the codec */
    stk_names all; /* absolute names of the shards; only set if some are bad */
    stk_index_home home;
    uint8_t *bad_shard;
    _Atomic uint64_t done, bytes, bad_samples, bad_shards, unsupported, unchecked, misfits;
    _Atomic uint64_t index_faults, warnings, fields, only_read, decoded[CHECK_KINDS];
    _Atomic int stopped;
    stk_mutex lock;
    uint64_t told_ns; /* lock: time of the last call of the progress callback */
} check;

typedef struct tally { /* counts of one sample, or of a job */
    uint64_t bytes, fields, only_read, unchecked, decoded[CHECK_KINDS];
} tally;

typedef struct reader { /* what one job works with */
    check *c;
    void *decoder[STK_MAX_DECODERS];
    stk_scratch scratch;
    tally tally;
} reader;

/* check.c */
void check_say(check *c, const stk_bad *b);
int check_tell(check *c, uint64_t more); /* reports progress; non-zero: the program wants to stop */
/* 1: a failure of the machine, which says nothing about the data. */
static inline int check_is_machine(int rc)
{
    return rc == STK_EIO || rc == STK_ENOMEM;
}
/* Pauses and returns 1 if another try makes sense; else 0. */
int check_again(int rc, uint32_t *tries);

/* check_field.c */
int check_codecs_plan(check *c, stk_error *err);
const char *check_kind_name(size_t kind); /* NULL: there is no such kind */
/* Decodes a field.  STK_ENOTSUP: the decoder does not support it.  STK_EIO, STK_ENOMEM: a failure
 * of the machine.  Other errors: the field is bad. */
int check_field(reader *r, const char *name, stk_bytes in, stk_error *err);
void check_reader_fini(reader *r);
int check_names_picture(const char *name); /* 1: a field of this name has to be a picture */
int check_names_sound(const char *name);   /* 1: a field of this name has to be a recording */

/* check_walk.c: a job for stk_jobs_run(); job i compares shard i with its index. */
int check_walk(void *cookie, uint64_t shard, stk_error *err);

#endif
