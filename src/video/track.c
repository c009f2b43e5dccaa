/* SPDX-License-Identifier: Apache-2.0 */
/* track.c - the table of frames: its memory, and which frame is shown when.
 *
 * Memory grows with what a file has, never with what it claims: readers check claims against the
 * bytes that back them, and STK_VIDEO_FRAMES is the limit of all. */
#include "video/track.h"

#include <string.h>

const char *stk_video_codec_name(stk_video_codec codec)
{
    static const char *const names[STK_VIDEO_CODECS] = { "other", "H.264", "HEVC",   "VP8",
                                                         "VP9",   "AV1",   "MPEG-4", "MJPEG" };

    return codec < STK_VIDEO_CODECS ? names[codec] : "unknown";
}

void stk_video_track_begin(stk_video_track *t)
{
    stk_video_track was = *t;

    *t = (stk_video_track){ .turn = 1,
                            .num = 1,
                            .den = 1,
                            .matrix = 2,
                            .setup = was.setup,
                            .frame = was.frame,
                            .cap = was.cap,
                            .show = was.show,
                            .show_cap = was.show_cap };
}

void stk_video_track_fini(stk_video_track *t)
{
    stk_free(t->setup);
    stk_free(t->frame);
    stk_free(t->show);
    *t = (stk_video_track){ 0 };
}

int stk_video_track_reserve(stk_video_track *t, uint64_t frames, stk_error *err)
{
    uint64_t cap = t->cap ? t->cap : 64;
    stk_video_frame *more;

    if (frames > STK_VIDEO_FRAMES || frames > t->field)
        return stk_fail(err, STK_ELIMIT,
                        "track %u: its tables list %" PRIu64
                        " frames, over the limit of %u or more than the file has bytes",
                        t->number, frames, STK_VIDEO_FRAMES);
    while (cap < frames)
        cap *= 2;
    if (cap == t->cap)
        return 0;
    more = stk_grow(t->frame, (size_t)t->cap * sizeof *more, (size_t)cap * sizeof *more);
    if (!more)
        return stk_fail_nomem(err, (size_t)cap * sizeof *more);
    t->frame = more;
    t->cap = (uint32_t)cap;
    return 0;
}

int stk_video_track_setup(stk_video_track *t, stk_bytes setup, stk_error *err)
{
    uint8_t *copy;

    if (setup.len > STK_VIDEO_SETUP)
        return stk_fail(err, STK_ELIMIT, "the video's codec setup is %zu bytes, over %u", setup.len,
                        STK_VIDEO_SETUP);
    copy = stk_alloc(setup.len + 1);
    if (!copy)
        return stk_fail_nomem(err, setup.len);
    if (setup.len)
        memcpy(copy, setup.data, setup.len);
    stk_free(t->setup);
    t->setup = copy;
    t->setup_len = (uint32_t)setup.len;
    return 0;
}

/* Insertion for what is nearly in order, as frames are; a merge where it is not. */
static int is_after(const stk_video_track *t, uint32_t a, uint32_t b)
{
    return t->frame[a].time > t->frame[b].time;
}

static void merge(const stk_video_track *t, const uint32_t *from, uint32_t *to, uint32_t half,
                  uint32_t n)
{
    uint32_t a = 0, b = half;

    for (uint32_t i = 0; i < n; i++)
        to[i] = b == n || (a < half && !is_after(t, from[a], from[b])) ? from[a++] : from[b++];
}

/* Stable: frames of equal times stay in decode order. */
static void sort_by_time(const stk_video_track *t, uint32_t *show, uint32_t *room, uint32_t n)
{
    enum { RUN = 32 };

    for (uint32_t from = 0; from < n; from += RUN) {
        uint32_t to = n - from < RUN ? n : from + RUN;

        for (uint32_t i = from + 1; i < to; i++)
            for (uint32_t k = i; k > from && is_after(t, show[k - 1], show[k]); k--) {
                uint32_t one = show[k];

                show[k] = show[k - 1];
                show[k - 1] = one;
            }
    }
    for (uint32_t half = RUN; half < n; half *= 2)
        for (uint32_t from = 0; from < n && n - from > half; from += 2 * half) {
            uint32_t len = n - from < 2 * half ? n - from : 2 * half;

            if (!is_after(t, show[from + half - 1], show[from + half]))
                continue; /* in order already */
            merge(t, show + from, room, half, len);
            memcpy(show + from, room, len * sizeof *room);
        }
}

static int check(const stk_video_track *t, stk_error *err)
{
    if (!t->width || !t->height || t->width > STK_VIDEO_SIDE || t->height > STK_VIDEO_SIDE)
        return stk_fail(err, STK_ECORRUPT, "track %u: the video is %ux%u", t->number, t->width,
                        t->height);
    if (!t->num || !t->den)
        return stk_fail(err, STK_ECORRUPT, "track %u: its time scale is 0", t->number);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->frame[i].time > INT64_MAX / 4 || t->frame[i].time < INT64_MIN / 4 ||
            t->frame[i].at > UINT64_MAX / 4 || t->frame[i].size > STK_VIDEO_PACKET)
            return stk_fail(err, STK_ECORRUPT,
                            "track %u: frame %u has a time, place or size that can't be", t->number,
                            i);
    return 0;
}

/* How long the last frame is shown, where its container does not say: as long as the one that is
 * shown before it.  Never not at all, else no time would be its own. */
static void guess_last_len(stk_video_track *t)
{
    if (t->last_len <= 0 && t->shown > 1)
        t->last_len = t->frame[t->show[t->shown - 1]].time - t->frame[t->show[t->shown - 2]].time;
    if (t->last_len <= 0)
        t->last_len = 1;
}

int stk_video_track_end(stk_video_track *t, stk_error *err)
{
    uint32_t *room;

    STK_TRY(check(t, err));
    if (t->show_cap < 2 * t->n) {
        uint32_t *more = stk_alloc((size_t)t->n * 2 * sizeof *more);

        if (!more)
            return stk_fail_nomem(err, (size_t)t->n * 2 * sizeof *more);
        stk_free(t->show);
        t->show = more;
        t->show_cap = 2 * t->n;
    }
    room = t->show + t->n;
    t->shown = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (!(t->frame[i].flags & STK_FRAME_HIDDEN))
            t->show[t->shown++] = i;
    sort_by_time(t, t->show, room, t->shown);
    if (!t->shown)
        return stk_fail(err, STK_ECORRUPT, "track %u: the video has no frames that are shown",
                        t->number);
    guess_last_len(t);
    return 0;
}
