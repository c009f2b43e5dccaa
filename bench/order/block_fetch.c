/* SPDX-License-Identifier: Apache-2.0 */
/* block_fetch.c - what the nodes of a cluster fetch with shuffle="block", shard by shard.
 *
 *     block_fetch [--check]
 *
 * The model is the worst that block shuffle may meet: a node fetches a shard whole when it first
 * needs a sample of it.  Three caches:
 *   done     a shard is kept until the node has had all that it takes of it in this epoch
 *   windows  a shard is dropped once none of the node's windows has touched it for two windows
 *   share    everything that epoch 1 fetched is still there in epoch 2
 * A sample is a unit of bytes.  --check: small clusters, and the bounds are asserted. */
#include "order/made.h"

typedef struct cluster {
    const char *name;
    uint32_t nodes, local, batch; /* ranks of a node, rows of a rank */
    uint64_t shards, per;         /* samples of a shard, half to one and a half times */
    uint32_t then;                /* nodes of epoch 2 in the last column */
} cluster;

typedef struct seen { /* of a node and a shard */
    uint32_t left;    /* samples to come in this epoch */
    uint32_t last;    /* the step that touched it last, from 1; 0: none */
} seen;

typedef struct figures {
    double done, windows, hits, then; /* bytes fetched by bytes; shares of requests */
    double held;                      /* the most that a node held, of its share (done) */
    uint64_t open;                    /* ... in shards */
} figures;

typedef struct sim {
    const cluster *c;
    made m;
    uint32_t *shard; /* of a sample */
    seen *seen;      /* [node][shard] */
    uint8_t *cached; /* [node][shard]: fetched in epoch 1 */
    uint64_t *held;  /* shards that a node holds */
    uint64_t idle;   /* steps of two windows */
} sim;

/* Calls fn(s, node, shard, step, cookie) for every sample of an epoch, in step order. */
typedef void (*touch_fn)(sim *s, uint32_t node, uint32_t shard, uint64_t step, figures *f);

static void each(sim *s, uint64_t epoch, uint32_t nodes, touch_fn fn, figures *f)
{
    stk_rank_split d = { .samples = s->m.n,
                         .world = nodes * s->c->local,
                         .local = s->c->local,
                         .global = (uint64_t)nodes * s->c->local * s->c->batch };

    for (uint64_t step = 0; step < stk_rank_split_steps(&d, 0); step++)
        for (d.rank = 0; d.rank < d.world; d.rank++) {
            uint64_t position[1024];
            stk_where where[1024];
            stk_share share;

            stk_rank_split_step(&d, 0, step, &share);
            if (share.filler)
                continue;
            stk_share_positions(&share, &s->m.order, 0, share.rows, position);
            s->m.order.at(s->m.order.state, epoch, position, share.rows, where);
            for (uint32_t i = 0; i < share.rows; i++)
                fn(s, d.rank / s->c->local, s->shard[where[i].sample], step, f);
        }
}

static uint64_t size_of(const sim *s, uint32_t shard)
{
    return s->m.start[shard + 1] - s->m.start[shard];
}

static void count(sim *s, uint32_t node, uint32_t shard, uint64_t step, figures *f)
{
    (void)step;
    (void)f;
    s->seen[node * s->c->shards + shard].left++;
}

static void fetch(sim *s, uint32_t node, uint32_t shard, uint64_t step, figures *f)
{
    uint64_t at = node * s->c->shards + shard;
    seen *x = &s->seen[at];

    if (!x->last) {
        f->done += (double)size_of(s, shard);
        s->held[node]++;
        s->cached[at] = 1;
    }
    if (!x->last || step + 1 - x->last > s->idle)
        f->windows += (double)size_of(s, shard);
    if (s->held[node] > f->open)
        f->open = s->held[node];
    x->last = (uint32_t)step + 1;
    s->held[node] -= !--x->left;
}

static void look(sim *s, uint32_t node, uint32_t shard, uint64_t step, figures *f)
{
    (void)step;
    f->hits += s->cached[node * s->c->shards + shard];
}

static figures run(const cluster *c)
{
    uint64_t global = (uint64_t)c->nodes * c->local * c->batch;
    uint32_t nodes = c->nodes > c->then ? c->nodes : c->then;
    sim s = { .c = c };
    figures f = { 0 }, other = { 0 };

    made_shards(&s.m, c->shards, c->per, 1);
    made_order(&s.m, stk_block_streams(global, s.m.n), STK_BLOCK_WINDOW);
    s.idle = 2 * STK_BLOCK_WINDOW / global + 2;
    s.shard = must(malloc(s.m.n * sizeof *s.shard));
    for (uint32_t k = 0; k < c->shards; k++)
        for (uint64_t i = s.m.start[k]; i < s.m.start[k + 1]; i++)
            s.shard[i] = k;
    s.seen = must(calloc(nodes * c->shards, sizeof *s.seen));
    s.cached = must(calloc(nodes * c->shards, 1));
    s.held = must(calloc(nodes, sizeof *s.held));
    each(&s, 0, c->nodes, count, &f);
    each(&s, 0, c->nodes, fetch, &f);
    each(&s, 1, c->nodes, look, &f);
    each(&s, 1, c->then, look, &other);
    f.done /= (double)s.m.n;
    f.windows /= (double)s.m.n;
    f.hits /= (double)s.m.n;
    f.then = other.hits / (double)s.m.n;
    f.held = (double)(f.open * c->nodes) / (double)c->shards;
    printf("%-20s %5u %6llu %7llu %7llu %8llu %7.3f %8.3f %6llu %6.0f%% %6.1f%% %5u %6.1f%%\n",
           c->name, c->nodes, (unsigned long long)global, (unsigned long long)s.m.streams,
           (unsigned long long)c->shards, (unsigned long long)s.m.n, f.done, f.windows,
           (unsigned long long)f.open, 100 * f.held, 100 * f.hits, c->then, 100 * f.then);
    fflush(stdout);
    made_close(&s.m);
    free(s.shard);
    free(s.seen);
    free(s.cached);
    free(s.held);
    return f;
}

int main(int argc, char **argv)
{
    static const cluster small[] = {
        { "4 shards a stream", 64, 8, 8, 16384, 32, 32 },
        { "32 shards a stream", 64, 8, 2, 32768, 16, 48 },
    };
    static const cluster all[] = {
        { "4 shards a stream", 64, 8, 32, 65536, 128, 32 },
        { "16 shards a stream", 64, 8, 8, 65536, 128, 32 },
        { "64 shards a stream", 64, 8, 2, 65536, 128, 48 },
        { "a shard a stream", 64, 8, 32, 16384, 512, 63 },
        { "global batch 14,400", 60, 8, 30, 65536, 128, 64 },
        { "global batch 131,072", 64, 8, 256, 65536, 128, 64 },
        { "8 nodes, ImageNet", 8, 8, 64, 1282, 1000, 4 },
        { "64 nodes, ImageNet", 64, 8, 64, 1282, 1000, 32 },
    };
    int check = argc > 1 && !strcmp(argv[1], "--check");

    printf("%-20s %5s %6s %7s %7s %8s %7s %8s %6s %7s %7s %5s %7s\n", "", "nodes", "batch",
           "streams", "shards", "samples", "done", "windows", "open", "held", "hits", "then",
           "hits");
    if (check) {
        figures few = run(&small[0]), many = run(&small[1]);

        if (few.done > 1.05 || many.done > 1.05 || many.windows > 1.05 || few.hits < 0.95 ||
            many.hits < 0.95) {
            fprintf(stderr, "more than 1.05 times the data, or less than 95 %% of hits\n");
            return 1;
        }
        return 0;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run(&all[i]);
    return 0;
}
