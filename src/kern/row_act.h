/* SPDX-License-Identifier: Apache-2.0 */
/* row_act.h - applies actions to a finished row, which is normalized and has its final type and
 * layout: random_erasing with values that pixels can't hold. */
#ifndef STOKER_KERN_ROW_ACT_H
#define STOKER_KERN_ROW_ACT_H

#include "kern/sample.h"
#include "kern/tile.h"

static inline int stk_act_in_row(uint16_t code)
{
    return code == STK_ACT_ERASE_ROW;
}

/* job: what made the row, of so many channels: 3, or 1 of a gray picture. */
void stk_row_act(const stk_action *a, const stk_sample_job *job, uint32_t channels);

#endif
