/* SPDX-License-Identifier: Apache-2.0 */
/* mp4_fragment.c - fragments of an MP4 file: moof > traf > tfhd, tfdt, trun.
 *
 * Places count from what tfhd says: a place in the file, or the moof.  Where it says nothing, those
 * of the first track count from the moof, those of each later one from the end of the data of the
 * track before it: so the runs of other tracks are added up too. */
#include "video/mp4.h"

#define NOWHERE UINT64_MAX /* after runs whose sizes are not known */

typedef struct traf {
    stk_mp4_defaults def;
    uint64_t moof;
    uint64_t base; /* that places count from */
    uint64_t end;  /* of the run before */
    uint64_t dts;
    int ours;
} traf;

static int torn(const stk_mp4 *m, const stk_mp4_in *in, const char *box, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "track %u: a damaged %s box at byte %" PRIu64, m->t->number,
                    box, in->at);
}

static void take_tfhd(const stk_mp4 *m, stk_mp4_in in, traf *f)
{
    uint32_t flags, track;

    stk_mp4_version(&in, &flags);
    track = (uint32_t)stk_mp4_be(&in, 4);
    f->ours = track == m->t->number;
    if (!f->ours)
        f->def = stk_mp4_defaults_of(m, track);
    if (flags & 1)
        f->base = stk_mp4_be(&in, 8);
    else if (flags & 0x20000)
        f->base = f->moof;
    f->end = f->base;
    if (flags & 2)
        stk_mp4_be(&in, 4);
    if (flags & 8)
        f->def.duration = (uint32_t)stk_mp4_be(&in, 4);
    if (flags & 16)
        f->def.size = (uint32_t)stk_mp4_be(&in, 4);
    if (flags & 32)
        f->def.flags = (uint32_t)stk_mp4_be(&in, 4);
    f->ours = f->ours && !in.bad;
}

#define NOT_SYNC 0x10000u
#define DEPENDS 0x1000000u

/* Where a run's data begin.  NOWHERE: after runs whose sizes are not known. */
static uint64_t place_of(stk_mp4_in *in, uint32_t flags, const traf *f)
{
    int64_t by;

    if (!(flags & 1))
        return f->end;
    by = (int32_t)stk_mp4_be(in, 4);
    return f->base == NOWHERE ? NOWHERE : f->base + (uint64_t)by;
}

/* Of another track: only where its data end. */
static void pass_run(const stk_mp4 *m, stk_mp4_in in, traf *f)
{
    uint32_t flags, count, before, after;

    stk_mp4_version(&in, &flags);
    count = (uint32_t)stk_mp4_be(&in, 4);
    f->end = place_of(&in, flags, f);
    if (flags & 4)
        stk_mp4_be(&in, 4);
    before = flags & 0x100 ? 4 : 0;
    after = 4u * (uint32_t)__builtin_popcount(flags & 0xc00);
    if (!(flags & 0x200) && count && f->end <= m->field)
        f->end = f->def.size && count <= m->field / f->def.size
                     ? f->end + (uint64_t)count * f->def.size
                     : NOWHERE;
    for (uint32_t i = 0; flags & 0x200 && i < count && !in.bad && f->end <= m->field; i++) {
        stk_mp4_skip(&in, before);
        f->end += stk_mp4_be(&in, 4);
        stk_mp4_skip(&in, after);
    }
    if (in.bad || f->end > m->field)
        f->end = NOWHERE;
}

static int take_run(stk_mp4 *m, stk_mp4_in in, traf *f, stk_error *err)
{
    uint32_t flags, first = 0, entry, count;
    uint32_t version = stk_mp4_version(&in, &flags);
    uint64_t place;

    (void)version; /* offsets are taken as signed in both */
    count = (uint32_t)stk_mp4_be(&in, 4);
    place = place_of(&in, flags, f);
    if (flags & 4)
        first = (uint32_t)stk_mp4_be(&in, 4);
    entry = 4u * (uint32_t)__builtin_popcount(flags & 0xf00);
    if (in.bad || place > m->field || (uint64_t)count * entry > (uint64_t)(in.end - in.p) ||
        (!(flags & 0x200) && !f->def.size && count))
        return torn(m, &in, "trun", err);
    if (!(flags & 0x200) && count && count > m->field / f->def.size)
        return torn(m, &in, "trun", err); /* more than the file has */
    STK_TRY(stk_video_track_reserve(m->t, (uint64_t)m->t->n + count, err));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = flags & 0x100 ? (uint32_t)stk_mp4_be(&in, 4) : f->def.duration;
        uint32_t size = flags & 0x200 ? (uint32_t)stk_mp4_be(&in, 4) : f->def.size;
        uint32_t kind = flags & 0x400         ? (uint32_t)stk_mp4_be(&in, 4)
                        : flags & 4 && i == 0 ? first
                                              : f->def.flags;
        int64_t late = flags & 0x800 ? (int32_t)stk_mp4_be(&in, 4) : 0;
        const stk_video_frame one = { .at = place,
                                      .time = (int64_t)f->dts + late,
                                      .size = size,
                                      .flags = kind & (NOT_SYNC | DEPENDS) ? 0 : STK_FRAME_KEY };

        STK_TRY(stk_video_track_add(m->t, &one, err));
        place += size;
        f->dts += len;
        m->t->last_len = len;
    }
    f->end = place;
    return 0;
}

static int take_traf(stk_mp4 *m, stk_mp4_in in, traf *f, stk_error *err)
{
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b)) {
        if (b.type == STK_BOX('t', 'f', 'h', 'd'))
            take_tfhd(m, b.in, f);
        if (f->ours && b.type == STK_BOX('t', 'f', 'd', 't')) {
            uint32_t version = stk_mp4_version(&b.in, NULL);

            f->dts = stk_mp4_be(&b.in, version ? 8 : 4);
            if (f->dts > INT64_MAX / 8)
                return torn(m, &b.in, "tfdt", err);
        }
        if (f->ours && b.type == STK_BOX('t', 'r', 'u', 'n'))
            STK_TRY(take_run(m, b.in, f, err));
        if (!f->ours && b.type == STK_BOX('t', 'r', 'u', 'n'))
            pass_run(m, b.in, f);
    }
    return in.bad ? torn(m, &in, "traf", err) : 0;
}

int stk_mp4_fragment(stk_mp4 *m, stk_mp4_in in, uint64_t at, stk_error *err)
{
    uint64_t end = at;
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b)) {
        traf f = { .def = m->trex, .moof = at, .base = end, .end = end, .dts = m->next_dts };

        if (b.type != STK_BOX('t', 'r', 'a', 'f'))
            continue;
        STK_TRY(take_traf(m, b.in, &f, err));
        end = f.end;
        if (f.ours)
            m->next_dts = f.dts;
    }
    return in.bad ? torn(m, &in, "moof", err) : 0;
}
