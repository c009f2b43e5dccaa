/* SPDX-License-Identifier: Apache-2.0 */
/* pack_model.h - the state of one run of stk_pack(), and the functions of its files:
 *
 *     pack_select.c   which samples take part
 *     pack_alike.c    leaves out samples that are like an earlier one
 *     pack_balance.c  takes as many samples of each class
 *     pack_plan.c     decides which shard each sample goes to; computes the fingerprint
 *     pack_target.c   finds shards that are in the target already
 *     pack_remote.c   the same for a target in a bucket
 *     pack_copy.c     writes shards of samples as they are
 *     pack_fields.c   writes shards of samples that chains make
 *     pack_arrays.c   writes arrays instead of tar shards
 *     pack_values.c   turns rows of tables into members
 *     pack_made.c     writes down how the shards were made, for users
 *     pack.c          runs all of it */
#ifndef STOKER_PACK_MODEL_H
#define STOKER_PACK_MODEL_H

#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "data/shard_data.h"
#include "order/order.h"
#include "tools/pack_stamp.h"

/* Values of stk_pack_run.keep: the shard is in the target already; it belongs to another part. */
enum { STK_PACK_DONE = 1, STK_PACK_OTHERS = 2 };
struct stk_pack_fields;

typedef struct stk_pack_run {
    stk_dataset *ds;
    stk_pack_options o;
    stk_shard_pattern pattern;
    uint64_t *id;   /* ids of the samples that take part; NULL: all */
    uint64_t count; /* number of samples that take part */
    stk_pack_dropped dropped;
    uint64_t *again; /* only_failed: ids of the samples that failed before */
    stk_perm perm;
    uint64_t *first; /* shard i has positions first[i] .. first[i + 1] - 1 */
    uint64_t n, cap;
    uint64_t total, fingerprint;
    /* a table in memory: about how many bytes a row has (0: not known yet), and its fingerprint */
    uint64_t row_bytes, memory_print;
    int memory_known;
    int names_files; /* true for a manifest whose paths are files */
    stk_stamp stamp;
    uint8_t *keep; /* by shard: 0: it has to be written; else STK_PACK_* */
    stk_index_report index;
    _Atomic uint64_t done, adapted;
    _Atomic int stopped;
    stk_mutex lock;
    uint64_t told_ns; /* lock: time of the last call of the progress callback */
    /* tables: by field, the suffix of its members and its type; NULL: shards with an index */
    char **name;
    stk_field_type *type;
} stk_pack_run;

#define STK_PACK_KEY 24 /* bytes of a number as a key */
/* A sample's key; for a row of a table its number, written to `text`. */
stk_bytes stk_pack_key(const stk_pack_run *p, uint64_t id, char text[STK_PACK_KEY]);
int stk_pack_names(stk_pack_run *p, stk_error *err); /* fills name and type */
void stk_pack_names_fini(stk_pack_run *p);
/* Tables: the suffix of a value's member; and its bytes, which are appended. */
const char *stk_pack_member(const stk_pack_run *p, uint32_t field, stk_bytes in);
int stk_pack_value(const stk_pack_run *p, uint32_t field, stk_bytes in, stk_text *out,
                   stk_error *err);

/* The sample at a position of the plan. */
static inline uint64_t stk_pack_at(const stk_pack_run *p, uint64_t position)
{
    uint64_t i = p->o.shuffle == STK_YES ? stk_perm_at(&p->perm, position) : position;

    return p->id ? p->id[i] : i;
}

static inline uint64_t stk_pack_is_folder(const stk_pack_run *p)
{
    const stk_shard_data *d = stk_shard_data_of(p->ds);

    return d && !strcmp(stk_index_format(d->index), "folder");
}

/* The field that is a file: a folder's `image`, a manifest's `path`.  Its member gets the file's
 * suffix (cat/1.jpg, not cat/1_jpg.image), because readers such as WebDataset choose a decoder by
 * it.  NULL: the data has no such field. */
const char *stk_pack_file_field(const stk_pack_run *p);
/* 1: keys are names of files, with their suffixes. */
int stk_pack_keys_files(const stk_pack_run *p);
void stk_pack_look_files(stk_pack_run *p); /* fills names_files */

#define STK_PACK_SUFFIX 16 /* bytes of a file's suffix */
/* Changes key and file so that the key "cat/1.jpg" becomes the member cat/1.jpg.  file: that field;
 * NULL: only the key is cut.  suffix: memory of STK_PACK_SUFFIX bytes. */
void stk_pack_name_file(const stk_pack_run *p, stk_bytes *key, stk_part *file, char *suffix);
const char *stk_pack_picture_kind(stk_bytes in); /* jpg, png, webp; NULL: none of these */

/* Counts `more` bytes, and reports progress at times.  Non-zero: the program wants to stop. */
int stk_pack_tell(stk_pack_run *p, uint64_t more);
int stk_pack_plan_make(stk_pack_run *p, const struct stk_pack_fields *f, stk_error *err);
int stk_pack_look(stk_pack_run *p, stk_error *err); /* fills keep[] */
/* Removes uploads that dead writers left of shards that have to be written. */
void stk_pack_sweep(stk_pack_run *p);
/* Writes the shards for which keep[] is 0. */
int stk_pack_copy(stk_pack_run *p, stk_error *err);
/* Call when shard i is complete: adds it to the note, then gives it its name.  failed: samples that
 * could not be made, as in stk_stamp_line. */
int stk_pack_publish(stk_pack_run *p, uint64_t i, stk_tar_writer *tar, const stk_text *failed,
                     stk_error *err);
int stk_pack_made(stk_pack_run *p, stk_error *err); /* writes down how: .stoker/PATTERN.made.json */
/* only_failed: selects the samples that the target's list names, and gives the new shards other
 * names. */
int stk_pack_again(stk_pack_run *p, stk_error *err);
/* Fills id, count and dropped.  If samples are compared, the pattern must be set. */
int stk_pack_select(stk_pack_run *p, stk_error *err);
int stk_pack_drop_alike(stk_pack_run *p, stk_error *err); /* of id[] */
int stk_pack_balance(stk_pack_run *p, stk_error *err);    /* of id[] */
/* Adds names, sizes and times of the source's shards to a hash. */
int stk_pack_source_print(stk_pack_run *p, uint64_t *hash, stk_error *err);
/* Asks the stores whether remote shards are still what was indexed; STK_ESTALE: one changed. */
int stk_pack_source_same(const stk_dataset *ds, stk_error *err);
/* 1: this run writes shard i.  The shards of a part follow each other, since chains read on from
 * shard to shard. */
static inline int stk_pack_mine(const stk_pack_run *p, uint64_t i)
{
    return !p->o.parts || i * p->o.parts / p->n == p->o.part; /* below 2^24 * 2^32 */
}

#endif
