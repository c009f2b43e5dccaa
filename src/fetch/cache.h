/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - cache of blocks that several samples share: a Parquet page, an HDF5 chunk, a compressed
 * frame.  Requests (request.c) call it, and the workers, which look for unpacked blocks and read
 * the next ones early (pipe/peek.c, pipe/block_run.c).
 *
 * A block is read once and unpacked once, by the first worker that needs it.  Its users are
 * counted.  When the cache is over its limit, unused blocks are dropped, least recently used first.
 * Formats whose fields are byte ranges never use it. */
#ifndef STOKER_CACHE_H
#define STOKER_CACHE_H

#include "base/account.h"
#include "data/data.h"

typedef struct stk_cache stk_cache; /* Thread: any. */
typedef struct stk_block stk_block; /* Thread: any. */

typedef struct stk_waiter { /* a call that is made when a block's bytes are there */
    void (*arrived)(struct stk_waiter *w);
    void *cookie;
    struct stk_waiter *next;
} stk_waiter;

int stk_cache_open(stk_cache **out, uint64_t bound, stk_account *account, stk_error *err);
/* The cache in *slot, which is made at first use, without an account.  After fork(), a thread that
 * the child does not have may hold a lock of the parent's cache, so the child makes its own. */
int stk_cache_of_process(_Atomic(stk_cache *) *slot, uint64_t bound, stk_cache **out,
                         stk_error *err);
void stk_cache_close(stk_cache **c);         /* leaves a cache of the parent process alone */
uint64_t stk_cache_held(const stk_cache *c); /* bytes of all blocks */
int stk_cache_trim(stk_cache *c);            /* drops all unused blocks.  1: there were some */

/* The block at `place` of a shard, which may not be read yet.  End with stk_block_put().  A new
 * block has room for the bytes that are read and for the unpacked ones.  STK_ELIMIT: there is no
 * room now, or, if the block is larger than the account, never. */
int stk_cache_get(stk_cache *c, const stk_dataset *data, uint64_t shard, const stk_place *place,
                  stk_block **out, stk_error *err);
void stk_block_put(stk_cache *c, stk_block *b);
/* The block and its unpacked bytes, if it is in the cache and unpacked; else NULL. */
stk_block *stk_cache_peek(stk_cache *c, const stk_dataset *data, uint64_t shard,
                          const stk_place *place, stk_bytes *out);

typedef enum stk_block_need { STK_BLOCK_HERE, STK_BLOCK_COMING, STK_BLOCK_YOURS } stk_block_need;

/* HERE: the bytes are available, or reading them failed.  COMING: `w` is called later.  YOURS: the
 * caller fills in b's io and has it read, then calls stk_block_arrived(). */
stk_block_need stk_block_want(stk_block *b, stk_waiter *w);
stk_io *stk_block_io(stk_block *b);
void stk_block_arrived(stk_block *b); /* its io has finished: calls those who wait */

/* The unpacked bytes; unpacks them if needed.  Valid while the block is held.  STK_PENDING: another
 * thread unpacks them, and `w` is called later. */
int stk_block_open(stk_block *b, stk_waiter *w, stk_bytes *out, stk_error *err);
/* The block, if a thread is unpacking it now; else NULL.  stk_block_wait() waits until that thread
 * has finished.  End with stk_block_put(). */
stk_block *stk_cache_unpacking(stk_cache *c, const stk_dataset *data, uint64_t shard,
                               const stk_place *place);
void stk_block_wait(stk_block *b);
/* A block that is read before any row wants it: have its io read, then call stk_block_made(), which
 * unpacks it, and stk_block_put().  NULL: it is begun already, or there is no room. */
stk_block *stk_cache_begin(stk_cache *c, const stk_dataset *data, uint64_t shard,
                           const stk_place *place);
void stk_block_made(stk_block *b);
uint64_t stk_block_size(const stk_block *b); /* most bytes of memory that it takes */

#endif
