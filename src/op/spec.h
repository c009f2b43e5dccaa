/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - rules that the ops share: what may stand before them, sizes, rounding. */
#ifndef STOKER_OP_SPEC_H
#define STOKER_OP_SPEC_H

#include "op/view.h"

#define STK_MAX_SIDE 65535u /* pixels; JPEG's limit, and more than a batch could hold */

/* Refuse, in one line, unless the chain is at an image whose pixels nothing has changed yet. */
int stk_spec_geometry(const stk_spec *spec, const char *op, stk_error *err);

/* The same, for a resize. */
int stk_spec_resize(stk_spec *spec, const char *op, stk_error *err);

/* Rows are w x h from here on; 0: as the sample is. */
void stk_spec_size(stk_spec *spec, uint32_t w, uint32_t h);

/* The shape of one picture of a row; answers how many sides it has. */
uint32_t stk_spec_picture_shape(const stk_spec *spec, int64_t shape[STK_MAX_DIMS]);

/* Rows get one more leading dimension: of views first, then of frames. */
int stk_spec_add_lead(stk_spec *spec, const char *op, stk_lead lead, stk_error *err);

/* The leading dimensions are put before those that spec->shape has. */
void stk_spec_put_leads(stk_spec *spec);

/* Argument `size`: one side for both, or (height, width).  Returns the number of values, 1 or 2. */
int stk_spec_sides(const stk_args *args, const char *op, uint32_t *h, uint32_t *w, stk_error *err);

/* Arguments `interpolation`, `antialias` and `exact` (STK_ARGS_FILTER): stk_view.filter. */
int stk_spec_filter(const stk_args *args, const char *op, uint8_t *filter, stk_error *err);
#define STK_ARGS_FILTER                                                                            \
    { "interpolation", STK_ARG_NAME, "bilinear", "nearest, bilinear, bicubic or lanczos", 1 },     \
        { "antialias", STK_ARG_BOOL, "true", "a picture that shrinks is smoothed first", 1 },      \
        STK_ARG_EXACT("the pixels are those of pillow or torchvision, to the bit")

/* Argument `exact`: STK_FILTER_PILLOW or STK_FILTER_TORCH added to *filter; as it is where absent.
 */
int stk_spec_exact(const stk_args *args, const char *op, uint8_t *filter, stk_error *err);
#define STK_ARG_EXACT(help)                                                                        \
    {                                                                                              \
        "exact", STK_ARG_NAME, "", help, 1                                                         \
    }

/* Argument `name`: 0..1. */
int stk_spec_chance(const stk_args *args, const char *op, const char *name, double *out,
                    stk_error *err);

/* Nearest integer, halves to even, as Python's round(). */
int64_t stk_round_even(double x);

#endif
