/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_cases.c - a generator of causes and severities for stk_diagnose(), on real loaders.
 *
 * A seed draws what is wrong with a training loop and how badly; delays are injected by sleeping,
 * in a source, a codec, a batch stage or the consumer, and cores are taken by processes that burn
 * them.  The loop is run, diagnosed, and, with --gains, run once more without the cause: the
 * quotient of both times is what the diagnosis said it would be.
 *
 *     doctor_cases FROM TO [--gains]     seeds FROM .. TO - 1; exit status 1 when under 95 % are
 *                                        right
 *     doctor_cases                       one seed of every cause; a case that fails is tried once
 *                                        more, and not judged where other processes have the cores
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "seam.h"

#define SAMPLES 4000
#define RANKS 4
#define LOADED 0.4 /* of the cores, by other processes: what is said then is of them */
#define CORES 8    /* the loop behaves as on so many: what takes time sleeps */

typedef struct fault {
    stk_cause cause;
    double read_ms, row_ms, spike_ms, stage_ms, open_ms; /* sleeps */
    unsigned spike_every;                                /* rows */
    double row_cpu_ms;                                   /* burns */
    double step_ms, step_cpu_ms;                         /* the consumer's */
    int far, workers, prefetch, burners, steps;
    uint32_t rank;
} fault;

/* What rows, reads and stages do now.  Each rank has its own codec argument, so that one can be
 * slow. */
static fault now;
static _Atomic unsigned rows_made, opened;
static stk_dataset *near_data, *far_data;

static void sleep_ms(double ms)
{
    struct timespec t = { (time_t)(ms / 1e3), (long)(fmod(ms, 1e3) * 1e6) };

    if (ms > 0)
        nanosleep(&t, NULL);
}

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void burn_ms(double ms)
{
    double until = cpu_ms() + ms;

    while (ms > 0 && cpu_ms() < until) {}
}

/* ---- a source that is slow ---- */

typedef struct slow_file {
    stk_file base;
    int fd;
} slow_file;

static const stk_source disk, network;

static int slow_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    slow_file *f = calloc(1, sizeof *f);

    f->base.source = strncmp(o->url, "slownet", 7) ? &disk : &network;
    f->fd = open(strstr(o->url, "://") + 3, O_RDONLY);
    if (f->fd < 0) {
        free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file");
    }
    *out = &f->base;
    return 0;
}

static int slow_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    struct stat st;

    (void)err;
    memset(out, 0, sizeof *out);
    fstat(((slow_file *)f)->fd, &st);
    out->size = (uint64_t)st.st_size;
    return 0;
}

static int slow_read(stk_file *f, stk_io *io)
{
    ssize_t n;

    sleep_ms(now.read_ms);
    if (now.open_ms > 0 && !atomic_exchange(&opened, 1))
        sleep_ms(now.open_ms);
    n = pread(((slow_file *)f)->fd, io->dst, io->len, (off_t)io->offset);
    io->rc = n < 0 ? STK_EIO : 0;
    io->got = n < 0 ? 0 : (size_t)n;
    return io->rc;
}

static int slow_try(stk_file *f, stk_io *io)
{
    if (now.read_ms > 0 || (now.open_ms > 0 && !atomic_load(&opened)))
        return STK_PENDING;
    return slow_read(f, io);
}

static void slow_close(stk_file *f)
{
    close(((slow_file *)f)->fd);
    free(f);
}

static const stk_source disk = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof disk,
                                 .name = "slowdisk",
                                 .help = "sleeps",
                                 .scheme = "slowdisk",
                                 .open = slow_open,
                                 .ready = slow_ready,
                                 .read = slow_read,
                                 .try_read = slow_try,
                                 .close = slow_close };
static const stk_source network = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof network,
                                    .name = "slownet",
                                    .help = "sleeps",
                                    .scheme = "slownet",
                                    .open = slow_open,
                                    .ready = slow_ready,
                                    .read = slow_read,
                                    .try_read = slow_try,
                                    .close = slow_close,
                                    .can = STK_SOURCE_REMOTE };

/* ---- a codec and a stage that are slow ---- */

typedef struct work {
    int64_t rank;
} work;

static int work_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)err;
    ((work *)state)->rank = stk_args_i64(args, "rank");
    spec->kind = STK_KIND_VALUE;
    spec->out = STK_OUT_DENSE;
    spec->dtype = STK_F64;
    spec->ndim = 0;
    return 0;
}

static int work_parse(const void *state, const stk_codec_work *lent, stk_bytes in, void *dst,
                      stk_error *err)
{
    const work *w = state;
    double sum = (double)in.len;
    unsigned row = atomic_fetch_add(&rows_made, 1);

    (void)err;
    memcpy(dst, &sum, sizeof sum);
    if (now.cause == STK_CAUSE_RANK && w->rank != (int64_t)now.rank)
        return 0;
    sleep_ms(now.row_ms + (now.spike_every && row % now.spike_every == 0 ? now.spike_ms : 0));
    burn_ms(now.row_cpu_ms);
    return 0;
}

static const stk_arg work_args[] = { { "rank", STK_ARG_INT, "0", "whose" }, { 0 } };
static const stk_codec work_codec = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof work_codec,
                                      .name = "work",
                                      .help = "takes time",
                                      .args = work_args,
                                      .state_size = sizeof(work),
                                      .plan = work_plan,
                                      .parse = work_parse };

static int stage_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    (void)b;
    (void)t;
    (void)err;
    sleep_ms(now.stage_ms);
    return 0;
}

static const stk_stage stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof stage, .name = "sleep", .run = stage_run
};
static const stk_stage *const stages[] = { &stage };

/* ---- drawing a case ---- */

static uint64_t state;

static double unit(void)
{
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double between(double a, double b)
{
    return a + (b - a) * unit();
}

static const stk_cause causes[] = { STK_CAUSE_STORAGE, STK_CAUSE_NETWORK,  STK_CAUSE_DECODE,
                                    STK_CAUSE_COLLATE, STK_CAUSE_CONSUMER, STK_CAUSE_WORKERS,
                                    STK_CAUSE_RING,    STK_CAUSE_START,    STK_CAUSE_NEIGHBOUR,
                                    STK_CAUSE_RANK,    STK_CAUSE_MODEL };
#define N_CAUSES (sizeof causes / sizeof *causes)

/* Severity: how many times longer loading takes than a step.  Batches have 8 rows, reads 8
 * threads. */
static fault draw(uint64_t seed)
{
    fault f = { .workers = CORES, .prefetch = 6, .steps = 45 };
    double bad;

    state = seed * 0x2545F4914F6CDD1Du + 1;
    f.cause = causes[seed % N_CAUSES];
    f.step_ms = between(4, 8);
    bad = between(1.4, 4);
    switch (f.cause) {
    case STK_CAUSE_STORAGE:
    case STK_CAUSE_NETWORK:
        f.read_ms = bad * f.step_ms;
        f.far = f.cause == STK_CAUSE_NETWORK;
        break;
    case STK_CAUSE_DECODE: f.row_ms = bad * f.step_ms; break;
    case STK_CAUSE_COLLATE: f.stage_ms = bad * f.step_ms * CORES; break;
    case STK_CAUSE_CONSUMER:
        f.step_cpu_ms = f.step_ms * between(2, 4);
        f.step_ms /= 4;
        f.row_ms = f.step_ms * between(0.1, 0.5);
        break;
    case STK_CAUSE_WORKERS:
        f.workers = unit() < 0.5 ? 1 : 2;
        f.row_ms = bad * f.step_ms * f.workers / 8;
        break;
    case STK_CAUSE_RING:
        f.prefetch = 1;
        f.spike_every = 32;
        f.spike_ms = f.step_ms * between(4, 8);
        f.row_ms = f.step_ms / 8;
        break;
    case STK_CAUSE_START: f.open_ms = f.step_ms * f.steps * between(0.8, 3); break;
    case STK_CAUSE_NEIGHBOUR:
        f.workers = 1;
        f.steps = 40;
        f.burners = 1 + (int)(unit() * 3);
        f.row_cpu_ms = f.step_ms / 8 * between(0.75, 0.95);
        break;
    case STK_CAUSE_RANK:
        f.rank = (uint32_t)(unit() * RANKS);
        f.row_ms = bad * f.step_ms;
        break;
    default:
        f.row_ms = f.step_ms * between(0.1, 0.8);
        break; /* 8 rows on 8 workers: below a step */
    }
    return f;
}

/* The same loop with the cause removed, as the remedy would. */
static fault repaired(const fault *bad)
{
    fault f = *bad;

    f.read_ms = f.stage_ms = f.open_ms = f.step_cpu_ms = 0;
    f.burners = 0;
    if (f.cause == STK_CAUSE_DECODE || f.cause == STK_CAUSE_RANK)
        f.row_ms = 0;
    if (f.cause == STK_CAUSE_WORKERS)
        f.workers = CORES;
    if (f.cause == STK_CAUSE_RING)
        f.prefetch = 16;
    return f;
}

/* ---- running it ---- */

typedef struct loop {
    stk_loader *l;
    uint32_t rank;
    pthread_barrier_t *together; /* NULL: alone */
    stk_sight from, to;
} loop;

static void *run_loop(void *arg)
{
    loop *x = arg;
    stk_batch *b = NULL;
    stk_error err;

    for (int i = 0; i < now.steps; i++) {
        int rc = stk_loader_next(x->l, &b, 60000, &err);

        if (rc == STK_END)
            rc = stk_loader_next(x->l, &b, 60000, &err);
        seam_ok(rc, &err);
        stk_batch_release(&b);
        sleep_ms(now.step_ms);
        burn_ms(now.step_cpu_ms);
        if (x->together)
            pthread_barrier_wait(x->together);
    }
    x->to.size = sizeof x->to;
    stk_loader_sight(x->l, &x->to); /* while its thread is there */
    return NULL;
}

static void open_loop(loop *x, uint32_t rank)
{
    char chain[64];
    stk_output out = { "x", chain };
    stk_loader_options o = seam_options(8, now.workers);
    stk_dataset *ds = now.far ? far_data : near_data;

    snprintf(chain, sizeof chain, "from(bin) | work(rank=%u)", rank);
    o.outputs = &out;
    o.n_outputs = 1;
    o.prefetch = (uint32_t)now.prefetch;
    o.stages = stages;
    o.n_stages = 1;
    o.shuffle = STK_SHUFFLE_EXACT;
    *x = (loop){ .rank = rank, .from.size = sizeof x->from };
    x->l = seam_loader(&ds, 1, &o);
    stk_loader_sight(x->l, &x->from);
}

static int one_core(cpu_set_t *old)
{
    cpu_set_t one;

    sched_getaffinity(0, sizeof *old, old);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, old)) {
            CPU_SET(i, &one);
            break;
        }
    return sched_setaffinity(0, sizeof one, &one);
}

static pid_t burner(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        alarm(60);
        for (;;) {}
    }
    return pid;
}

/* Without the start, unless that is the cause. */
static double taken(const loop *x)
{
    double all = x->to.at_s - x->from.at_s;

    return now.cause == STK_CAUSE_START ? all : all - (x->to.start_s - x->from.start_s);
}

/* Share of the cores that are really there, by other processes: where it is large, the machine
 * itself is the neighbour, and says so. */
static double taken_by_others(const stk_sight *from, const stk_sight *to)
{
    double s = to->at_s - from->at_s;

    return s > 0 ? (to->others_s - from->others_s) / (s * (double)sysconf(_SC_NPROCESSORS_ONLN))
                 : 0;
}

static double others;

/* One run of `f`; its diagnosis, and how long it took. */
static double run(const fault *f, stk_diagnosis *out)
{
    uint32_t n = f->cause == STK_CAUSE_RANK ? RANKS : 1;
    int pinned = f->cause == STK_CAUSE_NEIGHBOUR;
    stk_sight from[RANKS], to[RANKS];
    pthread_barrier_t together;
    pthread_t thread[RANKS];
    loop x[RANKS];
    cpu_set_t old;
    pid_t pid[4] = { 0 };
    double took;

    now = *f;
    atomic_store(&rows_made, 1);
    atomic_store(&opened, 0);
    if (pinned)
        one_core(&old);
    for (int i = 0; i < f->burners; i++)
        pid[i] = burner();
    pthread_barrier_init(&together, NULL, n);
    for (uint32_t i = 0; i < n; i++)
        open_loop(&x[i], i);
    for (uint32_t i = 0; i < n; i++) {
        x[i].together = n > 1 ? &together : NULL;
        assert_int_equal(pthread_create(&thread[i], NULL, run_loop, &x[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < f->burners; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    took = taken(&x[0]);
    for (uint32_t i = 0; i < n; i++) {
        from[i] = x[i].from;
        to[i] = x[i].to;
        others = pinned ? 0 : taken_by_others(&from[i], &to[i]);
        to[i].cores = pinned ? 1 : CORES;
        stk_loader_close(&x[i].l);
    }
    if (pinned)
        sched_setaffinity(0, sizeof old, &old);
    pthread_barrier_destroy(&together);
    out->size = sizeof *out;
    if (n > 1)
        stk_diagnose_ranks(from, to, n, NULL, out);
    else
        stk_diagnose(from, to, NULL, out);
    return took;
}

/* ---- counting ---- */

typedef struct tally {
    unsigned n, right, blamed, n_gains, held;
    double error[1024];
} tally;

static int is_right(const fault *f, const stk_diagnosis *d)
{
    return d->cause == f->cause && (f->cause != STK_CAUSE_RANK || d->rank == f->rank);
}

/* Neither the model nor the loop's own code is the loader's. */
static int is_blamed(const fault *f, const stk_diagnosis *d)
{
    return f->cause == STK_CAUSE_MODEL && d->cause != STK_CAUSE_MODEL &&
           d->cause != STK_CAUSE_CONSUMER;
}

static int one_case(uint64_t seed, int gains, tally *t)
{
    fault f = draw(seed), good = repaired(&f);
    stk_diagnosis d, unused;
    double took = run(&f, &d), real; /* sets others */
    int right = is_right(&f, &d), loaded = others > LOADED;

    t->n++;
    t->right += (unsigned)right;
    t->blamed += (unsigned)is_blamed(&f, &d);
    printf("seed %llu: %s, said %s%s\n    %s\n", (unsigned long long)seed, stk_cause_name(f.cause),
           stk_cause_name(d.cause), right ? "" : "  WRONG", d.sentence);
    if (gains && right && f.cause != STK_CAUSE_MODEL) {
        real = took / run(&good, &unused);
        loaded |= others > LOADED; /* times of two loads have no quotient */
        if (!loaded) {
            t->error[t->n_gains++ % 1024] = fabs(d.gain / real - 1);
            t->held += real > 0.9 * d.gain_low && real < 1.1 * d.gain;
        }
        printf("    gain %.2f to %.2f, really %.2f: %.0f %% off%s\n", d.gain_low, d.gain, real,
               100 * fabs(d.gain / real - 1), loaded ? " (not counted: the cores were taken)" : "");
    }
    fflush(stdout);
    if (!right && loaded)
        printf("    not judged: other processes took %.0f %% of the cores\n", 100 * others);
    return (right && !is_blamed(&f, &d)) || loaded;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int sum_up(tally *t)
{
    printf("%u of %u right; the model was blamed on the loader %u times\n", t->right, t->n,
           t->blamed);
    if (t->n_gains) {
        unsigned n = t->n_gains < 1024 ? t->n_gains : 1024;

        qsort(t->error, n, sizeof *t->error, by_size);
        printf("gains: median error %.0f %%, worst %.0f %%, of %u; %u within their range\n",
               100 * t->error[n / 2], 100 * t->error[n - 1], n, t->held);
    }
    return t->right * 100 >= t->n * 95 && !t->blamed ? 0 : 1;
}

static void setup(void)
{
    stk_error err;

    seam_shards("a", 1, SAMPLES, 0);
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &disk, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &network, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &work_codec, &err), &err);
    near_data = seam_open("slowdisk://", "a-0.tar", NULL);
    far_data = seam_open("slownet://", "a-0.tar", NULL);
}

/* ---- a wait that is long is told ---- */

static char told[16384]; /* every line */

static void note_line(void *cookie, stk_log_level level, const char *line)
{
    (void)cookie;
    if (level == STK_LOG_WARN && strstr(line, "waited"))
        snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", line);
}

static void one_late_batch(const fault *f, const char *at, const char *by)
{
    stk_output out = { "x", "from(bin) | work" };
    stk_loader_options o = seam_options(8, 2);
    stk_batch *b = NULL;
    stk_error err;
    stk_loader *l;

    now = *f;
    told[0] = 0;
    o.outputs = &out;
    o.n_outputs = 1;
    o.log = note_line;
    l = seam_loader(&near_data, 1, &o);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    stk_batch_release(&b);
    stk_loader_close(&l); /* before `now` changes: its threads read it */
    now = (fault){ 0 };
    assert_non_null(strstr(told, "for batch 0 of epoch 0: row "));
    assert_non_null(strstr(told, "a-0.tar, offset "));
    if (!strstr(told, at) || !strstr(told, by))
        fail_msg("%s", told);
}

static void a_long_wait_is_told(void **unused)
{
    (void)unused;
    setenv("STOKER_WAIT_WARN", "0.2", 1);
    one_late_batch(&(fault){ .row_ms = 700 }, "stage ", "worker ");
    one_late_batch(&(fault){ .read_ms = 700 }, "stage fetch", "reads of the batch have not come");
    unsetenv("STOKER_WAIT_WARN");
}

static void every_cause_once(void **unused)
{
    static tally t;
    unsigned wrong = 0;

    (void)unused;
    for (uint64_t seed = 0; seed < N_CAUSES; seed++)
        /* the machine has other work too */
        wrong += !one_case(seed, 0, &t) && !one_case(seed, 0, &t) && !one_case(seed, 0, &t);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(a_long_wait_is_told),
                                               cmocka_unit_test(every_cause_once) };
    static tally t;
    int rc = 0;

    setup();
    if (argc < 3) {
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    } else {
        for (uint64_t seed = strtoull(argv[1], NULL, 10); seed < strtoull(argv[2], NULL, 10);
             seed++)
            one_case(seed, argc > 3 && !strcmp(argv[3], "--gains"), &t);
        rc = sum_up(&t);
    }
    stk_dataset_unref(&near_data);
    stk_dataset_unref(&far_data);
    return rc;
}
