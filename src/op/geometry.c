/* SPDX-License-Identifier: Apache-2.0 */
/* geometry.c - crops, a resize and mirrors compose into one view.
 *
 * The stages of a view have a fixed order: clip, resize, window, mirror.  An op that comes out
 * of order is turned into the stage it belongs to: a crop before the resize extracts the clip,
 * after it moves the window; a crop after a mirror is reflected.  Before the resize the picture
 * inside the window is always the whole clip, so that nothing that was cut away can come back.
 * After it, a window that was cut and then widened again would need black over known pixels, and
 * a window that hangs over the picture's edge cannot be resized: such an op is drawn in a view of
 * its own, over what the one before it gives (stk_view.split). */
#include "op/view.h"

#include <string.h>

#define PLACE_MAX (1 << 30) /* windows stay within +-PLACE_MAX, so that int32 arithmetic is safe */

void stk_view_init(stk_view *v, uint32_t width, uint32_t height)
{
    *v = (stk_view){ .src_w = width,
                     .src_h = height,
                     .clip = { 0, 0, width, height },
                     .res_w = width,
                     .res_h = height,
                     .vis_w = width,
                     .vis_h = height };
}

/* One axis of the overlap of window [at, at + len) and picture [0, size): its begin, and its
 * length. */
static int64_t overlap(int64_t at, int64_t len, int64_t size, int64_t *begin)
{
    int64_t end = at + len < size ? at + len : size;

    *begin = at > 0 ? at : 0;
    return end > *begin ? end - *begin : 0;
}

/* Before the resize: keep of the clip only what the window shows. */
static void narrow_clip(stk_view *v)
{
    int64_t x, y, w = overlap(v->vis_x, v->vis_w, v->clip.w, &x),
                  h = overlap(v->vis_y, v->vis_h, v->clip.h, &y);

    if (!w || !h)
        return; /* all black: the clip stays a valid rectangle that is not seen */
    v->clip.x += (uint32_t)x;
    v->clip.y += (uint32_t)y;
    v->clip.w = v->res_w = (uint32_t)w;
    v->clip.h = v->res_h = (uint32_t)h;
    v->vis_x -= (int32_t)x;
    v->vis_y -= (int32_t)y;
}

/* Whether [at, at + len) shows picture [0, size) outside of the old window [old, old + old_len). */
static int uncovers(int64_t at, int64_t len, int64_t old, int64_t old_len, int64_t size)
{
    int64_t begin, n = overlap(at, len, size, &begin);

    return n && (begin < old || begin + n > old + old_len);
}

/* What came before is drawn first, and this op on top of it. */
static void split(stk_view *v, const char *why)
{
    v->refused = why;
    v->split = 1;
}

static int is_filled(const stk_view *v)
{
    return v->fill[0] || v->fill[1] || v->fill[2] || v->border;
}

/* The window (x, y, w, h), in places of the resized picture, shows more than the canvas. */
static int widens(const stk_view *v, int64_t x, int64_t y, int64_t w, int64_t h)
{
    return x < v->vis_x || y < v->vis_y || x + w > (int64_t)v->vis_x + v->vis_w ||
           y + h > (int64_t)v->vis_y + v->vis_h;
}

void stk_view_crop(stk_view *v, int32_t x, int32_t y, uint32_t w, uint32_t h)
{
    int64_t at_x = x, at_y = y, hidden;

    if (v->refused)
        return;
    if (!w || !h || w > PLACE_MAX || h > PLACE_MAX) {
        v->refused = "a crop without pixels";
        return;
    }
    if (v->flip_x)
        at_x = (int64_t)v->vis_w - x - w;
    if (v->flip_y)
        at_y = (int64_t)v->vis_h - y - h;
    at_x += v->vis_x;
    at_y += v->vis_y;
    if (at_x < -PLACE_MAX || at_y < -PLACE_MAX || at_x > PLACE_MAX || at_y > PLACE_MAX) {
        v->refused = "a crop too far from the picture";
        return;
    }
    /* On one axis more of the picture would show; it does if the other axis shows any of it. */
    if (overlap(at_x, w, v->res_w, &hidden) && overlap(at_y, h, v->res_h, &hidden) &&
        (uncovers(at_x, w, v->vis_x, v->vis_w, v->res_w) ||
         uncovers(at_y, h, v->vis_y, v->vis_h, v->res_h))) {
        split(v, "a crop that reaches beyond an earlier crop: crop once after the resize");
        return;
    }
    if (is_filled(v) && widens(v, at_x, at_y, w, h)) {
        split(v, "a crop that reaches beyond padding");
        return;
    }
    v->vis_x = (int32_t)at_x;
    v->vis_y = (int32_t)at_y;
    v->vis_w = w;
    v->vis_h = h;
    if (!v->resized && !v->border)
        narrow_clip(v);
}

static int outside(const stk_view *v)
{
    return v->vis_x < 0 || v->vis_y < 0 || (int64_t)v->vis_x + v->vis_w > v->res_w ||
           (int64_t)v->vis_y + v->vis_h > v->res_h;
}

void stk_view_pad(stk_view *v, const stk_padding *p)
{
    int64_t w = (int64_t)p->left + v->vis_w + p->right, h = (int64_t)p->top + v->vis_h + p->bottom;
    int64_t x = v->vis_x - (int64_t)(v->flip_x ? p->right : p->left),
            y = v->vis_y - (int64_t)(v->flip_y ? p->bottom : p->top);
    int whole = !v->vis_x && !v->vis_y && v->vis_w == v->res_w && v->vis_h == v->res_h;

    if (v->refused || (!p->left && !p->top && !p->right && !p->bottom))
        return;
    if (x < -PLACE_MAX || y < -PLACE_MAX || w > PLACE_MAX || h > PLACE_MAX) {
        v->refused = "padding to more pixels than can be drawn";
        return;
    }
    if (v->border || (p->border && (v->resized || !whole)) ||
        (outside(v) && memcmp(v->fill, p->fill, sizeof v->fill) != 0) ||
        (v->resized && (uncovers(x, w, v->vis_x, v->vis_w, v->res_w) ||
                        uncovers(y, h, v->vis_y, v->vis_h, v->res_h)))) {
        split(v, "padding that needs a pass of its own");
        return;
    }
    memcpy(v->fill, p->fill, sizeof v->fill);
    v->border = (uint8_t)p->border;
    v->vis_x = (int32_t)x;
    v->vis_y = (int32_t)y;
    v->vis_w = (uint32_t)w;
    v->vis_h = (uint32_t)h;
}

void stk_view_resize(stk_view *v, uint32_t w, uint32_t h)
{
    if (v->refused)
        return;
    if (v->resized)
        split(v, "one resize a chain");
    else if (!w || !h)
        v->refused = "a resize to no pixels: the picture is too thin";
    else if (w > PLACE_MAX || h > PLACE_MAX)
        v->refused = "a resize to more pixels than can be drawn";
    else if (v->vis_x || v->vis_y || v->vis_w != v->res_w || v->vis_h != v->res_h)
        split(v, "a resize after a crop larger than the picture: resize first");
    if (v->refused)
        return;
    v->res_w = v->vis_w = w;
    v->res_h = v->vis_h = h;
    v->resized = 1;
}

void stk_view_mirror(stk_view *v)
{
    v->flip_x = !v->flip_x;
}

void stk_view_upend(stk_view *v)
{
    v->flip_y = !v->flip_y;
}
