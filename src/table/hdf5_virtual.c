/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_virtual.c - virtual data sets: rows put together from data sets of other files.
 *
 * Every file that is named is opened with the data set and compared when it is touched again, as
 * all files are.  What HDF5 reads as fill values because a file is missing is refused here:
 * training on them would go unnoticed.  A source is never virtual itself, so that nothing leads in
 * a circle.  Files outside the folder of the one that names them are not opened unless the
 * environment allows it: a data file should not decide what else is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "table/hdf5_data.h"

#define SLAB_MAX ((uint64_t)32 << 20) /* bytes of rows that are made together, about */

struct stk_hdf5_source { /* a data set that virtual ones are made of */
    stk_hdf5 *file;      /* which has no fields of its own; the next source may have it too */
    int owns_file;
    stk_h5_group sets;
    stk_hdf5_column column;
};

typedef struct piece { /* a mapping, checked */
    uint32_t source;
    stk_h5_select from, to;
    uint64_t each; /* elements in a row of it */
} piece;

struct stk_hdf5_virtual {
    const char *name; /* the set's */
    piece *piece;
    uint32_t n;
    stk_hdf5_source *source;
    uint32_t n_sources;
    uint64_t slab_elements; /* that the largest slab of a source has */
};

/* ---- sources ---- */

static int refuse(stk_h5_set *s, const char *file, const char *why, stk_error *err)
{
    char text[300];

    snprintf(text, sizeof text, "its part in %.100s: %.150s", file, why);
    s->reason = stk_strdup(text);
    s->refused = s->reason;
    return s->reason ? 0 : stk_fail_nomem(err, sizeof text);
}

/* The file's path; NULL: it may not be opened, or there is no memory. */
static char *source_path(const char *main, const char *name)
{
    const char *slash = strrchr(main, '/'), *allowed = getenv("STOKER_HDF5_OUTSIDE");
    size_t folder = slash ? (size_t)(slash - main) + 1 : 0, n = strlen(name);
    char *path;

    if (!strcmp(name, "."))
        return stk_strdup(main);
    if (!stk_name_below((stk_bytes){ (const uint8_t *)main, folder },
                        (stk_bytes){ (const uint8_t *)name, n }) &&
        !(allowed && !strcmp(allowed, "1")))
        return NULL;
    if (*name == '/')
        return stk_strdup(name);
    path = stk_alloc(folder + n + 1);
    if (path) {
        memcpy(path, main, folder);
        memcpy(path + folder, name, n + 1);
    }
    return path;
}

static void source_fini(stk_hdf5_source *s)
{
    stk_hdf5_column_fini(&s->column);
    stk_h5_group_fini(&s->sets);
    if (s->owns_file)
        stk_hdf5_ops.close(&s->file->base.data);
}

static int new_file(stk_hdf5 **out, const stk_hdf5 *h, const char *path, stk_error *err)
{
    stk_hdf5 *f = STK_NEW(stk_hdf5);
    stk_dataset_options o = { .size = sizeof o };
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    stk_table_init(&f->base, &stk_hdf5_ops, STK_DATA_BLOCKS, &o);
    f->base.names.store = h->base.names.store;
    rc = stk_names_add(&f->base.names, path, strlen(path), err);
    f->shard = rc == 0 ? STK_NEW(stk_hdf5_shard) : NULL;
    if (rc == 0 && !f->shard)
        rc = stk_fail_nomem(err, sizeof *f->shard);
    if (rc == 0)
        rc = stk_table_files(&f->base, 1, err);
    if (rc == 0)
        *out = f;
    else
        stk_hdf5_ops.close(&f->base.data);
    return rc;
}

/* The data set, read from its file for the first time. */
static int read_source(stk_hdf5_source *s, const char *name, stk_error *err)
{
    stk_table_file *t = &s->file->base.file[0];
    stk_hdf5_shard *shard = &s->file->shard[0];
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(s->file->base.names.name[0], s->file->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && t->size && (t->size != info.size || t->mtime_ns != info.mtime_ns))
        rc = stk_fail(err, STK_ESTALE, "it changed while it was opened");
    t->size = info.size;
    t->mtime_ns = info.mtime_ns;
    t->id = info.id;
    if (rc == 0)
        rc = stk_h5_file_init(&shard->head, f, err);
    if (rc == 0)
        rc = stk_h5_find(&s->sets, &shard->head, name, err);
    shard->head.file = NULL;
    stk_file_close(&f);
    if (rc == STK_ENOTFOUND && s->sets.n == 0)
        return stk_fail(err, rc, "the file, or %.60s in it, is not there", name);
    return rc;
}

static const char *source_refused(const stk_h5_set *have, const stk_h5_set *want)
{
    if (have->refused)
        return have->refused;
    if (have->layout == STK_H5_VIRTUAL)
        return "it is virtual itself, which is not supported";
    if (have->type.kind != want->type.kind || have->type.dtype != want->type.dtype ||
        have->type.size != want->type.size || have->type.unsigned64 != want->type.unsigned64 ||
        have->type.pad != want->type.pad)
        return "it has another type";
    return NULL;
}

/* before: the source that was opened before this one, or NULL. */
static int open_source(stk_hdf5_source *s, const stk_hdf5 *h, const char *path,
                       const stk_hdf5_source *before, const char *name, stk_error *err)
{
    int rc = 0;

    if (before && !strcmp(before->file->base.names.name[0], path))
        s->file = before->file;
    else {
        rc = new_file(&s->file, h, path, err);
        s->owns_file = rc == 0;
    }
    return rc == 0 ? read_source(s, name, err) : rc;
}

/* Opened and fit for use?  Else *why. */
static int try_source(stk_hdf5_virtual *v, const stk_hdf5 *h, const char *path, const char *name,
                      const stk_h5_set *set, stk_error *why)
{
    stk_hdf5_source *s = &v->source[v->n_sources++];
    int rc = open_source(s, h, path, v->n_sources > 1 ? s - 1 : NULL, name, why);
    const char *refused = rc == 0 ? s->sets.n ? source_refused(&s->sets.set[0], set)
                                              : "there is no data set of this name"
                                  : NULL;

    if (rc == 0 && !refused)
        refused = stk_hdf5_column_init(&s->column, &s->sets.set[0]);
    if (rc == 0 && !refused)
        rc = stk_hdf5_claim(&s->column, s->file->base.file[0].size, why);
    return refused ? stk_fail(why, STK_ENOTSUP, "%s", refused) : rc;
}

/* ---- mappings ---- */

typedef struct named { /* mappings by what they name, so that each source is opened once */
    const stk_h5_mapping *m;
    uint32_t number;
} named;

static int by_name(const void *a, const void *b)
{
    const stk_h5_mapping *x = ((const named *)a)->m, *y = ((const named *)b)->m;
    int file = strcmp(x->file, y->file);

    return file ? file : strcmp(x->set, y->set);
}

static int init_piece(stk_hdf5_virtual *v, const stk_h5_set *set, const named *k)
{
    const stk_hdf5_column *c = &v->source[v->n_sources - 1].column;
    piece *p = &v->piece[k->number];
    uint64_t from, to, elements = c->slab_rows * (c->value_bytes / set->type.size);

    *p = (piece){ v->n_sources - 1, k->m->from, k->m->to, 1 };
    if (!stk_h5_select_settle(&p->from, c->set->rank, c->set->dim, &from) ||
        !stk_h5_select_settle(&p->to, set->rank, set->dim, &to) || from != to)
        return 0;
    for (uint32_t d = 1; d < set->rank; d++)
        p->each *= p->to.count[d] * p->to.block[d];
    v->slab_elements = elements > v->slab_elements ? elements : v->slab_elements;
    return 1;
}

static int add_piece(stk_hdf5_virtual *v, const stk_hdf5 *h, const char *main, stk_h5_set *set,
                     const named *k, stk_error *err)
{
    int again = v->n_sources && !by_name(k, k - 1);
    char *path = again ? NULL : source_path(main, k->m->file);
    stk_error why = { 0 };
    int rc = 0;

    if (!again && !path)
        return refuse(
            set, k->m->file,
            "it is outside the folder; STOKER_HDF5_OUTSIDE=1 in the environment allows that", err);
    if (!again && try_source(v, h, path, k->m->set, set, &why) < 0)
        rc = refuse(set, k->m->file, why.message, err);
    else if (!init_piece(v, set, k))
        rc = refuse(set, k->m->file, "it has other dimensions than the part says", err);
    stk_free(path);
    return rc;
}

static int open_pieces(stk_hdf5_virtual *v, const stk_hdf5 *h, const char *main, stk_h5_set *set,
                       stk_error *err)
{
    uint32_t n = set->n_mappings, used = 0;
    named *all = stk_alloc((n + 1) * sizeof *all);
    int rc = 0;

    v->piece = stk_zalloc(n + 1, sizeof *v->piece);
    v->source = stk_zalloc(n + 1, sizeof *v->source);
    if (!all || !v->piece || !v->source)
        rc = stk_fail_nomem(err, n * sizeof *v->source);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (!set->mapping[i].none)
            all[used] = (named){ &set->mapping[i], used }, used++;
    if (used)
        qsort(all, used, sizeof *all, by_name);
    for (uint32_t i = 0; rc == 0 && !set->refused && i < used; i++)
        rc = add_piece(v, h, main, set, &all[i], err);
    v->n = used;
    stk_free(all);
    return rc;
}

static void virtual_fini(stk_hdf5_virtual *v)
{
    for (uint32_t i = 0; v->source && i < v->n_sources; i++)
        source_fini(&v->source[i]);
    stk_free(v->source);
    stk_free(v->piece);
}

void stk_hdf5_virtual_fini(stk_hdf5_shard *s)
{
    for (uint32_t i = 0; i < s->n_virtual; i++)
        virtual_fini(&s->virtual[i]);
    stk_free(s->virtual);
}

int stk_hdf5_virtual_open(stk_hdf5 *h, uint64_t shard, stk_error *err)
{
    stk_hdf5_shard *s = &h->shard[shard];
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->sets.n; i++)
        n += s->sets.set[i].layout == STK_H5_VIRTUAL && !s->sets.set[i].refused;
    s->virtual = n ? stk_zalloc(n, sizeof *s->virtual) : NULL;
    if (n && !s->virtual)
        return stk_fail_nomem(err, n * sizeof *s->virtual);
    for (uint32_t i = 0; n && i < s->sets.n; i++) {
        stk_h5_set *set = &s->sets.set[i];

        if (set->layout != STK_H5_VIRTUAL || set->refused)
            continue;
        s->virtual[s->n_virtual].name = set->name;
        STK_TRY(open_pieces(&s->virtual[s->n_virtual++], h, h -> base.names.name[shard], set, err));
    }
    return 0;
}

void stk_hdf5_virtual_init(stk_hdf5_column *c, const stk_hdf5_shard *s)
{
    uint64_t row = c->value_bytes / c->set->type.size, rows, most;

    for (uint32_t i = 0; i < s->n_virtual; i++)
        if (!strcmp(s->virtual[i].name, c->set->name))
            c->virtual = &s->virtual[i];
    if (!row || !c->virtual)
        return;
    rows = c->virtual->slab_elements / row; /* a chunk of a source is unpacked for few slabs */
    most = SLAB_MAX / c->row_bytes;
    rows = rows < most ? rows : most;
    c->slab_rows = rows > c->slab_rows ? rows : c->slab_rows;
}

uint64_t stk_hdf5_virtual_bytes(const stk_hdf5_virtual *v)
{
    uint64_t bytes = 0;

    for (uint32_t k = 0; v && k < v->n_sources; k++)
        if (v->source[k].owns_file)
            bytes += v->source[k].file->base.file[0].size;
    return bytes;
}

void stk_hdf5_virtual_print(const stk_hdf5_shard *s, stk_fingerprint *out)
{
    for (uint32_t i = 0; i < s->n_virtual; i++)
        for (uint32_t k = 0; k < s->virtual[i].n_sources; k++)
            out->content = stk_hash64(
                out->content, &s->virtual[i].source[k].file->base.file[0].size, sizeof(uint64_t));
}

/* ---- rows ---- */

typedef struct making { /* rows [first, first + n) of a virtual data set */
    const stk_hdf5_column *c;
    uint64_t first, size; /* size: bytes of an element */
    uint8_t *dst;
    uint8_t *slab; /* of a source, the last one that was read */
    size_t room;
    uint32_t source;
    uint64_t number; /* of the slab; UINT64_MAX: none */
} making;

/* The slab with this element of a source: *at: the element's place in it; *left: elements from it
 * on. */
static int get_slab(making *m, const piece *p, uint64_t element, uint64_t *at, uint64_t *left,
                    stk_error *err)
{
    stk_hdf5_source *src = &m->c->virtual->source[p->source];
    stk_hdf5_at from = { src->file, 0, &src->column };
    uint64_t inner = src->column.value_bytes / m->size,
             number = element / inner / src->column.slab_rows;
    size_t room = (size_t)(src->column.slab_rows * src->column.value_bytes);

    if (m->number != number || m->source != p->source) {
        if (room > m->room) {
            if (m->slab)
                stk_large_free(m->slab, m->room);
            m->slab = stk_large_alloc(room);
            m->room = m->slab ? room : 0;
            if (!m->slab)
                return stk_fail_nomem(err, room);
        }
        m->number = UINT64_MAX;
        STK_TRY(stk_hdf5_slab(&from, number, (stk_bytes){ 0 }, m->slab, err));
        m->number = number;
        m->source = p->source;
    }
    *at = element - number * src->column.slab_rows * inner;
    *left = stk_hdf5_slab_len(&from, number) * inner - *at;
    return 0;
}

/* Elements [i, end) of a piece; all are in the rows that are made. */
static int put_elements(making *m, const piece *p, uint64_t i, uint64_t end, stk_error *err)
{
    const stk_h5_set *set = m->c->set, *source = m->c->virtual->source[p->source].column.set;
    uint64_t inner = m->c->value_bytes / m->size;

    while (i < end) {
        uint64_t run, from_run, at = 0, left = 0;
        uint64_t to = stk_h5_select_at(&p->to, set->dim, i, &run),
                 from = stk_h5_select_at(&p->from, source->dim, i, &from_run);

        STK_TRY(get_slab(m, p, from, &at, &left, err));
        run = run < from_run ? run : from_run;
        run = run < left ? run : left;
        run = run < end - i ? run : end - i;
        memcpy(m->dst + (to - m->first * inner) * m->size, m->slab + at * m->size,
               (size_t)(run * m->size));
        i += run;
    }
    return 0;
}

/* What a piece has of rows [first, end). */
static int put_piece(making *m, const piece *p, uint64_t end, stk_error *err)
{
    uint64_t start = p->to.start[0], stride = p->to.stride[0], block = p->to.block[0];
    uint64_t k = m->first > start ? (m->first - start) / stride : 0;

    for (; k < p->to.count[0] && start + k * stride < end; k++) {
        uint64_t a = start + k * stride, b = a + block;

        a = a > m->first ? a : m->first;
        b = b < end ? b : end;
        if (a < b)
            STK_TRY(put_elements(m, p, (k * block + a - start - k * stride) * p->each,
                                 (k * block + b - start - k * stride) * p->each, err));
    }
    return 0;
}

int stk_hdf5_virtual_rows(const stk_hdf5_column *c, uint64_t first, uint64_t n, uint8_t *dst,
                          stk_error *err)
{
    making m = {
        .c = c, .first = first, .size = c->set->type.size, .dst = dst, .number = UINT64_MAX
    };
    int rc = 0;

    /* in their order: where two overlap the later one counts */
    for (uint32_t i = 0; rc == 0 && i < c->virtual->n; i++)
        if (c->virtual->piece[i].to.start[0] < first + n)
            rc = put_piece(&m, &c->virtual->piece[i], first + n, err);
    if (m.slab)
        stk_large_free(m.slab, m.room);
    return rc;
}
