/* SPDX-License-Identifier: Apache-2.0 */
/* read_steps.h - reads ahead in large steps, for code that reads many small ranges of a remote
 * file.  Rows and tools that read tables of videos call it.
 *
 * Readers of containers go from header to header: 16 bytes here, 28 there.  On a store, each would
 * be a request.  So a read takes more than is asked for: 64 KiB after a jump, and twice as much
 * with every step that continues the one before, up to 8 MiB.  Near the end, where tables often
 * are, it takes all that is left.  The first steps are cached, so that what reads the tables of
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
    int exact;     /* true: nothing more than asked for is read; for local files */
    uint64_t size; /* bytes of the file or field; the caller sets the fields up to this one */
    uint8_t *data; /* bytes [at, at + len) of it */
    uint64_t at;
    size_t len, cap, step;
    stk_read_step cached[STK_STEPS_CACHED]; /* the first ones */
    uint32_t n_cached;
} stk_read_steps;

/* A stk_media_reader.read; `steps` is a stk_read_steps. */
int stk_read_steps_read(void *steps, uint64_t at, size_t len, stk_bytes *out, stk_error *err);
/* Begins with another file or field of `size` bytes; the memory is used again. */
void stk_read_steps_begin(stk_read_steps *s, uint64_t size);
void stk_read_steps_fini(stk_read_steps *s);

#endif
