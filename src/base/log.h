/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - sends a line of text to the log callback that the program gave.  Every folder may call
 * it. */
#ifndef STOKER_BASE_LOG_H
#define STOKER_BASE_LOG_H

#include <stoker/base.h>

typedef struct stk_log {
    stk_log_fn fn;
    void *cookie;
} stk_log;

void stk_log_line(const stk_log *log, stk_log_level level, const char *fmt, ...) STK_PRINTF(3, 4);

#endif
