/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.c - see lengths.h.
 *
 * Measuring reads the fields of all samples once, with a loader of its own.  What it finds is kept
 * beside the index, HASH-CHAINS.len: a head, then columns of a u32 a sample: its longest value, and
 * for each output of several pictures the patches of all of them.  The head has the data's
 * fingerprint and a hash of the rest: a file that does not fit, or is damaged, is made again.
 * Processes of one host take turns, so that one measures and the others find it done. */
#include "loader/lengths.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/halt.h"
#include "base/hash.h"
#include "column/media_sizes.h"
#include "loader/drawn_lengths.h"
#include "loader/truncate_lengths.h"

#define MAGIC 0x32304e454c4b5453u /* STKLEN02 */
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

static int is_pictures(const stk_plan_chains *c, uint32_t i)
{
    return c->chain[i].counted && c->chain[i].many.pictures;
}

static uint32_t columns(const stk_plan_chains *c)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < c->n_out; i++)
        n += measured(c, i) && is_pictures(c, i);
    return n;
}

/* Of an output of several pictures: that of the first one with the same rows. */
static uint32_t column_of(const stk_plan_chains *c, uint32_t i)
{
    uint32_t same = 0, at = 1;

    while (c->chain[same].fingerprint.raw != c->chain[i].fingerprint.raw || !is_pictures(c, same))
        same++;
    for (uint32_t k = 0; k < same; k++)
        at += measured(c, k) && is_pictures(c, k);
    return at;
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

/* Pictures that are fields of their own are measured by their sizes in HASH.media, which is made
 * from the first bytes of each.  Tables and lists that name files have none. */
static int find_sizes(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                      stk_error *err)
{
    const stk_media_making how = { .workers = o->num_workers > 0 ? (uint32_t)o->num_workers : 0 };
    const stk_dataset *ds = so_far->data.set[d];
    const stk_mediafile *m;

    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        if (is_pictures(&so_far->chains, i) && ds->can & STK_DATA_INDEXED && ds->ops->shard &&
            !(ds->can & (STK_DATA_IMMEDIATE | STK_DATA_STREAM)))
            return stk_media_sizes(so_far->data.set[d], &how, &m, err);
    return 0;
}

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

/* All columns of a data set, one after another: n_columns x n. */
static int of_dataset(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                      uint32_t *out, stk_error *err)
{
    const stk_dataset *ds = so_far->data.set[d];
    head h = { .magic = MAGIC, .n = stk_dataset_len(ds) * columns(&so_far->chains) };
    char path[1380];
    stk_lock_file lock = { .fd = -1 };
    int rc = 0;

    path_of(&so_far->chains, ds, path, sizeof path);
    STK_TRY(data_print(ds, &h.data, err));
    if (load(path, h.n, h.data, out))
        return 0;
    STK_TRY(find_sizes(so_far, d, o, err)); /* takes the same lock */
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

/* The most that a row of values keeps; UINT32_MAX: any. */
static uint32_t most_of(const stk_plan_chains *all)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < all->n_out; i++) {
        const stk_chain *c = &all->chain[i];
        int64_t cut = c->pack ? c->raw.max_len : c->spec.max_len;

        if (!c->counted || c->spec.picture.patch.side)
            continue;
        if (!cut || cut > UINT32_MAX)
            return UINT32_MAX;
        most = cut > most ? (uint32_t)cut : most;
    }
    return most ? most : UINT32_MAX;
}

/* ---- what counts ---- */

#define VALUES UINT32_MAX

typedef struct counting { /* outputs that differ in length: all values are one part */
    uint32_t n, output[STK_BIN_PARTS], joined; /* VALUES, or an output of patches; bits by part */
    uint64_t samples;
    uint32_t *length; /* n x samples */
    uint32_t n_drawn; /* outputs whose numbers are drawn by epoch */
    stk_drawn_part drawn[STK_BIN_PARTS];
} counting;

static int list_parts(const stk_plan_chains *c, counting *p, stk_error *err)
{
    uint32_t values = 0, padded = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        if (c->chain[i].counted && !c->chain[i].spec.picture.patch.side) {
            values++;
            padded += !c->out[i].joined;
        }
    if (values) {
        p->output[p->n++] = VALUES;
        p->joined = !padded;
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        if (!c->chain[i].counted || !c->chain[i].spec.picture.patch.side)
            continue;
        if (p->n == STK_BIN_PARTS)
            return stk_fail(err, STK_ELIMIT, "more than %d outputs of patches count in a batch",
                            STK_BIN_PARTS - 1);
        p->joined |= (uint32_t)c->out[i].joined << p->n;
        p->output[p->n++] = i;
    }
    return p->n ? 0
                : stk_fail(err, STK_EINVAL,
                           "no output has rows that differ in length: max_tokens and bucket are "
                           "for `sound`, `patches`, `ints`, `floats`, `npy` and `bytes` with "
                           "collate=\"pad\" or collate=\"list\"");
}

/* Several pictures of random sizes count what their rule allows at most: there is such a rule. */
static int check_bounds(const stk_plan_chains *c, stk_error *err)
{
    uint32_t bound;

    for (uint32_t i = 0; i < c->n_out; i++)
        if (is_pictures(c, i)) {
            STK_TRY(stk_patch_bound(&c->chain[i], c->out[i].name, &bound, err));
            if (bound && !c->chain[i].sizes.drawn)
                return stk_fail(err, STK_ENOTSUP,
                                "output %s: an op makes its sizes random and does not say so "
                                "(STK_OP_SIZES): give lengths=",
                                c->out[i].name);
        }
    return 0;
}

static int take_measured(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                         const counting *p, uint64_t first, stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;
    uint64_t n = stk_dataset_len(so_far->data.set[d]);
    uint32_t most = most_of(c), *column;
    int rc;

    if (!n || !any_measured(c))
        return 0;
    column = stk_zalloc(n * columns(c), sizeof *column);
    if (!column)
        return stk_fail_nomem(err, n * columns(c) * sizeof *column);
    rc = of_dataset(so_far, d, o, column, err);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        column[i] = column[i] < most ? column[i] : most;
    for (uint32_t k = 0; rc == 0 && k < p->n; k++) {
        int values = p->output[k] == VALUES;

        if (values || is_pictures(c, p->output[k]))
            memcpy(p->length + k * p->samples + first,
                   column + (values ? 0 : column_of(c, p->output[k])) * n, n * sizeof *column);
    }
    stk_free(column);
    return rc;
}

/* Outputs of one picture whose numbers of patches random crops decide: batches of a budget are
 * planned by what each epoch draws. */
static int list_drawn(const stk_plan *so_far, const stk_loader_options *o, counting *p,
                      stk_error *err)
{
    for (uint32_t k = 0; o->max_tokens && k < p->n; k++) {
        stk_drawn_part *part = &p->drawn[p->n_drawn];
        uint32_t i = p->output[k];

        if (i == VALUES || is_pictures(&so_far->chains, i))
            continue;
        *part = (stk_drawn_part){ .output = i, .part = k };
        STK_TRY(stk_patch_bound(&so_far->chains.chain[i], so_far->chains.out[i].name, &part->bound,
                                err));
        if (!part->bound)
            continue;
        part->size = stk_zalloc(p->samples + 1, sizeof *part->size);
        if (!part->size)
            return stk_fail_nomem(err, p->samples * sizeof *part->size);
        p->n_drawn++;
    }
    return 0;
}

/* By the sizes of one picture per sample. */
static int count_patches(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                         const counting *p, uint64_t first, stk_error *err)
{
    for (uint32_t k = 0; k < p->n; k++) {
        stk_patch_counts out = { p->length + k * p->samples + first, NULL };

        if (p->output[k] == VALUES || is_pictures(&so_far->chains, p->output[k]))
            continue;
        for (uint32_t i = 0; i < p->n_drawn; i++)
            if (p->drawn[i].part == k)
                out.size = p->drawn[i].size + first;
        STK_TRY(stk_patch_lengths(so_far, d, p->output[k], o, &out, err));
    }
    return 0;
}

static int find_parts(const stk_schedule *s, const stk_plan *so_far, const stk_loader_options *o,
                      counting *p, stk_error *err)
{
    STK_TRY(check_bounds(&so_far->chains, err));
    STK_TRY(list_drawn(so_far, o, p, err));
    for (uint32_t d = 0; d < so_far->data.n; d++) {
        STK_TRY(take_measured(so_far, d, o, p, s->start[d], err));
        STK_TRY(count_patches(so_far, d, o, p, s->start[d], err));
    }
    return 0;
}

/* A sample counts the sum of its parts.  Those that are padded, each to its own longest, are kept
 * apart for batches, as long as their tensors will be. */
static void sum_parts(stk_schedule *s, counting *p, int apart, uint32_t multiple)
{
    for (uint64_t i = 0; i < p->samples; i++) {
        uint64_t sum = 0;

        for (uint32_t k = 0; k < p->n; k++) {
            uint32_t *len = &p->length[k * p->samples + i];

            if (apart && !(p->joined >> k & 1) && *len)
                *len = (uint32_t)stk_bin_round(*len, multiple);
            sum += *len;
        }
        s->lengths[i] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    }
    if (!apart)
        return;
    s->parts = p->length;
    s->binning.parts = (stk_bin_parts){ p->n, p->joined, s->parts, p->samples };
    p->length = NULL;
}

/* over_budget="truncate": what samples count that are over the budget.  Called before parts are
 * summed. */
static int truncate_over(stk_schedule *s, const stk_plan *so_far, const stk_loader_options *o,
                         const counting *p, stk_error *err)
{
    uint32_t none = 0, values = UINT32_MAX, patches = 0;
    stk_truncating t;
    int rc = 0;

    if (!stk_truncates(o))
        return 0;
    STK_TRY(stk_truncating_init(&t, s, &so_far->chains, o, err));
    for (uint32_t k = 0; k < p->n; k++)
        *(p->output[k] == VALUES ? &values : &patches) = k;
    for (uint64_t i = 0; rc == 0 && i < p->samples; i++)
        rc = stk_truncating_add(&t, i, &p->length[patches * p->samples + i],
                                values == UINT32_MAX ? &none : &p->length[values * p->samples + i],
                                err);
    if (rc == 0 && s->truncated.n)
        stk_log_line(&so_far->policy.log, STK_LOG_WARN,
                     "%" PRIu64 " of %" PRIu64
                     " samples may be longer than max_tokens: output %s keeps what fits of their "
                     "pictures",
                     s->truncated.n, p->samples, so_far->chains.out[s->truncated.output].name);
    return rc;
}

static int count_all(stk_schedule *s, const stk_plan *so_far, const stk_loader_options *o,
                     counting *p, stk_error *err)
{
    int apart = o->max_tokens && p->joined != (1u << p->n) - 1;
    uint32_t multiple;
    int rc;

    if (p->n == 1) {
        p->length = s->lengths;
        STK_TRY(find_parts(s, so_far, o, p, err));
        return truncate_over(s, so_far, o, p, err);
    }
    STK_TRY(stk_bins_multiple(&so_far->chains, &multiple, err));
    p->length = stk_zalloc(p->n * p->samples + 1, sizeof *p->length);
    if (!p->length)
        return stk_fail_nomem(err, p->n * p->samples * sizeof *p->length);
    rc = find_parts(s, so_far, o, p, err);
    if (rc == 0)
        rc = truncate_over(s, so_far, o, p, err);
    if (rc == 0)
        sum_parts(s, p, apart, multiple);
    for (uint32_t i = 0; i < p->n_drawn; i++)
        p->drawn[i].multiple = apart && !(p->joined >> p->drawn[i].part & 1) ? multiple : 0;
    stk_free(p->length);
    return rc;
}

static int count(stk_schedule *s, const stk_plan *so_far, const stk_loader_options *o, counting *p,
                 stk_error *err)
{
    int rc = count_all(s, so_far, o, p, err);

    if (rc == 0 && p->n_drawn)
        rc = stk_drawn_plan(s, so_far, p->drawn, p->n_drawn, err);
    for (uint32_t i = 0; i < p->n_drawn; i++)
        stk_free(p->drawn[i].size);
    return rc;
}

static int take_given(stk_schedule *s, const stk_loader_options *o, uint32_t most, stk_error *err)
{
    uint64_t n = s->start[s->n_data];

    if (o->n_lengths != n)
        return stk_fail(err, STK_EINVAL,
                        "lengths has %" PRIu64 " entries and the data %" PRIu64
                        " samples: give one for each",
                        o->n_lengths, n);
    for (uint64_t i = 0; i < n; i++)
        s->lengths[i] = o->lengths[i] < most ? o->lengths[i] : most;
    return 0;
}

int stk_lengths_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err)
{
    const stk_loader_options *o = in->o;
    counting p = { .samples = s->start[so_far->data.n] };

    STK_TRY(list_parts(&so_far->chains, &p, err));
    s->lengths = stk_zalloc(p.samples + 1, sizeof *s->lengths);
    if (!s->lengths)
        return stk_fail_nomem(err, p.samples * sizeof *s->lengths);
    if (o->lengths && !(o->max_seconds > 0)) /* else they are seconds */
        return take_given(s, o, most_of(&so_far->chains), err);
    return count(s, so_far, o, &p, err);
}
