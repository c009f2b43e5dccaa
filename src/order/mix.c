/* SPDX-License-Identifier: Apache-2.0 */
/* mix.c - several data sets by weight, the same mixture for any number of ranks.
 *
 * Weights are rounded to whole parts of M = 2^20.  Positions are counted through all epochs, and a
 * block of M of them has exactly so many of each data set, in an even pattern (pattern.c): place v
 * of block b is number j of data set d there, so the (base_d + b * parts_d + j)-th of it in all.
 * Each data set is walked pass by pass, every pass under a permutation of its own, so that no
 * sample comes again before all others have come.  New weights begin a new pattern and count on
 * from what each data set has had (base_d): that, and where it was, is all a state keeps.  So what
 * came before is not needed to go on: the first change that is known may begin anywhere. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define M STK_MIX_PARTS
#define STREAM 0x8CB92BA72F3D8DD7u
#define PATTERNS 2 /* kept: batches on their way are of the last weights, or of the ones before */

typedef struct change {
    uint64_t from;
    uint64_t *first; /* n + 1: data set d has places first[d] .. first[d + 1] of M */
    uint64_t *base;  /* n */
    uint32_t *parts; /* n */
} change;

typedef struct mix {
    const stk_sample_set *set;
    uint64_t seed, len;
    uint32_t n; /* data sets */
    int shuffle;
    uint64_t *start; /* n + 1: the sample set's number of each data set's first sample */
    change *change;
    uint64_t n_changes;
    stk_pattern *pattern;
    stk_tables *tables; /* of a change: the number at each of M places */
} mix;

/* ---- weights to parts ---- */

static int check_weights(const mix *m, const double *w, double *sum, stk_error *err)
{
    *sum = 0;
    for (uint32_t d = 0; d < m->n; d++) {
        if (!(w[d] >= 0) || !isfinite(w[d]))
            return stk_fail(err, STK_EINVAL,
                            "mix: weight %g of data set %u is negative or not finite", w[d], d);
        if (w[d] > 0 && m->start[d] == m->start[d + 1])
            return stk_fail(err, STK_EINVAL,
                            "mix: data set %u has no samples to give: leave it out, or weight 0",
                            d);
        *sum += w[d] / M; /* so that it stays finite */
    }
    if (*sum > 0)
        return 0;
    return stk_fail(err, STK_EINVAL, "mix: no data set has a weight above 0");
}

/* What rounding down left over goes to the largest remainders; at least one part for all. */
static void share_parts(const mix *m, const double *w, double sum, uint32_t *parts)
{
    double rest[STK_MAX_DATASETS];
    int64_t left = M;

    for (uint32_t d = 0; d < m->n; d++) {
        double exact = w[d] / M / sum * M;

        parts[d] = exact >= M ? M : exact < 1 ? w[d] > 0 : (uint32_t)exact;
        rest[d] = w[d] > 0 ? exact - parts[d] : -2;
        left -= parts[d];
    }
    for (; left > 0; left--) {
        uint32_t best = 0;

        for (uint32_t d = 1; d < m->n; d++)
            best = rest[d] > rest[best] ? d : best;
        parts[best]++;
        rest[best]--;
    }
    for (; left < 0; left++) { /* taken back where it shows least */
        uint32_t most = 0;

        for (uint32_t d = 1; d < m->n; d++)
            most = parts[d] > parts[most] ? d : most;
        parts[most]--;
    }
}

/* ---- changes ---- */

static void change_fini(change *c)
{
    stk_free(c->first);
    stk_free(c->base);
    stk_free(c->parts);
    *c = (change){ 0 };
}

static int change_init(const mix *m, change *c, uint64_t from, stk_error *err)
{
    *c = (change){ .from = from,
                   .first = stk_zalloc(m->n + 1, sizeof *c->first),
                   .base = stk_zalloc(m->n, sizeof *c->base),
                   .parts = stk_zalloc(m->n, sizeof *c->parts) };
    if (c->first && c->base && c->parts)
        return 0;
    change_fini(c);
    return stk_fail_nomem(err, m->n * sizeof *c->first);
}

static void change_settle(const mix *m, change *c)
{
    for (uint32_t d = 0; d < m->n; d++)
        c->first[d + 1] = c->first[d] + c->parts[d];
}

/* The one that holds at g; the first, if g is before it. */
static uint64_t change_at(const mix *m, uint64_t g)
{
    uint64_t lo = 0, hi = m->n_changes;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (m->change[mid].from <= g)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void fill_pattern(void *cookie, uint64_t number, void *table)
{
    mix *m = cookie;

    stk_pattern_make(m->pattern, m->change[number].first, m->n, m->seed ^ STREAM, table);
}

/* How many of each data set have come before g. */
static void count_to(const mix *m, uint64_t g, uint64_t *count)
{
    uint64_t i = change_at(m, g), block = (g - m->change[i].from) / M,
             places = (g - m->change[i].from) % M;
    const change *c = &m->change[i];
    const uint32_t *number = stk_tables_pin(m->tables, i);

    for (uint32_t d = 0; d < m->n; d++)
        count[d] = c->base[d] + block * c->parts[d];
    for (uint64_t v = 0; v < places; v++)
        count[stk_pattern_kind(c->first, m->n, number[v])]++;
    stk_tables_unpin(m->tables, i);
}

static void forget(mix *m, uint64_t keep)
{
    for (; m->n_changes > keep; m->n_changes--)
        change_fini(&m->change[m->n_changes - 1]);
    stk_tables_forget(m->tables);
}

/* `c` is the last from now on; it is taken. */
static int append(mix *m, change *c, stk_error *err)
{
    size_t have = m->n_changes * sizeof *c;
    change *grown = stk_grow(m->change, have, have + sizeof *c);

    if (!grown) {
        change_fini(c);
        return stk_fail_nomem(err, have + sizeof *c);
    }
    m->change = grown;
    while (m->n_changes && m->change[m->n_changes - 1].from >= c->from)
        forget(m, m->n_changes - 1);
    m->change[m->n_changes++] = *c;
    return 0;
}

static int weigh(mix *m, const double *weights, uint64_t from, stk_error *err)
{
    double sum;
    change c;

    STK_TRY(check_weights(m, weights, &sum, err));
    STK_TRY(change_init(m, &c, from, err));
    share_parts(m, weights, sum, c.parts);
    change_settle(m, &c);
    if (m->n_changes)
        count_to(m, from, c.base);
    return append(m, &c, err);
}

int stk_mix_change(stk_order *order, const double *weights, uint64_t epoch, uint64_t position,
                   stk_error *err)
{
    mix *m = order->state;
    uint64_t g = epoch * m->len + position;

    if (g < m->change[0].from)
        return stk_fail(err, STK_EINVAL,
                        "mix: the weights are known from position %" PRIu64 " of epoch %" PRIu64
                        " on, where a state was taken: they can't change before",
                        m->change[0].from % m->len, m->change[0].from / m->len);
    return weigh(m, weights, g, err);
}

int stk_mix_get(const stk_order *order, uint64_t i, stk_mix_change_info *out)
{
    const mix *m = order->state;

    if (i >= m->n_changes)
        return STK_END;
    *out = (stk_mix_change_info){ m->change[i].from, m->change[i].parts, m->change[i].base, m->n };
    return 0;
}

static int check_change(const mix *m, const stk_mix_change_info *all, uint64_t i, stk_error *err)
{
    uint64_t sum = 0;
    int gone = 0;

    if (all[i].n == m->n)
        for (uint32_t d = 0; d < m->n; d++) {
            sum += all[i].parts[d];
            gone |= all[i].parts[d] && m->start[d] == m->start[d + 1];
        }
    if (sum != M || gone || (i && all[i].from <= all[i - 1].from))
        return stk_fail(err, STK_EINVAL,
                        "mix: weights %" PRIu64 " of the state are damaged, or of other data sets",
                        i);
    return 0;
}

static int copy_change(const mix *m, change *c, const stk_mix_change_info *from, stk_error *err)
{
    STK_TRY(change_init(m, c, from->from, err));
    memcpy(c->parts, from->parts, m->n * sizeof *c->parts);
    memcpy(c->base, from->base, m->n * sizeof *c->base);
    change_settle(m, c);
    return 0;
}

int stk_mix_set(stk_order *order, const stk_mix_change_info *all, uint64_t n, stk_error *err)
{
    mix *m = order->state;
    uint64_t done = 0;
    change *fresh;
    int rc = 0;

    if (!n)
        return stk_fail(err, STK_EINVAL, "mix: the state has no weights");
    for (uint64_t i = 0; i < n; i++)
        STK_TRY(check_change(m, all, i, err));
    fresh = stk_zalloc(n, sizeof *fresh);
    if (!fresh)
        return stk_fail_nomem(err, n * sizeof *fresh);
    for (; rc == 0 && done < n; done++)
        rc = copy_change(m, &fresh[done], &all[done], err);
    if (rc == 0) {
        forget(m, 0);
        stk_free(m->change);
        m->change = fresh;
        m->n_changes = n;
        return 0;
    }
    while (done)
        change_fini(&fresh[--done]);
    stk_free(fresh);
    return rc;
}

/* ---- the order ---- */

static uint64_t mix_len(const void *state)
{
    return ((const mix *)state)->len;
}

/* The sample set's number of the o-th sample that data set d gives. */
static uint64_t walk(const mix *m, uint32_t d, uint64_t o)
{
    uint64_t len = m->start[d + 1] - m->start[d], pass = o / len, i = o % len;
    stk_perm perm;

    if (m->shuffle) {
        stk_perm_init(&perm, len, stk_mix64(m->seed ^ STREAM) + d, pass);
        i = stk_perm_at(&perm, i);
    }
    return m->start[d] + i;
}

/* No one asks for what is before the first change, but a worker that reads ahead may look at it
 * while a state is taken up: g - from wraps then, and any sample of that data set is as good. */
static void mix_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                   stk_where *out)
{
    const mix *m = state;
    uint64_t pinned = UINT64_MAX;
    const uint32_t *number = NULL;

    for (uint32_t k = 0; k < n; k++) {
        uint64_t g = epoch * m->len + position[k], i = change_at(m, g), v;
        const change *c = &m->change[i];
        uint32_t d;

        if (i != pinned) { /* one at a time */
            if (number)
                stk_tables_unpin(m->tables, pinned);
            number = stk_tables_pin(m->tables, i);
            pinned = i;
        }
        g -= c->from;
        v = number[g % M];
        d = stk_pattern_kind(c->first, m->n, v);
        stk_sample_set_at(m->set, walk(m, d, c->base[d] + g / M * c->parts[d] + v - c->first[d]),
                          &out[k]);
    }
    if (number)
        stk_tables_unpin(m->tables, pinned);
}

int stk_order_is_mix(const stk_order *order)
{
    return order->at == mix_at;
}

static void mix_close(void *state)
{
    mix *m = state;

    for (uint64_t i = 0; i < m->n_changes; i++)
        change_fini(&m->change[i]);
    stk_free(m->change);
    stk_tables_close(&m->tables);
    stk_pattern_close(&m->pattern);
    stk_free(m->start);
    stk_free(m);
}

static int mix_init(mix *m, const stk_mixing *how, stk_error *err)
{
    const stk_sample_set *r = m->set;

    m->start = stk_zalloc(m->n + 1, sizeof *m->start);
    if (!m->start)
        return stk_fail_nomem(err, (m->n + 1) * sizeof *m->start);
    for (uint32_t d = 0; d < m->n; d++) { /* each less what is excluded in it */
        uint64_t left = 0, lo = r->start[d], hi = r->start[d + 1];

        left = hi - lo;
        for (uint64_t i = 0; i < r->exclude.n; i++)
            left -= r->exclude.id[i] >= lo && r->exclude.id[i] < hi;
        assert(left <= hi - lo);
        m->start[d + 1] = m->start[d] + left;
    }
    STK_TRY(stk_pattern_open(&m->pattern, m->n, err));
    STK_TRY(stk_tables_open(&m->tables, PATTERNS, M * sizeof(uint32_t), fill_pattern, m, err));
    return weigh(m, how->weights, 0, err);
}

int stk_order_mix(stk_order *order, const stk_sample_set *set, const stk_mixing *how,
                  stk_error *err)
{
    mix *m = STK_NEW(mix);
    int rc;

    if (!m)
        return stk_fail_nomem(err, sizeof *m);
    *m = (mix){ .set = set,
                .seed = how->seed,
                .len = how->epoch_size ? how->epoch_size : stk_sample_set_len(set),
                .n = set->n,
                .shuffle = how->shuffle };
    rc = mix_init(m, how, err);
    if (rc < 0) {
        mix_close(m);
        return rc;
    }
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "mix",
                          .state = m,
                          .len = mix_len,
                          .at = mix_at,
                          .close = mix_close };
    return 0;
}
