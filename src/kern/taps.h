/* SPDX-License-Identifier: Apache-2.0 */
/* taps.h - makes the filter weights of one axis, with Pillow's filters, windows and centers.  The
 * sampling pass calls it (kern/sample.c). */
#ifndef STOKER_TAPS_H
#define STOKER_TAPS_H

#include "kern/kern.h"
#include "kern/taps_core.h"

/* The inputs that the outputs touch: [*lo, *hi), empty when all outputs are outside. */
void stk_axis_span(const stk_axis *a, uint32_t *lo, uint32_t *hi);

/* An axis whose filter is torch's gets the shift of its weights (stk_axis.filter); others stay as
 * they are. */
void stk_axis_settle(stk_axis *a);

/* Of a filter that is fine: the weights of a window, in units of 1 / 2^22. */
void stk_axis_fine(int32_t *out, const stk_filter *f, const stk_window *w);

/* Memory that stk_taps_make() needs; more than any scratch gives where it would overflow. */
size_t stk_taps_bytes(const stk_axis *a);

/* Fill *t; its arrays are in `memory`, 8-byte aligned. */
void stk_taps_make(stk_taps *t, const stk_axis *a, void *memory);

/* Move windows at the end to the left, zero weights first, so that `stride` inputs from each
 * first[] on are in the span: a vector load then reads nothing foreign.  Where the span is
 * shorter than `stride`, all begin at 0 and the caller pads its row to `stride` inputs. */
void stk_taps_slide(stk_taps *t);

#endif
