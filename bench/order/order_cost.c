/* SPDX-License-Identifier: Apache-2.0 */
/* order_cost.c - nanoseconds an index: what stands at a rank's rows of a batch, dealing included.
 *
 *     order_cost [ROUNDS]
 *
 * Batches of 256 rows, rank 3 of 8, at places spread over the epoch.  Best and median of ROUNDS
 * (default 21) runs,
 * in processor time, of 256 batches each. */
#include "limits/timing.h"
#include "order/made.h"

#define ROWS 256
#define BATCHES 256

static uint64_t sum; /* keeps the work */

/* Of this thread: others use the machine too. */
static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double run(const made *m, uint64_t round)
{
    stk_rank_split d = { .samples = m->n, .global = ROWS * 8, .world = 8, .rank = 3 };
    uint64_t steps = stk_rank_split_steps(&d, 0);
    double from = cpu_ns();

    for (uint64_t b = 0; b < BATCHES; b++) {
        uint64_t position[ROWS];
        stk_where where[ROWS];
        stk_share s;

        stk_rank_split_step(&d, 0, stk_mix64(round * BATCHES + b) % (steps - 1), &s);
        for (uint32_t row = 0; row < s.rows; row += 32) { /* as workers claim them */
            stk_share_positions(&s, &m->order, row, 32, position);
            m->order.at(m->order.state, round, position, 32, where);
            for (uint32_t i = 0; i < 32; i++)
                sum += where[i].sample;
        }
    }
    return (cpu_ns() - from) / (BATCHES * ROWS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *name, made *m, unsigned rounds)
{
    double ns[1000];

    for (unsigned i = 0; i < rounds; i++)
        ns[i] = run(m, i);
    qsort(ns, rounds, sizeof *ns, by_value);
    printf("%-24s %16llu %10llu %8llu %8.1f %8.1f\n", name, (unsigned long long)m->n,
           (unsigned long long)m->n_shards, (unsigned long long)m->streams, ns[0], ns[rounds / 2]);
    made_close(m);
}

int main(int argc, char **argv)
{
    static const struct {
        uint64_t n, per;
    } of[] = { { 1281167, 1000 }, { (1ull << 30) + 1, 8192 }, { (1ull << 40) - 1, 1u << 22 } };
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    static made m;

    if (rounds < 1 || rounds > 1000)
        return 2;
    printf("%-24s %16s %10s %8s %8s %8s\n", "order", "samples", "shards", "streams", "best ns",
           "median");
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            static const uint64_t streams[] = { 0, 2048, 16384 };

            made_shards(&m, (of[i].n + of[i].per - 1) / of[i].per, of[i].per, 0);
            m.n = m.start[m.n_shards] = of[i].n;
            made_order(&m, streams[k], STK_BLOCK_WINDOW);
            measure(k ? "block" : "exact", &m, (unsigned)rounds);
        }
    return sum == 1;
}
