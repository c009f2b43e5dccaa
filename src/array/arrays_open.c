/* SPDX-License-Identifier: Apache-2.0 */
/* arrays_open.c - names of files -> arrays whose rows are counted and whose bytes are checked.
 *
 * Of a list of token files only the sizes are asked for; the first one says of which kind they
 * are, and each of the others is held to that when it is first touched.  So ten thousand of them
 * open in milliseconds.  An .npy says its own shape, so each header is read. */
#include "array/arrays_open.h"

#include <stdlib.h>
#include <string.h>
#include <stoker/store.h>
#include <sys/stat.h>

#include "base/cpu.h"
#include "base/size.h"
#include "format/npy_head.h"
#include "base/jobs.h"

#define HEAD 4096 /* bytes that hold nearly every .npy header */
#define LLMC_HEAD 1024
#define MANY 256 /* files: worth threads of their own */

typedef struct raw { /* what is said of files without a header */
    stk_dtype dtype;
    uint32_t ndim;
    const int64_t *shape;
} raw;

static int at_file(int rc, const char *name, uint64_t offset, stk_error *err)
{
    if (rc < 0)
        stk_error_at(err, name, offset, (stk_bytes){ 0 });
    return rc;
}

static int ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);

    return a >= b && !strcmp(s + a - b, end);
}

static int arrays_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    if (o->dtype || o->ndim)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (ends_with(urls[i], ".npy") || ends_with(urls[i], ".npz") || ends_with(urls[i], ".bin"))
            return 1;
    return 0;
}

/* ---- arrays and parts ---- */

static int array_init(stk_array *a, const char *name, uint32_t parts, stk_error *err)
{
    a->name = stk_strdup(name);
    a->part = stk_zalloc(parts, sizeof *a->part);
    a->first = stk_zalloc((size_t)parts + 1, sizeof *a->first);
    a->n_parts = parts;
    return a->name && a->part && a->first ? 0 : stk_fail_nomem(err, parts * sizeof *a->part);
}

/* Type and shape of a row. */
static int array_type(stk_array *a, stk_dtype dtype, uint32_t ndim, const int64_t *shape,
                      stk_error *err)
{
    size_t bytes = stk_dtype_size(dtype);

    if (!bytes)
        return stk_fail(err, STK_EINVAL, "array %.60s has no type", a->name);
    if (ndim > STK_ROW_DIMS)
        return stk_fail(err, STK_ENOTSUP, "array %.60s: a row has %u dimensions, at most %d",
                        a->name, ndim, STK_ROW_DIMS);
    a->dtype = dtype;
    a->ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        a->shape[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape[i], &bytes) ||
            bytes > PTRDIFF_MAX)
            return stk_fail(err, STK_EINVAL, "array %.60s: a row of that shape is too large",
                            a->name);
    }
    a->row_bytes = a->pitch = bytes;
    if (!bytes)
        return stk_fail(err, STK_ENOTSUP, "array %.60s: its rows have no bytes", a->name);
    return 0;
}

static int same_type(const stk_array *a, const stk_npy *n)
{
    return a->dtype == n->dtype && a->ndim + 1 == n->ndim &&
           !memcmp(a->shape, n->shape + 1, a->ndim * sizeof *a->shape);
}

/* ---- .npy ---- */

static int npy_read(stk_file *f, uint64_t at, uint64_t size, stk_npy *out, stk_error *err)
{
    size_t len = size < HEAD ? (size_t)size : HEAD;
    uint8_t *head = stk_alloc(STK_NPY_HEAD);
    int rc = head ? stk_file_read(f, at, head, len, err) : stk_fail_nomem(err, STK_NPY_HEAD);

    if (rc == 0)
        rc = stk_npy_head((stk_bytes){ head, len }, out, err);
    if (rc < 0 && head && out->offset > len && out->offset <= size) {
        len = (size_t)out->offset;
        rc = stk_file_read(f, at, head, len, err);
        if (rc == 0)
            rc = stk_npy_head((stk_bytes){ head, len }, out, err);
    }
    stk_free(head);
    return rc;
}

/* Can rows be taken out of it as it is stored? */
static int npy_check(const stk_npy *n, uint64_t size, stk_error *err)
{
    uint64_t bytes = n->count * stk_dtype_size(n->dtype);

    if (!n->ndim)
        return stk_fail(err, STK_ENOTSUP, "npy: one number has no rows");
    if (n->swapped)
        return stk_fail(
            err, STK_ENOTSUP,
            "npy: its numbers are big-endian: save a.astype(a.dtype.newbyteorder(\"<\"))");
    if (n->fortran && n->ndim > 1)
        return stk_fail(err, STK_ENOTSUP,
                        "npy: it is stored in Fortran's order, in which a row is scattered: save "
                        "numpy.ascontiguousarray(a)");
    if (bytes > size || n->offset > size - bytes) {
        stk_fail(err, STK_ECORRUPT,
                 "npy: truncated: %" PRIu64 " numbers of type %s need %" PRIu64 " bytes, and the "
                 "file has %" PRIu64,
                 n->count, stk_dtype_name(n->dtype), n->offset + bytes, size);
        stk_error_at(err, NULL, size, (stk_bytes){ 0 });
        return STK_ECORRUPT;
    }
    return 0;
}

static int npy_part(stk_array *a, uint32_t i, stk_error *err)
{
    stk_piece *p = &a->part[i];
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    stk_npy n = { 0 };
    int rc = stk_url_open(STK_URL(p->name, p->store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0)
        rc = npy_read(f, 0, info.size, &n, err);
    if (rc == 0)
        rc = npy_check(&n, info.size, err);
    stk_file_close(&f);
    if (rc == 0 && !i)
        rc = array_type(a, n.dtype, n.ndim - 1, n.shape + 1, err);
    if (rc == 0 && !same_type(a, &n))
        rc = stk_fail(err, STK_EINVAL,
                      "npy: its rows have another type or shape than those of the first file");
    p->offset = n.offset;
    p->size = info.size;
    a->first[i + 1] = a->first[i] + (rc == 0 ? (uint64_t)n.shape[0] : 0);
    return at_file(rc, p->name, STK_NO_OFFSET, err);
}

/* ---- .bin: tokens, or rows of a type and shape that is said ---- */

static int file_size(const stk_piece *p, uint64_t *size, stk_error *err)
{
    const char *name = p->name;
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    struct stat st;
    int rc;

    if (name[0] == '/' && stat(name, &st) == 0 && S_ISREG(st.st_mode)) {
        *size = (uint64_t)st.st_size;
        return 0;
    }
    rc = stk_url_open(STK_URL(name, p->store), &f, err);
    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    stk_file_close(&f);
    *size = info.size;
    return at_file(rc, name, STK_NO_OFFSET, err);
}

/* Rows of a file of `size` bytes: whole ones after `offset` bytes. */
static int plain_part(stk_array *a, uint32_t i, uint64_t offset, uint64_t size, stk_error *err)
{
    stk_piece *p = &a->part[i];

    if (!size)
        return at_file(stk_fail(err, STK_ECORRUPT, "the file is empty: write it again or leave it"),
                       p->name, 0, err);
    if (size < offset)
        return at_file(stk_fail(err, STK_ECORRUPT,
                                "%" PRIu64 " bytes end in the header of llm.c's token files: it is "
                                "truncated, or of another kind than the first shard",
                                size),
                       p->name, size, err);
    if ((size - offset) % a->row_bytes)
        return at_file(stk_fail(err, STK_ECORRUPT,
                                "%" PRIu64
                                " bytes are not a whole number of rows of %zu bytes (%s): "
                                "it is truncated, or of another type (dtype=)",
                                size - offset, a->row_bytes, stk_dtype_name(a->dtype)),
                       p->name, size - (size - offset) % a->row_bytes, err);
    p->offset = offset;
    p->size = size;
    a->first[i + 1] = a->first[i] + (size - offset) / a->row_bytes;
    return 0;
}

static int raw_parts(stk_array *a, const raw *r, stk_error *err)
{
    STK_TRY(array_type(a, r->dtype ? r->dtype : STK_U16, r->ndim, r->shape, err));
    for (uint32_t i = 0; i < a->n_parts; i++) {
        uint64_t size;

        STK_TRY(file_size(&a->part[i], &size, err));
        STK_TRY(plain_part(a, i, 0, size, err));
    }
    return 0;
}

/* 1: it is a token file of llm.c; *head are its first two words. */
static int llmc_probe(const stk_piece *p, uint64_t *head, stk_error *err)
{
    const char *name = p->name;
    struct {
        int32_t magic, version;
    } h;
    uint64_t size;
    stk_file *f = NULL;
    int rc;

    STK_TRY(file_size(p, &size, err));
    if (size < LLMC_HEAD)
        return 0;
    rc = stk_url_open(STK_URL(name, p->store), &f, err);
    if (rc == 0)
        rc = at_file(stk_file_read(f, 0, &h, sizeof h, err), name, 0, err);
    stk_file_close(&f);
    STK_TRY(rc);
    if (h.magic != STK_LLMC_U16 && h.magic != STK_LLMC_U32)
        return 0;
    if (h.version != (h.magic == STK_LLMC_U16 ? 1 : 7))
        return at_file(stk_fail(err, STK_ENOTSUP,
                                "a token file of llm.c with version %d; known are "
                                "1 (u16) and 7 (u32)",
                                h.version),
                       name, 4, err);
    memcpy(head, &h, sizeof *head);
    return 1;
}

static int llmc_parts(stk_array *a, uint64_t head, stk_error *err)
{
    STK_TRY(array_type(a, (uint32_t)head == STK_LLMC_U16 ? STK_U16 : STK_U32, 0, NULL, err));
    for (uint32_t i = 0; i < a->n_parts; i++) {
        uint64_t size;

        STK_TRY(file_size(&a->part[i], &size, err));
        STK_TRY(plain_part(a, i, LLMC_HEAD, size, err));
        a->part[i].head = head;
    }
    return 0;
}

/* "x.bin" -> "x.idx"; *out is stk_alloc()ed. */
static int idx_name(const char *bin, char **out, stk_error *err)
{
    size_t len = strlen(bin);

    *out = ends_with(bin, ".bin") ? stk_strdup(bin) : stk_strdup("");
    if (!*out)
        return stk_fail_nomem(err, len);
    if (**out)
        memcpy(*out + len - 3, "idx", 3);
    return 0;
}

/* A shard's .idx, by any thread. */
static int megatron_look(void *cookie, uint64_t i, stk_error *err)
{
    stk_piece *p = &((stk_array *)cookie)->part[i];
    char *name = NULL;
    stk_bytes idx;
    int rc;

    STK_TRY(file_size(p, &p->size, err));
    STK_TRY(idx_name(p->name, &name, err));
    p->docs = STK_NEW(stk_megatron);
    rc = p->docs ? stk_map_file(name, p->store, &p->docs_map, &idx, err) : stk_fail_nomem(err, 64);
    if (rc == 0)
        rc = stk_megatron_read(idx, p->size, p->docs, err);
    at_file(rc, name, STK_NO_OFFSET, err);
    stk_free(name);
    return rc;
}

static int megatron_part(stk_array *a, uint32_t i, stk_error *err)
{
    const stk_piece *p = &a->part[i];

    if (!i)
        STK_TRY(array_type(a, p->docs->dtype, 0, NULL, err));
    if (p->docs->dtype != a->dtype)
        return at_file(stk_fail(err, STK_EINVAL, "its tokens are %s, those of the first shard %s",
                                stk_dtype_name(p->docs->dtype), stk_dtype_name(a->dtype)),
                       p->name, STK_NO_OFFSET, err);
    if (p->size)
        return plain_part(a, i, 0, p->size, err);
    a->first[i + 1] = a->first[i]; /* its index says so too */
    return 0;
}

/* Of many shards the system's calls take most of the time, and on a network their waiting: they
 * are made side by side. */
static int megatron_parts(stk_array *a, stk_error *err)
{
    STK_TRY(stk_jobs_run(a->n_parts < MANY ? 1 : 0, a->n_parts, megatron_look, a, err));
    for (uint32_t i = 0; i < a->n_parts; i++)
        STK_TRY(megatron_part(a, i, err));
    return 0;
}

/* Files of tokens, by what is beside the first one and how it begins. */
static int token_parts(stk_array *a, stk_error *err)
{
    uint64_t head = 0;
    int rc;

    if (stk_has_idx(&a->part[0]))
        return megatron_parts(a, err);
    rc = llmc_probe(&a->part[0], &head, err);
    STK_TRY(rc);
    a->bare = !rc;
    return rc ? llmc_parts(a, head, err) : raw_parts(a, &(raw){ 0 }, err);
}

/* dtype= is for files that don't say their type. */
static int says_its_own(const stk_piece *p, stk_error *err)
{
    uint64_t head;
    int rc = llmc_probe(p, &head, err);

    if (rc > 0)
        return at_file(stk_fail(err, STK_EINVAL,
                                "it begins with llm.c's header, which says the type of its "
                                "tokens: leave dtype="),
                       p->name, 0, err);
    return rc;
}

/* ---- an array of files ---- */

static int names_of(const char *const *urls, size_t n, stk_names *out, stk_error *err)
{
    int rc = stk_names_expand(out, urls, n, err);

    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ENOTFOUND, "no files are named");
    if (rc == 0 && out->n > UINT32_MAX / 2)
        rc = stk_fail(err, STK_ELIMIT, "%zu files are too many", out->n);
    return rc;
}

static int of_one_kind(const stk_names *names, stk_error *err)
{
    int npy = ends_with(names->name[0], ".npy");

    for (size_t i = 1; i < names->n; i++)
        if (ends_with(names->name[i], ".npy") != npy || ends_with(names->name[i], ".npz"))
            return stk_fail(err, STK_EINVAL,
                            "%.80s and %.80s are files of two kinds: they make no one array",
                            names->name[0], names->name[i]);
    return 0;
}

/* The names become the array's. */
static int array_files(stk_array *a, const char *name, stk_names *names, const raw *r,
                       stk_error *err)
{
    STK_TRY(of_one_kind(names, err));
    STK_TRY(array_init(a, name, (uint32_t)names->n, err));
    for (uint32_t i = 0; i < a->n_parts; i++) {
        a->part[i].name = names->name[i];
        a->part[i].store = names->store;
        names->name[i] = NULL;
    }
    if (ends_with(a->part[0].name, ".npy")) {
        if (r->dtype || r->ndim)
            return stk_fail(err, STK_EINVAL,
                            "dtype= and shape= are for files that don't say their "
                            "own; an .npy does");
        for (uint32_t i = 0; i < a->n_parts; i++)
            STK_TRY(npy_part(a, i, err));
    } else if (r->dtype || r->ndim) {
        if (!r->ndim)
            STK_TRY(says_its_own(&a->part[0], err));
        STK_TRY(raw_parts(a, r, err));
    } else {
        STK_TRY(token_parts(a, err));
    }
    a->rows = a->first[a->n_parts];
    return 0;
}

/* ---- .npz ---- */

static int npz_member(stk_array *a, const char *name, stk_file *f, const stk_zip_member *m,
                      stk_error *err)
{
    stk_piece *p;
    stk_npy n = { 0 };

    STK_TRY(array_init(a, m->name, 1, err));
    if (ends_with(a->name, ".npy"))
        a->name[strlen(a->name) - 4] = 0;
    p = &a->part[0];
    p->name = stk_strdup(name);
    if (!p->name)
        return stk_fail_nomem(err, strlen(name));
    if (m->method == STK_ZIP_DEFLATED) {
        p->owned = stk_alloc(m->size + 1);
        if (!p->owned)
            return stk_fail_nomem(err, m->size);
        STK_TRY(stk_zip_inflate(f, m, p->owned, err));
        STK_TRY(stk_npy_head((stk_bytes){ p->owned, m->size }, &n, err));
        p->data = (const uint8_t *)p->owned + n.offset;
    } else {
        STK_TRY(npy_read(f, m->offset, m->size, &n, err));
        p->size = m->offset + m->size;
    }
    STK_TRY(npy_check(&n, m->size, err));
    p->offset = m->offset + n.offset;
    a->rows = a->first[1] = (uint64_t)n.shape[0];
    return array_type(a, n.dtype, n.ndim - 1, n.shape + 1, err);
}

static int npz_bound(const stk_zip *z, stk_error *err)
{
    uint64_t bytes = 0, most = stk_memory_total() / 4;

    for (size_t i = 0; i < z->n; i++)
        if (z->member[i].method == STK_ZIP_DEFLATED)
            bytes = z->member[i].size > most || bytes > most ? most + 1 : bytes + z->member[i].size;
    if (bytes > most)
        return stk_fail(err, STK_ELIMIT,
                        "its deflated arrays unpack to more than a quarter of the memory (%" PRIu64
                        " MB): save them with numpy.savez(), which does not deflate",
                        stk_size_mb(most));
    if (!z->n || z->n > STK_MAX_ARRAYS)
        return stk_fail(err, STK_ELIMIT, "it has %zu arrays: 1 to %d", z->n, STK_MAX_ARRAYS);
    return 0;
}

static int npz_open(stk_arrays *s, const char *name, const stk_dataset_options *o, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    stk_zip z = { 0 };
    int rc = stk_url_open(STK_URL(name, o->store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0)
        rc = stk_zip_read(f, info.size, &z, err);
    if (rc == 0)
        rc = npz_bound(&z, err);
    if (rc == 0)
        rc = stk_npz_check(f, name, &z, o, err);
    if (rc == 0) {
        s->array = stk_zalloc(z.n, sizeof *s->array);
        rc = s->array ? 0 : stk_fail_nomem(err, z.n * sizeof *s->array);
    }
    for (size_t i = 0; rc == 0 && i < z.n; i++) {
        s->n++;
        rc = npz_member(&s->array[i], name, f, &z.member[i], err);
        if (rc == 0 && s->array[i].part)
            s->array[i].part[0].store = o->store;
        for (size_t k = 0; rc == 0 && k < i; k++)
            if (!strcmp(s->array[k].name, s->array[i].name))
                rc = stk_fail(err, STK_ECORRUPT, "two arrays are called %.60s", s->array[i].name);
        if (rc < 0)
            stk_error_at(
                err, NULL, STK_NO_OFFSET,
                (stk_bytes){ (const uint8_t *)z.member[i].name, strlen(z.member[i].name) });
    }
    stk_zip_fini(&z);
    stk_file_close(&f);
    return at_file(rc, name, STK_NO_OFFSET, err);
}

/* ---- a data set ---- */

/* Remote files are brought to a local disk, to be mapped there.  STK_END: one of them can't be. */
static int bring(const stk_piece *p, stk_error *err)
{
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(p->name, p->store), &f, err);

    if (rc == 0)
        rc = stk_file_fill(f, err);
    stk_file_close(&f);
    return at_file(rc, p->name, STK_NO_OFFSET, err);
}

static int bring_all(const stk_arrays *s, stk_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; rc == 0 && k < s->array[i].n_parts; k++) {
            const stk_piece *p = &s->array[i].part[k];

            if (!p->data && p->name[0] != '/')
                rc = bring(p, err);
        }
    return rc;
}

/* How files are looked at follows from how much they are: "STK_MAP=0" reads them, for tests. */
static int settle(stk_arrays *s, stk_error *err)
{
    const char *map = getenv("STK_MAP");
    int even = 1, rc;

    for (uint32_t i = 0; i < s->n; i++) {
        stk_array *a = &s->array[i];

        a->set = s;
        even &= a->rows == s->array[0].rows;
        for (uint32_t k = 0; k < a->n_parts; k++)
            if (!a->part[k].data) {
                s->files++;
                s->bytes += (a->first[k + 1] - a->first[k]) * a->row_bytes;
            }
    }
    s->rows = even ? s->array[0].rows : 0;
    if (s->bytes > stk_memory_total() / 2 || (map && !strcmp(map, "0")))
        return 0;
    rc = bring_all(s, err);
    s->mapped = rc == 0;
    return rc == STK_END ? 0 : rc;
}

/* *out: the caller's, with its base made. */
static int arrays_new(stk_arrays **out, stk_error *err)
{
    *out = STK_NEW(stk_arrays);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    stk_arrays_init(*out);
    return 0;
}

static int check_options(const stk_dataset_options *o, stk_error *err)
{
    if (o->n_classes || o->n_columns || o->jpeg == STK_YES)
        return stk_fail(err, STK_EINVAL,
                        "classes, columns and jpeg are for shards with an index; these are arrays");
    return 0;
}

static int arrays_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                       size_t n, const stk_dataset_options *o, stk_error *err)
{
    raw r = { o->dtype, o->ndim, o->shape };
    stk_arrays *s = NULL;
    stk_names names = { .store = o->store };
    int rc = check_options(o, err);

    (void)kind;
    if (rc == 0)
        rc = arrays_new(&s, err);
    if (rc == 0)
        rc = names_of(urls, n, &names, err);
    if (rc == 0 && names.n == 1 && ends_with(names.name[0], ".npz")) {
        s->kind = "npz";
        rc = npz_open(s, names.name[0], o, err);
    } else if (rc == 0) {
        int npy = ends_with(names.name[0], ".npy");

        s->kind = npy ? "npy" : o->ndim ? "raw" : "tokens";
        s->array = STK_NEW(stk_array);
        s->n = s->array != NULL;
        rc = s->array ? array_files(s->array, npy || o->ndim ? "array" : "tokens", &names, &r, err)
                      : stk_fail_nomem(err, sizeof *s->array);
    }
    stk_names_fini(&names);
    if (rc == 0) {
        s->base.log = (stk_log){ o->log, o->log_cookie };
        rc = settle(s, err);
    }
    if (rc < 0)
        stk_arrays_close(&s);
    *out = s ? &s->base : NULL;
    return rc;
}

const stk_data_kind stk_data_arrays = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "arrays",
    .help = "arrays and token files: .npy, .npz, .bin",
    .meant = arrays_meant,
    .open = arrays_open,
    .rows = 0,
};

static int memory_array(stk_array *a, const stk_array_in *in, stk_error *err)
{
    STK_TRY(array_init(a, in->name, 1, err));
    STK_TRY(array_type(a, in->dtype, in->ndim, in->shape, err));
    if (in->rows > 1 && (in->stride < 0 || (uint64_t)in->stride < a->row_bytes))
        return stk_fail(err, STK_EINVAL,
                        "array %.60s: rows of %zu bytes are %" PRId64 " bytes apart", in->name,
                        a->row_bytes, in->stride);
    a->pitch = in->rows > 1 ? (size_t)in->stride : a->row_bytes;
    a->part[0].data = in->data ? in->data : (const void *)"";
    a->rows = a->first[1] = in->rows;
    return 0;
}

static int join_one(stk_arrays *s, const stk_array_in *in, stk_error *err)
{
    stk_array *a = &s->array[s->n++];
    raw r = { in->dtype, in->ndim, in->shape };
    stk_names names = { .store = in->store };
    int rc;

    if (!in->name || !*in->name)
        return stk_fail(err, STK_EINVAL, "an array needs a name");
    for (uint32_t i = 0; i + 1 < s->n; i++)
        if (!strcmp(s->array[i].name, in->name))
            return stk_fail(err, STK_EINVAL, "two arrays are called %.60s", in->name);
    if (!in->urls)
        return memory_array(a, in, err);
    rc = names_of(in->urls, in->n_urls, &names, err);
    if (rc == 0 && ends_with(names.name[0], ".npz"))
        rc = stk_fail(err, STK_ENOTSUP, "array %.60s: an .npz has arrays of its own: open it alone",
                      in->name);
    if (rc == 0)
        rc = array_files(a, in->name, &names, &r, err);
    stk_names_fini(&names);
    return rc;
}

static const char *file_of(const stk_array *a)
{
    const char *name = a->part[0].name, *slash = name ? strrchr(name, '/') : NULL;

    return slash ? slash + 1 : name ? name : "memory";
}

int stk_dataset_join(stk_dataset **out, const stk_array_in *in, size_t n, stk_error *err)
{
    stk_arrays *s = NULL;
    int rc = arrays_new(&s, err);

    if (rc == 0 && (!n || n > STK_MAX_ARRAYS))
        rc = stk_fail(err, STK_EINVAL, "%zu arrays make no data set: 1 to %d", n, STK_MAX_ARRAYS);
    if (rc == 0) {
        s->kind = in[0].urls ? "npy" : "memory";
        s->array = stk_zalloc(n, sizeof *s->array);
        rc = s->array ? 0 : stk_fail_nomem(err, n * sizeof *s->array);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = in[i].store == in[0].store
                 ? join_one(s, &in[i], err)
                 : stk_fail(err, STK_EINVAL,
                            "arrays that are joined have one store: %.40s has another", in[i].name);
        if (rc == 0 && s->array[i].rows != s->array[0].rows)
            rc = stk_fail(err, STK_EINVAL,
                          "%.40s has %" PRIu64 " rows (%.40s) and %.40s has %" PRIu64
                          " (%.40s): arrays that are joined have a row for every sample",
                          s->array[0].name, s->array[0].rows, file_of(&s->array[0]), in[i].name,
                          s->array[i].rows, file_of(&s->array[i]));
    }
    if (rc == 0)
        rc = settle(s, err);
    if (rc < 0)
        stk_arrays_close(&s);
    else
        s->base.store = stk_store_ref(in[0].store);
    *out = s ? &s->base : NULL;
    return rc;
}
