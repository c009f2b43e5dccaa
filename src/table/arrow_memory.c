/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_memory.c - tables of another library in this process (pyarrow, Polars, DuckDB) by Arrow's C
 * stream interface: all batches are taken, held, and released when the data set is closed. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "table/arrow_data.h"

static void set(stk_arrow_field *f, uint8_t type, stk_dtype dtype)
{
    f->type = type;
    f->dtype = dtype;
    f->width = type == STK_ARROW_NUMBER ? (uint32_t)stk_dtype_size(dtype) : f->width;
}

static void refuse(stk_arrow_field *f, const char *why)
{
    f->type = STK_ARROW_OTHER;
    f->refused = why;
}

/* "+l", "+vl", "+w:8", "+s", ... */
static void read_nested(stk_arrow_field *f, const char *s)
{
    if (!strcmp(s, "+s"))
        f->type = STK_ARROW_STRUCT;
    else if (!strcmp(s, "+l") || !strcmp(s, "+L") || !strcmp(s, "+m")) {
        f->type = STK_ARROW_LIST;
        f->wide = s[1] == 'L';
        f->map = s[1] == 'm';
    } else if (!strcmp(s, "+vl") || !strcmp(s, "+vL")) {
        f->type = STK_ARROW_LIST;
        f->wide = s[2] == 'L';
        f->apart = 1;
    } else if (!strncmp(s, "+w:", 3)) {
        f->type = STK_ARROW_FIXED_LIST;
        for (const char *p = s + 3; *p >= '0' && *p <= '9' && f->width < 100000000; p++)
            f->width = f->width * 10 + (uint32_t)(*p - '0');
    } else
        refuse(f, "unions and run-end encoded columns are not read from Arrow");
}

/* "ts...", "tdD", ...: the stored integer. */
static void read_time(stk_arrow_field *f, const char *s)
{
    snprintf(f->unit, sizeof f->unit, "%s", s);
    if (!strcmp(s, "tdD") || !strcmp(s, "tts") || !strcmp(s, "ttm"))
        set(f, STK_ARROW_NUMBER, STK_I32);
    else if (s[1] == 'i')
        refuse(f, "intervals are not read");
    else
        set(f, STK_ARROW_NUMBER, STK_I64);
}

/* "d:19,10", "d:19,10,256" */
static void read_decimal(stk_arrow_field *f, const char *s)
{
    int digits = 0, scale = 0, bits = 128;

    if (sscanf(s, "d:%d,%d,%d", &digits, &scale, &bits) < 2 || scale < -300 || scale > 300 ||
        (bits != 32 && bits != 64 && bits != 128 && bits != 256)) {
        refuse(f, "decimals of this width are not known");
        return;
    }
    set(f, STK_ARROW_DECIMAL, STK_F64);
    f->width = (uint32_t)bits / 8;
    f->scale = scale;
}

static void read_format(stk_arrow_field *f, const char *s)
{
    static const struct {
        char c;
        stk_dtype dtype;
    } numbers[] = { { 'c', STK_I8 },  { 'C', STK_U8 },  { 's', STK_I16 }, { 'S', STK_U16 },
                    { 'i', STK_I32 }, { 'I', STK_U32 }, { 'l', STK_I64 }, { 'L', STK_I64 },
                    { 'e', STK_F16 }, { 'f', STK_F32 }, { 'g', STK_F64 } };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (s[0] == numbers[i].c && !s[1]) {
            set(f, STK_ARROW_NUMBER, numbers[i].dtype);
            f->unsigned64 = s[0] == 'L';
            return;
        }
    switch (s[0]) {
    case 'b': set(f, STK_ARROW_BOOL, STK_U8); return;
    case 'U':
    case 'Z': f->wide = 1; /* fall through */
    case 'u':
    case 'z':
        f->type = STK_ARROW_BYTES;
        f->text = s[0] == 'u' || s[0] == 'U';
        return;
    case 'v':
        f->type = STK_ARROW_VIEW;
        f->text = s[1] == 'u';
        return;
    case 'w':
        f->type = STK_ARROW_FIXED;
        for (const char *p = s + 2; s[1] == ':' && *p >= '0' && *p <= '9' && f->width < 100000000;
             p++)
            f->width = f->width * 10 + (uint32_t)(*p - '0');
        return;
    case 't': read_time(f, s); return;
    case '+': read_nested(f, s); return;
    case 'n': f->type = STK_ARROW_NULL; return;
    case 'd': read_decimal(f, s); return;
    default: refuse(f, "its type is not known: cast it");
    }
}

static int read_field(stk_arrow_field *f, const struct ArrowSchema *s, uint32_t depth,
                      stk_error *err)
{
    stk_arrow_field index = { 0 };

    if (depth >= STK_ARROW_DEPTH || s->n_children > 20000)
        return stk_fail(err, STK_ELIMIT, "a schema of more than 20000 fields, or too deep");
    f->name = stk_strdup(s->name ? s->name : "");
    f->nullable = (s->flags & ARROW_FLAG_NULLABLE) != 0;
    read_format(f, s->dictionary ? s->dictionary->format : s->format);
    if (s->dictionary) {
        read_format(&index, s->format);
        f->encoded = 1;
        f->index = index.dtype;
        if (f->type >= STK_ARROW_LIST)
            f->refused = "its dictionary has nested values";
        return f->name ? 0 : stk_fail_nomem(err, 1);
    }
    f->child = stk_zalloc((size_t)s->n_children + 1, sizeof *f->child);
    if (!f->name || !f->child)
        return stk_fail_nomem(err, (size_t)s->n_children * sizeof *f->child);
    for (int64_t i = 0; i < s->n_children; i++) {
        f->n++;
        STK_TRY(read_field(&f->child[i], s->children[i], depth + 1, err));
    }
    return 0;
}

/* ---- batches ---- */

static void take_buffers(const stk_arrow_field *f, const struct ArrowArray *a,
                         stk_arrow_column *out)
{
    uint64_t all = UINT64_MAX;

    *out = (stk_arrow_column){
        .n_valid = all, .n_a = all, .n_b = all, .rows = (uint64_t)a->length
    };
    out->valid = a->null_count && a->n_buffers > 0 ? a->buffers[0] : NULL;
    out->a = a->n_buffers > 1 ? a->buffers[1] : NULL;
    out->b = a->n_buffers > 2 ? a->buffers[2] : NULL;
    /* the last one has their lengths */
    if (f->type == STK_ARROW_VIEW && !f->encoded && a->n_buffers > 2) {
        out->view = (const void *const *)(a->buffers + 2);
        out->n_views = (uint32_t)(a->n_buffers - 3);
    }
}

static int memory_column(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint32_t depth,
                         const stk_arrow_field *f, stk_arrow_column *out, stk_error *err)
{
    const struct ArrowArray *a = b->from;
    uint64_t offset = (uint64_t)a->offset;
    int in_list = 0;

    for (uint32_t d = 1; d < depth; d++) {
        if ((int64_t)l->at[d] >= a->n_children)
            return stk_fail(err, STK_ECORRUPT, "a batch that is not as its schema says");
        in_list = l->path[d - 1]->type == STK_ARROW_LIST ||
                  l->path[d - 1]->type == STK_ARROW_FIXED_LIST;
        a = a->children[l->at[d]];
        offset = in_list ? (uint64_t)a->offset : offset + (uint64_t)a->offset;
    }
    take_buffers(f, a, out);
    out->offset = offset;
    return 0;
}

static int memory_dictionary(const stk_arrow_batch *b, const stk_arrow_leaf *l,
                             const stk_arrow_field *f, uint64_t *at, stk_arrow_column *out,
                             stk_error *err)
{
    const struct ArrowArray *a = b->from;
    uint32_t depth = f == l->path[l->depth - 1] ? l->depth : l->item;
    stk_arrow_field values = *f;

    (void)at; /* dictionaries are whole here */
    for (uint32_t d = 1; d < depth; d++)
        a = (int64_t)l->at[d] < a->n_children ? a->children[l->at[d]] : a;
    if (!a->dictionary)
        return stk_fail(err, STK_ECORRUPT, "column %.60s: its dictionary is missing", l->name);
    values.encoded = 0;
    take_buffers(&values, a->dictionary, out);
    out->offset = (uint64_t)a->dictionary->offset;
    return 0;
}

static int memory_view(const stk_arrow_column *c, uint32_t i, stk_bytes *out)
{
    const int64_t *len = c->view ? c->view[c->n_views] : NULL;

    if (!len || i >= c->n_views)
        return -1;
    *out = (stk_bytes){ c->view[i], (size_t)len[i] };
    return 0;
}

static const stk_arrow_reach reach = { memory_column, memory_dictionary, memory_view };

static int add(stk_arrow_memory *m, struct ArrowArray *a, stk_error *err)
{
    if (m->n == m->cap) {
        uint64_t cap = m->cap ? 2 * m->cap : 16;
        struct ArrowArray *grown = stk_grow(m->array, m->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        m->array = grown;
        m->cap = cap;
    }
    m->array[m->n++] = *a; /* moved, as the interface allows */
    a->release = NULL;
    return 0;
}

static int said(struct ArrowArrayStream *s, int rc, stk_error *err)
{
    const char *why = s->get_last_error ? s->get_last_error(s) : NULL;

    return stk_fail(err, STK_ECORRUPT, "the Arrow stream failed (%d): %.160s", rc,
                    why ? why : "it does not say why");
}

static int take_all(stk_arrow_memory *m, struct ArrowArrayStream *s, stk_error *err)
{
    int rc = s->get_schema(s, &m->given);

    if (rc)
        return said(s, rc, err);
    if (!m->given.format || strcmp(m->given.format, "+s"))
        return stk_fail(err, STK_EINVAL,
                        "the Arrow stream has no columns: give a table, not an array");
    STK_TRY(read_field(&m->schema.root, &m->given, 0, err));
    STK_TRY(stk_arrow_settle(&m->schema, err));
    for (;;) {
        struct ArrowArray a = { 0 };

        rc = s->get_next(s, &a);
        if (rc)
            return said(s, rc, err);
        if (!a.release)
            return 0;
        rc = a.length < 0 || a.offset < 0 || a.n_children != m->given.n_children
                 ? stk_fail(err, STK_ECORRUPT, "a batch that is not as its schema says")
             : a.length ? add(m, &a, err)
                        : 0;
        if (a.release)
            a.release(&a);
        STK_TRY(rc);
    }
}

/* List views that all have one length are lists of that length, as "+w:8" says of others. */
static int settle_views(stk_arrow_memory *m, stk_arrow_leaf *l, stk_error *err)
{
    const stk_arrow_field *f = l->path[l->depth - 1];
    int64_t each = -1;

    for (uint64_t i = 0; i < m->n; i++) {
        stk_arrow_column c;

        STK_TRY(memory_column(&m->batch[i], l, l->depth, f, &c, err));
        for (uint64_t k = 0; c.b && k < c.rows; k++) {
            int64_t wide = 0;
            int32_t narrow = 0;

            if (f->wide)
                memcpy(&wide, c.b + (c.offset + k) * 8, sizeof wide);
            else
                memcpy(&narrow, c.b + (c.offset + k) * 4, sizeof narrow);
            wide = f->wide ? wide : narrow;
            if (c.valid || wide < 0 || (each >= 0 && wide != each))
                return 0;
            each = wide;
        }
    }
    l->fixed = each;
    return 0;
}

static int settle_all_views(stk_arrow_memory *m, stk_error *err)
{
    for (uint32_t i = 0; i < m->schema.n_readable; i++)
        if (m->schema.leaf[i].list && m->schema.leaf[i].path[m->schema.leaf[i].depth - 1]->apart &&
            !m->schema.leaf[i].texts)
            STK_TRY(settle_views(m, &m->schema.leaf[i], err));
    return 0;
}

int stk_arrow_memory_open(stk_arrow_memory **out, struct ArrowArrayStream *stream, stk_error *err)
{
    stk_arrow_memory *m = STK_NEW(stk_arrow_memory);
    int rc = m ? take_all(m, stream, err) : stk_fail_nomem(err, sizeof *m);

    if (stream->release)
        stream->release(stream);
    *out = m;
    if (rc == 0) {
        m->batch = stk_zalloc(m->n + 1, sizeof *m->batch);
        rc = m->batch ? 0 : stk_fail_nomem(err, m->n * sizeof *m->batch);
    }
    for (uint64_t i = 0; rc == 0 && i < m->n; i++) { /* they move no more */
        m->batch[i] = (stk_arrow_batch){ .reach = &reach, .first = m->rows, .from = &m->array[i] };
        m->batch[i].rows = (uint64_t)m->array[i].length;
        m->rows += m->batch[i].rows;
    }
    if (rc == 0)
        rc = settle_all_views(m, err);
    if (rc < 0)
        stk_arrow_memory_close(out);
    return rc;
}

void stk_arrow_memory_close(stk_arrow_memory **m)
{
    stk_arrow_memory *x = *m;

    *m = NULL;
    if (!x)
        return;
    for (uint64_t i = 0; i < x->n; i++)
        if (x->array[i].release)
            x->array[i].release(&x->array[i]);
    if (x->given.release)
        x->given.release(&x->given);
    stk_arrow_schema_fini(&x->schema);
    stk_free(x->array);
    stk_free(x->batch);
    stk_free(x);
}
