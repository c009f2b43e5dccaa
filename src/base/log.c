/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - formats a line, makes it fit to be shown, and hands it to the sink, if there is one. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void stk_log_line(const stk_log *log, stk_log_level level, const char *fmt, ...)
{
    char raw[1024], line[1280];
    va_list ap;

    if (!log->fn)
        return;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    stk_secrets_hide(raw);
    stk_text_show(raw, strlen(raw), line, sizeof line);
    log->fn(log->cookie, level, line);
}
