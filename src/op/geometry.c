/* SPDX-License-Identifier: Apache-2.0 */
/* geometry.c - crops, a resize and mirrors compose into one view.
 *
 * The stages of a view have a fixed order: clip, resize, window, mirror.  An op that comes out
 * of order is turned into the stage it belongs to: a crop before the resize narrows the clip,
 * after it moves the window; a crop after a mirror is reflected.  Before the resize the picture
 * inside the window is always the whole clip, so that nothing that was cut away can come back.
 * After it, a window that was cut and then widened again would need black over known pixels:
 * that is refused, as is resizing a window that hangs over the picture's edge. */
#include "op/view.h"

#define FAR (1 << 30) /* windows stay within +-FAR, so that int32 arithmetic is safe */

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

void stk_view_crop(stk_view *v, int32_t x, int32_t y, uint32_t w, uint32_t h)
{
    int64_t at_x = x, at_y = y, hidden;

    if (v->refused)
        return;
    if (!w || !h || w > FAR || h > FAR) {
        v->refused = "a crop without pixels";
        return;
    }
    if (v->flip_x)
        at_x = (int64_t)v->vis_w - x - w;
    if (v->flip_y)
        at_y = (int64_t)v->vis_h - y - h;
    at_x += v->vis_x;
    at_y += v->vis_y;
    if (at_x < -FAR || at_y < -FAR || at_x > FAR || at_y > FAR) {
        v->refused = "a crop too far from the picture";
        return;
    }
    /* On one axis more of the picture would show; it does if the other axis shows any of it. */
    if (overlap(at_x, w, v->res_w, &hidden) && overlap(at_y, h, v->res_h, &hidden) &&
        (uncovers(at_x, w, v->vis_x, v->vis_w, v->res_w) ||
         uncovers(at_y, h, v->vis_y, v->vis_h, v->res_h))) {
        v->refused = "a crop that reaches beyond an earlier crop: crop once after the resize";
        return;
    }
    v->vis_x = (int32_t)at_x;
    v->vis_y = (int32_t)at_y;
    v->vis_w = w;
    v->vis_h = h;
    if (!v->resized)
        narrow_clip(v);
}

void stk_view_resize(stk_view *v, uint32_t w, uint32_t h)
{
    if (v->refused)
        return;
    if (v->resized)
        v->refused = "one resize a chain";
    else if (!w || !h)
        v->refused = "a resize to no pixels: the picture is too thin";
    else if (w > FAR || h > FAR)
        v->refused = "a resize to more pixels than can be drawn";
    else if (v->vis_x || v->vis_y || v->vis_w != v->res_w || v->vis_h != v->res_h)
        v->refused = "a resize after a crop larger than the picture: resize first";
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
