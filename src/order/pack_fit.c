/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fit.c - first-fit, best-fit by falling length, and rows that are about equally full.
 *
 * Best-fit: rows with equal room are alike, so rows are kept in lists by their room, and two levels
 * of bits say which lists have any: the next row is found in a few steps whatever the block is.
 * Lengths are sorted by counting.  First-fit: a tree over the rows has the most room of each half,
 * so that the first row with enough of it is found in as many steps as the tree is high.
 * Both are the textbook's, and both give the same rows on every machine. */
#include "order/pack_fit.h"

#include <assert.h>
#include <string.h>

#define NONE UINT32_MAX

struct stk_packer {
    stk_fit fit;
    uint32_t block, most;
    uint32_t *head;  /* best: [block + 1] by room: the first row, then `next`; also sorts lengths */
    uint32_t *next;  /* best: [most]; while sorting: lengths that are equal */
    uint32_t *order; /* best: [most] lengths, the longest first; afterwards new row numbers */
    uint64_t *some, *group; /* best: which of `head` are not empty; which words of `some` */
    uint32_t *room;         /* first: a tree; leaves from `leaves` on, one a row */
    uint32_t leaves;
};

static size_t words(uint32_t block)
{
    return block / 64 + 1;
}

int stk_packer_open(stk_packer **out, stk_fit fit, uint32_t block, uint32_t most, stk_error *err)
{
    stk_packer *p = STK_NEW(stk_packer);
    int ok;

    *out = p;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->fit = fit;
    p->block = block;
    p->most = most;
    for (p->leaves = 1; p->leaves < most; p->leaves *= 2) {}
    p->order = stk_zalloc((size_t)most + 1, sizeof *p->order);
    ok = p->order != NULL;
    if (fit == STK_FIT_FIRST) {
        p->room = stk_zalloc((size_t)p->leaves * 2, sizeof *p->room);
        ok = ok && p->room;
    } else {
        p->head = stk_zalloc((size_t)block + 1, sizeof *p->head);
        p->next = stk_zalloc((size_t)most + 1, sizeof *p->next);
        p->some = stk_zalloc(words(block), sizeof *p->some);
        p->group = stk_zalloc(words(block) / 64 + 1, sizeof *p->group);
        ok = ok && p->head && p->next && p->some && p->group;
    }
    if (ok)
        return 0;
    stk_packer_close(out);
    return stk_fail_nomem(err, ((size_t)block + most) * sizeof *p->order);
}

void stk_packer_close(stk_packer **pp)
{
    stk_packer *p = *pp;

    *pp = NULL;
    if (!p)
        return;
    stk_free(p->head);
    stk_free(p->next);
    stk_free(p->order);
    stk_free(p->some);
    stk_free(p->group);
    stk_free(p->room);
    stk_free(p);
}

/* ---- best-fit ---- */

/* Lengths by counting, the longest first, equal ones as they come. */
static void sort(stk_packer *p, const uint32_t *length, uint32_t n)
{
    uint32_t at = 0;

    memset(p->head, 0xff, ((size_t)p->block + 1) * sizeof *p->head);
    for (uint32_t i = n; i-- > 0;) {
        p->next[i] = p->head[length[i]];
        p->head[length[i]] = i;
    }
    for (uint32_t size = p->block; size > 0; size--)
        for (uint32_t i = p->head[size]; i != NONE; i = p->next[i])
            p->order[at++] = i;
}

static void push(stk_packer *p, uint32_t row, uint32_t room)
{
    assert(room <= p->block && row < p->most);
    p->next[row] = p->head[room];
    p->head[room] = row;
    p->some[room / 64] |= (uint64_t)1 << room % 64;
    p->group[room / 4096] |= (uint64_t)1 << room / 64 % 64;
}

static uint32_t pop(stk_packer *p, uint32_t room)
{
    uint32_t row = p->head[room];

    assert(row != NONE); /* `some` says that there is one */
    p->head[room] = p->next[row];
    if (p->head[room] == NONE) {
        p->some[room / 64] &= ~((uint64_t)1 << room % 64);
        if (!p->some[room / 64])
            p->group[room / 4096] &= ~((uint64_t)1 << room / 64 % 64);
    }
    return row;
}

/* The least room of at least `want` that a row has; NONE: none has. */
static uint32_t least_room(const stk_packer *p, uint32_t want)
{
    uint64_t bits = p->some[want / 64] >> want % 64;
    uint32_t word = want / 64 + 1, n = (uint32_t)words(p->block);

    if (bits)
        return want + (uint32_t)__builtin_ctzll(bits);
    for (uint32_t g = word / 64; g <= n / 64; g++) {
        bits = p->group[g];
        if (g == word / 64)
            bits = bits >> word % 64 << word % 64;
        if (bits) {
            word = g * 64 + (uint32_t)__builtin_ctzll(bits);
            return word * 64 + (uint32_t)__builtin_ctzll(p->some[word]);
        }
    }
    return NONE;
}

/* No row has room: there is none. */
static void forget_rows(stk_packer *p)
{
    memset(p->head, 0xff, ((size_t)p->block + 1) * sizeof *p->head);
    memset(p->some, 0, words(p->block) * sizeof *p->some);
    memset(p->group, 0, (words(p->block) / 64 + 1) * sizeof *p->group);
}

static uint32_t best(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row)
{
    uint32_t rows = 0;

    sort(p, length, n);
    forget_rows(p);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = p->order[k], room = least_room(p, length[i]);

        row[i] = room == NONE ? rows++ : pop(p, room);
        room = (room == NONE ? p->block : room) - length[i];
        if (room)
            push(p, row[i], room);
    }
    return rows;
}

/* ---- about equally full ---- */

/* The most room that a row has; 0: none has any. */
static uint32_t most_room(const stk_packer *p)
{
    for (size_t g = words(p->block) / 64 + 1; g-- > 0;)
        if (p->group[g]) {
            size_t word = g * 64 + 63 - (size_t)__builtin_clzll(p->group[g]);

            return (uint32_t)(word * 64 + 63 - (size_t)__builtin_clzll(p->some[word]));
        }
    return 0;
}

typedef struct span {
    uint32_t from, upto;
} span;

/* Lengths number s of p->order, the longest first, into rows number r; 0: not into so few. */
static int even(stk_packer *p, const uint32_t *length, span s, span r, uint32_t *row)
{
    forget_rows(p);
    for (uint32_t i = r.from; i < r.upto; i++)
        push(p, i, p->block);
    for (uint32_t k = s.from; k < s.upto; k++) {
        uint32_t i = p->order[k], room = most_room(p);

        if (room < length[i])
            return 0;
        row[i] = pop(p, room);
        if (room > length[i])
            push(p, row[i], room - length[i]);
    }
    return 1;
}

/* Lengths that are nearly equal: rows have one number of them, or one more, which are the shortest
 * ones.  Of the former there are `longest` in `some` rows. */
typedef struct by_count {
    uint32_t rows, some, longest;
} by_count;

/* Do they fit, as far as their sums say? */
static int sums_fit(const stk_packer *p, const uint32_t *length, uint32_t n, uint32_t rows,
                    by_count *c)
{
    uint32_t some = rows - n % rows, longest = some * (n / rows);
    uint64_t sum[2] = { 0, 0 };

    for (uint32_t k = 0; k < n; k++)
        sum[k >= longest] += length[p->order[k]];
    *c = (by_count){ rows, some, longest };
    return sum[0] <= (uint64_t)some * p->block && sum[1] <= (uint64_t)(rows - some) * p->block;
}

#define TRIES 4u /* more rows than the fewest hardly ever help */

/* Fewer than `upto` rows, at least `from`; 0: not found. */
static uint32_t fewest_by_count(stk_packer *p, const uint32_t *length, uint32_t n, span r,
                                uint32_t *row)
{
    uint32_t upto = r.upto;
    by_count c;

    while (r.from <
           upto) { /* the least whose sums fit, and if they ever do not again, one of them */
        uint32_t mid = r.from + (upto - r.from) / 2;

        if (sums_fit(p, length, n, mid, &c))
            upto = mid;
        else
            r.from = mid + 1;
    }
    for (uint32_t few = upto; few < r.upto && few < upto + TRIES; few++)
        if (sums_fit(p, length, n, few, &c) &&
            even(p, length, (span){ 0, c.longest }, (span){ 0, c.some }, row) &&
            even(p, length, (span){ c.longest, n }, (span){ c.some, few }, row))
            return few;
    return 0;
}

static uint32_t fewest(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row)
{
    uint32_t rows = best(p, length, n, row), least, few, found;
    span all = { 0, n };
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += length[i];
    least = (uint32_t)((sum + p->block - 1) / p->block);
    for (few = least; few < rows && few < least + TRIES; few++)
        if (even(p, length, all, (span){ 0, few }, row))
            break;
    if (few == least)
        return few; /* also where best() has no more */
    if (few == least + TRIES)
        few = rows;
    found = fewest_by_count(p, length, n, (span){ least, few }, row);
    if (found)
        return found;
    if (few < rows && even(p, length, all, (span){ 0, few }, row))
        return few;
    return best(p, length, n, row);
}

/* ---- first-fit ---- */

static uint32_t first(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row)
{
    uint32_t rows = 0;

    for (uint32_t i = 1; i < 2 * p->leaves; i++)
        p->room[i] = p->block;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 1;

        while (at < p->leaves)
            at = 2 * at + (p->room[2 * at] < length[i]);
        assert(p->room[at] >= length[i]); /* there is a leaf, so a row, for every length */
        p->room[at] -= length[i];
        row[i] = at - p->leaves;
        rows = row[i] >= rows ? row[i] + 1 : rows;
        for (at /= 2; at > 0; at /= 2)
            p->room[at] = p->room[2 * at] > p->room[2 * at + 1] ? p->room[2 * at]
                                                                : p->room[2 * at + 1];
    }
    return rows;
}

uint32_t stk_packer_run(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row)
{
    uint32_t rows, named = 0;

    assert(n <= p->most);
    if (!n)
        return 0;
    rows = (p->fit == STK_FIT_FIRST  ? first
            : p->fit == STK_FIT_EVEN ? fewest
                                     : best)(p, length, n, row);
    memset(p->order, 0xff, rows * sizeof *p->order);
    for (uint32_t i = 0; i < n; i++) {
        if (p->order[row[i]] == NONE)
            p->order[row[i]] = named++;
        row[i] = p->order[row[i]];
    }
    return rows;
}
