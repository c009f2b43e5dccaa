/* SPDX-License-Identifier: Apache-2.0 */
/* h264_refs.c - the references of each frame of a run: order counts (8.2.1.1), lists (8.2.4), and
 * which frames stay as references (8.2.5), for streams that h264_head.c takes.
 *
 * A frame depends on every entry of its slices' lists, used or not: what its blocks use is behind
 * the headers.  So more may be decoded than is needed, never less. */
#include <string.h>

#include "video/h264.h"

typedef struct ref { /* a frame that stays */
    uint32_t packet, num;
    int64_t poc;
} ref;

typedef struct frame { /* on which frames one depends: bits of stays[] */
    uint32_t stays[STK_H264_REFS], used;
    uint32_t idr;
} frame;

typedef struct model {
    const stk_h264 *h;
    ref ref[STK_H264_REFS];
    uint32_t n;
    uint32_t before; /* frame number of the last reference */
    int64_t msb;
    uint32_t lsb; /* ... its order count */
} model;

/* A frame's number, without where it began again at 0. */
static int32_t plain_num(const model *m, uint32_t num, uint32_t now)
{
    return num > now ? (int32_t)num - (1 << m->h->num_bits) : (int32_t)num;
}

static int by_num(const model *m, uint32_t now, uint32_t a, uint32_t b)
{
    return plain_num(m, m->ref[a].num, now) > plain_num(m, m->ref[b].num, now);
}

/* Frames shown before this one first, in list 0; after it, in list 1; the nearest first. */
static int by_poc(const model *m, int64_t poc, int later, uint32_t a, uint32_t b)
{
    int64_t x = m->ref[a].poc, y = m->ref[b].poc;
    int x_first = later ? x > poc : x < poc, y_first = later ? y > poc : y < poc;

    if (x_first != y_first)
        return x_first;
    return x < poc ? x > y : x < y;
}

static void first_list(const model *m, const stk_h264_slice *s, int64_t poc, int list,
                       uint8_t out[STK_H264_REFS])
{
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t k = i;

        for (; k &&
               (s->type ? by_poc(m, poc, list, i, out[k - 1]) : by_num(m, s->num, i, out[k - 1]));
             k--)
            out[k] = out[k - 1];
        out[k] = (uint8_t)i;
    }
}

/* The entry that a move names, to place `at`; what is after it goes back. */
static int move_to(const model *m, int32_t num, uint32_t now, uint32_t at,
                   uint8_t list[STK_H264_REFS + 1], uint32_t *n)
{
    uint32_t k = 0, to = at + 1;
    uint8_t old[STK_H264_REFS + 1];

    while (k < m->n && plain_num(m, m->ref[k].num, now) != num)
        k++;
    if (k == m->n)
        return STK_END;
    memcpy(old, list, *n);
    list[at] = (uint8_t)k;
    for (uint32_t i = at; i < *n && to <= STK_H264_REFS; i++)
        if (old[i] != k)
            list[to++] = old[i];
    *n = to > *n ? to : *n;
    return 0;
}

/* Bits of the references that a list has. */
static int list_of(const model *m, const stk_h264_slice *s, int64_t poc, int which, uint32_t *bits)
{
    uint8_t list[STK_H264_REFS + 1], other[STK_H264_REFS];
    int32_t wrap = 1 << m->h->num_bits, num = (int32_t)s->num;
    uint32_t n = m->n;

    first_list(m, s, poc, which, list);
    if (which && n > 1) {
        first_list(m, s, poc, 0, other);
        if (!memcmp(list, other, n)) {
            list[0] = other[1];
            list[1] = other[0];
        }
    }
    for (uint32_t i = 0; i < s->n_moves[which]; i++) {
        const stk_h264_move *k = &s->move[which][i];
        int32_t by = (int32_t)k->by % wrap;

        num = ((k->op ? num + by : num - by) + wrap) % wrap;
        if (i >= STK_H264_REFS ||
            move_to(m, plain_num(m, (uint32_t)num, s->num), s->num, i, list, &n))
            return STK_END;
    }
    if (s->active[which] > n)
        return STK_END; /* a list with holes */
    for (uint32_t i = 0; i < s->active[which]; i++)
        *bits |= 1u << list[i];
    return 0;
}

static void leave(model *m, uint32_t i)
{
    memmove(m->ref + i, m->ref + i + 1, (m->n - i - 1) * sizeof *m->ref);
    m->n--;
}

/* The frame was decoded: which ones stay from now on. */
static int mark(model *m, const stk_h264_slice *s, uint32_t packet, int64_t poc)
{
    for (uint32_t i = 0; i < s->n_unmark; i++) {
        int32_t num = (int32_t)s->num - (int32_t)s->unmark[i];
        uint32_t k = 0;

        while (k < m->n && plain_num(m, m->ref[k].num, s->num) != num)
            k++;
        if (k == m->n)
            return STK_END;
        leave(m, k);
    }
    if (!s->adaptive && m->n == m->h->refs) {
        uint32_t oldest = 0;

        for (uint32_t i = 1; i < m->n; i++)
            if (by_num(m, s->num, oldest, i))
                oldest = i;
        leave(m, oldest);
    }
    if (m->n >= m->h->refs)
        return STK_END;
    m->ref[m->n++] = (ref){ packet, s->num, poc };
    return 0;
}

static int64_t msb_of(const model *m, uint32_t lsb)
{
    const uint32_t most = 1u << m->h->poc_bits;

    if (lsb < m->lsb && m->lsb - lsb >= most / 2)
        return m->msb + (int32_t)most;
    if (lsb > m->lsb && lsb - m->lsb > most / 2)
        return m->msb - (int32_t)most;
    return m->msb;
}

/* One picture, of one or more slices that agree. */
static int look(model *m, stk_bytes in, uint32_t packet, frame *f)
{
    stk_h264_slice s, first;
    int64_t msb, poc;

    if (stk_h264_next(m->h, &in, &first) || first.first)
        return STK_END;
    if (first.idr) {
        *m = (model){ .h = m->h };
        if (first.num || !first.is_ref)
            return STK_END;
    } else if (!m->n || first.num != ((m->before + 1) & ((1u << m->h->num_bits) - 1))) {
        return STK_END;
    }
    msb = msb_of(m, first.lsb);
    poc = msb + (int32_t)first.lsb + (first.bottom < 0 ? first.bottom : 0);
    f->idr = first.idr;
    for (uint32_t i = 0; i < m->n; i++)
        f->stays[i] = m->ref[i].packet;
    s = first;
    for (int rc = 0; rc == 0;) {
        for (int list = 0; s.type < 2 && list <= (int)s.type; list++)
            if (list_of(m, &s, poc, list, &f->used))
                return STK_END;
        rc = stk_h264_next(m->h, &in, &s);
        if (rc < 0)
            return STK_END;
        if (rc == 0 && (!s.first || s.idr != first.idr || s.num != first.num ||
                        s.lsb != first.lsb || !s.is_ref != !first.is_ref))
            return STK_END;
    }
    if (!first.is_ref)
        return 0;
    m->before = first.num;
    m->msb = msb;
    m->lsb = first.lsb;
    return mark(m, &first, packet, poc);
}

int stk_h264_needed(const stk_h264 *h, const stk_bytes *packet, uint32_t n, uint8_t *need,
                    stk_scratch *scratch)
{
    frame *all = stk_scratch_get(scratch, n * sizeof *all + 1);
    model m = { .h = h };

    if (!all)
        return STK_END;
    memset(all, 0, n * sizeof *all);
    for (uint32_t i = 0; i < n; i++)
        if (look(&m, packet[i], i, &all[i]))
            return STK_END;
    for (uint32_t i = n; i--;) {
        for (uint32_t k = 0; need[i] && k < STK_H264_REFS; k++)
            if (all[i].used >> k & 1)
                need[all[i].stays[k]] = 1;
        need[i] |= all[i].idr != 0; /* numbers of frames begin again there */
    }
    return 0;
}
