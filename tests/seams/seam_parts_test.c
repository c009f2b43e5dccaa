/* SPDX-License-Identifier: Apache-2.0 */
/* seam_parts_test.c - a decoder with points and sessions of its own, on a source that is far away:
 * only the bytes that are seen are read, and the rows are those of the whole fields.
 *
 * Pictures have three planes, so that a crop is three ranges with holes between them; points have a
 * sum of each row.  far://PATH reads PATH, says a version or none, and counts bytes. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "make_tar.h"
#include "seam.h"

#define N 60
#define HEAD 12u
#define SIDE 48u                /* at most */
#define AREA (SIDE * SIDE)      /* of every picture's planes, which are 48x48 or 36x64 */
#define FIELD (HEAD + 3 * AREA) /* bytes */

/* ---- the source ---- */

static struct {
    const char *version; /* "": none is said */
    _Atomic uint64_t bytes, reads;
} far;

typedef struct far_file {
    stk_file base;
    int fd;
    char etag[64];
} far_file;

static const stk_source far_source;

static int far_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    far_file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->base.source = &far_source;
    f->fd = open(o->url + 6, O_RDONLY);
    snprintf(f->etag, sizeof f->etag, "%s", o->etag && o->etag[0] ? o->etag : far.version);
    if (f->fd < 0) {
        free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file");
    }
    *out = &f->base;
    return 0;
}

static int far_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err)
{
    far_file *f = (far_file *)file;
    struct stat st;

    (void)wait, (void)err;
    memset(out, 0, sizeof *out);
    assert_int_equal(fstat(f->fd, &st), 0);
    out->size = (uint64_t)st.st_size;
    memcpy(out->etag, f->etag, sizeof out->etag);
    return 0;
}

/* Of a store that says versions, an answer of another one is an error. */
static int far_read(stk_file *file, stk_io *io)
{
    far_file *f = (far_file *)file;
    ssize_t n = pread(f->fd, io->dst, io->len, (off_t)io->offset);

    atomic_fetch_add(&far.reads, 1);
    atomic_fetch_add(&far.bytes, n > 0 ? (uint64_t)n : 0);
    io->sys = 0;
    io->got = n > 0 ? (size_t)n : 0;
    return io->rc = strcmp(f->etag, far.version) ? STK_ESTALE : n < 0 ? STK_EIO : 0;
}

static void far_close(stk_file *file)
{
    close(((far_file *)file)->fd);
    free(file);
}

static const stk_source far_source = { .abi = STK_PLUGIN_ABI,
                                       .size = sizeof(stk_source),
                                       .name = "far",
                                       .help = "files that are far away",
                                       .scheme = "far",
                                       .open = far_open,
                                       .ready = far_ready,
                                       .read = far_read,
                                       .close = far_close,
                                       .can = STK_SOURCE_REMOTE };

/* ---- the decoder ---- */

#define TAG '!'
#define POINTS (1 + 8 + 4 * 64) /* bytes at most */
#define MAGIC 0x5e551011

typedef struct planes {
    stk_bytes in;
    uint32_t w, h;
} planes;

static _Atomic int contexts, sessions, by_parts, stale;

static uint32_t word(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_word(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t sum_of(uint32_t sum, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 16777619u;
    return sum;
}

static int pl_probe(stk_bytes head)
{
    return head.len >= 4 && !memcmp(head.data, "PLN\n", 4);
}

static int pl_open(void **ctx, stk_error *err)
{
    *ctx = calloc(1, sizeof(planes));
    atomic_fetch_add(&contexts, 1);
    return *ctx ? 0 : stk_fail(err, STK_ENOMEM, "no memory");
}

static void pl_close(void *ctx)
{
    atomic_fetch_sub(&contexts, 1);
    free(ctx);
}

static int pl_header(void *ctx, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                     stk_error *err)
{
    planes *p = ctx;

    assert_true(!points->head.len || points->head.data[0] == TAG); /* its own, or none */
    if (in.len < HEAD)
        return stk_fail(err, STK_ECORRUPT, "it ends in its head");
    p->in = in;
    p->w = word(in.data + 4);
    p->h = word(in.data + 8);
    if (!p->w || !p->h || p->w > 64 || p->h > 64 || in.len != HEAD + (size_t)3 * p->w * p->h)
        return stk_fail(err, STK_ECORRUPT, "planes of %ux%u in %zu bytes", p->w, p->h, in.len);
    *out = (stk_media_info){ .tracks = 1, .width = p->w, .height = p->h, .turn = 1, .units = 1 };
    return 0;
}

static int pl_know(const stk_media_points *points, uint32_t track, stk_media_info *out,
                   stk_error *err)
{
    const uint8_t *p = points->head.data;

    assert_int_equal(track, 0);
    assert_int_equal(p[0], TAG);
    if (points->head.len < 9 || word(p + 5) > 64 || points->head.len != 9 + 4 * word(p + 5))
        return stk_fail(err, STK_ECORRUPT, "these are no points");
    *out = (stk_media_info){
        .tracks = 1, .width = word(p + 1), .height = word(p + 5), .turn = 1, .units = 1
    };
    return 0;
}

static int pl_ranges(const stk_media_points *points, const stk_media_ask *ask, uint64_t session_at,
                     stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    uint64_t w = word(points->head.data + 1), h = word(points->head.data + 5);

    (void)err;
    assert_true(session_at == UINT64_MAX);
    assert_true(ask->need.h && ask->need.y + ask->need.h <= h);
    for (*n = 0; *n < 3; ++*n)
        out[*n] = (stk_media_range){ HEAD + (*n * h + ask->need.y) * w, w * ask->need.h };
    return 0;
}

static int pl_points(void *ctx, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                     stk_error *err)
{
    uint8_t *to = stk_scratch_get(scratch, POINTS);
    const stk_media_points none = { .head = { 0 } };
    stk_media_info info;
    stk_bytes in;
    int rc = read->read(read->cookie, 0, (size_t)read->size, &in, err);

    if (rc == 0)
        rc = pl_header(ctx, in, &none, &info, err);
    if (rc < 0 || !to)
        return to ? rc : stk_fail(err, STK_ENOMEM, "no memory");
    to[0] = TAG;
    put_word(to + 1, info.width);
    put_word(to + 5, info.height);
    for (uint32_t y = 0; y < info.height; y++) {
        uint32_t sum = 0;

        for (uint32_t c = 0; c < 3; c++)
            sum = sum_of(sum, in.data + HEAD + (size_t)(c * info.height + y) * info.width,
                         info.width);
        put_word(to + 9 + 4 * y, sum);
    }
    *out = (stk_bytes){ to, 9 + 4 * info.height };
    return 0;
}

static int pl_start(const stk_media_points *p, uint32_t track, void **session, stk_error *err)
{
    uint32_t *s = malloc(sizeof *s);

    (void)p, (void)track;
    if (!s)
        return stk_fail(err, STK_ENOMEM, "no memory");
    *s = MAGIC;
    *session = s;
    atomic_fetch_add(&sessions, 1);
    return 0;
}

static void pl_stop(void *session)
{
    assert_int_equal(*(uint32_t *)session, MAGIC);
    free(session);
    atomic_fetch_sub(&sessions, 1);
}

/* Where row y of plane c is. */
static const uint8_t *row_at(const stk_media_job *job, const planes *p, uint32_t c, uint32_t y)
{
    if (job->n_parts == 1)
        return p->in.data + HEAD + (size_t)(c * p->h + y) * p->w;
    return job->part[c].bytes.data + (size_t)(y - job->ask->need.y) * p->w;
}

/* The rows of all planes are those that the points were made of. */
static int check_parts(planes *p, const stk_media_job *job, stk_error *err)
{
    const uint8_t *points = job->points->head.data;
    const stk_rect *need = &job->ask->need;

    assert_int_equal(job->n_parts, 3);
    p->w = word(points + 1);
    p->h = word(points + 5);
    for (uint32_t y = need->y; y < need->y + need->h; y++) {
        uint32_t sum = 0;

        for (uint32_t c = 0; c < 3; c++)
            sum = sum_of(sum, row_at(job, p, c, y), p->w);
        if (sum != word(points + 9 + 4 * y)) {
            atomic_fetch_add(&stale, 1);
            return stk_fail(err, STK_ESTALE, "row %u is another", y);
        }
    }
    atomic_fetch_add(&by_parts, 1);
    return 0;
}

static int pl_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    const stk_rect *need = &job->ask->need;
    size_t stride = (size_t)need->w * 4;
    planes *p = ctx;
    uint8_t *to;
    int rc;

    assert_int_equal(*(uint32_t *)job->session, MAGIC);
    *job->sink->lane = STK_LANE_PLAIN;
    if (job->n_parts > 1 || job->part->offset) {
        rc = check_parts(p, job, err);
        if (rc < 0)
            return rc;
    }
    to = stk_scratch_get(job->scratch, stride * need->h + 64);
    if (!to)
        return stk_fail(err, STK_ENOMEM, "no memory");
    for (uint32_t y = 0; y < need->h; y++)
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t x = 0; x < need->w; x++)
                to[y * stride + 4 * x + c] = row_at(job, p, c, need->y + y)[need->x + x];
    return job->sink->frame(job->sink->cookie, 0, 0,
                            &(stk_planes){ .kind = STK_PLANES_RGBX,
                                           .bits = 8,
                                           .data = { to },
                                           .stride = { stride },
                                           .area = *need },
                            err);
}

static const stk_decoder pl_decoder = { .abi = STK_PLUGIN_ABI,
                                        .size = sizeof(stk_decoder),
                                        .name = "pln",
                                        .help = "planes of this test",
                                        .probe = pl_probe,
                                        .open = pl_open,
                                        .close = pl_close,
                                        .header = pl_header,
                                        .decode = pl_decode,
                                        .tag = TAG,
                                        .know = pl_know,
                                        .ranges = pl_ranges,
                                        .points = pl_points,
                                        .start = pl_start,
                                        .stop = pl_stop };

/* ---- the data ---- */

typedef enum change { NONE, ROWS, HEADS, LABELS } change;

/* Every third sample is changed, and every file has the same size. */
static void write_shard(const char *name, change what)
{
    FILE *f = fopen(seam_path(name), "wb");

    assert_non_null(f);
    for (unsigned k = 0; k < N; k++) {
        uint8_t data[FIELD] = "PLN\n";
        int wide = (k % 2 == 0) != (what == HEADS && k % 3 == 0);
        char member[32], label[16];

        put_word(data + 4, wide ? 36 : 48);
        put_word(data + 8, wide ? 64 : 48);
        for (uint32_t i = HEAD; i < FIELD; i++)
            data[i] = (uint8_t)(i * 7 + i / 48 * 31 + k * 13 + (what == ROWS && k % 3 == 0));
        snprintf(member, sizeof member, "%06u.cls", k);
        snprintf(label, sizeof label, "%03u", what == LABELS && k % 3 == 0 ? 900 - k : k);
        tar_member(f, member, label, 3);
        snprintf(member, sizeof member, "%06u.jpg", k);
        tar_member(f, member, data, FIELD);
    }
    tar_end(f);
    assert_int_equal(fclose(f), 0);
}

static void make_points(const char *url)
{
    stk_index_options o = { .size = sizeof o, .cache_dir = seam_dir(), .jpeg = STK_YES };
    stk_index_report report = { .size = sizeof report };
    stk_error err;

    seam_ok(stk_index_build(&url, 1, &o, &report, &err), &err);
    assert_int_equal(report.jpegs, N); /* fields with points, of any kind */
}

/* ---- epochs ---- */

#define ROW (9 * 9 * 3)

typedef struct epoch {
    uint8_t pixels[N][ROW];
    int64_t label[N];
    stk_stats stats;
    stk_sight sight;
    uint64_t bytes; /* that the source read for it */
    uint64_t drawn; /* pictures of which draws were reported */
} epoch;

static void count_drawn(void *cookie, const stk_drawn *d)
{
    epoch *e = cookie;

    if (!d->op)
        __atomic_fetch_add(&e->drawn, 1, __ATOMIC_RELAXED);
}

static const stk_output outputs[] = {
    { "image", "from(jpg) | image | random_resized_crop(9, scale=(0.05, 0.5)) | to(u8)" },
    { "label", "from(cls) | int" },
    { "again", "from(jpg) | image | random_resized_crop(5, scale=(0.05, 0.2)) | to(u8)" },
};

static stk_loader *open_loader(const char *scheme, const char *name, int32_t workers,
                               uint32_t n_outputs, epoch *e)
{
    const stk_draw_observer watch = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof watch,
                                      .name = "count",
                                      .cookie = e,
                                      .drawn = count_drawn };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = outputs,
                             .n_outputs = n_outputs,
                             .batch_size = 6,
                             .num_workers = workers,
                             .prefetch = 1,
                             .seed = 4,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .watch = e ? &watch : NULL };
    stk_dataset *ds = seam_open(scheme, name, NULL);
    stk_loader *l = seam_loader(&ds, 1, &o);

    stk_dataset_unref(&ds);
    return l;
}

static epoch *read_epoch(const char *scheme, const char *name, int32_t workers, uint32_t n_outputs)
{
    epoch *e = calloc(1, sizeof *e);
    stk_loader *l = open_loader(scheme, name, workers, n_outputs, e);
    uint64_t before = atomic_load(&far.bytes), rows = 0;
    stk_batch *b = NULL;
    stk_error err;
    stk_tensor t;
    int rc;

    assert_non_null(e);
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
            uint64_t id = stk_batch_ids(b)[i];

            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            memcpy(e->pixels[id], t.data, ROW);
            if (n_outputs == 1)
                continue;
            assert_int_equal(stk_batch_row(b, 1, i, &t), 0);
            memcpy(&e->label[id], t.data, sizeof(int64_t));
        }
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        seam_ok(rc, &err);
    assert_int_equal(rows, N);
    stk_loader_stats(l, &e->stats);
    e->sight.size = sizeof e->sight;
    stk_loader_sight(l, &e->sight);
    stk_loader_close(&l);
    e->bytes = atomic_load(&far.bytes) - before;
    return e;
}

static void check_same(const epoch *a, const epoch *b)
{
    assert_memory_equal(a->pixels, b->pixels, sizeof a->pixels);
    assert_memory_equal(a->label, b->label, sizeof a->label);
}

/* An epoch over the remote file equals one over the same local file. */
static epoch *check_far(const char *name, int32_t workers, uint32_t n_outputs)
{
    epoch *here = read_epoch("", name, STK_NONE, n_outputs);
    epoch *there = read_epoch("far://", name, workers, n_outputs);

    check_same(here, there);
    assert_int_equal(here->stats.bytes_unread, 0);
    free(here);
    return there;
}

/* ---- tests ---- */

static const char *far_url(const char *name)
{
    static char url[600];

    snprintf(url, sizeof url, "far://%s", seam_path(name));
    return url;
}

/* What is counted is what the source read. */
static void only_what_is_seen(void **state)
{
    epoch *e;

    (void)state;
    write_shard("seen.tar", NONE);
    far.version = "one";
    e = check_far("seen.tar", STK_NONE, 1); /* no points are there */
    assert_int_equal(e->stats.bytes_unread, 0);
    assert_int_equal(atomic_load(&by_parts), 0);
    free(e);
    make_points(far_url("seen.tar"));
    e = check_far("seen.tar", STK_NONE, 1);
    assert_true(atomic_load(&by_parts) >= N);
    assert_true(e->stats.bytes < (uint64_t)N * FIELD * 8 / 10);
    /* holes of this size are read rather than left out, and then are not unread */
    assert_int_equal(e->stats.bytes_unread + e->bytes, e->stats.samples * FIELD);
    free(e);
}

static void with_labels_and_two_outputs(void **state)
{
    uint64_t read;
    epoch *e;

    (void)state;
    write_shard("labels.tar", NONE);
    far.version = "one";
    make_points(far_url("labels.tar"));
    for (int32_t workers = STK_NONE; workers <= 3; workers += 2) {
        e = check_far("labels.tar", workers, 3);
        assert_true(e->stats.bytes_unread > 0);
        read = e->stats.samples * FIELD - e->stats.bytes_unread;
        if (workers == STK_NONE) /* a field that two outputs read is counted once */
            assert_int_equal(e->bytes, read);
        free(e);
    }
}

/* Of another version is an error, which says so. */
static void versions_are_checked(void **state)
{
    stk_loader *l;
    stk_batch *b = NULL;
    stk_error err;

    (void)state;
    write_shard("versions.tar", NONE);
    far.version = "one";
    make_points(far_url("versions.tar"));
    l = open_loader("far://", "versions.tar", STK_NONE, 3, NULL);
    write_shard("versions.tar", HEADS);
    far.version = "two";
    assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_ESTALE);
    assert_non_null(strstr(err.message, "reading failed"));
    stk_loader_close(&l);
}

/* Without versions points and short fields may be another file's: nothing is taken from them. */
static void no_versions_no_parts(void **state)
{
    static const struct {
        const char *name;
        change what;
    } cases[] = { { "rows.tar", ROWS }, { "heads.tar", HEADS }, { "labels-too.tar", LABELS } };
    epoch *e;

    (void)state;
    far.version = "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_shard(cases[i].name, NONE);
        make_points(far_url(cases[i].name));
        write_shard(cases[i].name, cases[i].what);
        e = check_far(cases[i].name, 3, 3);
        assert_int_equal(e->stats.bytes_unread, 0);
        free(e);
    }
}

/* A store that says the same version of other bytes: rows notice by their sums, and are read whole,
 * once. */
static void stale_rows_are_read_whole(void **state)
{
    int before;
    epoch *e;

    (void)state;
    write_shard("stale.tar", NONE);
    far.version = "one";
    make_points(far_url("stale.tar"));
    write_shard("stale.tar", ROWS);
    before = atomic_load(&stale);
    e = check_far("stale.tar", STK_NONE, 1);
    assert_true(atomic_load(&stale) - before >= N / 3);
    assert_true(e->stats.bytes_unread > 0);
    assert_int_equal(e->drawn, e->stats.samples); /* once, though rows were begun again */
    assert_int_equal((uint64_t)e->sight.jpegs, e->stats.samples);
    free(e);
    e = check_far("stale.tar", STK_NONE, 3);
    assert_int_equal(e->drawn, 2 * e->stats.samples);
    free(e);
    free(check_far("stale.tar", 3, 3));
}

/* ---- a decoder whose points are not its own ---- */

static int liar_probe(stk_bytes head)
{
    return head.len >= 4 && !memcmp(head.data, "LIE\n", 4);
}

static int liar_points(void *ctx, const stk_media_reader *read, stk_scratch *scratch,
                       stk_bytes *out, stk_error *err)
{
    (void)ctx, (void)read, (void)scratch, (void)err;
    *out = (stk_bytes){ (const uint8_t *)"B900", 4 }; /* a short field, to those who read it */
    return 0;
}

static void points_begin_with_their_tag(void **state)
{
    stk_index_options o = { .size = sizeof o, .cache_dir = seam_dir(), .jpeg = STK_YES };
    stk_index_report report = { .size = sizeof report };
    stk_decoder liar = pl_decoder;
    const char *url = seam_path("liar.tar");
    FILE *f = fopen(url, "wb");
    stk_error err;

    (void)state;
    tar_member(f, "0.lie", "LIE\n and more", 13);
    tar_end(f);
    assert_int_equal(fclose(f), 0);
    liar.name = "liar";
    liar.tag = '?';
    liar.probe = liar_probe;
    liar.points = liar_points;
    seam_ok(stk_plugin_add(STK_PLUGIN_DECODER, &liar, &err), &err);
    assert_int_equal(stk_index_build(&url, 1, &o, &report, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "decoder liar made points that do not begin with its tag"));
}

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &far_source, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_DECODER, &pl_decoder, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return atomic_load(&contexts) || atomic_load(&sessions); /* all were closed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_seen),
        cmocka_unit_test(with_labels_and_two_outputs),
        cmocka_unit_test(versions_are_checked),
        cmocka_unit_test(no_versions_no_parts),
        cmocka_unit_test(stale_rows_are_read_whole),
        cmocka_unit_test(points_begin_with_their_tag), /* last: it adds a decoder */
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
