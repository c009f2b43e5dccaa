/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - jobs around loading, with progress: index; and listings for people. */
#ifndef STOKER_TOOLS_H
#define STOKER_TOOLS_H

#include <stoker/base.h>
#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_index_options {
    uint32_t size;
    uint32_t num_workers;  /* 0: the cores there are */
    stk_tri force;         /* build anew also when a good one is there */
    const char *cache_dir; /* as in stk_dataset_options */
    const char *format;
    stk_progress_fn progress; /* in bytes of shards */
    void *progress_cookie;
    stk_log_fn log;
    void *log_cookie;
} stk_index_options;

typedef struct stk_index_report {
    uint32_t size;
    uint64_t shards, samples, fields, data_bytes, index_bytes, reused_shards;
    int built; /* 0: a good index was there */
    char path[1024];
} stk_index_report;

/* Build the index of the shards `urls` name, or find that it is there; mends a stale or damaged
 * one. */
STK_API STK_MUST_CHECK int stk_index_build(const char *const *urls, size_t n,
                                           const stk_index_options *opt, stk_index_report *report,
                                           stk_error *err);

/* The registry, for people: entry i of a kind; STK_END past the last. */
typedef enum stk_plugin_kind {
    STK_PLUGIN_SOURCE = 1,
    STK_PLUGIN_FORMAT,
    STK_PLUGIN_CODEC,
    STK_PLUGIN_DECODER,
    STK_PLUGIN_OP
} stk_plugin_kind;

typedef struct stk_plugin_info {
    const char *name, *help;
    const struct stk_arg *args; /* plugin.h; ends with a NULL name; may be NULL */
} stk_plugin_info;

STK_API int stk_plugin_list(stk_plugin_kind kind, size_t i, stk_plugin_info *out);

#ifdef __cplusplus
}
#endif
#endif
