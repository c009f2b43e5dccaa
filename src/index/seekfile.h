/* SPDX-License-Identifier: Apache-2.0 */
/* seekfile.h - the file HASH.seek beside the index: what decoders stored about fields, such as the
 * seek points of JPEGs, so that only parts of a field are read.  Indexed shards read it for rows;
 * indexer/ and seeklearn.c write it.
 *
 * It is not a section of the index, so that it can be made later, be added to while a loader runs,
 * and be deleted; docs/formats/index.md has the layout.  The samples of a shard are stored in
 * groups of STK_SEEK_GROUP.  A group is read and checked at its first use.  Records of a shard
 * whose size, number of samples or fingerprint differs from the index are not used. */
#ifndef STOKER_SEEKFILE_H
#define STOKER_SEEKFILE_H

#include "base/atomic_file.h"
#include "base/log.h"
#include "index/index.h"

#define STK_SEEK_GROUP 1024u
/* The record of a short field beside one that has points is this byte and then the field itself, so
 * that a row reads nothing but parts of the other field. */
#define STK_SEEK_SHORT 'B'
#define STK_SEEK_SHORT_MAX 32u /* most bytes of such a field */

typedef struct stk_seek_counts { /* on disk */
    uint32_t fields, others;     /* fields with points; fields that have none */
    uint64_t bytes;              /* bytes of the fields with points */
} stk_seek_counts;

typedef struct stk_seekfile stk_seekfile; /* A file that is open for reading.  Thread: any. */

/* ix: the index whose shards it must fit; NULL: any, for stk_seekfile_match().  STK_ENOTFOUND:
 * there is no such file.  STK_ECORRUPT, STK_EIO: it can't be used. */
int stk_seekfile_open(stk_seekfile **out, const char *path, const stk_index *ix, stk_error *err);
void stk_seekfile_close(stk_seekfile **s);
uint64_t stk_seekfile_bytes(const stk_seekfile *s);
void stk_seekfile_counts(const stk_seekfile *s, uint64_t *fields, uint64_t *others,
                         uint64_t *bytes);
/* 1: every shard fits, and every group has records of all its samples. */
int stk_seekfile_whole(const stk_seekfile *s);
uint64_t stk_seekfile_foreign(const stk_seekfile *s); /* shards that do not fit */
/* Logs once if a group is found damaged.  Call before threads share the file. */
void stk_seekfile_tell(stk_seekfile *s, const stk_log *log);

typedef struct stk_seek_room { /* memory that records are read into.  Zeros: empty.  Thread: one. */
    uint8_t *data;
    size_t cap;
} stk_seek_room;
void stk_seek_room_fini(stk_seek_room *room);

typedef struct stk_seek_field { /* which field, and which bytes of its record */
    uint64_t shard, row;
    uint32_t field;
    uint32_t most; /* most bytes that are wanted; 0: all */
    uint64_t from; /* first byte that is wanted */
} stk_seek_field;

/* The record of a field, in `room` until that is used again.  No data: there is none, or it ends
 * before `from`.  If a row's records are large, only what is asked for is read.  s may be NULL. */
stk_bytes stk_seekfile_get(stk_seekfile *s, const stk_seek_field *at, stk_seek_room *room);

/* All records of a row, field by field, in `room`.  s may be NULL. */
typedef struct stk_seek_cursor {
    const uint8_t *at, *end;
} stk_seek_cursor;
stk_seek_cursor stk_seekfile_row(stk_seekfile *s, uint64_t shard, uint64_t row,
                                 stk_seek_room *room);
int stk_seek_next(stk_seek_cursor *c, uint32_t *field, stk_bytes *out); /* 0: there are no more */

/* 1: the group of a row has records of all its samples. */
int stk_seekfile_made(const stk_seekfile *s, uint64_t shard, uint64_t row);

/* The number of the shard with this size, fingerprint and number of samples; UINT64_MAX: none. */
uint64_t stk_seekfile_match(const stk_seekfile *s, const stk_shard_info *info);

/* ---- writing ---- */

typedef struct stk_seek_group { /* one group's records, in order of rows.  Thread: one. */
    uint8_t *data;              /* by row, the end of its records as u32; then the records */
    size_t len, cap;
    uint32_t rows, row;     /* row: the next one to be added */
    stk_seek_counts counts; /* set by the caller */
    int partial;            /* set by the caller: true if records of some samples may be missing */
} stk_seek_group;

int stk_seek_group_begin(stk_seek_group *g, uint32_t rows, stk_error *err);
/* Adds a field of row `row`; rows come in ascending order. */
int stk_seek_group_add(stk_seek_group *g, uint32_t row, uint32_t field, stk_bytes bytes,
                       stk_error *err);
void stk_seek_group_end(stk_seek_group *g); /* the remaining rows have no records */
void stk_seek_group_fini(stk_seek_group *g);

typedef struct stk_seek_writer stk_seek_writer; /* Thread: any (locks inside). */

/* Makes this process the only one that makes seek points, or lengths, for this index.  STK_END:
 * another process does.  End with stk_lock_drop().  It locks HASH.seek.lock, since HASH.idx may be
 * replaced at any time.  If files can't be locked here it returns 0, and the last process to write
 * wins. */
int stk_seek_lock(const char *index_path, stk_lock_file *lock);

/* The file is written under a temporary name and gets its name by commit(); close() without a
 * commit removes it. */
int stk_seek_writer_open(stk_seek_writer **out, const char *path, const stk_index *ix,
                         stk_error *err);
uint64_t stk_seek_writer_groups(const stk_seek_writer *w);
/* The shard and rows of a group. */
void stk_seek_writer_place(const stk_seek_writer *w, uint64_t group, uint64_t *shard, uint64_t *row,
                           uint32_t *rows);
int stk_seek_writer_add(stk_seek_writer *w, uint64_t group, const stk_seek_group *g,
                        stk_error *err);
/* Copies a group from shard `from` of another file.  STK_END: that file does not have it. */
int stk_seek_writer_reuse(stk_seek_writer *w, uint64_t group, stk_seekfile *old, uint64_t from,
                          stk_error *err);
int stk_seek_writer_commit(stk_seek_writer *w, stk_error *err);
void stk_seek_writer_close(stk_seek_writer **w);

#endif
