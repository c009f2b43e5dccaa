/* SPDX-License-Identifier: Apache-2.0 */
/* lzf.c - LZF as h5py writes it: literals and copies.  A library for it would be a dependency in
 * place of thirty lines. */
#include <string.h>

#include "compress/unpack.h"

size_t stk_unlzf(stk_bytes in, uint8_t *dst, size_t room)
{
    const uint8_t *p = in.data, *end = p + in.len;
    size_t n = 0;

    while (p < end) {
        uint32_t ctrl = *p++;
        size_t len = ctrl >> 5, back;

        if (ctrl < 32) { /* bytes as they are */
            len = ctrl + 1;
            if (len > (size_t)(end - p) || len > room - n)
                return SIZE_MAX;
            memcpy(dst + n, p, len);
            p += len;
            n += len;
            continue;
        }
        if (len == 7 && p < end)
            len += *p++;
        if (p >= end)
            return SIZE_MAX;
        back = ((size_t)(ctrl & 31) << 8 | *p++) + 1;
        len += 2;
        if (back > n || len > room - n)
            return SIZE_MAX;
        for (size_t i = 0; i < len; i++, n++) /* what is copied may be what was just written */
            dst[n] = dst[n - back];
    }
    return n;
}
