/* SPDX-License-Identifier: Apache-2.0 */
/* weighted_once.c - draws by weight without putting back, one table an epoch.
 *
 * Efraimidis and Spirakis (2006): give every sample the key E / weight, E exponentially
 * distributed; the samples in order of their keys are a draw without replacement, the first k of
 * them one of k.  E comes from a hash of (seed, epoch, number), so a key can be computed again at
 * any time and is not stored: one pass counts keys by their leading bits, one places numbers
 * accordingly, and the short runs that remain are sorted.  The logarithm is our own, so that every
 * machine has the same order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define STREAM 0xC4CEB9FE1A85EC53u
#define LOCAL 512                   /* runs up to this length are sorted beside the table */
#define TABLES_MAX 256              /* epochs that may be in flight at once ... */
#define TABLES_NUMBERS (1ull << 24) /* ... as long as they have no more numbers than this */

typedef struct once {
    const stk_sample_set *set;
    uint64_t n, len;
    uint64_t seed;
    double *weight;     /* by number, 1 is the largest */
    stk_tables *tables; /* of an epoch: `len` numbers */
    uint32_t *work;     /* n: numbers by leading bits */
    uint32_t *end;      /* of their runs */
    uint64_t runs, low; /* how many; what the leading bits are counted from */
    unsigned shift;
} once;

typedef struct item {
    double key;
    uint32_t number;
} item;

/* ---- keys ---- */

/* The natural logarithm, 0 < x < 1; relative error below 1e-14. */
static double log_of(double x)
{
    uint64_t bits;
    double m, s, z, sum;
    int e;

    memcpy(&bits, &x, sizeof bits);
    e = (int)(bits >> 52) - 1022;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1022 << 52; /* x = m * 2^e, 1/2 <= m < 1 */
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    s = (m - 1) / (m + 1); /* ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172 */
    z = s * s;
    sum = 1.0 / 17;
    for (int k = 15; k > 0; k -= 2)
        sum = sum * z + 1.0 / k;
    return 2 * s * sum + e * 0.69314718055994531;
}

static uint64_t epoch_key(const once *o, uint64_t epoch)
{
    return stk_mix64(stk_mix64(o->seed ^ STREAM) + epoch);
}

static double key_of(const once *o, uint64_t salt, uint64_t i)
{
    uint64_t h = stk_mix64(stk_mix64(i + salt) ^ salt);

    return -log_of(((double)(h >> 11) + 0.5) * 0x1p-53) / o->weight[i];
}

static uint64_t run_of(const once *o, double key)
{
    uint64_t bits, run;

    memcpy(&bits, &key, sizeof bits); /* positive numbers sort as their bits do */
    run = bits < o->low ? 0 : (bits - o->low) >> o->shift;
    return run < o->runs ? run : o->runs - 1;
}

/* ---- sorting ---- */

static int before(const item *a, const item *b)
{
    return a->key < b->key || (a->key == b->key && a->number < b->number);
}

static int by_key(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a);
}

static void sort_short(item *x, uint32_t n)
{
    if (n > 32) {
        qsort(x, n, sizeof *x, by_key);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        item v = x[i];
        uint32_t k = i;

        for (; k && before(&v, &x[k - 1]); k--)
            x[k] = x[k - 1];
        x[k] = v;
    }
}

static item item_of(const once *o, uint64_t salt, uint32_t number)
{
    return (item){ key_of(o, salt, number), number };
}

static void sift(const once *o, uint64_t salt, uint32_t *x, uint64_t at, uint64_t n)
{
    item v = item_of(o, salt, x[at]);

    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        item c = item_of(o, salt, x[child]);

        if (child + 1 < n) {
            item d = item_of(o, salt, x[child + 1]);

            if (before(&c, &d)) {
                c = d;
                child++;
            }
        }
        if (!before(&v, &c))
            break;
        x[at] = c.number;
    }
    x[at] = v.number;
}

/* In place, without memory, keys computed again: for runs that weights far apart made long. */
static void sort_long(const once *o, uint64_t salt, uint32_t *x, uint64_t n)
{
    for (uint64_t i = n / 2; i-- > 0;)
        sift(o, salt, x, i, n);
    for (uint64_t i = n; i-- > 1;) {
        uint32_t last = x[i];

        x[i] = x[0];
        x[0] = last;
        sift(o, salt, x, 0, i);
    }
}

static void sort_run(const once *o, uint64_t salt, uint32_t *x, uint64_t n)
{
    item local[LOCAL];

    if (n > LOCAL) {
        sort_long(o, salt, x, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        local[i] = item_of(o, salt, x[i]);
    sort_short(local, (uint32_t)n);
    for (uint64_t i = 0; i < n; i++)
        x[i] = local[i].number;
}

/* ---- an epoch's table ---- */

/* end[run]: where it begins, for now; runs after the first `len` numbers are not needed. */
static uint64_t count_runs(once *o, uint64_t salt)
{
    uint64_t sum = 0, needed = o->runs;

    memset(o->end, 0, o->runs * sizeof *o->end);
    for (uint64_t i = 0; i < o->n; i++)
        if (o->weight[i] > 0)
            o->end[run_of(o, key_of(o, salt, i))]++;
    for (uint64_t run = 0; run < o->runs; run++) {
        uint32_t count = o->end[run];

        o->end[run] = (uint32_t)sum;
        sum += count;
        if (sum >= o->len && needed == o->runs)
            needed = run + 1;
    }
    return needed;
}

static void fill_table(void *cookie, uint64_t epoch, void *table)
{
    once *o = cookie;
    uint64_t salt = epoch_key(o, epoch), needed = count_runs(o, salt), from = 0;

    for (uint64_t i = 0; i < o->n; i++)
        if (o->weight[i] > 0) {
            uint64_t run = run_of(o, key_of(o, salt, i));

            if (run < needed)
                o->work[o->end[run]++] = (uint32_t)i;
        }
    for (uint64_t run = 0; run < needed; run++) {
        sort_run(o, salt, o->work + from, o->end[run] - from);
        from = o->end[run];
    }
    memcpy(table, o->work, o->len * sizeof *o->work);
}

/* ---- the order ---- */

static uint64_t once_len(const void *state)
{
    return ((const once *)state)->len;
}

static void once_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                    stk_where *out)
{
    const once *o = state;
    const uint32_t *table = stk_tables_pin(o->tables, epoch);

    for (uint32_t i = 0; i < n; i++)
        stk_sample_set_at(o->set, table[position[i]], &out[i]);
    stk_tables_unpin(o->tables, epoch);
}

static void once_close(void *state)
{
    once *o = state;

    stk_tables_close(&o->tables);
    stk_free(o->weight);
    stk_free(o->work);
    stk_free(o->end);
    stk_free(o);
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Weights by number; how many are positive; and how leading bits of keys are cut into runs: most
 * keys are between 1 / n of the smallest E / weight and a few of the largest. */
static uint64_t take_weights(once *o, const double *weights)
{
    double top = 0, least = INFINITY;
    uint64_t positive = 0, span;

    for (uint64_t i = 0; i < o->n; i++) {
        o->weight[i] = weights[stk_sample_set_id(o->set, i)];
        top = o->weight[i] > top ? o->weight[i] : top;
    }
    for (uint64_t i = 0; i < o->n; i++) {
        o->weight[i] /= top;
        positive += o->weight[i] > 0;
        least = o->weight[i] > 0 && o->weight[i] < least ? o->weight[i] : least;
    }
    o->low = bits_of(0.25 / (double)o->n);
    span = bits_of(32 / least) - o->low;
    while (span >> o->shift >= o->runs)
        o->shift++;
    return positive;
}

static int once_init(once *o, const double *weights, uint64_t epoch_size, stk_error *err)
{
    uint64_t positive, n_tables;

    o->runs = o->n / 2 + 1;
    o->weight = stk_zalloc(o->n, sizeof *o->weight);
    o->work = stk_zalloc(o->n, sizeof *o->work);
    o->end = stk_zalloc(o->runs, sizeof *o->end);
    if (!o->weight || !o->work || !o->end)
        return stk_fail_nomem(err, o->n * (sizeof *o->weight + sizeof *o->work));
    positive = take_weights(o, weights);
    if (epoch_size > positive)
        return stk_fail(err, STK_EINVAL,
                        "epoch_size %" PRIu64 " is more than the %" PRIu64 " samples that have a "
                        "weight above 0: without replacement none comes twice",
                        epoch_size, positive);
    o->len = epoch_size ? epoch_size : positive;
    n_tables = TABLES_NUMBERS / o->len;
    n_tables = n_tables < 2 ? 2 : n_tables > TABLES_MAX ? TABLES_MAX : n_tables;
    return stk_tables_open(&o->tables, (uint32_t)n_tables, o->len * sizeof *o->work, fill_table, o,
                           err);
}

int stk_order_weighted_once(stk_order *order, const stk_sample_set *set, const double *weights,
                            uint64_t seed, uint64_t epoch_size, stk_error *err)
{
    uint64_t n = stk_sample_set_len(set);
    once *o;
    int rc;

    if (n > UINT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "weights are for at most 4,294,967,295 samples, not %" PRIu64, n);
    o = STK_NEW(once);
    if (!o)
        return stk_fail_nomem(err, sizeof *o);
    *o = (once){ .set = set, .n = n, .seed = seed };
    rc = once_init(o, weights, epoch_size, err);
    if (rc < 0) {
        once_close(o);
        return rc;
    }
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "weighted_once",
                          .state = o,
                          .len = once_len,
                          .at = once_at,
                          .close = once_close };
    return 0;
}
