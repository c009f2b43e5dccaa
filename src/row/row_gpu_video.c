/* SPDX-License-Identifier: Apache-2.0 */
/* row_gpu_video.c - a clip on its way to a GPU: a record for each of its frames.
 *
 * Where NVDEC decodes such frames the packets are left to it (gpu_clips.h), unless it has enough to
 * do and workers may decode too: the bits are the same.
 *
 * Frames that are decoded here go over as planes, of which the GPU makes pixels, views, colors and
 * types: the work of the passes is done there.  Where planes would take much more of the way than
 * pixels, or the GPU can't do it, frames go over as pixels that are made here: that follows from
 * the video and what is drawn, never from load. */
#include <assert.h>
#include <string.h>

#include <stoker/transform.h>

#include "base/hash.h"
#include "gpu/pic_program.h"
#include "row/row_clip.h"
#include "video/clip_stream.h"

#define PLANES_MOST 4 /* times as many bytes as the pixels of the output */

typedef struct gpu_clip {
    stk_row_clip c;           /* first: the cookie of frames is both */
    stk_pic_program *program; /* of each view */
    size_t *size, *at;        /* of a record of each view; of its first one, from `base` on */
    uint8_t *base;            /* the row's records */
    int begun;
    int planes;
} gpu_clip;

/* ---- planes ---- */

/* 0: all views of such frames go over as planes, with their sizes; the bytes of a frame's. */
static int ask_views(gpu_clip *g, const stk_planes *p, size_t *bytes)
{
    *bytes = 0;
    for (uint32_t v = 0; v < stk_row_views(g->c.x); v++) {
        stk_pic_framed f;

        STK_TRY(stk_row_gpu_program(g->c.x, &g->c.d[v], &g->program[v], NULL));
        STK_TRY(stk_pic_frame_ask(&f, p, g->c.d[v].view, NULL));
        stk_pic_program_add(&g->program[v], &f.rec);
        g->size[v] = f.rec.size;
        *bytes += f.rec.size;
    }
    return 0;
}

static int no_room(stk_error *err)
{
    return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
}

static int begin_planes(gpu_clip *g, const stk_planes *p, stk_error *err)
{
    const stk_spec *spec = &stk_row_chain(g->c.x)->spec;
    uint32_t frames = g->c.how->frames, views = stk_row_views(g->c.x);
    size_t bytes, made = (size_t)spec->picture.width * spec->picture.height * 3, at = 0;

    if (g->c.turn != 1 || ask_views(g, p, &bytes) < 0 || bytes > made * views * PLANES_MOST)
        return STK_ENOTSUP;
    g->base = stk_row_gpu_place(g->c.x, bytes * frames);
    if (!g->base)
        return no_room(err);
    for (uint32_t v = 0; v < views; v++) {
        g->at[v] = at;
        at += g->size[v] * frames;
    }
    assert(at == bytes * frames); /* the place that was taken */
    g->planes = 1;
    return 0;
}

/* The record of one view of a frame, at each of its places in the clip. */
static int put_planes(gpu_clip *g, uint32_t view, uint64_t number, const stk_planes *p,
                      stk_error *err)
{
    stk_pic_framed f;

    assert(g->planes && view < stk_row_views(g->c.x));
    STK_TRY(stk_pic_frame_ask(&f, p, g->c.d[view].view, err));
    stk_pic_program_add(&g->program[view], &f.rec);
    if (f.rec.size != g->size[view])
        return stk_fail(err, STK_ECORRUPT, "track %u: the format of its frames changes",
                        g->c.h.number);
    for (uint32_t i = 0; i < g->c.how->frames; i++) {
        uint8_t *to = g->base + g->at[view] + i * g->size[view];

        if (g->c.frame[i] != number)
            continue;
        stk_pic_frame_write(to, &f);
        stk_pic_program_write(&g->program[view], to);
        stk_row_gpu_record(g->c.x, view * g->c.how->frames + i, 0, to);
    }
    return 0;
}

/* ---- pixels ---- */

/* Records of pixels, of which c->dst is the first one's.  `spec`: what they are. */
static int begin_pixels(gpu_clip *g, stk_pic_kind kind, const stk_spec *spec, stk_error *err)
{
    uint32_t w = spec->picture.width, h = spec->picture.height;
    uint32_t n = stk_spec_times(&stk_row_chain(g->c.x)->spec);
    size_t len = (size_t)w * h * 3 * stk_dtype_size(spec->dtype), size = stk_pic_plain_size(len);

    g->base = stk_row_gpu_place(g->c.x, size * n);
    if (!g->base)
        return no_room(err);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *to = g->base + i * size, *data = stk_pic_plain_write(to, kind, w, h, len);

        stk_row_gpu_record(g->c.x, i, 0, to);
        g->c.dst = i ? g->c.dst : data;
    }
    g->c.spec = spec;
    g->c.step = size;
    g->c.bytes = len;
    return 0;
}

static int begin_ready(gpu_clip *g, stk_error *err)
{
    return begin_pixels(g, STK_PIC_READY, &stk_row_chain(g->c.x)->spec, err);
}

/* Color and type are the GPU's where that makes them smaller. */
static int begin_small(gpu_clip *g, stk_spec *as, stk_error *err)
{
    const stk_chain *chain = stk_row_chain(g->c.x);

    if (chain->spec.dtype == STK_U8 || chain->row_acts)
        return begin_ready(g, err);
    *as = chain->spec;
    as->dtype = STK_U8;
    as->picture.layout = STK_HWC;
    for (int k = 0; k < 3; k++) {
        as->picture.mul[k] = 1;
        as->picture.add[k] = 0;
    }
    return begin_pixels(g, STK_PIC_U8, as, err);
}

/* ---- packets ---- */

/* Where the parts of a clip are in its memory. */
typedef struct layout {
    size_t packet, record, want, picture, yuv, records, bytes, size;
} layout;

static size_t part(size_t *at, size_t bytes)
{
    size_t from = *at;

    *at = (from + bytes + 63) & ~(size_t)63;
    return from;
}

static layout lay_out(const gpu_clip *g, const stk_clip_stream *s, uint32_t pictures)
{
    layout l = { 0 };

    l.packet = part(&l.size, s->n * sizeof(stk_nvdec_packet));
    l.record = part(&l.size, 2 * pictures * sizeof(uint8_t *));
    l.want = part(&l.size, pictures * sizeof(uint32_t));
    l.picture = part(&l.size, pictures * sizeof(stk_picture));
    l.yuv = part(&l.size, pictures * sizeof(stk_pic_yuv));
    l.records = l.size;
    for (uint32_t v = 0; v < stk_row_views(g->c.x); v++)
        part(&l.size, g->size[v]);
    l.bytes = part(&l.size, s->len);
    return l;
}

/* The record of each view: all frames have the same.  0: the GPU makes it. */
static int ask_heads(gpu_clip *g, stk_pic *head)
{
    for (uint32_t v = 0; v < stk_row_views(g->c.x); v++) {
        STK_TRY(stk_row_gpu_program(g->c.x, &g->c.d[v], &g->program[v], NULL));
        STK_TRY(stk_pic_frame_head(&head[v], g->c.d[v].view, g->c.h.width, g->c.h.height, NULL));
        stk_pic_program_add(&g->program[v], &head[v]);
        g->size[v] = head[v].size;
    }
    return 0;
}

static void put_packets(stk_gpu_clip *k, const stk_clip_stream *s, uint8_t *bytes)
{
    memcpy(bytes, s->data, s->len);
    k->n_packets = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const stk_cut_packet *p = &s->packet[i];

        k->packet[i] = (stk_nvdec_packet){ .data = bytes + p->at,
                                           .len = p->len,
                                           .want = p->want,
                                           .begins = p->begins,
                                           .mark = bytes + p->mark,
                                           .mark_len = p->mark_len };
    }
}

/* Views of all frames, in the row's order. */
static void put_pictures(const gpu_clip *g, stk_gpu_clip *k, const stk_pic *head, uint8_t *record)
{
    uint32_t frames = g->c.how->frames;

    for (uint32_t v = 0; v < stk_row_views(g->c.x); v++) {
        memset(record, 0, head[v].size);
        memcpy(record, &head[v], sizeof head[v]);
        stk_pic_program_write(&g->program[v], record);
        for (uint32_t i = 0; i < frames; i++) {
            uint32_t at = v * frames + i, w = 0;

            while (g->c.wanted[w] != g->c.frame[i])
                w++;
            k->record[at] = record;
            k->want[at] = w;
        }
        record += (head[v].size + 63) & ~(size_t)63;
    }
}

static void put_colors(stk_gpu_clip *k, const stk_yuv *c)
{
    const stk_frame_format *f = &k->format;

    stk_pic_yuv_colors(&k->colors, c, f->siting);
    k->colors.low = (uint8_t)(f->bits > 8 ? 16 - f->bits : 0);
    k->colors.step = 2;
    k->colors.half_x = k->colors.half_y = 1;
    k->colors.w = f->width;
    k->colors.h = f->height;
    k->colors.cw = (f->width + 1) / 2;
    k->colors.ch = (f->height + 1) / 2;
}

/* Records of nothing: the GPU has made the row when its batch is sent. */
static int put_made(gpu_clip *g, uint32_t pictures)
{
    size_t size = stk_pic_on_gpu_size();
    uint8_t *to = stk_row_gpu_place(g->c.x, size * pictures);

    for (uint32_t i = 0; to && i < pictures; i++) {
        stk_pic_made_write(to + i * size);
        stk_row_gpu_record(g->c.x, i, 0, to + i * size);
    }
    return to != NULL;
}

/* By what its frames are known, where they may be cached. */
static stk_cached_clip keep_of(const gpu_clip *g)
{
    const stk_plan_cache *cache = &g->c.x->plan->cache;
    stk_cached_clip k = { 0 };

    if (!cache->clip || !cache->clip[g->c.x->output])
        return k;
    k.on = 1;
    k.of = (stk_cache_key){ stk_schedule_id(g->c.x->schedule, &g->c.x->where),
                            cache->clip[g->c.x->output] - 1 };
    k.frames = stk_hash64(g->c.h.number, g->c.wanted, g->c.n_wanted * sizeof *g->c.wanted);
    return k;
}

static stk_gpu_clip *fill(gpu_clip *g, stk_gpu_clips *clips, const stk_clip_stream *s,
                          const stk_pic *head)
{
    const stk_chain *chain = stk_row_chain(g->c.x);
    uint32_t pictures = stk_spec_times(&chain->spec);
    const stk_planes kind = { .bits = s->format.bits,
                              .matrix = s->format.matrix,
                              .full_range = s->format.full_range };
    layout l = lay_out(g, s, pictures);
    stk_gpu_clip *k;
    stk_yuv colors;

    if (stk_yuv_init(&colors, &kind, NULL) < 0 || colors.gbr)
        return NULL;
    k = stk_gpu_clip_new(clips, l.size);
    if (!k)
        return NULL;
    k->codec = g->c.h.codec;
    k->format = s->format;
    k->spec = &g->c.x->batch->common->out[g->c.x->output].spec;
    k->packet = (void *)(k->memory + l.packet);
    k->record = (void *)(k->memory + l.record);
    k->want = (void *)(k->memory + l.want);
    k->picture = (void *)(k->memory + l.picture);
    k->yuv = (void *)(k->memory + l.yuv);
    k->n_pictures = pictures;
    k->n_want = g->c.n_wanted;
    k->keep = keep_of(g);
    k->picture_bytes = chain->row_bytes / pictures;
    put_packets(k, s, k->memory + l.bytes);
    put_pictures(g, k, head, k->memory + l.records);
    put_colors(k, &colors);
    return k;
}

/* 1: the GPU decodes the clip; 0: it does not, or has enough to do.  Where no session is open yet,
 * it gets the packets as a trial, so that one is, and the clip is the worker's. */
static int leave(gpu_clip *g, int must)
{
    stk_gpu_clips *clips = stk_device_clips(g->c.x->plan->gpu.device);
    stk_pic *head = stk_scratch_get(g->c.job.scratch, stk_row_views(g->c.x) * sizeof *head);
    uint32_t pictures = stk_spec_times(&stk_row_chain(g->c.x)->spec);
    const stk_cached_clip keep = keep_of(g);
    int busy = clips && !must && !stk_gpu_clips_cached(clips, &keep) && stk_gpu_clips_busy(clips);
    stk_clip_stream s;
    stk_gpu_clip *k;

    if (!clips || !head || g->c.turn != 1 || (busy && !stk_gpu_clips_cold(clips)) ||
        ask_heads(g, head) < 0 || stk_clip_stream_cut(&s, &g->c.h, &g->c.job, NULL) < 0 ||
        !stk_gpu_clips_takes(clips, g->c.h.codec, &s.format) || (!busy && !put_made(g, pictures)))
        return 0;
    k = fill(g, clips, &s, head);
    if (!k || stk_gpu_clip_submit(k, busy ? NULL : g->c.x->batch, NULL) < 0 || busy)
        return 0;
    for (uint32_t i = 0; i < g->c.n_wanted; i++)
        stk_row_clip_note(&g->c, i, s.time_us[i]);
    stk_row_gpu_note_clip(g->c.x, k);
    stk_device_count_clip(g->c.x->plan->gpu.device, 1);
    stk_stage_time_row(g->c.x->m, STK_STAGE_DECODE);
    return 1;
}

/* ---- the row ---- */

typedef struct worker_clip {
    gpu_clip g;
    stk_spec as;
} worker_clip;

/* The first frame says how all of them go over. */
static int take(void *cookie, uint32_t i, int64_t time_us, const stk_planes *p, stk_error *err)
{
    worker_clip *k = cookie;
    gpu_clip *g = &k->g;
    uint64_t from = stk_ticks();
    int rc = 0;

    if (!g->begun) {
        rc = begin_planes(g, p, err);
        if (rc == STK_ENOTSUP)
            rc = begin_small(g, &k->as, err);
        g->begun = rc == 0;
    }
    if (rc == 0 && !g->planes)
        return stk_row_clip_frame(&g->c, i, time_us, p, err);
    for (uint32_t v = 0; v < stk_row_views(g->c.x) && rc == 0; v++)
        rc = put_planes(g, v, g->c.wanted[i], p, err);
    stk_row_clip_note(&g->c, i, time_us);
    g->c.ticks += stk_ticks() - from;
    return rc;
}

static int open_views(gpu_clip *g, stk_error *err)
{
    uint32_t n = stk_row_views(g->c.x);
    stk_scratch *scratch = &g->c.x->m->scratch;

    g->program = stk_scratch_get(scratch, n * sizeof *g->program);
    g->size = stk_scratch_get(scratch, 2 * n * sizeof *g->size);
    if (!g->program || !g->size)
        return stk_fail_nomem(err, n * sizeof *g->program);
    g->at = g->size + n;
    return 0;
}

static int make(stk_row *x, stk_error *err)
{
    const stk_plan_gpu *gpu = &x->plan->gpu;
    worker_clip k;
    int rc;

    memset(&k.g, 0, sizeof k.g);
    STK_TRY(stk_row_clip_open(&k.g.c, x, err));
    STK_TRY(open_views(&k.g, err));
    if (leave(&k.g, gpu->alone))
        return 0;
    rc = stk_row_clip_decode(&k.g.c, take, err);
    if (rc == STK_ENOTSUP && !k.g.begun && leave(&k.g, 1)) /* no decoder here: the GPU's then */
        return 0;
    if (rc == 0)
        stk_device_count_clip(gpu->device, 0);
    return rc;
}

/* As it must be there. */
static int make_repair(stk_row *x, stk_error *err)
{
    gpu_clip g;

    memset(&g, 0, sizeof g);
    STK_TRY(stk_row_clip_open(&g.c, x, err));
    STK_TRY(begin_ready(&g, err));
    return stk_row_clip_make(&g.c, err);
}

const stk_row_work stk_work_gpu_clip = { .name = "gpu_clip", .make = make };
const stk_row_work stk_work_gpu_clip_ready = { .name = "gpu_clip_ready", .make = make_repair };
