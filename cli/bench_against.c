/* SPDX-License-Identifier: Apache-2.0 */
/* bench_against.c - stoker bench --against torch: the same data and chains by PyTorch's DataLoader.
 *
 * The other side is python/stoker/_against.py in a Python of its own.  Rounds take turns, because a
 * machine is not as fast at every moment, and the best of each side counts.  Both count from the
 * first batch on. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "page.h"

#define ROUNDS 5
#define DEFAULT_SECONDS 1.0

static const char program[] = "import sys\n"
                              "try:\n"
                              "    from stoker._against import main\n"
                              "except ImportError as e:\n"
                              "    print(f'missing {sys.executable}: {e}')\n"
                              "else:\n"
                              "    main()\n";

typedef struct other { /* the other side */
    pid_t pid;
    FILE *to, *from;
    char what[200]; /* what it compares: "torch 2.9, Pillow 12" */
} other;

typedef struct match {
    double seconds, ours[ROUNDS], theirs[ROUNDS], best_ours, best_theirs;
    uint32_t batch_size;
    int workers, shuffle;
    char sentence[400];
} match;

static void run_python(const cli_args *a, const int in[2], const int out[2])
{
    const char *python = getenv("STOKER_PYTHON");

    python = python && *python ? python : "python3";
    if (dup2(in[0], 0) >= 0 && dup2(out[1], 1) >= 0) {
        for (int i = 0; i < 2; i++) {
            close(in[i]);
            close(out[i]);
        }
        if (cli_value(a, "cache-dir"))
            setenv("STOKER_CACHE", cli_value(a, "cache-dir"), 1);
        execlp(python, python, "-c", program, (char *)NULL);
    }
    /* the parent's pipe */
    dprintf(STDOUT_FILENO, "missing %s could not be run: %s\n", python, strerror(errno));
    _exit(127);
}

static int start(other *o, const cli_args *a)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };

    fflush(stdout);
    o->pid = pipe(in) || pipe(out) ? -1 : fork();
    if (o->pid == 0)
        run_python(a, in, out);
    close(in[0]);
    close(out[1]);
    o->to = o->pid > 0 ? fdopen(in[1], "w") : NULL;
    o->from = o->pid > 0 ? fdopen(out[0], "r") : NULL;
    if (o->to && o->from)
        return 0;
    cli_usage("the other side could not be started: %s", strerror(errno));
    return CLI_FAILED;
}

static void stop(other *o)
{
    if (o->to)
        fclose(o->to); /* which ends it */
    if (o->from)
        fclose(o->from);
    while (o->pid > 0 && waitpid(o->pid, NULL, 0) < 0 && errno == EINTR) {}
}

/* A line of its answer without the end of the line; 0: it ended. */
static int hear(other *o, char *line, size_t size)
{
    if (!fgets(line, (int)size, o->from))
        return 0;
    line[strcspn(line, "\n")] = 0;
    return 1;
}

static void put_job(other *o, const cli_args *a, const bench_result *r, const match *m)
{
    cli_json j = { .to = o->to, .lines = 1 };

    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "urls", '[');
    for (size_t i = 0; i < cli_words(a); i++)
        cli_json_text(&j, NULL, cli_word_list(a)[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "outputs", '{');
    for (uint32_t i = 0; i < r->n_outputs; i++)
        cli_json_text(&j, r->outputs[i].name, r->outputs[i].chain);
    cli_json_close(&j, '}');
    cli_json_count(&j, "batch_size", m->batch_size);
    cli_json_count(&j, "workers", (uint64_t)m->workers);
    cli_json_bool(&j, "shuffle", m->shuffle);
    cli_json_real(&j, "seconds", m->seconds);
    cli_json_close(&j, '}');
    fflush(o->to);
}

/* What it said to the job.  0 or an exit code (said why). */
static int greet(other *o)
{
    char line[1000];

    if (!hear(o, line, sizeof line))
        snprintf(line, sizeof line, "failed it ended without a word");
    if (!strncmp(line, "ok ", 3)) {
        snprintf(o->what, sizeof o->what, "%.190s", line + 3);
        return 0;
    }
    if (!strncmp(line, "unsaid ", 7))
        return cli_usage(
            "--against torch can't say this in PyTorch and Pillow: %s; give --field with image, "
            "resize, center_crop, random_resized_crop, hflip, normalize and to",
            line + 7);
    if (!strncmp(line, "missing ", 8))
        cli_usage("--against torch needs a Python with stoker, torch and Pillow (%s); "
                  "STOKER_PYTHON names "
                  "another one",
                  line + 8);
    else
        cli_usage("--against torch: the other side failed: %s",
                  strchr(line, ' ') ? strchr(line, ' ') + 1 : line);
    return CLI_FAILED;
}

static int their_round(other *o, double *rate)
{
    char line[200];
    double samples, seconds;

    fputs("go\n", o->to);
    fflush(o->to);
    if (hear(o, line, sizeof line) && sscanf(line, "round %lf %lf", &samples, &seconds) == 2 &&
        seconds > 0) {
        *rate = samples / seconds;
        return 0;
    }
    cli_usage("--against torch: the other side ended in the middle of a round");
    return CLI_FAILED;
}

static int our_round(const cli_args *a, double seconds, double *rate)
{
    bench_result r;
    int rc = bench_run(&(bench_how){ .args = a, .seconds = seconds }, &r);
    double first;

    if (rc)
        return rc;
    first = r.batches ? (double)r.samples / (double)r.batches : 0;
    *rate = r.seconds > r.first_batch ? ((double)r.samples - first) / (r.seconds - r.first_batch)
                                      : 0;
    bench_free(&r);
    return 0;
}

static int play(const cli_args *a, other *o, match *m)
{
    cli_bar bar;
    int rc = 0;

    cli_bar_open(&bar, "comparing");
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        rc = our_round(a, m->seconds, &m->ours[i]);
        if (rc == 0)
            rc = their_round(o, &m->theirs[i]);
        m->best_ours = m->ours[i] > m->best_ours ? m->ours[i] : m->best_ours;
        m->best_theirs = m->theirs[i] > m->best_theirs ? m->theirs[i] : m->best_theirs;
        cli_bar_draw(&bar, (double)(i + 1) / ROUNDS, "");
    }
    cli_bar_close(&bar);
    return rc;
}

static double ratio_of(const match *m)
{
    return m->best_theirs > 0 ? m->best_ours / m->best_theirs : 0;
}

static void conclude(match *m, const other *o)
{
    char ours[32], theirs[32];
    double ratio = ratio_of(m);

    cli_many(ours, (uint64_t)(m->best_ours + 0.5));
    cli_many(theirs, (uint64_t)(m->best_theirs + 0.5));
    if (ratio >= 1)
        snprintf(
            m->sentence, sizeof m->sentence,
            "Stoker loads %.2fx as fast: %s samples/s, and torch's DataLoader %s (%s, %d workers).",
            ratio, ours, theirs, o->what, m->workers);
    else
        snprintf(
            m->sentence, sizeof m->sentence,
            "torch's DataLoader loads %.2fx as fast: %s samples/s, and Stoker %s (%s, %d workers).",
            ratio > 0 ? 1 / ratio : 0, theirs, ours, o->what, m->workers);
}

static void print(const match *m)
{
    char ours[32], theirs[32];

    cli_put(stdout,
            "samples/s, rounds of %.3g s in turns, batches of %u, from the first batch "
            "on\n%10s%12s%12s\n",
            m->seconds, m->batch_size, "round", "stoker", "torch");
    for (int i = 0; i < ROUNDS; i++)
        cli_put(stdout, "%10d%12s%12s\n", i + 1, cli_many(ours, (uint64_t)(m->ours[i] + 0.5)),
                cli_many(theirs, (uint64_t)(m->theirs[i] + 0.5)));
    cli_put(stdout, "%10s%12s%12s\n\n%s\n", "best", cli_many(ours, (uint64_t)(m->best_ours + 0.5)),
            cli_many(theirs, (uint64_t)(m->best_theirs + 0.5)), m->sentence);
}

static void print_json(const match *m, const other *o)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "against", o->what);
    cli_json_count(&j, "batch_size", m->batch_size);
    cli_json_count(&j, "torch_workers", (uint64_t)m->workers);
    cli_json_open(&j, "rounds", '[');
    for (int i = 0; i < ROUNDS; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_real(&j, "stoker_samples_per_s", m->ours[i]);
        cli_json_real(&j, "torch_samples_per_s", m->theirs[i]);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_real(&j, "stoker_samples_per_s", m->best_ours);
    cli_json_real(&j, "torch_samples_per_s", m->best_theirs);
    cli_json_real(&j, "ratio", ratio_of(m));
    cli_json_text(&j, "sentence", m->sentence);
    cli_json_close(&j, '}');
}

static int write_page(const cli_args *a, const match *m)
{
    page_bar best[] = { { "stoker", m->best_ours }, { "torch", m->best_theirs } };
    page p;
    int rc = page_open(&p, a, "stoker bench --against torch");

    if (rc)
        return rc;
    page_text(&p, "say", m->sentence);
    page_bars(&p, "the best round of each", best, 2, "samples/s");
    return page_close(&p, 1);
}

/* Our first round warms up; what it found out says what the other side has to do. */
static int prepare(const cli_args *a, other *o, match *m)
{
    stk_loader_options given = { .size = sizeof given };
    bench_result r;
    int rc = cli_loader_options(a, &given);

    if (rc == 0)
        rc = bench_run(&(bench_how){ .args = a, .seconds = m->seconds / 4 }, &r);
    if (rc)
        return rc;
    m->batch_size = r.batch_size;
    m->shuffle = given.shuffle != 0;
    m->workers = given.num_workers > 0   ? given.num_workers
                 : given.num_workers < 0 ? 0
                                         : (int)r.to.cores;
    rc = start(o, a);
    if (rc == 0) {
        put_job(o, a, &r, m);
        rc = greet(o);
    }
    bench_free(&r);
    return rc;
}

int bench_against(const cli_args *a)
{
    match m = { .seconds = DEFAULT_SECONDS };
    other o = { .pid = 0 };
    int rc = cli_number(a, "seconds", 0.02, 1e6, &m.seconds);

    if (strcmp(cli_value(a, "against"), "torch") != 0)
        return cli_usage("--against torch is what there is, not '%s'", cli_value(a, "against"));
    if (cli_value(a, "epochs") || cli_value(a, "sweep"))
        return cli_usage(
            "--against goes with --seconds (of a round), not with --epochs or --sweep");
    signal(SIGPIPE, SIG_IGN); /* the other side may end; its answer says why */
    if (rc == 0)
        rc = prepare(a, &o, &m);
    if (rc == 0)
        rc = play(a, &o, &m);
    stop(&o);
    if (rc)
        return rc;
    conclude(&m, &o);
    if (cli_value(a, "json"))
        print_json(&m, &o);
    else
        print(&m);
    return write_page(a, &m);
}
