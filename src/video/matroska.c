/* SPDX-License-Identifier: Apache-2.0 */
/* matroska.c - Matroska and WebM: where the packets of a file's first video track are, and when
 * their frames are shown.
 *
 * Cues list some keyframes only, so clusters are scanned: of each block its head is read, and none
 * of its bytes.  Segments and clusters of unknown size (live recordings) end where an element of
 * their own level begins.  Laced video blocks and compressed tracks are refused: no program that
 * writes video today makes them. */
#include <string.h>

#include "video/sound_track.h"

enum { /* EBML IDs, with their length marks */
       ID_EBML = 0x1A45DFA3,
       ID_SEGMENT = 0x18538067,
       ID_INFO = 0x1549A966,
       ID_SCALE = 0x2AD7B1,
       ID_TRACKS = 0x1654AE6B,
       ID_ENTRY = 0xAE,
       ID_NUMBER = 0xD7,
       ID_TYPE = 0x83,
       ID_CODEC = 0x86,
       ID_PRIVATE = 0x63A2,
       ID_DURATION = 0x23E383,
       ID_ENCODINGS = 0x6D80,
       ID_DELAY = 0x56AA,
       ID_PADDING = 0x75A2,
       ID_VIDEO = 0xE0,
       ID_WIDTH = 0xB0,
       ID_HEIGHT = 0xBA,
       ID_COLOUR = 0x55B0,
       ID_MATRIX = 0x55B1,
       ID_RANGE = 0x55B9,
       ID_PROJECTION = 0x7670,
       ID_PROJECTION_TYPE = 0x7671,
       ID_YAW = 0x7673,
       ID_PITCH = 0x7674,
       ID_ROLL = 0x7675,
       ID_CLUSTER = 0x1F43B675,
       ID_TIME = 0xE7,
       ID_SIMPLE = 0xA3,
       ID_GROUP = 0xA0,
       ID_BLOCK = 0xA1,
       ID_REFERENCE = 0xFB,
       ID_CUES = 0x1C53BB6B,
       ID_SEEK = 0x114D9B74,
       ID_TAGS = 0x1254C367,
       ID_CHAPTERS = 0x1043A770,
       ID_FILES = 0x1941A469
};

#define UNKNOWN UINT64_MAX
#define WINDOW 4096u        /* bytes that are read at once while elements are walked, ... */
#define NARROW 64u          /* ... and of blocks that are larger: their heads alone */
#define ELEMENTS (1u << 26) /* of a file */
#define BLOCK_HEAD 16u      /* track number, time, flags, and a VP8 frame's first bytes */

typedef struct scan {
    const stk_media_reader *read;
    stk_video_track *t;
    stk_bytes window;
    uint64_t at; /* of the window */
    uint64_t scale;
    uint64_t default_ns;
    uint64_t elements;
    uint64_t padding_ns; /* of the sound's last packet, that is left out */
    uint64_t passed;     /* the first cluster before the tracks; 0: there is none */
    size_t ahead;        /* bytes that are read at once */
    int has_tracks;
} scan;

typedef struct element {
    uint32_t id;
    uint64_t at, body, end; /* end: UNKNOWN where its size is */
} element;

int stk_matroska_probe(stk_bytes head)
{
    static const uint8_t magic[] = { 0x1A, 0x45, 0xDF, 0xA3 };

    return head.len >= 4 && !memcmp(head.data, magic, 4);
}

/* ---- elements ---- */

/* At least `len` bytes from `at` on, where the file has them; more in one read as long as the next
 * look is at them too. */
static int look(scan *s, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    uint64_t left = s->read->size > at ? s->read->size - at : 0;

    if (len > left)
        len = (size_t)left;
    if (!s->window.data || at < s->at || at - s->at > s->window.len ||
        s->window.len - (at - s->at) < len) {
        int passed = s->window.data && (at < s->at || at - s->at > s->window.len);
        size_t more;

        s->ahead = passed ? s->ahead / 4 : s->ahead * 4;
        s->ahead = s->ahead < NARROW ? NARROW : s->ahead > WINDOW ? WINDOW : s->ahead;
        more = len > s->ahead ? len : s->ahead;
        s->window = (stk_bytes){ 0 };
        STK_TRY(s->read->read(s->read->cookie, at, (size_t)(more > left ? left : more), &s->window,
                              err));
        s->at = at;
    }
    *out = (stk_bytes){ s->window.data + (at - s->at), s->window.len - (size_t)(at - s->at) };
    return 0;
}

/* A number whose first byte says how long it is.  Bytes that it has; 0: it is damaged. */
static uint32_t number(stk_bytes in, int keep_mark, uint64_t *out)
{
    uint32_t len;
    uint64_t v;

    if (!in.len || !in.data[0])
        return 0;
    len = (uint32_t)__builtin_clz((uint32_t)in.data[0]) - 23;
    if (len > in.len)
        return 0;
    v = keep_mark ? in.data[0] : in.data[0] & (0xffu >> len);
    for (uint32_t i = 1; i < len; i++)
        v = v << 8 | in.data[i];
    *out = !keep_mark && v == ((uint64_t)1 << (7 * len)) - 1 ? UNKNOWN : v;
    return len;
}

static int torn(const scan *s, uint64_t at, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "track %u: a damaged element at byte %" PRIu64, s->t->number,
                    at);
}

/* 1: an element; 0: the file ends here, or in it. */
static int next(scan *s, uint64_t at, element *e, stk_error *err)
{
    uint64_t id, size;
    uint32_t n, k;
    stk_bytes in = { 0 };

    if (++s->elements > ELEMENTS)
        return stk_fail(err, STK_ELIMIT, "the file has more than %u elements", ELEMENTS);
    STK_TRY(look(s, at, 12, &in, err));
    n = number(in, 1, &id);
    if (!n || n > 4)
        return 0;
    k = number((stk_bytes){ in.data + n, in.len - n }, 0, &size);
    if (!k)
        return 0;
    *e = (element){ (uint32_t)id, at, at + n + k, UNKNOWN };
    if (size != UNKNOWN)
        e->end = size > UINT64_MAX / 2 ? UINT64_MAX / 2 : e->body + size;
    return 1;
}

/* Its bytes, of an element that is read whole. */
static int body_of(scan *s, const element *e, uint64_t most, stk_bytes *out, stk_error *err)
{
    if (e->end == UNKNOWN || e->end > s->read->size || e->end - e->body > most)
        return torn(s, e->at, err);
    STK_TRY(look(s, e->body, (size_t)(e->end - e->body), out, err));
    out->len = (size_t)(e->end - e->body);
    return 0;
}

static int uint_of(scan *s, const element *e, uint64_t *out, stk_error *err)
{
    stk_bytes in = { 0 };

    *out = 0;
    STK_TRY(body_of(s, e, 8, &in, err));
    for (size_t i = 0; i < in.len; i++)
        *out = *out << 8 | in.data[i];
    return 0;
}

typedef int (*visit)(scan *s, const element *e, void *cookie, stk_error *err);

/* The elements inside [at, end). */
static int walk(scan *s, uint64_t at, uint64_t end, visit fn, void *cookie, stk_error *err)
{
    element e = { 0 };

    while (at < end) {
        int rc = next(s, at, &e, err);

        if (rc <= 0)
            return rc;
        if (e.end == UNKNOWN || e.end > end)
            return torn(s, e.at, err);
        STK_TRY(fn(s, &e, cookie, err));
        at = e.end;
    }
    return 0;
}

/* ---- tracks ---- */

typedef struct entry {
    uint64_t number, type, width, height, matrix, range, duration, delay_ns;
    uint64_t projection;     /* its type; 0: flat */
    double yaw, pitch, roll; /* degrees */
    char codec[33];
    element setup;
    int encoded;
} entry;

static int in_colour(scan *s, const element *e, void *cookie, stk_error *err)
{
    entry *t = cookie;

    return e->id == ID_MATRIX  ? uint_of(s, e, &t->matrix, err)
           : e->id == ID_RANGE ? uint_of(s, e, &t->range, err)
                               : 0;
}

static int float_of(scan *s, const element *e, double *out, stk_error *err)
{
    size_t len = e->end == UNKNOWN ? 0 : (size_t)(e->end - e->body);
    uint64_t bits;
    float narrow;

    *out = 0;
    if (len && len != 4 && len != 8)
        return torn(s, e->at, err);
    STK_TRY(uint_of(s, e, &bits, err));
    if (len == 8)
        memcpy(out, &bits, 8);
    if (len == 4) {
        uint32_t low = (uint32_t)bits;

        memcpy(&narrow, &low, 4);
        *out = (double)narrow;
    }
    return 0;
}

static int in_projection(scan *s, const element *e, void *cookie, stk_error *err)
{
    entry *t = cookie;

    return e->id == ID_PROJECTION_TYPE ? uint_of(s, e, &t->projection, err)
           : e->id == ID_YAW           ? float_of(s, e, &t->yaw, err)
           : e->id == ID_PITCH         ? float_of(s, e, &t->pitch, err)
           : e->id == ID_ROLL          ? float_of(s, e, &t->roll, err)
                                       : 0;
}

/* EXIF's number of the turn: roll is counter-clockwise, after a yaw of half a turn, which mirrors.
 * Others than right angles, and what is not flat, are left out, as in MP4. */
static uint32_t turn_of(const entry *t)
{
    static const uint8_t turns[2][4] = { { 1, 8, 3, 6 }, { 2, 5, 4, 7 } };
    int mirrored = t->yaw == 180 || t->yaw == -180;
    double quarters = t->roll / 90;

    if (t->projection || t->pitch != 0 || (t->yaw != 0 && !mirrored) ||
        !(quarters >= -4 && quarters <= 4) || quarters != (int)quarters)
        return 1;
    return turns[mirrored][(int)quarters & 3];
}

static int in_video(scan *s, const element *e, void *cookie, stk_error *err)
{
    entry *t = cookie;

    return e->id == ID_WIDTH        ? uint_of(s, e, &t->width, err)
           : e->id == ID_HEIGHT     ? uint_of(s, e, &t->height, err)
           : e->id == ID_COLOUR     ? walk(s, e->body, e->end, in_colour, t, err)
           : e->id == ID_PROJECTION ? walk(s, e->body, e->end, in_projection, t, err)
                                    : 0;
}

static int in_entry(scan *s, const element *e, void *cookie, stk_error *err)
{
    entry *t = cookie;
    stk_bytes name = { 0 };

    switch (e->id) {
    case ID_NUMBER: return uint_of(s, e, &t->number, err);
    case ID_TYPE: return uint_of(s, e, &t->type, err);
    case ID_DURATION: return uint_of(s, e, &t->duration, err);
    case ID_DELAY: return uint_of(s, e, &t->delay_ns, err);
    case ID_CODEC:
        STK_TRY(body_of(s, e, 1 << 16, &name, err));
        if (name.len > sizeof t->codec - 1)
            name.len = sizeof t->codec - 1;
        for (size_t i = 0; i < name.len; i++)
            t->codec[i] = (char)(name.data[i] >= 32 && name.data[i] < 127 ? name.data[i]
                                 : name.data[i]                           ? '?'
                                                                          : 0);
        return 0;
    case ID_PRIVATE: t->setup = *e; return 0;
    case ID_ENCODINGS: t->encoded = 1; return 0;
    case ID_VIDEO: return walk(s, e->body, e->end, in_video, t, err);
    default: return 0;
    }
}

static stk_video_codec codec_of(const char *name)
{
    static const struct {
        const char *name;
        stk_video_codec codec;
    } all[] = { { "V_MPEG4/ISO/AVC", STK_VIDEO_H264 },
                { "V_MPEGH/ISO/HEVC", STK_VIDEO_HEVC },
                { "V_VP8", STK_VIDEO_VP8 },
                { "V_VP9", STK_VIDEO_VP9 },
                { "V_AV1", STK_VIDEO_AV1 },
                { "V_MJPEG", STK_VIDEO_MJPEG },
                { "V_MPEG4/ISO/ASP", STK_VIDEO_MPEG4 },
                { "V_MPEG4/ISO/SP", STK_VIDEO_MPEG4 },
                { "V_MPEG4/ISO/AP", STK_VIDEO_MPEG4 } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name))
            return all[i].codec;
    return STK_VIDEO_OTHER;
}

static stk_sound_coding coding_of(const char *name)
{
    static const struct {
        const char *name;
        stk_sound_coding coding;
    } all[] = { { "A_AAC", STK_CODING_AAC },   { "A_MPEG/L3", STK_CODING_MP3 },
                { "A_AC3", STK_CODING_AC3 },   { "A_EAC3", STK_CODING_EAC3 },
                { "A_ALAC", STK_CODING_ALAC }, { "A_FLAC", STK_CODING_FLAC },
                { "A_OPUS", STK_CODING_OPUS } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name))
            return all[i].coding;
    return STK_CODING_OTHER;
}

/* As libavcodec takes it: of FLAC STREAMINFO alone, of ALAC with the head of its box. */
static int use_sound_setup(stk_video_track *t, stk_bytes setup, stk_error *err)
{
    static const uint8_t head[12] = { 0, 0, 0, 36, 'a', 'l', 'a', 'c' };
    uint8_t alac[36];

    if (t->sound.coding == STK_CODING_FLAC && setup.len >= 42 && !memcmp(setup.data, "fLaC", 4))
        setup = (stk_bytes){ setup.data + 8, 34 };
    if (t->sound.coding == STK_CODING_ALAC && setup.len == 24) {
        memcpy(alac, head, 12);
        memcpy(alac + 12, setup.data, 24);
        setup = (stk_bytes){ alac, 36 };
    }
    return stk_video_track_setup(t, setup, err);
}

static int use_sound(scan *s, const entry *e, stk_error *err)
{
    stk_video_track *t = s->t;
    stk_bytes setup = { 0 };

    t->sound.coding = coding_of(e->codec);
    if (t->sound.coding == STK_CODING_OTHER)
        return stk_fail(err, STK_ENOTSUP,
                        "track %u: the sound's codec is `%s`; AAC, MP3, AC-3, ALAC, FLAC and Opus "
                        "are decoded: re-encode it with the ffmpeg program",
                        t->number, t->fourcc);
    if (e->setup.body)
        STK_TRY(body_of(s, &e->setup, STK_VIDEO_SETUP, &setup, err));
    /* FFmpeg writes a third of Opus's delay for sound of 16 kHz; its head has the right one */
    if (t->sound.coding != STK_CODING_OPUS || setup.len < 19) {
        t->sound.skip_num = e->delay_ns;
        t->sound.skip_den = e->delay_ns ? 1000000000 : 0;
    }
    return use_sound_setup(t, setup, err);
}

static int check_encoded(const stk_video_track *t, const entry *e, stk_error *err)
{
    if (!e->encoded)
        return 0;
    return stk_fail(err, STK_ENOTSUP,
                    "track %u: its packets are compressed or encrypted by the container: write "
                    "the file again with the ffmpeg program",
                    t->number);
}

static int use_entry(scan *s, const entry *e, stk_error *err)
{
    stk_video_track *t = s->t;
    stk_bytes setup = { 0 };

    memcpy(t->fourcc, e->codec, sizeof t->fourcc);
    t->number = e->number > UINT32_MAX ? UINT32_MAX : (uint32_t)e->number;
    if (t->sound.wanted) {
        STK_TRY(check_encoded(t, e, err));
        return use_sound(s, e, err);
    }
    t->codec = codec_of(e->codec);
    t->width = e->width > UINT32_MAX ? 0 : (uint32_t)e->width;
    t->height = e->height > UINT32_MAX ? 0 : (uint32_t)e->height;
    t->matrix = e->matrix < 255 ? (uint8_t)e->matrix : 2;
    t->full_range = e->range == 2;
    t->turn = turn_of(e);
    s->default_ns = e->duration;
    if (t->codec == STK_VIDEO_OTHER)
        return stk_fail(err, STK_ENOTSUP,
                        "track %u: the video's codec is `%s`; H.264, HEVC, AV1, VP8, VP9, MPEG-4 "
                        "and MJPEG are decoded: re-encode it with the ffmpeg program",
                        t->number, t->fourcc);
    STK_TRY(check_encoded(t, e, err));
    if (e->setup.body)
        STK_TRY(body_of(s, &e->setup, STK_VIDEO_SETUP, &setup, err));
    return stk_video_track_setup(t, setup, err);
}

static int in_tracks(scan *s, const element *e, void *cookie, stk_error *err)
{
    entry t = { .matrix = 2 };

    (void)cookie;
    if (e->id != ID_ENTRY)
        return 0;
    STK_TRY(walk(s, e->body, e->end, in_entry, &t, err));
    return t.type == (s->t->sound.wanted ? 2 : 1) && !s->t->tracks++ ? use_entry(s, &t, err) : 0;
}

static int in_info(scan *s, const element *e, void *cookie, stk_error *err)
{
    (void)cookie;
    return e->id == ID_SCALE ? uint_of(s, e, &s->scale, err) : 0;
}

/* ---- blocks ---- */

typedef struct cluster {
    uint64_t time;
    int key;       /* of the block group that is walked */
    element block; /* of it */
    uint64_t padding_ns;
} cluster;

/* A VP8 frame that is only a reference is a packet of its own. */
static int is_invisible(const scan *s, stk_bytes in)
{
    return s->t->codec == STK_VIDEO_VP8 && in.len && !(in.data[0] & 16);
}

static int take_block(scan *s, const element *e, const cluster *c, int simple, int key,
                      stk_error *err)
{
    stk_video_frame f = { 0 };
    uint64_t track = 0, head;
    stk_bytes in = { 0 };
    uint32_t n;
    uint8_t flags;

    STK_TRY(look(s, e->body, BLOCK_HEAD, &in, err));
    if (in.len > e->end - e->body)
        in.len = (size_t)(e->end - e->body);
    n = number(in, 0, &track);
    if (!n || in.len < n + 3)
        return torn(s, e->at, err);
    if (!s->has_tracks || track != s->t->number)
        return 0;
    flags = in.data[n + 2];
    if (flags & 6)
        return stk_fail(err, STK_ENOTSUP,
                        "track %u: the block at byte %" PRIu64
                        " is laced: write the file again with the ffmpeg program",
                        s->t->number, e->at);
    head = n + 3;
    f.at = e->body + head;
    if (e->end - f.at > STK_VIDEO_PACKET || c->time > INT64_MAX / 8)
        return torn(s, e->at, err);
    f.size = (uint32_t)(e->end - f.at);
    f.time = (int64_t)c->time + (int16_t)(in.data[n] << 8 | in.data[n + 1]);
    if (simple ? flags & 128 : key)
        f.flags |= STK_FRAME_KEY;
    s->padding_ns = simple ? 0 : c->padding_ns;
    if (flags & 8 || is_invisible(s, (stk_bytes){ in.data + head, in.len - head }))
        f.flags |= STK_FRAME_HIDDEN;
    return stk_video_track_add(s->t, &f, err);
}

static int in_group(scan *s, const element *e, void *cookie, stk_error *err)
{
    cluster *c = cookie;

    if (e->id == ID_PADDING)
        return uint_of(s, e, &c->padding_ns, err);
    if (e->id == ID_BLOCK)
        c->block = *e;
    if (e->id == ID_REFERENCE)
        c->key = 0;
    return 0;
}

static int in_cluster(scan *s, const element *e, cluster *c, stk_error *err)
{
    if (e->id == ID_TIME)
        return uint_of(s, e, &c->time, err);
    if (e->id == ID_SIMPLE)
        return take_block(s, e, c, 1, 0, err);
    if (e->id != ID_GROUP)
        return 0;
    c->key = 1;
    c->block = (element){ 0 };
    c->padding_ns = 0;
    STK_TRY(walk(s, e->body, e->end, in_group, c, err));
    return c->block.id ? take_block(s, &c->block, c, 0, c->key, err) : 0;
}

static int is_top(uint32_t id)
{
    return id == ID_CLUSTER || id == ID_CUES || id == ID_SEEK || id == ID_TAGS ||
           id == ID_CHAPTERS || id == ID_FILES || id == ID_INFO || id == ID_TRACKS;
}

/* Where the element after it begins.  A file that ends inside a block has the frames before it. */
static int take_cluster(scan *s, const element *of, uint64_t *at, stk_error *err)
{
    uint64_t end = of->end == UNKNOWN ? s->read->size : of->end;
    cluster c = { 0 };
    element e = { 0 };

    for (*at = of->body; *at < end && *at < s->read->size;) {
        int rc = next(s, *at, &e, err);

        if (rc < 0)
            return rc;
        if (rc && of->end == UNKNOWN && is_top(e.id))
            return 0;
        if (!rc || (e.id != ID_SIMPLE && e.id != ID_GROUP && e.end > s->read->size))
            break;
        if (e.end == UNKNOWN || e.end > end)
            return torn(s, e.at, err);
        if (e.id == ID_GROUP && e.end > s->read->size)
            break;
        STK_TRY(in_cluster(s, &e, &c, err));
        *at = e.end;
    }
    *at = end;
    return 0;
}

static int take_top(scan *s, const element *e, uint64_t *at, stk_error *err)
{
    *at = e->end;
    if (e->id == ID_CLUSTER && !s->has_tracks && e->end != UNKNOWN) {
        s->passed = s->passed ? s->passed : e->at;
        return 0;
    }
    if (e->id == ID_CLUSTER)
        return take_cluster(s, e, at, err);
    if (e->end == UNKNOWN)
        return torn(s, e->at, err);
    if (e->id == ID_INFO)
        return walk(s, e->body, e->end, in_info, NULL, err);
    if (e->id == ID_TRACKS && !s->has_tracks) {
        s->has_tracks = 1;
        return walk(s, e->body, e->end, in_tracks, NULL, err);
    }
    return 0;
}

/* The elements of a segment from `at` on. */
static int take_tops(scan *s, uint64_t at, uint64_t end, stk_error *err)
{
    element e = { 0 };

    while (at < end) {
        int rc = next(s, at, &e, err);

        if (rc <= 0)
            return rc;
        STK_TRY(take_top(s, &e, &at, err));
        if (s->has_tracks && (!s->t->tracks || s->passed))
            break;
    }
    return 0;
}

/* Programs that edit a file may move its tracks after the clusters: these are read again then. */
static int take_segment(scan *s, const element *of, stk_error *err)
{
    uint64_t end = of->end < s->read->size ? of->end : s->read->size, from = of->body;
    int rc = take_tops(s, from, end, err);

    if (rc < 0 || !s->has_tracks || !s->passed)
        return rc;
    from = s->passed;
    s->passed = 0;
    return take_tops(s, from, end, err);
}

/* Nanoseconds are a unit of 1 / 10^9; the usual scale of 10^6 becomes 1 / 1000. */
static void set_unit(scan *s)
{
    uint64_t num = s->scale, den = 1000000000;

    for (uint64_t f = 10; f > 1; f = f == 10 ? 5 : f == 5 ? 2 : 1)
        while (num && num % f == 0 && den % f == 0)
            num /= f, den /= f;
    s->t->num = num > UINT32_MAX ? 0 : (uint32_t)num;
    s->t->den = (uint32_t)den;
}

static int read_track(scan *s, stk_error *err)
{
    uint64_t at = 0;
    element e = { 0 };
    int rc;

    for (;;) {
        rc = next(s, at, &e, err);
        STK_TRY(rc);
        if (!rc || (e.id != ID_SEGMENT && e.end == UNKNOWN))
            return stk_fail(err, STK_ECORRUPT,
                            "the file has no segment: it is torn at byte %" PRIu64, at);
        if (e.id == ID_SEGMENT)
            break;
        at = e.end;
    }
    STK_TRY(take_segment(s, &e, err));
    if (!s->t->tracks)
        return stk_fail(err, STK_ECORRUPT, "the file has no %s track",
                        s->t->sound.wanted ? "sound" : "video");
    set_unit(s);
    return 0;
}

int stk_matroska_read_sound(stk_video_track *t, const stk_media_reader *read, stk_error *err)
{
    scan s = { .read = read, .t = t, .scale = 1000000, .ahead = WINDOW };

    stk_video_track_begin(t);
    t->field = read->size;
    t->sound.wanted = 1;
    STK_TRY(read_track(&s, err));
    t->sound.pad_ns = s.padding_ns < 1000000000 ? s.padding_ns : 0;
    t->sound.first_us = t->n ? (int64_t)((double)t->frame[0].time * t->num / t->den * 1e6) : 0;
    return stk_sound_track_end(t, err);
}

int stk_matroska_read(stk_video_track *t, const stk_media_reader *read, stk_error *err)
{
    scan s = { .read = read, .t = t, .scale = 1000000, .ahead = WINDOW };

    stk_video_track_begin(t);
    t->field = read->size;
    STK_TRY(read_track(&s, err));
    if (s.default_ns && t->num)
        t->last_len = (int64_t)(s.default_ns / (s.scale ? s.scale : 1));
    return stk_video_track_end(t, err);
}
