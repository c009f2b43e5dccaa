/* SPDX-License-Identifier: Apache-2.0 */
/* png - PNG pixels by libspng; the only file that knows its header.
 *
 * Rows come from the library as they are stored in the file (unfiltered, not converted) and become
 * RGBX here, by Pillow's rules for open().convert("RGB"): alpha and tRNS are dropped and not
 * blended, gray of 1, 2 and 4 bits is spread over 0..255, and of 16-bit color the high byte counts.
 * 16-bit gray does not fit 8 bits: where Pillow cuts it off at 255, its values are asked for, or
 * its high byte, or it is refused.
 *
 * A picture that is not interlaced is read up to the last row that the view sees, one raw row in
 * memory; of an interlaced one all passes are read, and the raw rows that are seen are kept.
 *
 * Stricter than Pillow in one place: a wrong checksum of pixel data is an error where it is met.
 * A reader of the last row meets them all. */
#include "codec/codec.h"
#include "codec/decoders.h"

#include <config.h>

#include <string.h>

static int png_probe(stk_bytes head)
{
    return head.len >= 8 && !memcmp(head.data, "\x89PNG\r\n\x1a\n", 8);
}

#if STK_HAVE_PNG

#include <spng.h>

#define ALIGN 64
#define MAX_SIDE 0x7FFFFFFFu             /* PNG's own; how many pixels is the pipe's affair */
#define MAX_ANCILLARY ((size_t)16 << 20) /* bytes of text and profiles, unpacked */
#define HEADER_BYTES 33                  /* signature and IHDR */

typedef struct png_ctx {
    stk_bytes in;
    spng_ctx *spng; /* NULL, or the header is read and no row yet */
    struct spng_ihdr ihdr;
    int deep; /* the decode that runs wants values of 16 bits */
    uint8_t palette[256][4];
} png_ctx;

/* ---- libspng's memory: ours, with its size in front since realloc() needs it ---- */

typedef struct mem_head {
    size_t size;
    int counted; /* in the scratch that is used now */
} mem_head;
_Static_assert(sizeof(mem_head) <= ALIGN, "the head must leave the data aligned");

/* zlib takes memory in the middle of a stream, which libspng then calls damaged; and its
 * allocators know no context.  Set by an allocation that failed, read in png_fail(). */
static _Thread_local int no_memory;
/* Where memory is counted while pixels are decoded; NULL: it is not.  Headers take little. */
static _Thread_local stk_scratch *counting;

static void *mem_alloc(size_t size)
{
    int may = size <= SIZE_MAX - ALIGN && (!counting || stk_scratch_beside(counting, size));
    uint8_t *p = may ? stk_alloc(size + ALIGN) : NULL;

    no_memory |= !p;
    if (!p)
        return NULL;
    *(mem_head *)(void *)p = (mem_head){ size, counting != NULL };
    return p + ALIGN;
}

static void *mem_zalloc(size_t count, size_t size)
{
    void *p = size && count > SIZE_MAX / size ? NULL : mem_alloc(count * size);

    return p ? memset(p, 0, count * size) : NULL;
}

static mem_head *head_of(void *p)
{
    return (mem_head *)(void *)((uint8_t *)p - ALIGN);
}

static void mem_free(void *p)
{
    if (!p)
        return;
    if (counting && head_of(p)->counted)
        stk_scratch_back(counting, head_of(p)->size);
    stk_free(head_of(p));
}

static void *mem_realloc(void *p, size_t size)
{
    void *q = mem_alloc(size);

    if (!q || !p)
        return q;
    memcpy(q, p, head_of(p)->size < size ? head_of(p)->size : size);
    mem_free(p);
    return q;
}

/* ---- errors ---- */

static int png_fail(const png_ctx *c, int rc, stk_error *err)
{
    if (no_memory || rc == SPNG_EMEM)
        return stk_fail(err, STK_ENOMEM, "no memory to decode a PNG");
    switch (rc) {
    case SPNG_IO_EOF:
    case SPNG_EOF:
        return stk_fail(err, STK_ECORRUPT, "PNG is truncated: its %zu bytes end too early",
                        c->in.len);
    case SPNG_ECHUNK_LIMITS:
        return stk_fail(err, STK_ELIMIT, "PNG has more than %zu bytes beside its pixels",
                        MAX_ANCILLARY);
    default: return stk_fail(err, STK_ECORRUPT, "PNG: %s", spng_strerror(rc));
    }
}

/* ---- raw rows to RGBX, pixels [x, x + w) ---- */

static void gray_row(const png_ctx *c, const uint8_t *raw, uint32_t x, uint32_t w, uint8_t *dst)
{
    unsigned depth = c->ihdr.bit_depth, per = 8 / depth, mask = (1u << depth) - 1;
    unsigned scale = c->ihdr.color_type == SPNG_COLOR_TYPE_INDEXED ? 1 : 255 / mask;

    for (uint32_t i = x; i < x + w; i++, dst += 4) {
        unsigned v = raw[i / per] >> (8 - depth - i % per * depth) & mask;

        memcpy(dst, c->palette[v * scale], 4);
    }
}

/* Values of 16 bits; the alpha that may follow each does not count. */
static void deep_row(const uint8_t *raw, unsigned channels, uint32_t w, uint8_t *dst)
{
    for (; w; w--, raw += 2 * (size_t)channels, dst += 4)
        memcpy(dst, &(uint32_t){ (uint32_t)raw[0] << 8 | raw[1] }, 4);
}

/* Channels of `step` bytes; the first byte of each is what counts. */
static void wide_row(const uint8_t *raw, unsigned step, unsigned channels, uint32_t w, uint8_t *dst)
{
    unsigned pixel = step * channels, g = channels > 2 ? step : 0, b = 2 * g;

    for (; w; w--, raw += pixel, dst += 4) {
        dst[0] = raw[0];
        dst[1] = raw[g];
        dst[2] = raw[b];
    }
}

static unsigned channels_of(const struct spng_ihdr *h)
{
    switch (h->color_type) {
    case SPNG_COLOR_TYPE_TRUECOLOR: return 3;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA: return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA: return 4;
    default: return 1;
    }
}

static void make_row(const png_ctx *c, const uint8_t *raw, const stk_rect *need, uint8_t *dst)
{
    unsigned step = c->ihdr.bit_depth / 8, channels = channels_of(&c->ihdr);

    if (c->ihdr.bit_depth <= 8 && channels == 1)
        gray_row(c, raw, need->x, need->w, dst);
    else if (c->deep)
        deep_row(raw + (size_t)need->x * 2 * channels, channels, need->w, dst);
    else
        wide_row(raw + (size_t)need->x * step * channels, step, channels, need->w, dst);
}

/* ---- the decoder ---- */

static void forget(png_ctx *c)
{
    spng_ctx_free(c->spng);
    c->spng = NULL;
}

static int read_header(png_ctx *c, stk_error *err)
{
    struct spng_alloc alloc = { mem_alloc, mem_realloc, mem_zalloc, mem_free };
    int rc;

    forget(c);
    no_memory = 0;
    c->spng = spng_ctx_new2(&alloc, 0);
    if (!c->spng)
        return stk_fail(err, STK_ENOMEM, "no memory to decode a PNG");
    rc = spng_set_png_buffer(c->spng, c->in.data, c->in.len);
    if (!rc)
        rc = spng_set_image_limits(c->spng, MAX_SIDE, MAX_SIDE);
    if (!rc)
        rc = spng_set_chunk_limits(c->spng, MAX_ANCILLARY, MAX_ANCILLARY);
    if (!rc)
        rc = spng_set_crc_action(c->spng, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
    if (!rc)
        rc = spng_get_ihdr(c->spng, &c->ihdr);
    if (!rc)
        return 0;
    forget(c);
    return png_fail(c, rc, err);
}

/* Gray values that are spread already, or the file's colors; what it does not name is black. */
static int read_palette(png_ctx *c, stk_error *err)
{
    struct spng_plte plte = { 0 };
    int rc;

    if (c->ihdr.color_type != SPNG_COLOR_TYPE_INDEXED) {
        for (unsigned i = 0; i < 256; i++)
            memset(c->palette[i], (int)i, 4);
        return 0;
    }
    rc = spng_get_plte(c->spng, &plte);
    if (rc)
        return rc == SPNG_ECHUNKAVAIL ? stk_fail(err, STK_ECORRUPT, "PNG has no palette")
                                      : png_fail(c, rc, err);
    memset(c->palette, 0, sizeof c->palette);
    for (uint32_t i = 0; i < plte.n_entries && i < 256; i++) {
        c->palette[i][0] = plte.entries[i].red;
        c->palette[i][1] = plte.entries[i].green;
        c->palette[i][2] = plte.entries[i].blue;
    }
    return 0;
}

/* Rows in the file's order.  Those of `need` go to keep (stride apart) or, where it is NULL,
 * through `raw` straight to the picture; all others to `raw`, to be forgotten. */
static int read_rows(png_ctx *c, const stk_rect *need, uint8_t *raw, uint8_t *keep,
                     size_t row_bytes, const stk_pixels *out)
{
    struct spng_row_info info;
    int rc;

    for (;;) {
        uint8_t *dst = raw;
        int seen;

        rc = spng_get_row_info(c->spng, &info);
        if (rc)
            return rc == SPNG_EOI ? 0 : rc;
        if (!keep && info.row_num >= need->y + need->h)
            return 0;
        seen = info.row_num >= need->y && info.row_num - need->y < need->h;
        if (seen && keep)
            dst = keep + (info.row_num - need->y) * row_bytes;
        rc = spng_decode_row(c->spng, dst, row_bytes);
        if (rc && rc != SPNG_EOI)
            return rc;
        if (seen && !keep)
            make_row(c, raw, need, out->data + (info.row_num - need->y) * out->stride);
        if (rc == SPNG_EOI)
            return 0;
    }
}

/* The checksum of the last pixels is after them.  Like Pillow, nothing else there matters. */
static int check_end(png_ctx *c)
{
    int rc = spng_decode_chunks(c->spng);

    return rc == SPNG_ECHUNK_CRC || no_memory ? rc : 0;
}

/* Whether the picture has what is asked for.  Wrong numbers are never made of others in silence. */
static int check_kind(const png_ctx *c, const stk_decode_request *ask, stk_error *err)
{
    unsigned channels = channels_of(&c->ihdr), depth = c->ihdr.bit_depth;
    int gray = channels <= 2 && c->ihdr.color_type != SPNG_COLOR_TYPE_INDEXED;

    if (ask->deep && (!gray || depth != 16))
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=gray16): the PNG is %s of %u bits: write image(mode=%s)",
                        gray            ? "gray"
                        : channels == 1 ? "a palette"
                                        : "color",
                        depth,
                        gray            ? "gray"
                        : channels == 1 ? "index"
                                        : "rgb");
    if (ask->index && channels == 1 && depth == 16)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): the PNG is gray of 16 bits: image(mode=gray16) keeps "
                        "its values, and of a mask like(..., interpolation=nearest)");
    if (ask->index && channels > 1)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): the PNG has no palette and is not gray of 8 bits");
    if (channels == 1 && depth == 16 && !ask->deep && !ask->high_byte)
        return stk_fail(err, STK_ECORRUPT,
                        "the PNG is gray of 16 bits, which 8 do not hold: image(mode=gray16) keeps "
                        "its values, image(bits=8) their high byte");
    return 0;
}

static int decode_area(png_ctx *c, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    int index = ask->index;
    size_t bits = (size_t)c->ihdr.bit_depth * channels_of(&c->ihdr);
    size_t row_bytes = (c->ihdr.width * bits + 7) / 8, rows;
    uint8_t *raw, *keep;
    int rc;

    STK_TRY(check_kind(c, ask, err));
    c->deep = ask->deep;
    STK_TRY(read_palette(c, err));
    for (unsigned v = 0; index && v < 256 && c->ihdr.color_type == SPNG_COLOR_TYPE_INDEXED; v++)
        memset(c->palette[v], (int)v, 4);
    rows = c->ihdr.interlace_method ? need->h : 0;
    *out = (stk_pixels){ .area = *need,
                         .stride = ((size_t)need->w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1),
                         .deep = ask->deep };
    out->data = stk_scratch_get(scratch, out->stride * need->h);
    raw = out->data ? stk_scratch_get(scratch, row_bytes * (rows + 1)) : NULL;
    if (!raw)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", need->w, need->h);
    keep = rows ? raw + row_bytes : NULL;
    if (keep) /* bits of a byte come in different passes */
        memset(keep, 0, row_bytes * rows);
    rc = spng_decode_image(c->spng, NULL, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
    if (!rc)
        rc = read_rows(c, need, raw, keep, row_bytes, out);
    if (!rc && (keep || need->y + need->h == c->ihdr.height))
        rc = check_end(c);
    if (rc)
        return png_fail(c, rc, err);
    for (uint32_t y = 0; keep && y < need->h; y++)
        make_row(c, keep + y * row_bytes, need, out->data + y * out->stride);
    return 0;
}

static int png_open(void **out, stk_error *err)
{
    *out = STK_NEW(png_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(png_ctx));
}

static void png_close(void *p)
{
    if (p)
        forget(p);
    stk_free(p);
}

static int png_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    png_ctx *c = p;
    int rc;

    (void)points;
    c->in = in;
    rc = in.len < HEADER_BYTES
             ? stk_fail(err, STK_ECORRUPT, "PNG is truncated: its %zu bytes end in the header",
                        in.len)
             : read_header(c, err);
    if (rc < 0) {
        c->in = (stk_bytes){ 0 };
        return rc;
    }
    *out = stk_picture_info(c->ihdr.width, c->ihdr.height);
    return 0;
}

static int png_pixels(void *p, const stk_decode_request *ask, stk_scratch *scratch, stk_pixels *out,
                      stk_error *err)
{
    const stk_rect *need = &ask->need;
    png_ctx *c = p;
    int rc;

    if (!c->in.data)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if (!c->spng) /* the same bytes again, for another rectangle */
        STK_TRY(read_header(c, err));
    if (!need->w || !need->h || need->x >= c->ihdr.width || need->w > c->ihdr.width - need->x ||
        need->y >= c->ihdr.height || need->h > c->ihdr.height - need->y)
        return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                        need->w, need->h, need->x, need->y, c->ihdr.width, c->ihdr.height);
    counting = scratch;
    rc = decode_area(c, ask, scratch, out, err);
    forget(c);
    counting = NULL;
    return rc;
}

#else

static int png_open(void **out, stk_error *err)
{
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP,
                    "this build has no PNG: install libspng's headers and build again");
}

static int png_header(void *ctx, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    (void)ctx, (void)in, (void)points, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no PNG");
}

static int png_pixels(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                      stk_pixels *out, stk_error *err)
{
    (void)ctx, (void)ask, (void)scratch, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no PNG");
}

static void png_close(void *ctx)
{
    (void)ctx;
}

#endif

static int png_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    return stk_pixels_give(png_pixels, ctx, job, err);
}

const stk_decoder stk_decoder_png = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "png",
    .help = "PNG by libspng: all color types and depths, interlaced; alpha is dropped",
    .probe = png_probe,
    .open = png_open,
    .header = png_header,
    .decode = png_decode,
    .close = png_close
};
