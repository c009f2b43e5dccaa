/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - checks a loader's options against options.def.  stk_loader_open() calls it first. */
#ifndef STOKER_OPTIONS_H
#define STOKER_OPTIONS_H

#include <stoker/stoker.h>

/* Every number must be in its range, and every choice one of its words; 0 is the default.
 * STK_EINVAL names the option, its value and the range. */
int stk_options_check(const stk_loader_options *opt, stk_error *err);

#endif
