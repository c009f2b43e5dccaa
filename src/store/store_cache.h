/* SPDX-License-Identifier: Apache-2.0 */
/* store_cache.h - the host cache: copies of remote files on a local disk, shared by all processes
 * of the host.  remote.c reads through it; `stoker cache` looks into it.
 *
 * A folder has one file per object (docs/stores.md): the bytes of the object that were fetched, at
 * their offsets, then a head and a record per chunk.  A record is written after its chunk is on
 * disk, so that every record is true even if a process or the machine dies.  Objects are found by
 * address, size and version: another version is another file.
 *
 * A session is the time in which the folder is used without a pause, by one process or several that
 * overlap.  A chunk of an earlier session is compared with its checksum before it is used, once for
 * all processes. */
#ifndef STOKER_STORE_STORE_CACHE_H
#define STOKER_STORE_STORE_CACHE_H

#include <stdatomic.h>

#include "base/halt.h"
#include "source/source.h"

#define STK_CHUNK ((uint64_t)4 << 20)
#define STK_CACHE_URL_MAX 3500
#define STK_CACHE_VERSION "stoker-cache-1" /* name of the folder inside the user's folder */

/* ---- cache_folder.c: the folder, and how much is in it ---- */

typedef struct stk_cache_folder stk_cache_folder; /* Thread: any. */

/* limit: most bytes; 0: nine tenths of what is free now.  A folder that can't be used is an
 * error. */
int stk_cache_folder_open(stk_cache_folder **out, const char *path, uint64_t limit, stk_error *err);
void stk_cache_folder_close(stk_cache_folder **f);
const char *stk_cache_folder_path(const stk_cache_folder *f);
uint32_t stk_cache_folder_session(const stk_cache_folder *f); /* number of the session, not 0 */

/* Reserves `bytes` for an object of this group; drops old versions, and data sets that no process
 * uses, if that is needed.  0: there is no room. */
int stk_cache_folder_take(stk_cache_folder *f, uint64_t group, uint64_t bytes);
void stk_cache_folder_give(stk_cache_folder *f, uint64_t bytes);
/* 1: a short time ago there was no room. */
int stk_cache_folder_full(const stk_cache_folder *f);
/* Call when writing failed, with errno: stops writing for a while, and logs it once. */
void stk_cache_folder_failed(stk_cache_folder *f, int sys);
struct stk_pace *stk_cache_folder_pace(const stk_cache_folder *f); /* NULL: there is none */
/* Marks the group as in use by this process, so that its objects are not dropped. */
void stk_cache_folder_use(stk_cache_folder *f, uint64_t group);

typedef struct stk_cache_name { /* GROUP-URL-VERSION.obj */
    uint64_t group, url, version;
} stk_cache_name;
int stk_cache_name_read(const char *name, stk_cache_name *out); /* 1: it is one */
/* Calls each() for every object file, with its full path, until it returns non-zero. */
int stk_cache_folder_each(const char *path,
                          int (*each)(void *cookie, const char *file, const stk_cache_name *name),
                          void *cookie, stk_error *err);
/* 1: some process uses the group. */
int stk_cache_group_used(const char *path, uint64_t group);
/* Sets *bytes to the bytes of all objects. */
int stk_cache_folder_count(const char *path, uint64_t *bytes);
/* The same, and stores the number in the folder if no process uses it. */
void stk_cache_folder_recount(const char *path);
/* Checks that there is a cache in `path`, and that no other user can put files into it.  make:
 * makes the cache if there is none. */
int stk_cache_folder_check(const char *path, int make, stk_error *err);

/* ---- cache_pace.c: tells all processes of the host when a server asks to slow down, by a mapped
 * file in the folder ---- */

#define STK_PACE_MAX 60000000000ull          /* longest pause in ns, whatever Retry-After says */
typedef struct stk_pace stk_pace;            /* Thread: the client's. */
stk_pace *stk_pace_open(const char *folder); /* NULL: it can't be had */
void stk_pace_close(stk_pace **p);
/* Tells other processes to slow down, and to send no request before `until` (stk_now_ns()). */
void stk_pace_tell(stk_pace *p, uint64_t until);
/* 1: another process did so since the last call.  *until: send no request before; 0: no pause. */
int stk_pace_news(stk_pace *p, uint64_t now, uint64_t *until);

/* ---- cache_object.c, cache_build.c: one file of it ---- */

typedef struct stk_cache_id {
    const char *url; /* without secrets; with the endpoint if the address does not contain it */
    const char *etag;
    uint64_t size;
} stk_cache_id;

typedef struct stk_cache_object { /* Thread: any. */
    _Atomic uint32_t refs;
    stk_cache_folder *folder;
    stk_file *local;                        /* the file, for reads of what was fetched */
    int fd;                                 /* descriptor of `local` */
    uint64_t size, map_at, n_chunks, group; /* map_at: offset of the head */
    _Atomic int whole;                      /* true once all chunks were there */
    _Atomic uint64_t record[];
} stk_cache_object;

typedef enum stk_chunk_state {
    STK_CHUNK_ABSENT,
    STK_CHUNK_UNCHECKED,
    STK_CHUNK_HERE
} stk_chunk_state;

int stk_cache_object_open(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err);
/* The same for an object that exists already; id->size UINT64_MAX: of any size.  STK_END: it does
 * not. */
int stk_cache_object_find(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err);
void stk_cache_object_remove(const stk_cache_folder *f, const stk_cache_id *id);
void stk_cache_object_path(const stk_cache_folder *f, const stk_cache_id *id, const char *more,
                           char *out, size_t size);
/* 1: the object is complete and valid; chunks of earlier sessions are compared with their
 * checksums. */
int stk_cache_object_check_all(stk_cache_object *o);

/* A whole object, written in order, whose size is not known before.  STK_ELIMIT: there is no
 * room. */
typedef struct stk_cache_build stk_cache_build; /* Thread: one. */
int stk_cache_build_open(stk_cache_build **out, stk_cache_folder *f, const stk_cache_id *id,
                         stk_error *err);
int stk_cache_build_write(stk_cache_build *b, const void *data, size_t len, stk_error *err);
int stk_cache_build_commit(stk_cache_build *b, stk_error *err);
void stk_cache_build_close(stk_cache_build **b); /* without a commit, removes what was written */

stk_cache_object *stk_cache_object_ref(stk_cache_object *o);
void stk_cache_object_unref(stk_cache_object **o);
size_t stk_cache_chunk_len(const stk_cache_object *o, uint64_t chunk);
stk_chunk_state stk_cache_object_has(stk_cache_object *o, uint64_t chunk);
/* The descriptor if the object is complete; else -1. */
int stk_cache_object_whole(stk_cache_object *o);
/* 1: bytes [offset, offset + len) are in the object and were fetched. */
int stk_cache_object_covers(stk_cache_object *o, uint64_t offset, size_t len);
/* Three steps for a chunk that was fetched: write its bytes, sync the file, write its record.  Each
 * returns 0 or an errno. */
int stk_cache_object_write(stk_cache_object *o, uint64_t chunk, const void *data);
int stk_cache_object_sync(stk_cache_object *o);
int stk_cache_object_mark(stk_cache_object *o, uint64_t chunk, const void *data);
/* Reads a chunk and compares it with its checksum.  1: it is valid, and trusted from now on.  0: it
 * is not, and its record was removed. */
int stk_cache_object_check(stk_cache_object *o, uint64_t chunk, void *into);
/* Claims the right to fetch a chunk.  1: granted; 0: another process fetches it now. */
int stk_cache_object_claim(stk_cache_object *o, uint64_t chunk);
void stk_cache_object_unclaim(stk_cache_object *o, uint64_t chunk);

typedef struct stk_cache_look { /* what a file of the cache says of itself */
    char url[STK_CACHE_URL_MAX + 1], etag[64];
    uint64_t size, n_chunks, present, bad;
} stk_cache_look;
/* Sets *out for a file of the cache.  STK_ECORRUPT: it is not one, or it is cut off.  check:
 * compares checksums, and removes the records of bad chunks. */
int stk_cache_look_at(const char *file, int check, stk_cache_look *out);

/* ---- cache_pull.c: reads through the cache ---- */

struct stk_target;
typedef struct stk_pull_from { /* where a file is, while it is read */
    stk_cache_object *object;
    const struct stk_target *to;
    const char *etag;
    char *why;            /* stk_store_lock: text of the last failure, STK_WHY_MAX bytes */
    const stk_halt *halt; /* the read ends when this is set; NULL: never */
} stk_pull_from;

int stk_puller_hold(stk_error *err);
void stk_puller_drop(void); /* the last call waits until all fetched bytes are on disk */
/* Begins a read, as stk_source.submit does: always STK_PENDING or an error.  io->dst NULL: the
 * bytes are only stored on disk; STK_ELIMIT: there is no room for them. */
int stk_pull_start(const stk_pull_from *from, stk_io *io);
void stk_puller_look(void); /* call after a halt was set */
/* Call around fork(), in this order. */
void stk_puller_before_fork(void);
void stk_puller_after_fork(int child);

#endif
