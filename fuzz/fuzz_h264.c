/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_h264 - any bytes as the setup of H.264 and the packets of a run: which frames the last one
 * depends on, and frames that copy.  First two bytes: how long the setup is, then it, then packets
 * with two bytes of length before each. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "video/h264.h"

#define PACKETS 64u

static stk_bytes copy_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + !size); /* so that a sanitizer sees reads outside */

    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    return (stk_bytes){ copy, size };
}

/* Two bytes of length, and what they count, as far as it is there. */
static stk_bytes take(const uint8_t **data, size_t *size)
{
    size_t len;
    stk_bytes out;

    if (*size < 2)
        return (stk_bytes){ NULL, 0 };
    len = (*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2, *size -= 2;
    len = len < *size ? len : *size;
    out = copy_of(*data, len);
    *data += len, *size -= len;
    return out;
}

/* What is written can be read again, and says the same. */
static void check_copy(const stk_h264 *h, stk_bytes setup, const stk_h264_slice *s)
{
    uint8_t *more = malloc(setup.len + STK_H264_MORE), copy[STK_H264_COPY];
    size_t n = stk_h264_copy(h, s, copy);

    FUZZ_CHECK(more && n > 4 && n <= sizeof copy);
    FUZZ_CHECK((size_t)(copy[2] << 8 | copy[3]) == n - 4 && (copy[4] & 31) == 1);
    FUZZ_CHECK((copy[4] >> 5 & 3u) == s->is_ref);
    n = stk_h264_setup(h, setup, more);
    FUZZ_CHECK(n > setup.len && n <= setup.len + STK_H264_MORE);
    free(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes setup = take(&data, &size), packet[PACKETS];
    uint8_t need[PACKETS] = { 0 };
    stk_scratch scratch = { 0 };
    stk_h264_slice s;
    uint32_t n = 0;
    stk_h264 h;

    while (setup.data && n < PACKETS && (packet[n] = take(&data, &size)).data)
        n++;
    if (n && stk_h264_sets(&h, setup) == 0) {
        for (uint32_t i = 0; i < n; i++) {
            stk_bytes in = packet[i];

            if (stk_h264_next(&h, &in, &s) == 0)
                check_copy(&h, setup, &s);
        }
        need[n - 1] = 1;
        if (stk_h264_needed(&h, packet, n, need, &scratch) == 0)
            FUZZ_CHECK(need[0] && need[n - 1]); /* the first one begins the run */
    }
    for (uint32_t i = 0; i < n; i++)
        free((void *)(uintptr_t)packet[i].data);
    free((void *)(uintptr_t)setup.data);
    stk_scratch_fini(&scratch);
    return 0;
}
