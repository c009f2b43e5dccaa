/* SPDX-License-Identifier: Apache-2.0 */
/* pack_alike.c - `dedup`: of samples that are alike the first one is taken.
 *
 * Every sample is read, for "near" its pictures are decoded too.  What was found is kept in the
 * target's folder, named after data and choice, so that a run that goes on, the parts of a split
 * and the parts of a plan need not read all of it again:
 *
 *     u64 magic, samples, n, hash of what follows; n x u64: position << 1 | near, ascending
 *
 * A file that is damaged or of something else is made again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/jobs.h"
#include "tools/look.h"
#include "tools/pack_model.h"

#define RUN 64u
#define MAGIC 0x31656B696C416B53u /* "SkAlike1" */

typedef struct alike {
    stk_pack_run *p;
    const char *only; /* the field that counts; NULL: all */
    int near;
    stk_same *same;
    uint64_t *look, *group;
    uint8_t *has_look;
    uint64_t *found, n; /* position << 1 | near */
    _Atomic uint64_t done;
    _Atomic int stopped;
} alike;

/* "exact", "near", "exact:FIELD", "near:FIELD". */
static int take_text(alike *a, const char *text, stk_error *err)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);

    a->near = len == 4 && !memcmp(text, "near", 4);
    a->only = colon ? colon + 1 : NULL;
    if ((a->near || (len == 5 && !memcmp(text, "exact", 5))) && (!colon || colon[1]))
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "dedup is exact or near, or of one field as exact:txt, not \"%.60s\"", text);
}

/* ---- what samples are like ---- */

typedef struct hand {
    stk_decoders decoders;
    stk_scratch scratch;
} hand;

static void hash_sample(alike *a, hand *h, uint64_t at)
{
    stk_sample *s = NULL;
    int counted = 0;
    stk_error err;

    if (stk_dataset_read(a->p->ds, a->p->id[at], &s, &err) < 0)
        s = NULL;
    for (uint32_t i = 0; s && i < stk_sample_fields(s); i++) {
        stk_media_info info;
        stk_look look;
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, i, &data, &len);

        if (a->only && strcmp(name, a->only) != 0)
            continue;
        counted = 1;
        stk_same_add(&a->same[at], name, data, len);
        if (a->near && !a->has_look[at] &&
            stk_look_read(&h->decoders, &h->scratch, (stk_bytes){ data, len }, STK_LOOK_PIXELS,
                          &info, &look) > 0) {
            a->look[at] = look.hash;
            a->has_look[at] = 1;
        }
    }
    if (!counted) /* like no other; a bad one is the pack's to report */
        a->same[at] = (stk_same){ stk_mix64(at), ~at };
    stk_sample_close(&s);
}

static int tick(void *cookie)
{
    alike *a = cookie;
    const stk_pack_options *o = &a->p->o;

    if (o->dedup_progress &&
        o->dedup_progress(o->progress_cookie, atomic_load_explicit(&a->done, memory_order_relaxed),
                          a->p->count))
        atomic_store_explicit(&a->stopped, 1, memory_order_relaxed);
    return atomic_load_explicit(&a->stopped, memory_order_relaxed);
}

static int hash_run(void *cookie, uint64_t run, stk_error *err)
{
    alike *a = cookie;
    uint64_t from = run * RUN, to = from + RUN < a->p->count ? from + RUN : a->p->count;
    hand h = { 0 };

    if (atomic_load_explicit(&a->stopped, memory_order_relaxed))
        return stk_fail(err, STK_ECLOSED, "stopped while samples were compared");
    STK_TRY(stk_decoders_init(&h.decoders, NULL, err));
    for (uint64_t at = from; at < to; at++)
        hash_sample(a, &h, at);
    atomic_fetch_add_explicit(&a->done, to - from, memory_order_relaxed);
    stk_decoders_fini(&h.decoders);
    stk_scratch_fini(&h.scratch);
    return 0;
}

static int groups(alike *a, stk_error *err)
{
    uint64_t n = a->p->count;

    STK_TRY(stk_same_groups(a->same, n, a->group, err));
    for (uint64_t i = 0; i < n; i++)
        if (a->group[i] != i)
            a->found[a->n++] = i << 1;
    if (!a->near)
        return 0;
    for (uint64_t i = 0; i < a->n; i++)
        a->has_look[a->found[i] >> 1] = 0; /* counted once, as equal */
    STK_TRY(stk_look_groups(a->look, a->has_look, n, a->group, err));
    for (uint64_t i = 0; i < n; i++)
        if (a->group[i] != i)
            a->found[a->n++] = i << 1 | 1;
    return 0;
}

static int compare(alike *a, stk_error *err)
{
    uint64_t n = a->p->count;

    a->same = stk_zalloc(n + 1, sizeof *a->same);
    a->look = stk_zalloc(n + 1, sizeof *a->look);
    a->group = stk_zalloc(n + 1, sizeof *a->group);
    a->has_look = stk_zalloc(n + 1, 1);
    a->found = stk_zalloc(n + 1, sizeof *a->found);
    if (!a->same || !a->look || !a->group || !a->has_look || !a->found)
        return stk_fail_nomem(err, n * sizeof *a->same);
    STK_TRY(stk_jobs_watch(a->p->o.num_workers, (n + RUN - 1) / RUN, hash_run, tick, a, err));
    return groups(a, err);
}

/* ---- what was found, kept ---- */

typedef struct note_head {
    uint64_t magic, samples, n, hash;
} note_head;

/* Of a target in a bucket it is in this host's cache; "": there is none. */
static char *note_path(const stk_pack_run *p, uint64_t print)
{
    size_t size = strlen(p->pattern.dir) + 1100;
    char *s = stk_alloc(size), cache[1024];

    if (s)
        s[0] = 0;
    if (s && stk_is_address(p->pattern.dir)) {
        if (stk_cache_home(cache, sizeof cache, NULL))
            snprintf(s, size, "%s/pack/alike-%016" PRIx64, cache, print);
    } else if (s)
        snprintf(s, size, "%s.stoker/alike-%016" PRIx64, p->pattern.dir, print);
    return s;
}

static int note_ok(const alike *a, const note_head *h)
{
    if (stk_hash64(MAGIC, a->found, h->n * sizeof *a->found) != h->hash)
        return 0;
    for (uint64_t i = 0; i < h->n; i++)
        if (a->found[i] >> 1 >= h->samples)
            return 0;
    return 1;
}

/* 1: it is there. */
static int note_read(alike *a, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    note_head h = { 0 };
    int ok = fd >= 0 && read(fd, &h, sizeof h) == (ssize_t)sizeof h && h.magic == MAGIC &&
             h.samples == a->p->count && h.n <= h.samples;
    size_t len = ok ? h.n * sizeof *a->found : 0;

    if (ok)
        a->found = stk_zalloc(h.n + 1, sizeof *a->found);
    ok = ok && a->found && read(fd, a->found, len + 1) == (ssize_t)len && note_ok(a, &h);
    if (fd >= 0)
        close(fd);
    a->n = ok ? h.n : 0;
    if (!ok) {
        stk_free(a->found);
        a->found = NULL;
    }
    return ok;
}

static int note_write(const alike *a, const char *path, stk_error *err)
{
    size_t len = a->n * sizeof *a->found;
    note_head h = { MAGIC, a->p->count, a->n, stk_hash64(MAGIC, a->found, len) };
    char *dir = stk_strndup(path, (size_t)(strrchr(path, '/') - path));
    stk_atomic_file f = { 0 };
    int rc = dir ? stk_shard_folder_make(dir, err) : stk_fail_nomem(err, 64);

    if (rc == 0)
        rc = stk_atomic_open(&f, path, err);
    if (rc == 0)
        rc = stk_atomic_write(&f, &h, sizeof h, 0, err);
    if (rc == 0)
        rc = stk_atomic_write(&f, a->found, len, sizeof h, err);
    if (rc == 0)
        rc = stk_atomic_commit(&f, STK_COMMIT_FAST, err);
    stk_atomic_close(&f);
    stk_free(dir);
    return rc;
}

/* Of the data, the samples that are compared, and how. */
static int print_of(stk_pack_run *p, uint64_t *out, stk_error *err)
{
    *out = stk_hash64(p->count, p->o.dedup, strlen(p->o.dedup));
    STK_TRY(stk_pack_source_print(p, out, err));
    *out = stk_hash64(*out, p->id, p->count * sizeof *p->id);
    return 0;
}

static void drop(const alike *a)
{
    stk_pack_run *p = a->p;
    uint64_t to = 0;

    for (uint64_t i = 0; i < a->n; i++) {
        p->id[a->found[i] >> 1] = UINT64_MAX;
        p->dropped.duplicates += !(a->found[i] & 1);
        p->dropped.near_duplicates += a->found[i] & 1;
    }
    for (uint64_t i = 0; i < p->count; i++)
        if (p->id[i] != UINT64_MAX)
            p->id[to++] = p->id[i];
    p->count = to;
}

int stk_pack_drop_alike(stk_pack_run *p, stk_error *err)
{
    alike a = { .p = p };
    uint64_t print = 0;
    char *path = NULL;
    int rc = take_text(&a, p->o.dedup, err);

    if (rc == 0)
        rc = print_of(p, &print, err);
    if (rc == 0 && !(path = note_path(p, print)))
        rc = stk_fail_nomem(err, 64);
    if (rc == 0 && !note_read(&a, path)) {
        rc = compare(&a, err);
        if (rc == 0 && path[0])
            rc = note_write(&a, path, err);
    }
    if (rc == 0)
        drop(&a);
    stk_free(path);
    stk_free(a.same);
    stk_free(a.look);
    stk_free(a.group);
    stk_free(a.has_look);
    stk_free(a.found);
    return rc;
}
