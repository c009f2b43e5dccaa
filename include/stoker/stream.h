/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - tar shards before there is an index: read from the first byte on, in streams side by
 * side.
 *
 * The exception to exact order.  Shards are divided among the ranks and their streams; each stream
 * reads its shards one after the other, and again when it is through.  What a rank takes is the
 * streams' samples in turn, mixed within windows.  How many samples there are is never known: a
 * loader over a stream has an epoch_size.  Which sample comes when is a function of (shards, seed,
 * rank, world, streams, window), and a place in the streams is a few numbers, so that a run goes on
 * where it stopped without reading all before. */
#ifndef STOKER_STREAM_H
#define STOKER_STREAM_H

#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_stream_options {
    uint32_t size;        /* sizeof this struct as the caller compiled it */
    uint32_t rank, world; /* whose share; world 0: one rank */
    uint32_t streams;     /* shards that this rank reads side by side; 0: 8 with shuffle, else 1 */
    /* samples of a batch of one rank; 0: 1.  A global batch is batch * world */
    uint32_t batch;
    uint32_t ahead;  /* batches in the making at once, at most; 0: 32 */
    stk_tri shuffle; /* shards in a new order each time, samples mixed within windows */
    /* bad samples are replaced by others near them: these are kept in memory */
    stk_tri replaces;
    uint64_t window; /* samples that are mixed; 0: 1,024 */
    uint64_t seed;
    stk_store *store; /* as in stk_dataset_options */
} stk_stream_options;

typedef struct stk_stream_place { /* where a stream goes on */
    uint64_t pass;                /* how often it was through its shards */
    uint64_t shard;               /* the how-manieth of this pass */
    uint64_t offset;              /* of a sample in it */
} stk_stream_place;

/* Open shards (as for stk_dataset_open()) as streams.  Reads the beginning of the first one, for
 * the names of fields.  The data set is for a loader of the same batch, rank and world, with an
 * epoch_size that is a multiple of the global batch.  STK_EINVAL: fewer shards than ranks. */
STK_API STK_MUST_CHECK int stk_stream_open(stk_dataset **out, const char *const *urls, size_t n,
                                           const stk_stream_options *opt, stk_error *err);

/* How many streams are read at once.  0: it is not a stream. */
STK_API uint32_t stk_stream_count(const stk_dataset *ds);
/* Samples that are shuffled together.  0: it is not a stream. */
STK_API uint64_t stk_stream_window(const stk_dataset *ds);

/* A place at or before global sample `sample` (epoch * epoch_size + position): *block, and of each
 * stream where it goes on; out has room for stk_stream_count() of them. */
STK_API STK_MUST_CHECK int stk_stream_tell(stk_dataset *ds, uint64_t sample, uint64_t *block,
                                           stk_stream_place *out, stk_error *err);
/* Such a place, of an earlier run with the same options.  STK_EINVAL: it does not fit. */
STK_API STK_MUST_CHECK int stk_stream_seek(stk_dataset *ds, uint64_t block,
                                           const stk_stream_place *from, uint32_t n,
                                           stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
