/* SPDX-License-Identifier: Apache-2.0 */
/* shared_list.h - lets one local rank list the names on a store for all ranks of the host, through
 * a file.  stk_urls_expand() calls it. */
#ifndef STOKER_SOURCE_SHARED_LIST_H
#define STOKER_SOURCE_SHARED_LIST_H

#include "base/atomic_file.h"
#include "base/text.h"
#include "source/source.h"

typedef struct stk_shared_list { /* end with close.  Thread: one. */
    char path[1200];             /* "": nothing is shared */
    int rank;
    stk_lock_file lock;
} stk_shared_list;

/* 1: another rank has listed this pattern, and its names were added.  0: list the names, then call
 * keep(). */
int stk_shared_list_take(stk_shared_list *l, stk_names *out, const char *pattern);
/* Stores names[from..] for the other ranks. */
void stk_shared_list_keep(stk_shared_list *l, const stk_names *names, size_t from);
void stk_shared_list_close(stk_shared_list *l);

#endif
