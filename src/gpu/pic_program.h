/* SPDX-License-Identifier: Apache-2.0 */
/* pic_program.h - writes what ops drew for a picture's pixels as the program of its record
 * (cuda/slab.h).  Rows for a GPU call it (row/row_gpu.c). */
#ifndef STOKER_PIC_PROGRAM_H
#define STOKER_PIC_PROGRAM_H

#include "chain/chain.h"
#include "gpu/pic.h"
#include "kern/taps_core.h"

typedef struct stk_pic_axis_table { /* one axis of a view that sees what was made before it */
    stk_axis axis;
    uint32_t base;  /* added to the number of each output's first input */
    stk_action act; /* STK_PIC_ACT_VIEW */
} stk_pic_axis_table;

typedef struct stk_pic_program {
    const stk_draws *d; /* must live until the program is written */
    uint32_t n_steps, n_row, n_slots, areas;
    uint64_t area;       /* pixels of the largest tile that a step makes */
    uint64_t axis_bytes; /* bytes of tables for views; tables for blurs and JPEG come after them */
    uint32_t n_tables;   /* tables for blurs and JPEG */
    uint32_t n_axes;     /* tables of views; their actions come before those that were drawn */
    stk_pic_axis_table axis[2 * STK_MAX_PASSES - 1];
    stk_pic_step step[STK_PIC_MAX_STEPS];
} stk_pic_program;

/* 1: device code can make all ops of a chain that change pixels.  What is drawn for one picture may
 * still be too much for it. */
int stk_pic_program_can(const stk_chain *c);

/* The steps for what was drawn; n_steps 0: only the view.  STK_ENOTSUP: the host must make it. */
int stk_pic_program_make(stk_pic_program *p, const stk_draws *d, stk_error *err);

/* Adds room for the program to a record of the first view, whose size is known. */
void stk_pic_program_add(const stk_pic_program *p, stk_pic *r);
/* Writes the program to the record. */
void stk_pic_program_write(const stk_pic_program *p, void *record);

#endif
