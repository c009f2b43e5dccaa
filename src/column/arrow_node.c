/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_node.c - nodes of Arrow's C data interface, and how they end. */
#include "column/arrow_node.h"

#include <string.h>

#include "base/json.h"
#include "index/dict.h"

/* ---- shared names ---- */

int stk_shared_open(shared_names **out, uint64_t room, stk_error *err)
{
    shared_names *s = STK_NEW(shared_names);

    *out = s;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    atomic_init(&s->refs, 1);
    s->plain = 1;
    s->offsets = stk_zalloc(room + 1, sizeof *s->offsets);
    if (!s->offsets)
        return stk_fail_nomem(err, room * sizeof *s->offsets);
    return idx_reserve((void **)&s->text, &s->cap, 1, 1, err);
}

int stk_shared_put(shared_names *s, const char *name, stk_error *err)
{
    size_t len = strlen(name);

    if (len > INT32_MAX - s->len)
        return stk_fail(err, STK_ELIMIT, "the names of the shards take more than 2 GiB");
    STK_TRY(idx_reserve((void **)&s->text, &s->cap, s->len + len, 1, err));
    memcpy(s->text + s->len, name, len);
    s->plain &= stk_utf8_span((stk_bytes){ (const uint8_t *)name, len }) == len;
    s->len += len;
    s->offsets[++s->n] = (int32_t)s->len;
    return 0;
}

void stk_shared_unref(shared_names *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    stk_free(s->offsets);
    stk_free(s->text);
    stk_free(s);
}

/* ---- schema ---- */

static void schema_release(struct ArrowSchema *s)
{
    for (int64_t i = 0; i < s->n_children; i++) {
        if (s->children[i] && s->children[i]->release)
            s->children[i]->release(s->children[i]);
        stk_free(s->children[i]);
    }
    if (s->dictionary && s->dictionary->release)
        s->dictionary->release(s->dictionary);
    stk_free(s->dictionary);
    stk_free(s->children);
    stk_free(s->private_data); /* the name */
    memset(s, 0, sizeof *s);
}

int stk_schema_node(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                    uint32_t n_children)
{
    char *own = stk_strdup(name);

    *out = (struct ArrowSchema){ .format = format,
                                 .name = own,
                                 .flags = flags,
                                 .release = schema_release,
                                 .private_data = own };
    out->children = n_children ? stk_zalloc(n_children, sizeof *out->children) : NULL;
    if (!own || (n_children && !out->children))
        return -1;
    for (uint32_t i = 0; i < n_children; i++) {
        out->children[i] = STK_NEW(struct ArrowSchema);
        if (!out->children[i])
            return -1;
        out->n_children++;
    }
    return 0;
}

int stk_schema_dictionary(struct ArrowSchema *of, const char *format)
{
    of->dictionary = STK_NEW(struct ArrowSchema);
    return of->dictionary ? stk_schema_node(of->dictionary, format, "", 0, 0) : -1;
}

/* ---- array ---- */

typedef struct owned { /* private_data */
    const void *buffers[3];
    void *memory[3]; /* those of the buffers that are this node's */
    shared_names *names;
} owned;

static void array_release(struct ArrowArray *a)
{
    owned *o = a->private_data;

    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i] && a->children[i]->release)
            a->children[i]->release(a->children[i]);
        stk_free(a->children[i]);
    }
    if (a->dictionary && a->dictionary->release)
        a->dictionary->release(a->dictionary);
    stk_free(a->dictionary);
    stk_free(a->children);
    for (int i = 0; i < 3; i++)
        stk_free(o->memory[i]);
    stk_shared_unref(o->names);
    stk_free(o);
    memset(a, 0, sizeof *a);
}

static owned *array_begin(struct ArrowArray *out, uint64_t n, int64_t n_buffers)
{
    owned *o = STK_NEW(owned);

    memset(out, 0, sizeof *out);
    if (!o)
        return NULL;
    *out = (struct ArrowArray){ .length = (int64_t)n,
                                .n_buffers = n_buffers,
                                .buffers = o->buffers,
                                .release = array_release,
                                .private_data = o };
    return o;
}

int stk_array_struct(struct ArrowArray *out, uint32_t n_children)
{
    if (!array_begin(out, 0, 1))
        return -1;
    out->children = stk_zalloc(n_children + 1u, sizeof *out->children);
    if (!out->children)
        return -1;
    for (uint32_t i = 0; i < n_children; i++) {
        out->children[i] = STK_NEW(struct ArrowArray);
        if (!out->children[i])
            return -1;
        out->n_children++;
    }
    return 0;
}

static int array_take(struct ArrowArray *out, uint64_t n, int64_t nulls, void *const *memory,
                      int n_buffers)
{
    owned *o = array_begin(out, n, n_buffers);

    for (int i = 0; i < n_buffers; i++) {
        if (o)
            o->buffers[i] = o->memory[i] = memory[i];
        else
            stk_free(memory[i]);
    }
    out->null_count = nulls;
    return o ? 0 : -1;
}

int stk_array_fixed(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *values)
{
    return array_take(out, n, nulls, (void *[]){ bits, values }, 2);
}

int stk_array_text(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *offsets,
                   void *bytes)
{
    return array_take(out, n, nulls, (void *[]){ bits, offsets, bytes }, 3);
}

int stk_array_names(struct ArrowArray *of, shared_names *s)
{
    owned *o;

    of->dictionary = STK_NEW(struct ArrowArray);
    o = of->dictionary ? array_begin(of->dictionary, s->n, 3) : NULL;
    if (!o)
        return -1;
    o->buffers[1] = s->offsets;
    o->buffers[2] = s->text;
    o->names = s;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return 0;
}
