/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - the index comes from a file: every place in a record is checked before it is used. */
#include "format/record.h"

#include <string.h>

int stk_record_begin(stk_record *r, stk_bytes key, stk_bytes head, stk_error *err)
{
    uint32_t len = (uint32_t)head.len;

    if (!key.len || memchr(key.data, 0, key.len))
        return stk_fail(err, STK_ECORRUPT, "a sample has no name, or a null character in it");
    r->n = 0;
    r->blob.len = 0;
    STK_TRY(stk_text_put(&r->blob, key.data, key.len, err));
    STK_TRY(stk_text_put(&r->blob, "", 1, err));
    STK_TRY(stk_text_put(&r->blob, &len, sizeof len, err));
    return stk_text_put(&r->blob, len ? (const char *)head.data : "", len, err);
}

static int add(stk_record *r, const char *name, uint64_t size, stk_error *err)
{
    if (r->n == STK_RECORD_FIELDS)
        return stk_fail(err, STK_ELIMIT, "a sample has more than %u fields", STK_RECORD_FIELDS);
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 16;
        stk_field *grown = stk_grow(r->field, r->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        r->field = grown;
        r->cap = cap;
    }
    r->field[r->n++] = (stk_field){ name, strlen(name), r->blob.len, size };
    return 0;
}

int stk_record_text(stk_record *r, const char *name, stk_bytes text, stk_error *err)
{
    STK_TRY(add(r, name, text.len, err));
    STK_TRY(stk_text_put(&r->blob, "T", 1, err));
    return stk_text_put(&r->blob, text.len ? (const char *)text.data : "", text.len, err);
}

int stk_record_file(stk_record *r, const char *name, uint8_t folder, stk_bytes file, uint64_t size,
                    stk_error *err)
{
    char head[2] = { 'F', (char)folder };

    if (!file.len || memchr(file.data, 0, file.len))
        return stk_fail(err, STK_ECORRUPT, "a file's name is empty or has a null character");
    STK_TRY(add(r, name, size, err));
    STK_TRY(stk_text_put(&r->blob, head, sizeof head, err));
    STK_TRY(stk_text_put(&r->blob, file.data, file.len, err));
    return stk_text_put(&r->blob, "", 1, err);
}

int stk_record_report(stk_record *r, uint64_t offset, stk_error *err)
{
    for (uint32_t i = 0; i < r->n; i++)
        r->field[i].offset += offset;
    return r->scan->sample(r->scan, (stk_bytes){ (const uint8_t *)r->blob.s, r->blob.len }, offset,
                           r->field, r->n, err);
}

void stk_record_fini(stk_record *r)
{
    stk_free(r->blob.s);
    stk_free(r->field);
    *r = (stk_record){ 0 };
}

stk_bytes stk_record_head(stk_bytes key)
{
    const uint8_t *nul = key.len ? memchr(key.data, 0, key.len) : NULL;
    size_t left = nul ? key.len - (size_t)(nul + 1 - key.data) : 0;
    uint32_t len;

    if (left < sizeof len)
        return (stk_bytes){ 0 };
    memcpy(&len, nul + 1, sizeof len);
    return len <= left - sizeof len ? (stk_bytes){ nul + 1 + sizeof len, len } : (stk_bytes){ 0 };
}

int stk_record_locate(const stk_entry *e, const stk_field *field, const stk_names *folders,
                      int listed, stk_place *out, stk_error *err)
{
    uint64_t at = field->offset - e->offset;
    const uint8_t *p = e->key.data + at, *end;
    size_t left;

    *out = (stk_place){ 0 };
    if (field->offset < e->offset || at >= e->key.len)
        return stk_fail(err, STK_ECORRUPT, "the index says that field %s is outside its sample",
                        field->name);
    left = e->key.len - (size_t)at - 1;
    if (*p == 'T' && field->size <= left) {
        out->here = (stk_bytes){ p + 1, (size_t)field->size };
        return 0;
    }
    end = *p == 'F' && left > 2 ? memchr(p + 2, 0, left - 1) : NULL;
    if (!end || !folders || p[1] >= folders->n)
        return stk_fail(err, STK_ECORRUPT, "the index has no text and no file for field %s",
                        field->name);
    *out = (stk_place){ .len = field->size, .must_equal = 1, .listed = listed };
    out->name = (stk_bytes){ p + 2, (size_t)(end - p - 2) };
    out->root = folders->name[p[1]];
    return 0;
}
