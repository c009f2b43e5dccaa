/* SPDX-License-Identifier: Apache-2.0 */
/* seekable.c - shards in Zstandard's seekable format, read in place where there is no cache to
 * unpack them into.
 *
 * At the end of such a file is a table with the sizes of its frames.  A read unpacks the frames
 * that it touches; the last few are kept, because samples of a frame are asked for together.  Those
 * of a data set that a loader reads count to its memory_limit: where that has no room for a frame,
 * it is not kept.  The format: zstd's contrib/seekable_format/zstd_seekable_compression_format.md.
 * The table is anyone's: it must add up to the file. */
#include <assert.h>
#include <string.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/mem.h"
#include "compress/unpack.h"
#include "data/shard_data.h"

#define TABLE_MAGIC 0x184D2A5Eu
#define MAGIC 0x8F92EAB1u
#define FOOT 9u
#define HEAD 8u
#define FRAME_MAX ((uint64_t)64 << 20) /* bytes that one frame may unpack to */
#define FRAMES_MAX ((uint64_t)1 << 27)
#define CACHED 4u

typedef struct frame { /* where it begins */
    uint64_t at, packed;
} frame;

typedef struct cached {
    uint64_t number, len;
    stk_buffer *bytes; /* NULL: none */
    stk_account *of;   /* that len is taken of; NULL: of none */
} cached;

typedef struct seekable {
    stk_file base;
    stk_file *from;
    stk_file_info info;
    uint64_t n;
    frame *frame;          /* n + 1 */
    stk_frames alone, *in; /* the data set's, or its own */
    struct seekable *next; /* in->lock */
    cached cached[CACHED]; /* in->lock: the newest first */
} seekable;

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- the table ---- */

/* Sizes of frames -> where they begin.  0: they do not add up to what is before the table. */
static int add_up(seekable *f, const uint8_t *entry, size_t each, uint64_t before)
{
    frame at = { 0, 0 };

    for (uint64_t i = 0; i < f->n; i++, entry += each) {
        f->frame[i] = at;
        at.packed += word(entry);
        at.at += word(entry + 4);
        if (word(entry + 4) > FRAME_MAX || at.packed > before)
            return 0;
    }
    f->frame[f->n] = at;
    return at.packed == before;
}

static int read_table(seekable *f, uint64_t size, const uint8_t foot[FOOT], stk_error *err)
{
    size_t each = foot[4] & 0x80 ? 12 : 8;
    uint64_t len;
    uint8_t *table;
    int rc;

    f->n = word(foot);
    len = HEAD + f->n * each + FOOT;
    if (!f->n || f->n > FRAMES_MAX || len > size || foot[4] & 0x7C)
        return STK_END;
    table = stk_alloc((size_t)len);
    f->frame = stk_zalloc((size_t)f->n + 1, sizeof *f->frame);
    rc = table && f->frame ? stk_file_read(f->from, size - len, table, (size_t)len, err)
                           : stk_fail_nomem(err, (size_t)len);
    if (rc == 0 && (word(table) != TABLE_MAGIC || word(table + 4) != len - HEAD ||
                    !add_up(f, table + HEAD, each, size - len)))
        rc = STK_END;
    stk_free(table);
    return rc;
}

static int find_table(seekable *f, uint64_t size, stk_error *err)
{
    uint8_t foot[FOOT];

    if (size < HEAD + FOOT)
        return STK_END;
    STK_TRY(stk_file_read(f->from, size - FOOT, foot, FOOT, err));
    return word(foot + 5) == MAGIC ? read_table(f, size, foot, err) : STK_END;
}

/* ---- frames ---- */

/* The frame if it is kept, with one more holder; it is the newest then. */
static stk_buffer *cached_frame(seekable *f, uint64_t number)
{
    cached k = { 0 };

    stk_mutex_lock(&f->in->lock);
    for (unsigned i = 0; i < CACHED && !k.bytes; i++) {
        if (!f->cached[i].bytes || f->cached[i].number != number)
            continue;
        k = f->cached[i];
        memmove(&f->cached[1], &f->cached[0], i * sizeof k);
        f->cached[0] = k;
        stk_buffer_ref(k.bytes);
    }
    stk_mutex_unlock(&f->in->lock);
    return k.bytes;
}

static void let_go(const cached *k)
{
    if (!k->bytes)
        return;
    stk_buffer_unref(k->bytes);
    stk_account_give(k->of, k->len);
}

/* A file that is no data set's is read in order: its last frame is enough. */
static void keep(seekable *f, uint64_t number, stk_buffer *b)
{
    uint64_t len = f->frame[number + 1].at - f->frame[number].at;
    unsigned most = f->in == &f->alone ? 1 : CACHED;
    cached oldest = { 0 };
    stk_account *of;

    stk_mutex_lock(&f->in->lock);
    of = f->in->account;
    if ((!of || !stk_account_waited_for(of)) && stk_account_take(of, len)) {
        oldest = f->cached[most - 1];
        memmove(&f->cached[1], &f->cached[0], (most - 1) * sizeof oldest);
        f->cached[0] = (cached){ .number = number, .len = len, .bytes = b, .of = of };
        stk_buffer_ref(b);
    }
    stk_mutex_unlock(&f->in->lock);
    let_go(&oldest);
}

/* ---- of a data set ---- */

/* Of one file of s, those that are charged to `of`; NULL: all.  How many. */
static unsigned take_cached_locked(const stk_frames *s, seekable *f, const stk_account *of,
                                   cached out[CACHED]) STK_REQUIRES(s->lock)
{
    unsigned n = 0;

    assert(f->in == s);
    for (unsigned i = 0; i < CACHED; i++)
        if (f->cached[i].bytes && (!of || f->cached[i].of == of)) {
            out[n++] = f->cached[i];
            f->cached[i] = (cached){ 0 };
        }
    return n;
}

static int drop_all(stk_frames *s, const stk_account *of)
{
    unsigned n = 1;
    int any = 0;

    while (n) {
        cached gone[CACHED];

        n = 0;
        stk_mutex_lock(&s->lock);
        for (seekable *f = s->first; f && !n; f = f->next)
            n = take_cached_locked(s, f, of, gone);
        stk_mutex_unlock(&s->lock);
        for (unsigned i = 0; i < n; i++)
            let_go(&gone[i]);
        any |= n != 0;
    }
    return any;
}

int stk_frames_trim(stk_frames *s)
{
    return drop_all(s, NULL);
}

/* Of two loaders of one data set the first has them. */
void stk_frames_charge(stk_frames *s, stk_account *a)
{
    stk_mutex_lock(&s->lock);
    if (!s->account)
        s->account = a;
    stk_mutex_unlock(&s->lock);
}

void stk_frames_uncharge(stk_frames *s, const stk_account *a)
{
    stk_mutex_lock(&s->lock);
    if (s->account == a)
        s->account = NULL;
    stk_mutex_unlock(&s->lock);
    drop_all(s, a);
}

static int unpack_frame(seekable *f, uint64_t number, stk_buffer **out, stk_error *err)
{
    const frame *a = &f->frame[number], *b = a + 1;
    size_t packed = (size_t)(b->packed - a->packed), len = (size_t)(b->at - a->at);
    stk_buffer *to = stk_buffer_new(len ? len : 1);
    uint8_t *in = stk_alloc(packed ? packed : 1);
    int rc = to && in ? stk_file_read(f->from, a->packed, in, packed, err)
                      : stk_fail_nomem(err, len);

    if (rc == 0)
        rc = stk_unzstd_page((stk_bytes){ in, packed }, to->data, len, err);
    stk_free(in);
    if (rc < 0 && to)
        stk_buffer_unref(to);
    *out = rc == 0 ? to : NULL;
    return rc;
}

/* The frame that has this byte. */
static uint64_t frame_of(const seekable *f, uint64_t offset)
{
    uint64_t lo = 0, hi = f->n;

    while (hi - lo > 1) { /* frame[lo].at <= offset */
        uint64_t mid = lo + (hi - lo) / 2;

        if (f->frame[mid].at <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* ---- the file ---- */

static int seekable_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)wait, (void)err;
    *out = ((seekable *)f)->info;
    return 0;
}

/* wait 0: only from frames that are kept, or STK_PENDING. */
static int copy(seekable *f, stk_io *io, int wait)
{
    uint64_t end = f->frame[f->n].at, at = io->offset;
    stk_error err;

    io->got = 0;
    io->sys = 0;
    if (at < end && io->len < end - at)
        end = at + io->len;
    while (at < end) {
        uint64_t number = frame_of(f, at), past = f->frame[number + 1].at;
        size_t n = (size_t)((past < end ? past : end) - at);
        stk_buffer *b = cached_frame(f, number);

        if (!b && !wait)
            return STK_PENDING;
        if (!b) {
            if ((io->rc = unpack_frame(f, number, &b, &err)) < 0)
                return io->rc;
            keep(f, number, b);
        }
        memcpy((uint8_t *)io->dst + io->got, (uint8_t *)b->data + (at - f->frame[number].at), n);
        stk_buffer_unref(b);
        io->got += n;
        at += n;
    }
    return io->rc = 0;
}

static int seekable_read(stk_file *f, stk_io *io)
{
    return copy((seekable *)f, io, 1);
}

static int seekable_try_read(stk_file *f, stk_io *io)
{
    return copy((seekable *)f, io, 0);
}

static int seekable_reason(const stk_io *io, char *text, size_t size)
{
    static const char damaged[] = "a frame is damaged, or can't be read";

    if (io->rc != STK_ECORRUPT || size < sizeof damaged)
        return 0;
    memcpy(text, damaged, sizeof damaged);
    return 1;
}

static void seekable_close(stk_file *file)
{
    seekable *f = (seekable *)file, **at;

    stk_mutex_lock(&f->in->lock);
    for (at = &f->in->first; *at && *at != f;)
        at = &(*at)->next;
    if (*at)
        *at = f->next;
    stk_mutex_unlock(&f->in->lock);
    for (unsigned i = 0; i < CACHED; i++)
        let_go(&f->cached[i]);
    stk_file_close(&f->from);
    stk_mutex_destroy(&f->alone.lock);
    stk_free(f->frame);
    stk_free(f);
}

static const stk_source source_seekable = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "seekable",
    .help = "Zstandard's seekable format, in place",
    .ready = seekable_ready,
    .read = seekable_read,
    .try_read = seekable_try_read,
    .reason = seekable_reason,
    .close = seekable_close,
    .can = STK_SOURCE_RETRIES,
};

void stk_seekable_join(stk_file *file, stk_frames *s)
{
    seekable *f = (seekable *)file;

    if (file->source != &source_seekable)
        return;
    stk_mutex_lock(&s->lock);
    f->in = s;
    f->next = s->first;
    s->first = f;
    stk_mutex_unlock(&s->lock);
}

int stk_seekable_take(stk_file **from, uint64_t size, const char *etag, stk_file **out,
                      stk_error *err)
{
    seekable *f = STK_NEW(seekable);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->base.source = &source_seekable;
    stk_mutex_init(&f->alone.lock);
    f->in = &f->alone;
    f->from = *from;
    rc = find_table(f, size, err);
    if (rc != 0) {
        f->from = NULL;
        seekable_close(&f->base);
        return rc;
    }
    *from = NULL;
    f->info.size = f->frame[f->n].at;
    memcpy(f->info.etag, etag, strlen(etag) + 1);
    *out = &f->base;
    return 0;
}
