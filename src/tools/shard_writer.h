/* SPDX-License-Identifier: Apache-2.0 */
/* shard_writer.h - writes samples to tar shards: names of shards, names of members.  `stoker pack`
 * and stk_writer call it. */
#ifndef STOKER_SHARD_WRITER_H
#define STOKER_SHARD_WRITER_H

#include <stoker/tools.h>

#include "format/tar_write.h"
#include "base/text.h"

/* The parts of a pattern such as "DIR/train-%06d.tar".  Init by parse, end with fini. */
typedef struct stk_shard_pattern {
    char *dir;             /* ends in a slash; "" for the current folder */
    char *prefix, *suffix; /* parts of the file's name before and after the number */
    int width;             /* digits of the number */
    int folder;            /* true if it was given as a folder */
    /* how shards are compressed, as in compress/squeeze.h; NULL: they are not */
    const char *squeeze;
    const stk_store *store; /* borrowed: how a bucket is reached; NULL: by the environment */
} stk_shard_pattern;

/* A pattern without a number is a folder: its shards are called DIR/`name`-%06d.tar. */
int stk_shard_pattern_parse(stk_shard_pattern *p, const char *text, const char *name,
                            stk_error *err);
/* Sets how shards are compressed; shards of a folder get the suffix.  NULL: as the name says. */
int stk_shard_pattern_squeeze(stk_shard_pattern *p, const char *squeeze, stk_error *err);
void stk_shard_pattern_fini(stk_shard_pattern *p);
/* Opens a writer for shard `i`. */
int stk_shard_open(stk_tar_writer **out, const stk_shard_pattern *p, uint64_t i, int replace,
                   stk_error *err);
/* The path of shard `i`, stk_alloc()ed; NULL: no memory. */
char *stk_shard_pattern_at(const stk_shard_pattern *p, uint64_t i);
/* The number in a file's name; -1: it is not one of these shards. */
int64_t stk_shard_pattern_number(const stk_shard_pattern *p, const char *base);
int stk_shard_folder_make(const char *dir, stk_error *err); /* with its parents */

/* Writes samples to a tar, one after the other.  Init with zeros, end with fini.  Thread: one. */
typedef struct stk_sample_out {
    stk_text name;      /* name of a member: key, dot, field */
    stk_text last, key; /* key of the sample before, and of this one as it is written */
    int adapt;          /* true: keys that would not be read back as they are get repaired */
    uint64_t adapted;   /* samples whose key was repaired */
    int64_t mtime;
} stk_sample_out;

/* Checks the names of a sample, and sets o->key to the key as it will be written.  After that,
 * put() can only fail because of the disk. */
int stk_sample_out_check(stk_sample_out *o, stk_bytes key, const stk_part *parts, uint32_t n,
                         stk_error *err);
int stk_sample_out_put(stk_sample_out *o, stk_tar_writer *tar, const stk_part *parts, uint32_t n,
                       stk_error *err);
void stk_sample_out_begin(stk_sample_out *o); /* call when the next tar begins */
void stk_sample_out_fini(stk_sample_out *o);

#endif
