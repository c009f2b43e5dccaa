/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_data.c - Arrow tables as a loader reads them: every value is a piece of memory that is there already. */
#include "table/arrow_data.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

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

/* Before each touch of the map: past the end of a file that was cut short there is a signal. */
static int still_whole(const stk_arrow *a, uint64_t shard, stk_error *err)
{
    const stk_arrow_shard *s = &a->shard[shard];
    struct stat st;

    if (!s->map || (fstat(s->fd, &st) == 0 && (uint64_t)st.st_size >= a->base.file[shard].size))
        return 0;
    stk_fail(err, STK_ESTALE, "the file is shorter than when it was opened: open it again, and replace files instead of "
                              "writing into them");
    stk_error_at(err, a->base.names.name[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_ESTALE;
}

static int value_of(const stk_arrow *a, uint64_t shard, uint32_t field, uint64_t row, stk_bytes *out, stk_error *err)
{
    const stk_arrow_shard *s = &a->shard[shard];
    const stk_arrow_batch *b = batch_of(s, row);

    STK_TRY(still_whole(a, shard, err));
    return stk_arrow_value(b, &s->schema->leaf[field], row - b->first, out, err);
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named, stk_place *out,
                       stk_error *err)
{
    const stk_arrow *a = of(d);
    uint32_t number = (uint32_t)f->offset;
    int rc;

    (void)named;
    if (number >= STK_GATHER_FIRST) {
        const stk_gather *g = stk_gather_number(&a->base.gathers, number);

        *out = (stk_place){ .unpacked = (uint64_t)g->n * g->size, .block = number, .row = e->row };
        return 0;
    }
    rc = value_of(a, e->shard, number, e->row, &out->here, err);
    out->absent = rc == STK_ENOTFOUND;
    return out->absent ? 0 : rc;
}

/* Columns taken together, for one row. */
static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_arrow *a = of(d);
    const stk_gather *g = stk_gather_number(&a->base.gathers, (uint32_t)job->place->block);

    for (uint32_t c = 0; c < g->n; c++) {
        stk_bytes value;
        int rc = value_of(a, job->shard, g->column[c].field, job->place->row, &value, err);

        if (rc == STK_ENOTFOUND && g->strict)
            return stk_gather_null(g, d, c, err);
        if (rc == STK_ENOTFOUND)
            memcpy((uint8_t *)job->dst + (size_t)c * g->size, g->empty, g->size);
        else if (rc < 0)
            return rc;
        else
            STK_TRY(stk_gather_put(g, c, value.data, 1, job->dst, err));
    }
    job->len = (size_t)g->n * g->size;
    return 0;
}

/* Requests want an open file; of this one nothing is ever read. */
static const void *nothing_peek(stk_file *f, uint64_t offset, size_t len)
{
    (void)f, (void)offset;
    return len ? NULL : "";
}

static int nothing_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->got = 0;
    return 0;
}

static void nothing_close(stk_file *f)
{
    (void)f;
}

static const stk_source nothing = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof nothing,
                                    .name = "nothing",
                                    .help = "",
                                    .read = nothing_read,
                                    .peek = nothing_peek,
                                    .close = nothing_close };
static stk_file no_file = { &nothing };

static int data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    (void)d, (void)shard, (void)err;
    *out = &no_file;
    return 0;
}

static void data_close(stk_dataset *d)
{
    stk_arrow *a = (stk_arrow *)d;

    for (size_t i = 0; a->shard && i < a->base.names.n; i++) {
        stk_arrow_ipc_close(&a->shard[i].ipc);
        if (a->shard[i].map) {
            munmap(a->shard[i].map, (size_t)a->base.file[i].size);
            close(a->shard[i].fd);
        }
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
    .acquire = data_acquire,
    .unpack = data_unpack,
    .close = data_close,
};
