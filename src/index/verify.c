/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - is a shard still the file that was indexed?
 *
 * Size and etag decide at once.  Another mtime alone may be a copy or a touch, so it is settled by
 * content, in two steps.  The bytes at up to 16 samples and their first and last field were hashed
 * when the index was made and are hashed again: a few dozen small reads, whatever the size of the
 * shard.  Then the format goes through the whole shard once more, as when it was indexed, and every
 * key, name, place and size must be what the index says. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/registry.h"
#include "format/format.h"
#include "index/layout.h"
#include "index/part.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"

static int print_row(const stk_index *ix, uint64_t id, idx_print *p, uint64_t *hash, stk_error *err)
{
    stk_entry e;
    stk_field field;

    STK_TRY(stk_index_entry(ix, id, &e, err));
    STK_TRY(idx_print_mix(p, e.offset, hash, err));
    for (uint32_t k = 0; k<e.n_fields; k += e.n_fields> 1 ? e.n_fields - 1 : 1) {
        STK_TRY(stk_index_field(ix, &e, k, &field, err));
        STK_TRY(idx_print_mix(p, field.offset, hash, err));
    }
    return 0;
}

static int print_rows(const stk_index *ix, const stk_shard_info *s, idx_print *p, uint64_t *out,
                      stk_error *err)
{
    int rc = 0;

    *out = s->size;
    for (uint64_t i = 0; rc == 0 && i < idx_print_rows(s->samples); i++)
        rc = print_row(ix, s->first + idx_print_row(s->samples, i), p, out, err);
    return rc;
}

/* The same walk as stk_index_part_print(), over the index instead of a part. */
static int print_now(const stk_index *ix, const stk_shard_info *s, stk_file *f, uint64_t *out,
                     stk_error *err)
{
    idx_print p = { .file = f, .size = s->size };
    int rc = 0;

    if (idx_print_note(&p)) {
        rc = print_rows(ix, s, &p, out, err);
        if (rc == 0)
            rc = idx_print_fetch(&p, err);
    }
    if (rc == 0)
        rc = print_rows(ix, s, &p, out, err);
    stk_free(p.data);
    return rc;
}

int stk_index_same_content(const stk_index *ix, uint64_t shard, stk_file *f, stk_error *err)
{
    stk_shard_info was;
    uint64_t print;

    STK_TRY(stk_index_shard(ix, shard, &was, err));
    STK_TRY(print_now(ix, &was, f, &print, err));
    if (print != was.print)
        return stk_fail(err, STK_ESTALE,
                        "shard has other content than the index was made from (same %" PRIu64
                        " bytes, changed since); run: stoker index --force ...",
                        was.size);
    return 0;
}

typedef struct listing { /* a folder's pictures now, held against the index */
    stk_scan scan;       /* first: the callbacks get its address */
    const stk_index *ix;
    uint64_t at, end; /* samples */
    int other;
} listing;

static int same_picture(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                        uint32_t n, stk_error *err)
{
    listing *l = (listing *)scan;
    stk_field was;
    stk_entry e;

    (void)offset;
    l->other = 1;
    if (l->at == l->end)
        return STK_ESTALE;
    STK_TRY(stk_index_entry(l->ix, l->at++, &e, err));
    if (e.key.len != key.len || memcmp(e.key.data, key.data, key.len) != 0 || e.n_fields != n)
        return STK_ESTALE;
    for (uint32_t k = 0; k < n; k++) {
        STK_TRY(stk_index_field(l->ix, &e, k, &was, err));
        if (was.size != fields[k].size || was.name_len != fields[k].name_len ||
            memcmp(was.name, fields[k].name, was.name_len) != 0)
            return STK_ESTALE;
    }
    l->other = 0;
    return 0;
}

/* 1: the folder has the pictures that were indexed, with the same names and sizes. */
static int same_listing(const stk_index *ix, const stk_shard_info *was, stk_file *f, stk_error *err)
{
    listing l = { { .sample = same_picture }, ix, was->first, was->first + was->samples, 0 };
    int rc = stk_format_folder.index(f, 0, &l.scan, err);

    if (rc < 0 && !l.other && l.at > was->first)
        return rc;
    return rc == 0 && l.at == l.end;
}

/* 1: the entry has every field of the sample that the index has, of the same size. */
static int keeps_fields(const stk_index *ix, const stk_entry *e, const stk_field *now, uint32_t n)
{
    stk_field was;
    uint32_t k, i;

    for (k = 0; k < e->n_fields; k++) {
        if (stk_index_field(ix, e, k, &was, NULL) < 0)
            return 0;
        for (i = 0; i < n; i++)
            if (now[i].name_len == was.name_len && now[i].size == was.size &&
                !memcmp(now[i].name, was.name, was.name_len))
                break;
        if (i == n)
            return 0;
    }
    return 1;
}

/* Listings are sorted, so what was indexed comes in its order, with new pictures in between. */
static int was_or_new(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                      uint32_t n, stk_error *err)
{
    listing *l = (listing *)scan;
    stk_entry e;

    (void)offset;
    if (l->at == l->end)
        return 0;
    STK_TRY(stk_index_entry(l->ix, l->at, &e, err));
    if (e.key.len != key.len || memcmp(e.key.data, key.data, key.len) != 0)
        return 0;
    l->other |= !keeps_fields(l->ix, &e, fields, n);
    l->at++;
    return 0;
}

int stk_index_only_added(const stk_index *ix, uint64_t shard, stk_file *f)
{
    listing l = { { .sample = was_or_new }, ix, 0, 0, 0 };
    stk_shard_info was;

    const stk_format *format = stk_registry_find(NULL, STK_PLUGIN_FORMAT, stk_index_format(ix));

    if (!format || stk_index_shard(ix, shard, &was, NULL) < 0 ||
        !(stk_folder_path(f) || stk_is_many(was.name)))
        return 0;
    l.scan.name = was.name;
    l.at = was.first;
    l.end = was.first + was.samples;
    return format->index(f, 0, &l.scan, NULL) == 0 && !l.other && l.at == l.end;
}

/* ---- all members again ---- */

void stk_index_scan_as(stk_index *ix, const stk_scan *options)
{
    ix->scan_as = *options;
}

void stk_index_scan_like(const stk_index *ix, stk_scan *scan)
{
    scan->salvage = ix->scan_as.salvage;
    scan->skip_damaged = ix->scan_as.skip_damaged;
    scan->encoding = ix->scan_as.encoding;
}

typedef struct walk {
    stk_scan scan;
    const stk_index *ix;
    const stk_shard_info *was;
    uint64_t row;
} walk;

static int other_member(const walk *w, stk_bytes key, uint64_t offset, stk_error *err)
{
    int rc = stk_fail(err, STK_ESTALE,
                      "shard was rewritten since it was indexed (same %" PRIu64
                      " bytes, other members from sample %" PRIu64 " on); run: stoker index ...",
                      w->was->size, w->row);

    stk_error_at(err, NULL, offset, stk_key_shown(key));
    return rc;
}

static int walk_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                       uint32_t n, stk_error *err)
{
    walk *w = (walk *)scan;
    stk_entry e;
    stk_field f;

    if (w->row >= w->was->samples)
        return other_member(w, key, offset, err);
    STK_TRY(stk_index_entry(w->ix, w->was->first + w->row, &e, err));
    if (e.offset != offset || e.n_fields != n || e.key.len != key.len ||
        (key.len && memcmp(e.key.data, key.data, key.len) != 0))
        return other_member(w, key, offset, err);
    for (uint32_t k = 0; k < n; k++) {
        STK_TRY(stk_index_field(w->ix, &e, k, &f, err));
        if (f.offset != fields[k].offset || f.size != fields[k].size ||
            f.name_len != fields[k].name_len || memcmp(f.name, fields[k].name, f.name_len) != 0)
            return other_member(w, key, offset, err);
    }
    w->row++;
    return 0;
}

static int walk_progress(stk_scan *scan, uint64_t offset)
{
    (void)scan;
    (void)offset;
    return 0;
}

/* The shard's absolute name: an index beside the data is in ROOT/.stoker, and names are relative to
 * ROOT. */
static const char *whole_name(const stk_index *ix, const char *name, char *buf, size_t size)
{
    size_t len = ix->path ? strlen(ix->path) : 0;

    if (name[0] == '/' || strstr(name, "://"))
        return name;
    for (int up = 2; len && up; len--)
        up -= ix->path[len - 1] == '/';
    return snprintf(buf, size, "%.*s/%s", (int)len, ix->path, name) < (int)size ? buf : name;
}

static int same_members(const stk_index *ix, const stk_shard_info *was, stk_file *f, stk_error *err)
{
    char name[4096];
    const stk_format *format = stk_registry_find(NULL, STK_PLUGIN_FORMAT, stk_index_format(ix));
    walk w = { .scan = { .sample = walk_sample, .progress = walk_progress }, .ix = ix, .was = was };
    stk_error why = { 0 };
    int rc;

    if (!format)
        return 0;
    w.scan.name = whole_name(ix, was->name, name, sizeof name);
    stk_index_scan_like(ix, &w.scan);
    rc = format->index(f, was->size, &w.scan, &why);
    if (rc < 0 && (rc == STK_ESTALE || rc == STK_ENOMEM || rc == STK_EIO)) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0)
        return stk_fail(err, STK_ESTALE,
                        "shard was rewritten since it was indexed, and can't be read now: %.140s",
                        why.message);
    return w.row == was->samples ? 0 : other_member(&w, (stk_bytes){ 0 }, STK_NO_OFFSET, err);
}

/* A directory: its own mtime, and where directories are in it, all of theirs.  Other times may come
 * from files that are no pictures, so the names and sizes of the pictures decide.  What is in the
 * files is checked when they are opened. */
static int check_folder(const stk_index *ix, const stk_shard_info *was, stk_file *f,
                        stk_file_info *now, stk_error *err)
{
    int same;

    if (was->etag[0])
        STK_TRY(stk_folder_state(f, now, err));
    if (now->mtime_ns == was->mtime_ns && !strcmp(now->etag, was->etag))
        return 0;
    same = same_listing(ix, was, f, err);
    if (same)
        return same < 0 ? same : 0;
    return stk_fail(err, STK_ESTALE,
                    "files were added, removed or renamed in this folder since it was indexed; "
                    "run: stoker index ... (where files are only added: open(..., "
                    "reindex=\"auto\"))");
}

/* Times of folders change with any file in them: the samples decide. */
static int check_pairs(const stk_index *ix, const stk_shard_info *was, stk_file *f, stk_error *err)
{
    int rc = same_members(ix, was, f, err);

    return rc != STK_ESTALE
               ? rc
               : stk_fail(err, rc,
                          "files were added, removed, renamed or changed in these folders since "
                          "they were indexed; run: stoker index \"%.60s...\" (where files are only "
                          "added: open(..., reindex=\"auto\"))",
                          was->name);
}

int stk_index_check_file(const stk_index *ix, uint64_t shard, stk_file *f, const int64_t *known,
                         stk_file_info *info, stk_error *err)
{
    stk_file_info now = { 0 };
    stk_shard_info was;

    STK_TRY(stk_index_shard(ix, shard, &was, err));
    STK_TRY(stk_file_stat(f, &now, err));
    if (info)
        *info = now;
    if (stk_folder_path(f))
        return check_folder(ix, &was, f, &now, err);
    if (stk_is_many(was.name))
        return strcmp(was.etag, now.etag) ? check_pairs(ix, &was, f, err) : 0;
    if (now.size != was.size)
        return stk_fail(err, STK_ESTALE,
                        "shard has %" PRIu64 " bytes, the index was made from %" PRIu64
                        "; run: stoker index --force ...",
                        now.size, was.size);
    if (was.etag[0] && now.etag[0] && strcmp(was.etag, now.etag) != 0)
        return stk_fail(
            err, STK_ESTALE,
            "shard has etag %s, the index was made from %s; run: stoker index --force ...",
            now.etag, was.etag);
    if (now.mtime_ns == was.mtime_ns || (known && now.mtime_ns == *known))
        return 0;
    STK_TRY(stk_index_same_content(ix, shard, f, err));
    return same_members(ix, &was, f, err);
}
