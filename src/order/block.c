/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - an order for shards that are far away: reads follow the shards, batches are mixed.
 *
 * The shards, in an order that depends on the seed alone, are one sequence of n samples, cut into V
 * streams of n / V samples each or one more.  Position p takes sample p / V of stream
 * bitreverse(p mod V): any run of positions is spread evenly over the streams, and the streams that
 * are one longer are those that the last, short round meets.  In an epoch a stream begins at a
 * shard drawn for it, goes round one way or the other, and is permuted in windows.  So a shard
 * belongs to one stream (at a cut to two or more neighbours), the same in every epoch and for any
 * number of ranks.
 *
 * Ranks take runs of a global batch sorted by stream.  The top bits of a stream are the low bits of
 * its positions, so the j-th item of such a list is found bit by bit: how many positions of a run
 * are c modulo a power of two is arithmetic. */
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define LANES 8

typedef struct run { /* a shard in its place in the sequence */
    uint64_t at;     /* its first sample there */
    uint64_t number; /* in the sample set */
} run;

typedef struct stream {
    uint64_t start; /* in the sequence */
    uint64_t first; /* the run in which that is, of all passes */
    uint64_t inner; /* how many more begin before the stream ends */
} stream;

typedef struct block {
    const stk_sample_set *set;
    uint64_t seed, n, n_runs;
    uint64_t passes, pass; /* how often the runs come; samples of one pass */
    uint64_t window;       /* of one stream */
    unsigned bits;         /* V = 2^bits */
    int forward;           /* windows are not permuted, and streams go forward */
    stk_perm full;         /* the shape of a whole window */
    stk_perm shards;       /* which shard is run i */
    run *run;              /* n_runs, and one that begins after the last sample */
    stream *stream;        /* V, and one after the last */
    uint64_t *first;       /* of shard i: its first number */
} block;

/* ---- streams ---- */

static uint32_t reversed(const block *x, uint32_t v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0F0F0F0Fu) | (v & 0x0F0F0F0Fu) << 4;
    v = __builtin_bswap32(v);
    return x->bits ? v >> (32 - x->bits) : 0;
}

static uint64_t epoch_key(const block *x, uint64_t epoch)
{
    return stk_mix64(stk_mix64(x->seed ^ 0xA0761D6478BD642Fu) + epoch);
}

static uint64_t stream_key(uint64_t epoch, uint32_t s)
{
    return stk_mix64(epoch ^ (uint64_t)(s + 1) * 0x9E3779B97F4A7C15u);
}

/* Where run i of all passes begins. */
static uint64_t run_start(const block *x, uint64_t i)
{
    return x->passes == 1 ? x->run[i].at : i / x->n_runs * x->pass + x->run[i % x->n_runs].at;
}

/* How a stream goes round in an epoch: from a shard's begin on, or from there backwards, so that
 * epochs differ in streams of few shards too.  One that is in a single shard begins anywhere, as
 * that is open all the time.  */
typedef struct turn {
    uint64_t from, len;
    int back;
} turn;

static turn turn_of(const block *x, uint64_t key, const stream *m)
{
    uint64_t len = m[1].start - m->start, h = stk_mix64(key), of = m->inner ? m->inner + 1 : len,
             j = (uint64_t)((unsigned __int128)h * of >> 64);

    if (m->inner) /* what it begins in began before it */
        j = j ? run_start(x, m->first + j) - m->start : 0;
    return (turn){ j, len, (int)(h & 1) && !x->forward };
}

static uint64_t wrapped(uint64_t u, uint64_t len)
{
    return u < len ? u : u - len;
}

static uint64_t sample_of(const turn *r, uint64_t t)
{
    return wrapped(r->back ? r->from + r->len - 1 - t : r->from + t, r->len);
}

static uint64_t place_of(const turn *r, uint64_t u)
{
    return wrapped(r->back ? r->from + r->len - 1 - u : u + r->len - r->from, r->len);
}

/* The permutation of the window that begins at `from`.  Few rounds also where it is tiny: what
 * makes batches differ is which streams and windows meet, and an index has to cost little. */
static void window_perm(const block *x, uint64_t key, uint64_t from, uint64_t len, stk_perm *out)
{
    if (len - from < x->window)
        stk_perm_shape(out, len - from);
    else
        memcpy(out, &x->full, offsetof(stk_perm, key));
    out->rounds = STK_PERM_FEW;
    stk_perm_key(out, key + from + 1);
}

/* ---- what stands where ---- */

/* A division that is short where it can be. */
static uint64_t modulo(uint64_t t, uint64_t n)
{
    return (t | n) >> 32 ? t % n : (uint32_t)t % (uint32_t)n;
}

typedef struct lane { /* a position on its way */
    const stream *m;
    uint64_t key, from; /* of its stream; of its window */
} lane;

/* The stream of position p, the permutation of its window, and its place in that. */
static uint64_t enter(const block *x, uint64_t epoch, uint64_t p, lane *l, stk_perm *perm)
{
    uint32_t s = reversed(x, (uint32_t)(p & ((1u << x->bits) - 1)));
    uint64_t t = p >> x->bits, in = modulo(t, x->window);

    l->m = &x->stream[s];
    l->key = stream_key(epoch, s);
    l->from = t - in;
    window_perm(x, l->key, l->from, l->m[1].start - l->m->start, perm);
    return in;
}

/* Where in the sequence that is, once it is permuted. */
static uint64_t leave(const block *x, const lane *l, uint64_t in)
{
    turn r = turn_of(x, l->key, l->m);

    return l->m->start + sample_of(&r, l->from + in);
}

/* The number of what is at q, in a stream: without a branch that hangs on q. */
static uint64_t number_at(const block *x, const stream *m, uint64_t q)
{
    uint64_t before = x->passes == 1 ? 0 : q / x->pass * x->pass;
    const run *r = x->passes == 1 ? &x->run[m->first] : x->run;

    q -= before;
    for (uint64_t n = x->passes > 1 ? x->n_runs : m->inner + 1; n > 1;) {
        uint64_t half = n / 2; /* r->at <= q < r[n].at */

        r += r[half].at <= q ? half : 0;
        n -= half;
    }
    return before + r->number + (q - r->at);
}

static uint64_t block_len(const void *state)
{
    return ((const block *)state)->n;
}

static void block_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                     stk_where *out)
{
    const block *x = state;
    uint64_t key = epoch_key(x, epoch), in[LANES];
    stk_perm perm[LANES];
    lane l[LANES];

    for (uint32_t i = 0; i < n; i += LANES) { /* they don't wait for each other */
        uint32_t lanes = n - i < LANES ? n - i : LANES;

        for (uint32_t k = 0; k < lanes; k++)
            in[k] = enter(x, key, position[i + k], &l[k], &perm[k]);
        stk_perm_each(perm, in, lanes, in);
        for (uint32_t k = 0; k < lanes; k++)
            in[k] = leave(x, &l[k], in[k]);
        for (uint32_t k = 0; k < lanes; k++)
            stk_sample_set_at(x->set, number_at(x, l[k].m, in[k]), &out[i + k]);
    }
}

/* The last entry of at[0], at[stride], ... (ascending, the first 0) that is not above `v`. */
static uint64_t last_below(const void *at, size_t stride, uint64_t n, uint64_t v)
{
    uint64_t lo = 0, hi = n;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (*(const uint64_t *)((const char *)at + mid * stride) <= v)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t block_find(const void *state, uint64_t epoch, const stk_where *where)
{
    const block *x = state;
    uint64_t number = stk_sample_set_find(x->set, where), key, shard, q, t, from, in;
    stk_perm perm;
    uint32_t s;
    turn r;

    if (number == UINT64_MAX)
        return number;
    in = number % x->pass;
    shard = last_below(x->first, sizeof *x->first, x->n_runs, in);
    q = number - in + x->run[stk_perm_inverse(&x->shards, shard)].at + in - x->first[shard];
    s = (uint32_t)last_below(&x->stream->start, sizeof *x->stream, (uint64_t)1 << x->bits, q);
    key = stream_key(epoch_key(x, epoch), s);
    r = turn_of(x, key, &x->stream[s]);
    t = place_of(&r, q - x->stream[s].start);
    from = t - t % x->window;
    window_perm(x, key, from, r.len, &perm);
    t = from + stk_perm_inverse(&perm, t - from);
    return t << x->bits | reversed(x, s);
}

/* ---- dealing ---- */

/* How many of start .. start + count - 1 are c modulo 2^bits. */
static uint64_t alike(const stk_share *batch, uint64_t c, unsigned bits)
{
    uint64_t off = (c - batch->start) & (((uint64_t)1 << bits) - 1);

    return off < batch->count ? ((batch->count - 1 - off) >> bits) + 1 : 0;
}

/* Item j of a global batch as it is dealt: how far after its start. */
static uint64_t item_at(const block *x, const stk_share *batch, uint64_t j)
{
    uint64_t mask = ((uint64_t)1 << x->bits) - 1, each = batch->count >> x->bits, c = 0;

    assert(j < batch->count);
    if (!(batch->count & mask)) { /* as many of each stream */
        c = reversed(x, (uint32_t)(each == 1 ? j : j / each));
        j = each == 1 ? 0 : j % each;
    } else {
        for (unsigned b = 0; b < x->bits; b++) { /* c: the low b bits of its position */
            uint64_t low = alike(batch, c, b + 1), high = j >= low;

            j -= high ? low : 0;
            c |= high << b;
        }
    }
    return ((c - batch->start) & mask) + (j << x->bits);
}

/* Forward: items of a stream follow each other as they are dealt.  Rows take every `each`-th of
 * them, then the ones after those, so that a row of a stream comes long after the one before it. */
static uint32_t apart(const block *x, const stk_share *share, uint32_t row)
{
    uint64_t of_stream = ((share->count - 1) >> x->bits) + 1;
    uint32_t each = (uint32_t)(of_stream / share->stride), groups, full;

    if (each < 2 || each >= share->rows)
        return row;
    groups = (share->rows - 1) / each + 1;
    full = share->rows - (groups - 1) * each; /* so many of them have a member in every group */
    if (row < full * groups)
        return row % groups * each + row / groups;
    row -= full * groups;
    return row % (groups - 1) * each + full + row / (groups - 1);
}

static void block_deal(const void *state, const stk_share *share, uint32_t row, uint32_t n,
                       uint64_t *position)
{
    const block *x = state;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = x->forward ? apart(x, share, row + i) : row + i;

        position[i] = share->start + item_at(x, share, share->item + at * share->stride);
    }
}

/* ---- open and close ---- */

static void block_close(void *state)
{
    block *x = state;

    if (!x)
        return;
    stk_free(x->run);
    stk_free(x->stream);
    stk_free(x->first);
    stk_free(x);
}

static int check_plan(const stk_block_plan *p, uint64_t all, stk_error *err)
{
    uint64_t passes = p->passes ? p->passes : 1, n = all / passes;
    uint32_t below = p->streams;

    while (below & (below - 1))
        below &= below - 1;
    if (!p->streams || p->streams != below || p->streams > STK_BLOCK_STREAMS)
        return stk_fail(err, STK_EINVAL,
                        "streams is a power of two up to %d, not %" PRIu32 ": take %" PRIu32
                        " or %" PRIu32,
                        STK_BLOCK_STREAMS, p->streams,
                        below < STK_BLOCK_STREAMS ? (below ? below : 1) : STK_BLOCK_STREAMS / 2,
                        below < STK_BLOCK_STREAMS ? (below ? below * 2 : 2) : STK_BLOCK_STREAMS);
    if (!p->n_shards != !n || p->n_shards > UINT32_MAX || (n && p->shards[0]) || all % passes)
        return stk_fail(err, STK_EINVAL, "the list of shards is not of these samples");
    for (uint64_t i = 1; i < p->n_shards; i++)
        if (p->shards[i] <= p->shards[i - 1] || p->shards[i] >= n)
            return stk_fail(err, STK_EINVAL, "the list of shards is not in order at %" PRIu64, i);
    return 0;
}

static void plan_runs(block *x)
{
    uint64_t at = 0;

    stk_perm_init(&x->shards, x->n_runs, x->seed, UINT64_MAX);
    for (uint64_t i = 0; i < x->n_runs; i++) {
        uint64_t k = stk_perm_at(&x->shards, i);

        x->run[i] = (run){ at, x->first[k] };
        at += (k + 1 < x->n_runs ? x->first[k + 1] : x->pass) - x->first[k];
    }
    assert(at == x->pass); /* the runs are all of its shards */
    x->run[x->n_runs] = (run){ at, 0 };
}

/* The run in which this place of the sequence is; after the end the last one. */
static uint64_t run_of(const block *x, uint64_t at)
{
    at = at < x->n ? at : x->n - 1;
    return at / x->pass * x->n_runs +
           last_below(&x->run->at, sizeof *x->run, x->n_runs, at % x->pass);
}

static void plan_streams(block *x)
{
    uint32_t n = 1u << x->bits;
    uint64_t start = 0, each = x->n >> x->bits, extra = x->n & (n - 1);

    for (uint32_t s = 0; s <= n; s++) {
        x->stream[s] = (stream){ .start = start, .first = x->n ? run_of(x, start) : 0 };
        start += each + (s < n && reversed(x, s) < extra);
    }
    assert(x->stream[n].start == x->n); /* streams are all of the sequence */
    for (uint32_t s = 0; s < n; s++) {
        const stream *m = &x->stream[s];
        uint64_t last = m[1].first; /* the run in which the next begins, or it ends there */

        last -= last > m->first && run_start(x, last) == m[1].start;
        x->stream[s].inner = last - m->first;
    }
}

int stk_order_block(stk_order *order, const stk_sample_set *set, const stk_block_plan *plan,
                    stk_error *err)
{
    uint64_t n = stk_sample_set_len(set);
    block *x;

    STK_TRY(check_plan(plan, n, err));
    x = STK_NEW(block);
    if (!x)
        return stk_fail_nomem(err, sizeof *x);
    *x = (block){ .set = set, .seed = plan->seed, .n = n, .n_runs = plan->n_shards };
    x->passes = plan->passes ? plan->passes : 1;
    x->pass = n / x->passes;
    x->bits = (unsigned)__builtin_ctz(plan->streams);
    x->forward = plan->forward;
    x->window = plan->window >> x->bits && !x->forward ? plan->window >> x->bits : 1;
    stk_perm_shape(&x->full, x->window);
    x->run = stk_zalloc(x->n_runs + 1, sizeof *x->run);
    x->first = stk_zalloc(x->n_runs + 1, sizeof *x->first);
    x->stream = stk_zalloc((size_t)plan->streams + 1, sizeof *x->stream);
    if (!x->run || !x->first || !x->stream) {
        block_close(x);
        return stk_fail_nomem(err, (plan->n_shards + 1) * sizeof(run));
    }
    if (x->n_runs)
        memcpy(x->first, plan->shards, x->n_runs * sizeof *x->first);
    plan_runs(x);
    plan_streams(x);
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "block",
                          .state = x,
                          .len = block_len,
                          .at = block_at,
                          .deal = block_deal,
                          .find = block_find,
                          .close = block_close };
    return 0;
}

uint32_t stk_block_streams(uint64_t global, uint64_t samples)
{
    uint32_t n = 256;

    while (n < global && n < 16384)
        n *= 2;
    while (n > samples && n > 1)
        n /= 2;
    return n;
}
