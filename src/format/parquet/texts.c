/* SPDX-License-Identifier: Apache-2.0 */
/* texts.c - rows that are lists of texts: each becomes one value, a JSON array.
 *
 * A text of a dictionary may be in as many lists as there are values, so that a page can make far
 * more than it has: what it makes is counted before memory is taken for it. */
#include <string.h>

#include "base/mem.h"
#include "format/parquet/decode.h"
#include "format/text_list.h"

static int is_null(stk_pq_ref ref)
{
    return ref.at == UINT32_MAX && !ref.len;
}

static void put(stk_text_list *t, const stk_pq_vector *v, const stk_pq_decode *d, uint64_t slot)
{
    const stk_pq_vector *from = v->ref[slot].len & STK_PQ_IN_DICTIONARY ? d->dictionary : v;
    stk_bytes value = { 0 };

    if (!is_null(v->ref[slot]))
        value = (stk_bytes){ from->data + v->ref[slot].at,
                             v->ref[slot].len & ~STK_PQ_IN_DICTIONARY };
    if (v->leaf->blobs)
        stk_text_list_blob(t, value);
    else if (is_null(v->ref[slot]))
        stk_text_list_null(t);
    else
        stk_text_list_put(t, value);
}

uint64_t stk_pq_texts_len(const stk_pq_vector *v, const stk_pq_decode *d)
{
    stk_text_list t = { .more = 1 };

    for (uint64_t i = 0; i < v->slots && t.len <= d->max_bytes; i++)
        put(&t, v, d, i);
    return t.len;
}

/* All rows one after another; where `ref` is not NULL, it says where each is. */
static void put_rows(stk_text_list *t, const stk_pq_vector *v, const stk_pq_decode *d,
                     stk_pq_ref *ref)
{
    for (uint64_t r = 0; r < v->rows && t->len <= d->max_bytes; r++) {
        uint64_t from = t->len;

        if (!v->leaf->blobs)
            stk_text_list_begin(t);
        for (uint64_t i = v->first[r]; i < v->first[r + 1] && t->len <= d->max_bytes; i++)
            put(t, v, d, i);
        if (!v->leaf->blobs)
            stk_text_list_end(t);
        if (ref)
            ref[r] = (stk_pq_ref){ (uint32_t)from, (uint32_t)(t->len - from) };
    }
}

int stk_pq_texts(const stk_pq_decode *d, stk_pq_vector *v, stk_error *err)
{
    stk_text_list t = { 0 };
    stk_pq_ref *ref;
    uint64_t len;

    if (!v->rows)
        return 0;
    put_rows(&t, v, d, NULL);
    len = t.len;
    if (len > d->max_bytes)
        return stk_pq_too_large(d, len, err);
    ref = stk_alloc((size_t)v->rows * sizeof *ref);
    t = (stk_text_list){ .dst = stk_alloc((size_t)len), .room = len };
    if (!ref || !t.dst) {
        stk_free(ref);
        stk_free(t.dst);
        return stk_fail_nomem(err, (size_t)len);
    }
    put_rows(&t, v, d, ref);
    stk_free(v->ref);
    stk_free(v->data);
    stk_free(v->first);
    v->ref = ref;
    v->data = t.dst;
    v->data_len = v->cap_data = len;
    v->slots = v->cap_slots = v->cap_refs = v->rows;
    v->first = NULL;
    return 0;
}
