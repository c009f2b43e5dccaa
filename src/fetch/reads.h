/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h - decides which reads a request sends: near ranges of one file are read together. Only
 * request.c calls it. */
#ifndef STOKER_FETCH_READS_H
#define STOKER_FETCH_READS_H

#include "fetch/request.h"

/* 1: the field is read, alone or together with others.  0: it is in a block or in memory. */
static inline int stk_wanted_is_read(const stk_wanted *w)
{
    return !w->block && w->file;
}

/* Fills r->reads from the located fields: io[0..n), and `total`, the bytes of all reads and of what
 * is unpacked from them.  parts: r->ranged says which bytes of a field are wanted. */
void stk_reads_plan(stk_request *r, int parts);

#endif
