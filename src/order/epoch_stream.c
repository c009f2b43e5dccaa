/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_stream.c - epochs of any size over an order that goes on from one to the next.
 *
 * Positions are counted through: g = epoch * epoch_size + position.  The inner order has its own
 * epochs of its own length; where a sample stands in them is g divided by that, so entering
 * anywhere costs nothing.  A global batch that is across an inner epoch's end is dealt as it
 * follows, any other one as the inner order deals it. */
#include "base/mem.h"

#include <assert.h>
#include "order/order.h"

#define RUN 32

typedef struct stream {
    stk_order inner;
    uint64_t len; /* of the inner order */
    uint64_t epoch_size;
} stream;

typedef unsigned __int128 wide;

static uint64_t stream_len(const void *state)
{
    return ((const stream *)state)->epoch_size;
}

static void stream_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                      stk_where *out)
{
    const stream *s = state;
    wide first = (wide)epoch * s->epoch_size;
    uint64_t inner[RUN];

    assert(s->len);
    for (uint32_t at = 0, m; at < n; at += m) { /* runs of one inner epoch */
        uint64_t e = (uint64_t)((first + position[at]) / s->len);

        for (m = 0; m < RUN && at + m < n; m++) {
            wide g = first + position[at + m];

            if ((uint64_t)(g / s->len) != e)
                break;
            inner[m] = (uint64_t)(g % s->len);
        }
        s->inner.at(s->inner.state, e, inner, m, out + at);
    }
}

/* One that stands several times in an inner epoch is found there once, perhaps outside. */
static uint64_t search(const stream *s, uint64_t epoch, const stk_where *where)
{
    stk_where w;

    for (uint64_t p = 0; p < s->epoch_size; p++) {
        stream_at(s, epoch, &p, 1, &w);
        if (w.dataset == where->dataset && w.sample == where->sample)
            return p;
    }
    return UINT64_MAX;
}

static uint64_t stream_find(const void *state, uint64_t epoch, const stk_where *where)
{
    const stream *s = state;
    wide first = (wide)epoch * s->epoch_size, last = first + s->epoch_size - 1;

    for (wide e = first / s->len; e <= last / s->len; e++) {
        uint64_t at = s->inner.find(s->inner.state, (uint64_t)e, where);
        wide g = e * s->len + at;

        if (at == UINT64_MAX)
            return UINT64_MAX;
        if (g >= first && g <= last)
            return (uint64_t)(g - first);
    }
    return search(s, epoch, where);
}

static void stream_deal(const void *state, const stk_share *share, uint32_t row, uint32_t n,
                        uint64_t *position)
{
    const stream *s = state;
    wide first = (wide)share->epoch * s->epoch_size + share->start;
    stk_share inner = *share;

    inner.epoch = (uint64_t)(first / s->len);
    inner.start = (uint64_t)(first % s->len);
    if (share->count > s->len - inner.start) { /* across its end: as they follow */
        stk_share_positions(share, &(stk_order){ 0 }, row, n, position);
        return;
    }
    s->inner.deal(s->inner.state, &inner, row, n, position);
    for (uint32_t i = 0; i < n; i++)
        position[i] += share->start - inner.start;
}

static uint32_t stream_run(const void *state, uint64_t epoch, uint64_t position, uint32_t n)
{
    const stream *s = state;
    wide g = (wide)epoch * s->epoch_size + position;
    uint64_t at = (uint64_t)(g % s->len);

    n = n < s->len - at ? n : (uint32_t)(s->len - at);
    return s->inner.run(s->inner.state, (uint64_t)(g / s->len), at, n);
}

static void stream_close(void *state)
{
    stream *s = state;

    if (s->inner.close)
        s->inner.close(s->inner.state);
    stk_free(s);
}

int stk_order_stream(stk_order *order, stk_order *inner, uint64_t epoch_size, stk_error *err)
{
    stream *s = STK_NEW(stream);

    if (!s) {
        if (inner->close)
            inner->close(inner->state);
        return stk_fail_nomem(err, sizeof *s);
    }
    *s = (stream){ *inner, inner->len(inner->state), epoch_size };
    *order = (stk_order){
        .abi = STK_PLUGIN_ABI,
        .size = sizeof(stk_order),
        .name = inner->name,
        .state = s,
        .len = stream_len,
        .at = stream_at,
        .deal = inner->deal ? stream_deal : NULL,
        .find = inner->find ? stream_find : NULL,
        .close = stream_close,
        .run = inner->run ? stream_run : NULL,
    };
    *inner = (stk_order){ 0 };
    return 0;
}
