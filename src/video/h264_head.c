/* SPDX-License-Identifier: Apache-2.0 */
/* h264_head.c - sets and slice headers of H.264, as far as references go: 7.3.2.1, 7.3.2.2, 7.3.3.
 *
 * Only plain streams are taken: one set of each kind, frames and not fields, order counts of type
 * 0, no long-term references, no slice groups.  Whatever else there is, is STK_END. */
#include <string.h>

#include "video/h264.h"
#include "video/nal_bits.h"

#define HEAD 256u    /* bytes of a unit that are looked at */
#define RANGE 65536u /* numbers of frames, and order counts, differ by less */
#define COPY_PPS 255 /* the id of the set of frames that copy */

static int32_t se(stk_bits *r)
{
    uint32_t k = stk_bits_ue(r);

    return k & 1 ? (int32_t)(k / 2 + 1) : -(int32_t)(k / 2);
}

/* ---- sets ---- */

static int read_high(stk_h264 *h, stk_bits *r)
{
    h->chroma = stk_bits_ue(r);
    if (h->chroma > 2)
        return STK_END; /* planes of 4:4:4 may be coded apart */
    (void)stk_bits_ue(r), (void)stk_bits_ue(r);
    stk_bits_skip(r, 1);
    if (stk_bits_get(r, 1))
        for (uint32_t i = 0; i < 8; i++)
            if (stk_bits_get(r, 1))
                stk_bits_skip_list(r, i < 6 ? 16 : 64);
    return 0;
}

static int read_sps(stk_h264 *h)
{
    static const uint8_t high[] = { 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135 };
    uint8_t plain[HEAD];
    stk_bits r = { plain, stk_nal_plain(plain, HEAD, h->sps.data, h->sps.len) * 8, 8 };
    uint32_t profile = stk_bits_get(&r, 8);
    uint64_t w, t;

    stk_bits_skip(&r, 16);
    h->sps_id = stk_bits_ue(&r);
    h->chroma = 1;
    if (memchr(high, (int)profile, sizeof high) && read_high(h, &r))
        return STK_END;
    h->num_bits = stk_bits_ue(&r) + 4;
    if (stk_bits_ue(&r) != 0)
        return STK_END;
    h->poc_bits = stk_bits_ue(&r) + 4;
    h->refs = stk_bits_ue(&r);
    if (stk_bits_get(&r, 1)) /* gaps */
        return STK_END;
    w = (uint64_t)stk_bits_ue(&r) + 1;
    t = (uint64_t)stk_bits_ue(&r) + 1;
    if (!stk_bits_get(&r, 1) || stk_bits_over(&r) || h->num_bits > 16 || h->poc_bits > 16 ||
        !h->refs || h->refs > STK_H264_REFS || w > 4096 || t > 4096 || h->sps_id > 31)
        return STK_END;
    h->mbs = (uint32_t)(w * t);
    return 0;
}

static int read_pps(stk_h264 *h)
{
    uint8_t plain[HEAD];
    stk_bits r = { plain, stk_nal_plain(plain, HEAD, h->pps.data, h->pps.len) * 8, 8 };

    h->pps_id = stk_bits_ue(&r);
    if (stk_bits_ue(&r) != h->sps_id)
        return STK_END;
    stk_bits_skip(&r, 1);
    h->order_present = stk_bits_get(&r, 1);
    if (stk_bits_ue(&r) != 0) /* slice groups */
        return STK_END;
    for (int i = 0; i < 2; i++)
        h->active[i] = stk_bits_ue(&r) + 1;
    h->weighted = stk_bits_get(&r, 1);
    h->biweighted = stk_bits_get(&r, 2);
    (void)se(&r), (void)se(&r), (void)se(&r);
    stk_bits_skip(&r, 2);
    return stk_bits_get(&r, 1) /* redundant pictures */ || stk_bits_over(&r) ||
                   h->pps_id >= COPY_PPS
               ? STK_END
               : 0;
}

/* One set after its length, from *at on. */
static int take_set(stk_bytes setup, size_t *at, uint32_t type, stk_bytes *set)
{
    size_t len;

    if (*at + 2 > setup.len)
        return STK_END;
    len = (size_t)setup.data[*at] << 8 | setup.data[*at + 1];
    *at += 2;
    if (!len || len > setup.len - *at || (setup.data[*at] & 31u) != type)
        return STK_END;
    *set = (stk_bytes){ setup.data + *at, len };
    *at += len;
    return 0;
}

int stk_h264_sets(stk_h264 *h, stk_bytes setup)
{
    size_t at = 6;

    *h = (stk_h264){ 0 };
    if (setup.len < 7 || setup.data[0] != 1 || (setup.data[5] & 31) != 1)
        return STK_END;
    if ((setup.data[4] & 3) != 3 || take_set(setup, &at, 7, &h->sps) || at >= setup.len ||
        setup.data[at++] != 1 || take_set(setup, &at, 8, &h->pps))
        return STK_END;
    h->sets_end = at;
    return read_sps(h) ? STK_END : read_pps(h);
}

/* ---- slices ---- */

static int read_moves(stk_h264_slice *s, stk_bits *r, int list)
{
    uint32_t *n = &s->n_moves[list];

    if (!stk_bits_get(r, 1))
        return 0;
    for (;;) {
        uint32_t op = stk_bits_ue(r), by;

        if (op == 3)
            return 0;
        if (op > 1 || *n > STK_H264_REFS || stk_bits_over(r))
            return STK_END;
        by = stk_bits_ue(r);
        if (by >= RANGE)
            return STK_END;
        s->move[list][(*n)++] = (stk_h264_move){ op, by + 1 };
    }
}

static void skip_weights(const stk_h264 *h, const stk_h264_slice *s, stk_bits *r)
{
    (void)stk_bits_ue(r);
    if (h->chroma)
        (void)stk_bits_ue(r);
    for (uint32_t list = 0; list <= s->type; list++)
        for (uint32_t i = 0; i < s->active[list]; i++) {
            if (stk_bits_get(r, 1))
                (void)se(r), (void)se(r);
            if (h->chroma && stk_bits_get(r, 1))
                (void)se(r), (void)se(r), (void)se(r), (void)se(r);
        }
}

static int read_marks(stk_h264_slice *s, stk_bits *r)
{
    if (s->idr) {
        stk_bits_skip(r, 1);
        return stk_bits_get(r, 1) ? STK_END : 0; /* a long-term reference */
    }
    s->adaptive = stk_bits_get(r, 1);
    while (s->adaptive) {
        uint32_t op = stk_bits_ue(r), by;

        if (!op)
            return 0;
        if (op != 1 || s->n_unmark > STK_H264_REFS || stk_bits_over(r))
            return STK_END;
        by = stk_bits_ue(r);
        if (by >= RANGE)
            return STK_END;
        s->unmark[s->n_unmark++] = by + 1;
    }
    return 0;
}

static int read_lists(const stk_h264 *h, stk_h264_slice *s, stk_bits *r)
{
    memcpy(s->active, h->active, sizeof s->active);
    if (s->type == 1)
        stk_bits_skip(r, 1);
    if (stk_bits_get(r, 1))
        for (uint32_t list = 0; list <= s->type; list++)
            s->active[list] = stk_bits_ue(r) + 1;
    for (uint32_t list = 0; list <= s->type; list++)
        if (s->active[list] > STK_H264_REFS || read_moves(s, r, (int)list))
            return STK_END;
    if (s->type ? h->biweighted == 1 : h->weighted)
        skip_weights(h, s, r);
    return 0;
}

static int read_slice(const stk_h264 *h, stk_bytes unit, stk_h264_slice *s)
{
    uint8_t plain[HEAD];
    stk_bits r = { plain, stk_nal_plain(plain, HEAD, unit.data, unit.len) * 8, 8 };

    *s = (stk_h264_slice){ .idr = (unit.data[0] & 31) == 5, .is_ref = unit.data[0] >> 5 & 3 };
    s->first = stk_bits_ue(&r);
    s->type = stk_bits_ue(&r) % 5;
    if (s->type > 2 || stk_bits_ue(&r) != h->pps_id)
        return STK_END;
    s->num = stk_bits_get(&r, h->num_bits);
    if (s->idr)
        (void)stk_bits_ue(&r);
    s->lsb = stk_bits_get(&r, h->poc_bits);
    s->bottom = h->order_present ? se(&r) : 0;
    if (s->bottom >= (int32_t)RANGE || s->bottom <= -(int32_t)RANGE)
        return STK_END;
    if (s->type < 2 && read_lists(h, s, &r))
        return STK_END;
    if (s->is_ref && read_marks(s, &r))
        return STK_END;
    return stk_bits_over(&r) ? STK_END : 0;
}

/* 1: a set that says what the setup says. */
static int is_known(const stk_h264 *h, stk_bytes unit)
{
    const stk_bytes *set = (unit.data[0] & 31) == 7 ? &h->sps : &h->pps;

    return unit.len == set->len && !memcmp(unit.data, set->data, set->len);
}

int stk_h264_next(const stk_h264 *h, stk_bytes *packet, stk_h264_slice *s)
{
    while (packet->len) {
        stk_bytes unit;
        uint32_t type;
        size_t len;

        if (packet->len < 5)
            return STK_ENOTSUP;
        len = (size_t)packet->data[0] << 24 | (size_t)packet->data[1] << 16 |
              (size_t)packet->data[2] << 8 | packet->data[3];
        if (!len || len > packet->len - 4)
            return STK_ENOTSUP;
        unit = (stk_bytes){ packet->data + 4, len };
        *packet = (stk_bytes){ packet->data + 4 + len, packet->len - 4 - len };
        type = unit.data[0] & 31;
        if (type == 1 || type == 5)
            return read_slice(h, unit, s) ? STK_ENOTSUP : 0;
        /* SEI, delimiters and filler say nothing about references */
        if (type != 6 && type != 9 && type != 12 &&
            !((type == 7 || type == 8) && is_known(h, unit)))
            return STK_ENOTSUP;
    }
    return STK_END;
}

/* ---- frames that copy ---- */

typedef struct writer {
    uint8_t *to;
    size_t n; /* bits */
} writer;

static void put(writer *w, uint32_t v, uint32_t n)
{
    while (n--) {
        if (!(w->n & 7))
            w->to[w->n / 8] = 0;
        w->to[w->n / 8] |= (uint8_t)((v >> n & 1) << (7 - (w->n & 7)));
        w->n++;
    }
}

static void put_ue(writer *w, uint32_t v)
{
    uint32_t wide = 32 - (uint32_t)__builtin_clz(v + 1);

    put(w, 0, wide - 1);
    put(w, v + 1, wide);
}

static void put_se(writer *w, int32_t v)
{
    put_ue(w, v > 0 ? 2 * (uint32_t)v - 1 : 2 * (uint32_t)-v);
}

/* A unit with the bytes that keep start codes apart; its length. */
static size_t close_unit(writer *w, uint8_t *to)
{
    size_t n = 0;

    put(w, 1, 1);
    for (size_t i = 0; i < (w->n + 7) / 8; i++) {
        if (n >= 2 && w->to[i] <= 3 && !to[n - 1] && !to[n - 2])
            to[n++] = 3;
        to[n++] = w->to[i];
    }
    return n;
}

size_t stk_h264_setup(const stk_h264 *h, stk_bytes setup, uint8_t *to)
{
    uint8_t raw[STK_H264_MORE], *at = to + h->sets_end;
    writer w = { raw, 0 };
    size_t n;

    memcpy(to, setup.data, h->sets_end);
    to[6 + 2 + h->sps.len] = 2;
    put(&w, 0x68, 8);
    put_ue(&w, COPY_PPS);
    put_ue(&w, h->sps_id);
    put(&w, 0, 1); /* no CABAC */
    put(&w, h->order_present, 1);
    put_ue(&w, 0), put_ue(&w, 0), put_ue(&w, 0);
    put(&w, 0, 3);
    put_se(&w, 0), put_se(&w, 0), put_se(&w, 0);
    put(&w, 4, 3); /* slices say how they are filtered */
    n = close_unit(&w, at + 2);
    at[0] = (uint8_t)(n >> 8), at[1] = (uint8_t)n;
    at += 2 + n;
    memcpy(at, setup.data + h->sets_end, setup.len - h->sets_end);
    return (size_t)(at - to) + setup.len - h->sets_end;
}

size_t stk_h264_copy(const stk_h264 *h, const stk_h264_slice *s, uint8_t to[STK_H264_COPY])
{
    uint8_t raw[STK_H264_COPY / 2];
    writer w = { raw, 0 };
    size_t n;

    put(&w, s->is_ref << 5 | 1, 8);
    put_ue(&w, 0);
    put_ue(&w, 5); /* P, as all slices are */
    put_ue(&w, COPY_PPS);
    put(&w, s->num, h->num_bits);
    put(&w, s->lsb, h->poc_bits);
    if (h->order_present)
        put_se(&w, s->bottom);
    put(&w, 0, 2); /* one reference, the first of the list */
    if (s->is_ref) {
        put(&w, s->adaptive, 1);
        for (uint32_t i = 0; i < s->n_unmark; i++) {
            put_ue(&w, 1);
            put_ue(&w, s->unmark[i] - 1);
        }
        if (s->adaptive)
            put_ue(&w, 0);
    }
    put_se(&w, 0);
    put_ue(&w, 1);      /* no filter */
    put_ue(&w, h->mbs); /* so many are skipped: all */
    n = close_unit(&w, to + 4);
    to[0] = to[1] = 0, to[2] = (uint8_t)(n >> 8), to[3] = (uint8_t)n;
    return n + 4;
}
