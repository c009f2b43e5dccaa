/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rows.c - how rows are made: what follows from all other parts. */
#include <assert.h>
#include <string.h>

#include "base/cpu.h"
#include "data/shard_data.h"
#include "gpu/pic_program.h"
#include "loader/parts.h"
#include "loader/sampling.h"
#include "row/row.h"

#define LEARN_MEMORY ((uint64_t)64 << 20) /* of seek points found, all data sets together */

typedef enum table_kind { USUAL, UNCACHED, RESIDENT, REPAIR, KINDS } table_kind;

/* learn_jpeg: where seek points that are found go. */
static int plan_learn(stk_plan_rows *out, const stk_plan_data *data, stk_error *err)
{
    out->learn = stk_zalloc(data->n, sizeof *out->learn);
    if (!out->learn)
        return stk_fail_nomem(err, data->n * sizeof *out->learn);
    for (uint32_t i = 0; i < data->n; i++) {
        const stk_shard_data *s = stk_shard_data_of(data->set[i]);
        char path[1290];

        if (!s || (s->seek && stk_seekfile_whole(s->seek)))
            continue;
        stk_seek_path(s->base.index_path, path, sizeof path);
        STK_TRY(stk_learn_open(&out->learn[i], s->index, s->base.index_path, path,
                               LEARN_MEMORY / data->n, err));
    }
    return 0;
}

/* ---- tables ---- */

/* Rows of blocks, or in memory, and nothing that is kept for decoders. */
static int all_tables(const stk_plan *so_far)
{
    for (uint32_t i = 0; i < so_far->data.n; i++) {
        uint32_t can = so_far->data.set[i]->can;

        if (!(can & (STK_DATA_BLOCKS | STK_DATA_MEMORY)) ||
            can & (STK_DATA_RANGES | STK_DATA_HINTS | STK_DATA_INDEXED | STK_DATA_IMMEDIATE))
            return 0;
    }
    return so_far->data.n > 0;
}

/* Rows made of bytes that are in memory know neither seek points nor pieces of rows. */
static int can_peek(const stk_plan *so_far)
{
    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        if (so_far->chains.chain[i].n_calls)
            return 0; /* a row that fails there is made twice */
    return (so_far->data.peeks || all_tables(so_far)) && so_far->chains.n_out <= STK_PEEK_OUTPUTS &&
           !so_far->cache.fields && !so_far->chains.chain[0].pack;
}

static const stk_row_ops *gpu_ops(const stk_plan *so_far, uint32_t i, table_kind kind)
{
    if (kind == REPAIR)
        return &stk_row_gpu_repair;
    if (!so_far->gpu.decode || !stk_pic_program_can(&so_far->chains.chain[i]))
        return &stk_row_gpu_pixels;
    return kind == USUAL && so_far->cache.keep && so_far->cache.keep[i] ? &stk_row_gpu_cached
                                                                        : &stk_row_gpu;
}

/* Another output reads the same picture. */
static int is_shared(const stk_plan_rows *out, const stk_plan *so_far, uint32_t i)
{
    for (uint32_t k = 0; out->share && k < so_far->chains.n_out; k++)
        if (k != i && out->share[k] == out->share[i])
            return 1;
    return 0;
}

/* How rows of output i are made. */
static const stk_row_ops *ops_of(const stk_plan_rows *out, const stk_plan_input *in,
                                 const stk_plan *so_far, uint32_t i, table_kind kind)
{
    const stk_chain *c = &so_far->chains.chain[i];

    if (so_far->data.immediate)
        return stk_row_array_ops(so_far, i, kind == RESIDENT);
    if (c->clip)
        return &stk_row_video;
    if (c->n_calls && c->pack)
        return c->called == STK_KIND_IMAGE ? &stk_row_call_picture_packed : &stk_row_call_packed;
    if (c->n_calls && c->called == STK_KIND_IMAGE)
        return so_far->chains.out[i].gpu_made ? &stk_row_gpu_call : &stk_row_call_picture;
    if (c->n_calls)
        return &stk_row_call;
    if (c->sound)
        return &stk_row_sound;
    if (c->spec.kind == STK_KIND_IMAGE && so_far->chains.out[i].gpu_made)
        return gpu_ops(so_far, i, kind);
    if (c->spec.kind == STK_KIND_IMAGE && is_shared(out, so_far, i))
        return &stk_row_shared;
    if (c->spec.kind == STK_KIND_IMAGE)
        return c->tiled ? &stk_row_tile : &stk_row_picture;
    if (c->pack)
        return &stk_row_packed;
    if (c->like)
        return &stk_row_turned;
    if (c->parse && c->row_bytes)
        return c->n_turns ? &stk_row_turned : &stk_row_dense;
    if (in->measured)
        return c->parse ? &stk_row_length_value : &stk_row_length_bytes;
    if (c->n_turns)
        return &stk_row_turned;
    if (c->parse)
        return &stk_row_ragged;
    return c->spec.out == STK_OUT_BYTES && c->n_steps == 1 ? &stk_row_bytes_direct : &stk_row_bytes;
}

static const stk_row_table *fill_table(const stk_plan_rows *out, const stk_plan_input *in,
                                       const stk_plan *so_far, table_kind kind)
{
    stk_row_table *t = &out->table[kind];
    const stk_row_ops **op = out->op + (size_t)kind * so_far->chains.n_out;

    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        op[i] = ops_of(out, in, so_far, i, kind);
    t->n_out = so_far->chains.n_out;
    t->out = op;
    t->order = out->order;
    if (so_far->data.immediate) {
        stk_row_array_table(t, so_far, kind == RESIDENT);
        return t;
    }
    t->run = !can_peek(so_far)    ? STK_RUN_REQUESTS
             : so_far->data.peeks ? STK_RUN_PEEKS
                                  : STK_RUN_BLOCKS;
    if (so_far->batching.spans) {
        assert(t->run == STK_RUN_BLOCKS); /* what plan_batching.c found */
        t->run = STK_RUN_SPANS;
    }
    t->begin = stk_row_begin_sample;
    t->replaceable = so_far->policy.on_error == STK_ON_ERROR_SKIP &&
                     !so_far->chains.chain[0].pack; /* of pieces, none has the same length */
    t->note = so_far->chains.chain[0].pack ? stk_row_note_piece : stk_row_note_sample;
    for (uint32_t i = 0; i < t->n_out; i++)
        if (!out->whole[i])
            t->find = stk_row_find_short;
    if (!so_far->cache.fields)
        return t;
    t->find = kind == USUAL ? stk_row_gpu_find : stk_row_gpu_forget;
    t->note = kind == REPAIR ? stk_row_note_sample : stk_row_gpu_note;
    t->uncached = kind == USUAL ? &out->table[UNCACHED] : NULL;
    return t;
}

static uint32_t depth_of(const stk_chain *c)
{
    uint32_t n = 0;

    for (; c->leader; c = c->leader)
        n++;
    return n;
}

/* Both decode the same pixels of the same field, here or on a GPU. */
static int same_picture(const stk_plan_chains *c, uint32_t i, uint32_t k)
{
    const stk_chain *a = &c->chain[i], *b = &c->chain[k];

    if (c->out[i].gpu_made != c->out[k].gpu_made ||
        (c->out[i].gpu_made && stk_pic_program_can(a) != stk_pic_program_can(b)))
        return 0;

    for (uint32_t o = i;; o = k) {
        const stk_chain *x = &c->chain[o];

        if (x->spec.kind != STK_KIND_IMAGE || x->clip || x->like || x->extracts || x->n_calls ||
            c->open_root[o] || c->fallback[o].data)
            return 0;
        if (o == k)
            break;
    }
    if (a->n_from != b->n_from || a->spec.picture.mode != b->spec.picture.mode ||
        a->spec.picture.high_byte != b->spec.picture.high_byte ||
        a->spec.picture.exif != b->spec.picture.exif)
        return 0;
    for (uint32_t f = 0; f < a->n_from; f++)
        if (strcmp(a->from[f], b->from[f]))
            return 0;
    return 1;
}

/* Which outputs share a decode; NULL where none does. */
static int plan_share(stk_plan_rows *out, const stk_plan_chains *c, stk_error *err)
{
    int some = 0;

    out->share = stk_zalloc(c->n_out, sizeof *out->share);
    if (!out->share)
        return stk_fail_nomem(err, c->n_out * sizeof *out->share);
    for (uint32_t i = 0; i < c->n_out; i++) {
        out->share[i] = i;
        for (uint32_t k = 0; k < i && out->share[i] == i; k++)
            if (out->share[k] == k && same_picture(c, k, i))
                out->share[i] = k;
        some |= out->share[i] != i;
    }
    if (!some)
        stk_free(out->share);
    if (!some)
        out->share = NULL;
    return 0;
}

/* i, and those who share its picture, which none of them may be separated from. */
static void put_in_order(stk_plan_rows *out, uint32_t i, uint32_t n_out, uint32_t *n)
{
    if (out->share && out->share[i] != i)
        return; /* is put with the first of them */
    out->order[(*n)++] = i;
    for (uint32_t k = i + 1; out->share && k < n_out; k++)
        if (out->share[k] == i)
            out->order[(*n)++] = k;
}

/* Leaders of like() before those who follow them; NULL where none does, and none shares a
 * decode. */
static int plan_order(stk_plan_rows *out, const stk_plan_chains *c, stk_error *err)
{
    uint32_t n = 0, deepest = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        deepest = depth_of(&c->chain[i]) > deepest ? depth_of(&c->chain[i]) : deepest;
    if (!deepest && !out->share)
        return 0;
    out->order = stk_zalloc(c->n_out, sizeof *out->order);
    if (!out->order)
        return stk_fail_nomem(err, c->n_out * sizeof *out->order);
    for (uint32_t d = 0; d <= deepest; d++)
        for (uint32_t i = 0; i < c->n_out; i++)
            if (depth_of(&c->chain[i]) == d)
                put_in_order(out, i, c->n_out, &n);
    return 0;
}

static int plan_tables(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    out->table = stk_zalloc(KINDS, sizeof *out->table);
    out->op = stk_zalloc((size_t)KINDS * so_far->chains.n_out, sizeof *out->op);
    if (!out->table || !out->op)
        return stk_fail_nomem(err, KINDS * sizeof *out->table);
    if (!so_far->data.immediate)
        STK_TRY(plan_share(out, &so_far->chains, err));
    STK_TRY(plan_order(out, &so_far->chains, err));
    out->usual = out->resident = out->repair = fill_table(out, in, so_far, USUAL);
    if (so_far->cache.fields)
        fill_table(out, in, so_far, UNCACHED);
    if (so_far->cache.arrays)
        out->resident = fill_table(out, in, so_far, RESIDENT);
    if (so_far->gpu.device)
        out->repair = fill_table(out, in, so_far, REPAIR);
    return 0;
}

/* ---- which outputs may read parts of a field ---- */

/* Why output i reads its field whole; NULL: it need not. */
static const char *whole_because(const stk_plan_input *in, const stk_plan *so_far, uint32_t i)
{
    const stk_chain *c = &so_far->chains.chain[i];
    const stk_chain *drawn = c->leader ? c->leader : c;

    if (c->spec.kind != STK_KIND_IMAGE && c->called != STK_KIND_IMAGE && !c->sound)
        return "it is not a picture";
    if (c->sound && c->n_calls)
        return "a function takes it";
    if (!so_far->data.remote && !c->sound) /* a part is little of a long recording */
        return "the files are local: the page cache has them, or reads ahead";
    if (so_far->data.remote && in->o->shuffle != STK_SHUFFLE_EXACT && !stk_sampling_given(in->o))
        return "samples are read in the order in which they are stored, many by one request";
    if (so_far->chains.open_root[i])
        return "open() names its file";
    if (c->extracts)
        return "it is decompressed first";
    if (drawn->boxes)
        return "its crop depends on boxes, which are read first";
    if (so_far->cache.keep && so_far->cache.keep[i])
        return "cache=\"device\" keeps the whole picture";
    return NULL;
}

static int plan_whole(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    out->whole = stk_zalloc(so_far->chains.n_out, sizeof *out->whole);
    if (!out->whole)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->whole);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        out->whole[i] = whole_because(in, so_far, i);
    return 0;
}

static void nvtx_range(const void *device, const char *name)
{
    stk_device_range(device, name);
}

int stk_plan_rows_make(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    out->kern = stk_kern_table(stk_cpu_level());
    out->measured = in->measured;
    if (so_far->gpu.device)
        out->trace = (stk_trace){ nvtx_range, so_far->gpu.device };
    STK_TRY(plan_whole(out, in, so_far, err));
    STK_TRY(plan_tables(out, in, so_far, err));
    out->fit = stk_zalloc(so_far->chains.n_out, sizeof *out->fit);
    if (!out->fit)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->fit);
    return in->o->learn_jpeg == STK_YES ? plan_learn(out, &so_far->data, err) : 0;
}

void stk_plan_rows_fini(stk_plan_rows *p, uint32_t n_data)
{
    for (uint32_t i = 0; p->learn && i < n_data; i++)
        stk_learn_close(&p->learn[i]);
    stk_free(p->learn);
    stk_free(p->table);
    stk_free(p->op);
    stk_free(p->order);
    stk_free(p->share);
    stk_free(p->whole);
    stk_free(p->fit);
}
