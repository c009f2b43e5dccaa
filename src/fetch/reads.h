/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h - functions that the files request*.c share: which reads a request sends (near ranges of
 * one file are read together), and the steps of its two stages.  Nothing else calls them. */
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
/* request.c: sets where each read goes, one after the other from `dst` on. */
void stk_reads_place(stk_request *r, uint8_t *dst);
/* Returns rc, or an error if the request needs more memory than there will ever be. */
int stk_request_size_check(stk_request *r, int rc, stk_error *err);
int stk_request_give_up(stk_request *r, int rc, stk_error *err); /* ends it.  Returns rc */
void stk_request_free_buffer(stk_request *r);
/* request_wait.c: the first stage of a request without an account. */
int stk_request_read_first(stk_request *r, stk_error *err);

/* request_stages.c: the folder of the files that output i names; NULL: its own bytes are wanted. */
static inline const char *stk_wanted_root(const stk_request *r, const stk_wanted *w)
{
    return r->open_root ? r->open_root[w - r->want] : NULL;
}
/* Opens the file that w->place names, or takes the one that another output opened by the same
 * field. */
int stk_wanted_open(stk_request *r, stk_wanted *w, stk_error *err);
/* Exchanges the buffers of the two stages. */
static inline void stk_request_swap_buffers(stk_request *r)
{
    uint8_t *buf = r->memory.buf;
    size_t cap = r->memory.cap;

    r->memory.buf = r->memory.other_buf;
    r->memory.cap = r->memory.other_cap;
    r->memory.other_buf = buf;
    r->memory.other_cap = cap;
}
/* request_files.c: makes room for so many bytes of the files that lists name; ends their reads;
 * frees memory that is not in use (1: there was some); frees all. */
int stk_request_files_room(stk_request *r, uint64_t need, stk_error *err);
void stk_request_files_end(stk_request *r);
int stk_request_files_trim(stk_request *r);
void stk_request_files_close(stk_request *r);
/* At the end of a request: releases its blocks, its own files, those that lists name, and the
 * buffer of the first stage. */
void stk_request_let_go(stk_request *r);

#endif
