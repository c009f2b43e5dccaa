/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file.h - a whole file, written aside and renamed into place.
 *
 * Under its own name the file is whole or not there.  While it is written it is called
 * .NAME.tmp.RANDOM in the same folder: the name can't be guessed, and a link is never followed.
 * Its writer holds a lock (flock) on it, so that what a killed process left can be told from what
 * another process still writes.  Everything that writes a whole file uses this. */
#ifndef STOKER_BASE_ATOMIC_FILE_H
#define STOKER_BASE_ATOMIC_FILE_H

#include "base/err.h"

typedef struct stk_atomic_file { /* zeros: not open.  Thread: one, but for write: any. */
    char *path, *tmp;            /* tmp NULL: not open */
    int fd;
    int committed;
    int sys; /* errno of what failed */
} stk_atomic_file;

typedef enum stk_commit {
    STK_COMMIT_FAST = 0,       /* whole after a crash of the process, not of the machine */
    STK_COMMIT_SYNC = 1,       /* file and folder are on disk first */
    STK_COMMIT_NO_REPLACE = 2, /* a file of that name: sys is EEXIST */
    STK_COMMIT_SYNCED = 4      /* after stk_atomic_sync(): only the folder is left */
} stk_commit;

int stk_atomic_open(stk_atomic_file *f, const char *path, stk_error *err);
int stk_atomic_write(stk_atomic_file *f, const void *data, size_t len, uint64_t offset,
                     stk_error *err);
int stk_atomic_sync(stk_atomic_file *f, stk_error *err);
int stk_atomic_commit(stk_atomic_file *f, int how, stk_error *err); /* how: of stk_commit */
/* The descriptor of a committed file, which is the caller's from then on. */
int stk_atomic_take(stk_atomic_file *f);
void stk_atomic_close(stk_atomic_file *f); /* removes what was not committed */

/* All of `data` at once. */
int stk_atomic_put(const char *path, const void *data, size_t len, int how, stk_error *err);

/* Remove what dead writers left of the files in `dir` whose names begin with `prefix`. */
void stk_atomic_sweep(const char *dir, const char *prefix);
void stk_atomic_sweep_like(const char *path); /* the same by a file's path, up to its last dot */

/* Is this errno of a place that can't take a file, though another may?  It is full (stk_is_full),
 * read-only, or another user's. */
int stk_unwritable(int sys);
int stk_is_full(int sys);

/* ---- a lock between processes, on a file that is never renamed ---- */

typedef struct stk_lock_file { /* zeros: not held.  Thread: one. */
    char *path;
    int fd;
} stk_lock_file;

/* 0: held, or there are no locks on this file system (at worst work is done twice).  STK_END:
 * another process holds it.  STK_EIO: the file can't be made; errno says why.  Or
 * STK_ENOMEM. */
int stk_lock_try(stk_lock_file *l, const char *path);
void stk_lock_drop(stk_lock_file *l); /* and remove the file */

#endif
