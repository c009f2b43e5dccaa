/* SPDX-License-Identifier: Apache-2.0 */
/* ppm - binary PPM and PGM pictures (P6, P5): what has no compression at all, and FFCV's raw
 * pictures.
 *
 * The header says the largest value, up to 65535; as in Pillow, others than 255 are scaled to 255,
 * and gray of over 255 to 65535, with halves to even.  As in Pillow, a picture with fewer bytes
 * than its header says is truncated, whatever part of it is asked for. */
#include "codec/codec.h"
#include "codec/decoders.h"

#include <math.h>
#include <string.h>

#define ALIGN 64
#define SIDE_MAX 65535u

typedef struct ppm_ctx {
    const uint8_t *pixels; /* NULL: no header yet */
    size_t n;              /* bytes of them that are there */
    uint32_t width, height;
    uint32_t most;           /* the largest value */
    uint32_t channels, step; /* 1 or 3; bytes of a value */
} ppm_ctx;

static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A number after white space and comments; 0: there is none, or it is too large. */
static uint32_t read_number(stk_bytes in, size_t *at)
{
    uint32_t v = 0;
    size_t i = *at, digits = 0;

    for (int comment = 0; i < in.len && (comment || is_space(in.data[i]) || in.data[i] == '#'); i++)
        comment = in.data[i] == '#' || (comment && in.data[i] != '\n' && in.data[i] != '\r');
    for (; i < in.len && in.data[i] >= '0' && in.data[i] <= '9' && digits < 6; i++, digits++)
        v = v * 10 + (in.data[i] - (uint32_t)'0');
    *at = i;
    return v;
}

/* Text may begin so too: the whole header has to be there. */
static int ppm_probe(stk_bytes head)
{
    size_t at = 2;

    if (head.len < 3 || head.data[0] != 'P' || (head.data[1] != '6' && head.data[1] != '5') ||
        !(is_space(head.data[2]) || head.data[2] == '#'))
        return 0;
    return read_number(head, &at) && read_number(head, &at) && read_number(head, &at) &&
           at < head.len && is_space(head.data[at]);
}

static int ppm_open(void **out, stk_error *err)
{
    *out = STK_NEW(ppm_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(ppm_ctx));
}

static int ppm_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    size_t at = 2;
    ppm_ctx *c = p;

    (void)points;
    *c = (ppm_ctx){ 0 };
    c->width = read_number(in, &at);
    c->height = read_number(in, &at);
    c->most = read_number(in, &at);
    *out = stk_picture_info(c->width, c->height);
    if (!c->width || !c->height || c->width > SIDE_MAX || c->height > SIDE_MAX || !c->most ||
        at >= in.len || !is_space(in.data[at]))
        return stk_fail(err, STK_ECORRUPT, "PPM: its header says no size");
    if (c->most > 65535)
        return stk_fail(err, STK_ECORRUPT, "PPM: colors up to %u, and 65535 is the most", c->most);
    c->channels = in.data[1] == '6' ? 3 : 1;
    c->step = c->most > 255 ? 2 : 1;
    at++;
    c->pixels = in.data + at;
    c->n = in.len - at;
    return 0;
}

/* A value as Pillow scales it, to `to` at most. */
static uint32_t scaled(const ppm_ctx *c, const uint8_t *from, uint32_t to)
{
    uint32_t v = c->step == 2 ? (uint32_t)from[0] << 8 | from[1] : from[0];
    double x = c->most == to ? v : rint((double)v / c->most * to);

    return x < to ? (uint32_t)x : to;
}

/* w pixels; gray of 16 bits becomes 8 by its high byte. */
static void make_row(const ppm_ctx *c, const uint8_t *from, uint32_t w, int deep, uint8_t *dst)
{
    uint32_t green = c->channels > 1 ? c->step : 0, pixel = c->channels * c->step;

    for (; w; w--, from += pixel, dst += 4) {
        if (c->channels == 1 && c->step == 2) {
            uint32_t v = scaled(c, from, 65535);

            memset(dst, (int)(v >> 8), 4);
            if (deep)
                memcpy(dst, &v, sizeof v);
        } else if (c->most == 255) {
            dst[0] = from[0];
            dst[1] = from[green];
            dst[2] = from[2 * green];
            dst[3] = 255;
        } else {
            dst[0] = (uint8_t)scaled(c, from, 255);
            dst[1] = (uint8_t)scaled(c, from + green, 255);
            dst[2] = (uint8_t)scaled(c, from + 2 * (size_t)green, 255);
            dst[3] = 255;
        }
    }
}

/* As png.c has it. */
static int check_kind(const ppm_ctx *c, const stk_decode_request *ask, stk_error *err)
{
    int deep = c->channels == 1 && c->step == 2;

    if (ask->deep && !deep)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=gray16): the picture is %s with values up to %u: write "
                        "image(mode=%s)",
                        c->channels > 1 ? "a PPM, of colors," : "a PGM", c->most,
                        c->channels > 1 ? "rgb" : "gray");
    if (ask->index && c->channels > 1)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): a PPM has colors, not indices: store PNG or PGM");
    if (deep && ask->index)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): the PGM is gray of 16 bits: image(mode=gray16) keeps "
                        "its values, and of a mask like(..., interpolation=nearest)");
    if (deep && !ask->deep && !ask->high_byte)
        return stk_fail(err, STK_ECORRUPT,
                        "the PGM is gray of 16 bits, which 8 do not hold: image(mode=gray16) keeps "
                        "its values, image(bits=8) their high byte");
    return 0;
}

static int ppm_pixels(void *p, const stk_decode_request *ask, stk_scratch *scratch, stk_pixels *out,
                      stk_error *err)
{
    const stk_rect *need = &ask->need;
    const ppm_ctx *c = p;

    if (!c->pixels)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if ((uint64_t)c->width * c->height * c->channels * c->step > c->n)
        return stk_fail(err, STK_ECORRUPT, "PPM is truncated: %zu bytes for %ux%u pixels", c->n,
                        c->width, c->height);
    STK_TRY(check_kind(c, ask, err));
    if (!need->w || !need->h || need->x >= c->width || need->w > c->width - need->x ||
        need->y >= c->height || need->h > c->height - need->y)
        return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                        need->w, need->h, need->x, need->y, c->width, c->height);
    out->area = *need;
    out->deep = ask->deep;
    out->stride = ((size_t)need->w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    out->data = stk_scratch_get(scratch, out->stride * need->h);
    if (!out->data)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", need->w, need->h);
    for (uint32_t y = 0; y < need->h; y++) {
        size_t at = (size_t)(need->y + y) * c->width + need->x;

        make_row(c, c->pixels + at * c->channels * c->step, need->w, ask->deep,
                 out->data + y * out->stride);
    }
    return 0;
}

static void ppm_close(void *p)
{
    stk_free(p);
}

static int ppm_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    return stk_pixels_give(ppm_pixels, ctx, job, err);
}

const stk_decoder stk_decoder_ppm = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof(stk_decoder),
                                      .name = "ppm",
                                      .help = "binary PPM and PGM (P6, P5), of 8 or 16 bits",
                                      .probe = ppm_probe,
                                      .open = ppm_open,
                                      .header = ppm_header,
                                      .decode = ppm_decode,
                                      .close = ppm_close };
