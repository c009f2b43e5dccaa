/* SPDX-License-Identifier: Apache-2.0 */
/* need.c - arithmetic of a training run: what its GPUs want of storage, network, PCIe and cores,
 * and what it costs when they do not get it. */
#include <string.h>

#include <stoker/seeing.h>

#include "base/err.h"

#define HOURS_PER_MONTH 720.0

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Samples per second that the data's side can give; negative: nothing is known of it. */
static double supply(const stk_need *n)
{
    double rate = -1;

    if (n->loader_rate > 0)
        rate = n->loader_rate;
    if (n->storage_rate > 0 && n->sample_bytes > 0)
        rate = rate < 0 ? n->storage_rate / n->sample_bytes
                        : lesser(rate, n->storage_rate / n->sample_bytes);
    return rate;
}

static void money(const stk_need *n, stk_plan_figures *f)
{
    f->idle_cost_month = -1;
    if (n->gpu_hour > 0 && f->use_overlapped >= 0)
        f->idle_cost_month = n->gpu_hour * n->gpus * HOURS_PER_MONTH * (1 - f->use_overlapped);
}

static void use(const stk_need *n, stk_plan_figures *f)
{
    double have = supply(n), compute = 1 / f->samples_rate;

    f->use_overlapped = f->use_serial = -1;
    if (have <= 0)
        return;
    f->use_overlapped = lesser(1, have / f->samples_rate);
    f->use_serial = compute / (compute + 1 / have);
}

int stk_plan_need(const stk_need *in, stk_plan_figures *out, stk_error *err)
{
    stk_need n = { .batch = 1, .gpus = 1 };
    stk_plan_figures f = { .size = out->size };
    double have;

    memcpy(&n, in, in->size && in->size < sizeof n ? in->size : sizeof n);
    n.batch = n.batch > 0 ? n.batch : 1;
    n.gpus = n.gpus > 0 ? n.gpus : 1;
    if (n.step_s <= 0 && n.rate <= 0)
        return stk_fail(err, STK_EINVAL,
                        "how fast is the model? give the time of a step or its samples per second");
    f.samples_rate = n.gpus * (n.step_s > 0 ? n.batch / n.step_s : n.rate);
    f.steps_rate = f.samples_rate / (n.batch * n.gpus);
    f.storage_rate = n.sample_bytes > 0 ? f.samples_rate * n.sample_bytes : -1;
    f.link_rate = n.row_bytes > 0 ? f.samples_rate / n.gpus * n.row_bytes : -1;
    f.link_s = n.row_bytes > 0 && n.link_rate > 0 ? n.batch * n.row_bytes / n.link_rate : -1;
    f.cores = n.load_s > 0 ? f.samples_rate * n.load_s : -1;
    f.cache_bytes = n.samples > 0 && n.sample_bytes > 0 ? n.samples * n.sample_bytes : -1;
    have = supply(&n);
    f.epoch_s = n.samples > 0
                    ? n.samples / (have > 0 ? lesser(have, f.samples_rate) : f.samples_rate)
                    : -1;
    use(&n, &f);
    money(&n, &f);
    memcpy(out, &f, out->size && out->size < sizeof f ? out->size : sizeof f);
    return 0;
}
