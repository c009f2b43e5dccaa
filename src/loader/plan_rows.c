/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rows.c - how rows are made: what follows from all other parts. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "data/shard_data.h"
#include "gpu/pic_program.h"
#include "loader/parts.h"
#include "loader/sampling.h"
#include "op/image_tokens.h"
#include "op/several.h"
#include "row/row.h"
#include "video/clip_codec.h"
#include "video/sessions.h"

#define LEARN_MEMORY ((uint64_t)64 << 20) /* of seek points found, all data sets together */

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
        if (so_far->chains.chain[i].calls.n || so_far->chains.chain[i].field.open_root ||
            so_far->chains.chain[i].many.pictures)
            return 0; /* a row that fails there is made twice; requests open files, find pictures */
    return (so_far->data.peeks || all_tables(so_far)) && so_far->chains.n_out <= STK_PEEK_OUTPUTS &&
           !so_far->cache.fields && !so_far->chains.chain[0].pack;
}

static const stk_row_table *fill_table(const stk_plan_rows *out, const stk_plan_input *in,
                                       const stk_plan *so_far, stk_rows_of kind)
{
    stk_row_table *t = &out->table[kind];
    stk_row_ops *op = out->op + (size_t)kind * so_far->chains.n_out;

    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        stk_plan_kind(out, in, so_far, kind, i, &op[i]);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++) {
        t->has_know |= op[i].from->know || so_far->chains.open_root[i];
        t->has_prepare |= op[i].from->prepare != NULL;
    }
    t->n_out = so_far->chains.n_out;
    t->out = op;
    t->order = out->order;
    if (so_far->data.immediate) {
        stk_row_array_table(t, so_far, kind == STK_ROWS_RESIDENT);
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
        if (!out->whole[i] && (!so_far->chains.chain[i].clip || so_far->data.remote))
            t->find = stk_row_find_short;
    if (!so_far->cache.fields)
        return t;
    t->find = kind == STK_ROWS_USUAL ? stk_row_gpu_find : stk_row_gpu_forget;
    t->note = kind == STK_ROWS_REPAIR ? stk_row_note_sample : stk_row_gpu_note;
    t->uncached = kind == STK_ROWS_USUAL ? &out->table[STK_ROWS_UNCACHED] : NULL;
    return t;
}

static uint32_t depth_of(const stk_chain *c)
{
    uint32_t n = 0;

    if (c->like.clip) { /* after the clip */
        c = c->like.clip;
        n++;
    }
    for (; c->like.leader; c = c->like.leader)
        n++;
    if (c->many.tokens) /* after the pictures that it counts; labels after the tokens */
        n += ((const stk_image_tokens *)c->many.tokens->state)->give == STK_GIVE_IDS ? 1 : 2;
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

        if (x->spec.kind != STK_KIND_IMAGE || x->clip || x->many.pictures || x->like.how ||
            x->extracts || x->calls.n || c->open_root[o] || c->fallback[o].data)
            return 0;
        if (o == k)
            break;
    }
    if (a->field.n_names != b->field.n_names || a->spec.picture.mode != b->spec.picture.mode ||
        a->spec.picture.high_byte != b->spec.picture.high_byte ||
        a->spec.picture.exif != b->spec.picture.exif)
        return 0;
    for (uint32_t f = 0; f < a->field.n_names; f++)
        if (strcmp(a->field.name[f], b->field.name[f]))
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

/* Leaders of like(), and pictures that are counted, before those who follow them; NULL where none
 * does, and none shares a decode. */
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

/* Where some output has clips: NVDEC.  Without it workers decode them, unless decode "gpu" says
 * that they must not. */
static int open_clips(stk_plan_rows *out, const stk_plan *so_far, stk_error *err)
{
    const stk_device_clips_options how = { .log = &so_far->policy.log,
                                           .host = stk_pool_account(so_far->memory.pool) };
    stk_error why;

    for (uint32_t i = 0; i < so_far->chains.n_out && so_far->gpu.decode; i++) {
        if (!so_far->chains.chain[i].clip || !so_far->chains.out[i].gpu_made)
            continue;
        if (stk_device_decode_clips(so_far->gpu.device, &how, &why) == 0)
            return 0;
        if (so_far->gpu.alone)
            return stk_fail(err, why.code, "decode=\"gpu\": %s", why.message);
        stk_log_line(&so_far->policy.log, STK_LOG_WARN, "%s; workers decode videos", why.message);
        snprintf(out->no_clips, sizeof out->no_clips, "%s", why.message);
        return 0;
    }
    return 0;
}

/* Where each output is made. */
static int plan_made(stk_plan_rows *out, const stk_plan *so_far, stk_error *err)
{
    out->made = stk_zalloc(so_far->chains.n_out, sizeof *out->made);
    if (!out->made)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->made);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++) {
        out->made[i] = stk_plan_made(so_far, out->no_clips, i);
        STK_TRY(stk_plan_check_made(&so_far->gpu, &so_far->chains.out[i], &out->made[i], err));
    }
    return 0;
}

static int plan_tables(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    out->table = stk_zalloc(STK_ROWS_TABLES, sizeof *out->table);
    out->op = stk_zalloc((size_t)STK_ROWS_TABLES * so_far->chains.n_out, sizeof *out->op);
    if (!out->table || !out->op)
        return stk_fail_nomem(err, STK_ROWS_TABLES * sizeof *out->table);
    if (!so_far->data.immediate)
        STK_TRY(plan_share(out, &so_far->chains, err));
    STK_TRY(plan_order(out, &so_far->chains, err));
    STK_TRY(open_clips(out, so_far, err));
    STK_TRY(plan_made(out, so_far, err));
    out->usual = out->resident = out->repair = fill_table(out, in, so_far, STK_ROWS_USUAL);
    if (so_far->cache.fields)
        fill_table(out, in, so_far, STK_ROWS_UNCACHED);
    if (so_far->cache.arrays)
        out->resident = fill_table(out, in, so_far, STK_ROWS_RESIDENT);
    if (so_far->gpu.device)
        out->repair = fill_table(out, in, so_far, STK_ROWS_REPAIR);
    return 0;
}

/* ---- which outputs may read parts of a field ---- */

/* Why output i reads its field whole; NULL: it need not. */
static const char *whole_because(const stk_plan_input *in, const stk_plan *so_far, uint32_t i)
{
    const stk_chain *c = &so_far->chains.chain[i];
    const stk_chain *drawn = c->like.leader ? c->like.leader : c;

    if (c->spec.kind != STK_KIND_IMAGE && c->calls.first != STK_KIND_IMAGE && !c->sound)
        return "it is not a picture";
    if (c->extracts)
        return "it is decompressed first";
    if (c->many.pictures && ((const stk_pictures_state *)c->many.pictures->state)->root[0])
        return "it names files, which are read after it, whole and many at once";
    if (so_far->data.unversioned && !so_far->chains.open_root[i])
        return "the store gives no version of a file, so that points may be of one before it";
    if (c->clip) /* a small part of its file, which is read as such wherever that is */
        return NULL;
    if (c->sound && c->calls.n)
        return "a function takes it";
    if (c->like.clip && so_far->chains.open_root[i])
        return "open() names its file";
    if (c->like.clip) /* part(of=): so is its sound */
        return whole_because(in, so_far, c->like.clip_output)
                   ? "its clip, which says what is heard, is read whole"
                   : NULL;
    if (!so_far->data.remote && !c->sound) /* a part is little of a long recording */
        return "the files are local: the page cache has them, or reads ahead";
    if (so_far->data.remote && in->o->shuffle != STK_SHUFFLE_EXACT && !c->clip &&
        !stk_sampling_given(in->o)) /* of a video a clip is little in any order */
        return "samples are read in the order in which they are stored, many by one request";
    if (c->many.pictures)
        return "it has several pictures";
    if (so_far->chains.open_root[i])
        return "open() names its file";
    if (drawn->boxes.name)
        return "its crop depends on boxes, which are read first";
    if (so_far->cache.keep && so_far->cache.keep[i])
        return "cache=\"device\" keeps the whole picture";
    return NULL;
}

static int plan_whole(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    out->in_parts = stk_zalloc(so_far->chains.n_out, sizeof *out->in_parts);
    if (!out->in_parts)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->in_parts);
    out->whole = stk_zalloc(so_far->chains.n_out, sizeof *out->whole);
    if (!out->whole)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->whole);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        out->whole[i] = whole_because(in, so_far, i);
    return 0;
}

/* Where the windows of a video come in order, decoders stay where they are. */
static int plan_sessions(stk_plan_rows *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    uint64_t streams = in->o->shuffle == STK_SHUFFLE_BLOCK ? so_far->schedule->streams : 1;
    uint64_t most = streams / so_far->ranks.split.world + 1 + 2 * (uint64_t)so_far->io.workers;

    if (in->o->shuffle == STK_SHUFFLE_EXACT || in->o->shuffle == STK_SHUFFLE_MEGATRON ||
        in->o->order || in->measured || stk_sampling_given(in->o))
        return 0;
    out->sessions = stk_zalloc(c->n_out, sizeof *out->sessions);
    if (!out->sessions)
        return stk_fail_nomem(err, c->n_out * sizeof *out->sessions);
    for (uint32_t i = 0; i < c->n_out; i++) {
        const stk_clip_how *how = c->chain[i].clip ? c->chain[i].clip->state : NULL;

        if (how && how->step && !c->out[i].gpu_made)
            STK_TRY(stk_sessions_open(&out->sessions[i], stk_pool_account(so_far->memory.pool),
                                      so_far->memory.limit / 4, most > 4096 ? 4096 : (uint32_t)most,
                                      err));
    }
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
    STK_TRY(plan_sessions(out, in, so_far, err));
    out->fit = stk_zalloc(so_far->chains.n_out, sizeof *out->fit);
    if (!out->fit)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->fit);
    return in->o->learn_jpeg == STK_YES ? plan_learn(out, &so_far->data, err) : 0;
}

void stk_plan_rows_fini(stk_plan_rows *p, const stk_plan *of)
{
    const uint32_t n_data = of->data.n;

    for (uint32_t i = 0; p->sessions && i < of->chains.n_out; i++)
        stk_sessions_close(&p->sessions[i]);
    stk_free(p->sessions);
    for (uint32_t i = 0; p->learn && i < n_data; i++)
        stk_learn_close(&p->learn[i]);
    stk_free(p->learn);
    stk_free(p->table);
    stk_free(p->op);
    stk_free(p->order);
    stk_free(p->share);
    stk_free(p->whole);
    stk_free(p->in_parts);
    stk_free(p->made);
    stk_free(p->fit);
}
