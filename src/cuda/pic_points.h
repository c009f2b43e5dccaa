/* SPDX-License-Identifier: Apache-2.0 */
/* pic_points.h - finds seek points of pictures that have none, while a GPU decodes them.  The host
 * packs (stk_jpeg_seek_pack) and stores them, so that the next time only the bytes of a view are
 * sent.
 *
 * Units of the whole picture are found as in pic_sync.h, then each thread goes over units and notes
 * bit and DC values wherever a chunk begins; in the end only units that the view sees are left. */
#ifndef STOKER_PIC_POINTS_H
#define STOKER_PIC_POINTS_H

#include "cuda/pic_sync.h"

/* Where points of a picture go: in scratch memory, stk_pic_found and the points after it. */
typedef struct stk_pic_points {
    uint64_t at;
    uint32_t chunk; /* MCUs of a chunk; 0: no points are wanted */
    uint32_t room;  /* points */
} stk_pic_points;

typedef struct stk_pic_found {
    uint32_t scan_len; /* bytes up to the end marker; 0: there are no points */
    uint32_t n;        /* points: of each row of MCUs every chunk's begin */
} stk_pic_found;

typedef struct stk_pic_point { /* as stk_jpeg_point of codec/jpeg_seek.h */
    uint32_t at;
    int16_t dc[3];
    uint16_t zero;
} stk_pic_point;

/* The points of one unit. */
STK_HD static inline void stk_sync_mark(const stk_sync *s, const stk_pic_unit *u, uint32_t chunk,
                                        stk_pic_point *to)
{
    uint32_t chunks = (s->cols + chunk - 1) / chunk, left = u->count;
    uint32_t row = u->mcu / s->cols, col = u->mcu % s->cols;
    const stk_walk_data d = s->data;
    stk_walk w;

    stk_walk_begin(&w, &d, u->at, 0);
    for (;;) {
        if (w.k == STK_WALK_DONE) {
            if (!w.block) {
                if (!left--)
                    return;
                if (col % chunk == 0) {
                    stk_pic_point *p = &to[row * chunks + col / chunk];

                    p->at = stk_walk_at(&w.b, &d);
                    for (int c = 0; c < 3; c++)
                        p->dc[c] = (int16_t)(uint16_t)((uint32_t)u->dc[c] + w.sum[c]);
                    p->zero = 0;
                }
                row += col + 1 == s->cols;
                col = col + 1 == s->cols ? 0 : col + 1;
            }
            stk_walk_dc(&w, &d, &s->t);
        }
        stk_walk_ac_some(&w, &d, &s->t);
    }
}

STK_HD static inline void stk_sync_mark_all(const stk_sync *s, uint32_t chunk, uint8_t *to,
                                            uint32_t t)
{
    stk_pic_point *points = (stk_pic_point *)(void *)(to + sizeof(stk_pic_found));

    for (uint32_t i = t; i < s->seen; i += STK_SYNC_THREADS)
        stk_sync_mark(s, &s->unit[i], chunk, points);
}

/* Units that the view does not see are not needed any more. */
STK_HD static inline void stk_sync_thin(stk_sync *s, uint32_t t)
{
    for (uint32_t i = t; i < s->seen; i += STK_SYNC_THREADS)
        if (!stk_sync_seen(s, s->unit[i].mcu, s->unit[i].count))
            s->unit[i].count = 0;
}

/* Thread 0: say what there is. */
STK_HD static inline void stk_sync_found(const stk_sync *s, uint32_t n, uint8_t *to, uint32_t t)
{
    stk_pic_found *f = (stk_pic_found *)(void *)to;

    if (t)
        return;
    f->scan_len = n ? s->data.end : 0;
    f->n = n;
}

/* Units of one picture, and points where `where` asks for them. */
STK_HD static inline void stk_sync_indexed(stk_sync *s, stk_sync_task *k,
                                           const stk_pic_points *where)
{
    const stk_pic *p = (const stk_pic *)(const void *)(k->slab + k->job->rec);
    uint8_t *to = k->scratch + where->at;
    uint32_t n = 0, chunk = where->chunk;

    k->whole = chunk != 0;
    stk_sync_picture(s, k);
    if (!chunk)
        return;
    if (!s->status && (uint64_t)(p->cols + chunk - 1) / chunk * p->rows <= where->room)
        n = (p->cols + chunk - 1) / chunk * p->rows;
    if (n)
        STK_SYNC_EACH(t, stk_sync_mark_all(s, chunk, to, t));
    STK_SYNC_EACH(t, stk_sync_found(s, n, to, t));
    if (s->status)
        return;
    STK_SYNC_EACH(t, if (!t) stk_sync_set_view(s, p, 0));
    STK_SYNC_EACH(t, stk_sync_thin(s, t));
}

#endif
