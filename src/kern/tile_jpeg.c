/* SPDX-License-Identifier: Apache-2.0 */
/* tile_jpeg.c - a tile as it would come back from a JPEG file of some quality: colors to Y, Cb, Cr,
 * two by two Cb and Cr to one, blocks with what quantization takes, and back as libjpeg does by
 * default. */
#include <string.h>

#include "base/mem.h"
#include "kern/jpeg_loss.h"
#include "kern/point.h"
#include "kern/tile_big.h"

static const uint8_t luma[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
};
static const uint8_t chroma[64] = {
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
    99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
};

typedef struct planes {
    uint8_t *y, *c[2];    /* c: half as wide and high */
    uint8_t *full[2];     /* two rows of Cb and Cr at full size */
    size_t width, height; /* of y, to whole blocks of 16 */
} planes;

void stk_jpeg_quantizers(uint16_t q[2][64], uint32_t quality)
{
    uint32_t scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;

    for (int i = 0; i < 128; i++) {
        uint32_t v = ((i < 64 ? luma[i] : chroma[i - 64]) * scale + 50) / 100;

        q[i / 64][i % 64] = (uint16_t)(v < 1 ? 1 : v > 255 ? 255 : v);
    }
}

static void inverses(stk_quantizers *out, const uint16_t q[64])
{
    for (int i = 0; i < 64; i++) {
        out->q[i] = q[i];
        out->inverse[i] = ((1u << 20) + q[i] - 1) / q[i];
    }
}

/* One row; past the edge its last pixel again. */
static void to_ycc(const stk_tile_kern *k, const stk_tile *t, const planes *p, uint32_t y)
{
    const uint32_t *src = t->data + (size_t)(y < t->height ? y : t->height - 1) * t->width;
    size_t half = (y & 1) * p->width;
    uint8_t *out[3] = { p->y + y * p->width, p->full[0] + half, p->full[1] + half };

    k->jpeg_ycc(out, src, t->width);
    for (int c = 0; c < 3; c++)
        memset(out[c] + t->width, out[c][t->width - 1], p->width - t->width);
}

static void loss(const stk_tile_kern *k, uint8_t *plane, size_t width, size_t height,
                 const stk_quantizers *q)
{
    for (size_t y = 0; y < height; y += 8)
        k->jpeg_loss(plane + y * width, width, q);
}

/* A row of Cb or Cr at full size: three quarters of the nearer row and column, one of the other.
 * Of two columns or one libjpeg takes the nearest. */
static void grow(const stk_tile_kern *k, const stk_tile *t, const planes *p, uint32_t y)
{
    int64_t rows = ((int64_t)t->height + 1) / 2, near = y / 2, far = y & 1 ? near + 1 : near - 1;
    size_t n = ((size_t)t->width + 1) / 2;

    far = far < 0 ? 0 : far >= rows ? rows - 1 : far;
    for (int c = 0; c < 2; c++) {
        const uint8_t *a = p->c[c] + (size_t)near * (p->width / 2),
                      *b = p->c[c] + (size_t)far * (p->width / 2);

        for (size_t x = 0; n <= 2 && x < n; x++)
            p->full[c][2 * x] = p->full[c][2 * x + 1] = a[x];
        if (n > 2)
            k->jpeg_grow(p->full[c], a, b, n);
    }
}

size_t stk_tile_jpeg_bytes(const stk_tile *t)
{
    size_t w = ((size_t)t->width + 15) & ~(size_t)15, h = ((size_t)t->height + 15) & ~(size_t)15;

    return w * h + w * h / 2 + 4 * w;
}

static void to_planes(const stk_tile_kern *k, const stk_tile *t, const planes *p)
{
    for (uint32_t y = 0; y < p->height; y += 2) {
        if (y < t->height) { /* past the edge the last row of Cb and Cr comes again */
            to_ycc(k, t, p, y);
            to_ycc(k, t, p, y + 1);
        } else {
            memcpy(p->y + y * p->width, p->y + (y - 1) * p->width, p->width);
            memcpy(p->y + (y + 1) * p->width, p->y + (y - 1) * p->width, p->width);
        }
        for (int c = 0; c < 2; c++)
            k->jpeg_half(p->c[c] + (size_t)(y / 2) * (p->width / 2), p->full[c],
                         p->full[c] + p->width, p->width / 2);
    }
}

void stk_tile_jpeg(const stk_tile_kern *k, stk_tile *t, uint32_t quality, uint8_t *memory)
{
    planes p = { .y = memory,
                 .width = ((size_t)t->width + 15) & ~(size_t)15,
                 .height = ((size_t)t->height + 15) & ~(size_t)15 };
    stk_quantizers q[2];
    uint16_t by[2][64];

    p.c[0] = p.y + p.width * p.height;
    p.c[1] = p.c[0] + p.width * p.height / 4;
    p.full[0] = p.c[1] + p.width * p.height / 4;
    p.full[1] = p.full[0] + 2 * p.width;
    stk_jpeg_quantizers(by, quality);
    inverses(&q[0], by[0]);
    inverses(&q[1], by[1]);
    to_planes(k, t, &p);
    loss(k, p.y, p.width, p.height, &q[0]);
    loss(k, p.c[0], p.width / 2, p.height / 2, &q[1]);
    loss(k, p.c[1], p.width / 2, p.height / 2, &q[1]);
    for (uint32_t y = 0; y < t->height; y++) {
        grow(k, t, &p, y);
        k->jpeg_rgb(t->data + (size_t)y * t->width, p.y + y * p.width, p.full[0], p.full[1],
                    t->width);
    }
}
