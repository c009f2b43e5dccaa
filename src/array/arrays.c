/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c - maps that are made at first touch, and rows out of them.
 *
 * A map is installed by compare-and-swap, so a lookup is one load.  Pages come in granules of
 * 2 MiB, each once: a byte a granule says that it is there.  The kernel may drop such pages again
 * when memory runs short and brings them back by itself.  A file that becomes shorter afterwards
 * would be a signal, and one that is written to has rows that do not go together, so its size and
 * time are asked for again now and then; what remains is the moment
 * between that look and the copy, and no map can close it: files are to be replaced, not rewritten
 * in place. */
#include "array/arrays.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/registry.h"
#include "data/data.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define GRANULE ((size_t)2 << 20)
#define MAX_OPEN_FILES 512u /* files that are read stay open up to so many */
#define MAX_MAPPED 64u      /* and so do files that are mapped, up to so many */

struct stk_map {
    uint8_t *data;      /* NULL: the file is read */
    stk_guarded *guard; /* NULL: it is not mapped */
    size_t len;         /* mapped */
    stk_file *file;     /* kept open; NULL: opened for every read */
    dev_t dev;          /* of what is mapped */
    ino_t ino;
    int64_t mtime_ns;        /* 0: not compared, as of what a cache holds */
    _Atomic uint64_t looked; /* when its size was last seen to be right */
    _Atomic uint8_t there[]; /* a granule each */
};

void stk_map_close(stk_map **m)
{
    stk_map *x = *m;

    *m = NULL;
    if (!x)
        return;
    stk_guarded_close(&x->guard);
    stk_file_close(&x->file);
    stk_free(x);
}

static int rewritten(const char *name, uint64_t has, uint64_t had, stk_error *err)
{
    int rc = stk_fail(err, STK_ESTALE,
                      "the file was written to: it has %" PRIu64 " bytes and had %" PRIu64
                      " when it was opened: open it "
                      "again, and replace files instead of writing into them",
                      has, had);

    stk_error_at(err, name, has, (stk_bytes){ 0 });
    return rc;
}

static int system_failed(const char *name, const char *what, stk_error *err)
{
    char text[96];
    int sys = errno, rc = stk_fail(err, sys == ENOMEM ? STK_ENOMEM : STK_EIO, "can't %s: %s", what,
                                   strerror_r(sys, text, sizeof text));

    stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static stk_map *map_new(size_t len, stk_error *err)
{
    size_t granules = len / GRANULE + 1;
    stk_map *m = stk_zalloc(1, sizeof *m + granules);

    if (!m)
        stk_fail_nomem(err, sizeof *m + granules);
    return m;
}

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int map_fd(const char *name, int fd, uint64_t size, stk_map **out, stk_error *err)
{
    struct stat st;
    stk_map *m;
    int rc = 0;

    if (fstat(fd, &st))
        return system_failed(name, "look at the file", err);
    if ((uint64_t)st.st_size < size)
        return rewritten(name, (uint64_t)st.st_size, size, err);
    m = map_new(size, err);
    if (!m)
        return STK_ENOMEM;
    m->dev = st.st_dev;
    m->ino = st.st_ino;
    m->mtime_ns = name[0] == '/' ? mtime_of(&st) : 0;
    m->len = size;
    if (size && stk_guarded_map(&m->guard, fd, size) < 0)
        rc = system_failed(name, "map the file", err);
    if (m->guard)
        m->data = (uint8_t *)(uintptr_t)stk_guarded_data(m->guard);
    if (rc < 0)
        stk_map_close(&m);
    *out = m;
    return rc;
}

static int is_there(const char *url, const stk_store *store)
{
    stk_file_info info;
    stk_file *f = NULL;
    int yes = stk_url_open(STK_URL(url, store), &f, NULL) == 0 &&
              stk_file_stat(f, &info, NULL) == 0;

    stk_file_close(&f);
    return yes;
}

int stk_has_idx(const stk_piece *p)
{
    size_t len = strlen(p->name);
    char name[PATH_MAX];
    struct stat st;

    if (len < 4 || len >= sizeof name || strcmp(p->name + len - 4, ".bin"))
        return 0;
    memcpy(name, p->name, len + 1);
    memcpy(name + len - 3, "idx", 3);
    return name[0] == '/' ? lstat(name, &st) == 0 : is_there(name, p->store);
}

/* Files of one kind: what the first one told of itself holds for this one too. */
static int check_kind(const stk_array *a, uint32_t part, stk_file *f, stk_error *err)
{
    const stk_piece *p = &a->part[part];
    uint64_t rows = a->first[part + 1] - a->first[part];
    struct {
        uint64_t kind;
        int32_t rows;
    } head = { 0 };
    uint32_t magic;
    int rc = 0;

    if (p->head || (a->bare && p->size >= sizeof head))
        rc = stk_file_read(f, 0, &head, 12, err);
    magic = (uint32_t)head.kind;
    if (rc == 0 && (p->head ? head.kind != p->head
                            : a->bare && (magic == STK_LLMC_U16 || magic == STK_LLMC_U32)))
        rc = stk_fail(err, STK_ECORRUPT,
                      "it does not begin as the first shard does: another kind of token file");
    else if (rc == 0 && p->head && (head.rows < 0 || (uint64_t)head.rows != rows))
        rc = stk_fail(
            err, STK_ECORRUPT, "its header says %d tokens, and the file has %" PRIu64 ": it is %s",
            head.rows, rows, head.rows > 0 && (uint64_t)head.rows > rows ? "truncated" : "damaged");
    else if (rc == 0 && a->bare && part && p->name[0] == '/' && stk_has_idx(p))
        rc = stk_fail(err, STK_EINVAL,
                      "an .idx is beside it, and none beside the first shard: shards are of "
                      "one kind, and each has its .idx");
    if (rc < 0)
        stk_error_at(err, p->name, p->head ? 8 : 0, (stk_bytes){ 0 });
    return rc;
}

static int map_open(const stk_array *a, uint32_t part, stk_map **out, stk_error *err)
{
    const stk_piece *p = &a->part[part];
    stk_file_info info;
    stk_file *f = NULL;
    stk_map *m = NULL;
    int rc = stk_url_open(STK_URL(p->name, p->store), &f, err);

    if (rc == 0)
        rc = check_kind(a, part, f, err);
    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && info.size < p->size)
        rc = rewritten(p->name, info.size, p->size, err);
    if (rc == 0 && a->set->mapped && stk_file_fill(f, err) == STK_END)
        rc = stk_fail(err, STK_EIO, "it is no longer in the cache: open the data set again");
    if (rc == 0 && a->set->mapped) {
        rc = map_fd(p->name, stk_file_fd(f), p->size, &m, err);
        if (rc == 0 && a->set->files <= MAX_MAPPED) {
            m->file = f;
            f = NULL;
        }
    } else if (rc == 0) {
        m = map_new(0, err);
        rc = m ? 0 : STK_ENOMEM;
        if (m && a->set->files <= MAX_OPEN_FILES) {
            m->file = f;
            f = NULL;
        }
        if (m && m->file && stk_file_fd(m->file) >= 0)
            posix_fadvise(stk_file_fd(m->file), 0, 0, POSIX_FADV_RANDOM);
    }
    stk_file_close(&f);
    *out = m;
    return rc;
}

static int map_of(const stk_array *a, uint32_t part, stk_map **out, stk_error *err)
{
    stk_piece *p = &a->part[part];
    stk_map *have = atomic_load_explicit(&p->map, memory_order_acquire), *mine = NULL;

    if (!have) {
        STK_TRY(map_open(a, part, &mine, err));
        if (atomic_compare_exchange_strong_explicit(&p->map, &have, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            have = mine;
        else
            stk_map_close(&mine); /* another thread was quicker */
    }
    *out = have;
    return 0;
}

/* Was what is mapped written to?  A file that was replaced is another one: ours lives on. */
static int is_rewritten(const stk_map *m, const char *name, uint64_t *size)
{
    struct stat st;
    int rc = m->file ? fstat(stk_file_fd(m->file), &st) : stat(name, &st);

    *size = rc < 0 ? 0 : (uint64_t)st.st_size;
    if (stk_guarded_torn(m->guard))
        return 1;
    if (rc < 0 || st.st_dev != m->dev || st.st_ino != m->ino)
        return 0;
    return *size < m->len || (m->mtime_ns && m->mtime_ns != mtime_of(&st));
}

/* Where the kernel is too old to bring pages in, they come by the first access. */
static int granule_bring(stk_map *m, const char *name, size_t g, stk_error *err)
{
    size_t at = g * GRANULE, len = m->len - at < GRANULE ? m->len - at : GRANULE;
    uint64_t size;
    int rc;

    do
        rc = madvise(m->data + at, len, MADV_POPULATE_READ);
    while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    if (rc < 0 && errno == EFAULT && is_rewritten(m, name, &size))
        return rewritten(name, size, m->len, err);
    if (rc < 0 && errno != EINVAL)
        return system_failed(name, "read the file", err);
    atomic_store_explicit(&m->there[g], 1, memory_order_relaxed);
    return 0;
}

static uint64_t coarse_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int look_again(stk_map *m, const char *name, uint64_t now, stk_error *err)
{
    uint64_t size;

    if (is_rewritten(m, name, &size))
        return rewritten(name, size, m->len, err);
    atomic_store_explicit(&m->looked, now, memory_order_relaxed);
    return 0;
}

static int map_ready(stk_map *m, const char *name, size_t at, size_t len, stk_error *err)
{
    uint64_t now = coarse_ns();

    if (now - atomic_load_explicit(&m->looked, memory_order_relaxed) >= STK_LOOK_NS)
        STK_TRY(look_again(m, name, now, err));
    for (size_t g = at / GRANULE; len && g <= (at + len - 1) / GRANULE; g++)
        if (!atomic_load_explicit(&m->there[g], memory_order_relaxed))
            STK_TRY(granule_bring(m, name, g, err));
    return 0;
}

/* Read in place of mapped: what others do to the file later is their affair. */
static int map_copy(const char *name, int fd, uint64_t size, stk_map **out, stk_error *err)
{
    stk_map *m = stk_alloc(sizeof *m + (size_t)size);
    size_t got = 0;
    ssize_t n = 1;
    int rc = 0;

    if (!m)
        return stk_fail_nomem(err, (size_t)size);
    *m = (stk_map){ .data = (uint8_t *)(m + 1), .len = (size_t)size };
    while (rc == 0 && n && got < m->len) {
        n = pread(fd, m->data + got, m->len - got, (off_t)got);
        got += n > 0 ? (size_t)n : 0;
        rc = n < 0 && errno != EINTR ? system_failed(name, "read the file", err) : 0;
    }
    if (rc == 0 && got < m->len)
        rc = rewritten(name, got, size, err);
    if (rc < 0)
        stk_map_close(&m);
    *out = m;
    return rc;
}

/* Bytes of an address. */
static int map_url(const char *name, const stk_store *store, stk_map **out, stk_bytes *bytes,
                   stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    stk_map *m = NULL;
    int rc = stk_url_open(STK_URL(name, store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0) {
        m = stk_alloc(sizeof *m + (size_t)info.size);
        rc = m ? 0 : stk_fail_nomem(err, (size_t)info.size);
    }
    if (rc == 0) {
        *m = (stk_map){ .data = (uint8_t *)(m + 1), .len = (size_t)info.size };
        rc = info.size ? stk_file_read(f, 0, m->data, m->len, err) : 0;
    }
    if (rc == 0)
        *bytes = (stk_bytes){ m->data, m->len };
    else
        stk_map_close(&m);
    stk_file_close(&f);
    *out = m;
    return rc;
}

int stk_map_file(const char *name, const stk_store *store, stk_map **out, stk_bytes *bytes,
                 stk_error *err)
{
    uint64_t size;
    int fd, rc;

    *out = NULL;
    if (name[0] != '/')
        return map_url(name, store, out, bytes, err);
    STK_TRY(stk_local_open(name, &fd, &size, err));
    rc = map_copy(name, fd, size, out, err);
    close(fd);
    if (rc == 0)
        *bytes = (stk_bytes){ (*out)->data, (size_t)size };
    return rc;
}

/* ---- rows ---- */

uint32_t stk_array_part(const stk_array *a, uint64_t row)
{
    uint32_t lo = 0, hi = a->n_parts;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (a->first[mid] <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int stk_piece_read(const stk_piece *p, uint64_t offset, void *dst, size_t len, stk_error *err)
{
    stk_file *f = NULL;
    int rc;

    if (p->data) {
        memcpy(dst, p->data + offset, len);
        return 0;
    }
    rc = stk_url_open(STK_URL(p->name, p->store), &f, err);
    if (rc == 0)
        rc = stk_file_read(f, p->offset + offset, dst, len, err);
    if (rc < 0)
        stk_error_at(err, p->name, STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_file_close(&f);
    return rc;
}

static int map_read(const stk_map *m, const stk_piece *p, uint64_t offset, void *into, size_t len,
                    stk_error *err)
{
    stk_file_info info;
    int rc;

    if (!m->file)
        return stk_piece_read(p, offset, into, len, err);
    rc = stk_file_read(m->file, p->offset + offset, into, len, err);
    if (rc < 0 && stk_file_stat(m->file, &info, NULL) == 0 && info.size < p->size)
        return rewritten(p->name, info.size, p->size, err);
    if (rc < 0)
        stk_error_at(err, p->name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

int stk_array_read(const stk_array *a, uint64_t row, uint64_t want, void *into, uint64_t *rows,
                   stk_error *err)
{
    uint32_t k = stk_array_part(a, row);
    stk_piece *p = &a->part[k];
    uint64_t at = (row - a->first[k]) * a->pitch, left = a->first[k + 1] - row;
    stk_map *m;

    *rows = a->pitch != a->row_bytes ? 1 : want < left ? want : left;
    if (p->data) {
        memcpy(into, p->data + at, (size_t)*rows * a->row_bytes);
        return 0;
    }
    STK_TRY(map_of(a, k, &m, err));
    return map_read(m, p, at, into, (size_t)*rows * a->row_bytes, err);
}

int stk_array_span(const stk_array *a, uint64_t row, uint64_t want, void *into, stk_span *out,
                   stk_error *err)
{
    uint32_t k = a->n_parts > 1 ? stk_array_part(a, row) : 0;
    stk_piece *p = &a->part[k];
    uint64_t at = (row - a->first[k]) * a->pitch, left = a->first[k + 1] - row;
    size_t bytes;
    stk_map *m;

    out->rows = want < left ? want : left;
    if (a->pitch != a->row_bytes && out->rows > 1)
        out->rows = 1;
    bytes = (size_t)out->rows * a->row_bytes;
    if (p->data) {
        out->data = p->data + at;
        return 0;
    }
    STK_TRY(map_of(a, k, &m, err));
    out->data = into;
    if (!m->data)
        return map_read(m, p, at, into, bytes, err);
    out->data = m->data + p->offset + at;
    return map_ready(m, p->name, (size_t)(p->offset + at), bytes, err);
}

int stk_array_copied_many(const stk_array *a, uint64_t row, stk_error *err)
{
    const stk_piece *p = &a->part[a->n_parts > 1 ? stk_array_part(a, row) : 0];
    stk_map *m = atomic_load_explicit(&p->map, memory_order_acquire);

    return p->data || !m || !m->data ? 0 : look_again(m, p->name, coarse_ns(), err);
}

stk_bytes stk_array_peek(const stk_array *a, uint64_t row, uint64_t rows)
{
    uint32_t k = a->n_parts > 1 ? stk_array_part(a, row) : 0;
    const stk_piece *p = &a->part[k];
    const stk_map *m = atomic_load_explicit(&p->map, memory_order_acquire);
    uint64_t at = (row - a->first[k]) * a->pitch, left = a->first[k + 1] - row;
    size_t len = (size_t)(rows < left ? rows : left) * a->row_bytes;

    if (p->data)
        return (stk_bytes){ p->data + at, len };
    return m && m->data ? (stk_bytes){ m->data + p->offset + at, len } : (stk_bytes){ 0 };
}

void stk_array_expect(const stk_array *a, uint64_t row, uint64_t rows)
{
    uint32_t k = stk_array_part(a, row);
    stk_piece *p = &a->part[k];
    uint64_t at = (row - a->first[k]) * a->pitch;
    stk_map *m;

    if (a->set->mapped || p->data || map_of(a, k, &m, NULL) < 0 || !m->file ||
        stk_file_fd(m->file) < 0)
        return;
    posix_fadvise(stk_file_fd(m->file), (off_t)(p->offset + at), (off_t)(rows * a->row_bytes),
                  POSIX_FADV_WILLNEED);
}

static void array_fini(stk_array *a)
{
    for (uint32_t i = 0; a->part && i < a->n_parts; i++) {
        stk_piece *p = &a->part[i];
        stk_map *m = atomic_load_explicit(&p->map, memory_order_relaxed);

        stk_map_close(&m);
        stk_map_close(&p->docs_map);
        stk_free(p->docs);
        stk_free(p->name);
        stk_free(p->owned);
    }
    stk_free(a->part);
    stk_free(a->first);
    stk_free(a->name);
}

void stk_arrays_close(stk_arrays **sp)
{
    stk_arrays *s = *sp;

    *sp = NULL;
    if (!s)
        return;
    for (uint32_t i = 0; s->array && i < s->n; i++)
        array_fini(&s->array[i]);
    stk_free(s->array);
    stk_free(s);
}

int stk_array_unchanged(const stk_array *a, stk_error *err)
{
    for (uint32_t k = 0; k < a->n_parts; k++) {
        stk_piece *p = &a->part[k];
        stk_map *m = atomic_load_explicit(&p->map, memory_order_acquire);
        uint64_t size;

        if (!m || !p->name)
            continue;
        if (m->file)
            STK_TRY(stk_named_unchanged(p->name, m->file, err));
        if (m->dev && is_rewritten(m, p->name, &size))
            return rewritten(p->name, size, m->len, err);
    }
    return 0;
}
