/* SPDX-License-Identifier: Apache-2.0 */
/* opts.h - copies an option struct of a caller that may have been compiled with an older or a newer
 * version of it; missing fields become zeros.  Public functions with options call it. */
#ifndef STOKER_OPTS_H
#define STOKER_OPTS_H

#include <stdint.h>
#include <string.h>

/* dst: our struct.  src: the caller's, which begins with its uint32_t size; NULL: all defaults. */
static inline void stk_options_take(void *dst, size_t dst_size, const void *src)
{
    uint32_t n = 0;

    memset(dst, 0, dst_size);
    if (!src)
        return;
    memcpy(&n, src, sizeof n);
    memcpy(dst, src, n < dst_size ? n : dst_size);
}

#endif
