/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_turbo - JPEG pixels by libjpeg-turbo; the only file that knows its headers.
 *
 * A worker keeps one decompressor.  Only the rectangle that the view sees is decoded: columns by
 * jpeg_crop_scanline(), rows above by jpeg_skip_scanlines(), rows below not at all.  What comes out
 * equals the crop of a full decode bit for bit (accurate DCT, fancy upsampling); jpeg_test.c proves
 * it.  Rows need no margin: 2.1.5 keeps the context of what it skips.  Columns do: see widen().
 *
 * What is an error follows Pillow: the decoder's corrupt-data warnings are not (photographs in
 * well-known data sets have them), data that ends before the rows we need is.
 *
 * libjpeg's memory comes from an arena of ours: bounded, failable in tests, and dropped whole with
 * the tables of an image, so that no image can borrow the tables of the one before.  While pixels
 * are decoded it grows in the worker's scratch, where it is counted. */
#include "codec/codec.h"
#include "codec/jpeg_turbo.h"

#include <config.h>

#if STK_HAVE_JPEG

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#if !defined(JCS_EXTENSIONS) || !defined(LIBJPEG_TURBO_VERSION_NUMBER)
#error "stoker needs libjpeg-turbo (1.5 or newer), not another libjpeg"
#endif

#define ALIGN 64
#define CHUNK ((size_t)256 << 10)
#define KEEP ((size_t)1 << 20)            /* an idle arena holds no more */
#define MEM_LIMIT ((size_t)4 * 178956970) /* four bytes a pixel of the default max_pixels */
#define MIN_COLUMNS 32                    /* see widen() */
#define MAX_SCANS 500                     /* each costs a walk over the whole picture */

typedef struct chunk {
    struct chunk *next;
    size_t size, used; /* of the bytes after the header */
    int borrowed;      /* of the scratch */
} chunk;
_Static_assert(sizeof(chunk) <= ALIGN, "the header must leave the data aligned");

typedef struct jpeg_ctx {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    stk_error *err;
    int rc;
    int created, ready; /* ready: the header is read, decoding can start */
    int finishing;      /* all rows are there: the data may end */
    stk_bytes in;
    chunk *arena;
    size_t arena_size;
    stk_scratch *scratch; /* while pixels are decoded */
} jpeg_ctx;

/* ---- leaving libjpeg ---- */

static _Noreturn void bail(jpeg_ctx *c, int code, const char *fmt, ...) STK_PRINTF(3, 4);

static _Noreturn void bail(jpeg_ctx *c, int code, const char *fmt, ...)
{
    char text[JMSG_LENGTH_MAX + 40];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->rc = stk_fail(c->err, code, "%s", text);
    longjmp(c->escape, 1);
}

static void on_error(j_common_ptr cinfo)
{
    jpeg_ctx *c = cinfo->client_data;
    int code = STK_ECORRUPT;
    char text[JMSG_LENGTH_MAX];

    switch (cinfo->err->msg_code) {
    case JERR_OUT_OF_MEMORY: code = STK_ENOMEM; break;
    case JERR_IMAGE_TOO_BIG: code = STK_ELIMIT; break;
#if JPEG_LIB_VERSION < 70 /* later interfaces have no such code */
    case JERR_ARITH_NOTIMPL:
#endif
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_SOF_UNSUPPORTED: code = STK_ENOTSUP; break;
    default: break;
    }
    cinfo->err->format_message(cinfo, text);
    bail(c, code, "JPEG: %s", text);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level; /* warnings and traces: see the file's top */
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo; /* the library never prints */
}

/* ---- libjpeg's memory ---- */

static void *arena_get(jpeg_ctx *c, size_t size)
{
    size_t want;
    chunk *k;

    if (size > MEM_LIMIT)
        bail(c, STK_ELIMIT, "JPEG needs %zu bytes at once to decode, the limit is %zu", size,
             MEM_LIMIT);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    for (k = c->arena; k; k = k->next)
        if (k->size - k->used >= size)
            break;
    if (!k) {
        want = size > CHUNK ? size : CHUNK;
        if (c->arena_size + want > MEM_LIMIT + CHUNK)
            bail(c, STK_ELIMIT, "JPEG needs more than %zu bytes to decode", MEM_LIMIT);
        k = c->scratch ? stk_scratch_get(c->scratch, ALIGN + want) : stk_alloc(ALIGN + want);
        if (!k)
            bail(c, STK_ENOMEM, "no memory for %zu bytes to decode a JPEG", want);
        *k = (chunk){ .next = c->arena, .size = want, .borrowed = c->scratch != NULL };
        c->arena = k;
        c->arena_size += want;
    }
    k->used += size;
    return (uint8_t *)k + ALIGN + (k->used - size);
}

/* Everything in it becomes free; borrowed chunks are let go, those beyond KEEP go to the heap. */
static void arena_reset(jpeg_ctx *c, size_t keep)
{
    chunk **link = &c->arena, *k;
    size_t held = 0;

    while ((k = *link)) {
        k->used = 0;
        if (!k->borrowed && held + k->size <= keep) {
            held += k->size;
            link = &k->next;
            continue;
        }
        *link = k->next;
        c->arena_size -= k->size;
        if (!k->borrowed)
            stk_free(k);
    }
}

static void *mem_alloc(j_common_ptr cinfo, int pool, size_t size)
{
    (void)pool;
    return arena_get(cinfo->client_data, size);
}

/* Rows one after another.  Vector code works in whole units of 64 bytes, past the end of a row. */
static void **mem_rows(jpeg_ctx *c, size_t row_bytes, size_t rows)
{
    size_t stride = (row_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    void **table;
    uint8_t *data;

    if (stride && rows > MEM_LIMIT / stride)
        bail(c, STK_ELIMIT, "JPEG needs more than %zu bytes to decode", MEM_LIMIT);
    table = arena_get(c, rows * sizeof *table);
    data = arena_get(c, rows * stride);
    for (size_t i = 0; i < rows; i++)
        table[i] = data + i * stride;
    return table;
}

static JSAMPARRAY mem_samples(j_common_ptr cinfo, int pool, JDIMENSION per_row, JDIMENSION rows)
{
    (void)pool;
    return (JSAMPARRAY)mem_rows(cinfo->client_data, (size_t)per_row * sizeof(JSAMPLE), rows);
}

static JBLOCKARRAY mem_blocks(j_common_ptr cinfo, int pool, JDIMENSION per_row, JDIMENSION rows)
{
    (void)pool;
    return (JBLOCKARRAY)mem_rows(cinfo->client_data, (size_t)per_row * sizeof(JBLOCK), rows);
}

struct jvirt_barray_control { /* libjpeg leaves the struct to its memory manager */
    JBLOCKARRAY rows;
    JDIMENSION n;
};

static jvirt_barray_ptr mem_request_blocks(j_common_ptr cinfo, int pool, boolean zero,
                                           JDIMENSION per_row, JDIMENSION rows,
                                           JDIMENSION max_access)
{
    jvirt_barray_ptr v = arena_get(cinfo->client_data, sizeof *v);

    (void)max_access;
    v->rows = mem_blocks(cinfo, pool, per_row, rows);
    v->n = rows;
    if (zero)
        for (JDIMENSION i = 0; i < rows; i++)
            memset(v->rows[i], 0, (size_t)per_row * sizeof(JBLOCK));
    return v;
}

static JBLOCKARRAY mem_access_blocks(j_common_ptr cinfo, jvirt_barray_ptr v, JDIMENSION start,
                                     JDIMENSION n, boolean writable)
{
    (void)writable;
    if (start > v->n || n > v->n - start)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return v->rows + start;
}

static jvirt_sarray_ptr mem_request_samples(j_common_ptr cinfo, int pool, boolean zero,
                                            JDIMENSION per_row, JDIMENSION rows,
                                            JDIMENSION max_access)
{
    (void)pool, (void)zero, (void)per_row, (void)rows, (void)max_access;
    ERREXIT(cinfo, JERR_NOT_COMPILED); /* only color quantization wants it */
    return NULL;
}

static void mem_realize(j_common_ptr cinfo)
{
    (void)cinfo; /* they were real when requested */
}

/* Take over after creation: what libjpeg allocated until here lives as long as the decompressor. */
static void mem_install(jpeg_ctx *c)
{
    struct jpeg_memory_mgr *m = c->cinfo.mem;

    m->alloc_small = mem_alloc;
    m->alloc_large = mem_alloc;
    m->alloc_sarray = mem_samples;
    m->alloc_barray = mem_blocks;
    m->request_virt_sarray = mem_request_samples;
    m->request_virt_barray = mem_request_blocks;
    m->realize_virt_arrays = mem_realize;
    m->access_virt_barray = mem_access_blocks;
    m->max_memory_to_use = (long)MEM_LIMIT;
}

/* ---- libjpeg's input: the bytes we have, and not one more ---- */

static void source_begin(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean source_fill(j_decompress_ptr cinfo)
{
    jpeg_ctx *c = cinfo->client_data;

    if (c->finishing)
        return FALSE;
    if (!c->ready)
        bail(c, STK_ECORRUPT, "JPEG is truncated: its %zu bytes end in the header", c->in.len);
    bail(c, STK_ECORRUPT, "JPEG is truncated: its %zu bytes end near row %u of %u", c->in.len,
         (unsigned)cinfo->output_scanline, (unsigned)cinfo->image_height);
}

static void source_skip(j_decompress_ptr cinfo, long n)
{
    struct jpeg_source_mgr *s = cinfo->src;

    if (n <= 0)
        return;
    if ((size_t)n > s->bytes_in_buffer)
        n = (long)s->bytes_in_buffer; /* the next read finds the end */
    s->next_input_byte += n;
    s->bytes_in_buffer -= (size_t)n;
}

static void source_end(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static void on_progress(j_common_ptr cinfo)
{
    jpeg_ctx *c = cinfo->client_data;

    if (c->cinfo.input_scan_number > MAX_SCANS)
        bail(c, STK_ELIMIT, "JPEG has more than %d scans", MAX_SCANS);
}

/* ---- the decoder ---- */

/* Forget the image, its memory and its tables. */
static void forget(jpeg_ctx *c)
{
    jpeg_abort_decompress(&c->cinfo);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        c->cinfo.quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        c->cinfo.dc_huff_tbl_ptrs[i] = c->cinfo.ac_huff_tbl_ptrs[i] = NULL;
    arena_reset(c, KEEP);
    c->scratch = NULL;
    c->ready = c->finishing = 0;
}

void stk_jpeg_turbo_close(void *p)
{
    jpeg_ctx *c = p;

    if (!c)
        return;
    if (c->created) {
        forget(c);
        jpeg_destroy_decompress(&c->cinfo);
    }
    arena_reset(c, 0);
    stk_free(c);
}

int stk_jpeg_turbo_open(void **out, stk_error *err)
{
    jpeg_ctx *c = STK_NEW(jpeg_ctx);

    *out = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->err = err;
    c->cinfo.err = jpeg_std_error(&c->errors);
    c->cinfo.client_data = c;
    c->errors.error_exit = on_error;
    c->errors.emit_message = on_message;
    c->errors.output_message = on_output;
    if (setjmp(c->escape)) {
        int rc = c->rc;

        jpeg_destroy_decompress(&c->cinfo);
        stk_free(c);
        return rc;
    }
    jpeg_create_decompress(&c->cinfo);
    c->created = 1;
    c->cinfo.client_data = c;
    mem_install(c);
    c->source = (struct jpeg_source_mgr){ .init_source = source_begin,
                                          .fill_input_buffer = source_fill,
                                          .skip_input_data = source_skip,
                                          .resync_to_restart = jpeg_resync_to_restart,
                                          .term_source = source_end };
    c->cinfo.src = &c->source;
    c->progress.progress_monitor = on_progress;
    c->cinfo.progress = &c->progress;
    *out = c;
    return 0;
}

static int read_header(jpeg_ctx *c)
{
    struct jpeg_decompress_struct *d = &c->cinfo;

    forget(c);
    c->source.next_input_byte = c->in.data;
    c->source.bytes_in_buffer = c->in.len;
    jpeg_read_header(d, TRUE);
    if (d->num_components != 1 && d->num_components != 3 && d->num_components != 4)
        bail(c, STK_ENOTSUP, "JPEG has %d components, known are 1, 3 and 4", d->num_components);
    c->ready = 1;
    return 0;
}

int stk_jpeg_turbo_header(void *p, stk_bytes in, stk_media_info *out, stk_error *err)
{
    jpeg_ctx *c = p;

    c->err = err;
    c->in = in;
    if (setjmp(c->escape)) {
        *out = stk_picture_info(c->cinfo.image_width, c->cinfo.image_height);
        forget(c);
        if (c->rc == STK_ELIMIT) /* beyond 65500 a side: the caller's limit speaks, then decode() */
            return 0;
        c->in = (stk_bytes){ 0 };
        return c->rc;
    }
    read_header(c);
    *out = stk_picture_info(c->cinfo.image_width, c->cinfo.image_height);
    return 0;
}

/* Pictures in several scans are held as coefficients, whole: look before anything is allocated. */
static void check_scans(jpeg_ctx *c, size_t pixels)
{
    uint64_t bytes = 0;

    if (!jpeg_has_multiple_scans(&c->cinfo)) {
        if (!stk_scratch_expect(c->scratch, pixels))
            bail(c, STK_ENOMEM, "no memory to decode a JPEG");
        return;
    }
    for (int i = 0; i < c->cinfo.num_components; i++) {
        const jpeg_component_info *k = &c->cinfo.comp_info[i];

        bytes += (uint64_t)k->width_in_blocks * k->height_in_blocks * sizeof(JBLOCK);
    }
    if (bytes > MEM_LIMIT)
        bail(c, STK_ELIMIT,
             "JPEG of %ux%u in several scans needs %" PRIu64 " bytes to decode, the limit is %zu",
             (unsigned)c->cinfo.image_width, (unsigned)c->cinfo.image_height, bytes, MEM_LIMIT);
    if (!stk_scratch_expect(c->scratch, (size_t)bytes + pixels)) /* else scans are read in vain */
        bail(c, STK_ENOMEM, "no memory to decode a JPEG of several scans");
}

/* CMYK as Adobe writes it, inverted, to RGB with Pillow's rounding; in place. */
static void cmyk_to_rgbx(uint8_t *px, uint32_t n)
{
    for (; n; n--, px += 4) {
        unsigned k = px[3];

        for (int i = 0; i < 3; i++) {
            unsigned t = (255u - px[i]) * k + 128;

            px[i] = (uint8_t)(k - ((t + (t >> 8)) >> 8));
        }
    }
}

/* The columns to ask for.  Upsampling has no neighbour beyond a cropped edge, so the outermost
 * column is wrong: one more on each side.  And libjpeg drops its fancy upsampling where a
 * component is cropped to less than 3 columns, so at least MIN_COLUMNS. */
static void widen(const stk_rect *need, JDIMENSION width, JDIMENSION *x, JDIMENSION *w)
{
    JDIMENSION left = need->x ? need->x - 1 : 0, right = need->x + need->w;

    if (right < width)
        right++;
    if (right - left < MIN_COLUMNS)
        right = width - left < MIN_COLUMNS ? width : left + MIN_COLUMNS;
    if (right - left < MIN_COLUMNS)
        left = right < MIN_COLUMNS ? 0 : right - MIN_COLUMNS;
    *x = left;
    *w = right - left;
}

/* A progressive picture whose scans stop short is smoothed across blocks, which looks at neighbours
 * and so depends on where one crops: such pictures are decoded whole, as Pillow does. */
static int smoothed(const struct jpeg_decompress_struct *d)
{
    if (!d->progressive_mode || !d->coef_bits)
        return 0;
    for (int i = 0; i < d->num_components; i++)
        for (int k = 0; k < 10; k++) /* the coefficients that smoothing knows */
            if (d->coef_bits[i][k] != 0)
                return 1;
    return 0;
}

/* Go to row y; `line` is room for a row. */
static void reach(jpeg_ctx *c, JDIMENSION y, int whole, uint8_t *line)
{
    struct jpeg_decompress_struct *d = &c->cinfo;
    JSAMPROW row = line;
    JDIMENSION at = whole ? 0 : y ? jpeg_skip_scanlines(d, y) : 0;

    while (whole && at < y && jpeg_read_scanlines(d, &row, 1) == 1)
        at++;
    if (at != y)
        bail(c, STK_ECORRUPT, "JPEG: row %u can't be reached", (unsigned)y);
}

static void decode_area(jpeg_ctx *c, const stk_rect *need, stk_scratch *scratch, stk_pixels *out)
{
    struct jpeg_decompress_struct *d = &c->cinfo;
    int cmyk = d->num_components == 4, whole;
    JDIMENSION x, w, row, rows, n;
    JSAMPROW line[8];

    c->scratch = scratch;
    check_scans(c, (size_t)need->w * need->h * 4);
    d->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(d);
    whole = smoothed(d);
    widen(need, d->output_width, &x, &w);
    if (whole) {
        x = 0;
        w = d->output_width;
    }
    if (w < d->output_width)
        jpeg_crop_scanline(d, &x, &w);
    out->area = (stk_rect){ x, need->y, w, need->h };
    out->stride = ((size_t)w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    out->data = stk_scratch_get(scratch, out->stride * need->h);
    if (!out->data)
        bail(c, STK_ENOMEM, "no memory for %ux%u pixels", (unsigned)w, (unsigned)need->h);
    reach(c, need->y, whole, out->data);
    for (row = 0; row < need->h; row += rows) {
        n = need->h - row < 8 ? need->h - row : 8;
        for (JDIMENSION i = 0; i < n; i++)
            line[i] = out->data + (row + i) * out->stride;
        rows = jpeg_read_scanlines(d, line, n);
        if (!rows)
            bail(c, STK_ECORRUPT, "JPEG: row %u can't be decoded", (unsigned)(need->y + row));
        for (JDIMENSION i = 0; cmyk && i < rows; i++)
            cmyk_to_rgbx(line[i], w);
    }
    if (d->output_scanline == d->output_height) { /* what follows must be sane, as in Pillow */
        c->finishing = 1;
        (void)jpeg_finish_decompress(d);
    }
}

int stk_jpeg_turbo_pixels(void *p, const stk_decode_request *ask, stk_scratch *scratch,
                          stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    jpeg_ctx *c = p;
    const struct jpeg_decompress_struct *d = &c->cinfo;

    c->err = err;
    c->rc = 0;
    if (!c->in.data)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if (setjmp(c->escape)) {
        forget(c);
        return c->rc;
    }
    if (!c->ready) /* the same bytes again, for another rectangle */
        read_header(c);
    if (!need->w || !need->h || need->x >= d->image_width || need->w > d->image_width - need->x ||
        need->y >= d->image_height || need->h > d->image_height - need->y)
        bail(c, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
             (unsigned)need->w, (unsigned)need->h, (unsigned)need->x, (unsigned)need->y,
             (unsigned)d->image_width, (unsigned)d->image_height);
    decode_area(c, need, scratch, out);
    forget(c);
    return 0;
}

#else

int stk_jpeg_turbo_open(void **out, stk_error *err)
{
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP,
                    "this build has no JPEG: install libjpeg-turbo's headers and build again");
}

int stk_jpeg_turbo_header(void *ctx, stk_bytes in, stk_media_info *out, stk_error *err)
{
    (void)ctx, (void)in, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no JPEG");
}

int stk_jpeg_turbo_pixels(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                          stk_pixels *out, stk_error *err)
{
    (void)ctx, (void)ask, (void)scratch, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no JPEG");
}

void stk_jpeg_turbo_close(void *ctx)
{
    (void)ctx;
}

#endif
