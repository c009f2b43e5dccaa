/* SPDX-License-Identifier: Apache-2.0 */
/* sound_partner.c - the data set of sound_partner.h: a sample is read and decoded where it is
 * needed, and only the part that is mixed in is resampled.  Resamplers are shared by all workers:
 * those in use, and of the others the RATES that were used last. */
#include "op/sound_partner.h"

#include <assert.h>
#include <string.h>

#include <stoker/dataset.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "codec/sound_decoders.h"
#include "sound/resample.h"

#define RATES 8

typedef struct rate { /* a resampler */
    uint32_t from, to;
    uint32_t users;
    stk_rate_change *r;
    struct rate *next;
} rate;

struct stk_partners {
    const char *op;
    stk_dataset *data;
    char *field;    /* NULL: the first that is sound */
    stk_mutex lock; /* of what follows */
    rate *first;    /* rates, the one used last at first */
};

int stk_partners_open(stk_partners **out, const char *op, const stk_args *args, stk_error *err)
{
    const char *from = stk_args_str(args, "from"), *field = stk_args_str(args, "field");
    stk_partners *p = STK_NEW(stk_partners);
    int rc = 0;

    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    stk_mutex_init(&p->lock);
    p->op = op;
    if (!from || !*from)
        rc = stk_fail(err, STK_EINVAL, "%s: from names a data set of recordings", op);
    if (rc == 0)
        rc = stk_dataset_open(&p->data, &from, 1, NULL, err);
    if (rc == 0 && !stk_dataset_len(p->data))
        rc = stk_fail(err, STK_EINVAL, "%s: %s has no samples", op, from);
    if (rc == 0 && field && *field && !(p->field = stk_strdup(field)))
        rc = stk_fail_nomem(err, strlen(field) + 1);
    if (rc < 0)
        stk_partners_close(&p);
    *out = p;
    return rc;
}

/* Take *at out of its list. */
static rate *unlink_rate(rate **at)
{
    rate *r = *at;

    *at = r->next;
    return r;
}

static void close_rate(rate *r)
{
    stk_rate_change_close(&r->r);
    stk_free(r);
}

void stk_partners_close(stk_partners **p)
{
    if (*p) {
        while ((*p)->first) {
            assert(!(*p)->first->users); /* no worker is left */
            close_rate(unlink_rate(&(*p)->first));
        }
        stk_dataset_unref(&(*p)->data);
        stk_free((*p)->field);
        stk_mutex_destroy(&(*p)->lock);
    }
    stk_free(*p);
    *p = NULL;
}

/* Of resamplers that no worker uses, only the first RATES stay. */
static void drop_old_locked(stk_partners *p) STK_REQUIRES(p->lock)
{
    uint32_t unused = 0;

    for (rate **at = &p->first; *at;)
        if (!(*at)->users && ++unused > RATES)
            close_rate(unlink_rate(at));
        else
            at = &(*at)->next;
}

static int find_rate_locked(stk_partners *p, uint32_t from, uint32_t to, rate **out, stk_error *err)
    STK_REQUIRES(p->lock)
{
    rate **at = &p->first, *r;
    int rc = 0;

    while (*at && ((*at)->from != from || (*at)->to != to))
        at = &(*at)->next;
    r = *at ? unlink_rate(at) : STK_NEW(rate);
    if (!r)
        return stk_fail_nomem(err, sizeof *r);
    if (!r->r)
        rc = stk_rate_change_open(&r->r, from, to, STK_RESAMPLE_HQ, err);
    if (rc < 0) {
        close_rate(r);
        return rc;
    }
    r->from = from;
    r->to = to;
    r->users++;
    r->next = p->first;
    p->first = r;
    drop_old_locked(p);
    *out = r;
    return 0;
}

/* *out is in use until leave_rate(); NULL: the rates are the same. */
static int find_rate(stk_partners *p, uint32_t from, double to, rate **out, stk_error *err)
{
    int rc;

    *out = NULL;
    if (from == to)
        return 0;
    stk_mutex_lock(&p->lock);
    rc = find_rate_locked(p, from, (uint32_t)to, out, err);
    stk_mutex_unlock(&p->lock);
    return rc;
}

static void leave_rate(stk_partners *p, rate *r)
{
    if (!r)
        return;
    stk_mutex_lock(&p->lock);
    assert(r->users > 0);
    r->users--;
    drop_old_locked(p);
    stk_mutex_unlock(&p->lock);
}

/* ---- one of them ---- */

typedef struct recording {
    const stk_decoder *decoder;
    void *ctx;
    stk_bytes in;
    stk_media_info info;
    const stk_rate_change *change; /* to the wanted rate; NULL: it has that */
} recording;

/* Is this field the recording?  0, or STK_END; `why` says what is wrong with one that is sound. */
static int try_field(const stk_partners *p, stk_decoders *d, const char *name, recording *r,
                     stk_error *why)
{
    const stk_media_points none = { 0 };
    int rc;

    if (p->field && strcmp(name, p->field))
        return STK_END;
    rc = stk_decoders_find_sound(d, r->in, &r->decoder, &r->ctx, why);
    if (rc == 0)
        rc = r->decoder->header(r->ctx, r->in, &none, &r->info, why);
    return rc == 0 && (r->info.medium != STK_SOUND || !r->info.units) ? STK_END : rc;
}

static int find_recording(const stk_partners *p, stk_decoders *d, const stk_sample *s, recording *r,
                          stk_error *err)
{
    stk_error first = { 0 };

    for (uint32_t i = 0; i < stk_sample_fields(s); i++) {
        const void *data;
        const char *name = stk_sample_field(s, i, &data, &r->in.len);
        stk_error why = { 0 };
        int rc;

        r->in.data = data;
        rc = try_field(p, d, name, r, &why);
        if (rc == 0)
            return 0;
        if (rc < 0 && rc != STK_END && !first.code)
            first = why;
    }
    if (first.code)
        return stk_fail(err, first.code, "%s", first.message);
    return stk_fail(err, STK_ECORRUPT, "none of its fields is sound");
}

typedef struct taking { /* the sink: the mean of all channels */
    float *out;
    uint32_t channels;
} taking;

static int take(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                stk_error *err)
{
    taking *t = cookie;

    (void)first, (void)err;
    memcpy(t->out, channel[0], n * sizeof *t->out);
    for (uint32_t c = 1; c < t->channels; c++)
        for (uint32_t i = 0; i < n; i++)
            t->out[i] += channel[c][i];
    for (uint32_t i = 0; t->channels > 1 && i < n; i++)
        t->out[i] /= (float)t->channels;
    t->out += n;
    return 0;
}

static int decode(const recording *r, uint64_t from, uint64_t to, stk_scratch *scratch, float **out,
                  stk_error *err)
{
    const stk_media_points none = { 0 };
    const stk_media_ask ask = { .from = from, .to = to };
    const stk_media_part all = { 0, r->in };
    stk_lane lane = STK_LANE_PLAIN;
    taking t = { .channels = r->info.channels };
    const stk_media_sink sink = { .cookie = &t, .sound = take, .lane = &lane };
    const stk_media_job job = {
        .points = &none, .ask = &ask, .part = &all, .n_parts = 1, .sink = &sink, .scratch = scratch
    };

    *out = t.out = stk_scratch_get(scratch, (size_t)(to - from) * sizeof *t.out + 1);
    if (!t.out)
        return stk_fail_nomem(err, (size_t)(to - from) * sizeof *t.out);
    STK_TRY(r->decoder->decode(r->ctx, &job, err));
    if ((uint64_t)(t.out - *out) != to - from)
        return stk_fail(err, STK_ECORRUPT, "%" PRIu64 " samples were decoded of %" PRIu64,
                        (uint64_t)(t.out - *out), to - from);
    return 0;
}

/* Samples [from, from + n) at the wanted rate. */
static int make(const recording *r, uint64_t from, uint64_t n, stk_scratch *scratch, float *out,
                stk_error *err)
{
    const stk_rate_change *change = r->change;
    int64_t first = (int64_t)from, last = (int64_t)(from + n);
    float *in, *work;

    if (change)
        stk_rate_change_needs(change, from, from + n, &first, &last);
    first = first < 0 ? 0 : first;
    last = last > (int64_t)r->info.units ? (int64_t)r->info.units : last;
    first = first > last ? last : first;
    STK_TRY(decode(r, (uint64_t)first, (uint64_t)last, scratch, &in, err));
    if (!change) {
        memcpy(out, in, (size_t)n * sizeof *out);
        return 0;
    }
    work = stk_scratch_get(scratch, stk_rate_change_work(change) * sizeof *work + 1);
    if (!work)
        return stk_fail_nomem(err, stk_rate_change_work(change) * sizeof *work);
    stk_rate_change_run(change, &(stk_resample_in){ in, first, (uint64_t)(last - first), work },
                        from, n, out);
    return 0;
}

static uint64_t length_of(const recording *r) /* at the wanted rate */
{
    return r->change ? stk_rate_change_length(r->change, r->info.units) : r->info.units;
}

static uint64_t draw(stk_rng *rng, uint64_t n) /* below n */
{
    double unit = stk_rng_unit(rng) + stk_rng_unit(rng) * 0x1p-32;
    uint64_t i = (uint64_t)(unit * (double)n);

    return i < n ? i : n - 1;
}

static int take_of(const recording *r, const stk_partner_ask *ask, stk_scratch *scratch, float *out,
                   stk_error *err)
{
    uint64_t n = ask->n, have = length_of(r), at;

    if (have >= n)
        return make(r, draw(ask->rng, have - n + 1), n, scratch, out, err);
    STK_TRY(make(r, 0, have, scratch, out, err));
    for (at = have; at < n; at += at < n - at ? at : n - at) /* what is there, again */
        memcpy(out + at, out, (size_t)(at < n - at ? at : n - at) * sizeof *out);
    return 0;
}

typedef struct taken { /* where the samples go */
    float *out;
    uint64_t n;
    int start; /* those of its start, as many as there are; else n of them */
} taken;

static int take_at_rate(const recording *r, const stk_partner_ask *ask, stk_scratch *scratch,
                        taken *t, stk_error *err)
{
    t->n = ask->n;
    if (t->start && length_of(r) < t->n)
        t->n = length_of(r);
    t->out = stk_scratch_get(scratch, (size_t)t->n * sizeof *t->out + 1);
    if (!t->out)
        return stk_fail_nomem(err, (size_t)t->n * sizeof *t->out);
    return t->start ? make(r, 0, t->n, scratch, t->out, err)
                    : take_of(r, ask, scratch, t->out, err);
}

static int take_one(stk_partners *p, recording *r, const stk_partner_ask *ask, stk_scratch *scratch,
                    taken *t, stk_error *err)
{
    rate *used;
    int rc = find_rate(p, r->info.rate, ask->rate, &used, err);

    r->change = used ? used->r : NULL;
    if (rc == 0)
        rc = take_at_rate(r, ask, scratch, t, err);
    leave_rate(p, used);
    return rc;
}

static int take_any(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch, taken *t,
                    stk_error *err)
{
    uint64_t which = draw(ask->rng, stk_dataset_len(p->data));
    stk_sample *sample = NULL;
    stk_decoders decoders = { 0 };
    stk_error why = { 0 };
    recording r = { 0 };
    int rc = stk_decoders_init(&decoders, NULL, &why);

    if (rc == 0)
        rc = stk_dataset_read(p->data, which, &sample, &why);
    if (rc == 0)
        rc = find_recording(p, &decoders, sample, &r, &why);
    if (rc == 0)
        rc = take_one(p, &r, ask, scratch, t, &why);
    stk_sample_close(&sample);
    stk_decoders_fini(&decoders);
    return rc < 0 ? stk_fail(err, rc, "%s: its sample %" PRIu64 ": %s", p->op, which, why.message)
                  : 0;
}

int stk_partners_take(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                      float **out, stk_error *err)
{
    taken t = { 0 };

    STK_TRY(take_any(p, ask, scratch, &t, err));
    *out = t.out;
    return 0;
}

int stk_partners_take_start(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                            float **out, uint64_t *made, stk_error *err)
{
    taken t = { .start = 1 };

    STK_TRY(take_any(p, ask, scratch, &t, err));
    *out = t.out;
    *made = t.n;
    return 0;
}
