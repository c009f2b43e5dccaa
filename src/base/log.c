/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - formats a line and hands it to the sink, if there is one. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void stk_log_line(const stk_log *log, stk_log_level level, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    if (!log->fn)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    log->fn(log->cookie, level, line);
}
