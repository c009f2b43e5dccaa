/* SPDX-License-Identifier: Apache-2.0 */
/* weighted.c - every position draws by weight: an alias table, one number and one look at memory
 * a draw.
 *
 * Walker's method: n bins of equal size hold two samples each, bin i sample i up to `keep` and
 * another one above it (A. J. Walker 1977; filled as M. D. Vose 1991 does).  A position's number is
 * Philox of (position, epoch) under a key of its own, so a draw knows nothing of other draws, of
 * ranks or of what was drawn before.  Sums and products are in one order, so that every machine
 * has the same table. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "order/order.h"

#define RUN 32
#define STREAM 0xA3EC647659359ACDu /* keeps these numbers apart from all others of the seed */

typedef struct bin {
    uint32_t keep; /* in 2^-32: below it the bin's own number, else the other */
    uint32_t other;
} bin;

typedef struct weighted {
    const stk_sample_set *set;
    uint64_t n, len;
    uint32_t key[2];
    bin *bin;
} weighted;

/* ---- the table ---- */

typedef struct fill { /* mass[i]: how full bin i is, 1 is full */
    double *mass;
    uint32_t *todo; /* bins with too little from the front, with too much from the back */
    uint64_t few, many;
} fill;

/* Weights of those that take part, so that they sum up to n; the number of the largest. */
static uint32_t scale(const stk_sample_set *r, const double *weights, uint64_t n, double *mass)
{
    double top = 0, sum = 0;
    uint32_t at = 0;

    for (uint64_t i = 0; i < n; i++) {
        mass[i] = weights[stk_sample_set_id(r, i)];
        if (mass[i] > top) {
            top = mass[i];
            at = (uint32_t)i;
        }
    }
    for (uint64_t i = 0; i < n; i++) { /* first by the largest, so that no sum is too large */
        mass[i] /= top;
        sum += mass[i];
    }
    for (uint64_t i = 0; i < n; i++)
        mass[i] *= (double)n / sum;
    return at;
}

static uint32_t fixed(double part)
{
    return part >= 1 ? UINT32_MAX : (uint32_t)(part * 0x1p32);
}

static void pair_bins(weighted *w, fill *f)
{
    while (f->few && f->many < w->n) {
        uint32_t little = f->todo[--f->few], much = f->todo[f->many];

        w->bin[little] = (bin){ fixed(f->mass[little]), much };
        f->mass[much] -= 1 - f->mass[little];
        if (f->mass[much] < 1) {
            f->many++;
            f->todo[f->few++] = much;
        }
    }
}

static void fill_bins(weighted *w, fill *f, uint32_t largest)
{
    f->few = 0;
    f->many = w->n;
    for (uint64_t i = w->n; i-- > 0;)
        if (f->mass[i] >= 1)
            f->todo[--f->many] = (uint32_t)i;
    for (uint64_t i = 0; i < w->n; i++)
        if (f->mass[i] < 1)
            f->todo[f->few++] = (uint32_t)i;
    pair_bins(w, f);
    while (f->few) { /* left by rounding: full but for that, or of no weight */
        uint32_t i = f->todo[--f->few];

        w->bin[i] = (bin){ fixed(f->mass[i]), largest };
    }
    for (; f->many < w->n; f->many++)
        w->bin[f->todo[f->many]] = (bin){ UINT32_MAX, f->todo[f->many] };
}

static int make_bins(weighted *w, const double *weights, stk_error *err)
{
    fill f = { .mass = stk_zalloc(w->n, sizeof *f.mass), .todo = stk_zalloc(w->n, sizeof *f.todo) };
    int rc = 0;

    w->bin = stk_zalloc(w->n, sizeof *w->bin);
    if (w->bin && f.mass && f.todo)
        fill_bins(w, &f, scale(w->set, weights, w->n, f.mass));
    else
        rc = stk_fail_nomem(err, w->n * (sizeof *w->bin + sizeof *f.mass + sizeof *f.todo));
    stk_free(f.mass);
    stk_free(f.todo);
    return rc;
}

/* ---- the order ---- */

static uint64_t weighted_len(const void *state)
{
    return ((const weighted *)state)->len;
}

/* Bin and place in it of a few positions; the bins are on their way when it returns. */
static void draw(const weighted *w, uint64_t epoch, const uint64_t *position, uint32_t n,
                 uint64_t *at, uint32_t *part)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ctr[4] = { (uint32_t)position[i], (uint32_t)(position[i] >> 32), (uint32_t)epoch,
                            (uint32_t)(epoch >> 32) };
        uint32_t out[4];

        stk_philox(ctr, w->key, out);
        at[i] = (uint64_t)((unsigned __int128)((uint64_t)out[0] << 32 | out[1]) * w->n >> 64);
        part[i] = out[2];
        __builtin_prefetch(&w->bin[at[i]]);
    }
}

static void weighted_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                        stk_where *out)
{
    const weighted *w = state;

    for (uint32_t from = 0; from < n; from += RUN) {
        uint32_t m = n - from < RUN ? n - from : RUN, part[RUN];
        uint64_t at[RUN];

        draw(w, epoch, position + from, m, at, part);
        for (uint32_t i = 0; i < m; i++) {
            const bin *b = &w->bin[at[i]];

            stk_sample_set_at(w->set, part[i] < b->keep ? at[i] : b->other, &out[from + i]);
        }
    }
}

static void weighted_close(void *state)
{
    weighted *w = state;

    stk_free(w->bin);
    stk_free(w);
}

int stk_order_weighted(stk_order *order, const stk_sample_set *set, const double *weights,
                       uint64_t seed, uint64_t epoch_size, stk_error *err)
{
    uint64_t n = stk_sample_set_len(set), key = stk_mix64(seed ^ STREAM);
    weighted *w;
    int rc;

    if (n > UINT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "weights are for at most 4,294,967,295 samples, not %" PRIu64, n);
    w = STK_NEW(weighted);
    if (!w)
        return stk_fail_nomem(err, sizeof *w);
    *w = (weighted){ .set = set,
                     .n = n,
                     .len = epoch_size ? epoch_size : n,
                     .key = { (uint32_t)key, (uint32_t)(key >> 32) } };
    rc = make_bins(w, weights, err);
    if (rc < 0) {
        weighted_close(w);
        return rc;
    }
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "weighted",
                          .state = w,
                          .len = weighted_len,
                          .at = weighted_at,
                          .close = weighted_close };
    return 0;
}
