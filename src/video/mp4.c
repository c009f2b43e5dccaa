/* SPDX-License-Identifier: Apache-2.0 */
/* mp4.c - MP4, MOV and M4V: where the packets of a file's first video track are, and when their
 * frames are shown.
 *
 * The top level is walked box by box, so that of a file with one moov only the heads of boxes and
 * the moov are read.  The tables of the moov (stsz, stsc, stco, stts, ctts, stss) are turned into
 * one table of frames; fragments add to it (mp4_fragment.c); edit lists turn its times into show
 * times (mp4_edit.c).  A table that claims more than its bytes can hold is refused before memory is
 * taken for it.  A frame whose packet is past the end of the file stays in the table: it is an
 * error when it is wanted. */
#include "video/mp4.h"
#include "video/sound_track.h"

#include <string.h>

#define TOP_BOXES (1u << 20)

typedef struct tables { /* of one track; no data: there is none */
    stk_mp4_in tkhd, mdhd, elst, stsd, stts, ctts, stsc, stsz, stz2, stco, co64, stss;
    uint32_t handler;
} tables;

int stk_mp4_probe(stk_bytes head)
{
    static const char *const pictures[] = { "avif", "avis", "heic", "heix", "mif1", "msf1" };
    static const char *const first[] = { "moov", "mdat", "wide", "free", "skip", "styp" };

    if (head.len < 12)
        return 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (!memcmp(head.data + 4, first[i], 4) && !head.data[0])
            return 1;
    if (memcmp(head.data + 4, "ftyp", 4) != 0)
        return 0;
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        if (!memcmp(head.data + 8, pictures[i], 4))
            return 0;
    return 1;
}

static int torn(const stk_mp4 *m, const stk_mp4_in *in, const char *box, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "track %u: a damaged %s box at byte %" PRIu64, m->t->number,
                    box, in->at);
}

/* ---- the tables of a track ---- */

/* Box by box, through those that only hold others. */
static void collect(stk_mp4_in in, tables *out, int depth)
{
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b))
        switch (b.type) {
        case STK_BOX('m', 'd', 'i', 'a'):
        case STK_BOX('m', 'i', 'n', 'f'):
        case STK_BOX('s', 't', 'b', 'l'):
        case STK_BOX('e', 'd', 't', 's'):
            if (depth < 8)
                collect(b.in, out, depth + 1);
            break;
        case STK_BOX('h', 'd', 'l', 'r'):
            if (!out->handler) {
                stk_mp4_skip(&b.in, 8);
                out->handler = (uint32_t)stk_mp4_be(&b.in, 4);
            }
            break;
#define KEEP(a, b_, c, d, name)                                                                    \
    case STK_BOX(a, b_, c, d): out->name = b.in; break
            KEEP('t', 'k', 'h', 'd', tkhd);
            KEEP('m', 'd', 'h', 'd', mdhd);
            KEEP('e', 'l', 's', 't', elst);
            KEEP('s', 't', 's', 'd', stsd);
            KEEP('s', 't', 't', 's', stts);
            KEEP('c', 't', 't', 's', ctts);
            KEEP('s', 't', 's', 'c', stsc);
            KEEP('s', 't', 's', 'z', stsz);
            KEEP('s', 't', 'z', '2', stz2);
            KEEP('s', 't', 'c', 'o', stco);
            KEEP('c', 'o', '6', '4', co64);
            KEEP('s', 't', 's', 's', stss);
#undef KEEP
        default: break;
        }
}

/* The four numbers of a matrix that turn a picture, of 1/65536. */
static void take_matrix(stk_mp4_in in, int32_t m[4])
{
    int32_t all[9];

    for (int i = 0; i < 9; i++)
        all[i] = (int32_t)stk_mp4_be(&in, 4);
    for (int i = 0; i < 4; i++)
        m[i] = in.bad ? (i % 3 == 0) * 65536 : all[i / 2 * 3 + i % 2];
}

/* EXIF's number of the turn that the matrix of the track, and then that of the movie, ask for;
 * others than right angles are left out. */
static uint32_t turn_of(const int32_t track[4], const int32_t movie[4])
{
    static const struct {
        int8_t m[4];
        uint8_t turn;
    } all[] = { { { 1, 0, 0, 1 }, 1 },   { { -1, 0, 0, 1 }, 2 }, { { -1, 0, 0, -1 }, 3 },
                { { 1, 0, 0, -1 }, 4 },  { { 0, 1, 1, 0 }, 5 },  { { 0, 1, -1, 0 }, 6 },
                { { 0, -1, -1, 0 }, 7 }, { { 0, -1, 1, 0 }, 8 } };
    int64_t m[4];

    for (int i = 0; i < 4; i++)
        m[i] = ((int64_t)track[i & 2] * movie[i & 1] >> 16) +
               ((int64_t)track[(i & 2) + 1] * movie[(i & 1) + 2] >> 16);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (m[0] == all[i].m[0] * 65536 && m[1] == all[i].m[1] * 65536 &&
            m[2] == all[i].m[2] * 65536 && m[3] == all[i].m[3] * 65536)
            return all[i].turn;
    return 1;
}

static int take_heads(stk_mp4 *m, const tables *b, stk_error *err)
{
    stk_mp4_in in = b->tkhd;
    uint32_t version = stk_mp4_version(&in, NULL);
    int32_t matrix[4];

    stk_mp4_skip(&in, version ? 16 : 8);
    m->t->number = (uint32_t)stk_mp4_be(&in, 4);
    stk_mp4_skip(&in, (version ? 12 : 8) + 16);
    if (!b->tkhd.p || in.bad)
        return torn(m, &in, "tkhd", err);
    take_matrix(in, matrix);
    m->t->turn = turn_of(matrix, m->matrix);
    in = b->mdhd;
    version = stk_mp4_version(&in, NULL);
    stk_mp4_skip(&in, version ? 16 : 8);
    m->t->den = (uint32_t)stk_mp4_be(&in, 4);
    return !b->mdhd.p || in.bad || !m->t->den ? torn(m, &in, "mdhd", err) : 0;
}

static int take_elst(stk_mp4 *m, stk_mp4_in in, stk_error *err)
{
    uint32_t version = stk_mp4_version(&in, NULL), n = (uint32_t)stk_mp4_be(&in, 4);

    if (!in.p || in.bad)
        return 0;
    if (n > STK_MP4_EDITS)
        return stk_fail(err, STK_ELIMIT, "track %u: an edit list of %u edits, over the limit of %u",
                        m->t->number, n, STK_MP4_EDITS);
    for (uint32_t i = 0; i < n; i++) {
        stk_mp4_edit *e = &m->edit[i];

        e->len = stk_mp4_be(&in, version ? 8 : 4);
        e->from = version ? (int64_t)stk_mp4_be(&in, 8) : (int32_t)stk_mp4_be(&in, 4);
        e->rate = (uint32_t)stk_mp4_be(&in, 4);
    }
    m->n_edits = n;
    return in.bad ? torn(m, &in, "elst", err) : 0;
}

/* ---- frames ---- */

/* Sizes, and so how many frames there are. */
static int take_sizes(stk_mp4 *m, const tables *b, stk_error *err)
{
    stk_mp4_in in = b->stsz.p ? b->stsz : b->stz2;
    uint32_t size, n, bits = 32;

    stk_mp4_version(&in, NULL);
    size = (uint32_t)stk_mp4_be(&in, 4);
    n = (uint32_t)stk_mp4_be(&in, 4);
    if (!b->stsz.p)
        bits = size & 255, size = 0;
    if (in.bad || (bits != 32 && bits != 16 && bits != 8) ||
        (size ? n > m->field / size : (uint64_t)n * bits / 8 > (uint64_t)(in.end - in.p)))
        return torn(m, &in, b->stsz.p ? "stsz" : "stz2", err);
    STK_TRY(stk_video_track_reserve(m->t, n, err));
    for (uint32_t i = 0; i < n; i++)
        m->t->frame[i] = (stk_video_frame){ .size = size ? size
                                                         : (uint32_t)stk_mp4_be(&in, bits / 8),
                                            .flags = b->stss.p ? 0 : STK_FRAME_KEY };
    m->t->n = n;
    return 0;
}

/* A chunk's frames follow each other.  stsc says how many each has, in runs of chunks. */
static int take_places(stk_mp4 *m, const tables *b, stk_error *err)
{
    stk_mp4_in in = b->stsc, off = b->co64.p ? b->co64 : b->stco;
    uint32_t wide = b->co64.p ? 8 : 4, runs, chunks, per = 0, kind = 1, next = 0, frame = 0;

    stk_mp4_version(&in, NULL);
    runs = (uint32_t)stk_mp4_be(&in, 4);
    stk_mp4_version(&off, NULL);
    chunks = (uint32_t)stk_mp4_be(&off, 4);
    if (!off.p || off.bad || (uint64_t)chunks * wide > (uint64_t)(off.end - off.p))
        return torn(m, &off, b->co64.p ? "co64" : "stco", err);
    if (!in.p || in.bad || (uint64_t)runs * 12 > (uint64_t)(in.end - in.p))
        return torn(m, &in, "stsc", err);
    next = runs ? (uint32_t)stk_mp4_be(&in, 4) : 0;
    for (uint32_t c = 1; c <= chunks && frame < m->t->n; c++) {
        uint64_t at = stk_mp4_be(&off, wide);

        if (c == next && runs) {
            per = (uint32_t)stk_mp4_be(&in, 4);
            kind = (uint32_t)stk_mp4_be(&in, 4);
            next = --runs ? (uint32_t)stk_mp4_be(&in, 4) : 0;
        }
        if (kind > 1 && per)
            return stk_fail(err, STK_ENOTSUP,
                            "track %u: its codec changes inside the file (sample entry %u)",
                            m->t->number, kind);
        for (uint32_t i = 0; i < per && frame < m->t->n; i++, frame++) {
            m->t->frame[frame].at = at;
            at += m->t->frame[frame].size;
        }
    }
    return frame < m->t->n ? torn(m, &off, "stsc or stco", err) : 0;
}

/* stts: when each is decoded; ctts: how much later it is shown. */
static int take_times(stk_mp4 *m, const tables *b, stk_error *err)
{
    stk_mp4_in in = b->stts;
    uint64_t dts = 0;
    uint32_t runs, frame = 0;

    stk_mp4_version(&in, NULL);
    runs = (uint32_t)stk_mp4_be(&in, 4);
    for (uint32_t r = 0; r < runs && !in.bad && frame < m->t->n; r++) {
        uint32_t n = (uint32_t)stk_mp4_be(&in, 4), len = (uint32_t)stk_mp4_be(&in, 4);

        for (; n && frame < m->t->n; n--, frame++, dts += len)
            m->t->frame[frame].time = (int64_t)dts;
        m->t->last_len = len;
    }
    if (!b->stts.p || frame < m->t->n)
        return torn(m, &in, "stts", err);
    if (!b->ctts.p)
        return 0;
    in = b->ctts;
    frame = 0;
    stk_mp4_version(&in, NULL);
    runs = (uint32_t)stk_mp4_be(&in, 4);
    for (uint32_t r = 0; r < runs && !in.bad && frame < m->t->n; r++) {
        uint32_t n = (uint32_t)stk_mp4_be(&in, 4);
        int32_t late = (int32_t)stk_mp4_be(&in, 4);

        for (; n && frame < m->t->n; n--, frame++)
            m->t->frame[frame].time += late;
    }
    return frame < m->t->n ? torn(m, &in, "ctts", err) : 0;
}

static int take_keys(stk_mp4 *m, stk_mp4_in in, stk_error *err)
{
    uint32_t n;

    if (!in.p)
        return 0;
    stk_mp4_version(&in, NULL);
    n = (uint32_t)stk_mp4_be(&in, 4);
    if (in.bad || (uint64_t)n * 4 > (uint64_t)(in.end - in.p))
        return torn(m, &in, "stss", err);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = (uint32_t)stk_mp4_be(&in, 4);

        if (!number || number > m->t->n)
            return torn(m, &in, "stss", err);
        m->t->frame[number - 1].flags |= STK_FRAME_KEY;
    }
    return 0;
}

static int take_track(stk_mp4 *m, const tables *b, stk_error *err)
{
    STK_TRY(take_heads(m, b, err));
    if (!b->stsd.p)
        return torn(m, &b->mdhd, "stbl", err);
    STK_TRY((m->t->sound.wanted ? stk_mp4_sound_entry : stk_mp4_entry)(m->t, b->stsd, err));
    STK_TRY(take_elst(m, b->elst, err));
    if (!b->stsz.p && !b->stz2.p)
        return m->fragmented ? 0 : torn(m, &b->stsd, "stsz", err);
    STK_TRY(take_sizes(m, b, err));
    if (!m->t->n)
        return 0;
    STK_TRY(take_places(m, b, err));
    STK_TRY(take_times(m, b, err));
    return take_keys(m, b->stss, err);
}

/* ---- the file ---- */

static void take_trex(stk_mp4 *m, stk_mp4_in in)
{
    stk_mp4_box b;

    m->fragmented = 1;
    while (stk_mp4_next(&in, &b)) {
        stk_mp4_defaults one;
        uint32_t track;

        if (b.type != STK_BOX('t', 'r', 'e', 'x'))
            continue;
        stk_mp4_version(&b.in, NULL);
        track = (uint32_t)stk_mp4_be(&b.in, 4);
        stk_mp4_be(&b.in, 4);
        one.duration = (uint32_t)stk_mp4_be(&b.in, 4);
        one.size = (uint32_t)stk_mp4_be(&b.in, 4);
        one.flags = (uint32_t)stk_mp4_be(&b.in, 4);
        if (track == m->t->number) {
            m->trex = one;
        } else if (m->n_others < STK_MP4_OTHERS) {
            m->other[m->n_others].track = track;
            m->other[m->n_others++].size = one.size;
        }
    }
}

stk_mp4_defaults stk_mp4_defaults_of(const stk_mp4 *m, uint32_t track)
{
    for (uint32_t i = 0; i < m->n_others; i++)
        if (m->other[i].track == track)
            return (stk_mp4_defaults){ .size = m->other[i].size };
    return (stk_mp4_defaults){ 0 };
}

static int take_moov(stk_mp4 *m, stk_mp4_in all, stk_error *err)
{
    uint32_t kind = m->t->sound.wanted ? STK_BOX('s', 'o', 'u', 'n') : STK_BOX('v', 'i', 'd', 'e');
    stk_mp4_in in = all;
    tables found = { 0 };
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b)) {
        tables one = { 0 };

        if (b.type == STK_BOX('m', 'v', 'h', 'd')) {
            uint32_t version = stk_mp4_version(&b.in, NULL);

            stk_mp4_skip(&b.in, version ? 16 : 8);
            m->movie_scale = (uint32_t)stk_mp4_be(&b.in, 4);
            stk_mp4_skip(&b.in, (version ? 8 : 4) + 16); /* its length, rate and volume */
            take_matrix(b.in, m->matrix);
        }
        if (b.type == STK_BOX('m', 'v', 'e', 'x'))
            m->fragmented = 1;
        if (b.type != STK_BOX('t', 'r', 'a', 'k'))
            continue;
        collect(b.in, &one, 0);
        if (one.handler == kind && !m->t->tracks++)
            found = one;
    }
    if (in.bad)
        return torn(m, &in, "moov", err);
    if (!m->t->tracks)
        return stk_fail(err, STK_ECORRUPT, "the file has no %s track",
                        m->t->sound.wanted ? "sound" : "video");
    STK_TRY(take_track(m, &found, err));
    m->next_dts = 0;
    for (uint32_t i = 0; i < m->t->n; i++)
        m->next_dts += (uint64_t)m->t->last_len;
    for (in = all; stk_mp4_next(&in, &b);)
        if (b.type == STK_BOX('m', 'v', 'e', 'x'))
            take_trex(m, b.in);
    return 0;
}

typedef struct top { /* a box of the file itself */
    uint32_t type;
    uint64_t at, head, size;
} top;

/* 1: there is one at `at`; 0: the file ends. */
static int next_top(const stk_mp4 *m, const stk_media_reader *read, uint64_t at, top *out,
                    stk_error *err)
{
    stk_mp4_in in;
    stk_bytes head;

    if (at >= m->field || m->field - at < 8)
        return 0;
    STK_TRY(read->read(read->cookie, at, (size_t)(m->field - at < 16 ? m->field - at : 16), &head,
                       err));
    in = (stk_mp4_in){ head.data, head.data + head.len, at, 0 };
    out->at = at;
    out->size = stk_mp4_be(&in, 4);
    out->type = (uint32_t)stk_mp4_be(&in, 4);
    if (out->size == 1)
        out->size = stk_mp4_be(&in, 8);
    else if (!out->size)
        out->size = m->field - at;
    out->head = in.at - at;
    return !in.bad && out->size >= out->head ? 1 : 0; /* what is not a box ends the file */
}

static int take_box(stk_mp4 *m, const stk_media_reader *read, const top *b, int *has_moov,
                    stk_error *err)
{
    int moov = b->type == STK_BOX('m', 'o', 'o', 'v');
    stk_bytes body;
    stk_mp4_in in;

    if (moov ? *has_moov : b->type != STK_BOX('m', 'o', 'o', 'f') || !*has_moov || !m->fragmented)
        return 0;
    if (b->size > m->field - b->at)
        return moov ? stk_fail(err, STK_ECORRUPT,
                               "the file is torn: its moov box at byte %" PRIu64 " has %" PRIu64
                               " bytes, the file ends after %" PRIu64,
                               b->at, b->size, m->field - b->at)
                    : 0; /* fragments before it can be used */
    if (b->size > STK_VIDEO_TABLES)
        return stk_fail(err, STK_ELIMIT,
                        "a box of %" PRIu64 " bytes of tables at byte %" PRIu64
                        ", over the limit of %u",
                        b->size, b->at, STK_VIDEO_TABLES);
    STK_TRY(read->read(read->cookie, b->at + b->head, (size_t)(b->size - b->head), &body, err));
    in = (stk_mp4_in){ body.data, body.data + body.len, b->at + b->head, 0 };
    *has_moov |= moov;
    return moov ? take_moov(m, in, err) : stk_mp4_fragment(m, in, b->at, err);
}

/* All frames of the first track that is wanted, without edits. */
static int read_track(stk_mp4 *m, const stk_media_reader *read, stk_error *err)
{
    int has_moov = 0, rc = 1;
    top b = { 0 };

    for (uint32_t i = 0; rc == 1; i++) {
        rc = i < TOP_BOXES ? next_top(m, read, b.at + b.size, &b, err)
                           : stk_fail(err, STK_ELIMIT, "the file has more than %u boxes", i);
        if (rc == 1) {
            STK_TRY(take_box(m, read, &b, &has_moov, err));
            if (has_moov && !m->fragmented)
                break;
            if (b.size > m->field - b.at)
                break; /* torn */
        }
    }
    STK_TRY(rc < 0 ? rc : 0);
    if (!has_moov)
        return stk_fail(err, STK_ECORRUPT,
                        "the file has no moov box in its %" PRIu64
                        " bytes: it is torn, or was not closed when it was written",
                        m->field);
    return 0;
}

int stk_mp4_read(stk_video_track *t, const stk_media_reader *read, stk_error *err)
{
    stk_mp4 m = { .t = t, .field = read->size, .movie_scale = 1, .matrix = { 65536, 0, 0, 65536 } };

    stk_video_track_begin(t);
    t->field = read->size;
    STK_TRY(read_track(&m, read, err));
    STK_TRY(stk_mp4_edits(&m, err));
    return stk_video_track_end(t, err);
}

int stk_mp4_read_sound(stk_video_track *t, const stk_media_reader *read, stk_error *err)
{
    stk_mp4 m = { .t = t, .field = read->size, .movie_scale = 1, .matrix = { 65536, 0, 0, 65536 } };

    stk_video_track_begin(t);
    t->field = read->size;
    t->sound.wanted = 1;
    STK_TRY(read_track(&m, read, err));
    STK_TRY(stk_mp4_sound_edits(&m, err));
    return stk_sound_track_end(t, err);
}
