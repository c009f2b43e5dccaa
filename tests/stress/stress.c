/* SPDX-License-Identifier: Apache-2.0 */
/* stress.c - random loaders against a model: stress [SEED [SECONDS]].
 *
 * Two threads each open loaders with random workers, prefetch, batch sizes, ranks, sources,
 * stages and skip policy, and take, time out, seek, hold, release elsewhere, park, look less far
 * ahead and close at random.  What must come out follows from the order's arithmetic and from
 * content that is a function of the sample's number.  A watchdog ends a run that hangs. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "../seams/make_tar.h"
#include "lag.h"
#include "order/order.h"

#define SHARDS 3
#define PER 67
#define SIZE (SHARDS * PER) /* of one data set */
#define MAX_HELD 6

static char dir[256];
static uint64_t seed;
static stk_dataset *data[3][2]; /* plain, lag, cold; two data sets each */
static _Atomic uint64_t checked, loaders;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "stress seed %" PRIu64 ": %s:%d: %s\n", seed, __FILE__, __LINE__,      \
                    #cond);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static uint64_t next_random(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t *s, uint64_t n)
{
    return next_random(s) % n;
}

/* ---- the data: sample k of data set d ---- */

static int is_bad(uint64_t id)
{
    return id % 29 == 5;
}

static size_t bin_len(uint64_t id)
{
    return id % 13 == 4 ? 0 : (size_t)(id * 53 % 700);
}

static void make_shards(unsigned d)
{
    uint64_t id = d * SIZE;

    for (unsigned s = 0; s < SHARDS; s++) {
        char path[400], name[40], text[40];
        uint8_t bin[700];
        FILE *f;

        snprintf(path, sizeof path, "%s/%c-%u.tar", dir, 'a' + d, s);
        f = fopen(path, "wb");
        CHECK(f);
        for (unsigned i = 0; i < PER; i++, id++) {
            memset(bin, (int)(id & 255), sizeof bin);
            snprintf(name, sizeof name, "%06u.bin", (unsigned)id);
            tar_member(f, name, bin, bin_len(id));
            snprintf(name, sizeof name, "%06u.cls", (unsigned)id);
            snprintf(text, sizeof text, is_bad(id) ? "no number" : "%u", (unsigned)(id * 3));
            tar_member(f, name, text, strlen(text));
        }
        tar_end(f);
        CHECK(fclose(f) == 0);
    }
}

static void open_data(void)
{
    static const char *const schemes[] = { "", "lag://", "cold://" };
    stk_dataset_options o = { .size = sizeof o, .cache_dir = dir, .num_workers = 1 };

    for (int s = 0; s < 3; s++)
        for (int d = 0; d < 2; d++) {
            char url[400];
            const char *urls[] = { url };
            stk_error err;

            snprintf(url, sizeof url, "%s%s/%c-{0..%d}.tar", schemes[s], dir, 'a' + d, SHARDS - 1);
            if (stk_dataset_open(&data[s][d], urls, 1, &o, &err) < 0) {
                fprintf(stderr, "%s [%s]\n", err.message, err.shard);
                _exit(1);
            }
        }
}

/* ---- a thread that releases batches and ends stages ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    stk_batch *batch[64];
    stk_ticket *ticket[256];
    unsigned batches, tickets;
    int stop;
} helper = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static void *helper_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&helper.lock);
    while (!helper.stop || helper.batches || helper.tickets) {
        stk_batch *b = helper.batches ? helper.batch[--helper.batches] : NULL;
        stk_ticket *t = helper.tickets ? helper.ticket[--helper.tickets] : NULL;

        if (!b && !t) {
            pthread_cond_wait(&helper.more, &helper.lock);
            continue;
        }
        pthread_mutex_unlock(&helper.lock);
        stk_batch_release(&b);
        if (t)
            stk_ticket_done(t, 0, NULL);
        pthread_mutex_lock(&helper.lock);
    }
    pthread_mutex_unlock(&helper.lock);
    return NULL;
}

static void release_elsewhere(stk_batch **b)
{
    pthread_mutex_lock(&helper.lock);
    if (helper.batches < 64) {
        helper.batch[helper.batches++] = *b;
        *b = NULL;
    }
    pthread_cond_signal(&helper.more);
    pthread_mutex_unlock(&helper.lock);
    stk_batch_release(b);
}

static int later_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    int queued = 0;

    (void)state;
    (void)err;
    if (stk_batch_step(b) % 3 == 0)
        return 0;
    pthread_mutex_lock(&helper.lock);
    if (helper.tickets < 256) {
        helper.ticket[helper.tickets++] = t;
        queued = 1;
    }
    pthread_cond_signal(&helper.more);
    pthread_mutex_unlock(&helper.lock);
    return queued ? STK_PENDING : 0;
}

static const stk_stage later_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_stage), .name = "later", .run = later_run
};
static const stk_stage *const stages[] = { &later_stage, &later_stage };

/* ---- one loader and its model ---- */

typedef struct run {
    uint64_t rng;
    stk_loader_options o;
    stk_loader *l;
    uint32_t n_data;
    stk_sample_set set;
    stk_order order, stalling;
    stk_rank_split deal;
    uint64_t steps;              /* of a whole epoch */
    uint64_t epoch, from, taken; /* where the consumer must stand: taken since it came in at from */
    stk_batch *held[MAX_HELD];
    unsigned n_held;
    int kept;            /* a ledger is */
    uint64_t hands, sum; /* batches that it must have, and the sum of their ids */
} run;

/* The loader's own order, but its callers are held up now and then, wherever they stand. */
static void stalling_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                        stk_where *out)
{
    static _Atomic uint64_t calls;
    const run *r = state;
    uint64_t k = atomic_fetch_add(&calls, 1) * 0x9E3779B97F4A7C15u >> 32;

    if (k % 16 == 0)
        nanosleep(&(struct timespec){ 0, (long)(k % 500) * 1000 }, NULL);
    r->order.at(r->order.state, epoch, position, n, out);
}

static uint64_t stalling_len(const void *state)
{
    const run *r = state;

    return r->order.len(r->order.state);
}

static uint64_t id_at(const run *r, uint64_t epoch, uint64_t position)
{
    stk_where w;

    r->order.at(r->order.state, epoch, &position, 1, &w);
    return r->set.start[w.dataset] + w.sample;
}

/* The sample that stands at a position, after skipping; *valid 0 where another one stands in. */
static uint64_t model(const run *r, uint64_t epoch, uint64_t position, int *valid)
{
    uint64_t id = id_at(r, epoch, position);

    *valid = 1;
    for (uint32_t attempt = 1;
         is_bad(id) && r->o.n_outputs == 2 && r->o.on_error == STK_ON_ERROR_SKIP; attempt++) {
        *valid = 0;
        id = id_at(r, epoch, stk_substitute(r->o.seed, epoch, position, attempt, r->deal.samples));
    }
    return id;
}

static uint64_t step_of(const run *r)
{
    return (r->from + r->deal.global - 1) / r->deal.global + r->taken;
}

static uint64_t position_of(const run *r)
{
    uint64_t at = r->from + r->taken * r->deal.global;

    return at < r->deal.samples ? at : r->deal.samples;
}

static uint64_t left_of(const run *r)
{
    return stk_rank_split_steps(&r->deal, r->from) - r->taken;
}

static void check_batch(const run *r, const stk_batch *b)
{
    stk_tensor numbers, bin;
    stk_share share;

    stk_rank_split_step(&r->deal, r->from, r->taken, &share);
    CHECK(stk_batch_epoch(b) == r->epoch && stk_batch_step(b) == step_of(r));
    CHECK(stk_batch_rows(b) == share.rows);
    CHECK(r->o.n_outputs == 1 || stk_batch_dense(b, 1, &numbers) == 0);
    for (uint32_t i = 0; i < share.rows; i++) {
        int valid;
        uint64_t id = model(r, r->epoch, (share.filler ? 0 : share.start) + share.item + i, &valid);

        CHECK(stk_batch_ids(b)[i] == id);
        CHECK(stk_batch_valid(b)[i] == (valid && !share.filler));
        CHECK(r->o.n_outputs == 1 || ((int64_t *)numbers.data)[i] == (int64_t)(id * 3));
        CHECK(stk_batch_row(b, 0, i, &bin) == 0 && (size_t)bin.shape[0] == bin_len(id));
        for (int64_t k = 0; k < bin.shape[0]; k++)
            CHECK(((uint8_t *)bin.data)[k] == (uint8_t)id);
    }
    atomic_fetch_add(&checked, share.rows);
}

/* Raised: the lowest bad row of the batch, by name. */
static void check_error(const run *r, int rc, const stk_error *err)
{
    stk_share share;
    int valid;

    if (rc != STK_ECORRUPT)
        fprintf(stderr, "%s: %s\n", stk_code_name(rc), err->message);
    CHECK(rc == STK_ECORRUPT && r->o.on_error == STK_ON_ERROR_RAISE && r->o.n_outputs == 2);
    stk_rank_split_step(&r->deal, r->from, r->taken, &share);
    for (uint32_t i = 0; i < share.rows; i++) {
        uint64_t id = model(r, r->epoch, (share.filler ? 0 : share.start) + share.item + i, &valid);

        if (is_bad(id)) {
            CHECK(err->sample == id && err->shard[0] && err->key[0]);
            return;
        }
    }
    CHECK(!"a batch without a bad row failed");
}

static void ledger_folder(const run *r, char path[400])
{
    snprintf(path, 400, "%s/ledger-%p", dir, (const void *)r); /* one a thread */
}

/* What was handed out is what the ledger says. */
static void check_ledger(const run *r)
{
    stk_ledger_step s = { .size = sizeof s };
    uint64_t hands = 0, sum = 0;
    stk_ledger *l = NULL;
    char path[400];
    stk_error err;
    int rc;

    if (!r->kept || !r->hands)
        return;
    ledger_folder(r, path);
    CHECK(stk_ledger_open(&l, path, &err) == 0);
    for (; (rc = stk_ledger_next(l, &s, &err)) == 0; hands++)
        for (uint32_t i = 0; i < s.rows; i++)
            sum += s.ids[i];
    CHECK(rc == STK_END && hands == r->hands && sum == r->sum);
    stk_ledger_close(&l);
}

static void open_run(run *r)
{
    static const stk_output outputs[] = { { "bin", "bytes" }, { "cls", "int" } };
    uint64_t lens[2] = { SIZE, SIZE };
    unsigned source = (unsigned)below(&r->rng, 3);
    stk_loader_options o = { .size = sizeof o, .outputs = outputs, .n_outputs = 2 };
    char path[400];
    stk_error err;

    o.n_outputs = 2 - (below(&r->rng, 3) == 0); /* bin alone is read straight into its row */
    r->n_data = 1 + (uint32_t)below(&r->rng, 2);
    o.batch_size = 1 + (uint32_t)below(&r->rng, below(&r->rng, 3) ? 16 : 300);
    o.num_workers = (int32_t)below(&r->rng, 9);
    o.num_workers = o.num_workers ? o.num_workers : STK_NONE;
    o.prefetch = 1 + (uint32_t)below(&r->rng, 4);
    o.io_threads = (uint32_t)below(&r->rng, 4);
    o.seed = next_random(&r->rng);
    o.shuffle = below(&r->rng, 4) ? STK_SHUFFLE_EXACT : STK_SHUFFLE_NONE;
    o.on_error = below(&r->rng, 4) ? STK_ON_ERROR_SKIP : STK_ON_ERROR_RAISE;
    o.world_size = 1 + (uint32_t)below(&r->rng, 5);
    o.rank = (uint32_t)below(&r->rng, o.world_size);
    if (below(&r->rng, 3) == 0) { /* of all ranks, and mostly not a multiple of them */
        o.global_batch_size = o.world_size + below(&r->rng, 60);
        o.batch_size = 0;
    }
    o.memory_limit = (512u << 10) << below(&r->rng, 6);
    o.n_stages = (uint32_t)below(&r->rng, 3);
    o.stages = stages;
    CHECK(stk_sample_set_init(&r->set, lens, r->n_data, &err) == 0);
    CHECK(stk_order_exact(&r->order, &r->set, o.seed, o.shuffle == STK_SHUFFLE_EXACT, &err) == 0);
    r->stalling = (stk_order){ .abi = STK_PLUGIN_ABI,
                               .size = sizeof(stk_order),
                               .name = "stalling",
                               .state = r,
                               .len = stalling_len,
                               .at = stalling_at };
    o.order = below(&r->rng, 2) ? &r->stalling : NULL;
    CHECK(stk_loader_open(&r->l, data[source], r->n_data, &o, &err) == 0);
    r->o = o;
    r->deal = (stk_rank_split){ .samples = (uint64_t)r->n_data * SIZE,
                                .global = o.global_batch_size
                                              ? o.global_batch_size
                                              : (uint64_t)o.batch_size * o.world_size,
                                .rank = o.rank,
                                .world = o.world_size };
    r->steps = stk_rank_split_steps(&r->deal, 0);
    CHECK(stk_loader_steps(r->l) == r->steps);
    r->epoch = r->from = r->taken = r->hands = r->sum = 0;
    r->kept = below(&r->rng, 3) == 0;
    ledger_folder(r, path);
    CHECK(!r->kept || stk_loader_ledger(r->l, path, 0, 0, 0, &err) == 0);
    atomic_fetch_add(&loaders, 1);
}

static void drop_held(run *r, unsigned keep)
{
    while (r->n_held > keep)
        release_elsewhere(&r->held[--r->n_held]);
}

/* A batch that failed comes again; one time in three it is left out. */
static void go_past(run *r)
{
    uint64_t epoch, step, from;
    stk_error err;

    stk_loader_where(r->l, &epoch, &step);
    CHECK(epoch == r->epoch);
    if (below(&r->rng, 3))
        return;
    from = stk_loader_position(r->l) + r->deal.global;
    r->from = from < r->deal.samples ? from : r->deal.samples;
    r->taken = 0;
    CHECK(stk_loader_resume(r->l, r->epoch, r->from, &err) == 0);
}

static void take(run *r)
{
    int timeout = below(&r->rng, 5) ? -1 : (int)below(&r->rng, 3);
    stk_batch *b = NULL;
    stk_error err;
    int rc = stk_loader_next(r->l, &b, timeout, &err);

    if (rc == STK_ETIMEOUT) {
        CHECK(timeout >= 0);
        return;
    }
    if (rc == STK_ELIMIT) { /* too many are held: by us, or by the helper for a moment more */
        while (r->n_held)
            stk_batch_release(&r->held[--r->n_held]);
        usleep(200);
        return;
    }
    if (rc == STK_END) {
        CHECK(!left_of(r));
        r->from = r->taken = 0;
        r->epoch++;
        return;
    }
    CHECK(left_of(r));
    if (rc < 0) {
        check_error(r, rc, &err);
        go_past(r);
        return;
    }
    check_batch(r, b);
    r->taken++;
    r->hands++;
    for (uint32_t i = 0; i < stk_batch_rows(b); i++)
        r->sum += stk_batch_ids(b)[i];
    if (r->n_held < MAX_HELD && below(&r->rng, 3) == 0)
        r->held[r->n_held++] = b;
    else if (below(&r->rng, 2))
        release_elsewhere(&b);
    else
        stk_batch_release(&b);
}

/* Put a shard out of the page cache, so that the plain source has reads to wait for too. */
static void chill(run *r)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/%c-%u.tar", dir, 'a' + (int)below(&r->rng, 2),
             (unsigned)below(&r->rng, SHARDS));
    fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* To a step, to any position, or to where it stands anyway. */
static void go(run *r)
{
    uint64_t how = below(&r->rng, 4), step = below(&r->rng, r->steps + 1);
    stk_error err;

    if (how == 0)
        r->from = position_of(r);
    else if (how == 1)
        r->from = step == r->steps ? r->deal.samples : step * r->deal.global;
    else
        r->from = below(&r->rng, r->deal.samples + 1);
    r->epoch = how ? below(&r->rng, 5) : r->epoch;
    r->taken = 0;
    if (how == 1)
        CHECK(stk_loader_seek(r->l, r->epoch, step, &err) == 0);
    else
        CHECK(stk_loader_resume(r->l, r->epoch, r->from, &err) == 0);
}

static void check_where(const run *r)
{
    uint64_t epoch, step;

    stk_loader_where(r->l, &epoch, &step);
    CHECK(epoch == r->epoch && (step == step_of(r) || !left_of(r)));
    CHECK(stk_loader_position(r->l) == position_of(r));
}

static void disturb(run *r)
{
    stk_stats st = { .size = sizeof st };
    stk_error err;

    switch (below(&r->rng, 8)) {
    case 0: go(r); break;
    case 1:
        if (r->o.num_workers != STK_NONE)
            CHECK(stk_loader_set_workers(r->l, 1 + (uint32_t)below(&r->rng, 8), &err) == 0);
        break;
    case 2: drop_held(r, (unsigned)below(&r->rng, MAX_HELD)); break;
    case 3:
        stk_loader_stats(r->l, &st);
        CHECK(st.memory <= st.memory_limit && st.memory_peak <= st.memory_limit);
        CHECK(st.ring_ready <= st.ring_open && st.ring_open <= st.slots);
        break;
    case 6:
        stk_loader_stats(r->l, &st);
        CHECK(stk_loader_set_ahead(r->l, 1 + (uint32_t)below(&r->rng, st.slots), &err) == 0);
        break;
    case 4:
    case 5: chill(r); break;
    default: check_where(r);
    }
}

static void *play(void *arg)
{
    run *r = calloc(1, sizeof *r);
    struct timespec now, end;
    const uint64_t *given = arg;

    r->rng = given[0];
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)given[1];
    do {
        uint64_t turns;

        chill(r);
        open_run(r);
        for (turns = below(&r->rng, 120); turns; turns--) {
            take(r);
            if (below(&r->rng, 8) == 0)
                disturb(r);
        }
        if (below(&r->rng, 2))
            drop_held(r, 0); /* else they outlive their loader */
        stk_loader_close(&r->l);
        check_ledger(r);
        r->order.close(r->order.state);
        drop_held(r, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    free(r);
    return NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 3, given[2][2];
    const char *tmp = getenv("TMPDIR");
    pthread_t thread[2], help;
    stk_error err;

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    printf("stress seed %" PRIu64 "\n", seed);
    fflush(stdout);
    alarm((unsigned)seconds + 60); /* a hang ends with SIGALRM */
    snprintf(dir, sizeof dir, "%s/stoker-stress-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir));
    CHECK(stk_plugin_add(STK_PLUGIN_SOURCE, &lag_source, &err) == 0);
    CHECK(stk_plugin_add(STK_PLUGIN_SOURCE, &cold_source, &err) == 0);
    make_shards(0);
    make_shards(1);
    open_data();
    atomic_store(&lag_fails, 1);
    CHECK(pthread_create(&help, NULL, helper_main, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        given[i][0] = seed * 2 + (uint64_t)i;
        given[i][1] = seconds;
        CHECK(pthread_create(&thread[i], NULL, play, given[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_lock(&helper.lock);
    helper.stop = 1;
    pthread_cond_signal(&helper.more);
    pthread_mutex_unlock(&helper.lock);
    pthread_join(help, NULL);
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < 2; d++)
            stk_dataset_unref(&data[s][d]);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("%" PRIu64 " loaders, %" PRIu64 " rows right\n", atomic_load(&loaders),
           atomic_load(&checked));
    return 0;
}
