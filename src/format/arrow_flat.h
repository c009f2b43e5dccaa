/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_flat.h - reads flatbuffers, the form of Arrow's metadata: a table's fields are found by its
 * vtable, and every offset is checked before it is read.  Readers of IPC messages include it. */
#ifndef STOKER_FORMAT_ARROW_FLAT_H
#define STOKER_FORMAT_ARROW_FLAT_H

#include "base/err.h"

typedef struct table { /* a table of a flatbuffer; at 0: there is none */
    stk_bytes all;
    size_t at, vtable;
    uint32_t n; /* bytes of the vtable */
} table;

static inline uint64_t little(const uint8_t *p, uint32_t n)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline int table_at(stk_bytes all, size_t at, table *out)
{
    int32_t back;
    int64_t v;

    *out = (table){ 0 };
    if (at > all.len || all.len - at < 4)
        return -1;
    back = (int32_t)little(all.data + at, 4);
    v = (int64_t)at - back;
    if (v < 0 || (uint64_t)v > all.len || all.len - (size_t)v < 4)
        return -1;
    *out = (table){ all, at, (size_t)v, (uint32_t)little(all.data + v, 2) };
    return out->n < 4 || out->n > all.len - (size_t)v ? -1 : 0;
}

/* Offset of field i of the table, which has `bytes` bytes.  0: the table lacks it.  -1: it is
 * outside of the data. */
static inline int64_t place(const table *t, uint32_t i, uint32_t bytes)
{
    size_t slot = 4 + 2 * (size_t)i, at;

    if (!t->at || slot + 2 > t->n)
        return 0;
    at = (size_t)little(t->all.data + t->vtable + slot, 2);
    if (!at)
        return 0;
    at += t->at;
    return at > t->all.len || t->all.len - at < bytes ? -1 : (int64_t)at;
}

static inline int64_t number_of(const table *t, uint32_t i, uint32_t bytes, int64_t otherwise)
{
    int64_t at = place(t, i, bytes);
    uint64_t v;

    if (at <= 0)
        return otherwise;
    v = little(t->all.data + at, bytes);
    if (bytes == 4)
        return (int32_t)v;
    if (bytes == 2)
        return (int16_t)v;
    return (int64_t)v;
}

/* Offset that field i points to.  0: the table lacks the field.  -1: it is outside of the data. */
static inline int64_t target(const table *t, uint32_t i)
{
    int64_t at = place(t, i, 4);
    uint64_t to;

    if (at <= 0)
        return at;
    to = (uint64_t)at + little(t->all.data + at, 4);
    return to >= t->all.len ? -1 : (int64_t)to;
}

/* Sets *out to the table in field i; out->at 0: there is none. */
static inline int table_in(const table *t, uint32_t i, table *out)
{
    int64_t to = target(t, i);

    *out = (table){ 0 };
    return to < 0 ? -1 : to ? table_at(t->all, (size_t)to, out) : 0;
}

/* Sets *data and *n to the vector in field i, whose elements have `each` bytes; *data NULL: there
 * is none. */
static inline int vector_in(const table *t, uint32_t i, uint32_t each, const uint8_t **data,
                            uint32_t *n)
{
    int64_t to = target(t, i);

    *data = NULL;
    *n = 0;
    if (to <= 0)
        return (int)to;
    if (t->all.len - (size_t)to < 4)
        return -1;
    *n = (uint32_t)little(t->all.data + to, 4);
    *data = t->all.data + to + 4;
    return (uint64_t)*n * each > t->all.len - (size_t)to - 4 ? -1 : 0;
}

#endif
