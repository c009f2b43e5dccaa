/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - the functions that make the parts of a plan (row/plan.h).  plan.c calls them in the
 * order in which they are declared.
 *
 * All have one shape: they read what was asked for and the parts before, and write only *out.
 * After a failure, the part's fini() frees what was written; it also accepts zeros. */
#ifndef STOKER_PARTS_H
#define STOKER_PARTS_H

#include "row/plan.h"

#define STK_MAX_BATCH (1u << 20)

typedef struct stk_plan_input { /* what the caller asked for; borrowed while the plan is made */
    const stk_loader_options *o;
    stk_dataset *const *data;
    uint32_t n_data;
    uint32_t *measured; /* where lengths are stored instead of making rows; NULL: rows are made */
} stk_plan_input;

/* 1: batches have as many rows as fit: max_tokens, max_seconds. */
static inline int stk_has_budget(const stk_loader_options *o)
{
    return o->max_tokens || o->max_seconds > 0;
}

/* plan.c: makes all parts.  *out belongs to the caller; end with stk_plan_close(). */
int stk_plan_open(stk_plan **out, const stk_plan_input *in, stk_error *err);
void stk_plan_close(stk_plan **p);

/* plan_policy.c */
int stk_plan_policy_make(stk_plan_policy *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err);
int stk_plan_ranks_make(stk_plan_ranks *out, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err);

/* plan_data.c */
int stk_plan_data_make(stk_plan_data *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err);
void stk_plan_data_fini(stk_plan_data *p);
/* Calls each(cookie, source) for every shard whose name has a scheme; source NULL: the scheme is
 * unknown. */
int stk_plan_sources(const stk_plan_data *p,
                     int (*each)(void *cookie, const stk_source *s, stk_error *err), void *cookie,
                     stk_error *err);

/* plan_gpu.c */
int stk_plan_gpu_make(stk_plan_gpu *out, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err);
void stk_plan_gpu_fini(stk_plan_gpu *p);

/* plan_chains.c; rows of arrays in plan_array.c, of packed documents in plan_documents.c */
int stk_plan_chains_make(stk_plan_chains *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err);
void stk_plan_chains_fini(stk_plan_chains *p, uint32_t n_data);
/* plan_made.c.  1: rows of the output go to the GPU as records.  Others are made by workers. */
int stk_plan_is_gpu_made(const stk_plan_gpu *gpu, const stk_chain *c, const stk_out_plan *out);
/* no_clips: why NVDEC decodes no clips here; "" or NULL: it does, or none are wanted. */
stk_made stk_plan_made(const stk_plan *so_far, const char *no_clips, uint32_t output);
/* STK_ENOTSUP: decode is "gpu", and workers would make these pictures. */
int stk_plan_check_made(const stk_plan_gpu *gpu, const stk_out_plan *out, const stk_made *made,
                        stk_error *err);
/* plan_array.c: sets out->arrays for data sets that are arrays. */
int stk_plan_array_make(stk_plan_chains *out, const stk_plan_data *data, stk_error *err);
void stk_plan_array_close(stk_array_plan **p);
/* plan_documents.c: make() packs the documents of all data sets into rows.  settle() sets the
 * padding of an output.  STK_EINVAL: its type does not hold the numbers that it is asked for. */
int stk_plan_documents_make(stk_plan_chains *out, stk_error *err);
int stk_plan_documents_settle(stk_plan_chains *out, uint32_t output, stk_error *err);
void stk_plan_documents_fini(stk_array_plan *p);

/* plan_schedule.c */
int stk_plan_schedule_make(stk_schedule **out, const stk_plan_input *in, const stk_plan *so_far,
                           stk_error *err);

/* plan_batching.c */
int stk_plan_batching_make(stk_plan_batching *out, const stk_plan_input *in, const stk_plan *so_far,
                           stk_error *err);
void stk_plan_batching_fini(stk_plan_batching *p);

/* plan_memory.c */
int stk_plan_memory_make(stk_plan_memory *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err);
/* frees all but the pool */
void stk_plan_memory_fini(stk_plan_memory *p, const stk_plan_data *data);

/* plan_cache.c */
int stk_plan_cache_make(stk_plan_cache *out, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err);
void stk_plan_cache_fini(stk_plan_cache *p);

/* plan_outputs.c */
int stk_plan_outputs_make(stk_plan_outputs *out, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err);

/* plan_io.c */
int stk_plan_io_make(stk_plan_io *out, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err);
/* Sources of the files that rows name, by the roots of open(). */
int stk_plan_io_named(stk_plan_io *out, const stk_plan_chains *chains, stk_error *err);

/* plan_rows.c */
int stk_plan_rows_make(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err);
void stk_plan_rows_fini(stk_plan_rows *p, const stk_plan *of);

typedef enum stk_rows_of { /* tables of rows: stk_plan_rows */
                           STK_ROWS_USUAL,
                           STK_ROWS_UNCACHED, /* as if nothing was on the GPU yet */
                           STK_ROWS_RESIDENT, /* arrays are on the GPU */
                           STK_ROWS_REPAIR,   /* made again, for the GPU */
                           STK_ROWS_TABLES
} stk_rows_of;

/* plan_kinds.c: sets *ops to how rows of an output are made, for a table of this kind */
void stk_plan_kind(const stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                   stk_rows_of kind, uint32_t output, struct stk_row_ops *ops);

#endif
