/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - opens files by URL, reads them whole, and expands patterns of names.  Everything that
 * opens a shard calls it. */
#ifndef STOKER_SOURCE_H
#define STOKER_SOURCE_H

#include "base/err.h"
#include "base/mem.h"

extern const stk_source stk_source_local;  /* paths and file:// */
extern const stk_source stk_source_memory; /* mem://NAME: bytes given by stk_memory_put() */

/* An open file of which nothing is ever read, for requests whose bytes are in memory. */
extern stk_file stk_no_file;

/* A stk_open_info for a file about which nothing is known yet. */
#define STK_URL(u, settings)                                                                       \
    (&(stk_open_info){ .url = (u), .size = UINT64_MAX, .store = (settings) })

/* Calls source->open() and makes the file point to `source`. */
int stk_source_open(const stk_source *source, const stk_open_info *o, stk_file **out,
                    stk_error *err);
/* Size and version of the file; may wait for the answer. */
int stk_file_stat(stk_file *f, stk_file_info *out, stk_error *err);

/* A read that fails with STK_EIO is tried again after this pause.  The rule holds for all reads,
 * also for those that wait elsewhere (fetch/uring.c, pipe/iothread.c). */
#define STK_IO_TRIES 4
long stk_io_pause_ns(uint32_t failed); /* after the failed-th failure, from 1 */
/* A blocking read with retries.  Adds their number to *retried. */
void stk_io_read(stk_io *io, uint64_t *retried);

/* Why a read failed, for an error: the source's own words, an errno, an HTTP status.  Returns
 * `text` or a constant. */
#define STK_REASON_MAX 192
const char *stk_io_reason(const stk_io *io, char *text, size_t size);

/* STK_ESTALE: the file was written to after it was opened, so bytes read before and after may not
 * belong together.  Call it after a read, because writing changes the time first.  recent: a check
 * in the last STK_LOOK_NS is enough, for reads of single rows. */
#define STK_LOOK_NS 2000000u
int stk_file_unchanged(stk_file *f, int recent, stk_error *err);

/* Reads exactly len bytes at offset; waits and tries again as above.  STK_ECORRUPT, with the
 * offset: the file is too short.  STK_ESTALE: as in stk_file_unchanged(). */
int stk_file_read(stk_file *f, uint64_t offset, void *dst, size_t len, stk_error *err);
void stk_file_close(stk_file **f); /* NULL-safe, nulls */

/* The descriptor of a file, which still owns it; -1: its source has none. */
int stk_file_fd(const stk_file *f);
/* Gives the file a descriptor, by downloading it if needed.  0, or STK_END: it can't have one. */
int stk_file_fill(stk_file *f, stk_error *err);
/* Opens a local file for pread and mmap only, by two system calls: for many small files.  The
 * caller closes *fd. */
int stk_local_open(const char *path, int *fd, uint64_t *size, stk_error *err);

/* 1: the name belongs to another file than the one with this id (stk_file_info). */
int stk_local_renamed(const char *url, uint64_t id);

/* Makes a local file of an open descriptor, which it owns from then on; a failure closes it. */
int stk_local_take(int fd, stk_file **out, stk_error *err);

/* Opens a local file that must be below the folder path[0..root_len), wherever symlinks lead;
 * root_len 0: below "/".  STK_ECORRUPT: it is not. */
int stk_local_open_below(const char *path, size_t root_len, stk_file **out, stk_error *err);

/* Gives `data` the name mem://NAME, for tests, fuzzers and benches.  It is borrowed until NULL is
 * put. */
int stk_memory_put(const char *name, const void *data, size_t len, stk_error *err);

/* A list of names.  Begins as zeros; end with fini. */
typedef struct stk_names {
    char **name;
    size_t n, cap;
    /* borrowed: settings to list and open them with; NULL: the usual ones */
    const stk_store *store;
    const char *cache_dir; /* borrowed: folder of the index cache; NULL: by the environment */
    int left_out; /* stk_urls_expand() left out pictures that are beside shards in a folder */
    /* samples that another tool's index promises for each of the first n_samples names; UINT64_MAX:
     * none */
    uint64_t *samples;
    size_t n_samples, cap_samples;
} stk_names;
int stk_names_add(stk_names *l, const char *name, size_t len, stk_error *err);
/* Sets the promise for the last name. */
int stk_names_promise(stk_names *l, uint64_t samples, stk_error *err);
void stk_names_fini(stk_names *l);

/* below.c: 1 if `name`, which came with data, is a file in `folder` or below.  With "", no name
 * begins with a slash. */
int stk_name_below(stk_bytes folder, stk_bytes name);

/* The folder of the index cache: cache_dir, or by the environment.  0: there is none. */
int stk_cache_home(char *buf, size_t size, const char *cache_dir);

#define STK_PATH_SCHEME "path:"

/* The length of "scheme" in "scheme://...", of any case; 0: it is a path. */
static inline size_t stk_scheme_len(const char *name)
{
    size_t n = 0;

    while ((name[n] >= 'a' && name[n] <= 'z') || (name[n] >= 'A' && name[n] <= 'Z') ||
           (n && name[n] >= '0' && name[n] <= '9'))
        n++;
    return n && name[n] == ':' && name[n + 1] == '/' && name[n + 2] == '/' ? n : 0;
}

/* "scheme://...", and not a file's. */
static inline int stk_is_address(const char *name)
{
    size_t n = stk_scheme_len(name);

    return n && !(n == 4 && name[0] == 'f' && name[1] == 'i' && name[2] == 'l' && name[3] == 'e');
}

/* Expands patterns to shard names in order.  By WebDataset's rules, "::" separates patterns, ${X}
 * is WDS_X of the environment, and braces expand (zero padding, steps, descending, nesting; {x}
 * stays).  In addition, a name with * ? [ is a glob, sorted.  A folder means its shards (*.tar),
 * sorted; if it has none, the pictures in it (source/folder_files.h).  Lists of wids and Energon
 * mean the shards that they list (source/shard_list.h).  "path:NAME" is the local file or folder
 * with exactly that name.  STK_ENOTFOUND names a pattern that matches nothing.  At most 16 million
 * names. */
int stk_urls_expand(const char *const *urls, size_t n, stk_names *out, stk_error *err);

#endif
