/* SPDX-License-Identifier: Apache-2.0 */
/* pic_prog.h - the layout of the program in a record (what ops drew for its pixels), the scratch
 * memory that it needs, and the check of it that the kernels rely on.
 *
 * The tile's memory is figures first, then areas of as many pixels as the largest step has.  A tile
 * is in area 0 or 2, so that the other two are side by side: a blur's sums, four of 16 bits a
 * pixel, take both.  Versions that are mixed have four more areas: the picture that all of them are
 * made of, and a sum for each channel. */
#ifndef STOKER_PIC_PROG_H
#define STOKER_PIC_PROG_H

#include <stoker/plugin.h>

#include "cuda/slab.h"
#include "kern/tile_code.h"

#if defined(__CUDACC__)
#define STK_PROG_FN static __host__ __device__ __forceinline__
#else
#define STK_PROG_FN static inline
#endif

#define STK_PIC_AREAS 3
#define STK_PIC_MIX_AREAS 7      /* ... of a picture that versions are mixed of */
#define STK_PIC_TILE_PIXELS 2048 /* that a block of threads takes at once */
#define STK_PIC_MAX_TILE 65535   /* a side */
#define STK_PIC_BLUR_NEAR 12     /* taps on each side of a blur that is one step; others are two */

STK_PROG_FN const stk_pic_step *stk_pic_steps(const stk_pic *r)
{
    return (const stk_pic_step *)(const void *)((const uint8_t *)r + r->prog.at);
}

STK_PROG_FN const stk_action *stk_pic_acts(const stk_pic *r)
{
    return (const stk_action *)(const void *)(stk_pic_steps(r) + r->prog.n_steps);
}

STK_PROG_FN const uint8_t *stk_pic_tables_of(const stk_pic *r)
{
    return (const uint8_t *)(const void *)(stk_pic_acts(r) + r->prog.n_acts);
}

/* A blur's action: u[3] says where.  Of JPEG: the quantizers. */
STK_PROG_FN const uint16_t *stk_pic_weights(const stk_pic *r, const stk_action *a)
{
    return (const uint16_t *)(const void *)(stk_pic_tables_of(r) + a->v.u[3]);
}

STK_PROG_FN uint64_t stk_pic_prog_bytes(const stk_pic *r)
{
    return (uint64_t)r->prog.n_steps * sizeof(stk_pic_step) +
           (uint64_t)r->prog.n_acts * sizeof(stk_action) + r->prog.table_bytes;
}

STK_PROG_FN uint32_t stk_pic_sort_of(const stk_pic_step *s, const stk_action *act)
{
    if (s->half == STK_PIC_HALF_ACROSS)
        return s->head && act[s->head - 1].code == STK_ACT_JPEG ? STK_PIC_LOSS
                                                                : STK_PIC_WIDE_ACROSS;
    if (!s->head)
        return STK_PIC_PLAIN;
    if (stk_act_mixes(act[s->head - 1].code))
        return STK_PIC_MIX;
    return s->half == STK_PIC_HALF_WHOLE && act[s->head - 1].code == STK_ACT_BLUR ? STK_PIC_NEAR
                                                                                  : STK_PIC_HEADED;
}

/* The output's size. */
STK_PROG_FN uint32_t stk_pic_out_w(const stk_pic *r)
{
    return r->prog.n_steps ? stk_pic_steps(r)[r->prog.n_steps - 1].w : r->x.n;
}

STK_PROG_FN uint32_t stk_pic_out_h(const stk_pic *r)
{
    return r->prog.n_steps ? stk_pic_steps(r)[r->prog.n_steps - 1].h : r->y.n;
}

STK_PROG_FN uint64_t stk_pic_tile_bytes(const stk_pic *r)
{
    if (!r->prog.n_steps)
        return 0;
    return (uint64_t)r->prog.n_slots * STK_PIC_FIGURES * 4 +
           (uint64_t)r->prog.area * 4 * r->prog.areas;
}

/* ---- the check ---- */

STK_PROG_FN int stk_pic_act_sound(const stk_action *a)
{
    return stk_act_is_point(a->code) || a->code == STK_ACT_ERASE;
}

STK_PROG_FN int stk_pic_table_sound(const stk_pic *r, uint32_t at, uint64_t bytes)
{
    return at % 4 == 0 && at <= r->prog.table_bytes && bytes <= r->prog.table_bytes - at;
}

STK_PROG_FN int stk_pic_blur_sound(const stk_pic *r, const stk_pic_step *s, const stk_action *a)
{
    uint32_t from = s->from_to & 255, to = s->from_to >> 8;

    if (a->v.u[0] >= STK_PIC_WEIGHTS || a->v.u[1] >= STK_PIC_WEIGHTS ||
        !stk_pic_table_sound(r, a->v.u[3], 2 * STK_PIC_WEIGHTS * sizeof(uint16_t)))
        return 0;
    switch (s->half) { /* sums of half a blur are in two areas */
    case STK_PIC_HALF_ACROSS: return to + 1 < r->prog.areas;
    case STK_PIC_HALF_DOWN: return from + 1 < r->prog.areas;
    default:
        return s->half == STK_PIC_HALF_WHOLE && a->v.u[0] <= STK_PIC_BLUR_NEAR &&
               a->v.u[1] <= STK_PIC_BLUR_NEAR && from != to;
    }
}

/* Inputs of an output are looked at when they are used. */
STK_PROG_FN int stk_pic_view_step_sound(const stk_pic *r, const stk_pic_step *s,
                                        const stk_action *a)
{
    uint64_t n = s->half == STK_PIC_HALF_DOWN ? s->h : s->w;

    return (s->half == STK_PIC_HALF_DOWN || s->half == STK_PIC_HALF_WHOLE) && a->v.u[2] >= 1 &&
           a->v.u[2] < 31 && a->v.u[1] <= UINT16_MAX &&
           stk_pic_table_sound(r, a->v.u[0], n * 4 + n * a->v.u[1] * (a->v.u[6] ? 4 : 2));
}

/* An action that sees other pixels, and where it finds them. */
STK_PROG_FN int stk_pic_head_sound(const stk_pic *r, const stk_pic_step *s)
{
    const stk_action *a = stk_pic_acts(r) + s->head - 1;

    if (a->code == STK_PIC_ACT_VIEW)
        return (s->half == STK_PIC_HALF_DOWN ? s->w == s->in_w : s->h <= s->in_h) &&
               stk_pic_view_step_sound(r, s, a);
    if (s->in_w != s->w || s->in_h != s->h)
        return 0;
    if (a->code == STK_ACT_BLUR)
        return stk_pic_blur_sound(r, s, a);
    if (a->code == STK_ACT_JPEG)
        return (s->half == STK_PIC_HALF_ACROSS || s->half == STK_PIC_HALF_DOWN) &&
               (s->from_to & 255) != s->from_to >> 8 &&
               stk_pic_table_sound(r, a->v.u[3], 2 * STK_PIC_WEIGHTS * sizeof(uint16_t));
    if (stk_act_mixes(a->code))
        return s->half == STK_PIC_HALF_WHOLE && r->prog.areas == STK_PIC_MIX_AREAS &&
               (s->from_to & 255) < STK_PIC_AREAS && s->from_to >> 8 < STK_PIC_AREAS;
    return s->half == STK_PIC_HALF_WHOLE &&
           (a->code == STK_ACT_SHARPNESS || a->code == STK_ACT_PIL_SHARPNESS ||
            (a->code == STK_ACT_PIL_BOX && a->v.u[0] <= STK_PIL_BOX_MAX) ||
            stk_act_moves(a->code) || a->code == STK_ACT_MIX_WARP);
}

STK_PROG_FN int stk_pic_step_sound(const stk_pic *r, uint32_t k)
{
    const stk_pic_step *s = stk_pic_steps(r) + k;
    uint32_t from = s->from_to & 255, to = s->from_to >> 8, acts = r->prog.n_acts - r->prog.n_row;

    if (s->in_w != (k ? s[-1].w : r->x.n) || s->in_h != (k ? s[-1].h : r->y.n) ||
        from >= r->prog.areas || to >= r->prog.areas || s->head > acts || s->first > acts ||
        s->n > acts - s->first || s->slot > r->prog.n_slots || (s->slot && !s->n) ||
        (s->wants && s->into >= r->prog.n_slots) || (uint64_t)s->w * s->h > r->prog.area ||
        (s->half == STK_PIC_HALF_ACROSS && (s->n || s->wants || k + 1 == r->prog.n_steps)))
        return 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const stk_action *a = stk_pic_acts(r) + s->first + i;

        if (!stk_pic_act_sound(a) || stk_act_has_figures(a->code) != (s->slot && !i))
            return 0;
    }
    return s->head ? stk_pic_head_sound(r, s)
                   : s->half == STK_PIC_HALF_WHOLE && s->in_w == s->w && s->in_h == s->h;
}

/* The record's size is known to be right. */
STK_PROG_FN int stk_pic_prog_sound(const stk_pic *r)
{
    if (!r->prog.n_steps)
        return !r->prog.n_slots;
    if (r->prog.at % 16 || r->prog.at < sizeof(stk_pic) || r->prog.at > r->size ||
        r->prog.n_steps > STK_PIC_MAX_STEPS || stk_pic_prog_bytes(r) > r->size - r->prog.at ||
        r->prog.n_row > r->prog.n_acts || r->prog.areas < 1 || r->prog.areas > STK_PIC_MIX_AREAS ||
        r->prog.n_slots > STK_PIC_MAX_STEPS || r->x.n > STK_PIC_MAX_TILE ||
        r->y.n > STK_PIC_MAX_TILE || r->prog.area % 4 || (uint64_t)r->x.n * r->y.n > r->prog.area)
        return 0;
    for (uint32_t k = 0; k < r->prog.n_steps; k++)
        if (!stk_pic_step_sound(r, k))
            return 0;
    return 1;
}

#endif
