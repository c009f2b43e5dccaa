/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_points.c - row seek points of a data set: made once, kept in a file beside the index's
 * place.
 *
 * HASH.rows is a head, a record per data file (size, mtime, checksum of its footer), a record per
 * chunk, and the tables of points.h as they are in memory.  It has a checksum over all of it, and
 * every table is checked when it is loaded; a file that does not fit the data is made again.  Where
 * it cannot be written the points are kept in memory. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/text.h"
#include "table/parquet_data.h"

#define MAGIC "STKROWS1"
#define HEAD_GUESS 4096u

typedef struct file_head {
    char magic[8];
    uint32_t crc, zero; /* of everything after this struct */
    uint64_t bytes, files, chunks;
} file_head;

typedef struct file_record {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t footer_crc, zero;
} file_record;

typedef struct chunk_record {
    uint64_t file, rows, at; /* at: of its tables in the file */
    uint32_t chunk, cuts;
    uint32_t spans, parts, blocks, zero; /* spans 0: pages are read whole */
} chunk_record;

static_assert(sizeof(file_head) == 40 && sizeof(file_record) == 24 && sizeof(chunk_record) == 48,
              "on disk");

typedef struct wanted { /* a chunk that wants points */
    uint64_t file;
    uint32_t chunk;
    int cuts;
} wanted;

typedef struct build {
    stk_parquet *p;
    wanted *list;
    uint64_t n;
    _Atomic uint64_t done; /* bytes */
    uint64_t total;
    stk_progress_fn progress;
    void *cookie;
} build;

/* Large values whose codec has no points: each row costs whole pages. */
static void warn_repack(const build *b, uint64_t file, uint32_t c)
{
    const stk_pq_file *f = b->p->shard[file].meta;
    const stk_pq_leaf *l = &f->leaf[c % f->n_leaves];
    stk_pq_chunk as = f->chunk[c];
    int cuts;

    as.codec = STK_PQ_RAW;
    if (file == 0 && c < f->n_leaves && f->chunk[c].codec > STK_PQ_SNAPPY &&
        stk_pq_points_wanted(l, &as, f->group[0].rows, &cuts))
        stk_log_line(
            &b->p->base.data.log, STK_LOG_WARN,
            "column %s: its large values are packed with %s, so that every row in random order "
            "unpacks a whole page: write it with compression none or snappy",
            l->name,
            f->chunk[c].codec == STK_PQ_ZSTD   ? "zstd"
            : f->chunk[c].codec == STK_PQ_GZIP ? "gzip"
                                               : "a codec without seek points");
}

static int list_wanted(build *b, stk_error *err)
{
    uint64_t cap = 0;

    for (uint64_t i = 0; i < b->p->base.names.n; i++) {
        const stk_pq_file *f = b->p->shard[i].meta;

        for (uint32_t c = 0; c < f->n_groups * f->n_leaves; c++) {
            int cuts;

            warn_repack(b, i, c);
            if (!stk_pq_points_wanted(&f->leaf[c % f->n_leaves], &f->chunk[c],
                                      f->group[c / f->n_leaves].rows, &cuts))
                continue;
            if (b->n == cap) {
                wanted *grown = stk_grow(b->list, cap * sizeof *grown,
                                         (cap ? 2 * cap : 16) * sizeof *grown);

                if (!grown)
                    return stk_fail_nomem(err, cap * sizeof *grown);
                b->list = grown;
                cap = cap ? 2 * cap : 16;
            }
            b->list[b->n++] = (wanted){ i, c, cuts };
            b->total += f->chunk[c].len;
        }
    }
    return 0;
}

/* ---- making them ---- */

/* The page at `at`, whole, in *bytes. */
static int read_page(stk_file *f, uint64_t at, uint64_t end, stk_text *bytes, size_t *len,
                     stk_error *err)
{
    uint64_t n = HEAD_GUESS;
    stk_pq_page page;
    int rc = STK_PENDING;

    while (rc == STK_PENDING) {
        n = n < end - at ? n : end - at;
        if (bytes->cap < n) {
            stk_free(bytes->s);
            *bytes = (stk_text){ .s = stk_alloc((size_t)n), .cap = (size_t)n };
            if (!bytes->s)
                return stk_fail_nomem(err, (size_t)n);
        }
        STK_TRY(stk_file_read(f, at, bytes->s, (size_t)n, err));
        rc = stk_pq_page_read((stk_bytes){ (uint8_t *)bytes->s, (size_t)n }, &page, err);
        if (rc == STK_PENDING && n == end - at)
            return stk_fail(err, STK_ECORRUPT, "a page's header goes on after its column's end");
        if (rc == 0 && (uint64_t)page.head + page.packed > n) { /* now all of it */
            if ((uint64_t)page.head + page.packed > end - at)
                return stk_fail(err, STK_ECORRUPT, "a page goes on after its column's end");
            n = (uint64_t)page.head + page.packed;
            rc = STK_PENDING;
        } else
            n *= 8;
    }
    *len = rc == 0 ? (size_t)page.head + page.packed : 0;
    return rc;
}

static int make_points(build *b, const wanted *w, stk_pq_points_build *x, stk_error *err)
{
    const stk_pq_file *f = b->p->shard[w->file].meta;
    const stk_pq_chunk *c = &f->chunk[w->chunk];
    uint64_t at = c->start, end = c->start + c->len, rows = f->group[w->chunk / f->n_leaves].rows;
    stk_text bytes = { 0 };
    stk_file *file = NULL;
    int rc = stk_table_acquire(&b->p->base.data, w->file, &file, err);

    while (rc == 0 && at < end && x->points.n_rows < rows) {
        size_t len = 0;

        rc = read_page(file, at, end, &bytes, &len, err);
        if (rc == 0)
            rc = stk_pq_points_page(x, (stk_bytes){ (uint8_t *)bytes.s, len }, at, err);
        if (rc < 0)
            stk_error_at(err, b->p->base.names.name[w->file], at, (stk_bytes){ 0 });
        at += len;
        atomic_fetch_add_explicit(&b->done, len, memory_order_relaxed);
    }
    stk_free(bytes.s);
    if (rc == 0 && stk_pq_points_check(&x->points, rows, b->p->base.file[w->file].size, err) < 0)
        rc = STK_END;
    return rc;
}

/* What is damaged is found again, and told, when it is read: building goes on without. */
static int make_one(void *cookie, uint64_t i, stk_error *err)
{
    build *b = cookie;
    const wanted *w = &b->list[i];
    const stk_pq_file *f = b->p->shard[w->file].meta;
    const stk_pq_leaf *l = &f->leaf[w->chunk % f->n_leaves];
    stk_pq_points_build x = { .cuts = w->cuts };
    stk_pq_table *t = STK_NEW(stk_pq_table);
    int rc;

    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    x.decode = (stk_pq_decode){ l, f->chunk[w->chunk].codec, NULL, (uint64_t)1 << 30 };
    rc = make_points(b, w, &x, err);
    if (rc == 0) {
        t->points = x.points;
        t->rows = x.points.n_rows;
        x.points = (stk_pq_points){ 0 };
        atomic_store_explicit(&b->p->shard[w->file].table[w->chunk], t, memory_order_release);
        t = NULL;
    }
    stk_pq_points_build_fini(&x);
    stk_pq_table_close(&t);
    return rc == STK_END || rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == STK_ELIMIT ? 0 : rc;
}

static int tick(void *cookie)
{
    build *b = cookie;

    return b->progress &&
           b->progress(b->cookie, atomic_load_explicit(&b->done, memory_order_relaxed), b->total);
}

/* ---- the file ---- */

static size_t tables_bytes(const stk_pq_points *p)
{
    size_t n = p->n_spans * sizeof *p->span + p->n_parts * sizeof *p->part +
               p->n_rows * sizeof *p->point + p->n_blocks * sizeof *p->block +
               (p->cut ? p->n_rows * sizeof *p->cut : 0);

    return (n + 7) & ~(size_t)7;
}

static void put(uint8_t **at, const void *src, size_t len)
{
    if (len)
        memcpy(*at, src, len);
    *at += len;
}

static void put_tables(uint8_t *at, const stk_pq_points *p)
{
    put(&at, p->span, p->n_spans * sizeof *p->span);
    put(&at, p->part, p->n_parts * sizeof *p->part);
    put(&at, p->point, p->n_rows * sizeof *p->point);
    put(&at, p->cut, p->cut ? p->n_rows * sizeof *p->cut : 0);
    put(&at, p->block, p->n_blocks * sizeof *p->block);
}

static const stk_pq_points *points_of(const build *b, uint64_t i)
{
    const wanted *w = &b->list[i];
    const stk_pq_table *t = atomic_load_explicit(&b->p->shard[w->file].table[w->chunk],
                                                 memory_order_acquire);

    return t ? &t->points : NULL;
}

static uint8_t *to_bytes(const build *b, size_t *len)
{
    static const stk_pq_points none;
    size_t head = sizeof(file_head) + b->p->base.names.n * sizeof(file_record) +
                  b->n * sizeof(chunk_record),
           at = head;
    file_head h = { .files = b->p->base.names.n, .chunks = b->n };
    uint8_t *all, *to;

    for (uint64_t i = 0; i < b->n; i++)
        at += points_of(b, i) ? tables_bytes(points_of(b, i)) : 0;
    *len = at;
    all = stk_zalloc(1, at);
    if (!all)
        return NULL;
    memcpy(h.magic, MAGIC, 8);
    h.bytes = at;
    to = all + sizeof h;
    for (uint64_t i = 0; i < b->p->base.names.n; i++) {
        const stk_table_file *s = &b->p->base.file[i];
        file_record r = { s->size, s->mtime_ns, (uint32_t)s->print, 0 };

        put(&to, &r, sizeof r);
    }
    at = head;
    for (uint64_t i = 0; i < b->n; i++) {
        const stk_pq_points *p = points_of(b, i) ? points_of(b, i) : &none;
        chunk_record r = { b->list[i].file,  p->n_rows,      at,
                           b->list[i].chunk, p->cut != NULL, p->n_spans,
                           p->n_parts,       p->n_blocks,    0 };

        put(&to, &r, sizeof r);
        put_tables(all + at, p);
        at += p->n_spans ? tables_bytes(p) : 0;
    }
    h.crc = stk_crc32c(0, all + sizeof h, *len - sizeof h);
    memcpy(all, &h, sizeof h);
    return all;
}

/* HASH.rows where the index would be HASH.idx. */
static void rows_path(const char *index, char *out, size_t size)
{
    size_t len = strlen(index);

    out[0] = 0;
    if (len > 4)
        snprintf(out, size, "%.*s.rows", (int)(len - 4), index);
}

static int write_to(const char *index, const uint8_t *bytes, size_t len, char *path, size_t size)
{
    char folder[1300], *slash;
    stk_error err;

    rows_path(index, path, size);
    if (!path[0])
        return 0;
    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash) {
        *slash = 0;
        for (char *p = folder + 1; *p; p++)
            if (*p == '/') {
                *p = 0;
                mkdir(folder, 0777);
                *p = '/';
            }
        mkdir(folder, 0777);
    }
    return stk_atomic_put(path, bytes, len, STK_COMMIT_FAST, &err) == 0;
}

static void save(build *b, const stk_index_home *home)
{
    size_t len;
    uint8_t *bytes = to_bytes(b, &len);
    char *path = b->p->base.data.index_path;
    size_t size = sizeof b->p->base.data.index_path;

    if (!bytes || (!write_to(home->beside, bytes, len, path, size) &&
                   !write_to(home->cache, bytes, len, path, size))) {
        path[0] = 0;
        stk_log_line(&b->p->base.data.log, STK_LOG_WARN,
                     "row seek points could not be written: they are made again next time");
    }
    b->p->base.data.index_bytes = bytes ? len : 0;
    stk_free(bytes);
}

/* ---- loading ---- */

static int read_all(const char *path, uint8_t **out, size_t *len)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t at = 0;
    ssize_t n = 1;

    *out = NULL;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(file_head) && S_ISREG(st.st_mode))
        *out = stk_alloc((size_t)st.st_size);
    while (*out && n > 0 && at < (size_t)st.st_size) {
        n = read(fd, *out + at, (size_t)st.st_size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    *len = at;
    return *out && at == (size_t)st.st_size;
}

static int fits(const build *b, const uint8_t *bytes, size_t len)
{
    file_head h;

    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, MAGIC, 8) != 0 || h.bytes != len || h.files != b->p->base.names.n ||
        h.chunks != b->n || (len - sizeof h) / sizeof(file_record) < h.files ||
        (len - sizeof h - h.files * sizeof(file_record)) / sizeof(chunk_record) < h.chunks ||
        stk_crc32c(0, bytes + sizeof h, len - sizeof h) != h.crc)
        return 0;
    for (uint64_t i = 0; i < h.files; i++) {
        const stk_table_file *s = &b->p->base.file[i];
        file_record r;

        memcpy(&r, bytes + sizeof h + i * sizeof r, sizeof r);
        if (r.size != s->size || r.mtime_ns != s->mtime_ns || r.footer_crc != (uint32_t)s->print)
            return 0;
    }
    return 1;
}

static void *cut_off(uint8_t **at, size_t *left, uint64_t n, size_t size)
{
    void *here = *at;

    if (n > *left / size) {
        *left = 0;
        return NULL;
    }
    *at += n * size;
    *left -= (size_t)n * size;
    return n ? here : NULL;
}

/* Tables of one chunk, pointing into the file's bytes. */
static int load_chunk(const build *b, uint8_t *bytes, size_t len, const chunk_record *r,
                      const wanted *w)
{
    const stk_pq_file *f = b->p->shard[w->file].meta;
    stk_pq_points p = {
        .n_rows = r->rows, .n_spans = r->spans, .n_parts = r->parts, .n_blocks = r->blocks
    };
    stk_pq_table *t;
    uint8_t *at;
    size_t left;

    if (r->file != w->file || r->chunk != w->chunk || r->at > len || r->at % 8)
        return 0;
    if (!r->spans)
        return 1;
    at = bytes + r->at;
    left = len - (size_t)r->at;
    p.span = cut_off(&at, &left, p.n_spans, sizeof *p.span);
    p.part = cut_off(&at, &left, p.n_parts, sizeof *p.part);
    p.point = cut_off(&at, &left, p.n_rows, sizeof *p.point);
    p.cut = r->cuts ? cut_off(&at, &left, p.n_rows, sizeof *p.cut) : NULL;
    p.block = cut_off(&at, &left, p.n_blocks, sizeof *p.block);
    if (!p.span || !p.part || (p.n_rows && !p.point) || (p.n_blocks && !p.block) ||
        stk_pq_points_check(&p, f->group[w->chunk / f->n_leaves].rows,
                            b->p->base.file[w->file].size, NULL) < 0)
        return 0;
    t = STK_NEW(stk_pq_table);
    if (!t)
        return 0;
    t->points = p;
    t->rows = p.n_rows;
    atomic_store_explicit(&b->p->shard[w->file].table[w->chunk], t, memory_order_release);
    return 1;
}

static void forget(const build *b)
{
    for (uint64_t i = 0; i < b->n; i++) {
        stk_pq_table *t = atomic_exchange_explicit(
            &b->p->shard[b->list[i].file].table[b->list[i].chunk], NULL, memory_order_relaxed);

        stk_pq_table_close(&t);
    }
}

static int load(build *b, const char *index)
{
    size_t len = 0, skip = sizeof(file_head) + b->p->base.names.n * sizeof(file_record);
    uint8_t *bytes = NULL;
    char path[1300];
    int good;

    rows_path(index, path, sizeof path);
    good = path[0] && read_all(path, &bytes, &len) && fits(b, bytes, len);
    for (uint64_t i = 0; good && i < b->n; i++) {
        chunk_record r;

        memcpy(&r, bytes + skip + i * sizeof r, sizeof r);
        good = load_chunk(b, bytes, len, &r, &b->list[i]);
    }
    if (!good) {
        forget(b);
        stk_free(bytes);
        return 0;
    }
    b->p->points_file = bytes;
    b->p->base.data.index_bytes = len;
    snprintf(b->p->base.data.index_path, sizeof b->p->base.data.index_path, "%s", path);
    return 1;
}

int stk_parquet_points(stk_parquet *p, const stk_dataset_options *o, stk_error *err)
{
    build b = { .p = p, .progress = o->progress, .cookie = o->progress_cookie };
    stk_index_home home;
    int rc = list_wanted(&b, err);

    if (rc == 0 && b.n)
        rc = stk_index_home_find(&home, &p->base.names, o->cache_dir, err);
    if (rc == 0 && b.n && !load(&b, home.beside) && !load(&b, home.cache)) {
        stk_log_line(&p->base.data.log, STK_LOG_INFO,
                     "making row seek points of %" PRIu64 " column chunks, %" PRIu64 " MB", b.n,
                     b.total / 1000000);
        rc = stk_jobs_watch(o->num_workers, b.n, make_one, tick, &b, err);
        p->base.data.index_built = rc == 0;
        if (rc == 0)
            save(&b, &home);
    }
    stk_free(b.list);
    return rc;
}
