/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_hint.c - what Arrow's writers say of lists in a Parquet file: how many values each has.
 *
 * Parquet has no lists of one length.  pyarrow keeps the table's own schema in the footer, an Arrow
 * IPC message in base64, which tells.  It is a hint: without it, or where it is damaged, lists have
 * lengths of their own. */
#include <string.h>

#include "base/mem.h"
#include "format/arrow.h"
#include "format/parquet/schema.h"

static int digit(uint8_t c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* How many bytes it makes, up to what is not base64; dst has room for 3/4 of in.len. */
static size_t base64(stk_bytes in, uint8_t *dst)
{
    size_t n = 0;
    uint32_t bits = 0;

    for (size_t i = 0; i < in.len && digit(in.data[i]) >= 0; i++) {
        bits = bits << 6 | (uint32_t)digit(in.data[i]);
        if (i % 4)
            dst[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return n;
}

static int has_lists(const stk_pq_file *f)
{
    for (uint32_t i = 0; i < f->n_leaves; i++)
        if (f->leaf[i].max_rep && f->leaf[i].dtype && !f->leaf[i].refused)
            return 1;
    return 0;
}

static void take_lengths(stk_pq_file *f, const stk_arrow_schema *s)
{
    for (uint32_t i = 0, at = 0; i < f->n_leaves; i++)
        for (uint32_t k = 0; f->leaf[i].max_rep && f->leaf[i].dtype && k < s->n; k++) {
            const stk_arrow_leaf *l = &s->leaf[(at + k) % s->n]; /* in the same order, as a rule */

            if (strcmp(l->name, f->leaf[i].name) != 0)
                continue;
            f->leaf[i].fixed = l->list && l->fixed > 0 && l->fixed <= UINT32_MAX
                                   ? (uint32_t)l->fixed
                                   : 0;
            at = (at + k + 1) % s->n;
            break;
        }
}

int stk_pq_arrow_hint(stk_pq_file *f, stk_bytes text, stk_error *err)
{
    stk_arrow_ipc *x = NULL;
    stk_error why;
    uint8_t *message;
    int rc;

    if (!text.len || !has_lists(f))
        return 0;
    message = stk_alloc(text.len);
    if (!message)
        return stk_fail_nomem(err, text.len);
    rc = stk_arrow_ipc_open(&x, (stk_bytes){ message, base64(text, message) }, -1, &why);
    if (rc == 0)
        take_lengths(f, &x->schema);
    stk_arrow_ipc_close(&x);
    stk_free(message);
    return rc == STK_ENOMEM ? stk_fail_nomem(err, text.len) : 0;
}
