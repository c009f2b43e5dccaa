/* SPDX-License-Identifier: Apache-2.0 */
/* pack_lengths.c - how many rows packing takes, from lengths alone: what pack() and tokens(pack=)
 * make of samples that come in this order. */
#include <assert.h>
#include <stoker/stoker.h>

#include "order/bins.h"

typedef struct fitting {
    stk_packer *packer;
    uint32_t *rest, *row;
    uint32_t n, block;
    stk_fit_info *out;
} fitting;

static void flush(fitting *f)
{
    f->out->rows += stk_packer_run(f->packer, f->rest, f->n, f->row);
    f->n = 0;
}

static void fit_all(fitting *f, const uint32_t *lengths, uint64_t n, uint32_t window)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t rest = lengths[i] % f->block;

        f->out->tokens += lengths[i];
        f->out->rows += lengths[i] / f->block; /* rows of its own */
        assert(f->n < window);
        if (rest)
            f->rest[f->n++] = rest;
        if ((i + 1) % window == 0 || i + 1 == n)
            flush(f);
    }
}

int stk_fit_lengths(const uint32_t *lengths, uint64_t n, const stk_fit_options *o,
                    stk_fit_info *out, stk_error *err)
{
    uint32_t block = o->block, window = o->window ? o->window : STK_BIN_WINDOW;
    fitting f = { .block = block, .out = out };
    int rc;

    *out = (stk_fit_info){ 0 };
    window = n && n < window ? (uint32_t)n : window;
    if (block < 1 || block > STK_MAX_PACKED)
        return stk_fail(err, STK_EINVAL, "a row has 1 to %u tokens, not %u", STK_MAX_PACKED, block);
    f.rest = stk_zalloc(window, sizeof *f.rest);
    f.row = stk_zalloc(window, sizeof *f.row);
    rc = f.rest && f.row ? stk_packer_open(&f.packer, o->first ? STK_FIT_FIRST : STK_FIT_BEST,
                                           block, window, err)
                         : stk_fail_nomem(err, window * sizeof *f.rest);
    if (rc == 0)
        fit_all(&f, lengths, n, window);
    stk_packer_close(&f.packer);
    stk_free(f.rest);
    stk_free(f.row);
    return rc;
}
