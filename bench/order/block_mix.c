/* SPDX-License-Identifier: Apache-2.0 */
/* block_mix.c - how well shuffle="block" mixes, against an exact shuffle, on data sorted by class.
 *
 *     block_mix [--check]
 *
 * Classes of equal size are one after the other, in shards.  For batches of a rank and of all
 * ranks: how many classes one has, and chi-square of its counts by degrees of freedom (1 for a
 * sample drawn at random, less for a batch that is more even).  For the epoch: classes met in 64
 * global batches that follow each other; the mean distance between where a sample is and where
 * it stands, by n / 3, which is what a permutation drawn at random has; neighbours of one shard;
 * the correlation of two epochs' positions.  --check: small data, the default window, and class
 * balance is asserted to be within 5 % of the exact shuffle's. */
#include <math.h>

#include "order/made.h"

typedef struct data {
    const char *name;
    uint64_t shards, per, classes;
    uint32_t batch, world, local; /* rows of a rank, ranks, those of a node */
    uint64_t streams, window;     /* 0: the defaults */
} data;

typedef struct mixed {
    double kinds, chi;   /* of a rank's batch */
    double all, all_chi; /* of the global batch */
    double run;          /* kinds in 64 of them */
    double far, pairs, again;
} mixed;

typedef struct tally { /* counts of classes in a run of samples */
    uint32_t *count;
    uint64_t n, kinds, runs;
    double sum_kinds, sum_chi;
} tally;

static void add(tally *t, uint64_t cls)
{
    t->kinds += !t->count[cls]++;
    t->n++;
}

static void end(tally *t, uint64_t classes)
{
    double want = (double)t->n / (double)classes, chi = 0;

    for (uint64_t i = 0; i < classes; i++)
        chi += ((double)t->count[i] - want) * ((double)t->count[i] - want) / want;
    t->sum_chi += chi / (double)(classes - 1);
    t->sum_kinds += (double)t->kinds;
    t->runs++;
    t->n = t->kinds = 0;
    memset(t->count, 0, classes * sizeof *t->count);
}

/* Two epochs of whole global batches, as their ranks get them. */
static void batches(const data *d, const made *m, mixed *out)
{
    stk_rank_split deal = { .samples = m->n,
                            .global = (uint64_t)d->batch * d->world,
                            .world = d->world,
                            .local = d->local,
                            .drop_last = 1 };
    tally t[3] = { { 0 } };
    uint64_t position[1024], steps = stk_rank_split_steps(&deal, 0);
    stk_where where[1024];

    for (int i = 0; i < 3; i++)
        t[i].count = must(calloc(d->classes, sizeof *t[i].count));
    for (uint64_t at = 0; at < 2 * steps; at++) {
        for (deal.rank = 0; deal.rank < d->world; deal.rank++) {
            stk_share s;

            stk_rank_split_step(&deal, 0, at % steps, &s);
            stk_share_positions(&s, &m->order, 0, s.rows, position);
            m->order.at(m->order.state, at / steps, position, s.rows, where);
            for (uint32_t i = 0; i < s.rows; i++)
                for (int k = 0; k < 3; k++)
                    add(&t[k], where[i].sample * d->classes / m->n);
            end(&t[0], d->classes);
        }
        end(&t[1], d->classes);
        if (at % 64 == 63)
            end(&t[2], d->classes);
    }
    *out = (mixed){ .kinds = t[0].sum_kinds / (double)t[0].runs,
                    .chi = t[0].sum_chi / (double)t[0].runs,
                    .all = t[1].sum_kinds / (double)t[1].runs,
                    .all_chi = t[1].sum_chi / (double)t[1].runs,
                    .run = t[2].runs ? t[2].sum_kinds / (double)t[2].runs : NAN };
    for (int i = 0; i < 3; i++)
        free(t[i].count);
}

static uint64_t shard_of(const made *m, uint64_t sample)
{
    uint64_t lo = 0, hi = m->n_shards;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (m->start[mid] <= sample)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void distance(const made *m, mixed *out)
{
    double sum = 0, n = (double)m->n, mean = (n - 1) / 2, product = 0;
    uint64_t last = UINT64_MAX, alike = 0;

    for (uint64_t p = 0; p < m->n; p++) {
        uint64_t q, shard;
        stk_where w;

        m->order.at(m->order.state, 0, &p, 1, &w);
        q = m->order.find(m->order.state, 1, &w);
        shard = shard_of(m, w.sample);
        sum += fabs((double)p - (double)w.sample);
        product += ((double)p - mean) * ((double)q - mean);
        alike += shard == last;
        last = shard;
    }
    out->far = sum / n / (n / 3);
    out->pairs = (double)alike / n * (double)m->n_shards; /* 1 at random */
    out->again = product / n / (n * n / 12);
}

static mixed measure(const data *d, int exact)
{
    uint64_t global = (uint64_t)d->batch * d->world;
    static made m;
    mixed x;

    made_shards(&m, d->shards, d->per, 0);
    made_order(&m,
               exact        ? 0
               : d->streams ? d->streams
                            : stk_block_streams(global, m.n),
               d->window ? d->window : STK_BLOCK_WINDOW);
    batches(d, &m, &x);
    distance(&m, &x);
    printf("%-23s %6llu %7llu %7u %7.1f %6.3f %8.1f %6.3f %8.1f %7.3f %6.2f %7.3f\n",
           exact ? "  exact" : d->name, (unsigned long long)m.streams,
           (unsigned long long)(exact ? 0 : m.window), d->world, x.kinds, x.chi, x.all, x.all_chi,
           x.run, x.far, x.pairs, x.again);
    fflush(stdout);
    made_close(&m);
    return x;
}

static int within(double block, double exact)
{
    return block >= 0.95 * exact;
}

int main(int argc, char **argv)
{
    static const data small[] = { { "100 classes", 200, 100, 100, 64, 1, 1, 0, 0 },
                                  { "1000 classes", 400, 50, 1000, 128, 4, 4, 0, 0 } };
    static const data all[] = {
        { "ImageNet, 1 rank", 1282, 1000, 1000, 256, 1, 1, 0, 0 },
        { "ImageNet, 8 ranks", 1282, 1000, 1000, 256, 8, 8, 0, 0 },
        { "ImageNet, 8 nodes of 1", 1282, 1000, 1000, 256, 8, 1, 0, 0 },
        { "ImageNet, 8 nodes of 8", 1282, 1000, 1000, 256, 64, 8, 0, 0 },
        { "21k classes, 64 ranks", 14200, 1000, 21000, 64, 64, 8, 0, 0 },
        { "10 classes, 1 rank", 100, 500, 10, 128, 1, 1, 0, 0 },
        { "one shard", 1, 1000000, 1000, 256, 1, 1, 0, 0 },
        { "window 4 Ki", 1282, 1000, 1000, 256, 1, 1, 0, 4096 },
        { "window 256 Ki", 1282, 1000, 1000, 256, 1, 1, 0, 262144 },
        { "1024 streams", 1282, 1000, 1000, 256, 1, 1, 1024, 0 },
        { "64 streams", 1282, 1000, 1000, 256, 1, 1, 64, 0 },
        { "16 streams, 256 Ki", 1282, 1000, 1000, 256, 1, 1, 16, 262144 },
    };
    int check = argc > 1 && !strcmp(argv[1], "--check"), bad = 0;
    const data *of = check ? small : all;
    size_t n = check ? sizeof small / sizeof *small : sizeof all / sizeof *all;

    printf("%-23s %6s %7s %7s %7s %6s %8s %6s %8s %7s %6s %7s\n", "", "strms", "window", "ranks",
           "classes", "chi2", "global", "chi2", "64 steps", "moved", "pairs", "epochs");
    for (size_t i = 0; i < n; i++) {
        mixed block = measure(&of[i], 0), exact = measure(&of[i], 1);

        bad |= !within(block.all, exact.all) ||
               (of[i].world == of[i].local && !within(block.kinds, exact.kinds));
    }
    if (check && bad)
        fprintf(stderr, "class balance is not within 5 %% of an exact shuffle's\n");
    return check && bad;
}
