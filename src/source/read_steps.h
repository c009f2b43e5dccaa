/* SPDX-License-Identifier: Apache-2.0 */
/* read_steps.h - few large reads in place of many small ones, where each is a request.
 *
 * Readers of containers walk from head to head: 16 bytes here, 28 there.  On a store each would be
 * a request.  Here a read takes more than is asked for: 64 KiB after a jump, twice as much with
 * every step that goes on where the one before ended, up to 8 MiB; and near the end, where tables
 * often are, all that is left.  The first steps are cached, so that what reads the tables of
 * another track does not ask for them again.  It knows no format. */
#ifndef STOKER_SOURCE_READ_STEPS_H
#define STOKER_SOURCE_READ_STEPS_H

#include <stoker/plugin_decoder.h>

#include "base/err.h"

#define STK_STEPS_CACHED 4u

typedef struct stk_read_step { /* bytes [at, at + len) */
    uint8_t *data;
    uint64_t at;
    size_t len;
} stk_read_step;

typedef struct stk_read_steps { /* Thread: one. */
    int (*fill)(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err);
    void *cookie;
    int exact;     /* nothing more is read: for local files, where reads cost little */
    uint64_t size; /* of what is read; `fill` and these are the caller's */
    uint8_t *data; /* bytes [at, at + len) */
    uint64_t at;
    size_t len, cap, step;
    stk_read_step cached[STK_STEPS_CACHED]; /* the first ones */
    uint32_t n_cached;
} stk_read_steps;

/* As an stk_media_reader's read(). */
int stk_read_steps_read(void *steps, uint64_t at, size_t len, stk_bytes *out, stk_error *err);
/* Another thing is read from here on; its memory stays. */
void stk_read_steps_begin(stk_read_steps *s, uint64_t size);
void stk_read_steps_fini(stk_read_steps *s);

#endif
