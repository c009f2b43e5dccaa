/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - a stream of any length unpacked, whichever library does it: memory for what was read
 * and for what is written, and the question whether the stream ended where it may. */
#include "base/mem.h"
#include "compress/unpack.h"

#define PART ((size_t)4 << 20) /* bytes read and written at a time */

static int run(const stk_unpack_io *io, stk_unpack_step step, void *library, const char *name,
               uint8_t *in, stk_error *err)
{
    uint8_t *out = in + PART;
    size_t at = 0, have = 0;
    int left = 1, full = 0; /* full: there may be more without more input */

    for (;;) {
        size_t n, made = PART;

        if (at == have && !full) {
            STK_TRY(io->read(io->cookie, in, PART, &have, err));
            if (!have)
                return left ? stk_fail(err, STK_ECORRUPT, "%s: truncated: it ends too early", name)
                            : 0;
            at = 0;
        }
        n = have - at;
        left = step(library, in + at, &n, out, &made, err);
        if (left < 0)
            return left;
        at += n;
        full = left && made == PART;
        STK_TRY(io->write(io->cookie, out, made, err));
    }
}

int stk_unpack_stream(const stk_unpack_io *io, stk_unpack_step step, void *library,
                      const char *name, stk_error *err)
{
    uint8_t *both = stk_large_alloc(2 * PART);
    int rc = both ? run(io, step, library, name, both, err) : stk_fail_nomem(err, 2 * PART);

    stk_large_free(both, 2 * PART);
    return rc;
}
