/* SPDX-License-Identifier: Apache-2.0 */
/* plan_cache.c - cache="device": what the GPU keeps from one epoch to the next.
 *
 * Pictures are kept as they are drawn; arrays go there whole, or not at all.  Rows of arrays can be
 * gathered there where they are whole rows, or windows of one stream, of types that are moved or
 * widened, so that every value fits. */
#include <string.h>

#include "base/size.h"
#include "cuda/gpu_gather.h"
#include "gpu/pic_program.h"
#include "loader/parts.h"

/* ---- pictures ---- */

/* 1: both have their bytes from the same field. */
static int same_field(const stk_chain *a, const stk_chain *b)
{
    if (a->field.n_names != b->field.n_names)
        return 0;
    for (uint32_t i = 0; i < a->field.n_names; i++)
        if (strcmp(a->field.name[i], b->field.name[i]))
            return 0;
    return 1;
}

/* Pictures are kept once, however many outputs are made of them.  How many kinds there are. */
static uint32_t number_outputs(uint32_t *keep, const stk_plan_chains *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_out; i++) {
        if (!c->out[i].gpu_made || c->chain[i].clip || c->open_root[i] ||
            c->chain[i].many.pictures || !stk_pic_program_can(&c->chain[i]))
            continue;
        for (uint32_t k = 0; k < i && !keep[i]; k++)
            if (keep[k] && same_field(&c->chain[k], &c->chain[i]))
                keep[i] = keep[k];
        if (!keep[i])
            keep[i] = ++n;
    }
    return n;
}

/* Clips are kept as they are decoded, once for each output: other outputs may have other frames. */
static uint32_t number_clips(uint32_t *clip, uint32_t first, const stk_plan_chains *c)
{
    uint32_t n = first;

    for (uint32_t i = 0; i < c->n_out; i++)
        if (c->out[i].gpu_made && c->chain[i].clip)
            clip[i] = ++n;
    return n - first;
}

/* More than all shards have is not needed; 0: the index does not say. */
static uint64_t all_bytes(const stk_plan_data *data)
{
    uint64_t bytes = 1 << 20;

    for (uint32_t d = 0; d < data->n; d++) {
        const stk_dataset *ds = data->set[d];
        stk_shard_info s;

        if (!(ds->can & STK_DATA_RANGES))
            return 0;
        bytes += stk_dataset_len(ds) * 128;
        for (uint64_t k = 0; k < stk_dataset_shards(ds); k++)
            if (ds->ops->shard(ds, k, &s, NULL) == 0)
                bytes += s.size;
    }
    return bytes;
}

static int has_points(const stk_plan_data *data)
{
    for (uint32_t d = 0; d < data->n; d++)
        if (data->set[d]->can & STK_DATA_HINTS)
            return 1;
    return 0;
}

static int keep_pictures(stk_plan_cache *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err)
{
    const stk_schedule *s = so_far->schedule;
    stk_picture_cache_options k = { .bytes = in->o->device_cache_limit,
                                    .samples = s->start[s->n_data] };

    uint32_t pictures = 0, clips = 0;

    out->keep = stk_zalloc(so_far->chains.n_out, sizeof *out->keep);
    out->clip = stk_zalloc(so_far->chains.n_out, sizeof *out->clip);
    if (!out->keep || !out->clip)
        return stk_fail_nomem(err, so_far->chains.n_out * sizeof *out->keep);
    if (so_far->gpu.decode) {
        pictures = number_outputs(out->keep, &so_far->chains);
        clips = number_clips(out->clip, pictures, &so_far->chains);
    }
    k.outputs = pictures + clips;
    if (!k.outputs)
        return stk_fail(err, STK_ENOTSUP,
                        "cache=\"device\" keeps JPEGs that the GPU decodes, and clips of videos, "
                        "and no output has such: leave it");
    if (pictures && !has_points(&so_far->data))
        stk_log_line(
            &so_far->policy.log, STK_LOG_WARN,
            "cache=device keeps JPEGs that have seek points, and these have none: make them "
            "with 'stoker index --jpeg'");
    STK_TRY(
        stk_field_cache_open(&out->fields, k.samples, stk_pool_account(so_far->memory.pool), err));
    return stk_device_keep(so_far->gpu.device, &k, clips ? 0 : all_bytes(&so_far->data), err);
}

/* ---- arrays ---- */

static int is_signed(stk_dtype t)
{
    return t == STK_I8 || t == STK_I16 || t == STK_I32 || t == STK_I64;
}

static int is_unsigned(stk_dtype t)
{
    return t == STK_U8 || t == STK_U16 || t == STK_U32;
}

/* 1: every value of one is one of the other. */
static int widens(stk_dtype from, stk_dtype to)
{
    size_t a = stk_dtype_size(from), b = stk_dtype_size(to);

    return (is_signed(from) && is_signed(to) && a < b) ||
           (is_unsigned(from) && (is_signed(to) || is_unsigned(to)) && a < b);
}

/* How output i is gathered; count 0: it is not. */
static stk_out_gather plan_gather(const stk_plan_chains *c, uint32_t i)
{
    const stk_array_plan *p = c->arrays;
    const stk_out_plan *o = &c->out[i];
    const stk_array *a = p->out[i].array;
    uint32_t size = (uint32_t)stk_dtype_size(o->spec.dtype);
    stk_out_gather g = { .in = (uint32_t)stk_dtype_size(a->dtype), .made = size };

    for (uint32_t d = 0; d < p->n_data; d++)
        if (p->out[d * p->n_out + i].array->dtype != a->dtype)
            return g;
    if (o->row_bytes < sizeof(uint64_t) || (o->shared && i) || a->row_bytes > STK_ARRAY_CHUNK ||
        (a->dtype != o->spec.dtype && !widens(a->dtype, o->spec.dtype)))
        return g;
    g.sign = (uint32_t)is_signed(a->dtype);
    g.count = o->row_bytes / size;
    if (a->dtype == o->spec.dtype &&
        !p->cut.block) /* whole rows begin at multiples of their size */
        for (; g.made < 16 && o->row_bytes % (2 * g.made) == 0; g.count /= 2)
            g.in = g.made = 2 * g.made;
    return g;
}

/* Where array k of the plan begins; an array that several outputs use is on the GPU once. */
static uint64_t place_array(stk_plan_cache *out, const stk_array_plan *p, uint32_t k,
                            uint64_t *bytes)
{
    const stk_array *a = p->out[k].array;
    uint64_t at = *bytes;

    for (uint32_t j = 0; j < k; j++)
        if (p->out[j].array == a && out->place[j].on_gpu)
            return out->place[j].at;
    *bytes = (*bytes + a->rows * a->row_bytes + 255) & ~(uint64_t)255;
    out->move[out->n_moves++] = (stk_array_move){ a, at };
    return at;
}

/* Bytes that the arrays take on the GPU; 0: no output is gathered there. */
static uint64_t place_arrays(stk_plan_cache *out, const stk_plan *so_far)
{
    const stk_array_plan *p = so_far->chains.arrays;
    uint64_t bytes = 0;

    if (p->cut.parted || p->packed || so_far->chains.megatron || so_far->schedule->bins ||
        so_far->batching.tickets > UINT16_MAX)
        return 0;
    for (uint32_t i = 0; i < p->n_out; i++) {
        out->gather[i] = plan_gather(&so_far->chains, i);
        for (uint32_t d = 0; out->gather[i].count && d < p->n_data; d++) {
            uint32_t k = d * p->n_out + i;

            out->place[k].at = place_array(out, p, k, &bytes);
            out->place[k].on_gpu = 1;
        }
    }
    return bytes;
}

static int keep_arrays(stk_plan_cache *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    const stk_array_plan *p = so_far->chains.arrays;
    uint64_t bytes;

    out->gather = stk_zalloc(p->n_out, sizeof *out->gather);
    out->place = stk_zalloc((size_t)p->n_out * p->n_data, sizeof *out->place);
    out->move = stk_zalloc((size_t)p->n_out * p->n_data, sizeof *out->move);
    if (!out->gather || !out->place || !out->move)
        return stk_fail_nomem(err, p->n_out * sizeof *out->gather);
    bytes = place_arrays(out, so_far);
    if (bytes)
        STK_TRY(stk_device_array_cache(so_far->gpu.device, bytes, in->o->device_cache_limit,
                                       &out->arrays, err));
    if (out->arrays)
        return 0;
    stk_free(out->gather); /* they do not fit */
    out->gather = NULL;
    if (bytes)
        stk_log_line(&so_far->policy.log, STK_LOG_WARN,
                     "cache=device: the arrays take %" PRIu64 " MB of the GPU, more than "
                     "device_cache_limit: they are not kept there",
                     stk_size_mb(bytes));
    else
        stk_log_line(
            &so_far->policy.log, STK_LOG_WARN,
            "cache=device keeps whole rows and windows of types that are moved or widened: "
            "these outputs are made here");
    return 0;
}

/* ---- both ---- */

int stk_plan_cache_make(stk_plan_cache *out, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err)
{
    const stk_loader_options *o = in->o;
    int asked = o->cache && strcmp(o->cache, "none") != 0;

    if (asked && strcmp(o->cache, "device"))
        return stk_fail(err, STK_EINVAL, "cache is device or none, not \"%.40s\"", o->cache);
    if (!asked)
        return o->device_cache_limit ? stk_fail(err, STK_EINVAL,
                                                "device_cache_limit bounds cache=\"device\": ask "
                                                "for that too")
                                     : 0;
    if (!so_far->gpu.device)
        return stk_fail(err, STK_EINVAL, "cache=\"device\" is for device=\"cuda\"");
    return so_far->data.immediate ? keep_arrays(out, in, so_far, err)
                                  : keep_pictures(out, in, so_far, err);
}

void stk_plan_cache_fini(stk_plan_cache *p)
{
    stk_field_cache_close(&p->fields);
    stk_free(p->keep);
    stk_free(p->clip);
    stk_free(p->gather);
    stk_free(p->place);
    stk_free(p->move);
}
