/* SPDX-License-Identifier: Apache-2.0 */
/* shard_writer.c - stk_writer: samples one by one into shards of a bounded size.
 *
 * A shard appears under its name when it is full and on disk.  What fails before anything of a
 * sample is written (a name) leaves the writer good; what fails on disk ends it: the shard under
 * way is gone, those before it stay. */
#include <string.h>

#include <stoker/store.h>

#include "base/atomic_file.h"
#include "base/opts.h"
#include "tools/shard_writer.h"

#define DEFAULT_BYTES 500000000u

struct stk_writer {
    stk_shard_pattern pattern;
    stk_writer_options o;
    stk_tar_writer *tar; /* NULL: the next sample begins a shard */
    stk_sample_out out;
    uint64_t in_shard, shards, samples, bytes;
    uint64_t size; /* of the shard that is finished and has no name yet */
    int finished, failed;
};

int stk_writer_open(stk_writer **out, const char *pattern, const stk_writer_options *opt,
                    stk_error *err)
{
    stk_writer *w = STK_NEW(stk_writer);
    int rc;

    *out = w;
    if (!w)
        return stk_fail_nomem(err, sizeof *w);
    stk_options_take(&w->o, sizeof w->o, opt);
    w->out.mtime = w->o.mtime;
    w->pattern.store = stk_store_ref(w->o.store);
    if (!w->o.samples && !w->o.bytes)
        w->o.bytes = DEFAULT_BYTES;
    rc = stk_shard_pattern_parse(&w->pattern, pattern, "shard", err);
    if (rc == 0)
        rc = stk_is_address(w->pattern.dir) ? stk_object_writable(w->pattern.dir, err)
                                            : stk_shard_folder_make(w->pattern.dir, err);
    if (rc == 0 && !stk_is_address(w->pattern.dir))
        stk_atomic_sweep(w->pattern.dir[0] ? w->pattern.dir : ".", w->pattern.prefix);
    if (rc < 0)
        stk_writer_close(out);
    return rc;
}

static int shard_begin(stk_writer *w, stk_error *err)
{
    stk_sample_out_begin(&w->out);
    w->in_shard = 0;
    return stk_shard_open(&w->tar, &w->pattern, w->o.first + w->shards, w->o.force == STK_YES, err);
}

static int shard_finish(stk_writer *w, stk_error *err)
{
    if (!w->finished)
        STK_TRY(stk_tar_writer_finish(w->tar, &w->size, err));
    w->finished = 1;
    return 0;
}

static int shard_end(stk_writer *w, stk_error *err)
{
    STK_TRY(shard_finish(w, err));
    STK_TRY(stk_tar_writer_publish(w->tar, err));
    stk_tar_writer_close(&w->tar);
    w->shards++;
    w->bytes += w->size;
    w->size = 0;
    w->finished = 0;
    return 0;
}

static int is_full(const stk_writer *w, const stk_part *parts, uint32_t n)
{
    uint64_t more = 0;

    if (!w->tar || !w->in_shard)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        more += stk_tar_member_bytes(w->out.key.len + 1 + strlen(parts[i].name), parts[i].len);
    return (w->o.samples && w->in_shard >= w->o.samples) ||
           (w->o.bytes && stk_tar_writer_bytes(w->tar) + more > w->o.bytes);
}

static int add(stk_writer *w, const stk_part *parts, uint32_t n, stk_error *err)
{
    if (is_full(w, parts, n))
        STK_TRY(shard_end(w, err));
    if (!w->tar)
        STK_TRY(shard_begin(w, err));
    STK_TRY(stk_sample_out_put(&w->out, w->tar, parts, n, err));
    w->in_shard++;
    w->samples++;
    return 0;
}

static int is_over(stk_error *err)
{
    return stk_fail(err, STK_ECLOSED,
                    "this writer failed before, or is at its end; the shards it had finished stay");
}

int stk_writer_add(stk_writer *w, const char *key, size_t key_len, const stk_part *parts,
                   uint32_t n, stk_error *err)
{
    int rc;

    if (w->failed || w->finished)
        return is_over(err);
    STK_TRY(
        stk_sample_out_check(&w->out, (stk_bytes){ (const uint8_t *)key, key_len }, parts, n, err));
    rc = add(w, parts, n, err);
    w->failed = rc < 0;
    if (rc < 0)
        stk_tar_writer_close(&w->tar);
    return rc;
}

/* As if they were written one after the other; then `last` is what it was. */
static int check_all(stk_writer *w, const stk_new_sample *s, size_t n, stk_error *err)
{
    stk_text last = w->out.last;
    int rc = 0;

    w->out.last = (stk_text){ 0 };
    if (last.s)
        rc = stk_text_put(&w->out.last, last.s, last.len, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = stk_sample_out_check(&w->out, (stk_bytes){ (const uint8_t *)s[i].key, s[i].key_len },
                                  s[i].parts, s[i].n, err);
        w->out.last.len = 0;
        if (rc == 0)
            rc = stk_text_put(&w->out.last, w->out.key.s, w->out.key.len, err);
    }
    stk_free(w->out.last.s);
    w->out.last = last;
    return rc;
}

int stk_writer_add_all(stk_writer *w, const stk_new_sample *samples, size_t n, stk_error *err)
{
    if (w->failed || w->finished)
        return is_over(err);
    if (n > 1)
        STK_TRY(check_all(w, samples, n, err));
    for (size_t i = 0; i < n; i++)
        STK_TRY(stk_writer_add(w, samples[i].key, samples[i].key_len, samples[i].parts,
                               samples[i].n, err));
    return 0;
}

static int end(stk_writer *w, int (*how)(stk_writer *w, stk_error *err), stk_error *err)
{
    int rc = 0;

    if (w->failed)
        return is_over(err);
    if (!w->tar && !w->shards && w->o.empty == STK_YES)
        rc = shard_begin(w, err);
    if (rc == 0 && w->tar)
        rc = how(w, err);
    w->failed = rc < 0;
    return rc;
}

int stk_writer_finish(stk_writer *w, uint64_t *size, stk_error *err)
{
    STK_TRY(end(w, shard_finish, err));
    *size = w->size;
    return 0;
}

int stk_writer_commit(stk_writer *w, stk_error *err)
{
    return end(w, shard_end, err);
}

void stk_writer_counts(const stk_writer *w, uint64_t *shards, uint64_t *samples, uint64_t *bytes)
{
    *shards = w->shards;
    *samples = w->samples;
    *bytes = w->bytes;
}

void stk_writer_close(stk_writer **wp)
{
    stk_writer *w = *wp;

    *wp = NULL;
    if (!w)
        return;
    stk_tar_writer_close(&w->tar);
    stk_sample_out_fini(&w->out);
    stk_shard_pattern_fini(&w->pattern);
    stk_store_unref(&w->o.store);
    stk_free(w);
}
