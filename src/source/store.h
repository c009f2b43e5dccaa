/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - settings of remote sources, and the keys that were found by them. */
#ifndef STOKER_SOURCE_STORE_H
#define STOKER_SOURCE_STORE_H

#include <stdatomic.h>
#include <stoker/store.h>

#include "base/err.h"
#include "base/lock.h"

struct stk_store { /* Thread: any. */
    _Atomic uint32_t refs;
    stk_store_options o; /* texts are its own */
    stk_mutex lock;
    stk_keys keys;   /* lock */
    int known;       /* lock: keys are what was found, also if that is none */
    uint64_t turn;   /* lock: counts how often they were looked up */
};

#endif
