/* SPDX-License-Identifier: Apache-2.0 */
/* clip_codec.c - video: a clip of a video, as frames that all have the same size.  Which frames is
 * drawn once per sample; ops draw once for all of them. */
#include <math.h>
#include <string.h>

#include "base/expr.h"
#include "codec/codec.h"
#include "video/clip_codec.h"
#include "video/points_cache.h"

static int start_of(stk_clip_how *how, const stk_args *args, stk_error *err)
{
    static const struct {
        const char *name;
        stk_clip_start start;
    } all[] = { { "random", STK_START_RANDOM },
                { "center", STK_START_CENTER },
                { "uniform", STK_START_UNIFORM },
                { "uniform_even", STK_START_UNIFORM_EVEN } };
    const char *name = stk_args_str(args, "start");
    double n = stk_args_f64(args, "start");

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) {
            how->start = all[i].start;
            return 0;
        }
    if (name || stk_args_count(args, "start") != 1 || !(n >= 0 && n < STK_VIDEO_FRAMES) ||
        n != floor(n))
        return stk_fail(err, STK_EINVAL,
                        "video: start is random, center, uniform, uniform_even or the number of a "
                        "frame, not %s",
                        name ? name : "that");
    how->start = STK_START_AT;
    how->first = (uint64_t)n;
    return 0;
}

static int pad_of(stk_clip_how *how, const stk_args *args, stk_error *err)
{
    static const char *const names[] = {
        [STK_PAD_LAST] = "last", [STK_PAD_WRAP] = "wrap", [STK_PAD_ERROR] = "error"
    };
    const char *name = stk_args_str(args, "pad");

    for (int i = STK_PAD_LAST; name && i <= STK_PAD_ERROR; i++)
        if (!strcmp(name, names[i])) {
            how->pad = (stk_clip_pad)i;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "video: pad is last, wrap or error, not %s",
                    name ? name : "a number");
}

/* first=: the number of the first frame, which another output has. */
static int first_named(stk_clip_how *how, const stk_args *args, stk_error *err)
{
    const char *name = stk_args_has(args, "first") ? stk_args_str(args, "first") : NULL;

    if (!name)
        return 0;
    if (!*name || strlen(name) >= sizeof how->at)
        return stk_fail(err, STK_EINVAL, "video: first=%.80s names no output", name);
    if (stk_args_given(args, "start") || stk_args_has(args, "at") || stk_args_has(args, "fps"))
        return stk_fail(err, STK_EINVAL,
                        "video: first= says where the clip begins: leave start=, at= and fps= out");
    memcpy(how->at, name, strlen(name) + 1);
    how->at_number = 1;
    how->start = STK_START_AT;
    return 0;
}

/* step=: clips are windows of their video. */
static int step_of(stk_clip_how *how, const stk_args *args, stk_error *err)
{
    int64_t step = stk_args_has(args, "step") ? stk_args_i64(args, "step") : 0;

    if (!stk_args_has(args, "step"))
        return 0;
    if (!how->at_number || how->keyframes)
        return stk_fail(err, STK_EINVAL,
                        "video: step= is of windows, whose first frame first= names%s",
                        how->keyframes ? ", and of all frames" : ": give both");
    if (step < 1 || step > STK_VIDEO_FRAMES)
        return stk_fail(err, STK_EINVAL, "video: step=%" PRId64 " is not in 1..%u", step,
                        STK_VIDEO_FRAMES);
    how->step = (uint32_t)step;
    return 0;
}

/* at= and offsets=: frames around a time that another output has. */
static int at_of(stk_clip_how *how, const stk_args *args, stk_error *err)
{
    const char *name = stk_args_has(args, "at") ? stk_args_str(args, "at") : NULL;
    uint32_t n = stk_args_has(args, "offsets") ? stk_args_count(args, "offsets") : 0;

    if (!name && stk_args_has(args, "tolerance"))
        return stk_fail(err, STK_EINVAL, "video: tolerance= is of the times of at=: give both");
    if (!name)
        return n ? stk_fail(err, STK_EINVAL, "video: offsets= are counted from at=: give both") : 0;
    if (stk_args_has(args, "tolerance")) {
        how->tolerance = stk_args_f64(args, "tolerance");
        if (!(how->tolerance > 0 && how->tolerance < 1e6))
            return stk_fail(err, STK_EINVAL, "video: tolerance=%g is not a number of seconds",
                            how->tolerance);
    }
    if (!*name || strlen(name) >= sizeof how->at)
        return stk_fail(err, STK_EINVAL, "video: at=%.80s names no output", name);
    memcpy(how->at, name, strlen(name) + 1);
    if (stk_args_given(args, "start") ||
        (n && (stk_args_given(args, "frames") || stk_args_given(args, "stride") ||
               stk_args_has(args, "fps"))))
        return stk_fail(err, STK_EINVAL, "video: at= and offsets= say which frames: leave %s out",
                        n ? "start=, frames=, stride= and fps=" : "start=");
    how->start = STK_START_AT;
    if (n > STK_CLIP_OFFSETS)
        return stk_fail(err, STK_EINVAL, "video: at most %u offsets", STK_CLIP_OFFSETS);
    for (uint32_t i = 0; i < n; i++) {
        how->offset[i] = stk_args_f64_at(args, "offsets", i);
        if (!(how->offset[i] > -1e6 && how->offset[i] < 1e6))
            return stk_fail(err, STK_EINVAL, "video: offsets are seconds, not %g", how->offset[i]);
    }
    how->n_offsets = n;
    how->frames = n ? n : how->frames;
    return 0;
}

static int video_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_clip_how *how = state;
    int64_t frames = stk_args_i64(args, "frames"), stride = stk_args_i64(args, "stride");

    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "video reads a field's bytes: put it first");
    if (frames < 1 || frames > STK_CLIP_FRAMES)
        return stk_fail(err, STK_EINVAL, "video: frames=%" PRId64 " is not in 1..%u", frames,
                        STK_CLIP_FRAMES);
    if (stride < 1 || stride > STK_VIDEO_FRAMES)
        return stk_fail(err, STK_EINVAL, "video: stride=%" PRId64 " is not in 1..%u", stride,
                        STK_VIDEO_FRAMES);
    how->frames = (uint32_t)frames;
    how->stride = (uint32_t)stride;
    STK_TRY(start_of(how, args, err));
    STK_TRY(pad_of(how, args, err));
    STK_TRY(at_of(how, args, err));
    STK_TRY(first_named(how, args, err));
    how->keyframes = stk_args_bool(args, "keyframes");
    if (how->keyframes && (how->at[0] || stk_args_has(args, "fps")))
        return stk_fail(err, STK_EINVAL,
                        "video: keyframes are counted, they are not found by time: leave %s out",
                        how->at[0] ? "at=" : "fps=");
    STK_TRY(step_of(how, args, err));
    if (stk_args_has(args, "fps")) {
        how->fps = stk_args_f64(args, "fps");
        if (!(how->fps >= 0.001 && how->fps <= 10000))
            return stk_fail(err, STK_EINVAL, "video: fps=%g is not in 0.001..10000", how->fps);
        if (stk_args_given(args, "stride") || how->start >= STK_START_UNIFORM)
            return stk_fail(err, STK_EINVAL,
                            "video: fps= says how far apart frames are: leave %s out",
                            how->start >= STK_START_UNIFORM ? "start=uniform" : "stride=");
    }
    if (stk_args_has(args, "timeout")) {
        how->timeout = stk_args_f64(args, "timeout");
        if (!(how->timeout > 0 && how->timeout <= 86400))
            return stk_fail(err, STK_EINVAL, "video: timeout=%g is not a number of seconds",
                            how->timeout);
    }
    if (stk_args_has(args, "rate")) {
        how->rate = stk_args_f64(args, "rate");
        if (!(how->rate >= 0.001 && how->rate <= 10000))
            return stk_fail(err, STK_EINVAL, "video: rate=%g is not in 0.001..10000", how->rate);
    }
    *spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                        .out = STK_OUT_LIST,
                        .dtype = STK_U8,
                        .n_leads = 1,
                        .lead = { { STK_LEAD_FRAMES, how->frames } },
                        .picture = { .layout = STK_CHW, .exif = 1, .mul = { 1, 1, 1 } } };
    return stk_points_cache_open(&how->points, err);
}

static void video_fini(void *state)
{
    stk_points_cache_close(&((stk_clip_how *)state)->points);
}

/* ---- which frames ---- */

static int too_short(const stk_video_head *h, uint64_t needs, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "track %u: the video has %u frames, and the clip needs %" PRIu64
                    ": pad=last or pad=wrap fill up",
                    h->number, h->shown, needs);
}

static int put(const stk_clip_how *how, const stk_video_head *h, uint64_t number, uint64_t *out,
               stk_error *err)
{
    if (number >= h->shown && how->pad == STK_PAD_ERROR)
        return too_short(h, number + 1, err);
    *out = number < h->shown ? number : how->pad == STK_PAD_WRAP ? number % h->shown : h->shown - 1;
    return 0;
}

/* The numbers of NumPy's linspace(), which steps: at exact halves (shown - 1) * i / (frames - 1)
 * may be one bit away from them, and so round to another frame. */
static void pick_uniform(const stk_clip_how *how, const stk_video_head *h, uint64_t *frame)
{
    const double last = h->shown - 1, step = how->frames > 1 ? last / (how->frames - 1) : 0;

    for (uint32_t i = 0; i < how->frames; i++) {
        double x = i && i + 1 == how->frames ? last : i * step;

        frame[i] = (uint64_t)(how->start == STK_START_UNIFORM ? floor(x + 0.5) : nearbyint(x));
    }
}

static uint64_t first_of(const stk_clip_how *how, uint64_t shown, uint64_t span, stk_rng *rng)
{
    uint64_t free = shown > span ? shown - span : 0;

    return how->start == STK_START_RANDOM   ? stk_rng_below(rng, (uint32_t)free + 1)
           : how->start == STK_START_CENTER ? free / 2
                                            : how->first;
}

int stk_clip_time(const stk_video_head *h, uint64_t show, stk_scratch *scratch, int64_t *out,
                  stk_error *err)
{
    stk_video_unit u;
    uint32_t number;

    STK_TRY(stk_video_unit_of_show(h, (uint32_t)show, &number, err));
    STK_TRY(stk_video_unit_read(h, number, scratch, &u, err));
    if (show < u.show || show - u.show >= u.shown)
        return stk_fail(err, STK_ECORRUPT, "points of a video: a damaged directory");
    *out = u.frame[u.shows[show - u.show]].time;
    return 0;
}

/* The frame whose time is nearest; of two, the earlier. */
static int nearest(const stk_clip_how *how, const stk_video_head *h, double seconds,
                   stk_scratch *scratch, uint64_t *out, stk_error *err)
{
    unsigned mark = stk_scratch_mark(scratch);
    double unit = (double)h->den / h->num, at = seconds * unit, len = (double)(h->end - h->first);
    double best;
    int64_t exact, next;
    uint32_t show;

    if (!(at >= (double)h->first - 0.5 * h->step && at < (double)h->end)) {
        if (how->pad == STK_PAD_ERROR || !(at > -1e15 && at < 1e15))
            return stk_fail(err, STK_ECORRUPT,
                            "track %u: no frame is shown at %.3f s: the video has %.3f to %.3f s",
                            h->number, seconds, (double)h->first / unit, (double)h->end / unit);
        if (how->pad == STK_PAD_WRAP && len > 0)
            at -= floor((at - (double)h->first) / len) * len;
    }
    best = at;
    STK_TRY(stk_video_show_at(h, (int64_t)floor(at), scratch, &show, &exact, err));
    *out = show;
    best = fabs(at - (double)exact);
    if (show + 1 < h->shown) {
        stk_scratch_rewind(scratch, mark);
        STK_TRY(stk_clip_time(h, show + 1, scratch, &next, err));
        if (fabs((double)next - at) < best) {
            *out = show + 1;
            best = fabs((double)next - at);
        }
    }
    stk_scratch_rewind(scratch, mark);
    if (how->tolerance > 0 && best / unit > how->tolerance)
        return stk_fail(err, STK_ECORRUPT,
                        "track %u: no frame is shown within %g s of %.6f s: the nearest is frame "
                        "%" PRIu64 ", %.6f s away",
                        h->number, how->tolerance, seconds, *out, best / unit);
    return 0;
}

/* When the clip begins. */
static int begin_of(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                    stk_scratch *scratch, int64_t *from, stk_error *err)
{
    double last = (how->frames - 1) / how->fps * h->den / h->num;
    double room = (double)(h->end - h->first) - last;
    uint64_t first = how->first;
    uint32_t show;

    if (how->start == STK_START_AT) {
        if (how->at[0])
            STK_TRY(nearest(how, h, *draw->at, scratch, &first, err));
        STK_TRY(put(how, h, first, &first, err));
        return stk_clip_time(h, first, scratch, from, err);
    }
    *from = h->first;
    if (room > 0)
        *from += (int64_t)(how->start == STK_START_RANDOM ? room * stk_rng_unit(&draw->rng)
                                                          : room / 2);
    return stk_video_show_at(h, *from, scratch, &show, from, err);
}

/* Frame i is the one that is shown i / fps seconds after the first one is. */
static int pick_by_time(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                        stk_scratch *scratch, uint64_t *frame, stk_error *err)
{
    unsigned mark = stk_scratch_mark(scratch);
    double unit = (double)h->den / h->num;
    int64_t from, exact;
    uint32_t show;

    STK_TRY(begin_of(how, h, draw, scratch, &from, err));
    for (uint32_t i = 0; i < how->frames; i++) {
        int64_t at = from + (int64_t)floor(i / how->fps * unit + 0.5);

        stk_scratch_rewind(scratch, mark);
        if (at >= h->end && how->pad == STK_PAD_ERROR)
            return stk_fail(err, STK_ECORRUPT,
                            "track %u: the video ends after %.3f s, and the clip needs %.3f s: "
                            "pad=last or pad=wrap fill up",
                            h->number, (double)(h->end - h->first) / unit,
                            (how->frames - 1) / how->fps);
        if (at >= h->end && how->pad == STK_PAD_WRAP && h->end > h->first)
            at = h->first + (at - h->first) % (h->end - h->first);
        STK_TRY(stk_video_show_at(h, at, scratch, &show, &exact, err));
        frame[i] = show;
    }
    stk_scratch_rewind(scratch, mark);
    return 0;
}

static int pick_by_number(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                          stk_scratch *scratch, uint64_t *frame, stk_error *err)
{
    uint64_t first, span = (uint64_t)(how->frames - 1) * how->stride + 1;

    if (how->start >= STK_START_UNIFORM) {
        if (how->pad == STK_PAD_ERROR && h->shown < how->frames)
            return too_short(h, how->frames, err);
        pick_uniform(how, h, frame);
        return 0;
    }
    first = first_of(how, h->shown, span, &draw->rng);
    if (how->at_number && (*draw->at < 0 || *draw->at != floor(*draw->at)))
        return stk_fail(err, STK_ECORRUPT, "video: first=%g is not the number of a frame",
                        *draw->at);
    if (how->at_number)
        first = (uint64_t)*draw->at;
    else if (how->at[0])
        STK_TRY(nearest(how, h, *draw->at, scratch, &first, err));
    for (uint32_t i = 0; i < how->frames; i++)
        STK_TRY(put(how, h, first + (uint64_t)i * how->stride, &frame[i], err));
    return 0;
}

/* Show numbers of the keyframes, in scratch memory. */
static int list_keyframes(const stk_video_head *h, stk_scratch *scratch, uint32_t **out,
                          uint32_t *n, stk_error *err)
{
    uint32_t *list = stk_scratch_get(scratch, ((size_t)h->keys + 1) * sizeof *list);
    unsigned mark = stk_scratch_mark(scratch);

    *n = 0;
    *out = list;
    if (!list)
        return stk_fail_nomem(err, h->keys * sizeof *list);
    for (uint32_t u = 0; u < h->units; u++) {
        stk_video_unit unit;

        stk_scratch_rewind(scratch, mark);
        STK_TRY(stk_video_unit_read(h, u, scratch, &unit, err));
        for (uint32_t s = 0; s < unit.shown && *n < h->keys; s++)
            if (unit.frame[unit.shows[s]].flags & STK_FRAME_KEY)
                list[(*n)++] = unit.show + s;
    }
    stk_scratch_rewind(scratch, mark);
    return *n ? 0 : stk_fail(err, STK_ECORRUPT, "track %u: no keyframe is shown", h->number);
}

/* The same as by number, as if there were no other frames. */
static int pick_keyframes(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                          stk_scratch *scratch, uint64_t *frame, stk_error *err)
{
    unsigned mark = stk_scratch_mark(scratch);
    stk_video_head counted = *h;
    uint32_t *list;

    STK_TRY(list_keyframes(h, scratch, &list, &counted.shown, err));
    STK_TRY(pick_by_number(how, &counted, draw, scratch, frame, err));
    for (uint32_t i = 0; i < how->frames; i++)
        frame[i] = list[frame[i]];
    stk_scratch_rewind(scratch, mark);
    return 0;
}

int stk_clip_pick(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                  stk_scratch *scratch, uint64_t *frame, stk_error *err)
{
    uint32_t n = how->n_offsets ? how->n_offsets : how->n_at > 1 ? how->n_at : 0;

    for (uint32_t i = 0; i < n; i++)
        STK_TRY(nearest(how, h, how->n_offsets ? *draw->at + how->offset[i] : draw->at[i], scratch,
                        &frame[i], err));
    if (n)
        return 0;
    if (how->fps > 0)
        return pick_by_time(how, h, draw, scratch, frame, err);
    return (how->keyframes ? pick_keyframes : pick_by_number)(how, h, draw, scratch, frame, err);
}

static const stk_arg video_args[] = {
    { "frames", STK_ARG_INT, "16", "frames of a clip" },
    { "stride", STK_ARG_INT, "1", "every so many-th frame" },
    { "start", STK_ARG_ANY, "random",
      "random, center, a frame's number; or uniform: all over the video" },
    { "fps", STK_ARG_FLOAT, "", "in place of stride: frames per second, by their times" },
    { "at", STK_ARG_NAME, "",
      "in place of start: the output that has the time, in seconds; or one for each frame" },
    { "first", STK_ARG_NAME, "",
      "in place of start: the output that has the first frame's number" },
    { "step", STK_ARG_INT, "",
      "with first: clips begin so many frames apart; in order, a frame is decoded once" },
    { "offsets", STK_ARG_FLOATS, "", "with at: frames so many seconds from it, nearest by time" },
    { "tolerance", STK_ARG_FLOAT, "",
      "with at: seconds that a frame may be from its time, else the sample is bad" },
    { "keyframes", STK_ARG_BOOL, "false", "no other frames are counted" },
    { "rate", STK_ARG_FLOAT, "",
      "of numbered pictures (000001.jpg): how many there are in a second; videos have times" },
    { "timeout", STK_ARG_FLOAT, "",
      "seconds of CPU time that decoding a clip may take, else the sample is bad; absent: 30, and "
      "one for each packet" },
    { "pad", STK_ARG_NAME, "last", "of a video that is too short: last, wrap, or error" },
    { 0 },
};

const stk_codec stk_codec_video = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "video",
    .help =
        "a clip of a video (MP4, MOV, Matroska, WebM, numbered pictures): rows are (frames, ...)",
    .args = video_args,
    .state_size = sizeof(stk_clip_how),
    .plan = video_plan,
    .fini = video_fini,
    .can = STK_CODEC_VIDEO
};
