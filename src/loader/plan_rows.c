/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rows.c - how rows are made: what follows from all other parts. */
#include "base/cpu.h"
#include "loader/parts.h"

#define LEARN_MEMORY ((uint64_t)64 << 20) /* of seek points found, all data sets together */

/* learn_jpeg: where seek points that are found go. */
static int plan_learn(stk_plan_rows *out, const stk_plan_data *data, stk_error *err)
{
    out->learn = stk_zalloc(data->n, sizeof *out->learn);
    if (!out->learn)
        return stk_fail_nomem(err, data->n * sizeof *out->learn);
    for (uint32_t i = 0; i < data->n; i++) {
        const stk_dataset *ds = data->set[i];
        char path[1290];

        if (ds->arrays || (ds->seek && stk_seekfile_whole(ds->seek)))
            continue;
        stk_seek_path(ds->index_path, path, sizeof path);
        STK_TRY(stk_learn_open(&out->learn[i], ds->index, ds->index_path, path,
                               LEARN_MEMORY / data->n, err));
    }
    return 0;
}

/* Rows made of bytes that are in memory know neither seek points nor pieces of rows. */
static int can_peek(const stk_plan *so_far)
{
    return so_far->data.peeks && so_far->chains.n_out <= STK_PEEK_OUTPUTS &&
           !so_far->cache.fields && !so_far->chains.chain[0].pack;
}

int stk_plan_rows_make(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    out->kern = stk_kern_table(stk_cpu_level());
    out->measured = in->measured;
    out->peeks = can_peek(so_far);
    return in->o->learn_jpeg == STK_YES ? plan_learn(out, &so_far->data, err) : 0;
}

void stk_plan_rows_fini(stk_plan_rows *p, uint32_t n_data)
{
    for (uint32_t i = 0; p->learn && i < n_data; i++)
        stk_learn_close(&p->learn[i]);
    stk_free(p->learn);
}
