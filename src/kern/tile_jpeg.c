/* SPDX-License-Identifier: Apache-2.0 */
/* tile_jpeg.c - a tile as it would come back from a JPEG file of some quality: colors to Y, Cb, Cr, two by
 * two Cb and Cr to one, blocks with what quantization takes, and back as libjpeg does by default. */
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
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
};

typedef struct planes {
    uint8_t *y, *c[2];    /* c: half as wide and high */
    uint8_t *full[2];     /* two rows of Cb and Cr at full size */
    size_t width, height; /* of y, to whole blocks of 16 */
} planes;

static void quantizers(uint16_t out[64], const uint8_t base[64], uint32_t quality)
{
    uint32_t scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;

    for (int i = 0; i < 64; i++) {
        uint32_t q = (base[i] * scale + 50) / 100;

        out[i] = (uint16_t)(q < 1 ? 1 : q > 255 ? 255 : q);
    }
}

/* One row; past the edge its last pixel again. */
static void to_ycc(const stk_tile *t, const planes *p, uint32_t y, int half)
{
    const uint32_t *src = t->data + (size_t)(y < t->height ? y : t->height - 1) * t->width;
    uint8_t *luma_row = p->y + y * p->width, *cb = p->full[0] + (size_t)half * p->width,
            *cr = p->full[1] + (size_t)half * p->width;

    for (size_t x = 0; x < p->width; x++) {
        uint32_t px = src[x < t->width ? x : t->width - 1];
        int32_t r = stk_px_r(px), g = stk_px_g(px), b = stk_px_b(px);

        luma_row[x] = (uint8_t)((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
        cb[x] = (uint8_t)((-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16);
        cr[x] = (uint8_t)((32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16);
    }
}

/* Two rows of Cb or Cr to one; halves are rounded down and up in turn, as libjpeg does. */
static void shrink(const planes *p, int k, uint32_t row)
{
    const uint8_t *a = p->full[k], *b = a + p->width;
    uint8_t *out = p->c[k] + (size_t)row * (p->width / 2);

    for (size_t x = 0; x < p->width / 2; x++)
        out[x] = (uint8_t)((a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1] + 1 + (int)(x & 1)) >> 2);
}

static void loss(uint8_t *plane, size_t width, size_t height, const uint16_t q[64])
{
    for (size_t y = 0; y < height; y += 8)
        for (size_t x = 0; x < width; x += 8)
            stk_block_loss(plane + y * width + x, width, q);
}

/* A row of Cb or Cr at full size: three quarters of the nearer row and column, one of the other.  Of two
 * columns or one libjpeg takes the nearest. */
static void grow(const stk_tile *t, const planes *p, int k, uint32_t y)
{
    int64_t rows = ((int64_t)t->height + 1) / 2, n = ((int64_t)t->width + 1) / 2, near = y / 2,
            far = y & 1 ? near + 1 : near - 1;
    const uint8_t *a, *b;
    uint8_t *out = p->full[k];

    far = far < 0 ? 0 : far >= rows ? rows - 1 : far;
    a = p->c[k] + (size_t)near * (p->width / 2);
    b = p->c[k] + (size_t)far * (p->width / 2);
    for (int64_t x = 0; n <= 2 && x < n; x++)
        out[2 * x] = out[2 * x + 1] = a[x];
    for (int64_t x = 0; n > 2 && x < n; x++) {
        int64_t l = x ? x - 1 : x, r = x + 1 < n ? x + 1 : x;
        int32_t mid = 3 * (3 * a[x] + b[x]);

        out[2 * x] = (uint8_t)((mid + 3 * a[l] + b[l] + 8) >> 4);
        out[2 * x + 1] = (uint8_t)((mid + 3 * a[r] + b[r] + 7) >> 4);
    }
}

static uint32_t clamp(int32_t v)
{
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void to_rgb(stk_tile *t, const planes *p, uint32_t y)
{
    uint32_t *dst = t->data + (size_t)y * t->width;

    for (uint32_t x = 0; x < t->width; x++) {
        int32_t v = p->y[y * p->width + x], cb = p->full[0][x] - 128, cr = p->full[1][x] - 128;

        dst[x] = stk_px(clamp(v + ((91881 * cr + 32768) >> 16)),
                        clamp(v + ((-22554 * cb - 46802 * cr + 32768) >> 16)),
                        clamp(v + ((116130 * cb + 32768) >> 16)));
    }
}

size_t stk_tile_jpeg_bytes(const stk_tile *t)
{
    size_t w = ((size_t)t->width + 15) & ~(size_t)15, h = ((size_t)t->height + 15) & ~(size_t)15;

    return w * h + w * h / 2 + 4 * w;
}

void stk_tile_jpeg(stk_tile *t, uint32_t quality, uint8_t *memory)
{
    planes p = { .y = memory,
                 .width = ((size_t)t->width + 15) & ~(size_t)15,
                 .height = ((size_t)t->height + 15) & ~(size_t)15 };
    uint16_t q[2][64];

    p.c[0] = p.y + p.width * p.height;
    p.c[1] = p.c[0] + p.width * p.height / 4;
    p.full[0] = p.c[1] + p.width * p.height / 4;
    p.full[1] = p.full[0] + 2 * p.width;
    quantizers(q[0], luma, quality);
    quantizers(q[1], chroma, quality);
    for (uint32_t y = 0; y < p.height; y += 2) {
        to_ycc(t, &p, y, 0);
        to_ycc(t, &p, y + 1, 1);
        shrink(&p, 0, y / 2);
        shrink(&p, 1, y / 2);
    }
    loss(p.y, p.width, p.height, q[0]);
    loss(p.c[0], p.width / 2, p.height / 2, q[1]);
    loss(p.c[1], p.width / 2, p.height / 2, q[1]);
    for (uint32_t y = 0; y < t->height; y++) {
        grow(t, &p, 0, y);
        grow(t, &p, 1, y);
        to_rgb(t, &p, y);
    }
}
