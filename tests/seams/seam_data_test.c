/* SPDX-License-Identifier: Apache-2.0 */
/* seam_data_test.c - a third kind of data, in one file: a table with pictures, numbers, lists and
 * nulls, whose rows follow from arithmetic.  All of a stk_data_ops and of stk_place is used once:
 *
 *     jpg     bytes, a range that unpack() turns into the picture for this row alone
 *     label   i32, nullable, in a block that the rows of a group share: unpack(), then pick()
 *     pos     f32 of 3, in memory
 *     ids     i64 of any length, a plain range
 *     name    bytes, in memory
 *
 * A .grid file has GROUP rows in each group: their labels, then a fixed piece for each row.  Every
 * stored byte but those of ids is XOR-ed. */
#include <stdatomic.h>

#include "data/data.h"
#include "make_tar.h"
#include "seam.h"

#define FILES 2
#define PER_FILE 96
#define ROWS (FILES * PER_FILE)
#define GROUP 16
#define LIST 5
#define MASK 0x5a

static uint8_t jpeg[8192];
static size_t jpeg_len;

static int is_null(uint64_t row)
{
    return row % 7 == 3;
}

static int32_t label_of(uint64_t row)
{
    return (int32_t)(row * 1001) - 5000;
}

static uint64_t list_of(uint64_t row, int64_t *out)
{
    for (int64_t i = 0; i < LIST; i++)
        out[i] = (int64_t)row * 10 + i;
    return row % (LIST + 1);
}

/* ---- the data set ---- */

enum { JPG, LABEL, POS, IDS, NAME, FIELDS };
static const stk_field_type types[FIELDS] = {
    { .name = "jpg" },
    { .name = "label", .dtype = STK_I32, .nullable = 1 },
    { .name = "pos", .dtype = STK_F32, .ndim = 1, .shape = { 3 } },
    { .name = "ids", .dtype = STK_I64, .ndim = 1, .shape = { -1 } },
    { .name = "name" },
};

typedef struct grid {
    stk_dataset base;
    char name[FILES][256];
    stk_file *file[FILES];
    float pos[ROWS][3];
    char text[ROWS][8];
    int damaged; /* row whose picture does not unpack; -1: none */
    _Atomic int held, unpacks;
} grid;

static _Atomic int closed;

static grid *of(const stk_dataset *d)
{
    return (grid *)(uintptr_t)d;
}

static uint64_t group_bytes(void)
{
    return GROUP * 4 + GROUP * (jpeg_len + LIST * 8);
}

static uint64_t row_at(uint64_t row) /* in its file */
{
    return row / GROUP * group_bytes() + GROUP * 4 + row % GROUP * (jpeg_len + LIST * 8);
}

static uint64_t grid_len(const stk_dataset *d)
{
    (void)d;
    return ROWS;
}

static const char *grid_kind(const stk_dataset *d)
{
    (void)d;
    return "grid";
}

static uint64_t grid_shards(const stk_dataset *d)
{
    (void)d;
    return FILES;
}

static const char *grid_shard_name(const stk_dataset *d, uint64_t shard)
{
    return shard < FILES ? of(d)->name[shard] : NULL;
}

static int grid_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    (void)err;
    *out = (stk_shard_info){ .name = of(d)->name[shard],
                             .size = PER_FILE / GROUP * group_bytes(),
                             .first = shard * PER_FILE,
                             .samples = PER_FILE };
    return 0;
}

static int grid_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    (void)d;
    if (field < FIELDS)
        *out = types[field];
    return field < FIELDS;
}

static int grid_fingerprint(const stk_dataset *d, stk_fingerprint *p, stk_error *err)
{
    (void)d;
    (void)err;
    p->samples += ROWS;
    p->shards += FILES;
    p->content += 4711;
    return 0;
}

static uint32_t grid_schemas(const stk_dataset *d)
{
    (void)d;
    return 1;
}

static int grid_find(const stk_dataset *d, uint32_t schema, const char *name)
{
    (void)d;
    assert_int_equal(schema, 0);
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(types[i].name, name))
            return i;
    return -1;
}

static int grid_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    (void)d;
    if (sample >= ROWS)
        return stk_fail(err, STK_EINVAL, "row %" PRIu64 " does not exist", sample);
    *out = (stk_entry){ .shard = sample / PER_FILE,
                        .row = sample % PER_FILE,
                        .offset = row_at(sample % PER_FILE),
                        .n_fields = FIELDS,
                        .key.data = (const uint8_t *)"" };
    return 0;
}

static int grid_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                      stk_error *err)
{
    (void)d;
    (void)e;
    (void)err;
    *out = (stk_field){ types[number].name, strlen(types[number].name), number, 0 };
    return 0;
}

static int grid_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    uint64_t row = e->shard * PER_FILE + e->row;
    int64_t list[LIST];

    (void)err;
    assert_false(named);
    out->row = row;
    out->offset = row_at(e->row);
    if (f->offset == JPG) {
        out->len = jpeg_len;
        out->unpacked = jpeg_len;
    } else if (f->offset == LABEL && is_null(row)) {
        out->absent = 1;
    } else if (f->offset == LABEL) {
        *out = (stk_place){ .offset = e->row / GROUP * group_bytes(),
                            .len = GROUP * 4,
                            .unpacked = GROUP * 4,
                            .block = e->row / GROUP,
                            .shared = 1,
                            .row = e->row % GROUP };
    } else if (f->offset == IDS) {
        out->offset += jpeg_len;
        out->len = 8 * list_of(row, list);
    } else if (f->offset == POS) {
        out->here = (stk_bytes){ (const uint8_t *)of(d)->pos[row], sizeof of(d)->pos[row] };
    } else {
        out->here = (stk_bytes){ (const uint8_t *)of(d)->text[row], strlen(of(d)->text[row]) };
    }
    return 0;
}

static int grid_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    grid *g = of(d);

    (void)err;
    *out = g->file[shard];
    atomic_fetch_add(&g->held, 1);
    return 0;
}

static void grid_release(const stk_dataset *d, uint64_t shard)
{
    (void)shard;
    atomic_fetch_sub(&of(d)->held, 1);
}

static int grid_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    uint8_t *to = job->dst;

    assert_true(job->len == job->raw.len && job->len == job->place->unpacked);
    assert_int_equal((uintptr_t)to % 64, 0);
    if (!job->place->shared && (int64_t)job->place->row == of(d)->damaged)
        return stk_fail(err, STK_ECORRUPT, "this picture does not unpack");
    if (job->place->shared)
        atomic_fetch_add(&of(d)->unpacks, 1);
    for (size_t i = 0; i < job->len; i++)
        to[i] = job->raw.data[i] ^ MASK;
    return 0;
}

static int grid_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *p, stk_bytes *bytes, stk_error *err)
{
    (void)d;
    (void)e;
    (void)f;
    (void)err;
    assert_int_equal(bytes->len, GROUP * 4);
    *bytes = (stk_bytes){ bytes->data + p->row * 4, 4 };
    return 0;
}

static void grid_close(stk_dataset *d)
{
    grid *g = of(d);

    assert_int_equal(atomic_load(&g->held), 0);
    for (int i = 0; i < FILES; i++)
        stk_file_close(&g->file[i]);
    stk_free(g);
    closed++;
}

static const stk_data_ops ops = {
    .name = "grid",
    .plural = "grids",
    .len = grid_len,
    .kind = grid_kind,
    .shards = grid_shards,
    .shard_name = grid_shard_name,
    .shard = grid_shard,
    .type = grid_type,
    .fingerprint = grid_fingerprint,
    .schemas = grid_schemas,
    .find = grid_find,
    .entry = grid_entry,
    .field = grid_field,
    .locate = grid_locate,
    .acquire = grid_acquire,
    .release = grid_release,
    .unpack = grid_unpack,
    .pick = grid_pick,
    .close = grid_close,
};

/* ---- making one ---- */

static void write_masked(FILE *f, const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        fputc(((const uint8_t *)data)[i] ^ MASK, f);
}

static void make_file(const char *path, uint64_t first)
{
    FILE *f = fopen(path, "wb");
    int64_t list[LIST];

    assert_non_null(f);
    for (uint64_t row = first; row < first + PER_FILE; row++) {
        for (uint64_t i = row; row % GROUP == 0 && i < row + GROUP; i++) {
            int32_t label = is_null(i) ? 99 : label_of(i);

            write_masked(f, &label, sizeof label);
        }
        write_masked(f, jpeg, jpeg_len);
        list_of(row, list);
        fwrite(list, 8, LIST, f);
    }
    assert_int_equal(fclose(f), 0);
}

static stk_dataset *grid_open(void)
{
    grid *g = STK_NEW(grid);
    stk_error err;

    assert_non_null(g);
    stk_dataset_init(&g->base, &ops, STK_DATA_BLOCKS);
    g->damaged = -1;
    for (int i = 0; i < FILES; i++) {
        snprintf(g->name[i], sizeof g->name[i], "%s/%d.grid", seam_dir(), i);
        seam_ok(stk_url_open(STK_URL(g->name[i], NULL), &g->file[i], &err), &err);
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        for (int k = 0; k < 3; k++)
            g->pos[i][k] = (float)i + (float)k / 4;
        snprintf(g->text[i], sizeof g->text[i], "row%u", (unsigned)i);
    }
    return &g->base;
}

static int setup(void **state)
{
    FILE *f = fopen(getenv("SEAM_JPEG"), "rb");
    char path[300];

    (void)state;
    assert_non_null(f);
    jpeg_len = fread(jpeg, 1, sizeof jpeg, f);
    fclose(f);
    assert_true(jpeg_len > 100 && jpeg_len < sizeof jpeg);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d.grid", seam_dir(), i);
        make_file(path, (uint64_t)i * PER_FILE);
    }
    f = fopen(seam_path("one.tar"), "wb");
    assert_non_null(f);
    tar_member(f, "a.jpg", jpeg, jpeg_len);
    tar_end(f);
    return fclose(f);
}

/* ---- outputs: pictures and numbers side by side ---- */

#define PICTURE "from(jpg) | image | resize((12, 16)) | to(f32)"
static const stk_output outputs[] = {
    { "image", PICTURE },
    { "label", "from(label, default=-7) | int" },
    { "pos", "from(pos)" },
    { "ids", "from(ids) | to(i32)" },
    { "name", "text" },
    { "cut", "from(ids) | truncate(2)" },
    { "half", "from(pos) | to(f16)" },
};
static const stk_collation collations[] = {
    [3] = { STK_COLLATE_PAD, -1, 0 }, [5] = { STK_COLLATE_LIST, 0, 0 }, [6] = { 0 }
};

static stk_loader_options options(uint32_t batch, int32_t workers)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .batch_size = batch,
                                 .num_workers = workers,
                                 .outputs = outputs,
                                 .n_outputs = 7,
                                 .collations = collations };
}

/* The picture as shards give it. */
static void picture(float *out)
{
    stk_output one = { "i", PICTURE };
    stk_loader_options o = { .size = sizeof o, .batch_size = 1, .outputs = &one, .n_outputs = 1 };
    stk_dataset *ds = seam_open("", "one.tar", NULL);
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    stk_tensor t;
    stk_error err;

    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    assert_int_equal(stk_batch_dense(b, 0, &t), 0);
    memcpy(out, t.data, 3 * 12 * 16 * sizeof *out);
    stk_batch_release(&b);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

static void check_row(const stk_batch *b, uint32_t row, const float *want)
{
    uint64_t id = stk_batch_ids(b)[row];
    int64_t list[LIST], label, n = (int64_t)list_of(id, list);
    char text[16];
    stk_tensor t;
    size_t len;

    assert_int_equal(stk_batch_row(b, 0, row, &t), 0);
    assert_memory_equal(t.data, want, 3 * 12 * 16 * sizeof *want);
    assert_int_equal(stk_batch_row(b, 1, row, &t), 0);
    assert_int_equal(t.dtype, STK_I64);
    memcpy(&label, t.data, sizeof label);
    assert_int_equal(label, is_null(id) ? -7 : label_of(id));
    assert_int_equal(stk_batch_row(b, 2, row, &t), 0);
    assert_true(t.dtype == STK_F32 && t.ndim == 1 && t.shape[0] == 3);
    for (int k = 0; k < 3; k++)
        assert_true(((float *)t.data)[k] == (float)id + (float)k / 4);
    assert_int_equal(stk_batch_row(b, 3, row, &t), 0);
    assert_true(t.dtype == STK_I32 && t.ndim == 1 && t.shape[0] == n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(((int32_t *)t.data)[i], list[i]);
    assert_int_equal(stk_batch_row(b, 4, row, &t), 0);
    snprintf(text, sizeof text, "row%u", (unsigned)id);
    assert_int_equal(t.shape[0], strlen(text));
    assert_memory_equal(t.data, text, strlen(text));
    assert_int_equal(stk_batch_row(b, 5, row, &t), 0);
    assert_true(t.dtype == STK_I64 && t.shape[0] == (n < 2 ? n : 2));
    if (n)
        assert_memory_equal(t.data, list, (size_t)t.shape[0] * 8);
    assert_string_equal(stk_batch_key(b, row, &len), "");
}

static uint64_t bad; /* rows of the last epoch that another sample stands in for */

static uint64_t epoch(stk_loader *l, const float *want, uint64_t *ids)
{
    stk_batch *b = NULL;
    uint64_t n = 0;
    stk_tensor t;
    stk_error err;
    int rc;

    bad = 0;
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        assert_int_equal(stk_batch_dense(b, 3, &t), 0); /* padded */
        for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
            bad += !stk_batch_valid(b)[i];
            if (stk_batch_valid(b)[i])
                check_row(b, i, want);
            ids[n++] = stk_batch_ids(b)[i];
        }
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        seam_ok(rc, &err);
    return n;
}

static void rows_of_every_kind(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 3 };
    float want[3 * 12 * 16];
    uint64_t ids[2][ROWS];

    (void)state;
    picture(want);
    for (int k = 0; k < 3; k++) {
        stk_loader_options o = options(10, workers[k]);
        stk_dataset *ds = grid_open();
        stk_loader *l;

        o.shuffle = k == 2 ? STK_SHUFFLE_BLOCK : STK_SHUFFLE_EXACT;
        o.seed = 5;
        l = seam_loader(&ds, 1, &o);
        assert_int_equal(epoch(l, want, ids[0]), ROWS);
        assert_int_equal(epoch(l, want, ids[1]), ROWS);
        assert_int_equal(bad, 0);
        assert_true(memcmp(ids[0], ids[1], sizeof ids[0]) != 0);
        assert_true(atomic_load(&of(ds)->unpacks) > 0);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
    assert_int_equal(closed, 3);
}

/* The rows of a group share one unpacked block. */
static void blocks_are_shared(void **state)
{
    stk_output one = { "label", "from(label, default=0)" };
    stk_loader_options o = {
        .size = sizeof o, .batch_size = 7, .num_workers = STK_NONE, .outputs = &one, .n_outputs = 1
    };
    stk_dataset *ds = grid_open();
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    uint64_t n = 0;
    stk_tensor t;
    stk_error err;

    (void)state;
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        assert_int_equal(stk_batch_dense(b, 0, &t), 0);
        assert_int_equal(t.dtype, STK_I32);
        for (int64_t i = 0; i < t.shape[0]; i++, n++)
            assert_int_equal(((int32_t *)t.data)[i], is_null(n) ? 0 : label_of(n));
        stk_batch_release(&b);
    }
    assert_int_equal(n, ROWS);
    assert_int_equal(atomic_load(&of(ds)->unpacks), ROWS / GROUP);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

/* ds[i]: fields as they are stored; one that is null has no data. */
static void single_samples(void **state)
{
    stk_dataset *ds = grid_open();
    stk_error err;
    stk_field_type type;

    (void)state;
    for (uint64_t i = 0; i < ROWS; i++) {
        int64_t list[LIST];
        uint64_t n = list_of(i, list);
        int32_t label = label_of(i);
        stk_sample *x = NULL;
        const void *data;
        size_t len;

        seam_ok(stk_dataset_read(ds, i, &x, &err), &err);
        assert_int_equal(stk_sample_fields(x), FIELDS);
        assert_string_equal(stk_sample_field(x, JPG, &data, &len), "jpg");
        assert_int_equal(len, jpeg_len);
        assert_memory_equal(data, jpeg, len);
        assert_string_equal(stk_sample_field(x, LABEL, &data, &len), "label");
        assert_int_equal(len, is_null(i) ? 0 : 4);
        if (is_null(i))
            assert_null(data);
        else
            assert_memory_equal(data, &label, 4);
        stk_sample_field(x, IDS, &data, &len);
        assert_int_equal(len, 8 * n);
        if (n)
            assert_memory_equal(data, list, len);
        assert_string_equal(stk_sample_shard(x), grid_shard_name(ds, i / PER_FILE));
        stk_sample_close(&x);
    }
    assert_int_equal(stk_dataset_field_type(ds, POS, &type), 1);
    assert_true(type.dtype == STK_F32 && type.ndim == 1 && type.shape[0] == 3);
    assert_int_equal(stk_dataset_field_type(ds, FIELDS, &type), 0);
    assert_null(stk_dataset_arrays(ds));
    stk_dataset_unref(&ds);
}

/* Fields that are numbers are columns without an index; others are read too. */
static void columns(void **state)
{
    stk_dataset *ds = grid_open();
    stk_column *c = NULL;
    stk_column_type type;
    int64_t label[ROWS];
    uint8_t valid[ROWS];
    const char *text[ROWS];
    size_t len[ROWS];
    stk_error err;

    (void)state;
    assert_string_equal(stk_dataset_column(ds, 0, &type), "label");
    assert_int_equal(type, STK_COLUMN_I64);
    assert_null(stk_dataset_column(ds, 1, NULL));
    seam_ok(stk_column_open(&c, ds, "label", NULL, &err), &err);
    assert_int_equal(stk_column_kind(c), STK_COLUMN_I64);
    seam_ok(stk_column_i64(c, 0, ROWS, label, &err), &err);
    seam_ok(stk_column_valid(c, 0, ROWS, valid, &err), &err);
    for (uint64_t i = 0; i < ROWS; i++) {
        assert_int_equal(valid[i], !is_null(i));
        assert_int_equal(label[i], is_null(i) ? 0 : label_of(i));
    }
    stk_column_close(&c);
    seam_ok(stk_column_open(&c, ds, "name", NULL, &err), &err);
    seam_ok(stk_column_text(c, 0, ROWS, text, len, &err), &err);
    assert_memory_equal(text[ROWS - 1], of(ds)->text[ROWS - 1], len[ROWS - 1]);
    stk_column_close(&c);
    assert_int_equal(stk_column_open(&c, ds, "pos", NULL, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "several values"));
    assert_int_equal(stk_column_open(&c, ds, "none", NULL, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "the fields are: jpg, label, pos, ids, name"));
    stk_dataset_unref(&ds);
}

/* Lists side by side in rows of one length, and batches by how long they are: both measure them
 * first. */
static void lists_by_length(void **state)
{
    static const stk_output packed = { "ids", "from(ids) | pack(block=16)" },
                            any = { "ids", "from(ids)" };
    stk_loader_options o = {
        .size = sizeof o, .batch_size = 4, .outputs = &packed, .n_outputs = 1
    };
    stk_dataset *ds = grid_open();
    uint64_t values = 0, sum = 0, want = 0, rows = 0;
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    int64_t list[LIST];
    stk_tensor t;
    stk_error err;

    (void)state;
    for (uint64_t i = 0; i < ROWS; i++)
        for (uint64_t k = list_of(i, list); k; k--)
            want += (uint64_t)list[k - 1];
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        assert_int_equal(stk_batch_dense(b, 0, &t), 0);
        assert_true(t.ndim == 2 && t.shape[1] == 16);
        for (int64_t i = 0; i < t.shape[0] * 16; i++)
            sum += (uint64_t)((int64_t *)t.data)[i];
        stk_batch_release(&b);
    }
    assert_int_equal(sum, want);
    stk_loader_close(&l);
    o = (stk_loader_options){ .size = sizeof o,
                              .max_tokens = 40,
                              .outputs = &any,
                              .n_outputs = 1,
                              .collate = STK_COLLATE_PAD };
    l = seam_loader(&ds, 1, &o);
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        assert_int_equal(stk_batch_dense(b, 0, &t), 0);
        assert_true(t.shape[0] * t.shape[1] <= 40);
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            assert_int_equal(t.shape[0], list_of(stk_batch_ids(b)[i], list));
            values += (uint64_t)t.shape[0];
        }
        stk_batch_release(&b);
    }
    assert_true(rows == ROWS && values == ROWS / 6 * 15);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

/* ---- what is refused, and what is bad ---- */

static void refused(stk_dataset *ds, const char *chain, const char *why)
{
    stk_output one = { "label", chain };
    stk_loader_options o = { .size = sizeof o, .batch_size = 2, .outputs = &one, .n_outputs = 1 };
    stk_loader *l = NULL;
    stk_error err;

    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    if (!strstr(err.message, why))
        fail_msg("%s: \"%s\" has no \"%s\"", chain, err.message, why);
}

static void chains_that_do_not_fit(void **state)
{
    stk_dataset *ds = grid_open();

    (void)state;
    refused(ds, "from(label) | image", "the field label has a type (i32)");
    refused(ds, "from(label) | tokens(block=4)", "the field label has a type (i32)");
    refused(ds, "from(pos) | int", "int is of 0 dimensions, and the field pos of 1");
    refused(ds, "from(pos) | to(i32)", "i32 is not made of f32");
    refused(ds, "from(ids)", "may differ in shape");
    refused(ds, "from(jpg)", "but not what to make of it");
    refused(ds, "from(label, default=0.5)", "the default 0.5 is not a i32");
    refused(ds, "from(label, default=\"x\")", "is one number");
    refused(ds, "from(nothing) | int", "the fields are jpg, label, pos, ids, name");
    stk_dataset_unref(&ds);
}

static void bad_rows_have_an_address(void **state)
{
    static const stk_output null = { "label", "from(label)" };
    stk_loader_options o = options(8, 2);
    stk_dataset *ds = grid_open();
    stk_loader *l;
    stk_batch *b = NULL;
    uint64_t ids[ROWS];
    float want[3 * 12 * 16];
    stk_error err;

    (void)state;
    picture(want);
    o.outputs = &null;
    o.n_outputs = 1;
    l = seam_loader(&ds, 1, &o);
    assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "no value in field label"));
    assert_non_null(strstr(err.message, "from(label, default=0)"));
    assert_string_equal(err.shard, grid_shard_name(ds, 0));
    assert_int_equal(err.sample, 3);
    stk_loader_close(&l);
    of(ds)->damaged = 100;
    o = options(8, 2);
    o.on_error = STK_ON_ERROR_SKIP;
    l = seam_loader(&ds, 1, &o);
    assert_int_equal(epoch(l, want, ids), ROWS);
    assert_int_equal(bad, 1);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_kind),       cmocka_unit_test(blocks_are_shared),
        cmocka_unit_test(single_samples),           cmocka_unit_test(columns),
        cmocka_unit_test(lists_by_length),          cmocka_unit_test(chains_that_do_not_fit),
        cmocka_unit_test(bad_rows_have_an_address),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
