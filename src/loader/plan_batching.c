/* SPDX-License-Identifier: Apache-2.0 */
/* plan_batching.c - rows of a batch, tickets of a slot, how many a worker claims at once, and the
 * stages of whole batches. */
#include "base/table.h"
#include "loader/parts.h"
#include "row/row.h"

#define MAX_TICKETS (1u << 26)
#define CLAIM_BYTES ((size_t)128 << 10) /* rows of arrays: that a worker claims at once */
#define MOST_ROWS 32
#define RAGGED_BYTES 256u /* rows of tables that differ in length: what one is taken for */

/* The most pieces of a batch of packed rows: as many of the shortest as its rows hold. */
static int count_pieces(const stk_schedule *s, uint32_t rows, uint32_t *out, stk_error *err)
{
    uint32_t block = s->binning.block;
    uint64_t n = s->start[s->n_data], least = block, most;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t rest = s->lengths[i] % block;

        least = rest && rest < least ? rest : least;
    }
    most = block / least < s->binning.window ? block / least : s->binning.window;
    most = most ? most : 1;
    if (most >= MAX_TICKETS / rows)
        return stk_fail(err, STK_ELIMIT,
                        "%u rows of %u values may have more than %u samples: lower batch_size or "
                        "block",
                        rows, block, MAX_TICKETS);
    *out = (uint32_t)(most * rows);
    return 0;
}

/* Cheap rows are claimed in runs, costly ones one by one. */
static uint32_t claim_size(const stk_plan_chains *c)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < c->n_out; i++) {
        if (c->chain[i].spec.kind == STK_KIND_IMAGE)
            return 1;
        bytes += c->chain[i].row_bytes;
    }
    if (!c->arrays || bytes < CLAIM_BYTES / MOST_ROWS)
        return MOST_ROWS;
    return bytes < CLAIM_BYTES ? (uint32_t)(CLAIM_BYTES / bytes) : 1;
}

/* Samples come in order, of tables whose columns are copied as they are stored. */
static int spans(const stk_plan_input *in, const stk_plan *so_far)
{
    const stk_plan_chains *c = &so_far->chains;
    const stk_schedule *s = so_far->schedule;

    if (!s->order.run || s->order.deal || s->tickets != STK_TICKET_POSITION || s->split.local > 1 ||
        so_far->gpu.device || in->measured || s->lengths || so_far->data.peeks ||
        c->n_out > STK_PEEK_OUTPUTS)
        return 0;
    for (uint32_t i = 0; i < so_far->data.n; i++)
        if (!so_far->data.set[i]->ops->span ||
            so_far->data.set[i]->can & (STK_DATA_INDEXED | STK_DATA_HINTS | STK_DATA_IMMEDIATE))
            return 0;
    for (uint32_t i = 0; i < c->n_out; i++)
        if (!stk_row_runs(&c->chain[i]))
            return 0;
    return 1;
}

/* Of such rows so many that copying them outweighs the claim. */
static uint32_t span_size(const stk_plan_chains *c)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        bytes += c->chain[i].row_bytes ? c->chain[i].row_bytes : RAGGED_BYTES;
    return bytes < CLAIM_BYTES / MOST_ROWS ? (uint32_t)(CLAIM_BYTES / bytes) : MOST_ROWS;
}

static int plan_ops(stk_plan_batching *out, const char *text, const stk_plan *so_far,
                    stk_error *err)
{
    stk_batch_op_input in = { so_far->chains.out, so_far->chains.n_out, so_far->policy.seed };

    STK_TRY(stk_batch_ops_plan(&out->op, &out->n_ops, text, &in, err));
    if (out->n_ops > STK_MAX_STAGES)
        return stk_fail(err, STK_EINVAL, "batch_ops has %u ops, at most %d", out->n_ops,
                        STK_MAX_STAGES);
    for (uint32_t i = 0; i < out->n_ops; i++)
        out->stage[out->n_stages++] = (stk_stage){ .abi = STK_PLUGIN_ABI,
                                                   .size = sizeof(stk_stage),
                                                   .name = "batch op",
                                                   .state = out->op[i],
                                                   .run = stk_batch_op_run };
    return 0;
}

void stk_plan_batching_fini(stk_plan_batching *p)
{
    stk_batch_ops_close(&p->op, p->n_ops);
}

int stk_plan_batching_make(stk_plan_batching *out, const stk_plan_input *in, const stk_plan *so_far,
                           stk_error *err)
{
    const stk_loader_options *o = in->o;
    const stk_schedule *s = so_far->schedule;

    out->rows = s->bins && (s->binning.kind == STK_BIN_BUDGET || stk_bins_are_groups(&s->binning))
                    ? s->binning.rows
                    : so_far->ranks.rows;
    out->tickets = out->rows;
    if (s->tickets == STK_TICKET_PIECE)
        STK_TRY(count_pieces(s, out->rows, &out->tickets, err));
    out->spans = spans(in, so_far);
    out->claim_size = out->spans ? span_size(&so_far->chains) : claim_size(&so_far->chains);
    if (o->batch_ops)
        STK_TRY(plan_ops(out, o->batch_ops, so_far, err));
    for (uint32_t i = 0; i < o->n_stages; i++)
        STK_TRY(stk_table_take(&out->stage[out->n_stages++], sizeof *out->stage, o->stages[i],
                               "batch stage", err));
    if (so_far->gpu.device)
        out->stage[out->n_stages++] = (stk_stage){ .abi = STK_PLUGIN_ABI,
                                                   .size = sizeof(stk_stage),
                                                   .name = "device",
                                                   .state = so_far->gpu.device,
                                                   .run = stk_device_run };
    return 0;
}
