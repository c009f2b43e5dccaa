/* SPDX-License-Identifier: Apache-2.0 */
/* lag.h - two sources for the stress driver over plain files: lag:// answers later and out of
 * order, cold:// only waits. */
#ifndef STOKER_TESTS_LAG_H
#define STOKER_TESTS_LAG_H

#include <stoker/plugin.h>

extern _Atomic int lag_fails; /* some reads fail from now on */
extern const stk_source lag_source, cold_source;

#endif
