/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file.h - writes a whole file under a temporary name, then renames it to its own name.
 * Everything that writes a whole file uses this.
 *
 * Under its own name the file is whole or does not exist.  While it is written it is called
 * .NAME.tmp.RANDOM in the same folder: the name can't be guessed, and a link is never followed.
 * Its writer holds a lock (flock) on it, so that files that killed processes left can be told from
 * those that are still being written. */
#ifndef STOKER_BASE_ATOMIC_FILE_H
#define STOKER_BASE_ATOMIC_FILE_H

#include "base/err.h"

typedef struct stk_atomic_file { /* Zeros: not open.  Thread: one; for write: any. */
    char *path, *tmp;            /* tmp NULL: not open */
    int fd;
    int committed;
    int sys; /* errno of the call that failed */
} stk_atomic_file;

typedef enum stk_commit {
    STK_COMMIT_FAST = 0,       /* whole after a crash of the process, not of the machine */
    STK_COMMIT_SYNC = 1,       /* file and folder are on disk first */
    STK_COMMIT_NO_REPLACE = 2, /* a file of that name is an error; sys is EEXIST */
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

/* Writes a whole file at once. */
int stk_atomic_put(const char *path, const void *data, size_t len, int how, stk_error *err);

/* Removes temporary files that dead writers left in `dir`, for names that begin with `prefix`. */
void stk_atomic_sweep(const char *dir, const char *prefix);
void stk_atomic_sweep_like(const char *path); /* the same by a file's path, up to its last dot */

/* 1: with this errno another folder may work: this one is full (stk_is_full()), read-only, or of
 * another user. */
int stk_unwritable(int sys);
int stk_is_full(int sys);

/* ---- a lock between processes, on a file that is never renamed ---- */

typedef struct stk_lock_file { /* zeros: not held.  Thread: one. */
    char *path;
    int fd;
} stk_lock_file;

/* 0: the lock is held, or this file system has no locks (at worst, work is done twice).  STK_END:
 * another process holds it.  STK_EIO: the file can't be made; errno says why. */
int stk_lock_try(stk_lock_file *l, const char *path);
void stk_lock_drop(stk_lock_file *l); /* releases the lock and removes the file */

#endif
