/* SPDX-License-Identifier: Apache-2.0 */
/* mp4_sound.c - the sample entry of a sound track, and what its edit list leaves of its samples: an
 * encoder's delay is before the edit, its padding after it. */
#include <math.h>

#include <string.h>

#include "video/mp4.h"
#include "video/sound_track.h"

static const struct {
    uint32_t type, setup;
    stk_sound_coding coding;
} entries[] = {
    { STK_BOX('m', 'p', '4', 'a'), STK_BOX('e', 's', 'd', 's'), STK_CODING_AAC },
    { STK_BOX('.', 'm', 'p', '3'), 0, STK_CODING_MP3 },
    { STK_BOX('a', 'c', '-', '3'), 0, STK_CODING_AC3 },
    { STK_BOX('e', 'c', '-', '3'), 0, STK_CODING_EAC3 },
    { STK_BOX('a', 'l', 'a', 'c'), STK_BOX('a', 'l', 'a', 'c'), STK_CODING_ALAC },
    { STK_BOX('f', 'L', 'a', 'C'), STK_BOX('d', 'f', 'L', 'a'), STK_CODING_FLAC },
    { STK_BOX('O', 'p', 'u', 's'), STK_BOX('d', 'O', 'p', 's'), STK_CODING_OPUS },
};
#define ENTRIES (sizeof entries / sizeof *entries)

static int torn(const stk_video_track *t, const stk_mp4_in *in, const char *box, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "track %u: a damaged %s box at byte %" PRIu64, t->number,
                    box, in->at);
}

/* ES_Descriptor > DecoderConfigDescriptor > DecoderSpecificInfo. */
static int take_esds(stk_video_track *t, stk_mp4_in in, stk_error *err)
{
    uint8_t tag, flags, type;
    uint32_t len;

    stk_mp4_version(&in, NULL);
    stk_mp4_descriptor(&in, &tag);
    if (tag == 3) {
        stk_mp4_be(&in, 2);
        flags = (uint8_t)stk_mp4_be(&in, 1);
        stk_mp4_skip(&in, (flags & 128 ? 2 : 0) + (flags & 32 ? 2 : 0));
        if (flags & 64)
            stk_mp4_skip(&in, stk_mp4_be(&in, 1));
        stk_mp4_descriptor(&in, &tag);
    }
    if (tag != 4 || in.bad)
        return torn(t, &in, "esds", err);
    type = (uint8_t)stk_mp4_be(&in, 1);
    stk_mp4_skip(&in, 12);
    if (type == 0x69 || type == 0x6b)
        t->sound.coding = STK_CODING_MP3;
    else if (type == 0xa5 || type == 0xa6)
        t->sound.coding = type == 0xa5 ? STK_CODING_AC3 : STK_CODING_EAC3;
    else if (type != 0x40 && !(type >= 0x66 && type <= 0x68))
        return stk_fail(err, STK_ENOTSUP,
                        "track %u: mp4a of object type 0x%02x: AAC, MP3 and AC-3 are decoded",
                        t->number, type);
    len = stk_mp4_descriptor(&in, &tag);
    if (tag != 5 || in.bad)
        return t->sound.coding == STK_CODING_AAC ? torn(t, &in, "esds", err) : 0;
    if (len > (size_t)(in.end - in.p))
        return torn(t, &in, "esds", err);
    return stk_video_track_setup(t, (stk_bytes){ in.p, len }, err);
}

/* dOps has the numbers of an Ogg stream's first packet, most significant byte first. */
static int take_opus(stk_video_track *t, stk_mp4_in in, stk_error *err)
{
    uint8_t head[19 + 257] = "OpusHead\1";
    size_t left;

    if (in.end - in.p < 11)
        return torn(t, &in, "dOps", err);
    head[9] = in.p[1];
    head[10] = in.p[3];
    head[11] = in.p[2];
    for (int i = 0; i < 4; i++)
        head[12 + i] = in.p[7 - i];
    head[16] = in.p[9];
    head[17] = in.p[8];
    head[18] = in.p[10];
    left = (size_t)(in.end - in.p) - 11;
    left = left < 257 ? left : 257;
    memcpy(head + 19, in.p + 11, left);
    return stk_video_track_setup(t, (stk_bytes){ head, 19 + left }, err);
}

/* A box that holds the codec's setup. */
static int take_setup(stk_video_track *t, const stk_mp4_box *b, stk_error *err)
{
    const uint8_t *from = b->in.p;
    size_t len = (size_t)(b->in.end - b->in.p);

    switch (b->type) {
    case STK_BOX('e', 's', 'd', 's'): return take_esds(t, b->in, err);
    case STK_BOX('d', 'O', 'p', 's'): return take_opus(t, b->in, err);
    case STK_BOX('d', 'f', 'L', 'a'): /* version, the head of a block, STREAMINFO */
        if (len < 42 || (from[4] & 127) != 0)
            return torn(t, &b->in, "dfLa", err);
        return stk_video_track_setup(t, (stk_bytes){ from + 8, 34 }, err);
    default: /* alac: with its size and type, which are right before it */
        if (len != 28)
            return torn(t, &b->in, "alac", err);
        return stk_video_track_setup(t, (stk_bytes){ from - 8, 36 }, err);
    }
}

/* QuickTime has them inside `wave`. */
static int take_boxes(stk_video_track *t, stk_mp4_in in, uint32_t setup, int depth, stk_error *err)
{
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b)) {
        if (b.type == setup && (setup != STK_BOX('a', 'l', 'a', 'c') || b.in.end - b.in.p == 28))
            return take_setup(t, &b, err);
        if (b.type == STK_BOX('w', 'a', 'v', 'e') && !depth)
            STK_TRY(take_boxes(t, b.in, setup, 1, err));
    }
    return 0;
}

static void name_of(uint32_t type, char out[5])
{
    for (int i = 0; i < 4; i++) {
        uint8_t c = (uint8_t)(type >> (24 - 8 * i));

        out[i] = c >= 32 && c < 127 ? (char)c : '?';
    }
    out[4] = 0;
}

int stk_mp4_sound_entry(stk_video_track *t, stk_mp4_in in, stk_error *err)
{
    stk_mp4_box b;
    uint32_t version;

    stk_mp4_version(&in, NULL);
    stk_mp4_be(&in, 4);
    if (!stk_mp4_next(&in, &b) || b.in.end - b.in.p < 28)
        return torn(t, &in, "stsd", err);
    name_of(b.type, t->fourcc);
    stk_mp4_skip(&b.in, 8);
    version = (uint32_t)stk_mp4_be(&b.in, 2);
    stk_mp4_skip(&b.in, 18 + (version == 1 ? 16 : version == 2 ? 36 : 0));
    for (size_t i = 0; i < ENTRIES; i++)
        if (entries[i].type == b.type) {
            t->sound.coding = entries[i].coding;
            return take_boxes(t, b.in, entries[i].setup, 0, err);
        }
    if (b.type == STK_BOX('e', 'n', 'c', 'a'))
        return stk_fail(err, STK_ENOTSUP, "track %u: the sound is encrypted", t->number);
    return stk_fail(err, STK_ENOTSUP,
                    "track %u: the sound's codec is `%s`; AAC, MP3, AC-3, ALAC, FLAC and Opus are "
                    "decoded: re-encode it with the ffmpeg program",
                    t->number, t->fourcc);
}

/* What the packets' times say is exact; an edit's length counts in the movie's unit, which is
 * often a millisecond. */
static void keep_all(stk_mp4 *m, uint64_t said)
{
    stk_track_sound *s = &m->t->sound;
    uint64_t from = s->skip_den ? s->skip_num : 0, end;
    double ticks;

    if (!m->t->n || m->t->frame[m->t->n - 1].time < 0)
        return;
    end = (uint64_t)m->t->frame[m->t->n - 1].time + (uint64_t)m->t->last_len;
    end = end > from ? end - from : 0;
    ticks = (double)end / m->t->den * m->movie_scale;
    if (said && (ticks > (double)said + 1 || ticks < (double)said - 1)) {
        s->keep_num = said;
        s->keep_den = m->movie_scale;
    } else if (end) {
        s->keep_num = end;
        s->keep_den = m->t->den;
    }
}

int stk_mp4_sound_edits(stk_mp4 *m, stk_error *err)
{
    stk_track_sound *s = &m->t->sound;
    uint64_t said = 0;
    uint32_t shown = 0;
    double before = 0, first;

    for (uint32_t i = 0; i < m->n_edits; i++) {
        const stk_mp4_edit *e = &m->edit[i];

        if (e->from == -1) { /* nothing is heard */
            before += shown ? 0 : (double)e->len;
            continue;
        }
        if (++shown > 1 || e->from < -1 || e->rate != 0x10000)
            return stk_fail(err, STK_ENOTSUP,
                            "track %u: an edit list that cuts or repeats sound: write the file "
                            "again with the ffmpeg program",
                            m->t->number);
        s->skip_num = (uint64_t)e->from;
        s->skip_den = m->t->den;
        said = m->fragmented ? 0 : e->len;
    }
    keep_all(m, said);
    first = m->t->n ? (double)m->t->frame[0].time - (double)(s->skip_den ? s->skip_num : 0) : 0;
    before = before / m->movie_scale + (first > 0 ? first / m->t->den : 0);
    s->first_us = before < 1e9 ? (int64_t)floor(before * 1e6 + 0.5) : 0;
    return 0;
}
