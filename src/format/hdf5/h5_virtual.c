/* SPDX-License-Identifier: Apache-2.0 */
/* h5_virtual.c - virtual data sets: which part of them is which part of a data set elsewhere.
 *
 * Selections are boxes that repeat at equal distances in every dimension.  Old versions list the
 * boxes one by one: a list that is not such a grid, single points and parts that grow without limit
 * are refused. */
#include <string.h>

#include "base/json.h"
#include "format/hdf5/h5_parts.h"

#define MAPPINGS 1000000u
#define ENTRY_BYTES 16u /* that a mapping takes at least */

enum { NONE = 0, POINTS = 1, BOXES = 2, ALL = 3 };
static const char not_grid[] =
    "its parts are not boxes at equal distances, which is not supported: write them apart";
static const char no_end[] = "its parts grow without limit, which is not supported: write it with "
                             "the files and rows that there are";

typedef struct boxes { /* a list of them: start and last element in each dimension */
    h5_cursor c;
    uint32_t rank, width; /* width: bytes of a number */
    uint64_t n;
} boxes;

/* Number d of box i: its start, or its last element if `last`. */
static uint64_t box_get(const boxes *b, uint64_t i, uint32_t d, int last)
{
    h5_cursor c = b->c;

    h5_skip(&c, ((2 * i + (last ? 1 : 0)) * b->rank + d) * b->width);
    return h5_uint(&c, b->width);
}

/* How many boxes from the first on differ only in dimension d, if one in `step` is looked at. */
static uint64_t count_along(const boxes *b, uint32_t d, uint64_t step)
{
    uint64_t k = 1;

    for (; k * step < b->n; k++)
        for (uint32_t i = 0; i < b->rank; i++)
            if (i != d ? box_get(b, k * step, i, 0) != box_get(b, 0, i, 0)
                       : box_get(b, k * step, i, 0) <= box_get(b, 0, i, 0))
                return k;
    return k;
}

/* Is box k where the selection says? */
static int box_fits(const boxes *b, const stk_h5_select *s, uint64_t k)
{
    uint64_t rest = k;

    for (uint32_t d = b->rank; d-- > 0; rest /= s->count[d]) {
        uint64_t start = s->start[d] + rest % s->count[d] * s->stride[d];

        if (box_get(b, k, d, 0) != start || box_get(b, k, d, 1) != start + s->block[d] - 1)
            return 0;
    }
    return 1;
}

/* A list of boxes, the last dimension's the quickest, as one selection. */
static int from_list(const boxes *b, stk_h5_select *s)
{
    uint64_t step = 1;

    for (uint32_t d = b->rank; d-- > 0; step *= s->count[d]) {
        s->start[d] = box_get(b, 0, d, 0);
        s->block[d] = box_get(b, 0, d, 1) - s->start[d] + 1;
        s->count[d] = count_along(b, d, step);
        s->stride[d] = s->count[d] > 1 ? box_get(b, step, d, 0) - s->start[d] : 1;
    }
    for (uint64_t k = 0; k < b->n; k++)
        if (step != b->n || !box_fits(b, s, k))
            return 0;
    return 1;
}

static int read_list(stk_h5_select *s, h5_cursor *c, uint32_t width, const char **refused)
{
    boxes b = { .rank = s->rank, .width = width, .n = h5_uint(c, width) };
    uint64_t each = 2u * (uint64_t)b.rank * width;

    if (!b.n || b.n > h5_left(c) / each)
        return 0;
    b.c = *c;
    h5_skip(c, b.n * each);
    if (!from_list(&b, s))
        *refused = not_grid;
    return 1;
}

static int read_grid(stk_h5_select *s, h5_cursor *c, uint32_t width, const char **refused)
{
    uint64_t none = width == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * width) - 1;

    for (uint32_t d = 0; d < s->rank; d++) {
        s->start[d] = h5_uint(c, width);
        s->stride[d] = h5_uint(c, width);
        s->count[d] = h5_uint(c, width);
        s->block[d] = h5_uint(c, width);
        if (s->count[d] == none || s->block[d] == none)
            *refused = no_end;
    }
    return 1;
}

static int read_boxes(stk_h5_select *s, h5_cursor *c, uint32_t version, const char **refused)
{
    uint32_t flags = 0, width = version == 1 ? 4 : 8;

    if (version > 1)
        flags = (uint32_t)h5_uint(c, 1);
    if (version == 3)
        width = (uint32_t)h5_uint(c, 1);
    else
        h5_skip(c, version == 1 ? 8 : 4);
    s->rank = (uint32_t)h5_uint(c, 4);
    if (c->bad || !s->rank || s->rank > STK_H5_RANK || (width != 2 && width != 4 && width != 8))
        return 0;
    return flags & 1 ? read_grid(s, c, width, refused) : read_list(s, c, width, refused);
}

static int read_select(stk_h5_select *s, h5_cursor *c, int *none, const char **refused)
{
    uint32_t kind = (uint32_t)h5_uint(c, 4), version = (uint32_t)h5_uint(c, 4);

    if (c->bad || !version || version > 3)
        return 0;
    if (kind == BOXES)
        return read_boxes(s, c, version, refused) && !c->bad;
    *none |= kind == NONE;
    if (kind == POINTS)
        *refused = not_grid;
    else if (kind == NONE || kind == ALL)
        h5_skip(c, 8);
    return kind <= ALL && !c->bad;
}

/* A name that ends with a null. */
static int read_text(char **out, h5_cursor *c, stk_error *err)
{
    const uint8_t *end = h5_left(c) ? memchr(c->p, 0, h5_left(c)) : NULL;
    size_t n = end ? (size_t)(end - c->p) : 0;

    if (!n || stk_utf8_span((stk_bytes){ c->p, n }) != n)
        return h5_bad(err, STK_NO_OFFSET, "a name in a virtual data set");
    *out = stk_strndup((const char *)c->p, n);
    h5_skip(c, n + 1);
    return *out ? 0 : stk_fail_nomem(err, n);
}

static void mapping_fini(stk_h5_mapping *m)
{
    stk_free(m->file);
    stk_free(m->set);
}

enum { SAME_NAME = 1, SAME_SET = 2, OWN_FILE = 4 }; /* flags of version 1 */

/* A name, or the number of a mapping before that has the same. */
static int read_name(char **out, const stk_h5_set *s, const stk_h5_file *f, int again, h5_cursor *c,
                     stk_error *err)
{
    int is_file = again & SAME_NAME;
    uint64_t k;

    if (!again)
        return read_text(out, c, err);
    k = h5_length(f, c);
    if (c->bad || k >= s->n_mappings)
        return h5_bad(err, STK_NO_OFFSET, "a name in a virtual data set");
    *out = stk_strdup(is_file ? s->mapping[k].file : s->mapping[k].set);
    return *out ? 0 : stk_fail_nomem(err, 1);
}

static int read_mapping(stk_h5_set *s, const stk_h5_file *f, uint32_t version, h5_cursor *c,
                        stk_error *err)
{
    stk_h5_mapping m = { 0 };
    int flags = version ? (int)h5_uint(c, 1) : 0, rc = 0;

    if (flags & OWN_FILE && !(m.file = stk_strdup(".")))
        rc = stk_fail_nomem(err, 2);
    if (!m.file && rc == 0)
        rc = read_name(&m.file, s, f, flags & SAME_NAME, c, err);
    if (rc == 0)
        rc = read_name(&m.set, s, f, flags & SAME_SET, c, err);
    if (rc == 0 && !(read_select(&m.from, c, &m.none, &s->refused) &&
                     (s->refused || read_select(&m.to, c, &m.none, &s->refused))))
        rc = h5_bad(err, STK_NO_OFFSET, "a part of a virtual data set");
    if (rc == 0 && !s->refused && strstr(m.file, "%b"))
        s->refused = no_end;
    if (rc == 0)
        s->mapping[s->n_mappings++] = m;
    else
        mapping_fini(&m);
    return rc;
}

int h5_mappings_read(stk_h5_set *s, const stk_h5_file *f, uint64_t at, uint32_t number,
                     stk_error *err)
{
    uint8_t *bytes = NULL;
    uint64_t len = 0, n;
    uint32_t version;
    h5_cursor c;
    int rc;

    if (at == STK_H5_NOWHERE) /* without parts: all of it is the fill value */
        return 0;
    STK_TRY(h5_object_get(f, at, number, &bytes, &len, err));
    c = h5_over((stk_bytes){ bytes, (size_t)len });
    version = (uint32_t)h5_uint(&c, 1);
    if (version > 1)
        s->refused = "its list of parts is of a version that is not supported";
    n = h5_length(f, &c);
    rc = s->refused || (n <= MAPPINGS && n <= len / ENTRY_BYTES)
             ? 0
             : h5_bad(err, at, "a virtual data set");
    if (rc == 0 && !s->refused && !h5_sum_fits(bytes, (size_t)len))
        rc = h5_bad(err, at, "the checksum of a virtual data set is another");
    s->mapping = rc == 0 && !s->refused ? stk_zalloc((size_t)n + 1, sizeof *s->mapping) : NULL;
    if (rc == 0 && !s->refused && !s->mapping)
        rc = stk_fail_nomem(err, (size_t)n * sizeof *s->mapping);
    for (uint64_t i = 0; rc == 0 && !s->refused && i < n; i++)
        rc = read_mapping(s, f, version, &c, err);
    stk_free(bytes);
    return rc;
}

void h5_mappings_fini(stk_h5_set *s)
{
    for (uint32_t i = 0; i < s->n_mappings; i++)
        mapping_fini(&s->mapping[i]);
    stk_free(s->mapping);
    s->mapping = NULL;
    s->n_mappings = 0;
}

/* ---- selections ---- */

int stk_h5_select_settle(stk_h5_select *s, uint32_t rank, const uint64_t *dim, uint64_t *total)
{
    *total = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (!s->rank) { /* all of it */
            s->start[d] = 0;
            s->stride[d] = s->count[d] = 1;
            s->block[d] = dim[d];
        }
        if (!s->count[d] || !s->block[d] || !s->stride[d] || s->block[d] > dim[d] ||
            s->start[d] > dim[d] - s->block[d] ||
            (s->count[d] > 1 &&
             (s->stride[d] < s->block[d] ||
              s->count[d] - 1 > (dim[d] - s->block[d] - s->start[d]) / s->stride[d])))
            return 0;
        if (s->stride[d] == s->block[d] || s->count[d] == 1) { /* boxes that touch are one */
            s->block[d] *= s->count[d];
            s->count[d] = 1;
            s->stride[d] = s->block[d];
        }
        *total *= s->count[d] * s->block[d]; /* no more than the data set has, which was counted */
    }
    if (s->rank && s->rank != rank)
        return 0;
    s->rank = rank;
    return 1;
}

uint64_t stk_h5_select_at(const stk_h5_select *s, const uint64_t *dim, uint64_t i, uint64_t *run)
{
    uint64_t at = 0, size = 1;

    for (uint32_t d = s->rank; d-- > 0; size *= dim[d]) {
        uint64_t k = i % (s->count[d] * s->block[d]);

        i /= s->count[d] * s->block[d];
        if (d == s->rank - 1)
            *run = s->block[d] - k % s->block[d];
        at += (s->start[d] + k / s->block[d] * s->stride[d] + k % s->block[d]) * size;
    }
    return at;
}
