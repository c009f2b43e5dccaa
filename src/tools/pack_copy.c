/* SPDX-License-Identifier: Apache-2.0 */
/* pack_copy.c - shards of samples as they are, one job per shard. */
#include <string.h>

#include "base/jobs.h"
#include "tools/pack_model.h"

void stk_pack_name_picture(const stk_pack_run *p, stk_bytes *key, stk_part *image, char *suffix)
{
    const uint8_t *dot = key->len ? memrchr(key->data, '.', key->len) : NULL;
    size_t len = dot ? key->len - (size_t)(dot - key->data) - 1 : 0;

    if (!stk_pack_is_folder(p) || (image && strcmp(image->name, "image") != 0) || !len ||
        len >= STK_PACK_SUFFIX)
        return;
    for (size_t i = 0; i < len; i++)
        suffix[i] = (char)(dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? dot[1 + i] + 32 : dot[1 + i]);
    suffix[len] = 0;
    key->len = (size_t)(dot - key->data);
    if (image)
        image->name = suffix;
}

/* Members of a row: their bytes are in *text.  *n: how many, nulls left out. */
static int table_parts(const stk_pack_run *p, const stk_sample *s, stk_part *parts, uint32_t *n,
                       stk_text *text, stk_error *err)
{
    uint32_t all = stk_sample_fields(s);
    size_t at = 0;

    *n = 0;
    for (uint32_t k = 0; k < all; k++) {
        const void *data;
        size_t len;

        stk_sample_field(s, k, &data, &len);
        if (!data)
            continue;
        STK_TRY(stk_pack_value(p, k, (stk_bytes){ data, len }, text, err));
        parts[*n].name = stk_pack_member(p, k, (stk_bytes){ data, len });
        parts[(*n)++].len = text->len - at;
        at = text->len;
    }
    for (uint32_t k = 0; k < *n; k++) { /* it moves no more */
        parts[k].data = k ? (const char *)parts[k - 1].data + parts[k - 1].len : text->s;
    }
    return 0;
}

static int write_sample(stk_pack_run *p, stk_sample_out *out, stk_tar_writer *tar, uint64_t id,
                        stk_error *err)
{
    stk_sample *s = NULL;
    char suffix[STK_PACK_SUFFIX], number[STK_PACK_KEY];
    stk_text text = { 0 };
    stk_part *parts;
    stk_bytes key, name;
    uint32_t n;
    int rc;

    STK_TRY(stk_dataset_read(p->ds, id, &s, err));
    n = stk_sample_fields(s);
    key = stk_pack_key(p, id, number);
    parts = stk_alloc((n + 1) * sizeof *parts);
    rc = parts ? 0 : stk_fail_nomem(err, n * sizeof *parts);
    if (rc == 0 && p->name)
        rc = table_parts(p, s, parts, &n, &text, err);
    for (uint32_t k = 0; rc == 0 && !p->name && k < n; k++)
        parts[k].name = stk_sample_field(s, k, &parts[k].data, &parts[k].len);
    name = key;
    if (rc == 0 && n)
        stk_pack_name_picture(p, &name, &parts[0], suffix);
    if (rc == 0)
        rc = stk_sample_out_check(out, name, parts, n, err);
    if (rc < 0)
        stk_error_at(err, stk_sample_shard(s), STK_NO_OFFSET, key);
    if (rc == 0)
        rc = stk_sample_out_put(out, tar, parts, n, err);
    stk_free(parts);
    stk_free(text.s);
    stk_sample_close(&s);
    return rc;
}

static int write_samples(stk_pack_run *p, uint64_t i, stk_tar_writer *tar, stk_error *err)
{
    stk_sample_out out = { .adapt = 1, .mtime = p->o.mtime };
    uint64_t before = 0;
    int rc = 0;

    for (uint64_t at = p->first[i]; rc == 0 && at < p->first[i + 1]; at++) {
        rc = write_sample(p, &out, tar, stk_pack_at(p, at), err);
        if (rc == 0 && stk_pack_tell(p, stk_tar_writer_bytes(tar) - before))
            rc = stk_fail(err, STK_ECLOSED, "stopped; the shards that are finished stay");
        before = stk_tar_writer_bytes(tar);
    }
    atomic_fetch_add_explicit(&p->adapted, out.adapted, memory_order_relaxed);
    stk_sample_out_fini(&out);
    return rc;
}

static int write_shard(void *cookie, uint64_t i, stk_error *err)
{
    stk_pack_run *p = cookie;
    stk_tar_writer *tar = NULL;
    int rc;

    if (p->keep[i])
        return 0;
    rc = stk_shard_open(&tar, &p->pattern, i, p->o.force == STK_YES, err);
    if (rc == 0)
        rc = write_samples(p, i, tar, err);
    if (rc == 0)
        rc = stk_pack_publish(p, i, tar, NULL, err);
    stk_tar_writer_close(&tar);
    return rc;
}

int stk_pack_copy(stk_pack_run *p, stk_error *err)
{
    return stk_jobs_run(p->o.num_workers, p->n, write_shard, p, err);
}
