/* SPDX-License-Identifier: Apache-2.0 */
/* h5_parts.h - what the files h5_*.c share: a cursor over bytes that may end anywhere, and
 * functions that read parts of HDF5's metadata. */
#ifndef STOKER_H5_PARTS_H
#define STOKER_H5_PARTS_H

#include "base/mem.h"
#include "format/hdf5/hdf5.h"

#define H5_META_MAX ((uint64_t)64 << 20) /* most bytes of one piece of metadata */

typedef struct h5_cursor { /* a read past the end gives zeros and sets `bad` */
    const uint8_t *p, *end;
    int bad;
} h5_cursor;

static inline h5_cursor h5_over(stk_bytes b)
{
    return (h5_cursor){ b.data, b.data ? b.data + b.len : b.data, 0 };
}

static inline size_t h5_left(const h5_cursor *c)
{
    return (size_t)(c->end - c->p);
}

static inline const uint8_t *h5_skip(h5_cursor *c, uint64_t n)
{
    const uint8_t *at = c->p;

    if (c->bad || n > h5_left(c)) {
        c->bad = 1;
        return NULL;
    }
    c->p += n;
    return at;
}

static inline uint64_t h5_uint(h5_cursor *c, uint32_t bytes) /* little-endian, up to 8 */
{
    const uint8_t *at = h5_skip(c, bytes);
    uint64_t v = 0;

    for (uint32_t i = 0; at && i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

/* An offset in the file; STK_H5_NOWHERE: undefined. */
static inline uint64_t h5_address(const stk_h5_file *f, h5_cursor *c)
{
    uint64_t v = h5_uint(c, f->offsets),
             none = f->offsets == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * f->offsets) - 1;

    return v == none || v > UINT64_MAX - f->base ? STK_H5_NOWHERE : v + f->base;
}

static inline uint64_t h5_length(const stk_h5_file *f, h5_cursor *c)
{
    return h5_uint(c, f->lengths);
}

static inline int h5_is(h5_cursor *c, const char *four)
{
    const uint8_t *at = h5_skip(c, 4);

    return at && at[0] == (uint8_t)four[0] && at[1] == (uint8_t)four[1] &&
           at[2] == (uint8_t)four[2] && at[3] == (uint8_t)four[3];
}

/* Reads `len` bytes of the file, which must have them. */
int h5_get(const stk_h5_file *f, uint64_t at, void *dst, uint64_t len, stk_error *err);
/* The same into memory that the caller frees. */
int h5_get_new(const stk_h5_file *f, uint64_t at, uint64_t len, uint8_t **out, stk_error *err);
int h5_bad(stk_error *err, uint64_t at, const char *what); /* STK_ECORRUPT with the place */
/* 1: the last four bytes are the checksum of those before. */
int h5_sum_fits(const uint8_t *p, size_t len);

/* Copies the object with this number in the heap collection at `at`; the caller frees it. */
int h5_object_get(const stk_h5_file *f, uint64_t at, uint32_t number, uint8_t **out, uint64_t *len,
                  stk_error *err);

/* h5_virtual.c: reads the sources of a virtual data set, which are an object of the heap. */
int h5_mappings_read(stk_h5_set *s, const stk_h5_file *f, uint64_t at, uint32_t number,
                     stk_error *err);
void h5_mappings_fini(stk_h5_set *s);

/* h5_object.c: calls fn() for each message of an object header.  fn() returns 0, an error, or
 * STK_END, which ends the calls. */
typedef struct h5_message {
    uint32_t type;
    stk_bytes data;
} h5_message;
typedef int (*h5_message_fn)(void *cookie, const h5_message *m, stk_error *err);
int h5_messages(const stk_h5_file *f, uint64_t at, h5_message_fn fn, void *cookie, stk_error *err);

/* h5_type.c */
typedef struct h5_member {
    char *name;
    uint32_t offset;
    stk_h5_type type;
} h5_member;
typedef struct h5_members {
    h5_member *member;
    uint32_t n;
} h5_members;
/* members may be NULL */
int h5_type_read(stk_h5_type *out, h5_members *members, stk_bytes data, stk_error *err);
void h5_members_fini(h5_members *m);

/* h5_set.c: adds the data set at `at` to *g.  STK_END: it is a group.  STK_ENOTFOUND: it is
 * neither. */
int h5_set_read(stk_h5_group *g, const stk_h5_file *f, const char *name, uint64_t at,
                stk_error *err);

/* h5_dense.c: walks a B-tree of version 2, record by record; reads objects of a fractal heap. */
typedef int (*h5_record_fn)(void *cookie, stk_bytes record, stk_error *err);
int h5_tree2_walk(const stk_h5_file *f, uint64_t at, h5_record_fn fn, void *cookie, stk_error *err);
typedef struct h5_heap {
    const stk_h5_file *f;
    uint64_t start, direct_max, root;
    uint32_t width, bits, rows, id_len;
} h5_heap;
int h5_heap_open(h5_heap *h, const stk_h5_file *f, uint64_t at, stk_error *err);
int h5_heap_get(const h5_heap *h, stk_bytes id, uint8_t **out, uint64_t *len, stk_error *err);

/* h5_index.c: reads the index of chunks of layouts 4 and 5. */
int h5_chunk_add(stk_h5_chunks *out, const stk_h5_chunk *c, stk_error *err);
int h5_index_read(stk_h5_chunks *out, const stk_h5_file *f, const stk_h5_set *s, uint64_t chunks,
                  stk_error *err);

#endif
