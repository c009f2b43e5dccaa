/* SPDX-License-Identifier: Apache-2.0 */
/* video_points.c - see video_points.h. */
#include "video/video_points.h"

#include <string.h>

#define HEAD 88u
#define ENTRY 32u
#define VERSION 1u
#define NO_RANK UINT32_MAX

/* A record: size << 4 with these, then what they announce, in this order. */
enum { IS_KEY = 1, IS_HIDDEN = 2, HAS_GAP = 4, HAS_TIME = 8 };

/* ---- packing ---- */

typedef struct pen {
    uint8_t *dst; /* NULL: only counts */
    size_t len;
} pen;

static void put(pen *p, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; p->dst && i < bytes; i++)
        p->dst[p->len + i] = (uint8_t)(v >> (8 * i));
    p->len += bytes;
}

static void put_varint(pen *p, uint64_t v)
{
    while (v > 127) {
        put(p, (v & 127) | 128, 1);
        v >>= 7;
    }
    put(p, v, 1);
}

static uint64_t folded(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unfolded(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

typedef struct packed_unit {
    uint32_t from, to, show; /* frames; the first show number */
    uint64_t place;
    int64_t time;
} packed_unit;

/* The unit that begins at frame `from`, of which `show` frames are shown before it. */
static packed_unit unit_at(const stk_video_track *t, const uint32_t *rank, uint32_t from,
                           uint32_t show)
{
    packed_unit u = { from, t->n, show, t->frame[from].at, 0 };
    uint32_t next = show, most = show; /* shown so far; one more than the last of their ranks */

    for (uint32_t i = from; i < t->n; i++) {
        if (i - from >= STK_UNIT_FRAMES && t->frame[i].flags & STK_FRAME_KEY && most == next) {
            u.to = i;
            break;
        }
        if (rank[i] != NO_RANK) {
            next++;
            most = rank[i] + 1 > most ? rank[i] + 1 : most;
        }
    }
    u.time = t->frame[show < t->shown ? t->show[show] : from].time;
    return u;
}

static uint32_t shown_in(const packed_unit *u, const uint32_t *rank)
{
    uint32_t n = 0;

    for (uint32_t i = u->from; i < u->to; i++)
        n += rank[i] != NO_RANK;
    return n;
}

static void put_frames(pen *p, const stk_video_track *t, const uint32_t *rank, const packed_unit *u,
                       uint32_t step)
{
    uint64_t place = u->place;
    uint32_t seen = 0;

    for (uint32_t i = u->from; i < u->to; i++) {
        const stk_video_frame *f = &t->frame[i];
        int hidden = rank[i] == NO_RANK;
        uint32_t order = hidden ? seen : rank[i] - u->show;
        int64_t late = f->time - (u->time + (int64_t)order * step);

        put_varint(p, (uint64_t)f->size << 4 | (f->flags & STK_FRAME_KEY ? IS_KEY : 0) |
                          (hidden ? IS_HIDDEN : 0) | (f->at != place ? HAS_GAP : 0) |
                          (late ? HAS_TIME : 0));
        if (!hidden)
            put_varint(p, folded((int64_t)order - seen));
        if (f->at != place)
            put_varint(p, folded((int64_t)(f->at - place)));
        if (late)
            put_varint(p, folded(late));
        place = f->at + f->size;
        seen += !hidden;
    }
}

static uint32_t step_of(const stk_video_track *t)
{
    int64_t span = t->shown > 1 ? t->frame[t->show[t->shown - 1]].time - t->frame[t->show[0]].time
                                : 0;
    int64_t step = t->shown > 1 ? (span + (t->shown - 1) / 2) / (t->shown - 1) : t->last_len;

    return step > 0 && step < INT32_MAX ? (uint32_t)step : 0;
}

static void count_keys(const stk_video_track *t, uint32_t *keys, uint32_t *longest)
{
    uint32_t from = 0;

    *keys = *longest = 0;
    for (uint32_t i = 0; i <= t->n; i++) {
        if (i < t->n && !(t->frame[i].flags & STK_FRAME_KEY))
            continue;
        *longest = i - from > *longest ? i - from : *longest;
        *keys += i < t->n;
        from = i;
    }
}

static void put_head(pen *p, const stk_video_track *t, char tag, uint32_t units, size_t bytes)
{
    int64_t last = t->frame[t->show[t->shown - 1]].time;
    uint32_t keys, longest;

    count_keys(t, &keys, &longest);
    put(p, (uint8_t)tag, 1);
    put(p, VERSION, 1);
    put(p, t->codec, 1);
    put(p, t->turn, 1);
    put(p, t->width, 4);
    put(p, t->height, 4);
    put(p, t->matrix, 1);
    put(p, t->full_range, 1);
    put(p, t->siting, 1);
    put(p, t->tracks < 255 ? t->tracks : 255, 1);
    put(p, t->num, 4);
    put(p, t->den, 4);
    put(p, t->n, 4);
    put(p, t->shown, 4);
    put(p, (uint64_t)t->frame[t->show[0]].time, 8);
    put(p, (uint64_t)(last + t->last_len), 8);
    put(p, t->field, 8);
    put(p, t->setup_len, 4);
    put(p, units, 4);
    put(p, t->number, 4);
    put(p, step_of(t), 4);
    put(p, keys, 4);
    put(p, longest, 4);
    put(p, bytes, 4);
    put(p, 0, 4);
    if (p->dst && t->setup_len)
        memcpy(p->dst + p->len, t->setup, t->setup_len);
    p->len += t->setup_len;
}

/* Units, counted or written: entries at `entry`, frames at `p`. */
static uint32_t put_units(pen *p, pen *entry, const stk_video_track *t, const uint32_t *rank)
{
    uint32_t n = 0, step = step_of(t);

    for (uint32_t from = 0, show = 0; from < t->n; n++) {
        packed_unit u = unit_at(t, rank, from, show);

        put(entry, u.from, 4);
        put(entry, u.show, 4);
        put(entry, p->len, 4);
        put(entry, 0, 4);
        put(entry, u.place, 8);
        put(entry, (uint64_t)u.time, 8);
        put_frames(p, t, rank, &u, step);
        from = u.to;
        show += shown_in(&u, rank);
    }
    return n;
}

size_t stk_video_points_pack(stk_video_track *t, char tag, uint8_t *dst)
{
    uint32_t *rank = t->show + t->n; /* the room that sorting used */
    pen count = { 0 }, entry = { 0 }, p = { .dst = dst };
    uint32_t units;
    size_t bytes;

    for (uint32_t i = 0; i < t->n; i++)
        rank[i] = NO_RANK;
    for (uint32_t i = 0; i < t->shown; i++)
        rank[t->show[i]] = i;
    units = put_units(&count, &entry, t, rank);
    bytes = HEAD + t->setup_len + entry.len + count.len;
    if (bytes > INT32_MAX)
        return 0;
    if (!dst)
        return bytes;
    put_head(&p, t, tag, units, bytes);
    entry = (pen){ .dst = dst, .len = p.len };
    p.len += (size_t)units * ENTRY;
    put_units(&p, &entry, t, rank);
    return bytes;
}

/* ---- reading ---- */

static int bad(const char *what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "points of a video: %s: run `stoker index --force`", what);
}

/* Bytes [at, at + len) of the points. */
static int get(const stk_media_points *p, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err)
{
    if (at <= p->head.len && len <= p->head.len - at) {
        *out = (stk_bytes){ p->head.data + at, len };
        return 0;
    }
    if (!p->slice)
        return bad("they end too early", err);
    STK_TRY(p->slice(p->cookie, at, len, out, err));
    return out->len < len ? bad("they end too early", err) : 0;
}

static uint64_t take(const uint8_t **p, uint32_t bytes)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < bytes; i++)
        v |= (uint64_t)(*p)[i] << (8 * i);
    *p += bytes;
    return v;
}

static int check_head(const stk_video_head *h, stk_error *err)
{
    uint64_t fixed = HEAD + (uint64_t)h->setup_len + (uint64_t)h->units * ENTRY;

    if (h->codec >= STK_VIDEO_CODECS || !h->turn || h->turn > 8 || !h->width || !h->height ||
        h->width > STK_VIDEO_SIDE || h->height > STK_VIDEO_SIDE || !h->num || !h->den ||
        !h->shown || h->shown > h->n || h->n > STK_VIDEO_FRAMES || h->first > h->end ||
        h->first < INT64_MIN / 2 || h->end > INT64_MAX / 2 || h->setup_len > STK_VIDEO_SETUP ||
        !h->units || h->units > h->n || fixed > h->bytes || h->step > INT32_MAX)
        return bad("a head that can't be", err);
    return 0;
}

int stk_video_points_open(stk_video_head *h, const stk_media_points *p, stk_error *err)
{
    const uint8_t *b;
    stk_bytes in;

    h->points = p;
    STK_TRY(get(p, 0, HEAD, &in, err));
    b = in.data;
    take(&b, 1);
    if (take(&b, 1) != VERSION)
        return bad("another version", err);
    h->codec = (stk_video_codec)take(&b, 1);
    h->turn = (uint32_t)take(&b, 1);
    h->width = (uint32_t)take(&b, 4);
    h->height = (uint32_t)take(&b, 4);
    h->matrix = (uint8_t)take(&b, 1);
    h->full_range = (uint8_t)take(&b, 1);
    h->siting = (uint8_t)take(&b, 1);
    h->tracks = (uint32_t)take(&b, 1);
    h->num = (uint32_t)take(&b, 4);
    h->den = (uint32_t)take(&b, 4);
    h->n = (uint32_t)take(&b, 4);
    h->shown = (uint32_t)take(&b, 4);
    h->first = (int64_t)take(&b, 8);
    h->end = (int64_t)take(&b, 8);
    h->field = take(&b, 8);
    h->setup_len = (uint32_t)take(&b, 4);
    h->units = (uint32_t)take(&b, 4);
    h->number = (uint32_t)take(&b, 4);
    h->step = (uint32_t)take(&b, 4);
    h->keys = (uint32_t)take(&b, 4);
    h->longest = (uint32_t)take(&b, 4);
    h->bytes = (uint32_t)take(&b, 4);
    h->sound = (uint32_t)take(&b, 4);
    return check_head(h, err);
}

int stk_video_points_setup(const stk_video_head *h, stk_bytes *out, stk_error *err)
{
    return get(h->points, HEAD, h->setup_len, out, err);
}

typedef struct entry {
    uint32_t decode, show, slice;
    uint64_t place;
    int64_t time;
} entry;

/* Entry i of the directory; past the last one: where all of it ends. */
static int get_entry(const stk_video_head *h, uint32_t i, entry *out, stk_error *err)
{
    const uint8_t *b;
    stk_bytes in;

    if (i == h->units) {
        *out = (entry){ h->n, h->shown, h->bytes, 0, 0 };
        return 0;
    }
    STK_TRY(get(h->points, HEAD + (uint64_t)h->setup_len + (uint64_t)i * ENTRY, ENTRY, &in, err));
    b = in.data;
    out->decode = (uint32_t)take(&b, 4);
    out->show = (uint32_t)take(&b, 4);
    out->slice = (uint32_t)take(&b, 4);
    take(&b, 4);
    out->place = take(&b, 8);
    out->time = (int64_t)take(&b, 8);
    if (out->place > UINT64_MAX / 4 || out->time > INT64_MAX / 4 || out->time < INT64_MIN / 4)
        return bad("a place or time that can't be", err);
    return 0;
}

typedef enum by { BY_DECODE, BY_SHOW, BY_TIME } by;

static int64_t key_of(by what, const entry *e)
{
    return what == BY_DECODE ? (int64_t)e->decode : what == BY_SHOW ? (int64_t)e->show : e->time;
}

typedef struct span { /* units, and the keys of the two at its ends */
    uint32_t low, high;
    int64_t from, to;
} span;

/* Where `v` would be if all units were equally long, which most are. */
static uint32_t guess(const span *s, int64_t v)
{
    double share = s->to > s->from
                       ? ((double)v - (double)s->from) / ((double)s->to - (double)s->from)
                       : 0;
    uint32_t most = s->high - s->low - 1, on = 1;

    if (share > 0)
        on = share < 1 ? (uint32_t)(share * (s->high - s->low)) : most;
    return s->low + (on < 1 ? 1 : on > most ? most : on);
}

#define GUESSES 3 /* then by halves: hostile points, and videos of very uneven groups */

/* The last unit whose first decode number, show number or time is not after `v`. */
static int bisect(const stk_video_head *h, by what, int64_t v, uint32_t *out, stk_error *err)
{
    span s = { 0, h->units, what == BY_TIME ? h->first : 0,
               what == BY_DECODE ? (int64_t)h->n
               : what == BY_SHOW ? (int64_t)h->shown
                                 : h->end };

    for (uint32_t i = 0; s.high - s.low > 1; i++) {
        uint32_t mid = i < GUESSES ? guess(&s, v) : s.low + (s.high - s.low) / 2;
        entry e;

        STK_TRY(get_entry(h, mid, &e, err));
        if (key_of(what, &e) <= v) {
            s.low = mid;
            s.from = key_of(what, &e);
        } else {
            s.high = mid;
            s.to = key_of(what, &e);
        }
    }
    *out = s.low;
    return 0;
}

int stk_video_unit_of_show(const stk_video_head *h, uint32_t show, uint32_t *out, stk_error *err)
{
    return bisect(h, BY_SHOW, show, out, err);
}

int stk_video_unit_of_decode(const stk_video_head *h, uint32_t decode, uint32_t *out,
                             stk_error *err)
{
    return bisect(h, BY_DECODE, decode, out, err);
}

typedef struct varints {
    const uint8_t *p, *end;
    int bad;
} varints;

static uint64_t varint(varints *in)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < 64; shift += 7) {
        uint8_t b;

        if (in->p == in->end)
            break;
        b = *in->p++;
        v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return v;
    }
    in->bad = 1;
    return 0;
}

static int read_frames(stk_video_unit *u, varints in, const entry *e, uint32_t step, stk_error *err)
{
    uint64_t place = e->place;
    uint32_t seen = 0;

    for (uint32_t i = 0; i < u->shown; i++)
        u->shows[i] = NO_RANK;
    for (uint32_t i = 0; i < u->n; i++) {
        uint64_t v = varint(&in);
        int hidden = (v & IS_HIDDEN) != 0;
        int64_t order = seen, late = 0;

        if (!hidden)
            order += unfolded(varint(&in));
        if (v & HAS_GAP)
            place += (uint64_t)unfolded(varint(&in));
        if (v & HAS_TIME)
            late = unfolded(varint(&in));
        if (in.bad || v >> 4 > STK_VIDEO_PACKET || place > UINT64_MAX / 4 || late > INT64_MAX / 4 ||
            late < INT64_MIN / 4 ||
            (!hidden && (order < 0 || order >= u->shown || u->shows[order] != NO_RANK)))
            return bad("a damaged frame", err);
        u->frame[i] = (stk_video_frame){ .at = place,
                                         .time = e->time + order * (int64_t)step + late,
                                         .size = (uint32_t)(v >> 4),
                                         .flags = (v & IS_KEY ? STK_FRAME_KEY : 0) |
                                                  (hidden ? STK_FRAME_HIDDEN : 0) };
        u->rank[i] = hidden ? NO_RANK : (uint32_t)order;
        if (!hidden)
            u->shows[order] = i;
        place += v >> 4;
        seen += !hidden;
    }
    return seen != u->shown ? bad("a frame is missing", err) : 0;
}

int stk_video_unit_read(const stk_video_head *h, uint32_t number, stk_scratch *scratch,
                        stk_video_unit *out, stk_error *err)
{
    uint64_t fixed = HEAD + (uint64_t)h->setup_len + (uint64_t)h->units * ENTRY;
    entry e, next;
    stk_bytes in;
    size_t room;

    if (number >= h->units)
        return bad("no such unit", err);
    STK_TRY(get_entry(h, number, &e, err));
    STK_TRY(get_entry(h, number + 1, &next, err));
    if ((!number && (e.decode || e.show)) || next.decode <= e.decode || next.decode > h->n ||
        next.show < e.show || next.show > h->shown || e.slice < fixed || next.slice < e.slice ||
        next.slice > h->bytes || next.decode - e.decode > next.slice - e.slice ||
        next.show - e.show > next.decode - e.decode)
        return bad("a damaged directory", err);
    *out = (stk_video_unit){ .number = number,
                             .decode = e.decode,
                             .n = next.decode - e.decode,
                             .show = e.show,
                             .shown = next.show - e.show };
    room = (size_t)out->n * (sizeof *out->frame + 2 * sizeof *out->rank);
    out->frame = stk_scratch_get(scratch, room);
    if (!out->frame)
        return stk_fail_nomem(err, room);
    out->rank = (uint32_t *)(out->frame + out->n);
    out->shows = out->rank + out->n;
    STK_TRY(get(h->points, e.slice, next.slice - e.slice, &in, err));
    return read_frames(out, (varints){ in.data, in.data + in.len, 0 }, &e, h->step, err);
}

int stk_video_show_at(const stk_video_head *h, int64_t time, stk_scratch *scratch, uint32_t *show,
                      int64_t *exact, stk_error *err)
{
    stk_video_unit u;
    uint32_t number, low = 0, high;

    STK_TRY(bisect(h, BY_TIME, time, &number, err));
    STK_TRY(stk_video_unit_read(h, number, scratch, &u, err));
    if (!u.shown)
        return bad("a unit without frames that are shown", err);
    high = u.shown;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;

        if (u.frame[u.shows[mid]].time <= time)
            low = mid;
        else
            high = mid;
    }
    *show = u.show + low;
    *exact = u.frame[u.shows[low]].time;
    return 0;
}

int64_t stk_video_us(const stk_video_head *h, int64_t time)
{
    __extension__ typedef __int128 wide;
    wide v = (wide)time * h->num * 2000000 + h->den;
    wide d = (wide)h->den * 2, q = v / d;

    if (v % d < 0)
        q--;
    return q > INT64_MAX / 4 ? INT64_MAX / 4 : q < INT64_MIN / 4 ? INT64_MIN / 4 : (int64_t)q;
}

int64_t stk_video_time(const stk_video_head *h, double seconds)
{
    double v = seconds * h->den / h->num;

    return v > 4e18 ? INT64_MAX / 4 : v < -4e18 ? INT64_MIN / 4 : (int64_t)(v < 0 ? v - 1 : v);
}

/* ---- sound ---- */

#define SOUND_AT 84u /* of the head: bytes of the sound's points */

int stk_video_points_join(stk_bytes video, stk_bytes sound, stk_scratch *scratch, stk_bytes *out,
                          stk_error *err)
{
    pen p = { 0 };

    *out = video;
    if (!sound.len || sound.len > INT32_MAX || video.len < HEAD)
        return 0;
    p.dst = stk_scratch_get(scratch, video.len + sound.len);
    if (!p.dst)
        return stk_fail_nomem(err, video.len + sound.len);
    memcpy(p.dst, video.data, video.len);
    memcpy(p.dst + video.len, sound.data, sound.len);
    p.len = SOUND_AT;
    put(&p, sound.len, 4);
    *out = (stk_bytes){ p.dst, video.len + sound.len };
    return 0;
}

/* A slice() of the sound's points. */
static int get_sound(void *cookie, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err)
{
    const stk_sound_within *w = cookie;

    if (at > w->len || len > w->len - at)
        return bad("those of the sound end too early", err);
    return get(w->of, w->from + at, len, out, err);
}

int stk_video_points_sound(stk_sound_within *out, const stk_media_points *of)
{
    stk_video_head h;

    if (stk_video_points_open(&h, of, NULL) < 0 || !h.sound)
        return 0;
    *out = (stk_sound_within){ .of = of, .from = h.bytes, .len = h.sound };
    out->points = (stk_media_points){ .slice = get_sound, .cookie = out };
    return 1;
}
