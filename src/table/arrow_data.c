/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_data.c - Arrow tables as a loader reads them: a value is a piece of memory that is there
 * already, but for those that arrow_packed_data.c makes. */
#include "table/arrow_data.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

#define SPAN_BYTES ((uint64_t)1 << 18) /* of a map that are copied at once */

static const stk_arrow *of(const stk_dataset *d)
{
    return (const stk_arrow *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_table *t = &of(d)->base;

    (void)err;
    for (uint32_t i = 0; i < t->n_columns; i++)
        out->content = stk_hash64(out->content, t->column[i].name, strlen(t->column[i].name));
    for (uint64_t i = 0; i < t->names.n; i++) {
        uint64_t what[] = { t->file[i].size, t->file[i].rows };

        out->content = stk_hash64(out->content, what, sizeof what);
    }
    stk_table_print(t, out);
    return 0;
}

/* ---- its bytes ---- */

/* The batch that has this row, which the shard has. */
static const stk_arrow_batch *batch_of(const stk_arrow_shard *s, uint64_t row)
{
    uint64_t lo = 0, hi = s->n_batches;

    while (hi - lo > 1) { /* first[lo] <= row; of batches without rows the last one */
        uint64_t mid = lo + (hi - lo) / 2;

        if (s->batch[mid].first <= row)
            lo = mid;
        else
            hi = mid;
    }
    return &s->batch[lo];
}

/* Before each touch of the map: what was written into the file since does not go with what was read
 * before.  What is cut away meanwhile is guarded.h's. */
static int still_whole(const stk_arrow *a, uint64_t shard, stk_error *err)
{
    const stk_arrow_shard *s = &a->shard[shard];
    uint64_t size = a->base.file[shard].size;
    struct stat st;

    if (!s->map)
        return 0;
    if (fstat(s->fd, &st) == 0 && (uint64_t)st.st_size >= size && !stk_guarded_torn(s->map) &&
        (!s->mtime_ns ||
         s->mtime_ns == (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec))
        return 0;
    stk_fail(err, STK_ESTALE,
             "the file is %s when it was opened: open it again, and replace files instead of "
             "writing into them",
             (uint64_t)st.st_size < size ? "shorter than" : "not what it was");
    stk_error_at(err, a->base.names.name[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_ESTALE;
}

static int data_unchanged(const stk_dataset *d, stk_error *err)
{
    const stk_arrow *a = of(d);
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < a->base.names.n; i++) {
        rc = still_whole(a, i, err);
        if (rc == 0 && a->shard[i].mtime_ns &&
            stk_local_renamed(a->base.names.name[i], a->base.file[i].id)) {
            rc = stk_fail(err, STK_ESTALE,
                          "another file has this name now than when it was opened: open it again");
            stk_error_at(err, a->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
        }
    }
    return rc;
}

/* After a touch: what went wrong may be that the file is another one by now. */
static int still_or(const stk_arrow *a, uint64_t shard, int rc, stk_error *err)
{
    int now = rc == STK_ESTALE ? rc : still_whole(a, shard, err);

    return now < 0 ? now : rc;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_arrow *a = of(d);
    const stk_arrow_shard *s = &a->shard[e->shard];
    const stk_arrow_batch *b = batch_of(s, e->row);
    uint32_t number = (uint32_t)f->offset;
    const stk_arrow_leaf *l = number < STK_GATHER_FIRST ? stk_arrow_leaf_of(s, number) : NULL;
    int rc;

    out->absent = l && l->path[l->depth - 1]->type == STK_ARROW_NULL;
    if (out->absent)
        return 0;
    STK_TRY(still_whole(a, e->shard, err));
    if (number >= STK_GATHER_FIRST || b->packed) {
        rc = stk_arrow_made_place(a, e, number, b, out, err);
        return rc < 0 ? still_or(a, e->shard, rc, err) : 0;
    }
    rc = stk_arrow_value(b, l, e->row - b->first, &out->here, err);
    out->absent = rc == STK_ENOTFOUND;
    if (rc == STK_ARROW_MADE || (rc == 0 && l->decimal)) {
        size_t len = out->here.len;
        int list = rc == STK_ARROW_MADE;

        rc = stk_arrow_made_place(a, e, number, b, out, err);
        if (list)
            out->unpacked = len;
        return rc;
    }
    if (named && rc == 0)
        *out = (stk_place){ .whole = 1, .name = out->here };
    return out->absent ? 0 : rc;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    int rc = still_whole(of(d), job->shard, err);

    if (rc == 0)
        rc = stk_arrow_make(of(d), job, err);
    return still_or(of(d), job->shard, rc, err);
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *at, stk_bytes *bytes, stk_error *err)
{
    (void)f;
    return stk_arrow_pick(of(d), e, at, bytes, err);
}

/* Rows that are copied at once; of a map so many bytes, so that it is looked at again soon. */
static void data_span(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                      const stk_place *at, stk_value_span *s)
{
    const stk_arrow_shard *shard = &of(d)->shard[e->shard];
    const stk_arrow_batch *b;
    stk_bytes values = { 0 };

    if (at->shared) {
        stk_arrow_made_span(of(d), e, at, s);
        return;
    }
    b = batch_of(shard, e->row);
    s->n = at->here.data ? stk_arrow_rows(b, stk_arrow_leaf_of(shard, (uint32_t)f->offset),
                                          e->row - b->first, s->n, &values)
                         : 0;
    s->width = s->n ? (uint32_t)(values.len / s->n) : 0;
    if (shard->map && values.len > SPAN_BYTES)
        s->n = s->width > SPAN_BYTES ? 1 : SPAN_BYTES / s->width;
    s->first = NULL;
    s->data = values.data;
}

static void data_close(stk_dataset *d)
{
    stk_arrow *a = (stk_arrow *)d;

    for (size_t i = 0; a->shard && i < a->base.names.n; i++) {
        stk_arrow_ipc_close(&a->shard[i].ipc);
        if (a->shard[i].map) {
            stk_guarded_close(&a->shard[i].map);
            close(a->shard[i].fd);
        }
        stk_free((void *)a->shard[i].room);
    }
    stk_arrow_memory_close(&a->memory);
    stk_free(a->shard);
    stk_table_fini(&a->base);
    stk_free(a);
}

const stk_data_ops stk_arrow_ops = {
    .name = "arrow",
    .plural = "Arrow tables",
    STK_TABLE_OPS,
    .gather = stk_table_gather,
    .fingerprint = data_fingerprint,
    .locate = data_locate,
    .acquire = stk_table_no_file,
    .unpack = data_unpack,
    .pick = data_pick,
    .span = data_span,
    .trust.unchanged = data_unchanged,
    .close = data_close,
};
