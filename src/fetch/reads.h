/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h - decides which reads a request sends: near ranges of one file are read together. Only
 * request.c calls it. */
#ifndef STOKER_FETCH_READS_H
#define STOKER_FETCH_READS_H

#include "fetch/request.h"

/* 1: it has a read of its own or shares one, as it is in no block and not available already. */
static inline int stk_wanted_is_read(const stk_wanted *w)
{
    return !w->block && w->file;
}

/* r->io[0..n_io) from what was located, and r->total: their bytes, and room for what they unpack
 * to. */
void stk_reads_plan(stk_request *r);

#endif
