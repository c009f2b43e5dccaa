/* SPDX-License-Identifier: Apache-2.0 */
/* regions - the masks of a picture's objects, as polygons and run lengths (COCO's), made into
 * pixels.
 *
 * A field is JSON: {"size":[height,width],"labels":[2,0],"regions":[REGION,REGION]}, where a region
 * is a list of polygons [[x, y, x, y, ...], ...], run lengths {"size":[h,w],"counts":[...]} or
 * {"counts":"..."} packed as pycocotools packs them, or null: nothing.
 *
 * `masks` gives every region as a plane of its own, of 0 and 1: (regions, height, width).  The
 * decoder makes one picture for image(mode=index), which follows another by like(): a pixel is the
 * number of its region, from 1 on, or after `class_map` its label, from 1 on; 0 is none of them.
 * Where regions overlap the later one counts.
 *
 * Pixels are those of pycocotools' annToMask(), bit for bit: its way to walk along polygons, on a
 * grid five times as fine, is done here step by step.  What it would sort into run lengths is
 * toggled in bit 1 of the plane, and summed up down the columns. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/numeral.h"
#include "codec/codec.h"
#include "codec/decoders.h"

#define SIDE_MAX 65535
#define PIXELS_MAX ((int64_t)1 << 28)
#define COORDINATE_MAX 1e6
#define STEPS_MAX ((int64_t)1 << 26) /* along the edges of one region, on the fine grid */
#define ALIGN 64
#define HEAD "{\"size\":["
#define BY_LABEL 'C' /* in front of the text, where pixels are labels */

typedef struct plane {
    uint8_t *pixel; /* bit 0: set; bit 1: the walk toggles here */
    uint32_t w, h;
    int64_t steps;
    uint32_t low, high; /* columns that were toggled: low < high */
    int boxes;          /* lists of four numbers are x, y, width, height */
} plane;

typedef struct regions {
    stk_bytes list, labels;
    uint32_t w, h;
    uint32_t n;
} regions;

/* ---- the text ---- */

static int count_one(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    (void)key, (void)value, (void)err;
    ++*(uint32_t *)cookie;
    return 0;
}

static int side_of(stk_bytes doc, const char *path, uint32_t *out, stk_error *err)
{
    stk_bytes v;
    int64_t side = 0;

    STK_TRY(stk_json_find(doc, path, &v, err));
    if (stk_number_i64(v, &side) != 1 || side < 1 || side > SIDE_MAX)
        return stk_fail(err, STK_ECORRUPT, "masks: the size of the picture is not known");
    *out = (uint32_t)side;
    return 0;
}

static int open_regions(regions *r, stk_bytes in, stk_error *err)
{
    STK_TRY(side_of(in, "size.0", &r->h, err));
    STK_TRY(side_of(in, "size.1", &r->w, err));
    STK_TRY(stk_json_find(in, "labels", &r->labels, err));
    STK_TRY(stk_json_find(in, "regions", &r->list, err));
    r->n = 0;
    return stk_json_elements(r->list, count_one, &r->n, err);
}

/* ---- polygons ---- */

/* A step of the walk from (u0, v0) to (u, v), on the fine grid: where it crosses the middle of a
 * column, the column is toggled from there on down. */
static void cross(plane *p, int u0, int v0, int u, int v)
{
    double x, y;
    uint32_t col, row;

    if (u == u0)
        return;
    x = ((double)(u < u0 ? u : u - 1) + .5) / 5 - .5;
    if (floor(x) != x || x < 0 || x > (double)p->w - 1)
        return;
    y = ((double)(v < v0 ? v : v0) + .5) / 5 - .5;
    y = ceil(y < 0 ? 0 : y > p->h ? p->h : y);
    col = (uint32_t)x;
    row = (uint32_t)y;
    p->low = col < p->low ? col : p->low;
    p->high = col + 1 > p->high ? col + 1 : p->high;
    if (row == p->h) { /* run lengths go on at the top of the next column */
        row = 0;
        col++;
        if (col == p->w)
            return;
        p->high = col + 1 > p->high ? col + 1 : p->high;
    }
    p->pixel[(size_t)row * p->w + col] ^= 2;
}

typedef struct walk {
    plane *p;
    int u, v, any; /* where it stands */
} walk;

static void step(walk *k, int u, int v)
{
    if (k->any)
        cross(k->p, k->u, k->v, u, v);
    k->any = 1;
    k->u = u;
    k->v = v;
}

static int edge(walk *k, const int a[2], const int b[2], stk_error *err)
{
    int xs = a[0], ys = a[1], xe = b[0], ye = b[1];
    int dx = xs > xe ? xs - xe : xe - xs, dy = ys > ye ? ys - ye : ye - ys, t;
    int flip = (dx >= dy && xs > xe) || (dx < dy && ys > ye), n = dx >= dy ? dx : dy;
    double s;

    k->p->steps += n + 1;
    if (k->p->steps > STEPS_MAX)
        return stk_fail(err, STK_ECORRUPT, "masks: a region's outline is too long");
    if (flip) {
        t = xs, xs = xe, xe = t;
        t = ys, ys = ye, ye = t;
    }
    s = dx >= dy ? (double)(ye - ys) / dx : (double)(xe - xs) / dy;
    for (int d = 0; d <= n; d++) {
        t = flip ? n - d : d;
        if (dx >= dy)
            step(k, t + xs, dx ? (int)(ys + s * t + .5) : (int)(ys + .5));
        else
            step(k, (int)(xs + s * t + .5), t + ys);
    }
    return 0;
}

/* Sums the toggles up down the columns, from where the first is. */
static void settle(plane *p)
{
    unsigned on = 0;

    for (uint32_t x = p->low; x < p->w && (x < p->high || on); x++)
        for (uint32_t y = 0; y < p->h; y++) {
            uint8_t *at = &p->pixel[(size_t)y * p->w + x];

            on ^= *at >> 1 & 1u;
            *at = (uint8_t)((*at & 1u) | on);
        }
    p->low = UINT32_MAX;
    p->high = 0;
}

typedef struct polygon {
    plane *p;
    walk walk;
    double x;
    size_t n; /* numbers so far */
    int first[2], last[2];
    double box[4];
} polygon;

static int vertex(polygon *g, double x, double y, stk_error *err)
{
    /* as C rounds: towards zero */
    int at[2] = { (int)(5 * x + .5), (int)(5 * y + .5) };

    if (g->n > 2)
        STK_TRY(edge(&g->walk, g->last, at, err));
    else
        memcpy(g->first, at, sizeof at);
    memcpy(g->last, at, sizeof at);
    return 0;
}

static int take_coordinate(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    polygon *g = cookie;
    double v;

    (void)key;
    if (stk_number_f64(value, &v) != 1 || !(v > -COORDINATE_MAX && v < COORDINATE_MAX))
        return stk_fail(err, STK_ECORRUPT, "masks: a coordinate is not a number of pixels");
    if (g->n < 4)
        g->box[g->n] = v;
    g->n++;
    if (g->n % 2 == 0 && !g->p->boxes)
        return vertex(g, g->x, v, err);
    g->x = v;
    return 0;
}

/* pycocotools takes lists of four numbers for boxes. */
static int fill_box(polygon *g, stk_error *err)
{
    const double *b = g->box;
    double x[4] = { b[0], b[0], b[0] + b[2], b[0] + b[2] };
    double y[4] = { b[1], b[1] + b[3], b[1] + b[3], b[1] };

    for (int i = 0; i < 4; i++) {
        g->n = 2 * (size_t)i + 2;
        STK_TRY(vertex(g, x[i], y[i], err));
    }
    return 0;
}

static int take_polygon(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    plane *p = cookie;
    polygon g = { .p = p, .walk.p = p };
    int rc;

    (void)key;
    if (p->boxes < 0) {
        uint32_t n = 0;

        STK_TRY(stk_json_elements(value, count_one, &n, err));
        p->boxes = n == 4;
    }
    rc = stk_json_elements(value, take_coordinate, &g, err);
    if (rc == 0 && p->boxes && g.n != 4)
        rc = stk_fail(err, STK_ECORRUPT, "masks: boxes and polygons in one region");
    if (rc == 0 && p->boxes)
        rc = fill_box(&g, err);
    if (rc == 0 && g.n >= 2)
        rc = edge(&g.walk, g.last, g.first, err);
    settle(p); /* also after an error: no toggle stays */
    return rc;
}

/* ---- run lengths ---- */

typedef struct runs {
    plane *p;
    uint64_t at, end; /* pixels, down the columns */
    int64_t last[2];  /* the two runs before */
    unsigned on;
    uint32_t n;
} runs;

static int put_run(runs *r, int64_t len, stk_error *err)
{
    if (len < 0 || (uint64_t)len > r->end - r->at)
        return stk_fail(err, STK_ECORRUPT, "masks: run lengths don't fit the %ux%u picture",
                        r->p->w, r->p->h);
    for (uint64_t i = r->at; r->on && i < r->at + (uint64_t)len; i++)
        r->p->pixel[i % r->p->h * r->p->w + i / r->p->h] |= 1;
    r->at += (uint64_t)len;
    r->on ^= 1;
    r->n++;
    return 0;
}

static int take_run(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    int64_t len = -1;

    (void)key;
    if (stk_number_i64(value, &len) != 1)
        len = -1;
    return put_run(cookie, len, err);
}

/* The next character of a JSON string; -1: its end, or one that run lengths never have. */
static int next_char(stk_bytes s, size_t *i)
{
    int c = *i < s.len ? s.data[*i] : '"';

    if (c == '"')
        return -1;
    *i += 1;
    if (c != '\\')
        return c;
    c = *i < s.len ? s.data[*i] : '"';
    *i += 1;
    return c == '\\' || c == '/' ? c : -1;
}

/* Five bits of a number a character, the sign in the last one's; from the third on differences to
 * the run before the last. */
static int take_packed(runs *r, stk_bytes s, stk_error *err)
{
    size_t i = 1;

    while (i < s.len && s.data[i] != '"') {
        int64_t v = 0;
        int c, k = 0;

        do {
            c = next_char(s, &i);
            c = c < 48 ? 64 : c - 48;
            if (c >= 64 || k > 10)
                return stk_fail(err, STK_ECORRUPT, "masks: packed run lengths are damaged");
            v |= (int64_t)((uint64_t)(c & 0x1f) << (5 * k++));
        } while (c & 0x20);
        if (c & 0x10)
            v |= (int64_t)(~(uint64_t)0 << (5 * k));
        if (r->n > 2)
            v += r->last[r->n & 1];
        r->last[r->n & 1] = v;
        STK_TRY(put_run(r, v, err));
    }
    return 0;
}

static int take_runs(plane *p, stk_bytes value, stk_error *err)
{
    runs r = { .p = p, .end = (uint64_t)p->w * p->h };
    stk_bytes counts;
    uint32_t w = 0, h = 0;

    STK_TRY(side_of(value, "size.0", &h, err));
    STK_TRY(side_of(value, "size.1", &w, err));
    if (w != p->w || h != p->h)
        return stk_fail(err, STK_ECORRUPT,
                        "masks: run lengths are of %ux%u pixels, the picture of "
                        "%ux%u",
                        w, h, p->w, p->h);
    STK_TRY(stk_json_find(value, "counts", &counts, err));
    return counts.data[0] == '"' ? take_packed(&r, counts, err)
                                 : stk_json_elements(counts, take_run, &r, err);
}

/* One region into a plane of zeros. */
static int draw(plane *p, stk_bytes value, stk_error *err)
{
    p->low = UINT32_MAX;
    p->high = 0;
    p->steps = 0;
    p->boxes = -1;
    if (value.data[0] == '[')
        return stk_json_elements(value, take_polygon, p, err);
    return value.data[0] == '{' ? take_runs(p, value, err) : 0;
}

/* ---- masks: a plane each ---- */

static int masks_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args;
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "masks reads a field's bytes: put it first");
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_LIST, .dtype = STK_U8, .ndim = 3 };
    return 0;
}

static int masks_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    regions r;

    (void)state;
    STK_TRY(open_regions(&r, in, err));
    if ((int64_t)r.w * r.h * r.n > PIXELS_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "masks: %u planes of %ux%u pixels are more than %" PRId64 " bytes", r.n,
                        r.w, r.h, PIXELS_MAX);
    row->dtype = STK_U8;
    row->ndim = 3;
    row->shape[0] = r.n;
    row->shape[1] = r.h;
    row->shape[2] = r.w;
    return 0;
}

static int take_plane(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    plane *p = cookie;
    int rc = draw(p, value, err);

    (void)key;
    p->pixel += (size_t)p->w * p->h;
    return rc;
}

static int masks_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                       stk_error *err)
{
    plane p = { .pixel = dst };
    regions r;

    (void)state;
    STK_TRY(open_regions(&r, in, err));
    p.w = r.w;
    p.h = r.h;
    memset(dst, 0, (size_t)r.w * r.h * r.n);
    return stk_json_elements(r.list, take_plane, &p, err);
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_masks = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_codec),
                                    .name = "masks",
                                    .help = "polygons and run lengths of annotations as planes of "
                                            "0 and 1: (objects, height, width)",
                                    .args = no_args,
                                    .plan = masks_plan,
                                    .parse = masks_parse,
                                    .shape = masks_shape };

/* ---- class_map: pixels are labels ---- */

static int map_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args;
    return spec->kind == STK_KIND_BYTES && spec->out == STK_OUT_BYTES
               ? 0
               : stk_fail(err, STK_EINVAL, "class_map reads a field's bytes: put it first");
}

static int map_extract(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err)
{
    uint8_t *to = stk_scratch_get(scratch, in.len + 1);

    (void)state;
    if (!to)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", in.len + 1);
    to[0] = BY_LABEL;
    memcpy(to + 1, in.data, in.len);
    *out = (stk_bytes){ to, in.len + 1 };
    return 0;
}

const stk_codec stk_codec_class_map = { .abi = STK_PLUGIN_ABI,
                                        .size = sizeof(stk_codec),
                                        .name = "class_map",
                                        .help = "before image(mode=index) of masks: pixels are "
                                                "labels + 1, not numbers of objects",
                                        .args = no_args,
                                        .plan = map_plan,
                                        .extract = map_extract };

/* ---- the decoder: one picture ---- */

typedef struct context {
    stk_bytes in;
    regions r;
    int by_label;
} context;

static int regions_probe(stk_bytes head)
{
    size_t skip = head.len && head.data[0] == BY_LABEL;

    return head.len > strlen(HEAD) + skip && !memcmp(head.data + skip, HEAD, strlen(HEAD));
}

static int regions_open(void **out, stk_error *err)
{
    *out = STK_NEW(context);
    return *out ? 0 : stk_fail_nomem(err, sizeof(context));
}

static int regions_header(void *p, stk_bytes in, const stk_media_points *points,
                          stk_media_info *out, stk_error *err)
{
    context *c = p;

    (void)points;
    c->by_label = in.len && in.data[0] == BY_LABEL;
    c->in = (stk_bytes){ in.data + c->by_label, in.len - (size_t)c->by_label };
    c->r.n = 0;
    STK_TRY(open_regions(&c->r, c->in, err));
    *out = stk_picture_info(c->r.w, c->r.h);
    return 0;
}

typedef struct drawing {
    plane p;
    uint8_t *map;
    stk_bytes labels; /* what is left of them; NULL: numbers */
    uint32_t n;
} drawing;

/* The next of a list of integers, which JSON has checked. */
static int next_label(stk_bytes *list, int64_t *out, stk_error *err)
{
    size_t i = 0, from;

    while (i < list->len && (list->data[i] <= ' ' || strchr("[,", list->data[i])))
        i++;
    from = i;
    while (i < list->len && list->data[i] > ' ' && !strchr(",]", list->data[i]))
        i++;
    if (stk_number_i64((stk_bytes){ list->data + from, i - from }, out) != 1 || *out < 0)
        return stk_fail(err, STK_ECORRUPT, "class_map: a region has no label");
    list->data += i;
    list->len -= i;
    return 0;
}

static int take_region(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    drawing *d = cookie;
    size_t size = (size_t)d->p.w * d->p.h;
    int64_t v = d->n++;

    (void)key;
    if (d->labels.data)
        STK_TRY(next_label(&d->labels, &v, err));
    if (v > 254)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): %s is more than a pixel of 8 bits can say: take "
                        "`masks`",
                        d->labels.data ? "a label over 254" : "more than 255 objects");
    memset(d->p.pixel, 0, size);
    STK_TRY(draw(&d->p, value, err));
    for (size_t i = 0; i < size; i++)
        d->map[i] = d->p.pixel[i] ? (uint8_t)(v + 1) : d->map[i];
    return 0;
}

static int regions_pixels(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                          stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    context *c = ctx;
    size_t size = (size_t)c->r.w * c->r.h;
    drawing d = { .p = { .w = c->r.w, .h = c->r.h } };

    if (!need->w || !need->h || need->x >= c->r.w || need->w > c->r.w - need->x ||
        need->y >= c->r.h || need->h > c->r.h - need->y)
        return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                        need->w, need->h, need->x, need->y, c->r.w, c->r.h);
    out->area = *need;
    out->stride = ((size_t)need->w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    out->data = stk_scratch_get(scratch, out->stride * need->h);
    d.map = stk_scratch_get(scratch, 2 * size);
    if (!out->data || !d.map)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", c->r.w, c->r.h);
    d.p.pixel = d.map + size;
    d.labels = c->by_label ? c->r.labels : (stk_bytes){ 0 };
    memset(d.map, 0, size);
    STK_TRY(stk_json_elements(c->r.list, take_region, &d, err));
    for (uint32_t y = 0; y < need->h; y++) {
        const uint8_t *from = d.map + (size_t)(need->y + y) * c->r.w + need->x;
        uint8_t *to = out->data + y * out->stride;

        for (uint32_t x = 0; x < need->w; x++, to += 4) {
            to[0] = to[1] = to[2] = from[x];
            to[3] = 255;
        }
    }
    return 0;
}

static void regions_close(void *p)
{
    stk_free(p);
}

static int regions_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    return stk_pixels_give(regions_pixels, ctx, job, err);
}

const stk_decoder stk_decoder_regions = { .abi = STK_PLUGIN_ABI,
                                          .size = sizeof(stk_decoder),
                                          .name = "regions",
                                          .help = "masks of annotations, as image(mode=index)",
                                          .probe = regions_probe,
                                          .open = regions_open,
                                          .header = regions_header,
                                          .decode = regions_decode,
                                          .close = regions_close };
