/* SPDX-License-Identifier: Apache-2.0 */
/* sound_parts.c - part(start=offset, seconds=duration), sound(channel=side): the fields' values are
 * read once, when the loader is opened, so that a part is known before a byte of its recording is
 * read. */
#include "codec/sound_codec.h"
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

/* The field's values in all data sets; *out is the caller's. */
static int read_all(const stk_plan *so_far, const char *name, double **out, stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    double *values;
    int rc = 0;

    *out = NULL;
    values = stk_zalloc(c->start[so_far->data.n] + 1, sizeof *values);
    if (!values)
        return stk_fail_nomem(err, c->start[so_far->data.n] * sizeof *values);
    for (uint32_t d = 0; rc == 0 && d < so_far->data.n; d++)
        rc = read_field(so_far->data.set[d], name, values + c->start[d], err);
    if (rc == 0)
        *out = values;
    else
        stk_free(values);
    return rc;
}

static int bind_part(const stk_plan *so_far, const stk_step *step, uint32_t which, stk_error *err)
{
    const char *name = stk_part_named(step->state).name[which];
    double *values;

    if (!step->early)
        return stk_fail(err, STK_EINVAL,
                        "part: the field %s says where: put part right after sound", name);
    STK_TRY(read_all(so_far, name, &values, err));
    stk_part_bind(step->state, which, values);
    return 0;
}

static int bind_channel(const stk_plan *so_far, const stk_step *step, stk_error *err)
{
    const stk_sound *s = step->state;
    double *values;

    if (s->channel != STK_CHANNEL_FIELD)
        return 0;
    STK_TRY(read_all(so_far, s->field, &values, err));
    stk_sound_bind(step->state, values);
    return 0;
}

int stk_sound_parts_bind(const stk_plan *so_far, stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;

    for (uint32_t i = 0; i < c->n_out; i++) {
        if (c->chain[i].sound)
            STK_TRY(bind_channel(so_far, c->chain[i].sound, err));
        for (uint32_t k = 0; c->chain[i].sound && k < c->chain[i].n_steps; k++) {
            const stk_step *s = &c->chain[i].step[k];

            for (uint32_t which = 0; s->op && s->op->can & STK_OP_PART && which < 2; which++)
                if (stk_part_named(s->state).name[which])
                    STK_TRY(bind_part(so_far, s, which, err));
        }
    }
    return 0;
}
