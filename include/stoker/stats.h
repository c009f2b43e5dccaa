/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - where a loader's time and memory went.  stoker.h includes it; stk_loader_stats() there
 * fills it. */
#ifndef STOKER_STATS_H
#define STOKER_STATS_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the time went, since open; stages are summed over workers. */
typedef enum stk_stage_id {
    STK_STAGE_FETCH,
    STK_STAGE_DECODE,
    STK_STAGE_RESAMPLE,
    STK_STAGE_VALUE,
    STK_STAGE_BATCH,
    STK_STAGE_IDLE,
    STK_STAGES,
    STK_STAGE_SAMPLE STK_REPLACED_BY("STK_STAGE_RESAMPLE") = STK_STAGE_RESAMPLE
} stk_stage_id;

#define STK_TIMES 40 /* of a histogram */

typedef struct stk_stats {
    uint32_t size;
    uint32_t workers, slots;
    uint64_t samples, batches, bytes; /* bytes: read from shards */
    uint64_t skipped;                 /* bad samples of batches that were handed out */
    uint64_t retried_reads, cold_reads;
    uint64_t stage_ns[STK_STAGES];
    uint64_t wait_ns;                           /* no batch was ready in stk_loader_next() */
    uint64_t first_batch_ns;                    /* from open to the first batch; 0 before it */
    uint64_t memory, memory_peak, memory_limit; /* planned bytes: outputs, reads, scratch */
    uint32_t held;                              /* batches whose buffers the consumer holds */
    uint64_t jpeg_seek;                         /* JPEGs decoded from seek points */
    uint64_t jpeg_misfit;   /* JPEGs whose seek points did not fit: decoded without */
    uint64_t jpeg_fallback; /* JPEGs that went to libjpeg-turbo: progressive, CMYK, damaged, ... */
    uint64_t jpeg_learned;  /* JPEGs whose seek points were found by this loader (learn_jpeg) */
    const char *cold_by;    /* who reads cold local files: "io_uring", "threads"; NULL: none yet */
    /* The GPU's part, all 0 without one: its time for copies and for pictures, bytes that went
     * over, JPEGs that it decoded, rows that it could not make and the CPU did, its memory */
    uint64_t gpu_copy_ns, gpu_picture_ns, gpu_bytes, gpu_jpegs;
    STK_ANONYMOUS union {
        uint64_t gpu_redecoded, gpu_mended STK_REPLACED_BY("gpu_redecoded");
    };
    uint64_t gpu_memory, gpu_memory_peak, gpu_memory_limit;
    /* Packed documents, and batches of max_tokens: their tokens in an epoch (0: neither), and what
     * their rows have room for: the rest is padding. */
    uint64_t packed_tokens, packed_room;
    /* cache "device": bytes that the GPU keeps, and may keep (0: it keeps none), and pictures;
     * pictures or rows that were there when they were drawn, and that were not. */
    uint64_t gpu_cache_bytes, gpu_cache_limit, gpu_cache_entries;
    uint64_t gpu_cache_hits, gpu_cache_misses;
    /* `memory` by owner: batches, also those that you hold; what is read; blocks that samples
     * share; what rows are made in (decoders, unpacked fields). */
    uint64_t memory_batches, memory_reads, memory_blocks, memory_scratch;
    /* All time in stk_loader_next() and stk_loader_peek(), counted when they return; with wait_ns,
     * rows made again that the GPU could not make, and the ledger, each counted when it is over. */
    uint64_t next_ns, repair_ns, ledger_ns;
    uint64_t waiting_ns;            /* the consumer waits now, for so long; 0: it does not */
    uint32_t ring_open, ring_ready; /* of `slots`: batches begun, and of them ready to be taken */
    uint32_t ring_ahead;            /* batches that may be begun: stk_loader_set_ahead() */
    /* How often a stage took from 2^k ticks to less than twice that; the last one: or more.  Rows
     * that are timed count: each picture; of a run of cheap rows the first, or their mean.  Batch:
     * each batch.  Idle: each time.  A tick is so many nanoseconds. */
    double tick_ns;
    uint32_t stage_times[STK_STAGES][STK_TIMES];
    uint64_t elapsed_ns;    /* since the loader was opened */
    uint64_t open_ns;       /* of it, stk_loader_open() took */
    uint64_t read_wait_ns;  /* of idle: workers had nothing to do until reads came */
    uint64_t room_ns;       /* of fetch and decode: rows waited for memory */
    uint64_t first_wait_ns; /* of wait_ns: for the first batch */
    uint64_t remote_reads;  /* of cold_reads: from sources that are far away */
    uint64_t value_call_ns; /* of value, of resample: in functions that `call` names */
    STK_ANONYMOUS union {
        uint64_t resample_call_ns, sample_call_ns STK_REPLACED_BY("resample_call_ns");
    };
    uint64_t handed_out, bytes_unread; /* samples handed out; bytes of fields that were not read */
    /* Clips of videos in batches on a GPU: decoded there, and by workers. */
    uint64_t gpu_clips, gpu_clips_by_workers;
    uint64_t gpu_clip_queue_ns; /* in which clips waited for one of the GPU's video decoders */
} stk_stats;

#ifdef __cplusplus
}
#endif
#endif
