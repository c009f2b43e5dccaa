/* SPDX-License-Identifier: Apache-2.0 */
/* plan_io.c - threads that work and threads that wait. */
#include <string.h>

#include "base/cpu.h"
#include "base/registry.h"
#include "loader/parts.h"
#include "op/several.h"

#define DEFAULT_IO 8
#define IO_DEPTH 64
/* as many as the HTTP client asks for at once; their bytes are bounded too */
#define REMOTE_DEPTH 256

static uint32_t default_workers(void)
{
    uint32_t n = stk_cpu_share();

    return n > STK_MAX_WORKERS ? STK_MAX_WORKERS : n;
}

/* Sources that want driving, each once. */
static int add_driven(void *cookie, const stk_source *s, stk_error *err)
{
    stk_plan_io *p = cookie;
    uint32_t k = 0;

    if (!s || !s->drive)
        return 0;
    while (k < p->n_driven && p->driven[k] != s)
        k++;
    if (k == STK_MAX_DRIVEN)
        return stk_fail(err, STK_ELIMIT, "a loader drives at most %d sources", STK_MAX_DRIVEN);
    if (k == p->n_driven)
        p->driven[p->n_driven++] = s;
    return 0;
}

int stk_plan_io_make(stk_plan_io *out, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err)
{
    const stk_loader_options *o = in->o;

    out->inline_mode = o->num_workers == STK_NONE;
    out->workers = o->num_workers > 0 ? (uint32_t)o->num_workers : default_workers();
    out->workers_free = o->num_workers == 0;
    out->threads = o->io_threads ? o->io_threads : DEFAULT_IO;
    out->depth = so_far->data.remote ? REMOTE_DEPTH : IO_DEPTH;
    out->bound = so_far->gpu.device != NULL;
    out->node = out->bound ? stk_device_node(so_far->gpu.device) : -1;
    return stk_plan_sources(&so_far->data, add_driven, out, err);
}

/* The folder of the files that output i names; NULL: it names none. */
static const char *root_of(const stk_plan_chains *chains, uint32_t i)
{
    const stk_step *several = chains->chain[i].many.pictures;

    return several ? ((const stk_pictures_state *)several->state)->root : chains->open_root[i];
}

int stk_plan_io_named(stk_plan_io *out, const stk_plan_chains *chains, stk_error *err)
{
    for (uint32_t i = 0; i < chains->n_out; i++) {
        const char *root = root_of(chains, i);
        const stk_source *s = root && strstr(root, "://") ? stk_registry_source(root) : NULL;

        STK_TRY(add_driven(out, s, err));
        if (s && s->can & STK_SOURCE_REMOTE)
            out->depth = REMOTE_DEPTH;
    }
    return 0;
}
