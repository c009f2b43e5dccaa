/* SPDX-License-Identifier: Apache-2.0 */
/* sound_parts.c - part(start=offset, seconds=duration): the fields' values are read once, when the
 * loader is opened, so that a part is known before a byte of its recording is read. */
#include "loader/lengths.h"
#include "op/sound.h"

static int read_field(stk_dataset *ds, const char *name, double *out, stk_error *err)
{
    const stk_column_options how = { .size = sizeof how, .read = STK_YES };
    uint64_t n = stk_dataset_len(ds);
    stk_column *column = NULL;
    int rc = stk_column_open(&column, ds, name, &how, err);

    if (rc == 0 && n)
        rc = stk_column_f64(column, 0, n, out, err);
    stk_column_close(&column);
    return rc;
}

/* The field's values in all data sets. */
static int bind_field(const stk_plan *so_far, const stk_step *step, uint32_t which, stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    const char *name = stk_part_named(step->state).name[which];
    double *values;
    int rc = 0;

    if (!step->early)
        return stk_fail(err, STK_EINVAL,
                        "part: the field %s says where: put part right after sound", name);
    values = stk_zalloc(c->start[so_far->data.n] + 1, sizeof *values);
    if (!values)
        return stk_fail_nomem(err, c->start[so_far->data.n] * sizeof *values);
    for (uint32_t d = 0; rc == 0 && d < so_far->data.n; d++)
        rc = read_field(so_far->data.set[d], name, values + c->start[d], err);
    if (rc == 0)
        stk_part_bind(step->state, which, values);
    else
        stk_free(values);
    return rc;
}

int stk_sound_parts_bind(const stk_plan *so_far, stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;

    for (uint32_t i = 0; i < c->n_out; i++)
        for (uint32_t k = 0; c->chain[i].sound && k < c->chain[i].n_steps; k++) {
            const stk_step *s = &c->chain[i].step[k];

            for (uint32_t which = 0; s->op && s->op->can & STK_OP_PART && which < 2; which++)
                if (stk_part_named(s->state).name[which])
                    STK_TRY(bind_field(so_far, s, which, err));
        }
    return 0;
}
