/* SPDX-License-Identifier: Apache-2.0 */
/* plan_documents.c - which documents stand side by side in which row: known when the loader is
 * opened.
 *
 * Documents that are longer than a row are cut into pieces.  Pieces are taken as the files have
 * them, in windows of a fixed number, and each window is packed by itself (order/pack_fit.c).  So
 * the rows follow from the files' lengths, the block and the fit alone, and a packed row is a
 * sample like any other: it has a number, every order can place it, all ranks have equal steps, and
 * a position is all there is to a state.  Costs 16 bytes a piece and 8 a row.
 *
 * With repack the samples are the pieces, and windows of the epoch's order are packed
 * (order/bins.c): rows are others in every epoch. */
#include <string.h>

#include "loader/parts.h"
#include "order/pack_fit.h"

#define WINDOW ((uint32_t)1 << 16) /* pieces: enough that what is left over at its end is nothing */

typedef struct packing { /* of one data set */
    stk_packed *out;
    stk_packer *packer;
    stk_document *piece; /* of the window */
    uint32_t *len, *row, *at;
    uint32_t n;
    uint64_t placed; /* in out->doc */
} packing;

static int document(const stk_array *a, uint32_t part, uint64_t d, uint64_t *at, uint64_t *len,
                    stk_error *err)
{
    const stk_megatron *m = a->part[part].docs;
    uint64_t begin = stk_megatron_document(m, d), end = stk_megatron_document(m, d + 1);

    if (end < begin) {
        stk_fail(err, STK_ECORRUPT, "document %" PRIu64 " of the .idx ends before it begins", d);
        stk_error_at(err, a->part[part].name, STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_ECORRUPT;
    }
    *at = a->first[part] + begin;
    *len = end - begin;
    return 0;
}

/* The window's pieces, row by row, in the order of the files within each. */
static void flush(packing *k)
{
    stk_packed *out = k->out;
    uint32_t rows, at = 0;

    if (!out->first) { /* as they are stored: the epoch's order is packed */
        memcpy(out->doc + k->placed, k->piece, k->n * sizeof *k->piece);
        k->placed += k->n;
        out->rows += k->n;
        k->n = 0;
        return;
    }
    rows = stk_packer_run(k->packer, k->len, k->n, k->row);
    memset(k->at, 0, rows * sizeof *k->at);
    for (uint32_t i = 0; i < k->n; i++)
        k->at[k->row[i]]++;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t count = k->at[r];

        k->at[r] = at;
        out->first[out->rows++] = k->placed + at;
        at += count;
    }
    for (uint32_t i = 0; i < k->n; i++)
        out->doc[k->placed + k->at[k->row[i]]++] = k->piece[i];
    k->placed += k->n;
    k->n = 0;
    out->first[out->rows] = k->placed;
}

/* Every piece of every document; without a packer they are only counted. */
static int walk(const stk_array *a, uint64_t block, packing *k, uint64_t *pieces, stk_error *err)
{
    for (uint32_t part = 0; part < a->n_parts; part++)
        for (uint64_t d = 0; d < a->part[part].docs->documents; d++) {
            uint64_t at, len;

            STK_TRY(document(a, part, d, &at, &len, err));
            *pieces += (len + block - 1) / block;
            while (k->packer && len) {
                uint64_t n = len < block ? len : block;
                uint64_t after = len - n < UINT32_MAX ? len - n : UINT32_MAX;

                k->piece[k->n] = (stk_document){ at, (uint32_t)n, (uint32_t)after };
                k->len[k->n++] = (uint32_t)n;
                k->out->tokens += n;
                at += n;
                len -= n;
                if (k->n == WINDOW)
                    flush(k);
            }
        }
    return 0;
}

static int pack(const stk_array *a, const stk_tokens *cut, stk_packed *out, stk_error *err)
{
    packing k = { .out = out };
    uint64_t pieces = 0, again = 0;
    int rc = walk(a, cut->block, &k, &pieces, err);

    if (rc < 0)
        return rc;
    if (pieces > SIZE_MAX / 64)
        return stk_fail(err, STK_ELIMIT, "there are %" PRIu64 " documents, too many", pieces);
    if (!cut->repack)
        out->first = stk_alloc(((size_t)pieces + 1) * sizeof *out->first);
    out->doc = stk_alloc(((size_t)pieces + 1) * sizeof *out->doc);
    k.piece = stk_zalloc(WINDOW, sizeof *k.piece);
    k.len = stk_zalloc(WINDOW, sizeof *k.len);
    k.row = stk_zalloc(WINDOW, sizeof *k.row);
    k.at = stk_zalloc(WINDOW, sizeof *k.at);
    if ((!out->first && !cut->repack) || !out->doc || !k.piece || !k.len || !k.row || !k.at)
        rc = stk_fail_nomem(err, (size_t)pieces * sizeof *out->doc);
    if (rc == 0)
        rc = stk_packer_open(&k.packer, (stk_fit)cut->pack, (uint32_t)cut->block, WINDOW, err);
    if (rc == 0) {
        if (out->first)
            out->first[0] = 0;
        rc = walk(a, cut->block, &k, &again, err);
    }
    if (rc == 0 && k.n)
        flush(&k);
    stk_packer_close(&k.packer);
    stk_free(k.piece);
    stk_free(k.len);
    stk_free(k.row);
    stk_free(k.at);
    return rc;
}

int stk_plan_documents_make(stk_plan_chains *out, stk_error *err)
{
    stk_array_plan *p = out->arrays;
    uint64_t *start = out->start, rows = 0;

    p->packed = stk_zalloc(p->n_data, sizeof *p->packed);
    if (!p->packed)
        return stk_fail_nomem(err, p->n_data * sizeof *p->packed);
    for (uint32_t d = 0; d < p->n_data; d++) {
        STK_TRY(pack(p->out[d * p->n_out].array, &p->cut, &p->packed[d], err));
        start[d + 1] = start[d] + p->packed[d].rows;
        rows += p->packed[d].rows;
    }
    return rows ? 0 : stk_fail(err, STK_EINVAL, "there are no tokens: every document is empty");
}

int stk_plan_documents_settle(stk_plan_chains *out, uint32_t output, stk_error *err)
{
    const stk_array_plan *p = out->arrays;
    const stk_tokens *t = out->chain[output].tokens;
    stk_dtype dtype = out->chain[output].spec.dtype;
    const char *name = out->out[output].name;
    double most = t->give == STK_GIVE_MASK ? 1 : (double)t->block;
    uint8_t value[8];
    stk_error why;

    if (t->give != STK_GIVE_TOKENS) {
        if ((dtype != STK_I64 && !stk_convert_c(STK_I64, dtype)) ||
            stk_pad_value(most, dtype, value, &why) < 0)
            return stk_fail(err, STK_EINVAL,
                            "output %s: numbers up to %.0f are no %s: take a wider "
                            "type",
                            name, most, stk_dtype_name(dtype));
        return 0;
    }
    for (uint32_t d = 0; d < p->n_data; d++)
        if (stk_pad_value((double)t->pad, dtype, p->out[d * p->n_out + output].pad, &why) < 0)
            return stk_fail(err, STK_EINVAL, "output %s: %s; say pad= in tokens()", name,
                            why.message);
    return 0;
}

void stk_plan_documents_fini(stk_array_plan *p)
{
    for (uint32_t d = 0; p->packed && d < p->n_data; d++) {
        stk_free(p->packed[d].first);
        stk_free(p->packed[d].doc);
    }
    stk_free(p->packed);
}
