/* SPDX-License-Identifier: Apache-2.0 */
/* ppm - binary PPM pictures (P6, 8 bits a color): what has no compression at all, and FFCV's raw
 * pictures.
 *
 * As in Pillow, a picture with fewer bytes than its header says is truncated, whatever part of it
 * is asked for. */
#include "codec/codec.h"

#include <string.h>

#define ALIGN 64
#define SIDE_MAX 65535u

typedef struct ppm_ctx {
    const uint8_t *pixels; /* NULL: no header yet */
    uint32_t width, height;
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

/* Text may begin with P6 too: the whole header has to be there. */
static int ppm_probe(stk_bytes head)
{
    size_t at = 2;

    if (head.len < 3 || head.data[0] != 'P' || head.data[1] != '6' ||
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

static int ppm_header(void *p, stk_bytes in, stk_bytes hint, stk_image_info *out, stk_error *err)
{
    size_t at = 2;
    ppm_ctx *c = p;
    uint32_t most;

    (void)hint;
    *c = (ppm_ctx){ 0 };
    c->width = read_number(in, &at);
    c->height = read_number(in, &at);
    most = read_number(in, &at);
    *out = (stk_image_info){ c->width, c->height };
    if (!c->width || !c->height || c->width > SIDE_MAX || c->height > SIDE_MAX || !most ||
        at >= in.len || !is_space(in.data[at]))
        return stk_fail(err, STK_ECORRUPT, "PPM: its header says no size");
    if (most != 255)
        return stk_fail(err, STK_ENOTSUP, "PPM: colors up to %u, and only 255 is read", most);
    at++;
    if ((uint64_t)c->width * c->height * 3 > in.len - at)
        return stk_fail(err, STK_ECORRUPT, "PPM is truncated: %zu bytes for %ux%u pixels",
                        in.len - at, c->width, c->height);
    c->pixels = in.data + at;
    return 0;
}

static int ppm_decode(void *p, const stk_decode_request *ask, stk_scratch *scratch, stk_pixels *out,
                      stk_error *err)
{
    const stk_rect *need = &ask->need;
    const ppm_ctx *c = p;

    if (!c->pixels)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if (ask->index)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): a PPM has colors, not indices: store PNG");
    if (!need->w || !need->h || need->x >= c->width || need->w > c->width - need->x ||
        need->y >= c->height || need->h > c->height - need->y)
        return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                        need->w, need->h, need->x, need->y, c->width, c->height);
    out->area = *need;
    out->stride = ((size_t)need->w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    out->data = stk_scratch_get(scratch, out->stride * need->h);
    if (!out->data)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", need->w, need->h);
    for (uint32_t y = 0; y < need->h; y++) {
        const uint8_t *from = c->pixels + ((size_t)(need->y + y) * c->width + need->x) * 3;
        uint8_t *to = out->data + y * out->stride;

        for (uint32_t x = 0; x < need->w; x++, from += 3, to += 4) {
            to[0] = from[0];
            to[1] = from[1];
            to[2] = from[2];
            to[3] = 255;
        }
    }
    return 0;
}

static void ppm_close(void *p)
{
    stk_free(p);
}

const stk_decoder stk_decoder_ppm = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof(stk_decoder),
                                      .name = "ppm",
                                      .help = "binary PPM (P6, 8 bits a color)",
                                      .probe = ppm_probe,
                                      .open = ppm_open,
                                      .header = ppm_header,
                                      .decode = ppm_decode,
                                      .close = ppm_close };
