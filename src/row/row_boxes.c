/* SPDX-License-Identifier: Apache-2.0 */
/* row_boxes.c - boxes and keypoints that follow a picture, and lists that follow boxes.
 *
 * The picture's draws are made again: they depend on its chain, its address, its size and, with
 * iou_crop, its boxes alone.  Places go through EXIF's turn, then through each view and warp as the
 * pixels did (chain/boxes.h). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "chain/boxes.h"
#include "op/like.h"
#include "row/row.h"

static stk_box box_of(const stk_like *l, const double v[4])
{
    double w = v[2], h = v[3];

    if (l->format == STK_BOX_XYXY)
        return (stk_box){ v[0], v[1], v[2], v[3], 1 };
    if (l->format == STK_BOX_XYWH)
        return (stk_box){ v[0], v[1], v[0] + w, v[1] + h, 1 };
    return (stk_box){ v[0] - w / 2, v[1] - h / 2, v[0] + w / 2, v[1] + h / 2, 1 };
}

static void box_to(const stk_like *l, const stk_box *b, double v[4])
{
    double w = b->x1 - b->x0, h = b->y1 - b->y0;

    v[0] = l->format == STK_BOX_CXCYWH ? b->x0 + w / 2 : b->x0;
    v[1] = l->format == STK_BOX_CXCYWH ? b->y0 + h / 2 : b->y0;
    v[2] = l->format == STK_BOX_XYXY ? b->x1 : w;
    v[3] = l->format == STK_BOX_XYXY ? b->y1 : h;
}

/* ---- rows ---- */

typedef struct follower {
    const stk_like *like;
    stk_draws *d;
    uint32_t w, h; /* as the picture is filed */
    unsigned turn;
} follower;

static double get(const stk_value_row *row, size_t i)
{
    return row->dtype == STK_F64 ? ((const double *)row->data)[i]
                                 : (double)((const float *)row->data)[i];
}

static void set(stk_value_row *row, size_t i, double v)
{
    if (row->dtype == STK_F64)
        ((double *)row->data)[i] = v;
    else
        ((float *)row->data)[i] = (float)v;
}

static int bad_box(size_t i, const double v[4], stk_error *err)
{
    return stk_fail(
        err, STK_ECORRUPT,
        "like: box %zu is (%g, %g, %g, %g): its sides are negative or no numbers: check "
        "format=, or repair the data",
        i, v[0], v[1], v[2], v[3]);
}

/* Box i as it is filed, upright. */
static int read_box(const follower *f, const stk_value_row *row, size_t i, stk_box *out,
                    stk_error *err)
{
    double sx = f->like->normalized ? f->w : 1, sy = f->like->normalized ? f->h : 1, v[4];
    stk_box b;

    for (size_t k = 0; k < 4; k++)
        v[k] = get(row, 4 * i + k) * (k % 2 ? sy : sx);
    b = box_of(f->like, v);
    if (!(b.x0 <= b.x1 && b.y0 <= b.y1 && fabs(b.x0) < 1e9 && fabs(b.x1) < 1e9 &&
          fabs(b.y0) < 1e9 && fabs(b.y1) < 1e9))
        return bad_box(i, v, err);
    stk_box_upright(f->turn, f->w, f->h, &b);
    *out = b;
    return 0;
}

/* iou_crop dropped box i of those that it looked at, and this is that box: outputs for other views
 * read the same ones.  Boxes of another list have their own places only. */
static int was_dropped(const stk_boxes *seen, const stk_box *b, size_t i)
{
    const double *f = seen && i < seen->list.n ? seen->filed[i] : NULL;

    return f && !seen->list.keep[i] && fabs(f[0] - b->x0) < 0.01 && fabs(f[1] - b->y0) < 0.01 &&
           fabs(f[2] - b->x1) < 0.01 && fabs(f[3] - b->y1) < 0.01;
}

/* Box i moved; *keep: it stays. */
static int one_box(const follower *f, stk_value_row *row, size_t i, int *keep, stk_error *err)
{
    const stk_view *last = stk_draws_last(f->d);
    double v[4];
    stk_box b;
    int dropped;

    STK_TRY(read_box(f, row, i, &b, err));
    dropped = was_dropped(f->d->boxes, &b, i);
    stk_box_move(f->d, &b);
    *keep = b.x1 - b.x0 >= f->like->min_size && b.y1 - b.y0 >= f->like->min_size &&
            (b.x1 - b.x0) * (b.y1 - b.y0) >= f->like->min_area &&
            b.visible >= f->like->min_visible && b.x1 > b.x0 && b.y1 > b.y0 && !dropped;
    box_to(f->like, &b, v);
    for (size_t k = 0; k < 4; k++)
        set(row, 4 * i + k,
            f->like->normalized ? v[k] / (k % 2 ? last->vis_h : last->vis_w) : v[k]);
    return 0;
}

/* Move all boxes; keep[i] for each, as it was listed. */
static int all_boxes(const follower *f, stk_value_row *row, uint8_t *keep, stk_error *err)
{
    for (int64_t i = 0; i < row->shape[0]; i++) {
        int stays = 0;

        STK_TRY(one_box(f, row, (size_t)i, &stays, err));
        keep[i] = (uint8_t)stays;
    }
    return 0;
}

static void drop(stk_value_row *row, const uint8_t *keep)
{
    size_t each = stk_dtype_size(row->dtype);
    int64_t n = 0;

    for (uint32_t i = 1; i < row->ndim; i++)
        each *= (size_t)row->shape[i];
    for (int64_t i = 0; i < row->shape[0]; i++)
        if (keep[i])
            memmove((uint8_t *)row->data + (size_t)n++ * each,
                    (uint8_t *)row->data + (size_t)i * each, each);
    row->shape[0] = n;
}

static int mirrored(const stk_draws *d)
{
    int odd = 0;

    for (uint32_t k = 0; k < d->n_passes; k++)
        odd ^= d->view[k].flip_x ^ d->view[k].flip_y;
    return odd;
}

static void one_point(const follower *f, stk_value_row *row, size_t at, int64_t columns)
{
    const stk_view *last = stk_draws_last(f->d);
    double sx = f->like->normalized ? f->w : 1, sy = f->like->normalized ? f->h : 1;
    stk_spot p = { get(row, at) * sx, get(row, at + 1) * sy };
    int seen;

    p = stk_spot_upright(f->turn, f->w, f->h, p);
    seen = stk_spot_move(f->d, &p);
    if (columns == 3 && !(seen && p.x >= 0 && p.y >= 0 && p.x < last->vis_w && p.y < last->vis_h))
        set(row, at + 2, 0);
    set(row, at, f->like->normalized ? p.x / last->vis_w : p.x);
    set(row, at + 1, f->like->normalized ? p.y / last->vis_h : p.y);
}

/* Rows of (..., points, 2 or 3). */
static int all_points(const follower *f, stk_value_row *row, stk_scratch *scratch, stk_error *err)
{
    int64_t columns = row->shape[row->ndim - 1], points = row->shape[row->ndim - 2];
    size_t n = 1, each, group;
    uint8_t *was;

    for (uint32_t i = 0; i < row->ndim; i++)
        n *= (size_t)row->shape[i];
    for (size_t at = 0; at < n; at += (size_t)columns)
        one_point(f, row, at, columns);
    if (!f->like->n_flip || !mirrored(f->d) || !n)
        return 0;
    if (points != f->like->n_flip)
        return stk_fail(err, STK_ECORRUPT, "like: it has %lld keypoints, and flip_idx names %u",
                        (long long)points, f->like->n_flip);
    each = (size_t)columns * stk_dtype_size(row->dtype);
    group = each * (size_t)points;
    was = stk_scratch_get(scratch, group);
    if (!was)
        return stk_fail_nomem(err, group);
    for (size_t g = 0; g < n * stk_dtype_size(row->dtype); g += group) {
        memcpy(was, (uint8_t *)row->data + g, group);
        for (uint32_t i = 0; i < f->like->n_flip; i++)
            memcpy((uint8_t *)row->data + g + i * each, was + f->like->flip[i] * each, each);
    }
    return 0;
}

static int check_row(const stk_like *l, const stk_value_row *row, stk_error *err)
{
    int64_t last = row->ndim ? row->shape[row->ndim - 1] : 0;

    if (row->dtype != STK_F32 && row->dtype != STK_F64)
        return stk_fail(err, STK_ECORRUPT, "like: coordinates are floats, not %s: use floats()",
                        stk_dtype_name(row->dtype));
    if (l->points ? row->ndim < 2 || (last != 2 && last != 3) : row->ndim != 2 || last != 4)
        return stk_fail(err, STK_ECORRUPT,
                        l->points
                            ? "like: keypoints are (..., points, 2 or 3): floats(shape=(-1, 3))"
                            : "like: boxes are (any number, 4): floats(shape=(-1, 4))");
    return 0;
}

static follower follower_of(const stk_row *x, const stk_chain *c)
{
    const stk_wanted *lead = &x->req->want[c->like.leader_output];

    return (follower){ .like = c->like.how,
                       .turn = lead->turn,
                       .w = lead->turn > 4 ? lead->height : lead->width,
                       .h = lead->turn > 4 ? lead->width : lead->height };
}

/* Boxes or points of x->output, moved; *keep: which boxes stay, NULL of points. */
static int follow(stk_row *x, stk_value_row *row, uint8_t **keep, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_wanted *lead = &x->req->want[c->like.leader_output];
    follower f = follower_of(x, c);

    assert(c->like.leader && c->like.leader_output < x->table->n_out);
    STK_TRY(check_row(c->like.how, row, err));
    f.d = stk_scratch_get(&x->m->scratch, sizeof *f.d);
    *keep = c->like.how->points ? NULL : stk_scratch_get(&x->m->scratch, (size_t)row->shape[0] + 1);
    if (!f.d || (!c->like.how->points && !*keep))
        return stk_fail_nomem(err, sizeof *f.d);
    STK_TRY(stk_picture_follow(x, &(stk_image_info){ lead->width, lead->height }, c->like.how->view,
                               f.d, err));
    return c->like.how->points ? all_points(&f, row, &x->m->scratch, err)
                               : all_boxes(&f, row, *keep, err);
}

/* Boxes of x->output before they are moved; another output asks for them. */
static int filed_boxes(stk_row *x, stk_value_row *row, stk_error *err)
{
    return stk_row_chain(x)->like.after_call ? stk_call_first(x, row, err)
                                             : stk_value_parse(x, row, err);
}

/* ---- for draws that look at boxes ---- */

static int make_list(const stk_row *x, uint32_t n, stk_boxes **out, stk_error *err)
{
    size_t each = sizeof *(*out)->filed, size = sizeof **out + 2 * n * each + n;
    uint8_t *room = stk_scratch_get(&x->m->scratch, size);

    if (!room)
        return stk_fail_nomem(err, size);
    *out = (stk_boxes *)(void *)room;
    (*out)->filed = (double(*)[4])(void *)(room + sizeof **out);
    (*out)->list = (stk_box_list){ .n = n,
                                   .at = (*out)->filed + n,
                                   .keep = room + sizeof **out + 2 * n * each };
    memset((*out)->list.keep, 1, n);
    return 0;
}

int stk_boxes_read(const stk_row *x, uint32_t output, stk_boxes **out, stk_error *err)
{
    stk_row other = *x;
    stk_value_row row;
    follower f;

    other.output = output;
    f = follower_of(&other, stk_row_chain(&other));
    STK_TRY(filed_boxes(&other, &row, err));
    STK_TRY(check_row(f.like, &row, err));
    STK_TRY(make_list(x, (uint32_t)row.shape[0], out, err));
    for (uint32_t i = 0; i < (*out)->list.n; i++) {
        stk_box b = { 0 };

        STK_TRY(read_box(&f, &row, i, &b, err));
        memcpy((*out)->filed[i], (double[4]){ b.x0, b.y0, b.x1, b.y1 }, sizeof(*out)->filed[i]);
    }
    return 0;
}

int stk_boxes_cut_late(const stk_chain *c)
{
    if (!c->like.how || !c->spec.max_len || (c->like.how->points && !c->like.keeps))
        return 0;
    for (uint32_t i = 0; i < c->like.at; i++)
        if (c->step[i].op && !strcmp(c->step[i].op->name, "truncate"))
            return 0;
    return 1;
}

/* Of the n entries that stay, the first or the last, as truncate() after like() says. */
static void keep_most(const stk_chain *c, uint8_t *keep, int64_t n)
{
    int64_t left = c->spec.max_len;

    if (!stk_boxes_cut_late(c))
        return;
    for (int64_t k = 0; k < n; k++) {
        uint8_t *at = &keep[c->spec.keep_last ? n - 1 - k : k];

        *at = *at && left-- > 0;
    }
}

/* A list beside boxes: which of them stay. */
static int entries_of_boxes(stk_row *x, const stk_value_row *row, uint8_t **keep, stk_error *err)
{
    uint32_t self = x->output;
    stk_value_row boxes;
    int rc;

    x->output = stk_row_chain(x)->like.leader_output;
    rc = filed_boxes(x, &boxes, err);
    if (rc == 0)
        rc = follow(x, &boxes, keep, err);
    if (rc == 0)
        keep_most(stk_row_chain(x), *keep, boxes.shape[0]);
    x->output = self;
    if (rc == 0 && (!row->ndim || row->shape[0] != boxes.shape[0]))
        rc = stk_fail(err, STK_ECORRUPT, "like: it has %lld entries for %lld boxes",
                      (long long)(row->ndim ? row->shape[0] : 1), (long long)boxes.shape[0]);
    return rc;
}

/* ---- numbers that are taken for others ---- */

#define FIT_LEAST 8    /* boxes or keypoints, before anything is said of them */
#define FIT_MOST 1000u /* that are looked at */

/* Once, from the thread that found it: most are not where pictures are, so they would be dropped
 * without a word. */
static void say_misfit(const stk_row *x, const stk_like *l, stk_box_fit *fit, uint32_t seen)
{
    uint32_t outside = atomic_load_explicit(&fit->outside, memory_order_relaxed),
             shares = atomic_load_explicit(&fit->shares, memory_order_relaxed);
    int small = !l->normalized && shares > seen / 2;
    const char *name = x->plan->chains.out[x->output].name,
               *what = l->points ? "keypoints" : "boxes";

    if ((!small && outside <= seen / 2) ||
        atomic_exchange_explicit(&fit->told, 1, memory_order_relaxed))
        return;
    if (small)
        stk_log_line(&x->plan->policy.log, STK_LOG_WARN,
                     "output %s: %u of the first %u %s have numbers within 0..1, and are taken for "
                     "pixels: write like(..., normalized=true) if they are shares of the sides",
                     name, shares, seen, what);
    else
        stk_log_line(&x->plan->policy.log, STK_LOG_WARN,
                     "output %s: %u of the first %u %s are outside their pictures: %s", name,
                     outside, seen, what,
                     l->normalized ? "normalized=true takes numbers for shares of the sides; leave "
                                     "it out if they are pixels"
                                   : "check format= in like(), and whether they are of pictures of "
                                     "this size");
}

/* Look at numbers as they are filed, before they are moved. */
static void note_fit(const stk_row *x, const stk_value_row *row)
{
    const stk_chain *c = stk_row_chain(x);
    stk_box_fit *fit = &x->plan->rows.fit[x->output];
    const follower f = follower_of(x, c);
    size_t each = c->like.how->points ? (size_t)row->shape[row->ndim - 1] : 4, n = 1;
    double w = c->like.how->normalized ? 1 : f.w, h = c->like.how->normalized ? 1 : f.h;
    uint32_t seen = atomic_load_explicit(&fit->seen, memory_order_relaxed), outside = 0, shares = 0;

    if (x->again || seen >= FIT_MOST || atomic_load_explicit(&fit->told, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < row->ndim; i++)
        n *= (size_t)row->shape[i];
    n /= each;
    for (size_t i = 0; i < n; i++) {
        double v[4] = { get(row, i * each), get(row, i * each + 1) };
        stk_box b = { v[0], v[1], v[0], v[1], 1 };

        if (!c->like.how->points) {
            v[2] = get(row, i * each + 2), v[3] = get(row, i * each + 3);
            b = box_of(c->like.how, v);
        }
        outside += !(b.x0 + b.x1 >= 0 && b.y0 + b.y1 >= 0 && b.x0 + b.x1 <= 2 * w &&
                     b.y0 + b.y1 <= 2 * h);
        shares += b.x0 >= 0 && b.y0 >= 0 && b.x1 <= 1 && b.y1 <= 1 && b.x1 + b.y1 > 0;
    }
    atomic_fetch_add_explicit(&fit->outside, outside, memory_order_relaxed);
    atomic_fetch_add_explicit(&fit->shares, shares, memory_order_relaxed);
    seen = atomic_fetch_add_explicit(&fit->seen, (uint32_t)n, memory_order_relaxed) + (uint32_t)n;
    if (seen >= FIT_LEAST)
        say_misfit(x, c->like.how, fit, seen);
}

int stk_boxes_like(stk_row *x, stk_value_row *row, stk_error *err)
{
    uint8_t *keep = NULL;

    if (!stk_row_chain(x)->like.keeps && check_row(stk_row_chain(x)->like.how, row, NULL) == 0)
        note_fit(x, row);
    STK_TRY(stk_row_chain(x)->like.keeps ? entries_of_boxes(x, row, &keep, err)
                                         : follow(x, row, &keep, err));
    if (!keep)
        return 0;
    keep_most(stk_row_chain(x), keep, row->shape[0]);
    drop(row, keep);
    return 0;
}
