/* SPDX-License-Identifier: Apache-2.0 */
/* shard_writer.h - samples into tar shards: the names of shards, the names of members. */
#ifndef STOKER_SHARD_WRITER_H
#define STOKER_SHARD_WRITER_H

#include <stoker/tools.h>

#include "format/tar_write.h"
#include "base/text.h"

/* "DIR/train-%06d.tar", taken apart.  init by parse, end with fini. */
typedef struct stk_shard_pattern {
    char *dir;             /* ends in a slash; "" for the current folder */
    char *prefix, *suffix; /* of the file's name, around the number */
    int width;
    int folder;          /* it was given as a folder */
    const char *squeeze; /* how shards are packed, as in compress/squeeze.h; NULL: they are not */
    const stk_store *store; /* borrowed: how a bucket is reached; NULL: by the environment */
} stk_shard_pattern;

/* A pattern without a number is a folder: its shards are called DIR/`name`-%06d.tar. */
int stk_shard_pattern_parse(stk_shard_pattern *p, const char *text, const char *name,
                            stk_error *err);
/* Shards are packed by `squeeze`, and a folder's get its suffix; NULL: as the name says. */
int stk_shard_pattern_squeeze(stk_shard_pattern *p, const char *squeeze, stk_error *err);
void stk_shard_pattern_fini(stk_shard_pattern *p);
/* Begin to write shard `i`. */
int stk_shard_open(stk_tar_writer **out, const stk_shard_pattern *p, uint64_t i, int replace,
                   stk_error *err);
/* The path of shard `i`, stk_alloc()ed; NULL: no memory. */
char *stk_shard_pattern_at(const stk_shard_pattern *p, uint64_t i);
/* The number in a file's name; -1: it is none of these shards. */
int64_t stk_shard_pattern_number(const stk_shard_pattern *p, const char *base);
int stk_shard_folder_make(const char *dir, stk_error *err); /* with its parents */

/* One sample after the other into one tar.  init with zeros, end with fini.  Thread: one. */
typedef struct stk_sample_out {
    stk_text name;      /* of the member: key, dot, field */
    stk_text last, key; /* of the sample before, and of this one as written */
    int adapt;          /* repair keys that would not be read back as they are */
    uint64_t adapted;   /* samples whose key was repaired */
    int64_t mtime;
} stk_sample_out;

/* Check the names; then nothing but the disk can fail.  The key as it will be written is
 * o->key. */
int stk_sample_out_check(stk_sample_out *o, stk_bytes key, const stk_part *parts, uint32_t n,
                         stk_error *err);
int stk_sample_out_put(stk_sample_out *o, stk_tar_writer *tar, const stk_part *parts, uint32_t n,
                       stk_error *err);
void stk_sample_out_begin(stk_sample_out *o); /* the next tar begins */
void stk_sample_out_fini(stk_sample_out *o);

#endif
