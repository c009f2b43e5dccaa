/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_sound.c - see ogg_sound.h.
 *
 * Samples are counted from the first packet on ("raw"); what comes before the recording (a codec's
 * pre-skip, or a first page whose time says so) is not part of it, and the last page says where it
 * ends.  Where decoding begins is a question of samples alone, so that a part comes out the same
 * whether it was read whole or by its points. */
#include "codec/ogg_sound.h"

#include <assert.h>
#include <string.h>

#define MOST_TIME ((int64_t)1 << 60) /* in samples: differences and sums fit */
#define SETUP 16 /* bytes of the points, before the first packet: samples to skip */

typedef struct ogg_ctx {
    const stk_ogg_codec *k;
    void *codec;
    stk_ogg_crc crc;
    stk_bytes in;
    stk_media_info info;
    uint64_t skip;  /* raw samples before the recording */
    uint64_t begin; /* byte at which the first page of sound begins */
    uint64_t first; /* ... and the first page of the stream */
} ogg_ctx;

int stk_ogg_probe(const stk_ogg_codec *k, stk_bytes head)
{
    uint64_t at;

    return stk_ogg_find(head, k->magic, k->magic_len, &at);
}

int stk_ogg_open(const stk_ogg_codec *k, void **out, stk_error *err)
{
    ogg_ctx *c;

    *out = NULL;
    if (k->lacks)
        return stk_fail(err, STK_ENOTSUP, "%s", k->lacks);
    c = STK_NEW(ogg_ctx);
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->k = k;
    c->codec = k->open();
    if (!c->codec) {
        stk_free(c);
        return stk_fail(err, STK_ENOMEM, "no memory for %s", k->name);
    }
    stk_ogg_crc_init(&c->crc);
    *out = c;
    return 0;
}

void stk_ogg_close(void *p)
{
    ogg_ctx *c = p;

    if (c)
        c->k->close(c->codec);
    stk_free(c);
}

/* The packets before the sound. */
static int read_heads(ogg_ctx *c, stk_ogg *o, stk_error *err)
{
    stk_ogg_packet p;
    int more = 0;

    c->info = (stk_media_info){ 0 };
    c->skip = 0;
    for (uint32_t i = 0; i < c->k->heads || more; i++) {
        int rc = stk_ogg_next(o, &p, err);

        if (rc != 0)
            return rc < 0 ? rc
                          : stk_fail(err, STK_ECORRUPT, "%s is truncated: it ends in the header",
                                     c->k->name);
        rc = c->k->head(c->codec, i, p.bytes, &c->info, &c->skip, err);
        if (rc < 0)
            return rc;
        more = rc == STK_PENDING;
    }
    if (!p.last_of_page)
        return stk_fail(err, STK_ECORRUPT, "%s: its sound begins on the page of its header",
                        c->k->name);
    c->begin = o->base + o->at;
    return stk_sound_check(c->k->name, c->info.rate, c->info.channels, err);
}

typedef struct count { /* of all packets */
    uint64_t made;     /* raw samples */
    int64_t start;     /* the time of the first of them */
    int64_t last;      /* time of the last page */
    int timed, ended;
} count;

/* 1, or 0: it is damaged, or its page says a time that is none. */
static int count_packet(count *n, const stk_ogg_packet *p, int64_t samples)
{
    if (samples < 0 || samples > 1 << 24)
        return 0;
    n->made += (uint64_t)samples;
    if (n->made > (uint64_t)MOST_TIME)
        return 0;
    if (!p->last_of_page)
        return 1;
    if (p->granule < 0 || p->granule > MOST_TIME)
        return 0;
    if (!n->timed) /* of a stream of one page, the time says where it ends */
        n->start = p->end_of_stream ? 0 : p->granule - (int64_t)n->made;
    n->timed = 1;
    n->last = p->granule;
    n->ended = p->end_of_stream;
    return 1;
}

/* How long it is. */
static int settle(ogg_ctx *c, const count *n, stk_error *err)
{
    int64_t end = n->last - n->start;

    if (!n->timed || !n->ended)
        return stk_fail(err, STK_ECORRUPT, "%s is truncated: its last page is not there",
                        c->k->name);
    if (n->start < 0)
        c->skip += (uint64_t)-n->start;
    if (end < 0 || (uint64_t)end > n->made)
        return stk_fail(err, STK_ECORRUPT,
                        "%s: its last page says %" PRId64 " samples, its packets have %" PRIu64,
                        c->k->name, end, n->made);
    c->info = stk_sound_info(c->info.rate, c->info.channels,
                             (uint64_t)end > c->skip ? (uint64_t)end - c->skip : 0);
    return 0;
}

static int walk(ogg_ctx *c, stk_bytes in, stk_sound_marks *marks, stk_error *err)
{
    count n = { 0 };
    stk_ogg_packet p;
    stk_ogg o;
    int rc;

    stk_ogg_begin(&o, &c->crc, in, 0, c->first);
    rc = read_heads(c, &o, err);
    if (rc == 0)
        c->k->restart(c->codec);
    while (rc == 0 && (rc = stk_ogg_next(&o, &p, err)) == 0) {
        uint64_t before = n.made;

        if (!count_packet(&n, &p, c->k->samples(c->codec, p.bytes)))
            rc = stk_fail(err, STK_ECORRUPT,
                          "%s: a packet of the page at byte %" PRIu64 " is damaged", c->k->name,
                          p.page);
        /* of a codec that needs the packet before it, decoding gives what comes after the first */
        if (rc == 0 && marks && p.fresh)
            stk_sound_marks_add(marks, c->k->after ? n.made : before, p.page);
    }
    stk_ogg_fini(&o);
    return rc < 0 ? rc : settle(c, &n, err);
}

static int find_stream(ogg_ctx *c, stk_bytes in, stk_error *err)
{
    if (stk_ogg_find(in, c->k->magic, c->k->magic_len, &c->first))
        return 0;
    return stk_fail(err, STK_ECORRUPT, "%s is truncated: %zu bytes", c->k->name, in.len);
}

int stk_ogg_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                   stk_error *err)
{
    ogg_ctx *c = p;
    int rc;

    (void)points;
    c->in = (stk_bytes){ 0 };
    rc = find_stream(c, in, err);
    if (rc == 0)
        rc = walk(c, in, NULL, err);
    if (rc < 0)
        return rc;
    c->in = in;
    *out = c->info;
    return 0;
}

/* ---- how long it is, without its packets ---- */

#define NEAR 12288u      /* bytes that hold the headers and the first page of sound, mostly, ... */
#define MOST_PACKET 8192 /* samples of a packet, of which each has a byte of its page's head */

/* The first page of sound says when the stream begins. */
static int start_by_head(ogg_ctx *c, stk_bytes head, count *n, uint32_t *serial, stk_error *err)
{
    stk_ogg_packet p;
    stk_ogg o;
    int rc;

    STK_TRY(find_stream(c, head, err));
    stk_ogg_begin(&o, &c->crc, head, 0, c->first);
    rc = read_heads(c, &o, err);
    if (rc == 0)
        c->k->restart(c->codec);
    while (rc == 0 && !n->timed && (rc = stk_ogg_next(&o, &p, err)) == 0)
        if (!count_packet(n, &p, c->k->samples(c->codec, p.bytes)))
            rc = STK_END;
    *serial = o.serial;
    stk_ogg_fini(&o);
    return rc;
}

static int measure_start(ogg_ctx *c, const stk_media_reader *read, count *n, uint32_t *serial,
                         stk_error *err)
{
    int rc = STK_END;

    for (uint64_t most = NEAR, last = 0;
         rc != 0 && last < read->size && most <= STK_OGG_PAGE + NEAR;
         most += STK_OGG_PAGE) { /* ... or a long one */
        stk_bytes in;

        last = read->size < most ? read->size : most;
        *n = (count){ 0 };
        STK_TRY(read->read(read->cookie, 0, (size_t)last, &in, err));
        rc = start_by_head(c, in, n, serial, err);
    }
    return rc;
}

static int measure_end(const ogg_ctx *c, const stk_media_reader *read, uint32_t serial, count *n,
                       stk_error *err)
{
    uint64_t last = 0;

    for (uint64_t most = NEAR; last < read->size && last < STK_OGG_PAGE; most = STK_OGG_PAGE) {
        stk_bytes in;

        last = read->size < most ? read->size : most;
        STK_TRY(read->read(read->cookie, read->size - last, (size_t)last, &in, err));
        n->ended = stk_ogg_last_granule(&c->crc, in, serial, &n->last);
        if (n->ended)
            break;
    }
    if (!n->ended || n->last < n->start || n->last > MOST_TIME ||
        (uint64_t)(n->last - n->start) / MOST_PACKET > read->size)
        return STK_END;
    n->made = (uint64_t)(n->last - n->start);
    return 0;
}

/* The last page says when it ends.  That packets have as many samples as that is seen when they are
 * decoded. */
int stk_ogg_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err)
{
    ogg_ctx *c = p;
    count n = { 0 };
    uint32_t serial = 0;
    int rc;

    c->in = (stk_bytes){ 0 };
    rc = measure_start(c, read, &n, &serial, err);
    if (rc == 0)
        rc = measure_end(c, read, serial, &n, err);
    if (rc == 0)
        rc = settle(c, &n, err);
    if (rc == 0)
        *out = c->info;
    return rc;
}

/* ---- decoding ---- */

typedef struct decoding {
    ogg_ctx *c;
    const stk_media_job *job;
    stk_ogg o;
    uint64_t raw;  /* the next sample */
    uint64_t from; /* packets that end before this sample are not decoded */
    int started;
} decoding;

/* Give raw samples d->raw .. d->raw + n - 1. */
static int give(const decoding *d, float *channel[STK_SOUND_CHANNELS], uint32_t n, stk_error *err)
{
    uint64_t skip = d->c->skip;
    uint32_t cut = d->raw < skip ? (uint32_t)(skip - d->raw < n ? skip - d->raw : n) : 0;
    float *at[STK_SOUND_CHANNELS];

    for (uint32_t k = 0; k < d->c->info.channels; k++)
        at[k] = channel[k] + cut;
    return n == cut ? 0
                    : stk_sound_give_floats(d->c->k->name, d->job,
                                            &(stk_sound_block){ d->raw + cut - skip, at, n - cut,
                                                                d->c->info.channels },
                                            err);
}

static int run(decoding *d, stk_error *err)
{
    const stk_ogg_codec *k = d->c->k;
    uint64_t to = d->job->ask->to + d->c->skip;
    stk_ogg_packet p;
    int rc = 0;

    k->restart(d->c->codec);
    while (d->raw < to && (rc = stk_ogg_next(&d->o, &p, err)) == 0) {
        int64_t samples = k->samples(d->c->codec, p.bytes);
        float *channel[STK_SOUND_CHANNELS];
        uint32_t n = 0;

        if (samples < 0)
            return stk_fail(err, STK_ECORRUPT, "%s: the packet of sample %" PRIu64 " is damaged",
                            k->name, d->raw);
        if (!d->started && d->raw + (uint64_t)samples < d->from + !k->after) {
            d->raw += (uint64_t)samples;
            continue;
        }
        STK_TRY(k->decode(d->c->codec, p.bytes, channel, &n, err));
        if (!d->started && k->after && !n) /* its samples need the packet before it */
            d->raw += (uint64_t)samples;
        else if (n != (uint64_t)samples)
            return stk_fail(err, STK_ECORRUPT, "%s: the packet of sample %" PRIu64 " is damaged",
                            k->name, d->raw);
        d->started = 1;
        if (n)
            STK_TRY(give(d, channel, n, err));
        d->raw += n;
    }
    if (rc == STK_END)
        return stk_fail(err, STK_ECORRUPT, "%s: it ends at sample %" PRIu64, k->name, d->raw);
    return rc;
}

/* Where decoding begins, in raw samples. */
static uint64_t start_of(const ogg_ctx *c, const stk_media_job *job)
{
    uint64_t raw = job->ask->from + c->skip;

    return raw > c->k->run_up ? raw - c->k->run_up : 0;
}

static int stale(const ogg_ctx *c, stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "%s: what was read is not what its points describe",
                    c->k->name);
}

/* Its headers: of the points, or of the first part. */
static int part_heads(ogg_ctx *c, const stk_media_job *job, const stk_sound_points *p)
{
    stk_ogg o;
    int rc;

    if (c->k->keeps_head) {
        stk_bytes packet = { p->setup.data + SETUP, p->setup.len - SETUP };

        c->info = (stk_media_info){ 0 };
        return job->n_parts == 1 ? c->k->head(c->codec, 0, packet, &c->info, &c->skip, NULL)
                                 : STK_ESTALE;
    }
    if (job->n_parts != 2 || job->part[0].offset ||
        !stk_ogg_find(job->part[0].bytes, c->k->magic, c->k->magic_len, &c->first))
        return STK_ESTALE;
    stk_ogg_begin(&o, &c->crc, job->part[0].bytes, 0, c->first);
    rc = read_heads(c, &o, NULL);
    stk_ogg_fini(&o);
    return rc;
}

static int decode_part(ogg_ctx *c, const stk_media_job *job, stk_error *err)
{
    const stk_media_part *part = &job->part[job->n_parts - 1];
    decoding d = { .c = c, .job = job };
    stk_sound_points p;
    uint32_t mark;
    int rc;

    c->in = (stk_bytes){ 0 };
    if (stk_sound_points_open(&p, job->points->head, NULL) < 0 || p.setup.len < SETUP ||
        job->ask->to > p.units || part_heads(c, job, &p) < 0)
        return stale(c, err);
    c->skip = stk_le64(p.setup.data);
    mark = stk_sound_points_at(&p, part->offset);
    if (mark == p.n_marks || c->info.rate != p.rate || c->info.channels != p.channels)
        return stale(c, err);
    if (part->offset != p.begin)
        d.raw = stk_sound_points_mark(&p, mark).sample + c->skip;
    d.from = start_of(c, job);
    stk_ogg_begin(&d.o, &c->crc, part->bytes, part->offset, 0);
    rc = run(&d, err);
    stk_ogg_fini(&d.o);
    return rc == STK_ECORRUPT ? stale(c, err) : rc;
}

static int decode_whole(ogg_ctx *c, const stk_media_job *job, stk_error *err)
{
    decoding d = { .c = c, .job = job, .from = start_of(c, job) };
    uint64_t skip = c->skip;
    stk_media_info info = c->info;
    int rc;

    stk_ogg_begin(&d.o, &c->crc, c->in, 0, c->first);
    rc = read_heads(c, &d.o, err); /* another field may have been read since */
    c->skip = skip;
    c->info = info;
    if (rc == 0)
        rc = run(&d, err);
    stk_ogg_fini(&d.o);
    return rc;
}

int stk_ogg_decode(void *p, const stk_media_job *job, stk_error *err)
{
    ogg_ctx *c = p;

    if (job->part->offset || job->n_parts > 1)
        return decode_part(c, job, err);
    if (!c->in.data || job->part->bytes.data != c->in.data)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    STK_TRY(stk_sound_check_ask(job->ask, c->info.units, err));
    return job->ask->from == job->ask->to ? 0 : decode_whole(c, job, err);
}

/* ---- points ---- */

/* The first packet, which a codec's decoder may need. */
static int first_packet(ogg_ctx *c, stk_bytes in, uint8_t *setup, size_t room, size_t *len,
                        stk_error *err)
{
    stk_ogg_packet p;
    stk_ogg o;
    int rc;

    stk_ogg_begin(&o, &c->crc, in, 0, c->first);
    rc = stk_ogg_next(&o, &p, err);
    if (rc == 0 && p.bytes.len > room)
        rc = stk_fail(err, STK_ECORRUPT, "%s: its head has %zu bytes", c->k->name, p.bytes.len);
    if (rc == 0) {
        memcpy(setup, p.bytes.data, p.bytes.len);
        *len = p.bytes.len;
    }
    stk_ogg_fini(&o);
    return rc;
}

/* Marks by samples of the recording; of those before it, only the first stays. */
static void from_recording(stk_sound_marks *m, uint64_t skip)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n; i++)
        if (!i || m->at[i].sample >= skip) {
            m->at[n] = m->at[i];
            m->at[n].sample = m->at[i].sample > skip ? m->at[i].sample - skip : 0;
            n++;
        }
    m->n = n;
}

int stk_ogg_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                   stk_error *err)
{
    ogg_ctx *c = p;
    uint8_t setup[SETUP + 512] = { 0 };
    stk_sound_marks marks;
    size_t len = 0;
    stk_bytes in;

    STK_TRY(read->read(read->cookie, 0, (size_t)read->size, &in, err));
    STK_TRY(find_stream(c, in, err));
    STK_TRY(stk_sound_marks_init(&marks, 48000, scratch, err));
    STK_TRY(walk(c, in, &marks, err));
    from_recording(&marks, c->skip);
    for (int i = 0; i < 8; i++)
        setup[i] = (uint8_t)(c->skip >> 8 * i);
    if (c->k->keeps_head)
        STK_TRY(first_packet(c, in, setup + SETUP, sizeof setup - SETUP, &len, err));
    if (c->begin > UINT32_MAX || c->skip > UINT32_MAX)
        return stk_fail(err, STK_ECORRUPT, "%s: its head is too long for points", c->k->name);
    return stk_sound_points_make(
        &(stk_sound_points){ .tag = c->k->tag,
                             .rate = c->info.rate,
                             .channels = c->info.channels,
                             .units = c->info.units,
                             .begin = c->begin,
                             .end = in.len,
                             .lead = c->k->keeps_head ? 0 : (uint32_t)c->begin,
                             .run_up = c->k->run_up,
                             .after = c->k->after,
                             .setup = { setup, SETUP + len } },
        &marks, scratch, out, err);
}
