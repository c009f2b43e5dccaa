/* SPDX-License-Identifier: Apache-2.0 */
/* pack_model.h - one run of stk_pack(), shared by its files.
 *
 *     pack_select.c   which samples take part
 *     pack_alike.c    of these, those that are like no earlier one
 *     pack_balance.c  of these, as many of each class
 *     pack_plan.c     which shard each goes to, and the fingerprint of all that
 *     pack_target.c   what is there already
 *     pack_remote.c   the same of a target in a bucket
 *     pack_copy.c     shards of samples as they are
 *     pack_fields.c   shards of samples that chains make
 *     pack_arrays.c   arrays in place of tar shards
 *     pack_values.c   rows of tables as members
 *     pack_made.c     how it was made, for people
 *     pack.c          the whole */
#ifndef STOKER_PACK_MODEL_H
#define STOKER_PACK_MODEL_H

#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "data/shard_data.h"
#include "order/order.h"
#include "tools/pack_stamp.h"

enum { STK_PACK_DONE = 1 /* it is in place already */, STK_PACK_OTHERS = 2 /* of another part */ };
struct stk_pack_fields;

typedef struct stk_pack_run {
    stk_dataset *ds;
    stk_pack_options o;
    stk_shard_pattern pattern;
    uint64_t *id;   /* of the samples that take part; NULL: all */
    uint64_t count; /* how many */
    stk_pack_dropped dropped;
    uint64_t *again; /* only_failed: ids */
    stk_perm perm;
    uint64_t *first; /* positions: shard i has first[i] .. first[i + 1] - 1 */
    uint64_t n, cap;
    uint64_t total, fingerprint;
    /* of a table in memory: a row, about (0: not known yet), and its content */
    uint64_t row_bytes, memory_print;
    int memory_known;
    int names_files; /* of a manifest: its paths are files */
    stk_stamp stamp;
    uint8_t *keep; /* by shard: 0: it is to be written; STK_PACK_* */
    stk_index_report index;
    _Atomic uint64_t done, adapted;
    _Atomic int stopped;
    stk_mutex lock;
    uint64_t told_ns; /* lock */
    /* Tables: by field what members are called, and what values are; NULL: shards with an index. */
    char **name;
    stk_field_type *type;
} stk_pack_run;

#define STK_PACK_KEY 24 /* bytes of a number as a key */
/* A sample's key; of rows of tables their number, in `text`. */
stk_bytes stk_pack_key(const stk_pack_run *p, uint64_t id, char text[STK_PACK_KEY]);
int stk_pack_names(stk_pack_run *p, stk_error *err); /* fills name and type */
void stk_pack_names_fini(stk_pack_run *p);
/* Tables: what a value's member is called (the run's, or constant), and its bytes, appended. */
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

/* The field that a sample is a file by: a folder's `image`, a manifest's `path`.  It becomes a
 * member by the file's suffix, and not cat/1_jpg.image: readers such as WebDataset choose a decoder
 * by it.  NULL: the data has no such field. */
const char *stk_pack_file_field(const stk_pack_run *p);
/* Are keys names of files, with their suffixes? */
int stk_pack_keys_files(const stk_pack_run *p);
void stk_pack_look_files(stk_pack_run *p); /* fills names_files */

#define STK_PACK_SUFFIX 16 /* bytes of a file's suffix */
/* "cat/1.jpg" becomes the member cat/1.jpg.  file: that field, or NULL: only the key is cut.
 * suffix: STK_PACK_SUFFIX bytes. */
void stk_pack_name_file(const stk_pack_run *p, stk_bytes *key, stk_part *file, char *suffix);
const char *stk_pack_picture_kind(stk_bytes in); /* jpg, png, webp; NULL: none of these */

/* Count `more` bytes and tell of them now and then; non-zero: stop. */
int stk_pack_tell(stk_pack_run *p, uint64_t more);
int stk_pack_plan_make(stk_pack_run *p, const struct stk_pack_fields *f, stk_error *err);
int stk_pack_look(stk_pack_run *p, stk_error *err); /* fills keep[] */
/* uploads of shards that are to be written: their writers are dead */
void stk_pack_sweep(stk_pack_run *p);
/* Write the shards that keep[] has not. */
int stk_pack_copy(stk_pack_run *p, stk_error *err);
/* Shard i is whole: note it, then give it its name.  failed: what could not be made, as in
 * stk_stamp_line. */
int stk_pack_publish(stk_pack_run *p, uint64_t i, stk_tar_writer *tar, const stk_text *failed,
                     stk_error *err);
int stk_pack_made(stk_pack_run *p, stk_error *err); /* writes down how: .stoker/PATTERN.made.json */
/* only_failed: `select` becomes what the target's list names, and shards get a name of their
 * own. */
int stk_pack_again(stk_pack_run *p, stk_error *err);
/* Fills id, count and dropped.  Needs the pattern where samples are compared. */
int stk_pack_select(stk_pack_run *p, stk_error *err);
int stk_pack_drop_alike(stk_pack_run *p, stk_error *err); /* of id[] */
int stk_pack_balance(stk_pack_run *p, stk_error *err);    /* of id[] */
/* Adds names, sizes and times of the source's shards to a hash. */
int stk_pack_source_print(stk_pack_run *p, uint64_t *hash, stk_error *err);
/* Asks the stores whether remote shards are still what was indexed; STK_ESTALE: one changed. */
int stk_pack_source_same(const stk_dataset *ds, stk_error *err);
/* This run writes shard i: all, or those of its part, which follow each other: chains read on from
 * shard to shard. */
static inline int stk_pack_mine(const stk_pack_run *p, uint64_t i)
{
    return !p->o.parts || i * p->o.parts / p->n == p->o.part; /* below 2^24 * 2^32 */
}

#endif
