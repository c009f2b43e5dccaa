/* SPDX-License-Identifier: Apache-2.0 */
/* bin_window.c - see bin_window.h. */
#include "order/bin_window.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

#define RUN 256
#define STREAM 0xA24BAED4963EE407u

typedef stk_bin_window window;
typedef stk_bin_maker maker;
typedef stk_bin_sums sums;

static uint32_t rounded(const stk_binning *h, uint32_t len)
{
    uint64_t n = h->kind == STK_BIN_PACK ? len : stk_bin_round(len, h->multiple);

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void look_at(maker *m, const stk_bin_place *x, uint32_t at, sums *s)
{
    const stk_binning *h = m->how;
    uint32_t length[2];

    stk_bin_measure(h, x, length, &m->part[at * h->parts.n]);
    s->used += length[0];
    m->length[at] = rounded(h, length[0]);
    if (h->also.length)
        m->also[at] = (uint32_t)stk_bin_round(length[1], h->also.multiple);
}

/* Most data: one length, of which one number is looked at. */
static int has_one_length(const stk_binning *h)
{
    return !h->also.length && !h->parts.n && !h->drawn.less;
}

/* Of positions of which none is left out, so that each keeps its place. */
static void look_at_all(const stk_binning *h, maker *m, const uint64_t *ids, uint32_t at,
                        uint32_t k, sums *s)
{
    uint32_t least = h->kind == STK_BIN_PACK ? 0 : 1, *to = m->length + at;
    const uint32_t *lengths = h->length;
    uint64_t used = 0;

    if (least && h->multiple > 1)
        for (uint32_t i = 0; i < k; i++) {
            used += lengths[ids[i]];
            to[i] = rounded(h, lengths[ids[i]]);
        }
    else
        for (uint32_t i = 0; i < k; i++) {
            uint32_t length = lengths[ids[i]];

            used += length;
            to[i] = length > least ? length : least;
        }
    s->used += used;
}

static void keep_places(maker *m, int all)
{
    for (uint32_t i = 0; all && i < m->how->window; i++)
        m->place[i] = i;
    m->moved = !all;
}

/* Lengths of the window's positions, without those that are dropped, and m->place: where each of
 * them stands; answers how many there are. */
static uint32_t look_up(maker *m, uint64_t number, uint64_t w, sums *s)
{
    const stk_binning *h = m->how;
    uint64_t first = w * h->window, left = m->positions - first, position[RUN], ids[RUN];
    uint32_t n = left < h->window ? (uint32_t)left : h->window, placed = 0;
    int one = has_one_length(h), all = one && (h->all_fit || h->kind != STK_BIN_BUDGET);

    assert(first < m->positions); /* no window is empty */
    if (!all || m->moved)
        keep_places(m, all);
    for (uint32_t at = 0, k; at < n; at += k) {
        k = n - at < RUN ? n - at : RUN;
        for (uint32_t i = 0; i < k; i++)
            position[i] = first + at + i;
        h->order->at(h->order->state, number, position, k, m->where);
        for (uint32_t i = 0; i < k; i++) { /* lengths are far apart: they come while ids are made */
            ids[i] = h->start[m->where[i].dataset] + m->where[i].sample;
            __builtin_prefetch(&h->length[ids[i]]);
        }
        if (all)
            look_at_all(h, m, ids, at, k, s);
        for (uint32_t i = 0; i < k && !all; i++) {
            uint64_t id = ids[i];

            if (!h->all_fit && stk_bin_is_over(h, id)) {
                if (h->drops)
                    continue;
                id = h->usual;
            }
            m->place[placed] = at + i;
            if (one) {
                s->used += h->length[id];
                m->length[placed++] = rounded(h, h->length[id]);
            } else {
                look_at(m, &(stk_bin_place){ number, position[i], id }, placed++, s);
            }
        }
    }
    return all ? n : placed;
}

/* Rows of similar first length, an eighth of an octave, are sorted by their second one. */
static uint32_t similar(uint32_t len, uint32_t also)
{
    uint32_t top = 31 - (uint32_t)__builtin_clz(len),
             eighth = (uint32_t)((uint64_t)len << 3 >> top);
    uint32_t most = ((uint32_t)1 << 24) - 1;

    return (top * 8 + eighth - 8) << 24 | (also < most ? also : most);
}

/* m->key: positions, the longest first, those of equal length as they come; joined: all as they
 * come. */
static void sort(const stk_binning *h, maker *m, uint32_t n)
{
    int one = !h->also.length && !h->parts.n;

    for (uint32_t i = 0; one && i < n; i++)
        m->key[i] = (uint64_t)~m->length[i] << 32 | i;
    for (uint32_t i = 0; !one && i < n; i++) {
        uint32_t by = h->also.length ? similar(m->length[i], m->also[i])
                                     : similar(m->length[i], m->part[i * h->parts.n]);

        m->key[i] = (uint64_t)~by << 32 | i;
    }
    if (h->joined)
        return;
    for (int shift = 32; shift < 64; shift += 8) {
        uint32_t at[257] = { 0 };
        uint64_t *swap;

        for (uint32_t i = 0; i < n; i++)
            at[(m->key[i] >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++)
            at[k + 1] += at[k];
        for (uint32_t i = 0; i < n; i++)
            m->other[at[m->key[i] >> shift & 255]++] = m->key[i];
        swap = m->key;
        m->key = m->other;
        m->other = swap;
    }
}

static stk_perm shuffled(const stk_binning *h, uint64_t number, uint64_t w, uint64_t n)
{
    stk_perm p = { 0 };

    if (h->shuffle && n > 1)
        stk_perm_init(&p, n, stk_mix64(h->seed ^ STREAM) + w, number);
    return p;
}

static uint32_t place(const stk_perm *p, uint32_t i)
{
    return p->n && i < p->n ? (uint32_t)stk_perm_at(p, i) : i;
}

/* ---- packed rows ---- */

uint64_t *stk_bin_window_whole(const stk_binning *h, window *t)
{
    size_t at = (2 * (size_t)h->window + 2) / 2 * 2; /* of two: aligned */

    return (uint64_t *)(void *)(t->at + at);
}

/* Whole blocks are rows; m->length and m->from: what is left. */
static uint32_t take_rests(const stk_binning *h, maker *m, uint32_t n)
{
    uint32_t rests = 0;

    m->whole[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rest = m->length[i] % h->block;

        m->whole[i + 1] = m->whole[i] + m->length[i] / h->block;
        if (!rest)
            continue;
        m->length[rests] = rest;
        m->from[rests++] = i;
    }
    return rests;
}

static void make_packed(maker *m, uint32_t n, window *out)
{
    uint32_t *where = out->at + m->how->window + 1, at = 0, rests = take_rests(m->how, m, n);

    out->packed = stk_packer_run(m->packer, m->length, rests, m->row);
    out->bins = out->packed + m->whole[n];
    memset(m->next, 0, out->packed * sizeof *m->next);
    for (uint32_t i = 0; i < rests; i++)
        m->next[m->row[i]]++;
    for (uint32_t r = 0; r < out->packed; r++) {
        uint32_t count = m->next[r];

        out->at[r] = m->next[r] = at;
        at += count;
    }
    assert(at == rests); /* every rest is in one row */
    out->at[out->packed] = rests;
    for (uint32_t i = 0; i < rests; i++)
        where[m->next[m->row[i]]++] = m->from[i];
    memcpy(stk_bin_window_whole(m->how, out), m->whole, ((size_t)n + 1) * sizeof *m->whole);
}

/* ---- batches within a budget ---- */

typedef struct filling { /* of a batch with rows that are padded, or joined */
    uint64_t rows, length, also, part[STK_BIN_PARTS];
} filling;

static void put_length(uint64_t *so_far, uint32_t length, int joined)
{
    if (joined)
        *so_far += length;
    else
        *so_far = length > *so_far ? length : *so_far;
}

/* One more row. */
static void put_row(const stk_binning *h, const maker *m, filling *f, uint32_t i)
{
    uint32_t at = (uint32_t)m->key[i];

    f->rows++;
    put_length(&f->length, m->length[at], h->joined);
    if (h->also.length)
        put_length(&f->also, m->also[at], h->joined);
    for (uint32_t k = 0; k < h->parts.n; k++)
        put_length(&f->part[k], m->part[at * h->parts.n + k], h->parts.joined >> k & 1);
}

/* What the tensors of all parts have. */
static uint64_t of_parts(const stk_binning *h, const filling *f)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < h->parts.n; k++)
        sum += f->part[k] * (h->parts.joined >> k & 1 ? 1 : f->rows);
    return sum;
}

/* What a batch takes up of its first budget. */
static uint64_t taken(const stk_binning *h, const filling *f)
{
    return h->parts.n && !h->also.length ? of_parts(h, f) : f->length * (h->joined ? 1 : f->rows);
}

static int in_budget(const stk_binning *h, const filling *f)
{
    uint64_t also = h->parts.n ? of_parts(h, f) : f->also * (h->joined ? 1 : f->rows);

    return taken(h, f) <= h->budget && (!h->also.length || also <= h->also.budget);
}

/* fits() where rows have one length.  Those that are padded come the longest first. */
static uint32_t fits_by_one(const stk_binning *h, const maker *m, uint32_t at, uint32_t n)
{
    uint64_t length = m->length[(uint32_t)m->key[at]];
    uint32_t rows = 1, most = n - at < h->rows ? n - at : h->rows;

    if (!h->joined)
        return length * most <= h->budget ? most
               : length > h->budget       ? 1
                                          : (uint32_t)(h->budget / length);
    for (; rows < most; rows++) {
        length += m->length[(uint32_t)m->key[at + rows]];
        if (length > h->budget)
            break;
    }
    return rows;
}

/* Rows from number `at` on that fit into one batch; at least one. */
static uint32_t fits(const stk_binning *h, const maker *m, uint32_t at, uint32_t n)
{
    filling f = { 0 };
    uint32_t rows = 1;

    put_row(h, m, &f, at);
    for (; at + rows < n && rows < h->rows; rows++) {
        put_row(h, m, &f, at + rows);
        if (!in_budget(h, &f))
            break;
    }
    return rows;
}

/* Rows that are joined: m->key batch by batch, each as they come, in as few batches as the
 * packer finds; m->row: how many each has. */
static uint32_t fill_joined(const stk_binning *h, maker *m, uint32_t n)
{
    uint32_t packed = stk_packer_run(m->packer, m->length, n, m->row), bins = 0, at = 0;
    uint64_t *swap = m->key;

    memset(m->next, 0, n * sizeof *m->next);
    for (uint32_t i = 0; i < n; i++)
        m->next[m->row[i]]++;
    for (uint32_t b = 0; b < packed; b++) { /* where each begins */
        uint32_t count = m->next[b];

        m->next[b] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++)
        m->other[m->next[m->row[i]]++] = m->key[i];
    m->key = m->other;
    m->other = swap;
    for (uint32_t b = 0, from = 0; b < packed; from = m->next[b++])
        for (uint32_t left = m->next[b] - from; left; left -= m->row[bins++])
            m->row[bins] = left < h->rows ? left : h->rows;
    return bins;
}

/* m->row: how many rows each batch has, the longest first.  More are made, out of those that have
 * the most rows, until they are a multiple of a group. */
static uint32_t cut(const stk_binning *h, maker *m, uint32_t n)
{
    uint32_t bins = 0, more, split = 1;

    if (m->packer)
        bins = fill_joined(h, m, n);
    for (uint32_t at = 0; !m->packer && at < n; at += m->row[bins++])
        m->row[bins] = has_one_length(h) ? fits_by_one(h, m, at, n) : fits(h, m, at, n);
    more = (h->group - bins % h->group) % h->group;
    more = more < n - bins ? more : n - bins;
    while (more && split) { /* from the end, to a later place */
        uint32_t from = bins, extra = 0, to;

        for (uint32_t i = bins; i-- > 0;)
            extra += extra < more && m->row[i] > 1;
        split = extra;
        more -= extra;
        to = bins += extra;
        while (from-- > 0) {
            uint32_t rows = m->row[from];

            if (extra && rows > 1) {
                m->next[--to] = rows / 2;
                rows -= rows / 2;
                extra--;
            }
            m->next[--to] = rows;
        }
        memcpy(m->row, m->next, bins * sizeof *m->row);
    }
    assert(bins <= n); /* none is empty */
    return bins;
}

static uint64_t padded(const stk_binning *h, const maker *m, uint32_t bins)
{
    uint64_t sum = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < bins; i++) {
        filling f = { 0 };

        for (uint32_t end = at + m->row[i]; at < end; at++)
            put_row(h, m, &f, at);
        sum += taken(h, &f);
    }
    return sum;
}

/* padded() where rows have one length: the longest comes first. */
static uint64_t padded_by_one(const stk_binning *h, const maker *m, uint32_t bins)
{
    uint64_t sum = 0;
    uint32_t at = 0;

    assert(!h->joined);
    for (uint32_t i = 0; i < bins; at += m->row[i++])
        sum += (uint64_t)m->length[(uint32_t)m->key[at]] * m->row[i];
    return sum;
}

/* Groups that are full change places; bins of one stay together. */
static void make_batches(maker *m, uint32_t n, uint64_t epoch_number, uint64_t w, window *out)
{
    const stk_binning *h = m->how;
    uint32_t *where = out->at + h->window + 1, at = 0, bin = 0, bins = (uint32_t)out->bins;
    stk_perm perm = shuffled(h, epoch_number, w, bins / h->group);

    m->next[0] = 0; /* where the batches begin in m->key; n fit: there are no more than positions */
    for (uint32_t i = 1; i < bins; i++)
        m->next[i] = m->next[i - 1] + m->row[i - 1];
    for (uint32_t g = 0; bin < bins; g++)
        for (uint32_t k = 0; k < h->group && bin < bins; k++) {
            uint32_t from = place(&perm, g) * h->group + k;

            out->at[bin++] = at;
            for (uint32_t i = 0; i < m->row[from]; i++)
                where[at++] = m->place[(uint32_t)m->key[m->next[from] + i]];
        }
    assert(at == n); /* every one stands in one batch */
    out->at[bins] = n;
}

/* ---- runs of like length ---- */

static void make_runs(maker *m, uint32_t n, const stk_perm *perm, window *out)
{
    uint32_t *where = out->at + m->how->window + 1, rows = m->how->rows;

    for (uint32_t i = 0; i < n; i++) {
        where[i] = (uint32_t)m->key[place(perm, i / rows) * rows + i % rows];
        out->at[i] = i;
    }
    out->at[n] = n;
}

/* ---- windows and epochs ---- */

void stk_bin_window_make(maker *m, uint64_t e, uint64_t w, window *out, sums *s)
{
    const stk_binning *h = m->how;
    uint32_t n = look_up(m, e, w, s);
    stk_perm perm;

    if (h->kind == STK_BIN_PACK) {
        make_packed(m, n, out);
        s->room += out->bins * h->block;
        out->perm = shuffled(h, e, w, out->bins);
        return;
    }
    sort(h, m, n);
    if (h->kind == STK_BIN_BUDGET) {
        out->bins = cut(h, m, n);
        s->room += h->joined           ? out->bins * h->budget
                   : has_one_length(h) ? padded_by_one(h, m, (uint32_t)out->bins)
                                       : padded(h, m, (uint32_t)out->bins);
        make_batches(m, n, e, w, out);
        return;
    }
    out->bins = n;
    perm = shuffled(h, e, w, n / h->rows);
    make_runs(m, n, &perm, out);
}

/* ---- what makes them ---- */

size_t stk_bin_window_bytes(const stk_binning *h)
{
    size_t n = h->window;

    return sizeof(window) + (2 * n + 2) * sizeof(uint32_t) +
           (h->kind == STK_BIN_PACK ? (n + 1) * sizeof(uint64_t) : 0);
}

/* Joined rows of one length each: the budget is a row that they are packed into. */
static int is_fitted(const stk_binning *h)
{
    return h->kind == STK_BIN_BUDGET && h->joined && !h->also.length && h->budget <= STK_MAX_PACKED;
}

int stk_bin_maker_init(maker *m, const stk_binning *h, uint64_t positions, stk_error *err)
{
    size_t n = h->window;

    m->how = h;
    m->positions = positions;
    m->length = stk_zalloc(n, sizeof *m->length);
    m->also = stk_zalloc(n, sizeof *m->also);
    m->part = stk_zalloc(n * h->parts.n + 1, sizeof *m->part);
    m->place = stk_zalloc(n, sizeof *m->place);
    m->moved = 1;
    m->row = stk_zalloc(n, sizeof *m->row);
    m->next = stk_zalloc(n, sizeof *m->next);
    m->key = stk_zalloc(n, sizeof *m->key);
    m->other = stk_zalloc(n, sizeof *m->other);
    m->where = stk_zalloc(RUN, sizeof *m->where);
    m->from = stk_zalloc(n, sizeof *m->from);
    m->whole = stk_zalloc(n + 1, sizeof *m->whole);
    m->out = stk_alloc(stk_bin_window_bytes(h));
    if (!m->length || !m->also || !m->part || !m->place || !m->row || !m->next || !m->from ||
        !m->whole || !m->key || !m->other || !m->where || !m->out)
        return stk_fail_nomem(err, n * sizeof *m->key);
    if (h->kind == STK_BIN_PACK)
        return stk_packer_open(&m->packer, h->fit, h->block, h->window, err);
    return is_fitted(h)
               ? stk_packer_open(&m->packer, STK_FIT_EVEN, (uint32_t)h->budget, h->window, err)
               : 0;
}

void stk_bin_maker_fini(maker *m)
{
    stk_packer_close(&m->packer);
    stk_free(m->length);
    stk_free(m->also);
    stk_free(m->part);
    stk_free(m->place);
    stk_free(m->row);
    stk_free(m->next);
    stk_free(m->from);
    stk_free(m->whole);
    stk_free(m->key);
    stk_free(m->other);
    stk_free(m->where);
    stk_free(m->out);
}
