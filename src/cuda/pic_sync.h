/* SPDX-License-Identifier: Apache-2.0 */
/* pic_sync.h - finds where decoding may begin in JPEGs without seek points, by many threads of a
 * GPU.
 *
 * The scan is cut into cells of STK_PIC_SUBSEQ bits, whatever is there.  A block belongs to the
 * cell in which it begins, so a cell is known by the first block that begins in it or after it: bit
 * and number in the MCU, its state.  Huffman codes fall into step by themselves, so that
 *
 *   guess    every thread walks over a few cells, as if a block began at the first one's first bit;
 *   rounds   a cell that began elsewhere than the one before it ended is walked over again, until
 *            there is none; what a walk ends with is then what one walk from the scan's begin has;
 *   sums     of MCUs and of DC differences give each cell's first MCU its number and DC values: a
 *            unit, kept where the view sees any MCU of it.
 *
 * One block of threads does a picture, a tile of STK_SYNC_TILE cells after the other, each from
 * where the one before ended, so memory does not grow with the picture.  stk_sync_picture() is the
 * whole order of events; STK_SYNC_EACH runs a phase for every thread and waits for all.  On the
 * host that is a loop, which is how the tests run it.  Within a phase no thread reads what another
 * writes. */
#ifndef STOKER_PIC_SYNC_H
#define STOKER_PIC_SYNC_H

#include "cuda/pic_walk.h"
#include "cuda/slab.h"

#define STK_SYNC_THREADS 256
#define STK_SYNC_RUN 4 /* cells that a thread guesses at most; a wrong begin costs about one */
#define STK_SYNC_TILE (STK_SYNC_THREADS * STK_SYNC_RUN)
#define STK_SYNC_ROUNDS 128 /* of a tile; photos need 5 to 20 */
#define STK_SYNC_GROUP 16   /* threads whose sums are added first */

#if defined(__CUDA_ARCH__)
#define STK_SYNC_EACH(t, ...)                                                                      \
    do {                                                                                           \
        uint32_t t = threadIdx.x;                                                                  \
        __VA_ARGS__;                                                                               \
        __syncthreads();                                                                           \
    } while (0)
#define STK_SYNC_WAIT() __syncthreads()
#define STK_SYNC_ADD(p, v) atomicAdd(p, v)
#define STK_SYNC_OR(p, v) atomicOr(p, v)
#define STK_SYNC_MIN(p, v) atomicMin(p, v)
#else
#ifndef STK_SYNC_ORDER
#define STK_SYNC_ORDER(i) (i) /* tests try others: it must not matter */
#endif
#define STK_SYNC_EACH(t, ...)                                                                      \
    do {                                                                                           \
        for (uint32_t t##_i = 0; t##_i < STK_SYNC_THREADS; t##_i++) {                              \
            uint32_t t = STK_SYNC_ORDER(t##_i);                                                    \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)
static inline uint32_t stk_sync_host_add(uint32_t *p, uint32_t v)
{
    uint32_t was = *p;

    *p += v;
    return was;
}
#define STK_SYNC_WAIT() (void)0
#define STK_SYNC_ADD(p, v) stk_sync_host_add(p, v)
#define STK_SYNC_OR(p, v) (void)(*(p) |= (v))
#define STK_SYNC_MIN(p, v) (void)(*(p) = *(p) < (v) ? *(p) : (v))
#endif

/* A state is what is between the cell's first bit and its first block << 4 | number of the block.
 * A block has at most 1984 bits, twice that with stuffing, so 16 bits hold it. */
typedef struct stk_sync_cell {
    uint16_t in, out;           /* states: its own, the next one's */
    uint16_t first;             /* bit of its first MCU | STK_SYNC_BAD | final << 12 */
    uint16_t mcus;              /* that begin in it */
    uint16_t before[3], sum[3]; /* DC differences: before its first MCU, in all */
} stk_sync_cell;

#define STK_SYNC_BIT 0x7FF
#define STK_SYNC_BAD 0x800
#define STK_SYNC_FINAL 0x1000 /* MCUs after which nothing but padding comes: the picture's end */

typedef struct stk_sync_sum {
    uint32_t mcus;
    uint16_t dc[3], ends; /* ends: see STK_SYNC_FINAL */
} stk_sync_sum;

typedef struct stk_sync { /* shared memory of a block of threads */
    stk_walk_tables t;
    stk_walk_data data;
    uint32_t len, marker;      /* of the data; its first marker */
    uint32_t cells;            /* of the scan */
    uint32_t base, count, run; /* the tile: first cell, cells, cells a thread */
    uint32_t n_list[2];        /* cells to be walked over again, of even and odd rounds */
    uint32_t status;           /* STK_PIC_BAD_* */
    uint32_t rounds, walked;   /* what it took: rounds of all tiles; cells walked over */
    uint32_t cols, mcus;       /* MCUs of a row, of the picture */
    uint32_t view[4], last;    /* x0, y0, x1, y1; the MCU after the last row of it */
    stk_sync_sum carry;        /* of the tiles before */
    stk_pic_unit *unit;
    uint32_t n_units, seen; /* room for them; that there are */
    uint16_t list[STK_SYNC_TILE];
    stk_sync_cell cell[STK_SYNC_TILE + 1]; /* [0] only has `out`: where the tile begins */
    stk_sync_sum part[STK_SYNC_THREADS], group[STK_SYNC_THREADS / STK_SYNC_GROUP];
    uint16_t keep[STK_SYNC_THREADS], keeps[STK_SYNC_THREADS / STK_SYNC_GROUP]; /* units */
} stk_sync;

/* What a block of threads is given. */
typedef struct stk_sync_task {
    const uint8_t *slab;
    uint64_t slab_len;
    uint8_t *scratch;
    const stk_pic_job *job;
    uint32_t *status;
    uint32_t whole; /* units of all MCUs are wanted, whatever the view is */
} stk_sync_task;

/* ---- the record ---- */

STK_HD static inline int stk_sync_huffs_fit(const stk_pic *p, uint32_t at, uint32_t n)
{
    return n >= 1 && n <= STK_WALK_TABLES && at % 4 == 0 && at <= p->size &&
           n * sizeof(stk_pic_huff) <= p->size - at;
}

/* Are all offsets and numbers such that nothing outside of the record is touched? */
STK_HD static inline int stk_sync_record_fits(const stk_pic *p, uint64_t room)
{
    uint32_t blocks = 0;

    if (p->kind != STK_PIC_WHOLE || p->size > room || p->size < sizeof *p)
        return 0;
    if ((p->n_comps != 1 && p->n_comps != 3) || !p->cols || !p->rows || p->cols > 65536 ||
        p->rows > 65536 || p->x1 > p->cols || p->y1 > p->rows ||
        (uint64_t)p->cols * p->rows >= UINT32_MAX)
        return 0;
    for (uint32_t c = 0; c < p->n_comps; c++) {
        if (p->h[c] < 1 || p->h[c] > 4 || p->v[c] < 1 || p->v[c] > 4 ||
            p->tables.dc[c] >= p->tables.n_dc || p->tables.ac[c] >= p->tables.n_ac)
            return 0;
        blocks += (uint32_t)p->h[c] * p->v[c];
    }
    if (blocks > STK_WALK_BLOCKS || !stk_sync_huffs_fit(p, p->tables.dcs_at, p->tables.n_dc) ||
        !stk_sync_huffs_fit(p, p->tables.acs_at, p->tables.n_ac))
        return 0;
    return p->data_at % 4 == 0 && p->data_at <= p->size && p->data_len <= p->size - p->data_at &&
           p->data_len <= STK_WALK_MAX && (uint64_t)p->data_at + p->data_len + 16 <= room;
}

STK_HD static inline const stk_jpeg_huff *stk_sync_huff(const stk_pic *p, int is_ac, uint32_t i)
{
    const uint8_t *at = (const uint8_t *)p + (is_ac ? p->tables.acs_at : p->tables.dcs_at);

    return (const stk_jpeg_huff *)(const void *)(at + i * sizeof(stk_pic_huff));
}

STK_HD static inline void stk_sync_set_ops(stk_walk_tables *t, const stk_pic *p)
{
    t->blocks = 0;
    for (uint32_t c = 0; c < p->n_comps; c++)
        for (uint32_t i = 0; i < (uint32_t)p->h[c] * p->v[c]; i++)
            t->op[t->blocks++] = (uint8_t)(c | (uint32_t)p->tables.dc[c] << 2 |
                                           (uint32_t)p->tables.ac[c] << 4);
}

/* The MCUs whose units are wanted. */
STK_HD static inline void stk_sync_set_view(stk_sync *s, const stk_pic *p, int whole)
{
    s->view[0] = whole ? 0 : p->x0;
    s->view[1] = whole ? 0 : p->y0;
    s->view[2] = whole ? p->cols : p->x1;
    s->view[3] = whole ? p->rows : p->y1;
    s->last = s->view[0] < s->view[2] && s->view[1] < s->view[3] ? s->view[3] * p->cols : 0;
}

/* Thread 0: what the record says. */
STK_HD static inline void stk_sync_open(stk_sync *s, const stk_sync_task *k, uint32_t t)
{
    const stk_pic *p = (const stk_pic *)(const void *)(k->slab + k->job->rec);
    uint64_t rec = k->job->rec;

    if (t)
        return;
    s->status = s->rounds = s->walked = s->base = s->cells = s->seen = 0;
    s->unit = (stk_pic_unit *)(void *)(k->scratch + k->job->units);
    s->n_units = k->job->n_units;
    s->carry.mcus = s->carry.ends = 0;
    s->carry.dc[0] = s->carry.dc[1] = s->carry.dc[2] = 0;
    s->cell[0].out = 0;
    if (rec % STK_PIC_ALIGN || rec > k->slab_len || k->slab_len - rec < sizeof *p ||
        !stk_sync_record_fits(p, k->slab_len - rec)) {
        s->status = STK_PIC_BAD_RECORD;
        return;
    }
    stk_sync_set_ops(&s->t, p);
    s->cols = p->cols;
    s->mcus = p->cols * p->rows;
    stk_sync_set_view(s, p, (int)k->whole);
    s->len = s->marker = s->data.end = p->data_len;
    s->data.bytes = (const uint8_t *)p + p->data_at;
}

/* ---- the scan's end ---- */

/* The first 0xFF that is not stuffed, among the 16 bytes from 16 * i on. */
STK_HD static inline void stk_sync_find_end(stk_sync *s, uint32_t i)
{
    uint32_t from = i * 16, to = s->len - from > 16 ? from + 16 : s->len, any = 0;

    for (uint32_t w = from / 4; w < (to + 3) / 4; w++) {
        uint32_t v = ~stk_walk_word(&s->data, w);

        any |= ~(((v & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | v | 0x7F7F7F7Fu);
    }
    for (uint32_t p = from; any && p < to; p++)
        if (s->data.bytes[p] == 0xFF && (p + 1 == s->len || s->data.bytes[p + 1])) {
            STK_SYNC_MIN(&s->marker, p);
            return;
        }
}

STK_HD static inline void stk_sync_find_ends(stk_sync *s, uint32_t t)
{
    uint32_t n = (s->len + 15) / 16;

    for (uint32_t i = t; i < n; i += STK_SYNC_THREADS)
        stk_sync_find_end(s, i);
}

/* ---- tables ---- */

/* A thread a table. */
STK_HD static inline void stk_sync_codes(stk_sync *s, const stk_pic *p, uint32_t t)
{
    int is_ac = t >= STK_WALK_TABLES;
    uint32_t i = t % STK_WALK_TABLES;
    const stk_jpeg_huff *h;

    if (t >= 2 * STK_WALK_TABLES || i >= (is_ac ? p->tables.n_ac : p->tables.n_dc))
        return;
    h = stk_sync_huff(p, is_ac, i);
    s->t.vals[is_ac][i] = h->vals;
    if (stk_jpeg_long_build(&s->t.more[is_ac][i], h, !is_ac))
        STK_SYNC_OR(&s->status, STK_PIC_BAD_RECORD);
}

STK_HD static inline void stk_sync_tables(stk_sync *s, const stk_pic *p, uint32_t t)
{
    for (uint32_t w = 0; w < p->tables.n_dc; w++)
        for (uint32_t i = t; i < 1u << STK_WALK_DC_BITS; i += STK_SYNC_THREADS)
            s->t.dc[w][i] = stk_walk_dc_entry(&s->t.more[0][w], s->t.vals[0][w], i);
    for (uint32_t w = 0; w < p->tables.n_ac; w++)
        for (uint32_t i = t; i < 1u << STK_WALK_AC_BITS; i += STK_SYNC_THREADS)
            s->t.ac[w][i].half.one = stk_walk_one_entry(&s->t.more[1][w], s->t.vals[1][w], i);
}

STK_HD static inline void stk_sync_many(stk_sync *s, const stk_pic *p, uint32_t t)
{
    for (uint32_t w = 0; w < p->tables.n_ac; w++)
        for (uint32_t i = t; i < 1u << STK_WALK_AC_BITS; i += STK_SYNC_THREADS)
            s->t.ac[w][i].half.many = stk_walk_many_entry(s->t.ac[w], i);
}

/* ---- walking over cells ---- */

STK_HD static inline uint32_t stk_sync_stop(const stk_sync *s, uint32_t cell)
{
    /* The picture's end counts as the begin of one more MCU; it may be the scan's last bit. */
    return cell + 1 == s->cells ? s->data.end * 8 + 1 : (cell + 1) * STK_PIC_SUBSEQ;
}

/* An MCU begins.  Is it the end of the picture: does padding only come after it? */
STK_HD static inline void stk_sync_mcu(const stk_sync *s, stk_sync_cell *c, const stk_walk *w,
                                       uint32_t begin)
{
    int near_end = stk_walk_near(&w->b) + 24 > s->data.end * 8;
    uint32_t at;

    if (c->mcus++ && !near_end)
        return;
    at = stk_walk_at(&w->b, &s->data);
    if (near_end && stk_jpeg_marker_at(s->data.bytes, at) == s->data.end)
        c->first += STK_SYNC_FINAL;
    if (c->mcus > 1)
        return;
    c->first |= (uint16_t)(at - begin);
    for (int i = 0; i < 3; i++)
        c->before[i] = (uint16_t)w->sum[i];
}

STK_HD static inline void stk_sync_begin_cell(stk_sync_cell *c, stk_walk *w)
{
    c->first = c->mcus = 0;
    c->before[0] = c->before[1] = c->before[2] = 0;
    w->sum[0] = w->sum[1] = w->sum[2] = 0;
    w->bad = 0;
}

STK_HD static inline void stk_sync_end_cell(stk_sync_cell *to, stk_sync_cell *c, const stk_walk *w,
                                            uint32_t after)
{
    c->out = (uint16_t)((after < 4095 ? after : 4095) << 4 | w->block);
    for (int i = 0; i < 3; i++)
        c->sum[i] = (uint16_t)w->sum[i];
    *to = *c;
}

/* Cells i.. (of the tile, from 1 on), n of them, from the first one's state. */
STK_HD static inline void stk_sync_walk(stk_sync *s, uint32_t i, uint32_t n)
{
    uint32_t cell = s->base + i - 1, begin = cell * STK_PIC_SUBSEQ, stop = stk_sync_stop(s, cell);
    const stk_walk_data d = s->data;
    stk_sync_cell c;
    stk_walk w;

    c.in = s->cell[i].in;
    stk_walk_begin(&w, &d, begin + (c.in >> 4), c.in & 15);
    stk_sync_begin_cell(&c, &w);
    for (;;) {
        if (w.k == STK_WALK_DONE) {
            while (stk_walk_near(&w.b) >= stop) {
                uint32_t at = stk_walk_at(&w.b, &d), next = begin + STK_PIC_SUBSEQ;

                if (at < stop)
                    break;
                stk_sync_end_cell(&s->cell[i], &c, &w, at - next);
                if (!--n)
                    return;
                c.in = c.out;
                i++;
                begin = next;
                stop = stk_sync_stop(s, ++cell);
                stk_sync_begin_cell(&c, &w);
            }
            if (!w.block)
                stk_sync_mcu(s, &c, &w, begin);
            stk_walk_dc(&w, &d, &s->t);
        }
        stk_walk_ac_some(&w, &d, &s->t);
        if (w.bad && c.first < STK_SYNC_FINAL) /* after the end it means nothing */
            c.first |= STK_SYNC_BAD;
    }
}

/* ---- a tile ---- */

STK_HD static inline void stk_sync_begin_tile(stk_sync *s, uint32_t t)
{
    uint32_t left = s->cells - s->base;

    if (t)
        return;
    s->count = left < STK_SYNC_TILE ? left : STK_SYNC_TILE;
    s->run = (s->count + STK_SYNC_THREADS - 1) / STK_SYNC_THREADS;
    s->n_list[0] = s->n_list[1] = 0;
    s->walked += s->count;
}

STK_HD static inline void stk_sync_guess(stk_sync *s, uint32_t t)
{
    uint32_t i = 1 + t * s->run, n, byte;

    if (i > s->count)
        return;
    n = s->count - i + 1 < s->run ? s->count - i + 1 : s->run;
    byte = (s->base + i - 1) * (STK_PIC_SUBSEQ / 8);
    s->cell[i].in = byte && s->data.bytes[byte - 1] == 0xFF ? 8 << 4 : 0;
    if (!t)
        s->cell[i].in = s->cell[0].out;
    stk_sync_walk(s, i, n);
}

/* Which cells begin elsewhere than the one before ended? */
STK_HD static inline void stk_sync_find_wrong(stk_sync *s, uint32_t round, uint32_t t)
{
    for (uint32_t i = 1 + t; i <= s->count; i += STK_SYNC_THREADS)
        if (s->cell[i].in != s->cell[i - 1].out) {
            s->cell[i].in = s->cell[i - 1].out;
            s->list[STK_SYNC_ADD(&s->n_list[round & 1], 1)] = (uint16_t)i;
        }
}

STK_HD static inline void stk_sync_redo(stk_sync *s, uint32_t round, uint32_t t)
{
    uint32_t n = s->n_list[round & 1];

    for (uint32_t k = t; k < n; k += STK_SYNC_THREADS)
        stk_sync_walk(s, s->list[k], 1);
    if (t)
        return;
    s->n_list[~round & 1] = 0;
    s->rounds++;
    s->walked += n;
}

/* Walk over cells again until all fit. */
STK_HD static inline void stk_sync_settle(stk_sync *s)
{
    for (uint32_t round = 0; round <= STK_SYNC_ROUNDS; round++) {
        STK_SYNC_EACH(t, stk_sync_find_wrong(s, round, t));
        if (!s->n_list[round & 1])
            return;
        STK_SYNC_EACH(t, stk_sync_redo(s, round, t));
    }
    STK_SYNC_EACH(t, if (!t) s->status |= STK_PIC_BAD_SYNC);
}

/* ---- sums and units ---- */

STK_HD static inline void stk_sync_sum_add(stk_sync_sum *a, const stk_sync_sum *b)
{
    a->mcus += b->mcus;
    a->ends = (uint16_t)(a->ends + b->ends);
    for (int i = 0; i < 3; i++)
        a->dc[i] = (uint16_t)(a->dc[i] + b->dc[i]);
}

STK_HD static inline stk_sync_sum stk_sync_sum_of(const stk_sync_cell *c)
{
    stk_sync_sum v;

    v.mcus = c->mcus;
    v.ends = c->first >> 12;
    for (int i = 0; i < 3; i++)
        v.dc[i] = c->sum[i];
    return v;
}

STK_HD static inline void stk_sync_sum_cells(stk_sync *s, uint32_t t)
{
    stk_sync_sum all = { 0, { 0, 0, 0 }, 0 };

    for (uint32_t k = 0; k < s->run; k++) {
        uint32_t i = 1 + t * s->run + k;

        if (i <= s->count) {
            stk_sync_sum v = stk_sync_sum_of(&s->cell[i]);

            stk_sync_sum_add(&all, &v);
        }
    }
    s->part[t] = all;
}

STK_HD static inline void stk_sync_sum_groups(stk_sync *s, uint32_t t)
{
    stk_sync_sum all = { 0, { 0, 0, 0 }, 0 };

    if (t >= STK_SYNC_THREADS / STK_SYNC_GROUP)
        return;
    for (uint32_t k = 0; k < STK_SYNC_GROUP; k++)
        stk_sync_sum_add(&all, &s->part[t * STK_SYNC_GROUP + k]);
    s->group[t] = all;
}

/* Are any of these MCUs in view? */
STK_HD static inline int stk_sync_seen(const stk_sync *s, uint32_t mcu, uint32_t count)
{
    uint32_t row = mcu / s->cols, col = mcu % s->cols, to = col + count;
    int here = row >= s->view[1] && row < s->view[3];
    int below = row + 1 >= s->view[1] && row + 1 < s->view[3];

    if (!count || mcu >= s->last)
        return 0;
    if (to > 2 * s->cols)
        return 1;
    return (here && col < s->view[2] && to > s->view[0]) ||
           (below && to > s->cols && to - s->cols > s->view[0]);
}

/* MCUs of a cell's unit that are the picture's; `at`: all that comes before the cell. */
STK_HD static inline uint32_t stk_sync_mcus(const stk_sync *s, uint32_t i, const stk_sync_sum *at)
{
    uint32_t n = s->cell[i].mcus, left = at->mcus < s->mcus ? s->mcus - at->mcus : 0;

    return n < left ? n : left;
}

/* What comes before thread t's first cell. */
STK_HD static inline stk_sync_sum stk_sync_before(const stk_sync *s, uint32_t t)
{
    stk_sync_sum at = s->carry;
    uint32_t group = t / STK_SYNC_GROUP;

    for (uint32_t k = 0; k < group; k++)
        stk_sync_sum_add(&at, &s->group[k]);
    for (uint32_t k = group * STK_SYNC_GROUP; k < t; k++)
        stk_sync_sum_add(&at, &s->part[k]);
    return at;
}

/* How many units will thread t keep?  And is everything right up to the last? */
STK_HD static inline void stk_sync_count_units(stk_sync *s, uint32_t t)
{
    stk_sync_sum at = stk_sync_before(s, t), v;
    uint32_t n = 0, from = 1 + t * s->run;

    for (uint32_t i = from; i < from + s->run && i <= s->count; i++) {
        if (s->cell[i].first & STK_SYNC_BAD && at.mcus <= s->last)
            STK_SYNC_OR(&s->status, STK_PIC_BAD_CODE);
        n += (uint32_t)stk_sync_seen(s, at.mcus, stk_sync_mcus(s, i, &at));
        v = stk_sync_sum_of(&s->cell[i]);
        stk_sync_sum_add(&at, &v);
    }
    s->keep[t] = (uint16_t)n;
}

STK_HD static inline void stk_sync_sum_keeps(stk_sync *s, uint32_t t)
{
    uint32_t n = 0;

    if (t >= STK_SYNC_THREADS / STK_SYNC_GROUP)
        return;
    for (uint32_t k = 0; k < STK_SYNC_GROUP; k++)
        n += s->keep[t * STK_SYNC_GROUP + k];
    s->keeps[t] = (uint16_t)n;
}

STK_HD static inline void stk_sync_put_units(stk_sync *s, uint32_t t)
{
    stk_sync_sum at = stk_sync_before(s, t), v;
    uint32_t from = 1 + t * s->run, to = s->seen, group = t / STK_SYNC_GROUP;

    for (uint32_t k = 0; k < group; k++)
        to += s->keeps[k];
    for (uint32_t k = group * STK_SYNC_GROUP; k < t; k++)
        to += s->keep[k];
    for (uint32_t i = from; i < from + s->run && i <= s->count; i++) {
        const stk_sync_cell *c = &s->cell[i];
        uint32_t count = stk_sync_mcus(s, i, &at);

        if (stk_sync_seen(s, at.mcus, count)) {
            stk_pic_unit *u = &s->unit[to++];

            u->at = (s->base + i - 1) * STK_PIC_SUBSEQ + (c->first & STK_SYNC_BIT);
            u->mcu = at.mcus;
            u->bits = u->zero = 0;
            u->count = (uint16_t)count;
            for (int k = 0; k < 3; k++)
                u->dc[k] = (int16_t)(uint16_t)(at.dc[k] + c->before[k]);
        }
        v = stk_sync_sum_of(c);
        stk_sync_sum_add(&at, &v);
    }
}

STK_HD static inline void stk_sync_end_tile(stk_sync *s, uint32_t t)
{
    if (t)
        return;
    for (uint32_t k = 0; k < STK_SYNC_THREADS / STK_SYNC_GROUP; k++)
        stk_sync_sum_add(&s->carry, &s->group[k]), s->seen += s->keeps[k];
    s->cell[0].out = s->cell[s->count].out;
    s->base += s->count;
}

/* ---- a picture ---- */

/* Thread 0, once all that is needed was seen: is it all there?  Where the last row is
 * needed, the scan must end with padding and the end marker, as our decoder wants it on the CPU. */
STK_HD static inline void stk_sync_check(stk_sync *s, uint32_t t)
{
    const uint8_t *d = s->data.bytes;
    uint32_t end = s->data.end;

    if (t || s->status || !s->last)
        return;
    if (s->carry.mcus <= s->last)
        s->status = STK_PIC_BAD_SYNC;
    if (s->last == s->mcus && (s->carry.mcus - s->carry.ends > s->mcus || s->len < 2 ||
                               end > s->len - 2 || d[end] != 0xFF || d[end + 1] != 0xD9))
        s->status = STK_PIC_BAD_SYNC;
}

STK_HD static inline void stk_sync_finish(stk_sync *s, const stk_sync_task *k, uint32_t t)
{
    stk_pic_unit none = { 0, 0, 0, 0, { 0, 0, 0 }, 0 };

    for (uint32_t i = (s->status ? 0 : s->seen) + t; i < s->n_units; i += STK_SYNC_THREADS)
        s->unit[i] = none;
    if (!t && s->status)
        STK_SYNC_OR(k->status, s->status);
}

/* Thread 0: the scan's end and how many cells there are. */
STK_HD static inline void stk_sync_count(stk_sync *s, uint32_t t)
{
    if (t)
        return;
    s->data.end = s->marker;
    if (s->last)
        s->cells = (s->data.end + STK_PIC_SUBSEQ / 8 - 1) / (STK_PIC_SUBSEQ / 8);
    if (s->cells > s->n_units)
        s->status |= STK_PIC_BAD_RECORD;
}

STK_HD static inline void stk_sync_tiles(stk_sync *s)
{
    while (!s->status && s->base < s->cells && s->carry.mcus <= s->last) {
        STK_SYNC_WAIT(); /* all have looked, now thread 0 may write */
        STK_SYNC_EACH(t, stk_sync_begin_tile(s, t));
        STK_SYNC_EACH(t, stk_sync_guess(s, t));
        stk_sync_settle(s);
        if (s->status)
            return;
        STK_SYNC_EACH(t, stk_sync_sum_cells(s, t));
        STK_SYNC_EACH(t, stk_sync_sum_groups(s, t));
        STK_SYNC_EACH(t, stk_sync_count_units(s, t));
        STK_SYNC_EACH(t, stk_sync_sum_keeps(s, t));
        STK_SYNC_EACH(t, stk_sync_put_units(s, t));
        STK_SYNC_EACH(t, stk_sync_end_tile(s, t));
    }
}

/* Units of one picture. */
STK_HD static inline void stk_sync_picture(stk_sync *s, const stk_sync_task *k)
{
    const stk_pic *p = (const stk_pic *)(const void *)(k->slab + k->job->rec);

    STK_SYNC_EACH(t, stk_sync_open(s, k, t));
    if (!s->status) {
        STK_SYNC_WAIT();
        STK_SYNC_EACH(t, stk_sync_find_ends(s, t); stk_sync_codes(s, p, t));
        STK_SYNC_EACH(t, stk_sync_count(s, t));
    }
    if (!s->status) {
        STK_SYNC_EACH(t, stk_sync_tables(s, p, t));
        STK_SYNC_EACH(t, stk_sync_many(s, p, t));
        stk_sync_tiles(s);
    }
    STK_SYNC_WAIT();
    STK_SYNC_EACH(t, stk_sync_check(s, t));
    STK_SYNC_EACH(t, stk_sync_finish(s, k, t));
}

#endif
