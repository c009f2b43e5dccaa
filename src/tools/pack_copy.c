/* SPDX-License-Identifier: Apache-2.0 */
/* pack_copy.c - shards of samples as they are, one job per shard. */
#include <string.h>

#include "base/jobs.h"
#include "dataset/read_some.h"
#include "tools/pack_model.h"

const char *stk_pack_file_field(const stk_pack_run *p)
{
    const stk_shard_data *d = stk_shard_data_of(p->ds);

    if (!d)
        return NULL;
    return d->format->find ? "path" : d->format->open ? "image" : NULL;
}

#define LOOKS 16u /* at lines, in even steps */

/* Is there a file at the path of line `id`? */
static int names_file(const stk_pack_run *p, uint64_t id)
{
    const stk_data_ops *ops = p->ds->ops;
    stk_named at = { .data = p->ds };
    stk_file *file = NULL;
    stk_entry e;
    stk_field f;
    int found = 0;

    if (ops->entry(p->ds, id, &e, NULL) < 0)
        return 0;
    at.shard = e.shard;
    for (uint32_t k = 0; k < e.n_fields && !found; k++) {
        stk_place place = { 0 };

        found = ops->field(p->ds, &e, k, &f, NULL) == 0 && !strcmp(f.name, "path") &&
                ops->locate(p->ds, &e, &f, 1, &place, NULL) == 0 && place.name.data &&
                stk_named_open(&at, &place, &file, NULL) == 0;
        stk_file_close(&file);
    }
    return found;
}

/* Lines with a `path` are a manifest, or data that has such a field, as code and web corpora have:
 * of those none of the paths is a file here. */
void stk_pack_look_files(stk_pack_run *p)
{
    uint64_t n = stk_dataset_len(p->ds), looks = n < LOOKS ? n : LOOKS;
    const stk_shard_data *d = stk_shard_data_of(p->ds);

    for (uint64_t i = 0; d && d->format->find && !p->names_files && i < looks; i++)
        p->names_files = names_file(p, i * (n / looks));
}

/* A line of data, and a sample of files in several folders, has a key of its own. */
int stk_pack_keys_files(const stk_pack_run *p)
{
    return stk_pack_is_folder(p) || p->names_files;
}

/* Of a manifest, where the file takes the place of its path: its range goes with it. */
static int is_range(const stk_pack_run *p, const char *name)
{
    return p->names_files && (!strcmp(name, "offset") || !strcmp(name, "length"));
}

/* The suffix of a name in lower case; 0: it has none, or a long one. */
static int lower_suffix(stk_bytes name, char *out)
{
    const uint8_t *dot = name.len ? memrchr(name.data, '.', name.len) : NULL;
    size_t len = dot ? name.len - (size_t)(dot - name.data) - 1 : 0;

    if (!len || len >= STK_PACK_SUFFIX || memchr(dot, '/', len + 1))
        return 0;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? dot[1 + i] + 32 : dot[1 + i]);
    out[len] = 0;
    return 1;
}

/* Of a manifest's range in a larger file the suffix is that file's: there the content decides. */
void stk_pack_name_file(const stk_pack_run *p, stk_bytes *key, stk_part *file, char *suffix)
{
    const char *field = stk_pack_file_field(p), *kind;
    int cut;

    if (!field || (file && strcmp(file->name, field) != 0))
        return;
    cut = stk_pack_keys_files(p) && lower_suffix(*key, suffix);
    if (cut)
        key->len -= strlen(suffix) + 1;
    if (!file)
        return;
    kind = stk_pack_is_folder(p) ? NULL
                                 : stk_pack_picture_kind((stk_bytes){ file->data, file->len });
    if (kind && !(cut && !strcmp(kind, "jpg") && !strcmp(suffix, "jpeg")))
        file->name = kind;
    else if (cut)
        file->name = suffix;
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
    const stk_field_choice whole = { .open = stk_pack_keys_files(p) && !stk_pack_is_folder(p)
                                                 ? "path"
                                                 : NULL };
    stk_sample *s = NULL;
    char suffix[STK_PACK_SUFFIX], number[STK_PACK_KEY];
    stk_text text = { 0 };
    stk_part *parts;
    stk_bytes key, name;
    uint32_t n;
    int rc;

    STK_TRY(stk_dataset_read_some(p->ds, id, &whole, &s, err));
    n = stk_sample_fields(s);
    key = stk_pack_key(p, id, number);
    parts = stk_alloc((n + 1) * sizeof *parts);
    rc = parts ? 0 : stk_fail_nomem(err, n * sizeof *parts);
    if (rc == 0 && p->name)
        rc = table_parts(p, s, parts, &n, &text, err);
    for (uint32_t k = 0, all = n; rc == 0 && !p->name && k < all; k++) {
        stk_part *part = &parts[k ? n : (n = 0)];

        part->name = stk_sample_field(s, k, &part->data, &part->len);
        n += !is_range(p, part->name);
    }
    name = key;
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        stk_pack_name_file(p, &name, &parts[k], suffix);
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
