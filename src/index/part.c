/* SPDX-License-Identifier: Apache-2.0 */
/* part.c - collects what a format reports of one shard, in the form in which the segment is
 * written.
 *
 * Samples of a shard have the same field names again and again, so the names are compared with
 * the last sample's first and looked up only when they differ. */
#include "index/part.h"

#include <stdio.h>

#include "base/hash.h"

static int same_schema(const stk_index_part *p, const stk_field *fields, uint32_t n)
{
    const uint32_t *ids;
    uint32_t m;

    if (!p->n_samples)
        return 0;
    ids = idx_dict_ids(&p->dict, p->schema, &m);
    if (m != n)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *t = idx_dict_text(&p->dict, ids[i]);

        if (strncmp(t, fields[i].name, fields[i].name_len) != 0 || t[fields[i].name_len])
            return 0;
    }
    return 1;
}

static int schema_of(stk_index_part *p, const stk_field *fields, uint32_t n, stk_error *err)
{
    if (same_schema(p, fields, n))
        return 0;
    STK_TRY(idx_reserve((void **)&p->ids, &p->ids_cap, n, sizeof *p->ids, err));
    for (uint32_t i = 0; i < n; i++)
        STK_TRY(idx_dict_name(&p->dict, fields[i].name, fields[i].name_len, &p->ids[i], err));
    return idx_dict_schema(&p->dict, p->ids, n, &p->schema, err);
}

static int put_field(stk_index_part *p, uint64_t offset, const stk_field *f, stk_error *err)
{
    idx_field *out = &p->fields[p->n_fields];

    if (f->offset > UINT64_MAX - f->size)
        return stk_fail(err, STK_ECORRUPT,
                        "field %.*s has %" PRIu64 " bytes: past the end of all files",
                        (int)f->name_len, f->name, f->size);
    if (f->offset >= offset && f->offset - offset < IDX_WIDE && f->size <= UINT32_MAX) {
        *out = (idx_field){ (uint32_t)(f->offset - offset), (uint32_t)f->size };
    } else {
        if (p->n_wide >= UINT32_MAX)
            return stk_fail(err, STK_ELIMIT, "more than 2^32 wide fields in one shard");
        STK_TRY(idx_reserve((void **)&p->wide, &p->wide_cap, p->n_wide + 1, sizeof *p->wide, err));
        p->wide[p->n_wide] = (idx_wide){ f->offset, f->size };
        *out = (idx_field){ IDX_WIDE, (uint32_t)p->n_wide++ };
    }
    p->n_fields++;
    return 0;
}

static int part_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                       uint32_t n, stk_error *err)
{
    stk_index_part *p = (stk_index_part *)scan;
    idx_sample *s;

    if (offset >= IDX_MAX_OFFSET)
        return stk_fail(err, STK_ELIMIT,
                        "a sample at byte %" PRIu64 ": the index holds offsets below 2^48", offset);
    if (p->n_samples + 2 >= UINT32_MAX || p->n_fields + n >= UINT32_MAX ||
        key.len >= UINT32_MAX - p->n_keys)
        return stk_fail(err, STK_ELIMIT,
                        "one shard has more than 2^32 samples, fields or bytes of keys: split it");
    STK_TRY(schema_of(p, fields, n, err));
    STK_TRY(idx_reserve((void **)&p->samples, &p->samples_cap, p->n_samples + 1, sizeof *p->samples,
                        err));
    STK_TRY(
        idx_reserve((void **)&p->fields, &p->fields_cap, p->n_fields + n, sizeof *p->fields, err));
    STK_TRY(idx_reserve((void **)&p->keys, &p->keys_cap, p->n_keys + key.len, 1, err));
    s = &p->samples[p->n_samples];
    *s = (idx_sample){ offset << 16 | p->schema, (uint32_t)p->n_fields, (uint32_t)p->n_keys };
    for (uint32_t i = 0; i < n; i++)
        STK_TRY(put_field(p, offset, &fields[i], err));
    if (key.len)
        memcpy(p->keys + p->n_keys, key.data, key.len);
    p->n_keys += key.len;
    p->n_samples++;
    return 0;
}

static int part_progress(stk_scan *scan, uint64_t offset)
{
    stk_index_part *p = (stk_index_part *)scan;

    return p->progress ? p->progress(p->progress_cookie, offset) : 0;
}

static void part_warn(stk_scan *scan, const char *why)
{
    stk_index_part *p = (stk_index_part *)scan;

    snprintf(p->warning, sizeof p->warning, "%s", why);
}

const char *stk_index_part_warning(const stk_index_part *p)
{
    return p->warning[0] ? p->warning : NULL;
}

int stk_index_part_open(stk_index_part **out, stk_error *err)
{
    *out = STK_NEW(stk_index_part);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    (*out)->scan.sample = part_sample;
    (*out)->scan.progress = part_progress;
    (*out)->scan.warn = part_warn;
    return 0;
}

stk_scan *stk_index_part_scan(stk_index_part *p)
{
    return &p->scan;
}

void stk_index_part_progress(stk_index_part *p, int (*fn)(void *cookie, uint64_t offset),
                             void *cookie)
{
    p->progress = fn;
    p->progress_cookie = cookie;
}

static uint64_t field_offset(const stk_index_part *p, uint64_t offset, size_t k)
{
    const idx_field *f = &p->fields[k];

    return f->rel == IDX_WIDE ? p->wide[f->size].offset : offset + f->rel;
}

static int print_row(const stk_index_part *p, uint64_t row, idx_print *at, uint64_t *hash,
                     stk_error *err)
{
    uint64_t offset = p->samples[row].place >> 16;
    size_t first = p->samples[row].field,
           end = row + 1 < p->n_samples ? p->samples[row + 1].field : p->n_fields;

    STK_TRY(idx_print_mix(at, offset, hash, err));
    if (first < end)
        STK_TRY(idx_print_mix(at, field_offset(p, offset, first), hash, err));
    if (first + 1 < end)
        STK_TRY(idx_print_mix(at, field_offset(p, offset, end - 1), hash, err));
    return 0;
}

static int print_rows(const stk_index_part *p, idx_print *at, uint64_t *out, stk_error *err)
{
    int rc = 0;

    *out = at->size;
    for (uint64_t i = 0; rc == 0 && i < idx_print_rows(p->n_samples); i++)
        rc = print_row(p, idx_print_row(p->n_samples, i), at, out, err);
    return rc;
}

int stk_index_part_print(const stk_index_part *p, stk_file *f, uint64_t size, uint64_t *out,
                         stk_error *err)
{
    idx_print at = { .file = f, .size = size };
    int rc = 0;

    if (idx_print_note(&at)) {
        rc = print_rows(p, &at, out, err);
        if (rc == 0)
            rc = idx_print_fetch(&at, err);
    }
    if (rc == 0)
        rc = print_rows(p, &at, out, err);
    stk_free(at.data);
    return rc;
}

void stk_index_part_close(stk_index_part **p)
{
    stk_index_part *x = *p;

    *p = NULL;
    if (!x)
        return;
    idx_dict_fini(&x->dict);
    stk_free(x->samples);
    stk_free(x->fields);
    stk_free(x->wide);
    stk_free(x->keys);
    stk_free(x->ids);
    stk_free(x);
}
