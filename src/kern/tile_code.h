/* SPDX-License-Identifier: Apache-2.0 */
/* tile_code.h - codes of the library's own actions, for the host and a GPU alike. */
#ifndef STOKER_KERN_TILE_CODE_H
#define STOKER_KERN_TILE_CODE_H

#include "kern/taps_core.h" /* STK_HD */

#define STK_PIL_BOX_MAX 64u /* pixels on each side of STK_ACT_PIL_BOX */

enum { /* codes; the numbers that each has */
       /* one pixel, by a table of 256 values */
       STK_ACT_BRIGHTNESS = 1, /* f[0]: factor */
       /* PIL: as Pillow has it (pil.h), where torchvision's is another */
       STK_ACT_PIL_BRIGHTNESS, /* f[0]: factor */
       STK_ACT_SOLARIZE_ADD,   /* u[0]: added to values below u[1] */
       /* ... by figures of the whole picture */
       STK_ACT_PIL_CONTRAST, /* f[0]: factor */
       STK_ACT_PIL_AUTOCONTRAST,
       STK_ACT_CONTRAST, /* f[0]: factor */
       STK_ACT_AUTOCONTRAST,
       STK_ACT_EQUALIZE,
       /* one pixel by its place; others: op/pixels.def */
       STK_ACT_NOISE, /* u[0..4]: stream; f[5], f[6]: mean and deviation, of 255 */
       STK_ACT_POINT_END,
       /* one pixel by its neighbours */
       STK_ACT_BLUR = 24,     /* u[0], u[1]: taps on each side, across and down; f[2]: sigma */
       STK_ACT_SHARPNESS,     /* f[0]: factor */
       STK_ACT_JPEG,          /* u[0]: quality */
       STK_ACT_PIL_SHARPNESS, /* f[0]: factor */
       /* 2 u[0] + 1 pixels by u[1], and the two beyond them by u[2]; u[3]: down, not across */
       STK_ACT_PIL_BOX,
       /* a rectangle: u[0..3]: x, y, w, h; u[4]: 0: f[5..7] are its values, 1: noise of the stream
        * u[5..9] */
       STK_ACT_ERASE = 32,
       STK_ACT_WARP = 48, /* a matrix: kern/warp.h */
       STK_ACT_PIL_WARP,  /* an affine map in doubles: kern/pil.h */
       /* several versions of a picture, weighed and mixed */
       STK_ACT_MIX_BEGIN, /* the picture is remembered */
       STK_ACT_MIX_WARP,  /* as PIL_WARP, of one version: it moves no place of the picture */
       STK_ACT_MIX_ADD,   /* f[0]: weight of the version, which is the remembered one again then */
       STK_ACT_MIX_END,   /* f[0]: share of the mixture in a blend with the remembered one */
       /* in the row, after normalize */
       STK_ACT_ERASE_ROW = 64, /* as ERASE, of what the row has; noise is normal */
       STK_ACT_PIXEL = 127,    /* after it: one pixel, by the kernel of an op of op/pixels.def */
#define STK_PIXEL(name) STK_ACT_##name,
#include "op/pixels.def"
       STK_ACT_PIXEL_END,
};
#define STK_PIXELS (STK_ACT_PIXEL_END - STK_ACT_PIXEL - 1)

STK_HD static inline int stk_act_is_point(unsigned code) /* of one pixel by itself */
{
    return code < STK_ACT_POINT_END || (code > STK_ACT_PIXEL && code < STK_ACT_PIXEL_END);
}

STK_HD static inline int stk_act_has_figures(unsigned code) /* of the whole picture */
{
    return code >= STK_ACT_PIL_CONTRAST && code <= STK_ACT_EQUALIZE;
}

STK_HD static inline int stk_act_moves(unsigned code) /* pixels change places */
{
    return code == STK_ACT_WARP || code == STK_ACT_PIL_WARP;
}

STK_HD static inline int stk_act_mixes(unsigned code) /* a version with others */
{
    return code == STK_ACT_MIX_BEGIN || code == STK_ACT_MIX_ADD || code == STK_ACT_MIX_END;
}

#endif
