/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c - see clip.h. */
#include "video/clip.h"

#include <stdlib.h>
#include <string.h>

typedef struct lens { /* one unit at a time */
    const stk_video_head *h;
    stk_scratch *scratch;
    unsigned mark;
    int has;
    int64_t key; /* show time of the keyframe of the run */
    stk_video_unit unit;
} lens;

static int turn_to(lens *l, uint32_t number, stk_error *err)
{
    if (l->has && l->unit.number == number)
        return 0;
    l->has = 0;
    stk_scratch_rewind(l->scratch, l->mark);
    STK_TRY(stk_video_unit_read(l->h, number, l->scratch, &l->unit, err));
    l->has = 1;
    return 0;
}

/* The keyframes of a frame whose unit is in view: the one that it needs, and `back` before that.
 * Frame 0 where there is none. */
static int find_keys(lens *l, stk_clip_want *w, uint32_t back, stk_error *err)
{
    int64_t time = w->time;

    w->proper = UINT32_MAX;
    for (uint32_t at = w->decode;; at--) {
        const stk_video_frame *f;

        if (at < l->unit.decode)
            STK_TRY(turn_to(l, l->unit.number - 1, err));
        f = &l->unit.frame[at - l->unit.decode];
        w->start = at;
        if (at && !(f->flags & STK_FRAME_KEY))
            continue;
        if (at && time < f->time) { /* it leads: it refers to what came before this keyframe */
            time = INT64_MAX;
            continue;
        }
        if (w->proper == UINT32_MAX)
            w->proper = at;
        if (!at || !back--)
            return 0;
    }
}

static int find_frame(lens *l, uint64_t show, uint32_t back, stk_clip_want *out, stk_error *err)
{
    uint32_t number, k;

    if (show >= l->h->shown)
        return stk_fail(err, STK_ECORRUPT,
                        "track %u: frame %" PRIu64 " is wanted, and the video has %u", l->h->number,
                        show, l->h->shown);
    STK_TRY(stk_video_unit_of_show(l->h, (uint32_t)show, &number, err));
    STK_TRY(turn_to(l, number, err));
    if (show < l->unit.show || show - l->unit.show >= l->unit.shown)
        return stk_fail(err, STK_ECORRUPT, "points of a video: a damaged directory");
    k = l->unit.shows[show - l->unit.show];
    out->decode = l->unit.decode + k;
    out->time = l->unit.frame[k].time;
    return find_keys(l, out, back, err);
}

static int by_decode(const void *a, const void *b)
{
    uint32_t x = ((const stk_clip_want *)a)->decode, y = ((const stk_clip_want *)b)->decode;

    return x < y ? -1 : x > y;
}

/* Runs: a frame whose keyframe is not after the frame before it is decoded with that, from the
 * earlier of their keyframes on. */
static uint64_t join_runs(stk_clip_want *w, uint32_t n)
{
    uint64_t packets = 0;

    for (uint32_t i = n; i > 1; i--)
        if (w[i - 1].start <= w[i - 2].decode + 1) {
            w[i - 2].start = w[i - 1].start < w[i - 2].start ? w[i - 1].start : w[i - 2].start;
            w[i - 2].proper = w[i - 1].proper < w[i - 2].proper ? w[i - 1].proper : w[i - 2].proper;
        }
    for (uint32_t i = 0; i < n; i++) {
        if (i && w[i].start <= w[i - 1].decode + 1) {
            w[i].start = w[i - 1].start;
            w[i].proper = w[i - 1].proper;
            packets += w[i].decode - w[i - 1].decode;
        } else {
            packets += w[i].decode - w[i].start + 1;
        }
    }
    return packets;
}

/* Frames of w's run, from `from` to w itself. */
static int add_packets(lens *l, uint32_t from, const stk_clip_want *w, stk_clip *out,
                       stk_error *err)
{
    for (uint32_t d = from; d <= w->decode; d++) {
        const stk_video_frame *f;
        uint32_t number;

        if (!l->has || d < l->unit.decode || d - l->unit.decode >= l->unit.n) {
            STK_TRY(stk_video_unit_of_decode(l->h, d, &number, err));
            STK_TRY(turn_to(l, number, err));
        }
        if (d < l->unit.decode || d - l->unit.decode >= l->unit.n)
            return stk_fail(err, STK_ECORRUPT, "points of a video: a damaged directory");
        f = &l->unit.frame[d - l->unit.decode];
        if (d == w->start)
            l->key = f->time;
        out->packet[out->n++] = (stk_clip_packet){ .at = f->at,
                                                   .size = f->size,
                                                   .want = d == w->decode ? w->i : STK_NOT_WANTED,
                                                   .decode = d,
                                                   .begins = d == w->start,
                                                   .leading = f->time < l->key,
                                                   .run_up = d < w->proper };
    }
    return 0;
}

/* The wanted frames by decode number, with their keyframes. */
static int find_all(lens *l, const stk_media_ask *ask, uint32_t back, stk_clip_want *want,
                    stk_error *err)
{
    l->mark = stk_scratch_mark(l->scratch);
    for (uint32_t i = 0; i < ask->n_frames; i++) {
        if (i && ask->frame[i] <= ask->frame[i - 1])
            return stk_fail(err, STK_EINVAL, "frames of a clip ascend");
        want[i].i = i;
        STK_TRY(find_frame(l, ask->frame[i], back, &want[i], err));
    }
    qsort(want, ask->n_frames, sizeof *want, by_decode);
    stk_scratch_rewind(l->scratch, l->mark);
    l->has = 0;
    return 0;
}

int stk_clip_find(const stk_video_head *h, const stk_media_ask *ask, stk_scratch *scratch,
                  stk_clip_want *want, stk_error *err)
{
    lens l = { .h = h, .scratch = scratch };

    return find_all(&l, ask, 0, want, err);
}

int stk_clip_plan(const stk_video_head *h, const stk_media_ask *ask, uint32_t back,
                  stk_scratch *scratch, stk_clip *out, stk_error *err)
{
    size_t size = ask->n_frames * sizeof *out->want;
    lens l = { .h = h, .scratch = scratch };
    uint64_t n;

    *out = (stk_clip){ .n_want = ask->n_frames };
    out->want = stk_scratch_get(scratch, size + 1);
    if (!out->want)
        return stk_fail_nomem(err, size);
    STK_TRY(find_all(&l, ask, back, out->want, err));
    n = join_runs(out->want, ask->n_frames);
    out->packet = stk_scratch_get(scratch, (size_t)n * sizeof *out->packet + 1);
    if (!out->packet)
        return stk_fail_nomem(err, (size_t)n * sizeof *out->packet);
    l.mark = stk_scratch_mark(scratch);
    for (uint32_t i = 0; i < ask->n_frames; i++) {
        const stk_clip_want *w = &out->want[i];
        uint32_t from = i && w->start == w[-1].start ? w[-1].decode + 1 : w->start;

        STK_TRY(add_packets(&l, from, w, out, err));
    }
    stk_scratch_rewind(scratch, l.mark);
    return 0;
}

/* ---- ranges ---- */

void stk_clip_range_add(stk_media_range *r, uint32_t *n, uint64_t at, uint64_t len)
{
    uint32_t i = *n, near = 0;

    while (i && r[i - 1].offset > at)
        i--;
    memmove(r + i + 1, r + i, (*n - i) * sizeof *r);
    r[i] = (stk_media_range){ at, len };
    ++*n;
    for (i = 1; i < *n;) {
        uint64_t end = r[i - 1].offset + r[i - 1].len, to = r[i].offset + r[i].len;

        if (r[i].offset > end) {
            i++;
            continue;
        }
        r[i - 1].len = (to > end ? to : end) - r[i - 1].offset;
        memmove(r + i, r + i + 1, (*n - i - 1) * sizeof *r);
        --*n;
    }
    if (*n <= STK_MEDIA_RANGES)
        return;
    for (i = 1; i + 1 < *n; i++)
        if (r[i + 1].offset - (r[i].offset + r[i].len) <
            r[near + 1].offset - (r[near].offset + r[near].len))
            near = i;
    r[near].len = r[near + 1].offset + r[near + 1].len - r[near].offset;
    memmove(r + near + 1, r + near + 2, (*n - near - 2) * sizeof *r);
    --*n;
}

/* Packets of a run, with what is between them: sound, which is less than a request. */
int stk_clip_ranges(const stk_clip *c, const stk_video_head *h,
                    stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    stk_media_range all[STK_MEDIA_RANGES + 1];
    uint64_t from = 0, to = 0;

    *n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const stk_clip_packet *k = &c->packet[i];

        if (k->at > h->field || k->size > h->field - k->at)
            return stk_fail(err, STK_ECORRUPT,
                            "track %u: frame %u in decode order is at byte %" PRIu64
                            " with %u bytes, and the file ends at %" PRIu64,
                            h->number, k->decode, k->at, k->size, h->field);
        if (k->begins) {
            if (to > from)
                stk_clip_range_add(all, n, from, to - from);
            from = k->at;
            to = k->at + k->size;
        }
        from = k->at < from ? k->at : from;
        to = k->at + k->size > to ? k->at + k->size : to;
    }
    if (to > from)
        stk_clip_range_add(all, n, from, to - from);
    memcpy(out, all, *n * sizeof *all);
    return 0;
}
