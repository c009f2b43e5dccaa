/* SPDX-License-Identifier: Apache-2.0 */
/* seekfile.h - what decoders want to know of a field before they read it (seek points of JPEGs),
 * beside the index: HASH.seek.
 *
 * A file of its own and no section, so that it can be made after the index, be added to while a
 * loader runs, and be thrown away; docs/formats/index.md has the layout.  Samples of a shard are
 * kept in groups of STK_SEEK_GROUP; a group is read and checked when it is first asked for.
 * Records of a shard whose size, number of samples or fingerprint is not the index's are not
 * given out. */
#ifndef STOKER_SEEKFILE_H
#define STOKER_SEEKFILE_H

#include "base/atomic_file.h"
#include "base/log.h"
#include "index/index.h"

#define STK_SEEK_GROUP 1024u
/* A short field beside one that has points is kept itself, after this byte: the row then reads
 * nothing but parts of the other. */
#define STK_SEEK_SHORT 'B'
#define STK_SEEK_SHORT_MAX 32u /* bytes of such a field */

typedef struct stk_seek_counts { /* on disk */
    uint32_t fields, others;     /* with points; for which there are none */
    uint64_t bytes;              /* of the fields with points */
} stk_seek_counts;

typedef struct stk_seekfile stk_seekfile; /* of a file that is not written.  Thread: any. */

/* ix: whose shards it must fit; NULL: any, for stk_seekfile_match().  STK_ENOTFOUND: there is no
 * such file; STK_ECORRUPT, STK_EIO: it can't be used. */
int stk_seekfile_open(stk_seekfile **out, const char *path, const stk_index *ix, stk_error *err);
void stk_seekfile_close(stk_seekfile **s);
uint64_t stk_seekfile_bytes(const stk_seekfile *s);
void stk_seekfile_counts(const stk_seekfile *s, uint64_t *fields, uint64_t *others,
                         uint64_t *bytes);
/* Every shard fits and every group was made of all its samples. */
int stk_seekfile_whole(const stk_seekfile *s);
uint64_t stk_seekfile_foreign(const stk_seekfile *s); /* shards that do not fit */
/* Say once when a group is found damaged.  Before threads share it. */
void stk_seekfile_tell(stk_seekfile *s, const stk_log *log);

typedef struct stk_seek_room { /* what records are read into.  Zeros: empty.  Thread: one. */
    uint8_t *data;
    size_t cap;
} stk_seek_room;
void stk_seek_room_fini(stk_seek_room *room);

typedef struct stk_seek_field { /* which one */
    uint64_t shard, row;
    uint32_t field;
    uint32_t most; /* of its bytes only so many, from byte `from` on; 0: all */
    uint64_t from;
} stk_seek_field;

/* What is kept of a field; no data: nothing, or it ends before `from`.  In `room` until that is
 * used again.  Of a row that keeps much only what is asked for is read.  s may be NULL. */
stk_bytes stk_seekfile_get(stk_seekfile *s, const stk_seek_field *at, stk_seek_room *room);

/* All that is kept of a row, field by field, in `room`; s may be NULL. */
typedef struct stk_seek_cursor {
    const uint8_t *at, *end;
} stk_seek_cursor;
stk_seek_cursor stk_seekfile_row(stk_seekfile *s, uint64_t shard, uint64_t row,
                                 stk_seek_room *room);
int stk_seek_next(stk_seek_cursor *c, uint32_t *field, stk_bytes *out); /* 0: that was the last */

/* Whether the group of a row was made of all its samples. */
int stk_seekfile_made(const stk_seekfile *s, uint64_t shard, uint64_t row);

/* The number of the shard with this size, fingerprint and number of samples; UINT64_MAX: none. */
uint64_t stk_seekfile_match(const stk_seekfile *s, const stk_shard_info *info);

/* ---- writing ---- */

typedef struct stk_seek_group { /* one group's records, in order of rows.  Thread: one. */
    uint8_t *data;              /* u32 end of each row's record, then the records */
    size_t len, cap;
    uint32_t rows, row;     /* row: the next one */
    stk_seek_counts counts; /* the caller's */
    int partial;            /* the caller's: samples may lack */
} stk_seek_group;

int stk_seek_group_begin(stk_seek_group *g, uint32_t rows, stk_error *err);
/* A field of row `row`, which is not below the last one's. */
int stk_seek_group_add(stk_seek_group *g, uint32_t row, uint32_t field, stk_bytes bytes,
                       stk_error *err);
void stk_seek_group_end(stk_seek_group *g); /* rows that are left have nothing */
void stk_seek_group_fini(stk_seek_group *g);

typedef struct stk_seek_writer stk_seek_writer; /* Thread: any (locks inside). */

/* Be the only process that makes seek points, or lengths, of this index: the lock is on
 * HASH.seek.lock, since HASH.idx may be replaced at any time.  0, or STK_END: another process
 * does.  End with stk_lock_drop().  Where no lock can be had, at worst the last one's files
 * stand. */
int stk_seek_lock(const char *index_path, stk_lock_file *lock);

/* Written beside `path`, renamed there by commit(); close() without it removes it. */
int stk_seek_writer_open(stk_seek_writer **out, const char *path, const stk_index *ix,
                         stk_error *err);
uint64_t stk_seek_writer_groups(const stk_seek_writer *w);
/* The shard and rows of a group. */
void stk_seek_writer_place(const stk_seek_writer *w, uint64_t group, uint64_t *shard, uint64_t *row,
                           uint32_t *rows);
int stk_seek_writer_add(stk_seek_writer *w, uint64_t group, const stk_seek_group *g,
                        stk_error *err);
/* Carry a group over from shard `from` of another file.  STK_END: it has none. */
int stk_seek_writer_reuse(stk_seek_writer *w, uint64_t group, stk_seekfile *old, uint64_t from,
                          stk_error *err);
int stk_seek_writer_commit(stk_seek_writer *w, stk_error *err);
void stk_seek_writer_close(stk_seek_writer **w);

#endif
