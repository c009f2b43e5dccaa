/* SPDX-License-Identifier: Apache-2.0 */
/* picture.c - a tensor as PPM, PNG or NPY, to be looked at.
 *
 * The PNG is not compressed (deflate's stored blocks): it is made in one pass and needs no
 * library.  Pictures are u8 with three channels, first or last; strides are honoured. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define STORED_MAX 65535u

typedef struct picture {
    const uint8_t *data;
    int64_t width, height;
    int64_t x, y, c; /* strides */
} picture;

static int picture_of(const stk_tensor *t, picture *p)
{
    int last = t->ndim == 3 && t->shape[2] == 3, first = t->ndim == 3 && t->shape[0] == 3;

    if (t->dtype != STK_U8 || (!last && !first))
        return cli_usage(
            "this is not a picture of bytes (three channels of u8): end the chain with "
            "to(u8), or take --decode npy");
    *p = (picture){ .data = t->data };
    p->height = t->shape[last ? 0 : 1];
    p->width = t->shape[last ? 1 : 2];
    p->y = t->strides[last ? 0 : 1];
    p->x = t->strides[last ? 1 : 2];
    p->c = t->strides[last ? 2 : 0];
    return 0;
}

static void row_of(const picture *p, int64_t y, uint8_t *out)
{
    for (int64_t x = 0; x < p->width; x++)
        for (int64_t c = 0; c < 3; c++)
            *out++ = p->data[y * p->y + x * p->x + c * p->c];
}

static int write_ppm(FILE *to, const stk_tensor *t)
{
    picture p;
    uint8_t *row;

    if (picture_of(t, &p))
        return CLI_USAGE;
    row = malloc((size_t)p.width * 3 + 1);
    if (!row)
        return cli_usage("out of memory");
    fprintf(to, "P6\n%" PRId64 " %" PRId64 "\n255\n", p.width, p.height);
    for (int64_t y = 0; y < p.height; y++) {
        row_of(&p, y, row);
        fwrite(row, 3, (size_t)p.width, to);
    }
    free(row);
    return 0;
}

/* ---- PNG ---- */

typedef struct png {
    FILE *to;
    uint32_t crc, a, b; /* of the chunk; Adler-32 of the pixels */
} png;

static void put(png *p, const void *data, size_t len)
{
    const uint8_t *s = data;

    for (size_t i = 0; i < len; i++) {
        p->crc ^= s[i];
        for (int k = 0; k < 8; k++)
            p->crc = p->crc >> 1 ^ (p->crc & 1 ? 0xedb88320u : 0);
    }
    fwrite(data, 1, len, p->to);
}

static void put32(png *p, uint32_t v)
{
    uint8_t s[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

    put(p, s, 4);
}

static void chunk_begin(png *p, const char *name, uint32_t len)
{
    put32(p, len);
    p->crc = 0xffffffffu;
    put(p, name, 4);
}

static void chunk_end(png *p)
{
    put32(p, ~p->crc);
}

static void put_pixels(png *p, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        p->a = (p->a + data[i]) % 65521;
        p->b = (p->b + p->a) % 65521;
    }
    put(p, data, len);
}

/* All rows, each after its filter byte, in stored blocks of at most 65,535 bytes. */
static void put_rows(png *p, const picture *pic, uint8_t *row)
{
    size_t line = (size_t)pic->width * 3 + 1, left = line * (size_t)pic->height, room = 0;

    row[0] = 0;
    for (int64_t y = 0; y < pic->height; y++) {
        row_of(pic, y, row + 1);
        for (size_t at = 0, n; at < line; at += n) {
            if (!room) {
                uint16_t len = left < STORED_MAX ? (uint16_t)left : STORED_MAX;
                uint8_t head[5] = { left <= STORED_MAX, (uint8_t)len, (uint8_t)(len >> 8),
                                    (uint8_t)~len, (uint8_t)(~len >> 8) };

                put(p, head, 5);
                room = len;
                left -= len;
            }
            n = line - at < room ? line - at : room;
            put_pixels(p, row + at, n);
            room -= n;
        }
    }
}

static int write_png(FILE *to, const stk_tensor *t)
{
    static const uint8_t rgb8[] = { 8, 2, 0, 0, 0 };
    png p = { .to = to, .a = 1 };
    uint64_t bytes, blocks;
    picture pic;
    uint8_t *row;

    if (picture_of(t, &pic))
        return CLI_USAGE;
    bytes = ((uint64_t)pic.width * 3 + 1) * (uint64_t)pic.height;
    blocks = (bytes + STORED_MAX - 1) / STORED_MAX;
    row = bytes < 1u << 31 ? malloc((size_t)pic.width * 3 + 2) : NULL;
    if (!row)
        return cli_usage("the picture is too large for this: take --decode ppm");
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, to);
    chunk_begin(&p, "IHDR", 13);
    put32(&p, (uint32_t)pic.width);
    put32(&p, (uint32_t)pic.height);
    put(&p, rgb8, 5);
    chunk_end(&p);
    chunk_begin(&p, "IDAT", (uint32_t)(2 + bytes + 5 * blocks + 4));
    put(&p, "\x78\x01", 2);
    put_rows(&p, &pic, row);
    put32(&p, p.b << 16 | p.a);
    chunk_end(&p);
    chunk_begin(&p, "IEND", 0);
    chunk_end(&p);
    free(row);
    return 0;
}

/* ---- NPY ---- */

static const char *npy_type(stk_dtype d)
{
    static const char *const names[] = {
        [STK_U8] = "|u1",  [STK_I8] = "|i1",  [STK_U16] = "<u2", [STK_I16] = "<i2",
        [STK_I32] = "<i4", [STK_I64] = "<i8", [STK_F16] = "<f2", [STK_F32] = "<f4",
        [STK_F64] = "<f8", [STK_U32] = "<u4"
    };

    return (size_t)d < sizeof names / sizeof *names ? names[d] : NULL;
}

static void npy_values(FILE *to, const stk_tensor *t, uint32_t dim, const char *at, size_t size)
{
    if (dim == t->ndim) {
        fwrite(at, 1, size, to);
        return;
    }
    for (int64_t i = 0; i < t->shape[dim]; i++)
        npy_values(to, t, dim + 1, at + i * t->strides[dim] * (int64_t)size, size);
}

static int write_npy(FILE *to, const stk_tensor *t)
{
    const char *type = npy_type(t->dtype);
    char text[256];
    int n;

    if (!type)
        return cli_usage("npy has no type %s: end the chain with to(f32)",
                         stk_dtype_name(t->dtype));
    n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (uint32_t i = 0; i < t->ndim; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%" PRId64 ",", t->shape[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    while ((10 + n + 1) % 64)
        text[n++] = ' ';
    text[n++] = '\n';
    fwrite("\x93NUMPY\x01\x00", 1, 8, to);
    fputc(n & 255, to);
    fputc(n >> 8, to);
    fwrite(text, 1, (size_t)n, to);
    npy_values(to, t, 0, t->data, stk_dtype_size(t->dtype));
    return 0;
}

cli_writer cli_writer_of(const char *kind)
{
    return !strcmp(kind, "ppm")   ? write_ppm
           : !strcmp(kind, "png") ? write_png
           : !strcmp(kind, "npy") ? write_npy
                                  : NULL;
}
