/* SPDX-License-Identifier: Apache-2.0 */
/* pack_job.h - the arguments of `stoker pack`, from options or from a plan.  cmd_pack.c and
 * pack_*.c use it. */
#ifndef STOKER_CLI_PACK_JOB_H
#define STOKER_CLI_PACK_JOB_H

#include "cli.h"

#define PACK_FIELDS 64
#define PACK_SPLITS 16

typedef struct pack_split {
    char name[64];
    double from, to;
} pack_split;

typedef struct pack_job {
    const cli_args *what; /* data, target, options: the command's, or those of a plan */
    cli_args *of_plan;    /* owned */
    stk_pack_plan *plan;  /* owned */
    stk_pack_options o;
    stk_output field[PACK_FIELDS];
    char *name[PACK_FIELDS]; /* owned */
    pack_split split[PACK_SPLITS];
    uint32_t n_splits;
    uint64_t shard; /* the shard of --shard; UINT64_MAX: all */
} pack_job;

/* 0, or an exit code after an error was printed. */
int pack_job_take(pack_job *job, const cli_args *a);
void pack_job_free(pack_job *job);
void pack_job_target(pack_job *job, uint32_t i); /* target i of a split */
uint32_t pack_job_targets(const pack_job *job);
const char *pack_job_dst(const pack_job *job);

int pack_plan_write(pack_job *job, const char *path);
/* Checks that the data is still that of the plan; turns --shard into a part.  0, or an exit
 * code. */
int pack_plan_check(pack_job *job, stk_dataset *ds);
int pack_job_open(const pack_job *job, stk_dataset **out);

/* pack_videos.c: --video-gop, by Python, which takes the place of this process; or an exit code. */
int pack_videos(const pack_job *job, const cli_args *a);

#endif
