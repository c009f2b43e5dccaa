/* SPDX-License-Identifier: Apache-2.0 */
/* check_walk.c - is the index what a walk over the shard gives today?
 *
 * Size and mtime say that a shard is the one that was indexed; they don't say that the index is
 * right.  So the shard is walked by its format once more, and every sample (key, offset, names,
 * places and sizes of its fields) is held against the index.  Both are in the order of their
 * offsets, so that one sample more or less is that, and not a difference in all that follow. */
#include <stdio.h>
#include <string.h>

#include "tools/check_model.h"
#include "source/folder_files.h"

#define TOLD 10u /* differences of a shard, one by one */

typedef struct walk {
    stk_scan base; /* first: the callbacks get its address */
    check *c;
    const char *shard;
    uint64_t id, end; /* what the index has next */
    uint64_t faults;
} walk;

static void differs(walk *w, uint64_t offset, stk_bytes key, const char *what)
{
    char reason[280];
    stk_bytes shown = stk_key_shown(key);
    stk_bad b = { .kind = STK_BAD_INDEX,
                  .code = STK_ESTALE,
                  .shard = w->shard,
                  .offset = offset,
                  .key = (const char *)shown.data,
                  .key_len = shown.len,
                  .reason = reason };

    atomic_fetch_add_explicit(&w->c->index_faults, 1, memory_order_relaxed);
    if (++w->faults > TOLD)
        return;
    snprintf(reason, sizeof reason, "%s; make the index again: stoker index --force ...", what);
    check_say(w->c, &b);
}

static void differs_by(walk *w, const stk_entry *e, const char *what, const stk_field *f,
                       const stk_field *is)
{
    char text[200], name[100];

    stk_text_show(is->name, is->name_len < 40 ? is->name_len : 40, name, sizeof name);
    snprintf(text, sizeof text, "field %.90s: the index has %s %" PRIu64 ", the shard %" PRIu64,
             name, what, *what == 'o' ? f->offset : f->size, *what == 'o' ? is->offset : is->size);
    differs(w, e->offset, e->key, text);
}

/* The sample that both have at this offset. */
static int compare(walk *w, const stk_entry *e, stk_bytes key, const stk_field *fields, uint32_t n,
                   stk_error *err)
{
    if (e->key.len != key.len || (key.len && memcmp(e->key.data, key.data, key.len))) {
        differs(w, e->offset, e->key, "the index has this key here, the shard has another");
        return 0;
    }
    if (e->n_fields != n) {
        differs(w, e->offset, e->key, "the index has another number of fields than the shard");
        return 0;
    }
    for (uint32_t k = 0; k < n; k++) {
        stk_field f;

        STK_TRY(w->c->ds->ops->field(w->c->ds, e, k, &f, err));
        if (f.name_len != fields[k].name_len || memcmp(f.name, fields[k].name, f.name_len))
            differs(w, e->offset, e->key, "the index has other names of fields than the shard");
        else if (f.offset != fields[k].offset)
            differs_by(w, e, "offset", &f, &fields[k]);
        else if (f.size != fields[k].size)
            differs_by(w, e, "size", &f, &fields[k]);
        else
            continue;
        return 0;
    }
    return 0;
}

static int on_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *fields,
                     uint32_t n, stk_error *err)
{
    walk *w = (walk *)scan;
    stk_entry e;

    for (; w->id < w->end; w->id++) {
        STK_TRY(w->c->ds->ops->entry(w->c->ds, w->id, &e, err));
        if (e.offset >= offset)
            break;
        differs(w, e.offset, e.key, "the index has this sample, the shard does not");
    }
    if (w->id == w->end || e.offset > offset) {
        differs(w, offset, key, "the shard has this sample, the index does not");
        return 0;
    }
    w->id++;
    return compare(w, &e, key, fields, n, err);
}

static int on_progress(stk_scan *scan, uint64_t offset)
{
    (void)offset;
    return check_tell(((walk *)scan)->c, 0);
}

static void on_warning(stk_scan *scan, const char *why)
{
    walk *w = (walk *)scan;

    atomic_fetch_add_explicit(&w->c->warnings, 1, memory_order_relaxed);
    check_say(w->c, &(stk_bad){ .kind = STK_BAD_WARNING,
                                .shard = w->shard,
                                .offset = STK_NO_OFFSET,
                                .reason = why });
}

/* What is left of the index, and how many differences were not told one by one. */
static int finish(walk *w, stk_error *err)
{
    char text[120];
    stk_entry e;
    uint64_t more;

    for (; w->id < w->end; w->id++) {
        STK_TRY(w->c->ds->ops->entry(w->c->ds, w->id, &e, err));
        differs(w, e.offset, e.key, "the index has this sample, the shard does not");
    }
    if (w->faults <= TOLD)
        return 0;
    more = w->faults - TOLD;
    snprintf(text, sizeof text, "%" PRIu64 " more differences between index and shard", more);
    check_say(w->c, &(stk_bad){ .kind = STK_BAD_INDEX,
                                .code = STK_ESTALE,
                                .shard = w->shard,
                                .offset = STK_NO_OFFSET,
                                .reason = text });
    return 0;
}

/* The shard can't be walked although it was once: cut short, or damaged between its samples. */
static void broken(walk *w, int rc, const stk_error *err)
{
    atomic_fetch_add_explicit(&w->c->index_faults, 1, memory_order_relaxed);
    check_say(w->c, &(stk_bad){ .kind = STK_BAD_INDEX,
                                .code = rc,
                                .shard = w->shard,
                                .offset = err->offset,
                                .reason = err->message });
}

static int walk_once(check *c, uint64_t shard, walk *w, stk_error *err)
{
    stk_shard_info info;
    stk_file_info now = { 0 };
    stk_file *f = NULL;
    int rc;

    STK_TRY(c->ds->ops->shard(c->ds, shard, &info, err));
    *w = (walk){ .base = { .sample = on_sample,
                           .progress = on_progress,
                           .warn = on_warning,
                           .name = stk_dataset_shard_name(c->ds, shard) },
                 .c = c,
                 .shard = info.name,
                 .id = info.first,
                 .end = info.first + info.samples };
    stk_index_scan_like(stk_shard_data_of(c->ds)->index, &w->base);
    STK_TRY(stk_url_open(STK_URL(stk_dataset_shard_name(c->ds, shard), c->ds->store), &f, err));
    rc = stk_file_stat(f, &now, err);
    if (rc == 0)
        rc = stk_shard_data_of(c->ds)->format->index(f, now.size, &w->base, err);
    stk_file_close(&f);
    return rc;
}

int check_walk(void *cookie, uint64_t shard, stk_error *err)
{
    check *c = cookie;
    uint32_t tries = 0;
    walk w = { .c = c };
    int rc;

    do
        rc = walk_once(c, shard, &w, err);
    while (!w.faults && check_again(rc, &tries));
    if (atomic_load_explicit(&c->stopped, memory_order_relaxed))
        return stk_fail(err, STK_ECLOSED, "stopped");
    if (rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == STK_ELIMIT || rc == STK_ENOTFOUND)
        broken(&w, rc, err);
    else if (rc < 0)
        return rc;
    return finish(&w, err);
}
