/* SPDX-License-Identifier: Apache-2.0 */
/* bin_lengths.c - what one sample counts in the bins of bins.c: by what is known of it, less what
 * an epoch draws. */
#include "order/bins.h"

int stk_bin_is_over(const stk_binning *h, uint64_t id)
{
    return h->kind == STK_BIN_BUDGET &&
           (stk_bin_round(h->length[id], h->multiple) > h->budget ||
            (h->also.length &&
             stk_bin_round(h->also.length[id], h->also.multiple) > h->also.budget));
}

void stk_bin_measure(const stk_binning *h, const stk_bin_place *x, uint32_t length[2],
                     uint32_t *part)
{
    length[0] = h->length[x->id];
    length[1] = h->also.length ? h->also.length[x->id] : 0;
    for (uint32_t k = 0; k < h->parts.n; k++)
        part[k] = h->parts.length[k * h->parts.stride + x->id];
    if (h->drawn.less)
        length[h->also.length != NULL] -= h->drawn.less(h->drawn.cookie, x->epoch, x->position,
                                                        x->id, part);
}

uint32_t stk_bin_tokens(const stk_binning *h, uint64_t number, uint64_t position, uint64_t id)
{
    const stk_bin_place x = { number, position, id };
    uint32_t length[2], part[STK_BIN_PARTS];

    stk_bin_measure(h, &x, length, part);
    return length[h->also.length != NULL];
}

int stk_bin_replaces(const stk_binning *h, const stk_bin_swap *w)
{
    const stk_bin_place one = { w->epoch, w->position, w->id },
                        two = { w->epoch, w->position,
                                stk_bin_is_over(h, w->other) ? h->usual : w->other };
    uint32_t a[2], b[2], a_part[STK_BIN_PARTS], b_part[STK_BIN_PARTS];

    stk_bin_measure(h, &one, a, a_part);
    stk_bin_measure(h, &two, b, b_part);
    if (a[0] > b[0] || a[1] > b[1])
        return 0;
    for (uint32_t k = 0; k < h->parts.n; k++)
        if (a_part[k] > b_part[k])
            return 0;
    return 1;
}
