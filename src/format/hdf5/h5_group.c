/* SPDX-License-Identifier: Apache-2.0 */
/* h5_group.c - groups: links in symbol tables (the default of writers), in messages, or in a heap;
 * paths through them. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "format/hdf5/h5_parts.h"

#define LINKS_MAX (1u << 20)
#define LINK_BYTES 8u  /* that a link takes at least */
#define NODE_BYTES 16u /* that a node takes at least */
#define LEVELS 32u     /* of a B-tree */
#define SOFT_MAX 32u   /* soft links that lead to each other */
#define NAME_BYTES 4096u

enum { HARD = 0, SOFT = 1, EXTERNAL = 64 };

typedef struct link {
    char *name, *target; /* of a soft one: a path */
    uint64_t addr;
    uint32_t kind;
} link;

typedef struct links { /* of one group */
    const stk_h5_file *f;
    link *link;
    uint32_t n, cap;
    uint64_t table, heap;       /* of a symbol table; NOWHERE: none */
    uint64_t dense, dense_tree; /* of links in a fractal heap */
    uint8_t *names;             /* the local heap's */
    uint64_t names_len;
    uint64_t nodes; /* that were visited: a tree that holds itself comes to an end */
} links;

static void links_fini(links *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        stk_free(l->link[i].name);
        stk_free(l->link[i].target);
    }
    stk_free(l->link);
    stk_free(l->names);
    l->link = NULL;
    l->names = NULL;
    l->n = l->cap = 0;
}

static int add_link(links *l, stk_bytes name, const link *what, stk_bytes target, stk_error *err)
{
    link k = *what;

    if (stk_utf8_span(name) != name.len || memchr(name.data, 0, name.len))
        return h5_bad(err, STK_NO_OFFSET, "a name that is not UTF-8");
    if (l->n >= LINKS_MAX || l->n > l->f->size / LINK_BYTES)
        return stk_fail(err, STK_ELIMIT, "more than %u links in a group", LINKS_MAX);
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 16;
        link *grown = stk_grow(l->link, l->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        l->link = grown;
        l->cap = cap;
    }
    k.name = stk_strndup((const char *)name.data, name.len);
    k.target = target.data ? stk_strndup((const char *)target.data, target.len) : NULL;
    l->link[l->n++] = k;
    return k.name && (k.target || !target.data) ? 0 : stk_fail_nomem(err, name.len);
}

/* ---- links as messages ---- */

static int read_link(links *l, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t flags;
    link k = { .addr = STK_H5_NOWHERE };
    stk_bytes name = { 0 }, target = { 0 };

    h5_skip(&c, 1);
    flags = (uint32_t)h5_uint(&c, 1);
    k.kind = flags & 8 ? (uint32_t)h5_uint(&c, 1) : HARD;
    h5_skip(&c, (flags & 4 ? 8u : 0u) + (flags & 16 ? 1u : 0u));
    name.len = (size_t)h5_uint(&c, 1u << (flags & 3));
    name.data = h5_skip(&c, name.len);
    if (k.kind == HARD)
        k.addr = h5_address(l->f, &c);
    else {
        target.len = (size_t)h5_uint(&c, 2);
        target.data = h5_skip(&c, target.len);
    }
    if (c.bad || !name.len || name.len > NAME_BYTES)
        return h5_bad(err, STK_NO_OFFSET, "a link");
    return add_link(l, name, &k, target, err);
}

static int read_info(links *l, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t flags;

    h5_skip(&c, 1);
    flags = (uint32_t)h5_uint(&c, 1);
    h5_skip(&c, flags & 1 ? 8 : 0);
    l->dense = h5_address(l->f, &c);
    l->dense_tree = h5_address(l->f, &c);
    return c.bad ? h5_bad(err, STK_NO_OFFSET, "a group") : 0;
}

static int group_message(void *cookie, const h5_message *m, stk_error *err)
{
    links *l = cookie;
    h5_cursor c = h5_over(m->data);

    if (m->type == 2)
        return read_info(l, m->data, err);
    if (m->type == 6)
        return read_link(l, m->data, err);
    if (m->type != 17)
        return 0;
    l->table = h5_address(l->f, &c);
    l->heap = h5_address(l->f, &c);
    return c.bad ? h5_bad(err, STK_NO_OFFSET, "a group") : 0;
}

/* ---- symbol tables ---- */

static int read_names(links *l, stk_error *err)
{
    uint8_t head[32];
    uint64_t n = 8u + 2u * l->f->lengths + l->f->offsets, at;
    h5_cursor c = { head, head + n, 0 };
    int known;

    STK_TRY(h5_get(l->f, l->heap, head, n, err));
    known = h5_is(&c, "HEAP");
    h5_skip(&c, 4);
    l->names_len = h5_length(l->f, &c);
    h5_length(l->f, &c);
    at = h5_address(l->f, &c);
    if (!known || l->names_len > H5_META_MAX)
        return h5_bad(err, l->heap, "the names of a group");
    return h5_get_new(l->f, at, l->names_len, &l->names, err);
}

/* A name in the heap; an empty one: it is not there. */
static stk_bytes name_at(const links *l, uint64_t at)
{
    const uint8_t *p, *end;

    if (at >= l->names_len)
        return (stk_bytes){ 0 };
    p = l->names + at;
    end = memchr(p, 0, (size_t)(l->names_len - at));
    return end ? (stk_bytes){ p, (size_t)(end - p) } : (stk_bytes){ 0 };
}

static int read_symbol(links *l, h5_cursor *c, uint64_t node, stk_error *err)
{
    stk_bytes name = name_at(l, h5_uint(c, l->f->offsets)), target = { 0 };
    link k = { .addr = h5_address(l->f, c) };
    uint32_t cached = (uint32_t)h5_uint(c, 4);

    h5_skip(c, 4);
    if (cached == 2) {
        k.kind = SOFT;
        target = name_at(l, h5_uint(c, 4));
        h5_skip(c, 12);
    } else
        h5_skip(c, 16);
    if (c->bad || !name.len || (cached == 2 && !target.len))
        return h5_bad(err, node, "an entry of a group");
    return add_link(l, name, &k, target, err);
}

static int read_symbols(links *l, uint64_t at, stk_error *err)
{
    uint8_t head[8], *bytes = NULL;
    h5_cursor c = { head, head + 8, 0 };
    uint64_t each = 2u * l->f->offsets + 24u, n;
    int known, rc;

    STK_TRY(h5_get(l->f, at, head, sizeof head, err));
    known = h5_is(&c, "SNOD");
    h5_skip(&c, 2);
    n = h5_uint(&c, 2);
    if (!known)
        return h5_bad(err, at, "entries of a group");
    rc = h5_get_new(l->f, at + 8, n * each, &bytes, err);
    c = h5_over((stk_bytes){ bytes, (size_t)(n * each) });
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = read_symbol(l, &c, at, err);
    stk_free(bytes);
    return rc;
}

static int read_tree(links *l, uint64_t at, uint32_t level, stk_error *err)
{
    uint8_t head[24], *bytes = NULL;
    uint64_t front = 8u + 2u * l->f->offsets, each = (uint64_t)l->f->lengths + l->f->offsets, n;
    h5_cursor c = { head, head + front, 0 };
    uint32_t is;
    int known, rc;

    if (l->nodes++ > l->f->size / NODE_BYTES) /* more than there can be: some are visited again */
        return h5_bad(err, at, "a group's tree without end");
    STK_TRY(h5_get(l->f, at, head, front, err));
    known = h5_is(&c, "TREE") && h5_uint(&c, 1) == 0;
    is = (uint32_t)h5_uint(&c, 1);
    n = h5_uint(&c, 2);
    if (!known || is >= LEVELS || (level != UINT32_MAX && is != level))
        return h5_bad(err, at, "a group's tree");
    rc = h5_get_new(l->f, at + front, n * each, &bytes, err);
    c = h5_over((stk_bytes){ bytes, (size_t)(n * each) });
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        h5_skip(&c, l->f->lengths);
        uint64_t child = h5_address(l->f, &c);

        rc = is ? read_tree(l, child, is - 1, err) : read_symbols(l, child, err);
    }
    stk_free(bytes);
    return rc;
}

/* ---- links in a heap ---- */

typedef struct dense {
    links *l;
    h5_heap heap;
} dense;

static int dense_record(void *cookie, stk_bytes record, stk_error *err)
{
    dense *d = cookie;
    uint8_t *bytes = NULL;
    uint64_t len = 0;
    int rc;

    if (record.len < 4 + (size_t)d->heap.id_len)
        return h5_bad(err, STK_NO_OFFSET, "an index of links");
    rc = h5_heap_get(&d->heap, (stk_bytes){ record.data + 4, d->heap.id_len }, &bytes, &len, err);
    if (rc == 0)
        rc = read_link(d->l, (stk_bytes){ bytes, (size_t)len }, err);
    stk_free(bytes);
    return rc;
}

static int read_dense(links *l, stk_error *err)
{
    dense d = { .l = l };

    STK_TRY(h5_heap_open(&d.heap, l->f, l->dense, err));
    return h5_tree2_walk(l->f, l->dense_tree, dense_record, &d, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const link *)a)->name, ((const link *)b)->name);
}

static int links_read(links *l, const stk_h5_file *f, uint64_t at, stk_error *err)
{
    int rc;

    *l = (links){ .f = f,
                  .table = STK_H5_NOWHERE,
                  .heap = STK_H5_NOWHERE,
                  .dense = STK_H5_NOWHERE,
                  .dense_tree = STK_H5_NOWHERE };
    rc = h5_messages(f, at, group_message, l, err);
    if (rc == 0 && l->table != STK_H5_NOWHERE) {
        rc = read_names(l, err);
        if (rc == 0)
            rc = read_tree(l, l->table, UINT32_MAX, err);
    }
    if (rc == 0 && l->dense != STK_H5_NOWHERE)
        rc = read_dense(l, err);
    if (rc == 0 && l->n) /* the same order in every version */
        qsort(l->link, l->n, sizeof *l->link, by_name);
    return rc;
}

/* ---- paths ---- */

static int resolve(const stk_h5_file *f, uint64_t from, const char *path, uint32_t *soft,
                   uint64_t *out, stk_error *err);

static int follow(const stk_h5_file *f, uint64_t from, const link *k, uint32_t *soft, uint64_t *out,
                  stk_error *err)
{
    if (k->kind == HARD) {
        *out = k->addr;
        return k->addr == STK_H5_NOWHERE ? STK_ENOTFOUND : 0;
    }
    if (k->kind != SOFT || !k->target)
        return STK_ENOTFOUND;
    if (++*soft > SOFT_MAX)
        return stk_fail(err, STK_ELIMIT, "soft links lead in a circle at %.80s", k->name);
    return resolve(f, k->target[0] == '/' ? f->root : from, k->target, soft, out, err);
}

static int step(const stk_h5_file *f, uint64_t from, stk_bytes name, uint32_t *soft, uint64_t *out,
                stk_error *err)
{
    links l;
    int rc = links_read(&l, f, from, err), found = 0;

    for (uint32_t i = 0; rc == 0 && !found && i < l.n; i++) {
        found = strlen(l.link[i].name) == name.len && !memcmp(l.link[i].name, name.data, name.len);
        if (found && l.link[i].kind == EXTERNAL)
            rc = stk_fail(err, STK_EINVAL,
                          "%.80s is a link to another file, which is not followed: open that file",
                          l.link[i].name);
        else if (found)
            rc = follow(f, from, &l.link[i], soft, out, err);
    }
    links_fini(&l);
    return rc == 0 && !found ? STK_ENOTFOUND : rc;
}

static int resolve(const stk_h5_file *f, uint64_t from, const char *path, uint32_t *soft,
                   uint64_t *out, stk_error *err)
{
    uint64_t at = from;

    while (*path) {
        size_t n = strcspn(path, "/");

        if (n && !(n == 1 && *path == '.'))
            STK_TRY(step(f, at, (stk_bytes){ (const uint8_t *)path, n }, soft, &at, err));
        path += n + (path[n] == '/');
    }
    *out = at;
    return 0;
}

/* What one link of the group is: a data set, a group, or not of interest. */
static int take_link(stk_h5_group *g, const stk_h5_file *f, uint64_t from, const link *k,
                     stk_error *err)
{
    uint32_t soft = 0;
    uint64_t at = 0;
    int rc;

    if (k->kind == EXTERNAL)
        return stk_names_add(&g->external, k->name, strlen(k->name), err);
    rc = follow(f, from, k, &soft, &at, err);
    if (rc == STK_ENOTFOUND || (rc == STK_ELIMIT && soft > SOFT_MAX))
        return stk_names_add(&g->nowhere, k->name, strlen(k->name), err);
    if (rc == 0)
        rc = h5_set_read(g, f, k->name, at, err);
    if (rc == STK_END)
        return stk_names_add(&g->groups, k->name, strlen(k->name), err);
    return rc == STK_ENOTFOUND ? 0 : rc;
}

int stk_h5_group_read(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err)
{
    uint32_t soft = 0;
    uint64_t at = 0;
    links l = { 0 };
    int rc = resolve(f, f->root, path, &soft, &at, err);

    if (rc == STK_ENOTFOUND)
        return stk_fail(err, STK_ENOTFOUND, "it has no group %.120s", path);
    if (rc == 0)
        rc = links_read(&l, f, at, err);
    for (uint32_t i = 0; rc == 0 && i < l.n; i++)
        rc = take_link(out, f, at, &l.link[i], err);
    links_fini(&l);
    return rc;
}

int stk_h5_find(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err)
{
    const char *leaf = strrchr(path, '/');
    uint32_t soft = 0;
    uint64_t at = 0;
    int rc = resolve(f, f->root, path, &soft, &at, err);

    if (rc == 0)
        rc = h5_set_read(out, f, leaf ? leaf + 1 : path, at, err);
    return rc == STK_END ? 0 : rc;
}
