/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose_say.c - a cause in words, with what to do about it as a command or a line of Python. */
#include <stdio.h>

#include "tools/diagnose.h"

typedef struct speech {
    const stk_seen *s;
    const char *data;
    int foreign;
    const char *function;
    stk_diagnosis *out;
} speech;

static double percent(double a, double b)
{
    return b > 0 ? 100 * a / b : 0;
}

static unsigned count(double v)
{
    return v > 0 ? (unsigned)(v + 0.5) : 0;
}

#define REMEDY(p, ...) snprintf((p)->out->remedy, sizeof(p)->out->remedy, __VA_ARGS__)

/* ---- what to do ---- */

static void for_reads(const speech *p, int remote)
{
    if (p->foreign && remote)
        REMEDY(p, "keep the data on a local disk, or load it with stoker.Loader(..., store=...)");
    else if (p->foreign)
        REMEDY(p, "stoker pack %s out/ (one large file is read faster than many small ones)",
               p->data);
    else if (remote)
        REMEDY(
            p,
            "shuffle=\"block\", which reads shards one after the other, or a copy on a local disk");
    else
        REMEDY(p, "a faster disk, or more memory to cache it: stoker pack %s out/ makes it smaller",
               p->data);
}

static void for_decode(const speech *p)
{
    const stk_sight *d = &p->s->d;

    if (p->s->engines)
        REMEDY(p, "decode=None and more workers, which decode too; smaller videos, or keyframes "
                  "that are closer");
    else if (p->foreign)
        REMEDY(p,
               "stoker.Loader, which decodes only what a crop shows; stoker bench %s says how fast",
               p->data);
    else if (d->jpegs > 0 && d->jpegs_seek < d->jpegs / 2)
        REMEDY(p, "stoker index %s --jpeg", p->data);
    else if (d->gpu > 0)
        REMEDY(p, "device=\"cuda\", or smaller pictures: stoker pack");
    else
        REMEDY(p, "store smaller pictures, or device=\"cuda\" where there is a GPU");
}

static void for_workers(const speech *p)
{
    const stk_sight *d = &p->s->d;

    if (d->workers > d->cores)
        REMEDY(p, "num_workers=%u, one per core", count(d->cores));
    else if (p->foreign)
        REMEDY(p, "num_workers=%u, persistent_workers=True", count(d->cores));
    else
        REMEDY(p, "num_workers=%u, or num_workers=None to have it chosen", count(d->cores));
}

static void for_ring(const speech *p)
{
    unsigned more = count(2 * p->s->d.slots > 4 ? 2 * p->s->d.slots : 4);

    if (p->foreign)
        REMEDY(p, "prefetch_factor=%u", more);
    else
        REMEDY(p, "prefetch=%u, or prefetch=None to have it chosen", more);
}

static void for_start(const speech *p)
{
    if (p->foreign)
        REMEDY(p,
               "persistent_workers=True, fewer workers, and imports out of the data set's module");
    else
        REMEDY(p, "stoker index %s, once, before training", p->data);
}

static void remedy(const speech *p)
{
    switch (p->out->cause) {
    case STK_CAUSE_MODEL:
        REMEDY(p, "a faster step: torch.compile, a lower precision, a larger batch");
        break;
    case STK_CAUSE_CONSUMER:
        REMEDY(p, "move work out of the loop: no .item() or logging in each step, transforms to "
                  "the loader");
        break;
    case STK_CAUSE_START: for_start(p); break;
    case STK_CAUSE_STORAGE: for_reads(p, 0); break;
    case STK_CAUSE_NETWORK: for_reads(p, 1); break;
    case STK_CAUSE_DECODE: for_decode(p); break;
    case STK_CAUSE_AUGMENT: REMEDY(p, "fewer or cheaper augmentations, or device=\"cuda\""); break;
    case STK_CAUSE_PYTHON:
        if (p->function)
            REMEDY(p, "an op compiled by Numba (stoker.op) or steps of the library in its place, "
                      "or batch_ops=");
        else
            REMEDY(p, "a chain in place of Python code: stoker.Loader(DATA, fields={...})");
        break;
    case STK_CAUSE_LOCK:
        REMEDY(p, "files and connections of each worker's own, and work outside of the lock");
        break;
    case STK_CAUSE_COLLATE: REMEDY(p, "a smaller dtype (to(f16)), or a cheaper collate_fn"); break;
    case STK_CAUSE_COPY: REMEDY(p, "a smaller dtype (to(f16), to(u8)), or decode=\"gpu\""); break;
    case STK_CAUSE_WORKERS: for_workers(p); break;
    case STK_CAUSE_RING: for_ring(p); break;
    case STK_CAUSE_MEMORY:
        REMEDY(p, "memory_limit=\"%.0fGB\"",
               p->s->d.memory_limit * 2e-9 > 1 ? p->s->d.memory_limit * 2e-9 : 1);
        break;
    case STK_CAUSE_NEIGHBOUR:
        REMEDY(p, "cores of your own: taskset, a cgroup, or another machine");
        break;
    default: p->out->remedy[0] = 0;
    }
}

/* ---- what was seen ---- */

static void stage_facts(const speech *p, const char *doing, char *text, size_t size)
{
    const stk_seen *s = p->s;
    double all = s->busy + s->d.idle_s, wait = percent(s->wait, s->steady);

    if (p->out->cause == STK_CAUSE_DECODE && s->engines)
        snprintf(text, size,
                 "clips wait for NVDEC %.0f %% of the time while workers rest for %.0f %%, the "
                 "loop waits for %.0f %%",
                 percent(s->d.clip_queue_s, s->steady), percent(s->d.idle_s, all), wait);
    else
        snprintf(text, size, "workers spend %.0f %% of their time %s, the loop waits for %.0f %%",
                 percent(s->d.busy_s[p->out->cause], all), doing, wait);
}

static void facts(const speech *p, const char *doing, char *text, size_t size)
{
    const stk_seen *s = p->s;
    const stk_sight *d = &s->d;
    double all = s->busy + d->idle_s, wait = percent(s->wait, s->steady);

    switch (p->out->cause) {
    case STK_CAUSE_NONE: snprintf(text, size, "no batch was taken yet"); break;
    case STK_CAUSE_MODEL:
        snprintf(text, size, "batches are ready, the loop waits for %.1f %% of the time", wait);
        break;
    case STK_CAUSE_CONSUMER:
        snprintf(text, size,
                 "batches are ready, and the loop's thread is on a core for %.0f %% of the step",
                 percent(d->consumer_cpu_s, s->compute));
        break;
    case STK_CAUSE_START:
        snprintf(text, size, "%.1f s of %.1f s went into opening and first batches", d->start_s,
                 d->at_s);
        break;
    case STK_CAUSE_RING:
        snprintf(text, size,
                 "the loop waits for %.0f %% of the time while workers rest for %.0f %%, with %u "
                 "batches ahead",
                 wait, percent(d->idle_s, all), count(d->slots));
        break;
    case STK_CAUSE_WORKERS:
        snprintf(text, size, "%u worker%s on %u core%s, the loop waits for %.0f %% of the time",
                 count(d->workers), count(d->workers) == 1 ? "" : "s", count(d->cores),
                 count(d->cores) == 1 ? "" : "s", wait);
        break;
    case STK_CAUSE_NEIGHBOUR:
        if (d->others_s < 0) /* the system does not say */
            snprintf(text, size, "workers wait for one of %u cores %.0f %% of their time",
                     count(d->cores), percent(d->delay_s, all));
        else
            snprintf(text, size,
                     "workers wait for a core %.0f %% of their time, others take %.1f of %u cores",
                     percent(d->delay_s, all), d->others_s / d->at_s, count(d->cores));
        break;
    case STK_CAUSE_COPY:
        snprintf(text, size, "copies to the GPU take %.0f %% of the time",
                 percent(d->copy_s, s->steady));
        break;
    default: stage_facts(p, doing, text, size);
    }
}

const char *stk_diagnose_function(const stk_diagnose_options *opt)
{
    return opt && opt->size >= sizeof *opt ? opt->function : NULL;
}

void stk_diagnosis_say(const stk_seen *s, const char *bound, const char *doing,
                       const stk_diagnose_options *opt, stk_diagnosis *out)
{
    speech p = { s, opt && opt->data ? opt->data : "DATA", opt && opt->foreign == STK_YES,
                 stk_diagnose_function(opt), out };
    char seen[240], then[300], gain[48];

    remedy(&p);
    stk_secrets_hide(out->remedy);
    if (out->gain_low < 0.95 * out->gain)
        snprintf(gain, sizeof gain, "%.2fx to %.2fx", out->gain_low, out->gain);
    else
        snprintf(gain, sizeof gain, "%.2fx", out->gain);
    facts(&p, doing, seen, sizeof seen);
    if (out->cause == STK_CAUSE_NONE)
        then[0] = 0;
    else if (out->cause == STK_CAUSE_MODEL)
        snprintf(then, sizeof then, " A faster loader would give %s; what helps: %s.", gain,
                 out->remedy);
    else
        snprintf(then, sizeof then, " Without that: %s. Try: %s.", gain, out->remedy);
    snprintf(out->sentence, sizeof out->sentence, "%s: %s.%s", bound, seen, then);
}
