/* SPDX-License-Identifier: Apache-2.0 */
/* guarded.h - maps of files that other programs may cut short.  All maps of data go through here.
 *
 * Reading a page past the end of a mapped file raises SIGBUS, even if the size was checked just
 * before.  A signal handler puts zeros in place of the missing page, marks the map as torn, and
 * counts that in stk_guarded_tears().  Bytes read from a map are valid only if that count is the
 * same as before they were read; otherwise check whether the file changed.
 *
 * The handler is that of the process.  It is installed with the first map, and passes all other
 * signals to the handler that was there before.  STOKER_SIGBUS=0 in the environment leaves it
 * out. */
#ifndef STOKER_GUARDED_H
#define STOKER_GUARDED_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_guarded stk_guarded; /* Thread: any. */

/* Maps `len` bytes, not 0, of a file, read-only and shared.  End with stk_guarded_close().  -1:
 * errno says why. */
int stk_guarded_map(stk_guarded **out, int fd, size_t len);
void stk_guarded_close(stk_guarded **g);
/* The bytes; valid while the map is open. */
const uint8_t *stk_guarded_data(const stk_guarded *g);
/* 1: a part of the map was missing when it was read. */
int stk_guarded_torn(const stk_guarded *g);
/* 1: this address is in a map that is open. */
int stk_guarded_has(const void *p);
/* How often a page was missing, over all maps of the process. */
uint64_t stk_guarded_tears(void);

#endif
