/* SPDX-License-Identifier: Apache-2.0 */
/* guarded.h - maps of files that others may cut short.
 *
 * Touching a page past the end of a mapped file raises SIGBUS, however short ago the size was
 * looked at.  All maps of data go through here: zeros take the place of what is gone, the map is
 * torn from then on, and stk_guarded_tears() counts.  Bytes that were read from maps count only if
 * it is what it was before they were read; else it has to be asked whether the file changed.
 *
 * The handler is the process's: installed with the first map, and one that was there before gets
 * all other signals.  STOKER_SIGBUS=0 in the environment leaves it out. */
#ifndef STOKER_GUARDED_H
#define STOKER_GUARDED_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_guarded stk_guarded; /* Thread: any. */

/* Map len bytes, not 0, of a file, read-only and shared.  *out ends with stk_guarded_close(). -1:
 * errno says why. */
int stk_guarded_map(stk_guarded **out, int fd, size_t len);
void stk_guarded_close(stk_guarded **g);
/* The bytes, as long as it is open. */
const uint8_t *stk_guarded_data(const stk_guarded *g);
/* 1: a part of it was gone when it was read. */
int stk_guarded_torn(const stk_guarded *g);
/* 1: this address is in a map that is open. */
int stk_guarded_has(const void *p);
/* How often that happened to any map of the process. */
uint64_t stk_guarded_tears(void);

#endif
