/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - how many requests run at once.
 *
 * A server that begins its answers ever later has more requests than it can take: half as many are
 * asked from then on.  Late is more than a second, and eight times what it takes when few requests
 * run.  Answers to requests from before the change say nothing of it.
 *
 * A server that says "slow down" (503, 429) is asked less: half as many requests from then on, none
 * before Retry-After is over, and one more for each round that goes well.  It speaks to all ranks
 * of the host, since they share its limit; so a process with a cache folder says it to the others
 * there (cache_pace.c), and looks what they said before it begins a request. */
#include "store/http_client.h"
#include "store/store_cache.h"

#define FEW 4u           /* requests: answers to so few are as quick as they can be */
#define LATE 8u          /* times as long as with few requests */
#define LATE_US 1000000u /* ... and at least so long */
#define LOOK_AT 16u      /* answers make an average */

static stk_pace *pace_of(const stk_transfer *t)
{
    return t->to->store->cache ? stk_cache_folder_pace(t->to->store->cache) : NULL;
}

static void halve(stk_client *c, uint64_t now)
{
    stk_hedge_slow(&c->hedge, now);
    c->pace.allowed = c->running / 2 > 0 ? c->running / 2 : 1;
    c->pace.fine = 0;
}

void stk_client_heed(stk_client *c, const stk_transfer *next, uint64_t now)
{
    stk_pace *p = pace_of(next);
    uint64_t until = 0;

    if (!p)
        return;
    if (stk_pace_news(p, now, &until))
        halve(c, now);
    if (until > c->pace.slow_until)
        c->pace.slow_until = until;
}

/* 1: answers have become slow. */
static int slowed(stk_client *c, const stk_timing *when)
{
    uint64_t us = when->waited_us, late;

    if (!us || when->started < c->pace.fell_ns)
        return 0;
    c->pace.wait_us = c->pace.waits ? (c->pace.wait_us * (LOOK_AT - 1) + us) / LOOK_AT : us;
    c->pace.waits++;
    if (!c->pace.calm_us || us < c->pace.calm_us || c->running < FEW)
        c->pace.calm_us = us;
    late = c->pace.calm_us * LATE > LATE_US ? c->pace.calm_us * LATE : LATE_US;
    return c->pace.waits >= LOOK_AT / 2 && c->pace.wait_us > late && c->running >= FEW;
}

void stk_client_pace(stk_client *c, const stk_transfer *t, const stk_timing *when, uint64_t random)
{
    uint64_t pause = t->answer.retry_after * 1000000000ull, now = when->now;

    if (t->status == 503 || t->status == 429) {
        halve(c, now);
        c->pace.slow_until = now + (pause > STK_PACE_MAX ? STK_PACE_MAX
                                    : pause              ? pause
                                                         : 20000000u + random % 80000000u);
        if (pace_of(t))
            stk_pace_tell(pace_of(t), c->pace.slow_until);
    } else if (slowed(c, when)) {
        halve(c, now);
        c->pace.allowed = c->pace.allowed < FEW ? FEW : c->pace.allowed;
        c->pace.fell_ns = now;
        c->pace.waits = 0;
    } else if (c->pace.allowed < STK_SLOTS && ++c->pace.fine >= c->pace.allowed) {
        c->pace.allowed++;
        c->pace.fine = 0;
    }
}
