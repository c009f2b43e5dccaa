/* SPDX-License-Identifier: Apache-2.0 */
/* store_cache.h - remote files on a local disk, shared by all processes of the host.
 *
 * A folder has one file per object (docs/stores.md): the object's bytes at their own offsets, as
 * far as they came, and after them a head and a record per chunk.  A record is written when its
 * chunk is on disk, so that what a record speaks of is there, whenever a process or the machine
 * dies.  Objects are found by address, size and version: another version is another file.
 *
 * A session is the time in which the folder is used without a pause, by one process or several
 * that overlap.  A chunk of an earlier session is compared with its checksum before it is used,
 * once for all processes. */
#ifndef STOKER_STORE_STORE_CACHE_H
#define STOKER_STORE_STORE_CACHE_H

#include <stdatomic.h>

#include "base/halt.h"
#include "source/source.h"

#define STK_CHUNK ((uint64_t)4 << 20)
#define STK_CACHE_URL_MAX 3500
#define STK_CACHE_VERSION "stoker-cache-1" /* the folder in the folder */

/* ---- cache_folder.c: the folder, and how much is in it ---- */

typedef struct stk_cache_folder stk_cache_folder; /* Thread: any. */

/* limit 0: nine tenths of what is free now.  A folder that can't be used is an error. */
int stk_cache_folder_open(stk_cache_folder **out, const char *path, uint64_t limit, stk_error *err);
void stk_cache_folder_close(stk_cache_folder **f);
const char *stk_cache_folder_path(const stk_cache_folder *f);
uint32_t stk_cache_folder_session(const stk_cache_folder *f); /* its mark, not 0 */

/* Room for `bytes` more, for an object of this group: 1; 0: there is none.  Other data sets that no
 * process uses, and old versions, make room. */
int stk_cache_folder_take(stk_cache_folder *f, uint64_t group, uint64_t bytes);
void stk_cache_folder_give(stk_cache_folder *f, uint64_t bytes);
/* Was there no room a moment ago? */
int stk_cache_folder_full(const stk_cache_folder *f);
/* Writing failed: stop for a while, and say so once. */
void stk_cache_folder_failed(stk_cache_folder *f, int sys);
struct stk_pace *stk_cache_folder_pace(const stk_cache_folder *f); /* NULL: there is none */
/* This process reads objects of the group: they stay. */
void stk_cache_folder_use(stk_cache_folder *f, uint64_t group);

typedef struct stk_cache_name { /* GROUP-URL-VERSION.obj */
    uint64_t group, url, version;
} stk_cache_name;
int stk_cache_name_read(const char *name, stk_cache_name *out); /* 1: it is one */
/* Each object file, by its full path; 0 goes on. */
int stk_cache_folder_each(const char *path,
                          int (*each)(void *cookie, const char *file, const stk_cache_name *name),
                          void *cookie, stk_error *err);
/* Is the group in use by any process? */
int stk_cache_group_used(const char *path, uint64_t group);
/* Count what is there; *bytes. */
int stk_cache_folder_count(const char *path, uint64_t *bytes);
void stk_cache_folder_recount(const char *path); /* and note it, where no one else reads */
/* Is the cache in `path` there, and can no other user put files into it?  The error says why not.
 * make: it is made where there is none. */
int stk_cache_folder_check(const char *path, int make, stk_error *err);

/* ---- cache_pace.c: what servers said to any process of the host, in a mapped file of the folder
 * ---- */

#define STK_PACE_MAX 60000000000ull          /* ns of a pause, whatever Retry-After says */
typedef struct stk_pace stk_pace;            /* Thread: the client's. */
stk_pace *stk_pace_open(const char *folder); /* NULL: it can't be had */
void stk_pace_close(stk_pace **p);
/* slow down, and ask nothing before (stk_now_ns) */
void stk_pace_tell(stk_pace *p, uint64_t until);
/* 1: another process did so since the last call.  *until: ask nothing before; 0: go on. */
int stk_pace_news(stk_pace *p, uint64_t now, uint64_t *until);

/* ---- cache_object.c, cache_build.c: one file of it ---- */

typedef struct stk_cache_id {
    const char *url; /* without secrets; with the endpoint where that is not a part of it */
    const char *etag;
    uint64_t size;
} stk_cache_id;

typedef struct stk_cache_object { /* Thread: any. */
    _Atomic uint32_t refs;
    stk_cache_folder *folder;
    stk_file *local; /* for reads of what is there */
    int fd;          /* local's */
    uint64_t size, map_at, n_chunks, group;
    _Atomic int whole; /* all of it was here */
    _Atomic uint64_t record[];
} stk_cache_object;

typedef enum stk_chunk_state {
    STK_CHUNK_ABSENT,
    STK_CHUNK_UNCHECKED,
    STK_CHUNK_HERE
} stk_chunk_state;

int stk_cache_object_open(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err);
/* One that is there already, id->size UINT64_MAX: of any size.  STK_END: it is not. */
int stk_cache_object_find(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err);
void stk_cache_object_remove(const stk_cache_folder *f, const stk_cache_id *id);
void stk_cache_object_path(const stk_cache_folder *f, const stk_cache_id *id, const char *more,
                           char *out, size_t size);
/* 1: all of it is there and good; what was written before this session is compared. */
int stk_cache_object_check_all(stk_cache_object *o);

/* A whole object, written in order, whose size is not known before.  STK_ELIMIT: there is no
 * room. */
typedef struct stk_cache_build stk_cache_build; /* Thread: one. */
int stk_cache_build_open(stk_cache_build **out, stk_cache_folder *f, const stk_cache_id *id,
                         stk_error *err);
int stk_cache_build_write(stk_cache_build *b, const void *data, size_t len, stk_error *err);
int stk_cache_build_commit(stk_cache_build *b, stk_error *err);
void stk_cache_build_close(stk_cache_build **b); /* what was not committed leaves nothing there */

stk_cache_object *stk_cache_object_ref(stk_cache_object *o);
void stk_cache_object_unref(stk_cache_object **o);
size_t stk_cache_chunk_len(const stk_cache_object *o, uint64_t chunk);
stk_chunk_state stk_cache_object_has(stk_cache_object *o, uint64_t chunk);
/* The descriptor, once all of it is here; else -1. */
int stk_cache_object_whole(stk_cache_object *o);
/* 1: [offset, offset + len) is in the object, and here. */
int stk_cache_object_covers(stk_cache_object *o, uint64_t offset, size_t len);
/* The chunk's bytes to disk; 0 or an errno.  Then fsync, then its record. */
int stk_cache_object_write(stk_cache_object *o, uint64_t chunk, const void *data);
int stk_cache_object_sync(stk_cache_object *o);
int stk_cache_object_mark(stk_cache_object *o, uint64_t chunk, const void *data);
/* Read a chunk and compare it with its checksum: 1 good (and trusted from now on), 0: not, and its
 * record is gone. */
int stk_cache_object_check(stk_cache_object *o, uint64_t chunk, void *into);
/* The right to fetch a chunk: 1; 0: another process does that now. */
int stk_cache_object_claim(stk_cache_object *o, uint64_t chunk);
void stk_cache_object_unclaim(stk_cache_object *o, uint64_t chunk);

typedef struct stk_cache_look { /* what a file of the cache says of itself */
    char url[STK_CACHE_URL_MAX + 1], etag[64];
    uint64_t size, n_chunks, present, bad;
} stk_cache_look;
/* 0; STK_ECORRUPT: it is not of this cache, or torn.  check: compare checksums, and forget chunks
 * that are bad. */
int stk_cache_look_at(const char *file, int check, stk_cache_look *out);

/* ---- cache_pull.c: reads through the cache ---- */

struct stk_target;
typedef struct stk_pull_from { /* where a file is, while it is read */
    stk_cache_object *object;
    const struct stk_target *to;
    const char *etag;
    char *why;            /* of the last failure, STK_WHY_MAX bytes; stk_store_lock */
    const stk_halt *halt; /* the read ends when this is set; NULL: never */
} stk_pull_from;

int stk_puller_hold(stk_error *err);
void stk_puller_drop(void); /* the last one waits until all that came is on disk */
/* Begin a read, as stk_source.submit: always STK_PENDING or an error.  io->dst NULL: the bytes are
 * wanted on disk alone; STK_ELIMIT: there is no room for them. */
int stk_pull_start(const stk_pull_from *from, stk_io *io);
void stk_puller_look(void); /* a halt was set */
/* fork(): around it, in this order. */
void stk_puller_before_fork(void);
void stk_puller_after_fork(int child);

#endif
