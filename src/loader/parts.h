/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - who makes which part of a plan.
 *
 * Every builder has one shape: it reads what was asked for and the parts before it, and writes only
 * *out.  What it has written when it fails is given back by its fini, which also takes zeros.  The
 * order is that of the declarations. */
#ifndef STOKER_PARTS_H
#define STOKER_PARTS_H

#include "row/plan.h"

#define STK_MAX_BATCH (1u << 20)

typedef struct stk_plan_input { /* what was asked for; borrowed while the plan is made */
    const stk_loader_options *o;
    stk_dataset *const *data;
    uint32_t n_data;
    uint32_t *measured; /* where lengths go, in place of rows; NULL: rows are made */
} stk_plan_input;

/* plan.c: all of it.  *out: the caller's, end with stk_plan_close(). */
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
/* Call each(cookie, source) for every shard whose name has a scheme; source NULL: none knows it. */
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
int stk_plan_array_make(stk_plan_chains *out, const stk_plan_data *data, stk_error *err);
void stk_plan_array_close(stk_array_plan **p);
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
/* all but the pool */
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

/* plan_rows.c */
int stk_plan_rows_make(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err);
void stk_plan_rows_fini(stk_plan_rows *p, uint32_t n_data);

#endif
