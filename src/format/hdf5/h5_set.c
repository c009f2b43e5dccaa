/* SPDX-License-Identifier: Apache-2.0 */
/* h5_set.c - a data set: the messages of its object header put together. */
#include <config.h>
#include <string.h>

#include "format/hdf5/h5_parts.h"

enum {
    SPACE = 1,
    LINKS = 2,
    TYPE = 3,
    OLD_FILL = 4,
    FILL = 5,
    LINK = 6,
    EXTERNAL = 7,
    LAYOUT = 8,
    GROUP = 10,
    FILTERS = 11,
    TABLE = 17
};
#define COMPACT_MAX 65536u
#define SETS 16384u /* fields of a group */

typedef struct reading {
    const stk_h5_file *f;
    stk_h5_set set;
    h5_members members;
    int has_space, has_type, has_layout, is_group;
    stk_bytes fill;       /* owned */
    uint32_t n_values;    /* of all filters */
    uint32_t heap_number; /* of what a virtual data set is made of */
} reading;

static int read_space(reading *r, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t version = (uint32_t)h5_uint(&c, 1), rank = (uint32_t)h5_uint(&c, 1), flags, kind;

    flags = (uint32_t)h5_uint(&c, 1);
    kind = (uint32_t)h5_uint(&c, 1);
    if (version == 1)
        h5_skip(&c, 4);
    else if (version != 2)
        return h5_bad(err, STK_NO_OFFSET, "a dataspace");
    r->has_space = 1;
    r->set.rank = rank > STK_H5_RANK ? STK_H5_RANK : rank;
    for (uint32_t i = 0; i < rank && i < STK_H5_RANK; i++)
        r->set.dim[i] = r->set.max[i] = h5_length(r->f, &c);
    for (uint32_t i = 0; flags & 1 && i < rank && rank <= STK_H5_RANK; i++) {
        uint64_t most = h5_length(r->f, &c);

        r->set.max[i] = r->f->lengths < 8 && most == ((uint64_t)1 << 8 * r->f->lengths) - 1
                            ? UINT64_MAX
                            : most;
    }
    if (rank > STK_H5_RANK)
        r->set.refused = "so many dimensions are not supported";
    if (!rank || (version == 2 && kind != 1))
        r->set.refused = "it is a single value, not rows";
    return c.bad ? h5_bad(err, STK_NO_OFFSET, "a dataspace is cut off") : 0;
}

static int read_index(reading *r, uint32_t flags, h5_cursor *c)
{
    stk_h5_index *x = &r->set.index;

    x->kind = (int)h5_uint(c, 1);
    x->raw_edges = flags & 1;
    x->size = UINT64_MAX;
    switch (x->kind) {
    case STK_H5_BY_SINGLE:
        if (flags & 2) {
            x->size = h5_length(r->f, c);
            x->mask = (uint32_t)h5_uint(c, 4);
        }
        break;
    case STK_H5_BY_IMPLICIT: break;
    case STK_H5_BY_FIXED: h5_skip(c, 1); break;
    case STK_H5_BY_GROWING: h5_skip(c, 5); break;
    case STK_H5_BY_TREE: h5_skip(c, 6); break;
    default: return 0;
    }
    x->addr = h5_address(r->f, c);
    return 1;
}

/* Chunks' lengths; the last one is the element's. */
static int read_chunk_dims(reading *r, h5_cursor *c, uint32_t n, uint32_t bytes, stk_error *err)
{
    stk_h5_set *s = &r->set;
    uint64_t size = 1, d = 0;

    if (n < 2 || n > STK_H5_RANK + 1) {
        s->refused = "so many dimensions are not supported";
        h5_skip(c, (uint64_t)n * bytes);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        d = h5_uint(c, bytes);
        if (!d || d > UINT32_MAX || size > ((uint64_t)1 << 40) / d)
            return h5_bad(err, STK_NO_OFFSET, "the size of its chunks");
        size *= d;
        if (i + 1 < n)
            s->chunk[i] = (uint32_t)d;
    }
    s->element = (uint32_t)d;
    return 0;
}

static int read_layout_body(reading *r, uint32_t version, h5_cursor *c, stk_error *err)
{
    stk_h5_set *s = &r->set;
    uint32_t class = (uint32_t)h5_uint(c, 1), n, flags = 0, bytes = 4;

    if (class == 0) {
        uint32_t len = (uint32_t)h5_uint(c, 2);
        const uint8_t *data = h5_skip(c, len);

        s->layout = STK_H5_COMPACT;
        s->size = len;
        s->here = data ? stk_alloc(len + 1u) : NULL;
        if (s->here)
            memcpy(s->here, data, len);
        return !data     ? h5_bad(err, STK_NO_OFFSET, "a layout is cut off")
               : s->here ? 0
                         : stk_fail_nomem(err, len);
    }
    if (class == 1) {
        s->layout = STK_H5_CONTIGUOUS;
        s->addr = h5_address(r->f, c);
        s->size = h5_length(r->f, c);
        return 0;
    }
    s->layout = STK_H5_CHUNKED;
    if (class == 3) {
        s->layout = STK_H5_VIRTUAL;
        s->addr = h5_address(r->f, c);
        r->heap_number = (uint32_t)h5_uint(c, 4);
        return 0;
    }
    if (class != 2) {
        s->refused = "its layout is not supported: repack the file (h5repack)";
        return 0;
    }
    flags = version > 3 ? (uint32_t)h5_uint(c, 1) : 0;
    n = (uint32_t)h5_uint(c, 1);
    if (version > 3)
        bytes = (uint32_t)h5_uint(c, 1);
    else
        s->index.addr = h5_address(r->f, c);
    if (!bytes || bytes > 8)
        return h5_bad(err, STK_NO_OFFSET, "a layout");
    STK_TRY(read_chunk_dims(r, c, n, bytes, err));
    if (version > 3 && !read_index(r, flags, c))
        s->refused =
            "its index of chunks is of a kind that is not supported: repack the file (h5repack)";
    return 0;
}

/* Versions 1 and 2, of HDF5 before 1.6.3. */
static int read_layout_old(reading *r, h5_cursor *c, stk_error *err)
{
    stk_h5_set *s = &r->set;
    uint32_t n = (uint32_t)h5_uint(c, 1), class = (uint32_t)h5_uint(c, 1);

    h5_skip(c, 5);
    if (class != 1 && class != 2) {
        s->refused = "its old layout is not supported: repack the file (h5repack)";
        return 0;
    }
    s->addr = s->index.addr = h5_address(r->f, c);
    s->layout = class == 1 ? STK_H5_CONTIGUOUS : STK_H5_CHUNKED;
    s->size = UINT64_MAX; /* its dimensions say */
    return class == 1 ? 0 : read_chunk_dims(r, c, n, 4, err);
}

static int read_layout(reading *r, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t version = (uint32_t)h5_uint(&c, 1);

    r->has_layout = 1;
    if (!version || version > 5)
        return h5_bad(err, STK_NO_OFFSET, "a layout");
    if (r->set.here)
        return h5_bad(err, STK_NO_OFFSET, "a data set with two layouts");
    STK_TRY(version < 3 ? read_layout_old(r, &c, err) : read_layout_body(r, version, &c, err));
    return c.bad ? h5_bad(err, STK_NO_OFFSET, "a layout is cut off") : 0;
}

static int take_filter_values(reading *r, uint32_t n, h5_cursor *c, stk_error *err)
{
    uint32_t *grown;

    if (4 * (uint64_t)n > h5_left(c))
        return h5_bad(err, STK_NO_OFFSET, "the filters of a data set");
    grown = stk_grow(r->set.values, r->n_values * sizeof *grown,
                     (r->n_values + n + 1u) * sizeof *grown);
    if (!grown)
        return stk_fail_nomem(err, n * sizeof *grown);
    r->set.values = grown;
    for (uint32_t i = 0; i < n; i++)
        grown[r->n_values++] = (uint32_t)h5_uint(c, 4);
    return 0;
}

static int read_filters(reading *r, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t version = (uint32_t)h5_uint(&c, 1), n = (uint32_t)h5_uint(&c, 1);

    if (version == 1)
        h5_skip(&c, 6);
    for (uint32_t i = 0; i < n && !c.bad; i++) {
        stk_h5_filter f = { .id = (uint16_t)h5_uint(&c, 2) };
        uint32_t name = version == 1 || f.id >= 256 ? (uint32_t)h5_uint(&c, 2) : 0;

        h5_skip(&c, 2);
        f.n = (uint32_t)h5_uint(&c, 2);
        h5_skip(&c, version == 1 ? (name + 7) & ~7u : name);
        if (r->set.n_filters < 8 && !c.bad)
            STK_TRY(take_filter_values(r, f.n, &c, err));
        else
            h5_skip(&c, 4 * (uint64_t)f.n);
        h5_skip(&c, version == 1 && f.n & 1 ? 4 : 0);
        if (r->set.n_filters < 8)
            r->set.filter[r->set.n_filters++] = f;
        else
            r->set.refused = "so many filters are not supported";
    }
    return c.bad ? h5_bad(err, STK_NO_OFFSET, "the filters of a data set") : 0;
}

static int read_fill(reading *r, uint32_t type, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t version = type == FILL ? (uint32_t)h5_uint(&c, 1) : 0, len;
    int has = 1;
    const uint8_t *bytes;
    uint8_t *copy;

    if (version == 3)
        has = h5_uint(&c, 1) >> 5 & 1;
    else if (version) {
        h5_skip(&c, 2);
        has = (int)h5_uint(&c, 1);
    }
    len = has ? (uint32_t)h5_uint(&c, 4) : 0;
    if (len > INT32_MAX) /* -1: it is not defined */
        len = 0;
    bytes = h5_skip(&c, len);
    if (!bytes || c.bad)
        return h5_bad(err, STK_NO_OFFSET, "a fill value is cut off");
    if (!len || (type == OLD_FILL && r->fill.len))
        return 0;
    copy = stk_alloc(len);
    if (!copy)
        return stk_fail_nomem(err, len);
    memcpy(copy, bytes, len);
    stk_free((void *)(uintptr_t)r->fill.data);
    r->fill = (stk_bytes){ copy, len };
    return 0;
}

static int take_message(void *cookie, const h5_message *m, stk_error *err)
{
    reading *r = cookie;

    switch (m->type) {
    case SPACE: return read_space(r, m->data, err);
    case TYPE:
        r->has_type = 1;
        h5_members_fini(&r->members);
        return h5_type_read(&r->set.type, &r->members, m->data, err);
    case LAYOUT: return read_layout(r, m->data, err);
    case FILTERS: return read_filters(r, m->data, err);
    case OLD_FILL:
    case FILL: return read_fill(r, m->type, m->data, err);
    case EXTERNAL: r->set.refused = "its bytes are in other files, which are not opened"; return 0;
    case LINKS:
    case LINK:
    case GROUP:
    case TABLE: r->is_group = 1; return 0;
    default: return 0;
    }
}

static const char *filter_refused(uint16_t id) /* NULL: it is known */
{
    switch (id) {
    case STK_H5_DEFLATE:
    case STK_H5_SHUFFLE:
    case STK_H5_FLETCHER:
    case STK_H5_NBIT:
    case STK_H5_SCALE:
    case STK_H5_LZF:
    case STK_H5_BLOSC:
    case STK_H5_BITSHUFFLE:
    case STK_H5_ZSTD: return NULL;
    case STK_H5_SZIP:
        return STK_HAVE_SZIP ? NULL
                             : "it is packed by szip, and this build has no libaec: install its "
                               "headers and build again";
    case STK_H5_LZ4:
        return STK_HAVE_LZ4 ? NULL
                            : "it is packed by lz4, and this build has no liblz4: install its "
                              "headers and build again";
    case STK_H5_BLOSC2:
        return "it is packed by Blosc2, which is not supported: repack it with Blosc, zstd, lz4 or "
               "gzip";
    default:
        return "it is packed by a filter that is not supported: repack it with gzip, lzf, lz4, "
               "zstd or Blosc";
    }
}

/* Of chunks that are packed more than once: what is packed already is unpacked by gzip, zstd, lzf
 * and lz4 alone. */
static const char *twice_refused(const stk_h5_set *s)
{
    int packed = 0;

    for (uint32_t i = 0; i < s->n_filters; i++) {
        uint16_t id = s->filter[i].id;

        if (id == STK_H5_SHUFFLE || id == STK_H5_FLETCHER)
            continue;
        if (packed && id != STK_H5_DEFLATE && id != STK_H5_ZSTD && id != STK_H5_LZF &&
            id != STK_H5_LZ4)
            return "its chunks are packed by two filters in an order that is not supported: repack "
                   "the file (h5repack)";
        packed = 1;
    }
    return NULL;
}

static void point_values(stk_h5_set *s) /* each filter has its own of the set's */
{
    const uint32_t *at = s->values;

    for (uint32_t i = 0; at && i < s->n_filters; at += s->filter[i++].n)
        s->filter[i].value = at;
}

/* Do the parts fit together? */
static int settle(reading *r, stk_error *err)
{
    stk_h5_set *s = &r->set;
    uint64_t bytes = s->type.size, most = bytes; /* most: also of rows, where there are none */

    for (uint32_t i = 0; i < s->n_filters && !s->refused; i++)
        s->refused = filter_refused(s->filter[i].id);
    if (!s->refused)
        s->refused = twice_refused(s);
    if (s->type.refused && !s->refused)
        s->refused = s->type.refused;
    if (s->refused)
        return 0;
    if (s->layout == STK_H5_CHUNKED && s->element != s->type.size)
        return h5_bad(err, STK_NO_OFFSET, "chunks of other elements than the data set has");
    s->element = s->type.size;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] && most > ((uint64_t)1 << 62) / s->dim[i])
            return h5_bad(err, STK_NO_OFFSET, "a data set larger than any file");
        most *= s->dim[i] ? s->dim[i] : 1;
        bytes *= s->dim[i];
        if (s->layout == STK_H5_CHUNKED && !s->chunk[i])
            return h5_bad(err, STK_NO_OFFSET, "chunks of other dimensions than the data set has");
    }
    if (s->layout == STK_H5_CHUNKED && s->rank < STK_H5_RANK && s->chunk[s->rank])
        return h5_bad(err, STK_NO_OFFSET, "chunks of other dimensions than the data set has");
    if (s->layout == STK_H5_COMPACT && s->size < bytes)
        return h5_bad(err, STK_NO_OFFSET, "a data set is shorter than its dimensions");
    if (s->layout == STK_H5_CONTIGUOUS && s->addr != STK_H5_NOWHERE &&
        (s->size < bytes || s->addr > r->f->size || bytes > r->f->size - s->addr))
        return h5_bad(err, s->addr, "a data set is shorter than its dimensions");
    if (s->layout == STK_H5_VIRTUAL && s->type.kind != STK_H5_NUMBER &&
        s->type.kind != STK_H5_TEXT && s->type.kind != STK_H5_BYTES)
        s->refused = "virtual data sets of structs and of sequences are not supported";
    if (s->layout == STK_H5_VIRTUAL && !s->refused)
        STK_TRY(h5_mappings_read(s, r->f, s->addr, r->heap_number, err));
    if (s->layout == STK_H5_COMPACT && bytes > COMPACT_MAX)
        return h5_bad(err, STK_NO_OFFSET, "a compact data set of many bytes");
    s->size = bytes;
    return 0;
}

static void set_fini(stk_h5_set *s)
{
    stk_free(s->name);
    stk_free(s->here);
    stk_free(s->fill);
    stk_free(s->values);
    stk_free(s->reason);
    h5_mappings_fini(s);
}

static int copy_bytes(uint8_t **out, const uint8_t *from, uint64_t len, stk_error *err)
{
    *out = NULL;
    if (!from)
        return 0;
    *out = stk_alloc((size_t)len + 1);
    if (!*out)
        return stk_fail_nomem(err, (size_t)len);
    memcpy(*out, from, (size_t)len);
    return 0;
}

static int join(char **out, const char *name, const char *member, stk_error *err)
{
    size_t a = strlen(name), b = member ? strlen(member) : 0;

    *out = stk_alloc(a + b + 2);
    if (!*out)
        return stk_fail_nomem(err, a + b);
    memcpy(*out, name, a + 1);
    if (member) {
        (*out)[a] = '.';
        memcpy(*out + a + 1, member, b + 1);
    }
    return 0;
}

/* A field: the data set as it is, or a member of its struct. */
static int add_set(stk_h5_group *g, const reading *r, const char *name, const h5_member *m,
                   stk_error *err)
{
    stk_h5_set s = r->set;
    uint8_t *values = NULL;
    int rc;

    if (g->n >= SETS)
        return stk_fail(err, STK_ELIMIT, "more than %u data sets in a group", SETS);
    if (g->n == g->cap) {
        uint32_t cap = g->cap ? 2 * g->cap : 8;
        stk_h5_set *grown = stk_grow(g->set, g->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        g->set = grown;
        g->cap = cap;
    }
    s.name = NULL;
    s.fill = s.here = NULL;
    s.values = NULL;
    s.mapping = NULL;
    s.n_mappings = 0;
    if (m) {
        s.type = m->type;
        s.offset = m->offset;
        s.refused = s.refused ? s.refused : m->type.refused;
    }
    rc = copy_bytes(&s.here, r->set.here, r->set.size, err);
    if (rc == 0)
        rc = copy_bytes(&values, (const uint8_t *)r->set.values, r->n_values * sizeof *s.values,
                        err);
    s.values = (uint32_t *)(void *)values;
    point_values(&s);
    if (rc == 0 && r->fill.len == s.element)
        rc = copy_bytes(&s.fill, r->fill.data, r->fill.len, err);
    if (rc == 0)
        rc = join(&s.name, name, m ? m->name : NULL, err);
    if (rc < 0)
        set_fini(&s);
    else
        g->set[g->n++] = s;
    return rc;
}

static int add_sets(stk_h5_group *g, reading *r, const char *name, stk_error *err)
{
    if (r->set.type.kind != STK_H5_STRUCT || r->set.refused) {
        STK_TRY(add_set(g, r, name, NULL, err));
        g->set[g->n - 1].mapping = r->set.mapping; /* moved */
        g->set[g->n - 1].n_mappings = r->set.n_mappings;
        r->set.mapping = NULL;
        r->set.n_mappings = 0;
        return 0;
    }
    for (uint32_t i = 0; i < r->members.n; i++)
        STK_TRY(add_set(g, r, name, &r->members.member[i], err));
    return 0;
}

int h5_set_read(stk_h5_group *g, const stk_h5_file *f, const char *name, uint64_t at,
                stk_error *err)
{
    reading r = { .f = f, .set.addr = STK_H5_NOWHERE, .set.index.addr = STK_H5_NOWHERE };
    int rc = h5_messages(f, at, take_message, &r, err);

    if (rc == 0 && r.is_group && !r.has_layout)
        rc = STK_END;
    else if (rc == 0 && !(r.has_layout && r.has_space && r.has_type))
        rc = STK_ENOTFOUND; /* a named type, say */
    if (rc == 0)
        rc = settle(&r, err);
    if (rc == 0)
        rc = add_sets(g, &r, name, err);
    h5_members_fini(&r.members);
    stk_free((void *)(uintptr_t)r.fill.data);
    stk_free(r.set.here);
    stk_free(r.set.values);
    h5_mappings_fini(&r.set);
    return rc;
}

void stk_h5_group_fini(stk_h5_group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        set_fini(&g->set[i]);
    stk_free(g->set);
    stk_names_fini(&g->groups);
    stk_names_fini(&g->external);
    stk_names_fini(&g->nowhere);
    *g = (stk_h5_group){ 0 };
}

int stk_h5_same(const stk_h5_set *a, const stk_h5_set *b)
{
    if (strcmp(a->name, b->name) || a->rank != b->rank || a->type.kind != b->type.kind ||
        a->type.dtype != b->type.dtype || a->type.ndim != b->type.ndim ||
        !a->refused != !b->refused || memcmp(a->type.dim, b->type.dim, sizeof a->type.dim))
        return 0;
    return a->refused || !memcmp(a->dim + 1, b->dim + 1, sizeof a->dim - sizeof a->dim[0]);
}
