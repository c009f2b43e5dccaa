/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.c - see lengths.h.
 *
 * Measuring reads the fields of all samples once, with a loader of its own.  What it finds is kept
 * beside the index, HASH-CHAINS.len: a head, then a u32 a sample.  The head has the data's
 * fingerprint and a hash of the rest: a file that does not fit, or is damaged, is made again.
 * Processes of one host take turns, so that one measures and the others find it done. */
#include "loader/lengths.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/halt.h"
#include "base/hash.h"

#define MAGIC 0x31304e454c4b5453u /* STKLEN01 */
#define BATCH 256

typedef struct head { /* on disk */
    uint64_t magic, n, data, sum;
} head;

/* ---- kept ---- */

/* Whether an output is to be measured: some differ only in what is done with a row later. */
static int measured(const stk_plan_chains *c, uint32_t i)
{
    if (c->chain[i].spec.picture.patch.side && !c->chain[i].many.pictures)
        return 0; /* by the sizes of pictures: patch_lengths.c */
    for (uint32_t k = 0; k < i; k++)
        if (c->chain[k].counted && c->chain[k].fingerprint.raw == c->chain[i].fingerprint.raw)
            return 0;
    return c->chain[i].counted;
}

static uint64_t chains_print(const stk_plan_chains *c)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        if (measured(c, i))
            h = stk_hash64(h + 1, &c->chain[i].fingerprint.raw, sizeof c->chain[i].fingerprint.raw);
    return h;
}

/* A shard may be written to and keep its size and fingerprint. */
static int shard_time(const stk_dataset *ds, uint64_t i, uint64_t *hash, stk_error *err)
{
    stk_shard_info info;

    STK_TRY(stk_dataset_shard_now(ds, i, &info, err));
    *hash = stk_hash64(*hash, &info.mtime_ns, sizeof info.mtime_ns);
    return 0;
}

static int data_print(const stk_dataset *ds, uint64_t *out, stk_error *err)
{
    stk_fingerprint p;

    STK_TRY(stk_dataset_print(ds, &p, err));
    *out = stk_hash64(p.content, &p.names, sizeof p.names) + p.bytes;
    for (uint64_t i = 0; ds->ops->shard && i < stk_dataset_shards(ds); i++)
        STK_TRY(shard_time(ds, i, out, err));
    return 0;
}

/* What a function does is not known by its name: lengths that it made are not kept. */
static int has_functions(const stk_plan_chains *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        n += measured(c, i) ? c->chain[i].calls.n : 0;
    return n > 0;
}

static void path_of(const stk_plan_chains *c, const stk_dataset *ds, char *out, size_t size)
{
    size_t len = strlen(ds->index_path);

    out[0] = 0;
    if (has_functions(c))
        return;
    if (len > 4 && !strcmp(ds->index_path + len - 4, ".idx"))
        snprintf(out, size, "%.*s-%016" PRIx64 ".len", (int)(len - 4), ds->index_path,
                 chains_print(c));
}

static int read_all(int fd, void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (uint8_t *)to + at, n - at);

        if (got <= 0)
            return 0;
        at += (size_t)got;
    }
    return 1;
}

/* 1: they are there. */
static int load(const char *path, uint64_t n, uint64_t data, uint32_t *out)
{
    int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1, ok;
    head h;

    if (fd < 0)
        return 0;
    ok = read_all(fd, &h, sizeof h) && h.magic == MAGIC && h.n == n && h.data == data &&
         read_all(fd, out, n * sizeof *out) && h.sum == stk_hash64(0, out, n * sizeof *out);
    close(fd);
    return ok;
}

/* What can't be kept is measured again next time. */
static void save(const stk_log *log, const char *path, const head *h, const uint32_t *lengths)
{
    stk_atomic_file f = { 0 };
    char why[96];
    int ok;

    if (!path[0])
        return;
    ok = stk_atomic_open(&f, path, NULL) == 0 && stk_atomic_write(&f, h, sizeof *h, 0, NULL) == 0 &&
         stk_atomic_write(&f, lengths, h->n * sizeof *lengths, sizeof *h, NULL) == 0 &&
         stk_atomic_commit(&f, STK_COMMIT_FAST, NULL) == 0;
    if (!ok)
        stk_log_line(log, STK_LOG_WARN,
                     "the lengths that were measured can't be kept in %s (%s): they are measured "
                     "again next time",
                     path, strerror_r(f.sys, why, sizeof why));
    stk_atomic_close(&f);
}

/* ---- measured ---- */

static int measure(const stk_plan *so_far, uint32_t d, const stk_loader_options *o, uint32_t *out,
                   stk_error *err)
{
    stk_output *outputs = stk_zalloc(o->n_outputs, sizeof *outputs);
    stk_loader_options m = { .size = sizeof m,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .num_workers = o->num_workers,
                             .io_threads = o->io_threads,
                             .on_error = o->on_error,
                             .collate = STK_COLLATE_LIST,
                             .memory_limit = o->memory_limit,
                             .log = o->log,
                             .log_cookie = o->log_cookie,
                             .registry = o->registry,
                             .caller = o->caller };
    stk_dataset *ds = so_far->data.set[d];
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc;

    if (!outputs)
        return stk_fail_nomem(err, o->n_outputs * sizeof *outputs);
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (measured(&so_far->chains, i))
            outputs[m.n_outputs++] = o->outputs[i];
    stk_log_line(
        &so_far->policy.log, STK_LOG_INFO,
        has_functions(&so_far->chains)
            ? "measuring %" PRIu64 " samples with the functions of call(): lengths= saves that"
            : "measuring %" PRIu64 " samples, once: their lengths are kept beside the index",
        stk_dataset_len(ds));
    rc = stk_loader_open_measuring(&l, &ds, 1, &m, out, err);
    while (rc == 0 && (rc = stk_loader_next(l, &b, -1, err)) == 0)
        stk_batch_release(&b);
    stk_loader_close(&l);
    stk_free(outputs);
    return rc == STK_END ? 0 : rc;
}

static int of_dataset(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                      uint32_t *out, stk_error *err)
{
    const stk_dataset *ds = so_far->data.set[d];
    head h = { .magic = MAGIC, .n = stk_dataset_len(ds) };
    char path[1380];
    stk_lock_file lock = { .fd = -1 };
    int rc = 0;

    if (!h.n)
        return 0;
    path_of(&so_far->chains, ds, path, sizeof path);
    STK_TRY(data_print(ds, &h.data, err));
    if (load(path, h.n, h.data, out))
        return 0;
    while (path[0] && stk_seek_lock(ds->index_path, &lock) == STK_END)
        if (stk_halt_sleep(50) < 0)
            return stk_fail_halted(err);
    if (!load(path, h.n, h.data, out)) {
        memset(out, 0, h.n * sizeof *out);
        rc = measure(so_far, d, o, out, err);
        h.sum = stk_hash64(0, out, h.n * sizeof *out);
        if (rc == 0)
            save(&so_far->policy.log, path, &h, out);
    }
    stk_lock_drop(&lock);
    return rc;
}

/* ---- truncate ---- */

static int any_measured(const stk_plan_chains *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (measured(c, i))
            return 1;
    return 0;
}

/* The most that a row keeps; UINT32_MAX: any. */
static uint32_t most_of(const stk_plan_chains *all)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < all->n_out; i++) {
        const stk_chain *c = &all->chain[i];
        int64_t cut = c->pack ? c->raw.max_len : c->spec.max_len;

        if (c->counted && c->many.pictures)
            return UINT32_MAX; /* its patches are in what was measured */
        if (!c->counted || c->spec.picture.patch.side)
            continue;
        if (!cut || cut > UINT32_MAX)
            return UINT32_MAX;
        most = cut > most ? (uint32_t)cut : most;
    }
    return most ? most : UINT32_MAX;
}

int stk_lengths_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    const stk_loader_options *o = in->o;
    uint64_t n = s->start[so_far->data.n];
    uint32_t most = most_of(c), counted = 0;
    int given = o->lengths && !(o->max_seconds > 0); /* else they are seconds */

    for (uint32_t i = 0; i < c->n_out; i++)
        counted += (uint32_t)c->chain[i].counted;
    if (!counted)
        return stk_fail(err, STK_EINVAL,
                        "no output has rows that differ in length: max_tokens and bucket are for "
                        "`sound`, `patches`, `ints`, `floats`, `npy` and `bytes` with "
                        "collate=\"pad\" or collate=\"list\"");
    if (given && o->n_lengths != n)
        return stk_fail(err, STK_EINVAL,
                        "lengths has %" PRIu64 " entries and the data %" PRIu64
                        " samples: give one for each",
                        o->n_lengths, n);
    s->lengths = stk_zalloc(n + 1, sizeof *s->lengths);
    if (!s->lengths)
        return stk_fail_nomem(err, n * sizeof *s->lengths);
    if (given)
        memcpy(s->lengths, o->lengths, n * sizeof *s->lengths);
    for (uint32_t d = 0; !given && d < so_far->data.n; d++)
        if (any_measured(c))
            STK_TRY(of_dataset(so_far, d, o, s->lengths + s->start[d], err));
    for (uint64_t i = 0; i < n; i++)
        s->lengths[i] = s->lengths[i] < most ? s->lengths[i] : most;
    for (uint32_t d = 0; !given && d < so_far->data.n; d++)
        STK_TRY(stk_patch_lengths_add(so_far, d, o, s->lengths + s->start[d], err));
    return 0;
}
