/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the check of a loader's options against options.def. */
#ifndef STOKER_OPTIONS_H
#define STOKER_OPTIONS_H

#include <stoker/stoker.h>

/* Every number in its range, every choice one of its words; 0 is always the default.  STK_EINVAL
 * names the option, its value and the range. */
int stk_options_check(const stk_loader_options *opt, stk_error *err);

#endif
