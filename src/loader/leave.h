/* SPDX-License-Identifier: Apache-2.0 */
/* leave.h - for tools that make every sample exactly once: a bad sample leaves its row empty and is
 * reported, and no other sample takes its place.  `stoker pack` calls it. */
#ifndef STOKER_LEAVE_H
#define STOKER_LEAVE_H

#include <stoker/stoker.h>

#include "row/plan.h"

/* For a loader with on_error="skip".  Call before its first batch. */
void stk_loader_leave_bad(stk_loader *l, stk_leave leave);

#endif
