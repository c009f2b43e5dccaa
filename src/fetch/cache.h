/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - blocks that several samples share: a Parquet page, an HDF5 chunk, a compressed
 * frame.
 *
 * A block is read once, unpacked once by the first worker that needs it, counted by its users,
 * and dropped least recently used first when the cache is over its bound.  Formats whose fields
 * are byte ranges never come here. */
#ifndef STOKER_CACHE_H
#define STOKER_CACHE_H

#include "base/account.h"
#include "data/data.h"

typedef struct stk_cache stk_cache; /* Thread: any. */
typedef struct stk_block stk_block; /* Thread: any. */

typedef struct stk_waiter { /* somebody who wants to know when a block's bytes are there */
    void (*arrived)(struct stk_waiter *w);
    void *cookie;
    struct stk_waiter *next;
} stk_waiter;

int stk_cache_open(stk_cache **out, uint64_t bound, stk_account *account, stk_error *err);
/* The cache in *slot, made at first use, without an account.  After fork() a lock of the parent's
 * may be held by a thread that the child does not have: a child makes its own. */
int stk_cache_of_process(_Atomic(stk_cache *) *slot, uint64_t bound, stk_cache **out,
                         stk_error *err);
void stk_cache_close(stk_cache **c);         /* does nothing to a parent's */
uint64_t stk_cache_held(const stk_cache *c); /* bytes of all blocks */
int stk_cache_trim(stk_cache *c); /* drop all blocks that no one uses.  1: there were some */

/* The block at `place` of a shard; it may not be read yet.  Ends with stk_block_put().  A new one
 * has room for what is read and for what that unpacks to.  STK_ELIMIT: there is none, for now
 * or, where it is larger than the account, at all. */
int stk_cache_get(stk_cache *c, const stk_dataset *data, uint64_t shard, const stk_place *place,
                  stk_block **out, stk_error *err);
void stk_block_put(stk_cache *c, stk_block *b);
/* The same, and its unpacked bytes, only if all of that is there.  NULL: it is not. */
stk_block *stk_cache_peek(stk_cache *c, const stk_dataset *data, uint64_t shard,
                          const stk_place *place, stk_bytes *out);

typedef enum stk_block_need { STK_BLOCK_HERE, STK_BLOCK_COMING, STK_BLOCK_YOURS } stk_block_need;

/* HERE: bytes are in (or failed).  COMING: `w` is told later.  YOURS: fill b's io yourself, then
 * stk_block_arrived(). */
stk_block_need stk_block_want(stk_block *b, stk_waiter *w);
stk_io *stk_block_io(stk_block *b);
void stk_block_arrived(stk_block *b); /* its io is through: tell those who wait */

/* The unpacked bytes, unpacking them if no one has.  Borrowed while the block is held.
 * STK_PENDING: another one unpacks them, and `w` is told later. */
int stk_block_open(stk_block *b, stk_waiter *w, stk_bytes *out, stk_error *err);
/* The block, if a thread unpacks it at this moment; else NULL.  stk_block_wait(): until that is
 * over.  Ends with stk_block_put(). */
stk_block *stk_cache_unpacking(stk_cache *c, const stk_dataset *data, uint64_t shard,
                               const stk_place *place);
void stk_block_wait(stk_block *b);
/* A block that no one has begun, before it is wanted: fill its io yourself, then stk_block_made(),
 * which unpacks it, and stk_block_put().  NULL: it is begun, or there is no room. */
stk_block *stk_cache_begin(stk_cache *c, const stk_dataset *data, uint64_t shard,
                           const stk_place *place);
void stk_block_made(stk_block *b);
uint64_t stk_block_size(const stk_block *b); /* bytes that it takes at most */

#endif
