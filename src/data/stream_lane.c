/* SPDX-License-Identifier: Apache-2.0 */
/* stream_lane.c - one of the streams: a thread that reads its shards from the first byte to the
 * last.
 *
 * The tar walk of the index is used as it is, over a file whose bytes are read in order, a large
 * piece at a time.  A piece is memory that its samples share.  What was begun in one piece is
 * copied to the next, so that a sample is in one of them.  A shard that is torn, or not there,
 * gives one bad sample; the stream then goes on with the next shard.  A store that fails is an
 * error for the rows that wait, and the lane stays where it is. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "data/stream.h"
#include "format/format.h"

#define PIECE_FIRST ((size_t)256 << 10) /* the first samples come soon */
#define PIECE_REMOTE ((size_t)8 << 20)
#define PIECE_LOCAL ((size_t)1 << 20)
#define LOOK_SAMPLES 64u /* whose fields are those of the data set */
#define LOOK_SHARDS 8u
#define MAX_FIELDS 1024u
#define TAR_BLOCK 512u /* where a member can begin */

typedef struct ordered { /* a shard's bytes from `origin` on; offsets count from there */
    stk_file base;
    stk_file *from;
    uint64_t origin, size;
    stk_buffer *piece;
    uint64_t at, keep; /* where the piece begins; where the sample begins that is gathered */
    size_t len, step, most;
    stk_error why; /* code 0: no read failed */
} ordered;

typedef struct walk { /* a shard that is walked; lane NULL: for its names */
    stk_scan scan;
    stk_stream *s;
    stk_stream_lane *lane;
    ordered *file;
    uint64_t shard, seen;
    stk_stream_part *part; /* by field */
} walk;

/* ---- bytes in order ---- */

/* The piece has [keep, end) from now on, and more. */
static int read_on(ordered *f, uint64_t end, stk_error *err)
{
    size_t carry = (size_t)(f->at + f->len - f->keep), len = carry + f->step;
    stk_buffer *next;
    int rc;

    if (len < end - f->keep)
        len = (size_t)(end - f->keep);
    if (len > f->size - f->keep)
        len = (size_t)(f->size - f->keep);
    next = stk_buffer_new(len);
    if (!next)
        return stk_fail_nomem(err, len);
    if (carry)
        memcpy(next->data, (uint8_t *)f->piece->data + (f->keep - f->at), carry);
    rc = stk_file_read(f->from, f->origin + f->keep + carry, (uint8_t *)next->data + carry,
                       len - carry, err);
    if (rc < 0) {
        stk_buffer_unref(next);
        return rc;
    }
    if (f->piece)
        stk_buffer_unref(f->piece);
    f->piece = next;
    f->at = f->keep;
    f->len = len;
    f->step = f->step * 2 < f->most ? f->step * 2 : f->most;
    return 0;
}

/* Offsets only grow: what is asked for is at or after `keep`. */
static const uint8_t *bytes_at(ordered *f, uint64_t offset, size_t len)
{
    if (f->why.code || offset < f->keep || offset > f->size || len > f->size - offset)
        return NULL;
    if ((!f->piece || offset + len > f->at + f->len) && read_on(f, offset + len, &f->why) < 0)
        return NULL;
    return (const uint8_t *)f->piece->data + (offset - f->at);
}

static const void *ordered_peek(stk_file *f, uint64_t offset, size_t len)
{
    return bytes_at((ordered *)f, offset, len);
}

/* Asked only where peek failed. */
static int ordered_read(stk_file *f, stk_io *io)
{
    (void)f;
    return io->rc = STK_EIO;
}

static void ordered_close(stk_file *f)
{
    (void)f;
}

static const stk_source source_ordered = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "ordered",
    .help = "",
    .read = ordered_read,
    .peek = ordered_peek,
    .close = ordered_close,
    .can = STK_SOURCE_RETRIES,
};

static int ordered_open(ordered *f, const stk_stream *s, uint64_t shard, uint64_t origin,
                        stk_error *err)
{
    stk_file_info info;
    const stk_source *source;

    *f = (ordered){ .base.source = &source_ordered, .origin = origin, .step = PIECE_FIRST };
    STK_TRY(stk_url_open(STK_URL(s->names.name[shard], s->store), &f->from, err));
    STK_TRY(stk_file_stat(f->from, &info, err));
    if (origin > info.size)
        return stk_fail(err, STK_ECORRUPT,
                        "the shard has %" PRIu64 " bytes and is to go on at %" PRIu64, info.size,
                        origin);
    source = f->from->source;
    f->size = info.size - origin;
    f->most = source->can & STK_SOURCE_REMOTE ? PIECE_REMOTE : PIECE_LOCAL;
    while (f->most > PIECE_FIRST &&
           f->most > atomic_load_explicit(&s->memory, memory_order_relaxed) / s->lanes / 4)
        f->most /= 2;
    return 0;
}

static void ordered_fini(ordered *f)
{
    if (f->piece)
        stk_buffer_unref(f->piece);
    stk_file_close(&f->from);
}

/* ---- samples ---- */

static int field_number(const stk_names *fields, const stk_field *f, uint32_t expected)
{
    for (size_t i = 0; i < fields->n; i++) { /* as a rule the first one it is compared with */
        size_t k = (expected + i) % fields->n;

        if (strlen(fields->name[k]) == f->name_len &&
            !memcmp(fields->name[k], f->name, f->name_len))
            return (int)k;
    }
    return -1;
}

static int put_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                      uint32_t n, stk_error *err)
{
    walk *w = (walk *)scan;
    ordered *f = w->file;
    uint64_t end = offset;

    (void)key;
    memset(w->part, 0xFF, w->s->fields.n * sizeof *w->part);
    for (uint32_t i = 0; i < n; i++)
        if (fields[i].offset + fields[i].size > end)
            end = fields[i].offset + fields[i].size;
    if (!bytes_at(f, offset, (size_t)(end - offset)))
        return f->why.code ? f->why.code : stk_fail(err, STK_ECORRUPT, "members are out of order");
    for (uint32_t i = 0; i < n; i++) {
        int k = field_number(&w->s->fields, &fields[i], i);

        if (k >= 0)
            w->part[k] = (stk_stream_part){ fields[i].offset - f->at, fields[i].size };
    }
    w->lane->at.offset = f->origin + offset;
    stk_buffer_ref(f->piece);
    STK_TRY(stk_stream_put(
        w->lane,
        &(stk_stream_sample){
            .state = STK_STREAM_READY, .shard = w->shard, .len = end - offset, .bytes = f->piece },
        w->part, err));
    f->keep = end;
    w->lane->at.offset = f->origin + (end + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    w->seen++;
    return 0;
}

static int put_names(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                     uint32_t n, stk_error *err)
{
    walk *w = (walk *)scan;

    (void)key;
    for (uint32_t i = 0; i < n && w->s->fields.n < MAX_FIELDS; i++)
        if (!w->s->fields.n || field_number(&w->s->fields, &fields[i], i) < 0)
            STK_TRY(stk_names_add(&w->s->fields, fields[i].name, fields[i].name_len, err));
    w->file->keep = offset;
    w->seen++;
    return w->seen >= LOOK_SAMPLES ? stk_fail(err, STK_ECLOSED, "enough") : 0;
}

static int progress(stk_scan *scan, uint64_t offset)
{
    walk *w = (walk *)scan;

    (void)offset;
    return w->lane && stk_stream_is_over(w->lane);
}

static int walk_shard(walk *w, uint64_t origin, stk_error *err)
{
    ordered f;
    int rc = ordered_open(&f, w->s, w->shard, origin, err);

    w->file = &f;
    if (rc == 0)
        rc = stk_format_tar.index(&f.base, f.size, &w->scan, err);
    if (rc < 0 && f.why.code) {
        *err = f.why;
        rc = f.why.code;
    }
    if (rc < 0 && err->offset != STK_NO_OFFSET)
        err->offset += origin;
    if (rc < 0)
        stk_error_at(err, w->s->names.name[w->shard], STK_NO_OFFSET, (stk_bytes){ 0 });
    ordered_fini(&f);
    return rc;
}

int stk_stream_look(stk_stream *s, stk_error *err)
{
    int rc = STK_ECLOSED;

    for (uint64_t i = 0; i < s->names.n && i < LOOK_SHARDS && !s->fields.n; i++) {
        walk w = { .scan = { .sample = put_names, .progress = progress }, .s = s, .shard = i };
        stk_error why;

        rc = walk_shard(&w, 0, i ? &why : err);
        if (rc == STK_EIO && !s->fields.n) {
            if (i)
                *err = why;
            return rc;
        }
    }
    if (s->fields.n)
        return 0;
    return rc < 0
               ? rc
               : stk_fail(err, STK_ECORRUPT,
                          "the first shards have no samples: they are to be tar files with members "
                          "KEY.FIELD");
}

/* ---- shards in turn ---- */

static int put_bad(stk_stream_lane *l, uint64_t shard, const stk_error *why)
{
    stk_stream_sample x = { .state = STK_STREAM_BAD, .shard = shard, .why = STK_NEW(stk_error) };
    stk_error over;

    if (!x.why) {
        stk_stream_give_up(l);
        return STK_ENOMEM;
    }
    *x.why = *why;
    return stk_stream_put(l, &x, NULL, &over);
}

/* The lane's shards in this pass. */
static void make_order(const stk_stream_lane *l)
{
    const stk_stream *s = l->run->s;
    uint64_t n = stk_stream_shards_of(s, l->number),
             first = (uint64_t)l->number * s->world + s->rank;
    uint64_t h = stk_mix64(stk_mix64(s->seed ^ 0xA24BAED4963EE407u) + l->at.pass) ^
                 stk_mix64(first);

    for (uint64_t i = 0; i < n; i++)
        l->order[i] = first + i * s->world * s->lanes;
    for (uint64_t i = n - 1; s->shuffle && i; i--) {
        uint64_t j = (uint64_t)((unsigned __int128)(h = stk_mix64(h + i)) * (i + 1) >> 64),
                 was = l->order[i];

        l->order[i] = l->order[j];
        l->order[j] = was;
    }
}

/* From where the lane stands on, until it is over. */
static void run_lane(stk_stream_lane *l, walk *w)
{
    stk_stream *s = l->run->s;
    uint64_t n = stk_stream_shards_of(s, l->number);
    uint64_t given = l->at.shard || l->at.offset; /* of this pass: 0, nothing yet */

    make_order(l);
    while (!stk_stream_is_over(l)) {
        stk_error why = { 0 };
        int rc;

        w->shard = l->order[l->at.shard];
        atomic_store_explicit(&l->reads, w->shard, memory_order_relaxed);
        w->seen = 0;
        rc = walk_shard(w, l->at.offset, &why);
        if (rc == STK_ECLOSED && stk_stream_is_over(l))
            return;
        if (rc == STK_EIO) { /* not the shard's fault: it is read on when the store answers */
            given += w->seen;
            stk_stream_stuck(l, &why);
            continue;
        }
        if (rc == 0 && !w->seen && !given && l->at.shard + 1 == n)
            rc = stk_fail(&why, STK_ECORRUPT, "no shard of this stream has a sample");
        if (rc < 0 && put_bad(l, w->shard, &why) < 0)
            return;
        given += w->seen + (rc < 0);
        l->at = (stk_stream_place){ l->at.pass, l->at.shard + 1, 0 };
        if (l->at.shard == n) {
            l->at = (stk_stream_place){ l->at.pass + 1, 0, 0 };
            given = 0;
            make_order(l);
        }
    }
}

static void wait_for_turn(stk_stream_lane *l)
{
    stk_stream_run *r = l->run;

    stk_mutex_lock(&r->lock);
    while (!r->stop && l->turn == r->turn) /* it gave up */
        stk_cond_wait(&r->room, &r->lock);
    stk_mutex_unlock(&r->lock);
}

void *stk_stream_lane_main(void *lane)
{
    stk_stream_lane *l = lane;
    stk_stream *s = l->run->s;
    walk w = { .scan = { .sample = put_sample, .progress = progress }, .s = s, .lane = l };

    stk_halt_enter(&l->run->halt);
    while (stk_stream_begin(l) == 0) {
        if (!w.part)
            w.part = stk_zalloc(s->fields.n, sizeof *w.part);
        if (w.part)
            run_lane(l, &w);
        else
            stk_stream_give_up(l);
        wait_for_turn(l);
    }
    stk_free(w.part);
    stk_halt_enter(NULL); /* the run may be gone after this */
    stk_stream_leave(l);
    return NULL;
}
