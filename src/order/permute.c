/* SPDX-License-Identifier: Apache-2.0 */
/* permute.c - a keyed permutation of [0, n): a generalised Feistel network on pairs (l, r) of
 * Z_a x Z_b.
 *
 * A round adds a keyed hash of one half to the other, modulo that half's size, which is
 * invertible for any a and b.  With a = ceil(sqrt n) and b = ceil(n / a) the domain exceeds n by
 * less than a, so a walk back into [0, n) is rare (about 1 in sqrt n).  Nothing is stored.
 *
 * Six rounds; of a few dozen samples halves are so small that six show (300,000 seeds tell n <= 25
 * from chance), so sets up to SMALL take twelve. */
#include <assert.h>
#include <math.h>

#include "base/hash.h"
#include "order/order.h"

#define ROUNDS STK_PERM_FEW
#define SMALL 31

void stk_perm_shape(stk_perm *p, uint64_t n)
{
    p->n = n;
    p->a = (uint64_t)ceil(sqrt((double)n));
    p->a = p->a ? p->a : 1;
    p->b = n ? (n - 1) / p->a + 1 : 1;
    p->rounds = n > SMALL ? ROUNDS : STK_PERM_ROUNDS;
}

void stk_perm_key(stk_perm *p, uint64_t word)
{
    for (int i = 0; i < p->rounds; i++)
        p->key[i] = stk_mix64(word + 0x9E3779B97F4A7C15u * (uint64_t)(i + 1));
}

void stk_perm_init(stk_perm *p, uint64_t n, uint64_t seed, uint64_t epoch)
{
    stk_perm_shape(p, n);
    stk_perm_key(p, stk_mix64(stk_mix64(seed + 0x9E3779B97F4A7C15u) ^
                              stk_mix64(epoch ^ 0xBF58476D1CE4E5B9u)));
}

/* A hash of x under key, scaled to [0, m), m <= 2^32. */
static inline uint64_t scaled(uint64_t x, uint64_t key, uint64_t m)
{
    uint64_t h = (x ^ key) * 0xD6E8FEB86659FD93u;

    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (h >> 32) * m >> 32;
}

static uint64_t encrypt(const stk_perm *p, uint64_t i)
{
    uint64_t l = i / p->b, r = i % p->b;

    for (int k = 0; k < p->rounds; k += 2) {
        l += scaled(r, p->key[k], p->a);
        l -= l >= p->a ? p->a : 0;
        r += scaled(l, p->key[k + 1], p->b);
        r -= r >= p->b ? p->b : 0;
    }
    return l * p->b + r;
}

static uint64_t decrypt(const stk_perm *p, uint64_t i)
{
    uint64_t l = i / p->b, r = i % p->b;

    for (int k = p->rounds - 2; k >= 0; k -= 2) {
        r += p->b - scaled(l, p->key[k + 1], p->b);
        r -= r >= p->b ? p->b : 0;
        l += p->a - scaled(r, p->key[k], p->a);
        l -= l >= p->a ? p->a : 0;
    }
    return l * p->b + r;
}

#define LANES 4

/* Do the next few take so many rounds, all of them? */
static inline int all_take(const stk_perm *p, uint32_t stride, int rounds)
{
    int same = p->rounds == rounds;

    for (uint32_t j = 1; j < LANES && stride; j++)
        same &= p[j].rounds == rounds;
    return same;
}

/* Several at once: a round waits for the one before it, so that independent positions fill the
 * gaps.  p[j * stride] is that of position j; `rounds` is a constant where it is called. */
static inline __attribute__((always_inline)) void run_lanes(const stk_perm *p, uint32_t stride,
                                                            const uint64_t *i, uint64_t *out,
                                                            const int rounds)
{
    uint64_t l[LANES], r[LANES];

    for (uint32_t j = 0; j < LANES; j++) {
        l[j] = i[j] / p[j * stride].b;
        r[j] = i[j] - l[j] * p[j * stride].b;
    }
    for (int k = 0; k < rounds; k += 2) {
        for (uint32_t j = 0; j < LANES; j++) {
            l[j] += scaled(r[j], p[j * stride].key[k], p[j * stride].a);
            l[j] -= l[j] >= p[j * stride].a ? p[j * stride].a : 0;
        }
        for (uint32_t j = 0; j < LANES; j++) {
            r[j] += scaled(l[j], p[j * stride].key[k + 1], p[j * stride].b);
            r[j] -= r[j] >= p[j * stride].b ? p[j * stride].b : 0;
        }
    }
    for (uint32_t j = 0; j < LANES; j++) {
        uint64_t k = l[j] * p[j * stride].b + r[j];

        out[j] = k < p[j * stride].n ? k : stk_perm_at(&p[j * stride], k);
    }
}

static inline void run(const stk_perm *p, uint32_t stride, const uint64_t *i, uint32_t n,
                       uint64_t *out)
{
    uint32_t at = 0;

    for (; at + LANES <= n; at += LANES, p += LANES * stride) {
        if (all_take(p, stride, ROUNDS))
            run_lanes(p, stride, i + at, out + at, ROUNDS);
        else if (all_take(p, stride, STK_PERM_ROUNDS))
            run_lanes(p, stride, i + at, out + at, STK_PERM_ROUNDS);
        else
            for (uint32_t j = 0; j < LANES; j++)
                out[at + j] = stk_perm_at(&p[j * stride], i[at + j]);
    }
    for (; at < n; at++, p += stride)
        out[at] = stk_perm_at(p, i[at]);
}

void stk_perm_run(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out)
{
    run(p, 0, i, n, out);
}

void stk_perm_each(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out)
{
    run(p, 1, i, n, out);
}

uint64_t stk_perm_at(const stk_perm *p, uint64_t i)
{
    assert(p->n && i / p->b < p->a);
    do
        i = encrypt(p, i);
    while (i >= p->n);
    return i;
}

uint64_t stk_perm_inverse(const stk_perm *p, uint64_t k)
{
    assert(k < p->n);
    do /* the walk that at() took, backwards */
        k = decrypt(p, k);
    while (k >= p->n);
    return k;
}
