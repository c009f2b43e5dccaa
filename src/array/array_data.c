/* SPDX-License-Identifier: Apache-2.0 */
/* array_data.c - arrays and token files, as a loader reads them: a field is an array, and a sample
 * is a row of each. */
#include <string.h>

#include "array/arrays.h"
#include "base/hash.h"

#define PARTS 16 /* files of an array that a fingerprint looks into ... */
#define PLACES 8 /* ... each in so many rows ... */
#define LOOK 64  /* ... of which so many bytes */

static const stk_arrays *of(const stk_dataset *d)
{
    return (const stk_arrays *)d;
}

static uint64_t data_len(const stk_dataset *d)
{
    return of(d)->rows;
}

static const char *data_kind(const stk_dataset *d)
{
    return of(d)->kind;
}

static uint64_t data_shards(const stk_dataset *d)
{
    return of(d)->files;
}

/* Files are counted through all arrays. */
static const char *data_shard_name(const stk_dataset *d, uint64_t i)
{
    const stk_arrays *s = of(d);

    for (uint32_t k = 0; k < s->n; k++) {
        const stk_array *a = &s->array[k];

        if (a->part[0].data) /* memory, or unpacked */
            continue;
        if (i < a->n_parts)
            return a->part[i].name;
        i -= a->n_parts;
    }
    return NULL;
}

static int data_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    const stk_arrays *s = of(d);
    const stk_array *a;

    *out = (stk_field_type){ 0 };
    if (field >= s->n)
        return 0;
    a = &s->array[field];
    out->name = a->name;
    out->dtype = a->dtype;
    out->ndim = a->ndim;
    memcpy(out->shape, a->shape, a->ndim * sizeof *a->shape);
    return 1;
}

/* ---- fingerprint: files by their last name, size, type and what is in a few places of them
 * ---- */

static int add_part(const stk_array *a, uint32_t i, stk_fingerprint *p, stk_error *err)
{
    const stk_piece *part = &a->part[i];
    uint64_t rows = a->first[i + 1] - a->first[i];
    size_t len = a->row_bytes < LOOK ? a->row_bytes : LOOK;
    uint8_t bytes[LOOK];

    for (uint64_t k = 0; rows && k < PLACES; k++) {
        uint64_t row = (uint64_t)((unsigned __int128)(rows - 1) * k / (PLACES - 1));

        STK_TRY(stk_piece_read(part, row * a->pitch, bytes, len, err));
        p->content = stk_hash64(p->content, bytes, len);
    }
    return 0;
}

static int add_array(const stk_array *a, stk_fingerprint *p, stk_error *err)
{
    p->names = stk_hash64(p->names, a->name, strlen(a->name));
    p->content = stk_hash64(p->content + a->dtype, a->shape, a->ndim * sizeof *a->shape);
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const char *name = a->part[i].name, *base = name ? strrchr(name, '/') : NULL;
        uint64_t rows = a->first[i + 1] - a->first[i];

        base = base ? base + 1 : name ? name : "";
        p->names = stk_hash64(p->names, base, strlen(base));
        p->content = stk_hash64(p->content, &rows, sizeof rows);
        p->bytes += rows * a->row_bytes;
        if (i % (a->n_parts / PARTS + 1) == 0)
            STK_TRY(add_part(a, i, p, err));
    }
    return 0;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *p, stk_error *err)
{
    const stk_arrays *s = of(d);

    for (uint32_t i = 0; i < s->n; i++)
        STK_TRY(add_array(&s->array[i], p, err));
    p->shards += s->files;
    p->samples += s->rows;
    return 0;
}

/* ---- rows ---- */

static const stk_array *data_array(const stk_dataset *d, const char *name)
{
    const stk_arrays *s = of(d);

    for (uint32_t i = 0; i < s->n; i++)
        if (!strcmp(s->array[i].name, name))
            return &s->array[i];
    return NULL;
}

static int data_read(const stk_dataset *d, uint64_t sample, uint32_t field, void *into,
                     stk_error *err)
{
    uint64_t rows;

    return stk_array_read(&of(d)->array[field], sample, 1, into, &rows, err);
}

static int data_unchanged(const stk_dataset *d, stk_error *err)
{
    const stk_arrays *s = of(d);

    for (uint32_t i = 0; i < s->n; i++)
        STK_TRY(stk_array_unchanged(&s->array[i], err));
    return 0;
}

static void data_close(stk_dataset *d)
{
    stk_arrays *s = (stk_arrays *)d;

    stk_arrays_close(&s);
}

static const stk_data_ops ops = {
    .name = "arrays",
    .plural = "arrays and token files",
    .len = data_len,
    .kind = data_kind,
    .shards = data_shards,
    .shard_name = data_shard_name,
    .type = data_type,
    .fingerprint = data_fingerprint,
    .immediate.array = data_array,
    .immediate.read = data_read,
    .trust.unchanged = data_unchanged,
    .close = data_close,
};

void stk_arrays_init(stk_arrays *s)
{
    stk_dataset_init(&s->base, &ops, STK_DATA_IMMEDIATE);
}
