/* SPDX-License-Identifier: Apache-2.0 */
/* pic_geom.h - the layout of a picture's planes, rows and taps in the GPU's scratch memory, and the
 * check of a record that all kernels rely on.
 *
 * The host, which plans the layout, and device code, which trusts no record, compute the same sizes
 * from a record.  A job's parts are in the order planes, rows, taps, units, so device code knows
 * from the beginning of the next part how much it may use.  Which MCUs a rectangle sees, and with
 * which filter a component is enlarged, is as in codec/jpeg_base.c. */
#ifndef STOKER_PIC_GEOM_H
#define STOKER_PIC_GEOM_H

#include "codec/jpeg_core.h"
#include "cuda/pic_prog.h"
#include "kern/taps_core.h"

#if defined(__CUDACC__)
#define STK_PIC_FN static __host__ __device__ __forceinline__
#define STK_PIC_UNROLL _Pragma("unroll")
#else
#define STK_PIC_FN static inline
#define STK_PIC_UNROLL
#endif

#define STK_PIC_MAX_SIDE 65500      /* of a picture, as our JPEG decoder has it */
#define STK_PIC_MAX_OUT 65535       /* outputs of an axis */
#define STK_PIC_MAX_SCALE 256       /* inputs an output */
#define STK_PIC_MAX_DATA (1u << 28) /* bytes: bits of them fit 32 */
#define STK_PIC_MAX_BLOCKS 10       /* of an MCU */
#define STK_PIC_TABLES 2            /* Huffman tables of a kind, baseline's limit */
#define STK_PIC_ACROSS_ROWS 8       /* source rows that a block of threads takes at once */
#define STK_PIC_DOWN_ROWS 16        /* output rows, likewise */
#define STK_PIC_PAD 16              /* bytes after the data that may be read */
#define STK_PIC_KEEP_MORE 32        /* that data takes in the arena beyond its length */

/* How a component grows to the picture's size. */
enum { STK_PIC_UP_NONE, STK_PIC_UP_H2, STK_PIC_UP_V2, STK_PIC_UP_H2V2, STK_PIC_UP_BOX };

/* One component of a picture. */
typedef struct stk_pic_plane {
    uint64_t at;     /* of its bytes, from the job's planes on */
    uint32_t x, y;   /* the component's sample at `at` */
    uint32_t pw, ph; /* samples there are; a row's stride is pw */
    uint32_t w, h;   /* samples of the whole component: where its edge is */
    uint32_t hx, vx; /* it must grow by */
    uint32_t up;     /* STK_PIC_UP_* */
} stk_pic_plane;

/* One axis of a job's taps: `n` words first | count << 16, then weights, `stride` an output.  Of 22
 * bits (fine): twice as many, weight >> 8 of all, then weight & 255 of all. */
typedef struct stk_pic_side {
    uint32_t n, stride, shift, fine;
    uint32_t begin, end; /* outputs that are inside the picture */
    uint32_t lo, hi;     /* inputs that they touch; first counts from lo */
    uint32_t at;         /* of its words, in bytes from the stk_pic_taps on */
} stk_pic_side;

typedef struct stk_pic_taps {
    uint32_t ok; /* the record was checked and is sound: only then may anything of it be used */
    uint32_t zero[15];
    stk_pic_side x, y;
    stk_pic_plane plane[3];
} stk_pic_taps;

/* What a job takes of scratch memory. */
typedef struct stk_pic_room {
    uint64_t planes, rows, taps, units, tile;
} stk_pic_room;

STK_PIC_FN uint64_t stk_pic_up64(uint64_t n)
{
    return (n + 63) & ~(uint64_t)63;
}

STK_PIC_FN uint32_t stk_pic_ceil(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Pixels of a row in scratch: of four a thread takes at once. */
STK_PIC_FN uint32_t stk_pic_row_pixels(uint32_t n)
{
    return (n + 3) & ~3u;
}

STK_PIC_FN int stk_pic_is_jpeg(const stk_pic *r)
{
    return r->kind == STK_PIC_SEEK || r->kind == STK_PIC_WHOLE;
}

/* It has planes: its own, or those of another record. */
STK_PIC_FN int stk_pic_has_planes(const stk_pic *r)
{
    return stk_pic_is_jpeg(r) || r->kind == STK_PIC_SHARED;
}

/* Its pixels go through the filters. */
STK_PIC_FN int stk_pic_is_viewed(const stk_pic *r)
{
    return stk_pic_has_planes(r) || r->kind == STK_PIC_ON_GPU || r->kind == STK_PIC_FRAME;
}

STK_PIC_FN stk_axis stk_pic_axis_of(const stk_pic_axis *p)
{
    stk_axis a;

    a.in = p->in;
    a.res = p->res;
    a.off = p->off;
    a.n = p->n;
    a.flip = p->flip != 0;
    a.filter = p->filter;
    a.border = STK_BORDER_FILL;
    return a;
}

/* ---- planes ---- */

/* Samples lo..hi of an axis for outputs from..to (inclusive): with a triangle filter an even
 * output wants the sample before its own, an odd one that after it. */
STK_PIC_FN void stk_pic_samples(uint32_t from, uint32_t to, uint32_t grow, int fancy, uint32_t *lo,
                                uint32_t *hi)
{
    *lo = from / grow;
    *hi = to / grow;
    if (fancy) {
        *lo -= *lo && !(from & 1);
        *hi += to & 1;
    }
}

STK_PIC_FN uint32_t stk_pic_choose(uint32_t hx, uint32_t vx, uint32_t w)
{
    if (hx == 1 && vx == 1)
        return STK_PIC_UP_NONE;
    if (hx == 1 && vx == 2)
        return STK_PIC_UP_V2;
    if (hx == 2 && vx <= 2 && w > 2)
        return vx == 1 ? STK_PIC_UP_H2 : STK_PIC_UP_H2V2;
    return STK_PIC_UP_BOX;
}

/* Component c: its size, and how it grows. */
STK_PIC_FN stk_pic_plane stk_pic_comp(const stk_pic *r, unsigned c)
{
    stk_pic_plane p;

    p.hx = r->max_h / r->h[c];
    p.vx = r->max_v / r->v[c];
    p.w = stk_pic_ceil(r->width * r->h[c], r->max_h);
    p.h = stk_pic_ceil(r->height * r->v[c], r->max_v);
    p.up = stk_pic_choose(p.hx, p.vx, p.w);
    p.x = r->x0 * 8 * r->h[c];
    p.y = r->y0 * 8 * r->v[c];
    p.pw = (r->x1 - r->x0) * 8 * r->h[c];
    p.ph = (r->y1 - r->y0) * 8 * r->v[c];
    p.at = 0;
    return p;
}

/* The MCUs that `need` (x, y, w, h) sees: x0, y0, x1, y1. */
STK_PIC_FN void stk_pic_frame(const stk_pic *r, const uint32_t need[4], uint32_t seen[4])
{
    uint32_t lo, hi;

    seen[0] = seen[1] = UINT32_MAX;
    seen[2] = seen[3] = 0;
    for (unsigned c = 0; c < r->n_comps; c++) {
        stk_pic_plane p = stk_pic_comp(r, c);
        uint32_t mcu_w = 8u * r->h[c], mcu_h = 8u * r->v[c];

        stk_pic_samples(need[0], need[0] + need[2] - 1, p.hx,
                        p.up == STK_PIC_UP_H2 || p.up == STK_PIC_UP_H2V2, &lo, &hi);
        hi = hi < p.w ? hi : p.w - 1;
        seen[0] = lo / mcu_w < seen[0] ? lo / mcu_w : seen[0];
        seen[2] = hi / mcu_w >= seen[2] ? hi / mcu_w + 1 : seen[2];
        stk_pic_samples(need[1], need[1] + need[3] - 1, p.vx,
                        p.up == STK_PIC_UP_V2 || p.up == STK_PIC_UP_H2V2, &lo, &hi);
        hi = hi < p.h ? hi : p.h - 1;
        seen[1] = lo / mcu_h < seen[1] ? lo / mcu_h : seen[1];
        seen[3] = hi / mcu_h >= seen[3] ? hi / mcu_h + 1 : seen[3];
    }
}

/* All planes of a checked record; the bytes of all. */
STK_PIC_FN uint64_t stk_pic_planes(const stk_pic *r, stk_pic_plane p[3])
{
    uint64_t at = 0;

    for (unsigned c = 0; c < r->n_comps; c++) {
        p[c] = stk_pic_comp(r, c);
        p[c].at = at;
        at += stk_pic_up64((uint64_t)p[c].pw * p[c].ph);
    }
    return at;
}

/* ---- taps ---- */

STK_PIC_FN stk_pic_side stk_pic_side_of(const stk_axis *a, uint64_t *at)
{
    stk_filter f = stk_axis_filter(a);
    uint32_t lo, hi;
    stk_pic_side s;

    s.n = a->n;
    s.stride = stk_axis_stride(a, &f);
    s.shift = stk_axis_shift(&f);
    s.fine = f.fine != 0;
    stk_axis_inputs(a, &f, &s.lo, &s.hi);
    stk_axis_visible(a, &lo, &hi);
    s.begin = lo == hi ? 0 : (uint32_t)(lo - (int64_t)a->off);
    s.end = s.begin + (hi - lo);
    if (a->flip) {
        uint32_t begin = s.begin;

        s.begin = a->n - s.end;
        s.end = a->n - begin;
    }
    s.at = (uint32_t)*at;
    *at = (*at + (uint64_t)s.n * 4 + ((uint64_t)s.n * s.stride * 2 << s.fine) + 15) & ~(uint64_t)15;
    return s;
}

/* The taps of a record: what `t` says before any weight is made; their bytes. */
STK_PIC_FN uint64_t stk_pic_taps_of(const stk_pic *r, stk_pic_taps *t)
{
    stk_axis x = stk_pic_axis_of(&r->x), y = stk_pic_axis_of(&r->y);
    uint64_t at = sizeof(stk_pic_taps);

    if (!r->need[2])
        y.in = 0; /* nothing seen: every row is black */
    t->x = stk_pic_side_of(&x, &at);
    t->y = stk_pic_side_of(&y, &at);
    return at;
}

/* Weights of 22 bits in two halves. */
STK_PIC_FN void stk_pic_taps_fine(int16_t *out, uint32_t stride, const stk_filter *f,
                                  const stk_window *w)
{
    double total = stk_axis_total(f, w);

    for (uint32_t x = w->lo; x < w->hi; x++) {
        int32_t v = stk_axis_exact(f, w, total, x, STK_TAPS_SHIFT_MAX);

        out[x - w->lo] = (int16_t)(v >> 8);
        out[stride + (x - w->lo)] = (int16_t)(v & 255);
    }
}

/* Output j of an axis: first | count << 16, and its weights. */
STK_PIC_FN void stk_pic_taps_one(uint8_t *taps, const stk_pic_side *s, const stk_pic_axis *axis,
                                 uint32_t j)
{
    uint32_t *word = (uint32_t *)(void *)(taps + s->at);
    uint32_t stride = s->stride << s->fine;
    int16_t *weight = (int16_t *)(void *)(word + s->n) + (uint64_t)j * stride;
    stk_axis a = stk_pic_axis_of(axis);
    stk_filter f = stk_axis_filter(&a);
    stk_window w;

    word[j] = 0;
    for (uint32_t k = 0; k < stride; k++)
        weight[k] = 0;
    if (j < s->begin || j >= s->end)
        return;
    w = stk_axis_window(&a, &f, (uint32_t)((a.flip ? a.n - 1 - j : j) + (int64_t)a.off));
    if (w.hi - w.lo > s->stride) /* roundoff; that tap would weigh nothing */
        w.hi = w.lo + s->stride;
    word[j] = (w.lo - s->lo) | (w.hi - w.lo) << 16;
    if (s->fine)
        stk_pic_taps_fine(weight, s->stride, &f, &w);
    else
        stk_axis_weights(weight, &f, &w, s->shift);
}

/* ---- sizes and the check ---- */

/* What a sound record takes.  WHOLE: a unit a subsequence, and one more.  SHARED: planes are
 * another's. */
STK_PIC_FN stk_pic_room stk_pic_room_of(const stk_pic *r)
{
    stk_pic_room room = { 0, 0, stk_pic_up64(sizeof(stk_pic_taps)), 0,
                          stk_pic_up64(stk_pic_tile_bytes(r)) };
    stk_pic_plane p[3];
    stk_pic_taps t;

    if (!stk_pic_is_viewed(r))
        return room;
    room.taps = stk_pic_up64(stk_pic_taps_of(r, &t));
    if (!r->need[2])
        return room;
    room.planes = stk_pic_has_planes(r) ? stk_pic_planes(r, p) : 0;
    room.rows = stk_pic_up64((uint64_t)stk_pic_row_pixels(r->x.n) * r->need[3] * 4);
    if (r->kind == STK_PIC_WHOLE)
        room.units = stk_pic_up64(((uint64_t)r->data_len * 8 / STK_PIC_SUBSEQ + 2) *
                                  sizeof(stk_pic_unit));
    return room;
}

STK_PIC_FN int stk_pic_part(const stk_pic *r, uint64_t at, uint64_t n)
{
    return at % 16 == 0 && at >= sizeof(stk_pic) && at <= r->size && n <= r->size - at;
}

STK_PIC_FN int stk_pic_axis_sound(const stk_pic_axis *a)
{
    uint32_t kind = a->filter & STK_FILTER_KIND;
    uint64_t reach = kind == STK_BICUBIC ? 2 : kind == STK_LANCZOS ? 3 : 1;

    return a->in <= STK_PIC_MAX_SIDE && a->res <= INT32_MAX && a->n <= STK_PIC_MAX_OUT &&
           kind <= STK_LANCZOS && a->filter >> 8 <= STK_TAPS_SHIFT_MAX &&
           (!a->res || a->in * reach <= (uint64_t)a->res * STK_PIC_MAX_SCALE);
}

STK_PIC_FN int stk_pic_comps_sound(const stk_pic *r)
{
    uint32_t max_h = 0, max_v = 0, blocks = 0;

    if (r->tables.n_quant > 3 || r->tables.n_dc > STK_PIC_TABLES || r->tables.n_ac > STK_PIC_TABLES)
        return 0;
    for (unsigned c = 0; c < r->n_comps; c++) {
        if (r->h[c] < 1 || r->h[c] > 4 || r->v[c] < 1 || r->v[c] > 4 || r->max_h % r->h[c] ||
            r->max_v % r->v[c])
            return 0;
        if (r->kind != STK_PIC_SHARED &&
            (r->tables.quant[c] >= r->tables.n_quant || r->tables.dc[c] >= r->tables.n_dc ||
             r->tables.ac[c] >= r->tables.n_ac))
            return 0;
        max_h = r->h[c] > max_h ? r->h[c] : max_h;
        max_v = r->v[c] > max_v ? r->v[c] : max_v;
        blocks += (uint32_t)r->h[c] * r->v[c];
    }
    return max_h == r->max_h && max_v == r->max_v && blocks <= STK_PIC_MAX_BLOCKS;
}

STK_PIC_FN int stk_pic_view_sound(const stk_pic *r)
{
    stk_axis x = stk_pic_axis_of(&r->x), y = stk_pic_axis_of(&r->y);
    stk_filter fx = stk_axis_filter(&x), fy = stk_axis_filter(&y);
    uint32_t x0, x1, y0, y1;

    if (r->clip_x > r->width || r->x.in > r->width - r->clip_x || r->clip_y > r->height ||
        r->y.in > r->height - r->clip_y)
        return 0;
    stk_axis_inputs(&x, &fx, &x0, &x1);
    stk_axis_inputs(&y, &fy, &y0, &y1);
    if (x0 == x1 || y0 == y1)
        return !r->need[2] && !r->need[3];
    if (r->need[0] != r->clip_x + x0 || r->need[1] != r->clip_y + y0 || r->need[2] != x1 - x0 ||
        r->need[3] != y1 - y0)
        return 0;
    return 1;
}

/* The picture's size, and a view of it. */
STK_PIC_FN int stk_pic_seen_sound(const stk_pic *r)
{
    return r->width && r->width <= STK_PIC_MAX_SIDE && r->height && r->height <= STK_PIC_MAX_SIDE &&
           stk_pic_axis_sound(&r->x) && stk_pic_axis_sound(&r->y) && stk_pic_view_sound(r);
}

/* Planes cover what the view sees, and no more than there is. */
STK_PIC_FN int stk_pic_frame_sound(const stk_pic *r)
{
    uint32_t seen[4];

    if (!r->need[2])
        return 1;
    stk_pic_frame(r, r->need, seen);
    return r->x0 <= seen[0] && r->y0 <= seen[1] && seen[2] <= r->x1 && seen[3] <= r->y1 &&
           r->x1 <= r->cols && r->y1 <= r->rows;
}

STK_PIC_FN int stk_pic_jpeg_sound(const stk_pic *r)
{
    if ((r->n_comps != 1 && r->n_comps != 3) || !r->max_h || r->max_h > 4 || !r->max_v ||
        r->max_v > 4 || !stk_pic_comps_sound(r) || !stk_pic_seen_sound(r))
        return 0;
    return r->cols == stk_pic_ceil(r->width, 8u * r->max_h) &&
           r->rows == stk_pic_ceil(r->height, 8u * r->max_v) && stk_pic_frame_sound(r) &&
           stk_pic_part(r, r->tables.quants_at, r->tables.n_quant * 128u) &&
           stk_pic_part(r, r->tables.dcs_at, r->tables.n_dc * sizeof(stk_pic_huff)) &&
           stk_pic_part(r, r->tables.acs_at, r->tables.n_ac * sizeof(stk_pic_huff)) &&
           stk_pic_part(r, r->units_at, (uint64_t)r->n_units * sizeof(stk_pic_unit));
}

/* `n` rows of w values, from byte `at` on, are inside `len` bytes. */
STK_PIC_FN int stk_pic_rows_in(uint64_t at, uint32_t stride, uint64_t w, uint32_t n, uint64_t len)
{
    return at <= len && w <= stride && (!n || (uint64_t)(n - 1) * stride + w <= len - at);
}

/* The planes of a frame in its record cover what is seen: all that is read is clamped to them. */
STK_PIC_FN int stk_pic_frame_here(const stk_pic *r)
{
    const stk_pic_yuv *f = (const stk_pic_yuv *)(const void *)((const uint8_t *)r + r->units_at);

    if (!stk_pic_part(r, r->units_at, sizeof *f) || f->bytes < 1 || f->bytes > 2 || f->low > 8 ||
        f->step < 1 || f->step > 2 || f->half_x > 1 || f->half_y > 1 || f->shift < 13 ||
        f->shift > 24 || !f->w || !f->h || (f->cw && !f->ch))
        return 0;
    for (int k = 0; k < 3; k++)
        if (f->at[k] % f->bytes || f->at[k] > r->data_len)
            return 0;
    if (f->stride % f->bytes || f->cstride % f->bytes || f->w > STK_PIC_MAX_SIDE ||
        f->h > STK_PIC_MAX_SIDE || f->cw > STK_PIC_MAX_SIDE || f->ch > STK_PIC_MAX_SIDE)
        return 0;
    if (!stk_pic_rows_in(f->at[0], f->stride, (uint64_t)f->w * f->bytes, f->h, r->data_len))
        return 0;
    for (int k = 1; k < 3 && f->cw; k++)
        if (!stk_pic_rows_in(f->at[k], f->cstride, ((uint64_t)(f->cw - 1) * f->step + 1) * f->bytes,
                             f->ch, r->data_len))
            return 0;
    return 1;
}

/* May the record be used?  room: bytes of the slab from it on. */
STK_PIC_FN int stk_pic_sound(const stk_pic *r, uint64_t room)
{
    if (room < sizeof(stk_pic) || r->size < sizeof(stk_pic) || r->size > room ||
        r->data_len > STK_PIC_MAX_DATA)
        return 0;
    if (r->arena_at ? r->kind != STK_PIC_SEEK
                    : !stk_pic_part(r, r->data_at, (uint64_t)r->data_len + STK_PIC_PAD))
        return 0;
    if (!stk_pic_prog_sound(r))
        return 0;
    if (r->kind == STK_PIC_U8)
        return r->x.n <= STK_PIC_MAX_OUT && r->y.n <= STK_PIC_MAX_OUT &&
               (uint64_t)r->x.n * r->y.n * 3 <= r->data_len;
    if (r->kind == STK_PIC_READY)
        return r->y.n <= STK_PIC_MAX_OUT && !r->prog.n_steps;
    if (r->kind == STK_PIC_ON_GPU)
        return r->n_comps == 3 && stk_pic_seen_sound(r);
    if (r->kind == STK_PIC_FRAME) /* without data they are the launch's */
        return r->n_comps == 3 && stk_pic_seen_sound(r) && (!r->data_len || stk_pic_frame_here(r));
    if (r->kind == STK_PIC_MADE)
        return !r->prog.n_steps && !r->x.n && !r->y.n;
    return stk_pic_has_planes(r) && stk_pic_jpeg_sound(r);
}

/* Do pixels of this size lie inside what the job says? */
STK_PIC_FN int stk_pic_lies(const stk_pic_launch *l, const stk_pic_lay *y, uint32_t w, uint32_t h)
{
    uint32_t unit = y->patch.side * y->patch.block;

    if (!l->laid)
        return !y->patch.side && !y->w;
    if (y->patch.side)
        return unit && w % unit == 0 && h % unit == 0;
    return !y->w || (w <= y->w && h <= y->h);
}

/* Is the output, and for a ON_GPU picture its source, what the record says? */
STK_PIC_FN int stk_pic_fits(const stk_pic_launch *l, const stk_pic_job *j, const stk_pic *r)
{
    uint64_t elem = l->dtype == STK_PIC_AS_F32 ? 4 : l->dtype == STK_PIC_AS_U8 ? 1 : 2;
    uint32_t w = stk_pic_out_w(r), h = stk_pic_out_h(r);
    uint64_t bytes = (uint64_t)w * h * 3 * elem * (j->lay.patch.side ? j->lay.patch.frames : 1);

    if (l->source) {
        const stk_pic_source *s = l->source + j->source;

        return r->kind == (l->frames ? STK_PIC_FRAME : STK_PIC_ON_GPU) &&
               j->source < l->n_sources && s->width == r->width && s->height == r->height &&
               (s->yuv.bytes != 0) == (l->frames != 0) && j->out_bytes == bytes;
    }
    if (r->kind == STK_PIC_MADE)
        return 1;
    if (r->kind == STK_PIC_READY && !j->lay.w) /* its bytes as they are */
        return r->data_len == j->out_bytes;
    if (!stk_pic_lies(l, &j->lay, w, h))
        return 0;
    if (r->kind == STK_PIC_ON_GPU || (r->kind == STK_PIC_FRAME && !r->data_len) ||
        (stk_pic_is_viewed(r) && (r->kind == STK_PIC_FRAME) != (l->frames != 0)))
        return 0;
    return bytes == j->out_bytes && (r->kind != STK_PIC_READY || r->data_len == bytes);
}

/* ---- the arena ---- */

/* A place there is inside, with what may be read after it.  0: none. */
STK_PIC_FN int stk_pic_in_arena(const stk_pic_launch *l, uint64_t at, uint64_t len)
{
    return !at ||
           (at % 16 == 0 && at <= l->arena_len && len + STK_PIC_KEEP_MORE <= l->arena_len - at);
}

/* The bytes of a record's scan. */
STK_PIC_FN const uint8_t *stk_pic_data(const stk_pic_launch *l, const stk_pic_job *j,
                                       const stk_pic *r)
{
    return r->arena_at ? l->arena + r->arena_at : l->slab + j->rec + r->data_at;
}

typedef struct stk_pic_16 { /* bytes that are moved at once */
    uint64_t v[2];
} stk_pic_16;

/* Thread `thread` of `threads`: its share of a sound record's data into the arena, with zeros after
 * it. */
STK_PIC_FN void stk_pic_keep(const stk_pic_launch *l, const stk_pic_job *j, uint32_t thread,
                             uint32_t threads)
{
    const stk_pic *r = (const stk_pic *)(const void *)(l->slab + j->rec);
    const stk_pic_16 *from = (const stk_pic_16 *)(const void *)stk_pic_data(l, j, r);
    stk_pic_16 *to = (stk_pic_16 *)(void *)(l->arena + j->keep), none = { { 0, 0 } };
    uint32_t n = (r->data_len + 15) / 16;

    if (!j->keep)
        return;
    for (uint32_t i = thread; i <= n; i += threads)
        to[i] = i < n ? from[i] : none;
}

/* The head of a job's taps (all but `ok`); 0 where its record is not sound, or fits neither the job
 * nor the output. */
STK_PIC_FN int stk_pic_open(const stk_pic_launch *l, const stk_pic_job *j, stk_pic_taps *t)
{
    const stk_pic *r = (const stk_pic *)(const void *)(l->slab + j->rec);
    stk_pic_room room;

    if (j->rec > l->slab_len || j->rec % STK_PIC_ALIGN || !stk_pic_sound(r, l->slab_len - j->rec) ||
        r->kind != j->kind || !stk_pic_in_arena(l, r->arena_at, r->data_len) ||
        !stk_pic_in_arena(l, j->keep, r->data_len))
        return 0;
    room = stk_pic_room_of(r);
    if (room.planes > j->planes_end - j->planes || room.rows > j->taps - j->rows ||
        room.taps > j->units - j->taps || room.tile > j->end - j->tile ||
        (r->kind == STK_PIC_SEEK && j->n_units > r->n_units) ||
        (r->kind == STK_PIC_WHOLE && room.units < j->n_units * sizeof(stk_pic_unit)))
        return 0;
    if (!stk_pic_fits(l, j, r))
        return 0;
    if (stk_pic_is_viewed(r))
        (void)stk_pic_taps_of(r, t);
    if (stk_pic_has_planes(r))
        (void)stk_pic_planes(r, t->plane);
    return 1;
}

#endif
