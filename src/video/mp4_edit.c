/* SPDX-License-Identifier: Apache-2.0 */
/* mp4_edit.c - edit lists: which frames of a track are shown, and when.
 *
 * An edit shows the frames of [from, from + len) one after another, from the time on at which the
 * edits before it end.  Frames in no edit are hidden: they are decoded where others need them.  A
 * frame that two edits show, or that stands still, has no single time and is refused.  Fragmented
 * files are cut before they are complete, so that their edit has no length: it only moves times. */
#include "video/mp4.h"

static int64_t scaled(uint64_t len, uint32_t num, uint32_t den)
{
    if (!den || len > INT64_MAX / 4 / (num ? num : 1))
        return INT64_MAX / 8;
    return (int64_t)((len * num + den / 2) / den);
}

static int check(const stk_mp4 *m, stk_error *err)
{
    int64_t end = INT64_MIN;

    for (uint32_t i = 0; i < m->n_edits; i++) {
        const stk_mp4_edit *e = &m->edit[i];

        if (e->from == -1)
            continue;
        if (e->rate != 0x10000 || e->from < end || e->from < -1 || e->from > INT64_MAX / 8)
            return stk_fail(err, STK_ENOTSUP,
                            "track %u: an edit list that repeats, slows or stops frames: write the "
                            "file again with the ffmpeg program",
                            m->t->number);
        end = e->from + scaled(e->len, m->t->den, m->movie_scale);
    }
    return 0;
}

/* Only the first edit that shows something counts, and what stands before it. */
static void move_all(const stk_mp4 *m)
{
    int64_t by = 0;

    for (uint32_t i = 0; i < m->n_edits; i++) {
        if (m->edit[i].from != -1) {
            by -= m->edit[i].from;
            break;
        }
        if (by < INT64_MAX / 8)
            by += scaled(m->edit[i].len, m->t->den, m->movie_scale);
    }
    for (uint32_t i = 0; i < m->t->n; i++)
        m->t->frame[i].time += by;
}

/* An edit that begins between two frames begins at the second: FFmpeg moves all times so, and what
 * was written down of a file with it has these times. */
static void begin_at_a_frame(const stk_mp4 *m)
{
    stk_video_track *t = m->t;
    int64_t begin = 0, first = INT64_MAX;

    for (uint32_t i = 0; i < m->n_edits && m->edit[i].from == -1 && begin < INT64_MAX / 8; i++)
        begin += scaled(m->edit[i].len, t->den, m->movie_scale);
    for (uint32_t i = 0; i < t->n; i++)
        if (!(t->frame[i].flags & STK_FRAME_HIDDEN) && t->frame[i].time < first)
            first = t->frame[i].time;
    for (uint32_t i = 0; first > begin && first < INT64_MAX && i < t->n; i++)
        t->frame[i].time -= first - begin;
}

int stk_mp4_edits(stk_mp4 *m, stk_error *err)
{
    stk_video_track *t = m->t;

    if (!m->n_edits)
        return 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->frame[i].time > INT64_MAX / 8 || t->frame[i].time < -(INT64_MAX / 8))
            return stk_fail(err, STK_ECORRUPT, "track %u: frame %u has a time that can't be",
                            t->number, i);
    STK_TRY(check(m, err));
    if (m->fragmented || (m->n_edits == 1 && !m->edit[0].len)) {
        move_all(m);
        return 0;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t at = 0;
        int shown = 0;

        for (uint32_t k = 0; k < m->n_edits && !shown; k++) {
            const stk_mp4_edit *e = &m->edit[k];
            int64_t len = scaled(e->len, t->den, m->movie_scale);

            shown = e->from != -1 && t->frame[i].time >= e->from &&
                    t->frame[i].time - e->from < len;
            if (shown)
                t->frame[i].time += at - e->from;
            if (at < INT64_MAX / 8)
                at += len;
        }
        if (!shown)
            t->frame[i].flags |= STK_FRAME_HIDDEN;
    }
    begin_at_a_frame(m);
    return 0;
}
