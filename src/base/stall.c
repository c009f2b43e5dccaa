/* SPDX-License-Identifier: Apache-2.0 */
/* stall.c - how long a thread is held up: most often not at all, sometimes for a turn of the
 * scheduler, seldom for up to two milliseconds (longer than a row, shorter than a test's
 * patience). */
#include "base/stall.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"

int stk_stall_plan(stk_stall *s, stk_error *err)
{
    const char *text = getenv("STK_STALL");
    char *end;

    *s = (stk_stall){ 0 };
    if (!text || !*text)
        return 0;
    errno = 0;
    s->seed = strtoull(text, &end, 10);
    if (*end || errno || *text < '0' || *text > '9')
        return stk_fail(err, STK_EINVAL,
                        "STK_STALL=%s is not a seed: give a whole number, or unset it", text);
    s->on = 1;
    return 0;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void stk_stall_now(const stk_stall *s, stk_stall_point point, uint64_t number)
{
    uint64_t h = mix(mix(s->seed + 0x9E3779B97F4A7C15u * (point + 1u)) ^ number);
    unsigned kind = h & 63;
    long ns = (long)(h >> 32) & 0xFFFFF; /* up to about a millisecond */

    if (kind < 1)
        ns *= 2;
    else if (kind < 6)
        ns /= 8;
    else
        ns = 0;
    if (ns)
        nanosleep(&(struct timespec){ 0, ns }, NULL);
    else if (kind < 24)
        sched_yield();
}
