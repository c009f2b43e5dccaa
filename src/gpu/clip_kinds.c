/* SPDX-License-Identifier: Apache-2.0 */
/* clip_kinds.c - see clip_kinds.h.  A short list: only kinds whose last clip failed are in it. */
#include "gpu/clip_kinds.h"

void stk_clip_kinds_init(stk_clip_kinds *k)
{
    k->n = 0;
    stk_mutex_init(&k->lock);
}

void stk_clip_kinds_fini(stk_clip_kinds *k)
{
    stk_mutex_destroy(&k->lock);
}

static stk_clip_kind *find_locked(stk_clip_kinds *k, stk_video_codec codec,
                                  const stk_frame_format *f) STK_REQUIRES(k->lock)
{
    for (stk_clip_kind *x = k->kind; x < k->kind + k->n; x++)
        if (x->codec == codec && x->width == f->width && x->height == f->height &&
            x->bits == f->bits)
            return x;
    return NULL;
}

int stk_clip_kinds_given_up(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f)
{
    const stk_clip_kind *x;
    int yes;

    stk_mutex_lock(&k->lock);
    x = find_locked(k, codec, f);
    yes = x && x->failed >= STK_CLIP_FAILURES;
    stk_mutex_unlock(&k->lock);
    return yes;
}

static int fail_locked(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f,
                       uint32_t failures) STK_REQUIRES(k->lock)
{
    stk_clip_kind *x = find_locked(k, codec, f);
    uint32_t before = x ? x->failed : 0;

    if (!x && k->n == STK_CLIP_KINDS)
        return 0;
    if (!x) {
        x = &k->kind[k->n++];
        *x = (stk_clip_kind){ codec, f->width, f->height, f->bits, 0 };
    }
    x->failed += failures;
    return before < STK_CLIP_FAILURES && x->failed >= STK_CLIP_FAILURES;
}

int stk_clip_kinds_note(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f,
                        uint32_t failures)
{
    stk_clip_kind *x;
    int over = 0;

    stk_mutex_lock(&k->lock);
    x = find_locked(k, codec, f);
    if (failures)
        over = fail_locked(k, codec, f, failures);
    else if (x && x->failed < STK_CLIP_FAILURES)
        *x = k->kind[--k->n];
    stk_mutex_unlock(&k->lock);
    return over;
}
