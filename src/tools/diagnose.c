/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.c - two sights of a loop become one sentence: what holds it up, what removing that would
 * give, and how.
 *
 * Operational analysis: in the time T the consumer computed for C and waited for the rest; N
 * workers were busy for B in all, so loading took B / N of wall time where it is spread over them.
 * A loop whose loading overlaps takes the longer of both, one that loads in its own thread takes
 * their sum.  Removing a cause changes one term, and the quotient is its gain at most.  A remedy
 * seldom removes all of it, and loading overlaps less where batches take turns to be slow: the
 * least that is gained is said too.  Waiting below 5 % of the time is never blamed on the
 * loader. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/diagnose.h"

#define WAIT_SHARE 0.05  /* of the time: below it the loader is not the limit */
#define START_SHARE 0.25 /* of the time: opening and first batches */
#define LONG_START 1.0   /* seconds without a first batch */
#define IDLE_SHARE 0.25  /* of the workers' time, while the consumer waits */
#define DELAY_SHARE 0.2  /* of the workers' time without a core */
#define OTHERS_SHARE 0.2 /* of the cores, by other processes */
#define CODE_SHARE 0.6   /* of the step on the consumer's core */
#define ENOUGH 0.8       /* of what removing the stage would give: the cheaper remedy is named */
#define COPY_SHARE 0.7   /* of the time */
#define CLIPS_SHARE 0.6  /* of the time, in which clips wait for an engine */

static const struct {
    const char *name, *bound, *doing;
} words[STK_CAUSES] = {
    [STK_CAUSE_NONE] = { "none", "nothing was seen", "" },
    [STK_CAUSE_MODEL] = { "model", "model-bound", "" },
    [STK_CAUSE_CONSUMER] = { "consumer", "bound by the loop's own code", "" },
    [STK_CAUSE_START] = { "start", "start-up", "" },
    [STK_CAUSE_STORAGE] = { "storage", "storage-bound", "reading" },
    [STK_CAUSE_NETWORK] = { "network", "network-bound", "reading over the network" },
    [STK_CAUSE_DECODE] = { "decode", "decode-bound", "decoding" },
    [STK_CAUSE_AUGMENT] = { "augmentation", "augmentation-bound", "augmenting" },
    [STK_CAUSE_PYTHON] = { "python", "bound by the data set's Python", "in the data set's Python" },
    [STK_CAUSE_COLLATE] = { "collate", "collate-bound", "putting batches together" },
    [STK_CAUSE_COPY] = { "copy", "copy-bound", "" },
    [STK_CAUSE_WORKERS] = { "workers", "bound by the number of workers", "" },
    [STK_CAUSE_RING] = { "ring", "bound by how far it reads ahead", "" },
    [STK_CAUSE_MEMORY] = { "memory", "bound by the memory limit", "waiting for memory" },
    [STK_CAUSE_NEIGHBOUR] = { "neighbour", "slowed by other processes on these cores", "" },
    [STK_CAUSE_RANK] = { "rank", "bound by one rank", "" },
    [STK_CAUSE_LOCK] = { "lock", "bound by a lock", "waiting for a lock that others hold" },
};

const char *stk_cause_name(stk_cause c)
{
    return (unsigned)c < STK_CAUSES ? words[c].name : "?";
}

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

static double share(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* ---- what happened between two moments ---- */

static double grown(double from, double to)
{
    return to < 0 ? -1 : at_least(to - at_least(from, 0), 0);
}

static stk_sight taken(const stk_sight *s)
{
    stk_sight n = { .sm_share = -1, .gpu_memory_share = -1, .others_s = -1, .consumer_cpu_s = -1 };

    if (s)
        memcpy(&n, s, s->size && s->size < sizeof n ? s->size : sizeof n);
    else
        n = (stk_sight){ 0 };
    return n;
}

/* Other processes may have been busy long before the loader was opened. */
static double others(const stk_sight *from, const stk_sight *to)
{
    return from ? grown(from->others_s, to->others_s) : -1;
}

void stk_seen_between(const stk_sight *from, const stk_sight *to, stk_seen *out)
{
    stk_sight a = taken(from), b = taken(to);
    stk_sight *d = &out->d;

    *d = b;
    d->at_s = grown(a.at_s, b.at_s);
    d->steps = grown(a.steps, b.steps);
    d->samples = grown(a.samples, b.samples);
    d->wait_s = grown(a.wait_s, b.wait_s);
    d->start_s = grown(a.start_s, b.start_s);
    d->consumer_cpu_s = grown(a.consumer_cpu_s, b.consumer_cpu_s);
    d->idle_s = grown(a.idle_s, b.idle_s);
    d->delay_s = grown(a.delay_s, b.delay_s);
    d->others_s = others(from, &b);
    d->copy_s = grown(a.copy_s, b.copy_s);
    d->clip_queue_s = grown(a.clip_queue_s, b.clip_queue_s);
    d->cold = grown(a.cold, b.cold);
    d->cache_hits = grown(a.cache_hits, b.cache_hits);
    d->cache_misses = grown(a.cache_misses, b.cache_misses);
    out->busy = 0;
    for (int i = 0; i < STK_CAUSES; i++) {
        d->busy_s[i] = grown(a.busy_s[i], b.busy_s[i]);
        out->busy += d->busy_s[i];
    }
    out->steady = at_least(d->at_s - d->start_s, 1e-9);
    out->wait = at_least(d->wait_s - d->start_s, 0);
    out->compute = at_least(out->steady - out->wait, 0);
    out->n = d->workers >= 1 ? d->workers : 1;
    out->serial = d->workers < 1;
    out->engines = d->clip_queue_s > CLIPS_SHARE * out->steady;
    out->loading = out->serial ? out->wait : out->busy / out->n;
}

/* ---- gains: how long the same steps would take without the cause ---- */

typedef struct range {
    double high, low;
} range;

/* The steps take `rest` at best, `most` at worst. */
static range gain_between(const stk_seen *s, double rest, double most)
{
    double high = at_least(share(s->steady, at_least(rest, s->steady * 0.01)), 1);
    double low = at_least(share(s->steady, at_least(most, s->steady * 0.01)), 1);

    return (range){ high, low < high ? low : high };
}

/* Of what loading takes then.  At worst half of the cause stays, or what is left does not
 * overlap. */
static range gain_of(const stk_seen *s, double loading)
{
    double sum = s->compute + loading, half = (at_least(s->loading, loading) + loading) / 2;

    if (s->serial)
        return gain_between(s, sum, s->compute + half);
    return gain_between(s, at_least(s->compute, loading), at_least(sum, half));
}

static range without(const stk_seen *s, stk_cause c)
{
    return gain_of(s, at_least(s->busy - s->d.busy_s[c], 0) / s->n);
}

/* As many workers as there are cores for; loading overlaps then. */
static range with_workers(const stk_seen *s)
{
    double n = at_least(s->d.cores, s->n), loading = s->busy / n;

    return gain_between(s, at_least(s->compute, loading), s->compute + loading);
}

static void blame(stk_diagnosis *out, stk_cause cause, range gain)
{
    out->cause = cause;
    out->gain = gain.high;
    out->gain_low = gain.low;
}

/* ---- the cause ---- */

/* Workers rest: the step sets the pace, and a little waiting is jitter. */
static int at_rest(const stk_seen *s)
{
    return !s->serial && s->d.idle_s >= IDLE_SHARE * (s->busy + s->d.idle_s);
}

static int not_the_loader(const stk_seen *s, stk_diagnosis *out)
{
    double code = s->d.consumer_cpu_s;

    if (share(s->wait, s->steady) >= (at_rest(s) ? 2 : 1) * WAIT_SHARE)
        return 0;
    blame(out, STK_CAUSE_MODEL, gain_between(s, s->compute, s->compute));
    if (code > CODE_SHARE * s->compute && !(s->d.sm_share > 0.5))
        blame(out, STK_CAUSE_CONSUMER,
              gain_between(s, at_least(s->compute - code, s->loading),
                           at_least(s->compute - code, 0) + s->loading));
    return 1;
}

static int from_outside(const stk_seen *s, stk_diagnosis *out)
{
    const stk_sight *d = &s->d;

    if (d->delay_s < DELAY_SHARE * (s->busy + d->idle_s) ||
        (d->others_s >= 0 && d->others_s < OTHERS_SHARE * d->cores * d->at_s))
        return 0;
    blame(out,
          d->workers > d->cores && d->others_s < OTHERS_SHARE * d->cores * d->at_s
              ? STK_CAUSE_WORKERS
              : STK_CAUSE_NEIGHBOUR,
          gain_of(s, at_least(s->busy - d->delay_s, 0) / s->n));
    return 1;
}

static stk_cause worst_stage(const stk_seen *s)
{
    stk_cause most = STK_CAUSE_STORAGE;

    for (int i = 0; i < STK_CAUSES; i++)
        if (s->d.busy_s[i] > s->d.busy_s[most])
            most = (stk_cause)i;
    return most;
}

/* Workers rest while the consumer waits: they are not let ahead.  Where letting them would give
 * little, they rest for another reason. */
static int not_let_ahead(stk_seen *s, stk_diagnosis *out)
{
    const stk_sight *d = &s->d;

    s->engines &= at_rest(s); /* else workers are what it waits for */
    if (!at_rest(s) || gain_of(s, s->loading).high < ENOUGH * without(s, worst_stage(s)).high)
        return s->engines = 0;
    blame(out,
          s->engines                                                         ? STK_CAUSE_DECODE
          : d->copy_s > COPY_SHARE * s->steady                               ? STK_CAUSE_COPY
          : d->slots_short > 0 || d->busy_s[STK_CAUSE_MEMORY] > s->busy / 10 ? STK_CAUSE_MEMORY
                                                                             : STK_CAUSE_RING,
          gain_of(s, s->loading));
    return 1;
}

/* More workers would wait as well. */
static int is_waiting(stk_cause c)
{
    return c == STK_CAUSE_STORAGE || c == STK_CAUSE_NETWORK || c == STK_CAUSE_MEMORY ||
           c == STK_CAUSE_LOCK;
}

static void by_stage(const stk_seen *s, stk_diagnosis *out)
{
    stk_cause most = worst_stage(s);
    range more = with_workers(s);

    blame(out, s->d.busy_s[most] > 0 ? most : STK_CAUSE_NONE, without(s, most));
    if (s->d.workers < s->d.cores && !is_waiting(most) && more.high > 1.05 &&
        more.high >= ENOUGH * out->gain)
        blame(out, STK_CAUSE_WORKERS, more);
}

static void find_cause(stk_seen *s, stk_diagnosis *out)
{
    const stk_sight *d = &s->d;

    out->share = share(d->wait_s, d->at_s);
    out->ceiling = share(d->steps, s->compute);
    out->gain = out->gain_low = 1;
    if (d->steps < 1 && d->wait_s < LONG_START) {
        out->cause = STK_CAUSE_NONE;
        return;
    }
    if (d->start_s > START_SHARE * d->at_s && d->start_s > s->wait) {
        blame(out, STK_CAUSE_START,
              (range){ share(d->at_s, s->steady), share(d->at_s, s->steady) });
        return;
    }
    if (!not_the_loader(s, out) && !from_outside(s, out) && !not_let_ahead(s, out))
        by_stage(s, out);
}

/* ---- figures beside what is usual ---- */

#define PLANNED_SHARE 0.02

static void check(stk_diagnosis *out, stk_check_line line)
{
    if (isfinite(line.value) && line.value >= 0 && out->n_checks < STK_MAX_CHECKS)
        out->check[out->n_checks++] = line;
}

static void checks(const stk_seen *s, stk_diagnosis *out)
{
    const stk_sight *d = &s->d;
    double steps = at_least(d->steps, 1), wait = 100 * share(s->wait, s->steady);
    double fetch = 1e3 * s->busy / steps, next = 1e6 * s->wait / steps;
    double reads = d->busy_s[STK_CAUSE_STORAGE] + d->busy_s[STK_CAUSE_NETWORK];
    double cpu = 100 * share(s->busy - reads - d->busy_s[STK_CAUSE_MEMORY], d->cores * d->at_s);
    double disk = 100 * share(reads, s->n * s->steady);
    double hits = 100 * share(d->cache_hits, d->cache_hits + d->cache_misses);
    double epoch = 100 * share(s->steady, s->compute); /* planned: steps that never wait */

    check(out, (stk_check_line){ "batch wait", "% of the step", "under 1", wait, wait < 1 });
    check(out, (stk_check_line){ "batch fetch", "ms of workers", "under 50", fetch, fetch < 50 });
    check(out, (stk_check_line){ "wait in next()", "us", "under 50", next, next < 50 });
    check(out, (stk_check_line){ "workers", "% of the cores", "at most 80", cpu, cpu <= 80 });
    check(out, (stk_check_line){ "reads", "% of the time", "at most 70", disk, disk <= 70 });
    if (s->compute > PLANNED_SHARE * s->steady) /* else there is no step to plan by */
        check(out, (stk_check_line){ "epoch time", "% of the plan's", "at most 105", epoch,
                                     epoch <= 105 });
    if (d->cache_hits + d->cache_misses > 0)
        check(out, (stk_check_line){ "cache hits", "%", "at least 95", hits, hits >= 95 });
    check(out, (stk_check_line){ "GPU", "% of SM time", "at least 80", 100 * d->sm_share,
                                 d->sm_share >= 0.8 });
    check(out, (stk_check_line){ "GPU memory", "%", "at least 60", 100 * d->gpu_memory_share,
                                 d->gpu_memory_share >= 0.6 });
}

void stk_diagnose(const stk_sight *from, const stk_sight *to, const stk_diagnose_options *opt,
                  stk_diagnosis *out)
{
    uint32_t size = out->size;
    stk_diagnosis n = { .size = size };
    const char *function = stk_diagnose_function(opt);
    stk_seen s;

    stk_seen_between(from, to, &s);
    find_cause(&s, &n);
    checks(&s, &n);
    if (n.cause == STK_CAUSE_PYTHON && function) {
        char doing[160];

        snprintf(doing, sizeof doing, "in call(%.140s)", function);
        stk_diagnosis_say(&s, "bound by Python", doing, opt, &n);
    } else if (n.cause == STK_CAUSE_DECODE && s.engines) {
        stk_diagnosis_say(&s, "bound by the GPU's video decoders", "", opt, &n);
    } else {
        stk_diagnosis_say(&s, words[n.cause].bound, words[n.cause].doing, opt, &n);
    }
    memcpy(out, &n, size && size < sizeof n ? size : sizeof n);
}

/* ---- ranks ---- */

static double wait_of(const stk_sight *from, const stk_sight *to, uint32_t i)
{
    stk_seen s;

    stk_seen_between(from ? &from[i] : NULL, &to[i], &s);
    return share(s.wait, s.steady);
}

/* In every step all wait for the slowest.  The slow one waits for its data, the others for it,
 * which looks like computing: so its share of waiting stands out. */
void stk_diagnose_ranks(const stk_sight *from, const stk_sight *to, uint32_t n,
                        const stk_diagnose_options *opt, stk_diagnosis *out)
{
    uint32_t worst = 0, size = out->size, others_high = 0;
    double high = -1, w;
    stk_diagnosis d = { .size = sizeof d };

    for (uint32_t i = 0; i < n; i++)
        if ((w = wait_of(from, to, i)) > high) {
            high = w;
            worst = i;
        }
    for (uint32_t i = 0; i < n; i++)
        others_high += i != worst && wait_of(from, to, i) > at_least(high / 2, WAIT_SHARE);
    stk_diagnose(from ? &from[worst] : NULL, &to[worst], opt, &d);
    d.rank = worst;
    if (n > 1 && high >= WAIT_SHARE && 2 * others_high < n - 1 && d.cause != STK_CAUSE_START) {
        char why[sizeof d.sentence];

        memcpy(why, d.sentence, sizeof why);
        d.cause = STK_CAUSE_RANK;
        snprintf(d.sentence, sizeof d.sentence, "rank %u of %u holds the others up: %.400s", worst,
                 n, why);
    }
    d.size = size;
    memcpy(out, &d, size && size < sizeof d ? size : sizeof d);
}
