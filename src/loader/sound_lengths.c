/* SPDX-License-Identifier: Apache-2.0 */
/* sound_lengths.c - how many seconds of sound every sample has at most, by the durations in
 * HASH.media and the steps of its chain: parts cut, speed() and pad_to() stretch.  No recording is
 * read.  Of a video HASH.media has the pictures: its points say how long the sound beside them is.
 */
#include <string.h>

#include "codec/decoders.h"
#include "column/media_sizes.h"
#include "loader/lengths.h"
#include "video/packet_points.h"
#include "video/video.h"

typedef struct adding { /* the durations of an output to those of the samples of a data set */
    const stk_schedule *s;
    const stk_chain *c;
    uint32_t *seconds;
    uint64_t first;             /* the number of the data set's first sample */
    const stk_binding *binding; /* of the output, by schema: which field it is */
    const char *name;           /* of the output */
} adding;

typedef struct beside { /* what says how long sound beside videos is */
    stk_dataset *ds;
    stk_decoders decoders;
    stk_seek_room room;
} beside;

/* Seconds of the sound beside a video; 0: there is none that is known. */
static int beside_video(beside *b, const adding *a, uint64_t id, double *out, stk_error *err)
{
    stk_media_points all = { 0 };
    const stk_decoder *decoder;
    stk_sound_within within;
    stk_packet_points p;
    stk_seek_field at;
    stk_entry e;
    void *ctx;

    *out = 0;
    STK_TRY(b->ds->ops->entry(b->ds, id, &e, err));
    at = (stk_seek_field){ e.shard, e.row, a->binding[e.schema].field };
    if (b->ds->can & STK_DATA_HINTS)
        all.head = b->ds->ops->hint(b->ds, &at, &b->room);
    if (!all.head.len)
        return stk_fail(err, STK_ENOTSUP,
                        "output %s is the sound of videos, and the index does not know how long it "
                        "is: run `stoker index --points`, or give lengths=",
                        a->name);
    if (!b->decoders.ctx)
        STK_TRY(stk_decoders_init(&b->decoders, NULL, err));
    if (stk_decoders_of_points(&b->decoders, all.head, &decoder, &ctx, NULL) == 0 &&
        stk_video_is(decoder) && stk_video_points_sound(&within, &all) &&
        stk_packet_points_open(&p, &within.points, NULL) == 0)
        *out = (double)p.units / p.rate;
    return 0;
}

/* A sample without a record is bad when it is made; until then it counts little. */
static int recorded(beside *b, const adding *a, const stk_media_rec *r, uint64_t id, double *out,
                    stk_error *err)
{
    if (r->kind == STK_VIDEO + 1)
        return beside_video(b, a, id, out, err);
    *out = r->kind == STK_SOUND + 1 && r->rate ? (double)r->units / r->rate : 0;
    return 0;
}

/* The longest of a sample's outputs counts. */
static void add(const adding *a, uint64_t i, double seconds, uint64_t sample)
{
    uint32_t cost = 1;

    if (seconds > 0)
        cost = stk_schedule_seconds(a->s, stk_chain_seconds(a->c, seconds, sample));
    a->seconds[i] = cost > a->seconds[i] ? cost : a->seconds[i];
}

static int add_recorded(const adding *a, stk_dataset *ds, const stk_mediafile *m, stk_error *err)
{
    stk_media_column field[STK_BOUND_NAMES];
    const char *name[STK_BOUND_NAMES];
    uint32_t names = stk_chain_names(a->c, a->binding, ds, name);
    beside b = { .ds = ds };
    stk_shard_info s;
    int rc = 0;

    for (uint64_t shard = 0; rc == 0 && shard < stk_dataset_shards(ds); shard++) {
        rc = ds->ops->shard(ds, shard, &s, err);
        for (uint32_t f = 0; rc == 0 && f < names; f++)
            field[f] = stk_mediafile_column(m, shard, name[f]);
        for (uint64_t i = 0; rc == 0 && i < s.samples; i++) {
            stk_media_rec r = { 0 };
            double seconds;

            for (uint32_t f = 0; f < names && !r.kind; f++)
                r = stk_media_at(&field[f], i);
            rc = recorded(&b, a, &r, s.first + i, &seconds, err);
            if (rc == 0)
                add(a, s.first + i, seconds, a->first + s.first + i);
        }
    }
    stk_decoders_fini(&b.decoders);
    stk_seek_room_fini(&b.room);
    return rc;
}

static int add_output(const adding *a, const stk_plan *so_far, uint32_t d,
                      const stk_loader_options *o, stk_error *err)
{
    const stk_media_making how = { .workers = o->num_workers > 0 ? (uint32_t)o->num_workers : 0 };
    uint64_t first = a->s->start[d], n = a->s->start[d + 1] - first;
    const stk_mediafile *m;

    for (uint64_t i = 0; o->lengths && i < n; i++)
        add(a, i, (double)o->lengths[first + i] / STK_SECOND, UINT64_MAX);
    if (o->lengths)
        return 0;
    if (a->c->field.open_root || a->c->extracts || a->c->field.columns)
        return stk_fail(err, STK_ENOTSUP,
                        "output %s: the index does not know how long the recordings are that its "
                        "chain opens or unpacks: give lengths=, their seconds or the field that "
                        "has them",
                        a->name);
    STK_TRY(stk_media_sizes(so_far->data.set[d], &how, &m, err));
    return add_recorded(a, so_far->data.set[d], m, err);
}

static int check(const stk_schedule *s, const stk_plan_chains *c, const stk_loader_options *o,
                 uint32_t *timed, stk_error *err)
{
    uint64_t n = s->start[s->n_data];

    *timed = 0;
    for (uint32_t i = 0; i < c->n_out; i++)
        *timed += (uint32_t)c->chain[i].timed;
    if (!*timed && o->max_seconds > 0)
        return stk_fail(err, STK_EINVAL,
                        "max_seconds counts sound, and no output has any: begin a chain with "
                        "`sound`, or take max_tokens");
    if (*timed && o->lengths && o->n_lengths != n)
        return stk_fail(err, STK_EINVAL,
                        "lengths has %" PRIu64 " entries and the data %" PRIu64
                        " samples: give one for each",
                        o->n_lengths, n);
    return 0;
}

int stk_seconds_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    uint64_t n = s->start[s->n_data];
    uint32_t timed;

    STK_TRY(check(s, c, in->o, &timed, err));
    if (!timed)
        return 0;
    s->quadratic = in->o->quadratic_duration;
    s->seconds = stk_zalloc(n + 1, sizeof *s->seconds);
    if (!s->seconds)
        return stk_fail_nomem(err, n * sizeof *s->seconds);
    for (uint32_t i = 0; i < c->n_out; i++)
        for (uint32_t d = 0; c->chain[i].timed && d < so_far->data.n; d++)
            STK_TRY(add_output(&(adding){ s, &c->chain[i], s->seconds + s->start[d], s->start[d],
                                          c->binding[d][i], c->out[i].name },
                               so_far, d, in->o, err));
    return 0;
}
