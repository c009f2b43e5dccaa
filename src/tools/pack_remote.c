/* SPDX-License-Identifier: Apache-2.0 */
/* pack_remote.c - the note of a pack whose target is a bucket.
 *
 * Objects can't be appended to, so that each shard has a note of its own, written before the shard
 * appears: DIR/.stoker/PATTERN.pack-FINGERPRINT-SHARD-SIZE.  The name says it all, and one listing
 * reads all of them; the text of a note is read only where samples failed ("+" at the end).  When
 * all shards are there, one note of the whole, PATTERN.pack, takes their place.  Processes that
 * write parts of a pack need no notes of parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/jobs.h"
#include "base/registry.h"
#include "tools/pack_side.h"
#include "tools/pack_stamp.h"

#define REMOVERS 16u /* they wait for the server most of the time */

int stk_remote_lock_path(const stk_stamp *s, char *out, size_t size)
{
    char cache[1024];
    uint64_t hash = stk_hash64(stk_hash64(0, s->path, strlen(s->path)), s->part, strlen(s->part));

    return stk_cache_home(cache, sizeof cache, NULL) &&
           snprintf(out, size, "%s/pack/%016" PRIx64 ".lock", cache, hash) < (int)size;
}

/* ---- reading ---- */

typedef struct reading {
    stk_stamp *s;
    uint64_t fingerprint;
    stk_names with_text; /* notes that must be read */
} reading;

/* "FINGERPRINT-SHARD-SIZE" or, where samples failed, with a "+" after it. */
static int note_name(const char *text, uint64_t *print, uint64_t *shard, uint64_t *size)
{
    char *end;

    *print = strtoull(text, &end, 16);
    if (end != text + 16 || *end != '-')
        return 0;
    *shard = strtoull(end + 1, &end, 10);
    if (*end != '-')
        return 0;
    *size = strtoull(end + 1, &end, 10);
    return !*end || !strcmp(end, "+");
}

static int on_note(void *cookie, const stk_listed *f, stk_error *err)
{
    reading *r = cookie;
    stk_stamp *s = r->s;
    size_t head = strlen(s->path), len = strlen(f->url);
    uint64_t print, shard, size;

    if (len > 7 && !strcmp(f->url + len - 7, ".failed"))
        s->listed_failed = 1;
    if (len == head && !strcmp(f->url, s->path))
        return stk_names_add(&r->with_text, f->url, len, err);
    if (len <= head + 1 || strncmp(f->url, s->path, head) != 0 || f->url[head] != '-' ||
        !note_name(f->url + head + 1, &print, &shard, &size))
        return 0;
    if (print != r->fingerprint)
        return stk_names_add(&s->foreign, f->url, len, err);
    s->notes++;
    if (shard >= s->n)
        return 0;
    s->others = 1;
    s->size[shard] = size;
    return f->url[len - 1] == '+' ? stk_names_add(&r->with_text, f->url, len, err) : 0;
}

static int read_text(reading *r, const char *url, stk_error *err)
{
    stk_text text = { 0 };
    int rc = stk_side_read(url, r->s->store, &text, err);

    if (rc == 0 && text.len)
        stk_stamp_parse(r->s, text.s, r->fingerprint);
    stk_free(text.s);
    if (rc == 0 && !r->s->found && !strcmp(url, r->s->path))
        rc = stk_names_add(&r->s->foreign, url, strlen(url), err);
    r->s->others |= r->s->found;
    r->s->whole |= r->s->found && !strcmp(url, r->s->path);
    r->s->found = 0;
    return rc;
}

/* The whole is read first: what is listed of single shards is later than it. */
int stk_remote_notes_load(stk_stamp *s, uint64_t fingerprint, stk_error *err)
{
    reading r = { .s = s, .fingerprint = fingerprint };
    size_t len = strlen(s->path) - strlen("pack");
    char *prefix = stk_strndup(s->path, len);
    int rc = prefix ? s->source->list(prefix, s->store, on_note, &r, err)
                    : stk_fail_nomem(err, len);

    s->fingerprint = fingerprint;
    for (size_t i = 0; rc == 0 && i < r.with_text.n; i++)
        rc = read_text(&r, r.with_text.name[i], err);
    stk_names_fini(&r.with_text);
    stk_free(prefix);
    return rc;
}

/* ---- writing ---- */

static int head_line(const stk_stamp *s, stk_text *out, stk_error *err)
{
    char line[STK_STAMP_HEAD];

    return stk_text_put(out, line, stk_stamp_head(s, s->fingerprint, line), err);
}

int stk_remote_note_add(const stk_stamp *s, const stk_stamp_line *l, const stk_text *line,
                        stk_error *err)
{
    size_t size = strlen(s->path) + 80;
    char *url = stk_alloc(size);
    stk_text text = { 0 };
    int rc = url ? head_line(s, &text, err) : stk_fail_nomem(err, size);

    if (rc == 0)
        rc = stk_text_put(&text, line->s, line->len, err);
    if (rc == 0) {
        snprintf(url, size, "%s-%016" PRIx64 "-%" PRIu64 "-%" PRIu64 "%s", s->path, s->fingerprint,
                 l->shard, l->size, l->failed && l->failed->len ? "+" : "");
        rc = stk_object_write(url, s->store, text.s, text.len, err);
    }
    stk_free(text.s);
    stk_free(url);
    return rc;
}

static int remove_one(void *cookie, uint64_t i, stk_error *err)
{
    const stk_names *l = cookie;

    return stk_registry_source(l->name[i])->remove(l->name[i], l->store, err);
}

int stk_remote_notes_begin(stk_stamp *s, stk_error *err)
{
    int rc;

    s->foreign.store = s->store;
    rc = stk_jobs_run(REMOVERS, s->foreign.n, remove_one, &s->foreign, err);
    stk_names_fini(&s->foreign);
    return rc;
}

static int collect(void *cookie, const stk_listed *f, stk_error *err)
{
    return stk_names_add(cookie, f->url, strlen(f->url), err);
}

/* Notes that can't be removed do no harm: the whole says the same. */
static void drop_notes(const stk_stamp *s)
{
    size_t len = strlen(s->path) + 2;
    char *prefix = stk_alloc(len);
    stk_names old = { .store = s->store };
    stk_error err;

    if (prefix) {
        snprintf(prefix, len, "%s-", s->path);
        if (s->source->list(prefix, s->store, collect, &old, &err) == 0)
            (void)!stk_jobs_run(REMOVERS, old.n, remove_one, &old, &err);
    }
    stk_names_fini(&old);
    stk_free(prefix);
}

int stk_remote_notes_settle(stk_stamp *s, stk_error *err)
{
    stk_text text = { 0 };
    int rc = 0;

    if (s->whole && !s->notes)
        return 0;
    rc = head_line(s, &text, err);
    for (uint64_t i = 0; rc == 0 && i < s->n; i++) {
        stk_text failed = { .s = s->failed[i], .len = s->failed[i] ? strlen(s->failed[i]) : 0 };
        stk_stamp_line line = { .shard = i, .size = s->size[i], .failed = &failed };

        rc = stk_stamp_line_text(&line, &text, err);
    }
    if (rc == 0)
        rc = stk_object_write(s->path, s->store, text.s, text.len, err);
    stk_free(text.s);
    if (rc == 0)
        drop_notes(s);
    return rc;
}
