/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - rules that ops share in plan(): what may come before them in a chain, sizes,
 * rounding. */
#ifndef STOKER_OP_SPEC_H
#define STOKER_OP_SPEC_H

#include "op/view.h"

#define STK_MAX_SIDE 65535u /* pixels; JPEG's limit, and more than a batch could hold */

/* STK_EINVAL: an op of geometry can't be here: the chain has no image at this point, or one whose
 * type or values are final. */
int stk_spec_geometry(const stk_spec *spec, const char *op, stk_error *err);

/* The same for a resize. */
int stk_spec_resize(stk_spec *spec, const char *op, stk_error *err);

/* Sets the size of rows from here on; 0: it varies with the sample. */
void stk_spec_size(stk_spec *spec, uint32_t w, uint32_t h);

/* Sets the shape of one picture of a row, and returns its number of dimensions. */
uint32_t stk_spec_picture_shape(const stk_spec *spec, int64_t shape[STK_MAX_DIMS]);

/* Adds a leading dimension to rows: views come first, then frames. */
int stk_spec_add_lead(stk_spec *spec, const char *op, stk_lead lead, stk_error *err);

/* Puts the leading dimensions before those in spec->shape. */
void stk_spec_put_leads(stk_spec *spec);

/* Reads the argument `size`: one side for both, or (height, width).  Returns the number of values,
 * 1 or 2. */
int stk_spec_sides(const stk_args *args, const char *op, uint32_t *h, uint32_t *w, stk_error *err);

/* Reads the arguments `interpolation`, `antialias` and `exact` (STK_ARGS_FILTER), for
 * stk_view.filter. */
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

/* Reads the argument `name`, a probability in 0..1. */
int stk_spec_chance(const stk_args *args, const char *op, const char *name, double *out,
                    stk_error *err);

/* Nearest integer, halves to even, as Python's round(). */
int64_t stk_round_even(double x);

#endif
