/* SPDX-License-Identifier: Apache-2.0 */
/* seam_block_test.c - a format whose samples are no byte ranges: several packed into one block,
 * XOR-ed and run-length coded.
 *
 * A .pak shard is u32 samples, u32 samples a block, then a table of u32 (offset, length) a
 * block, then the blocks.  A block unpacks to the samples' bin fields one behind the other, each
 * after its u16 length.  The index's `offset` is the block's place, `size` its length; the rest
 * follows from the row. */
#include <pthread.h>
#include <stdatomic.h>

#include "seam.h"

#define PER_BLOCK 7
#define SAMPLES 140
#define BLOCKS (SAMPLES / PER_BLOCK)

static _Atomic unsigned unpacked[BLOCKS * 2], total, picked;

static void put32(FILE *f, uint32_t v)
{
    fwrite(&v, 1, 4, f);
}

/* Runs of (count, byte ^ 0x5a); the block's number comes first so that unpack() can be counted. */
static size_t pack(const uint8_t *in, size_t len, uint32_t number, uint8_t *out)
{
    size_t n = 4;

    memcpy(out, &number, 4);
    for (size_t i = 0, run; i < len; i += run) {
        for (run = 1; run < 255 && i + run < len && in[i + run] == in[i];)
            run++;
        out[n++] = (uint8_t)run;
        out[n++] = in[i] ^ 0x5a;
    }
    return n;
}

static size_t block_of(uint64_t first, uint8_t *out)
{
    size_t n = 0;

    for (uint64_t k = first; k < first + PER_BLOCK; k++) {
        uint16_t len = (uint16_t)seam_bin_len(k);

        memcpy(out + n, &len, 2);
        n += 2;
        for (size_t i = 0; i < len; i++)
            out[n++] = seam_bin_at(k, i);
    }
    return n;
}

/* spoil: a block whose bytes are damaged; -1: none. */
static void make_pak(const char *name, uint64_t first, int spoil)
{
    static uint8_t plain[PER_BLOCK * 600], packed[BLOCKS][PER_BLOCK * 1300];
    FILE *f = fopen(seam_path(name), "wb");
    uint32_t at = 8 + 8 * BLOCKS, len[BLOCKS];

    put32(f, SAMPLES);
    put32(f, PER_BLOCK);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint64_t k = first + (uint64_t)b * PER_BLOCK;

        len[b] = (uint32_t)pack(plain, block_of(k, plain), (uint32_t)(k / PER_BLOCK), packed[b]);
        if ((int)b == spoil)
            packed[b][4] = 0; /* a run of none */
        put32(f, at);
        put32(f, len[b]);
        at += len[b];
    }
    for (uint32_t b = 0; b < BLOCKS; b++)
        fwrite(packed[b], 1, len[b], f);
    assert_int_equal(fclose(f), 0);
}

static int pak_probe(const char *name, stk_bytes head)
{
    (void)head;
    return strstr(name, ".pak") ? 90 : 0;
}

static int read_exactly(stk_file *f, uint64_t offset, void *dst, size_t len, stk_error *err)
{
    stk_io io = { .offset = offset, .len = len, .dst = dst, .file = f };
    int rc = f->source->read(f, &io);

    return rc < 0 || io.got < len ? stk_fail(err, STK_ECORRUPT, "the shard is cut short") : 0;
}

static int pak_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    uint32_t head[2], place[2];
    int rc = read_exactly(f, 0, head, 8, err);

    (void)size;
    for (uint32_t i = 0; rc == 0 && i < head[0]; i++) {
        stk_field field = { .name = "bin", .name_len = 3 };
        char key[16];

        rc = read_exactly(f, 8 + i / head[1] * 8, place, 8, err);
        field.offset = place[0];
        field.size = place[1];
        snprintf(key, sizeof key, "%06u", i);
        if (rc == 0)
            rc = scan->sample(scan, (stk_bytes){ (uint8_t *)key, 6 }, place[0], &field, 1, err);
    }
    return rc;
}

static int pak_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    (void)err;
    *out = (stk_place){ .offset = field->offset,
                        .len = field->size,
                        .block = e->row / PER_BLOCK,
                        .shared = 1,
                        .unpacked = PER_BLOCK * 600 };
    return 0;
}

static int pak_unpack(stk_bytes raw, void *dst, size_t *len, stk_error *err)
{
    uint32_t number;
    size_t n = 0;
    uint8_t *p = dst;

    for (size_t i = 4; i + 1 < raw.len; i += 2) {
        if (!raw.data[i])
            return stk_fail(err, STK_ECORRUPT, "a run of no bytes");
        n += raw.data[i];
    }
    memcpy(&number, raw.data, 4);
    atomic_fetch_add(&unpacked[number % (BLOCKS * 2)], 1);
    atomic_fetch_add(&total, 1);
    if (n > *len)
        return stk_fail(err, STK_ECORRUPT, "more than was said");
    *len = n;
    for (size_t i = 4; i + 1 < raw.len; p += raw.data[i], i += 2)
        memset(p, raw.data[i + 1] ^ 0x5a, raw.data[i]);
    return 0;
}

static int pak_pick(stk_bytes block, const stk_entry *e, const stk_field *field, stk_bytes *out,
                    stk_error *err)
{
    size_t at = 0;
    uint16_t len = 0;

    (void)field;
    atomic_fetch_add(&picked, 1);
    for (uint64_t i = 0; i <= e->row % PER_BLOCK; i++) {
        at += i ? (size_t)len : 0;
        if (at + 2 > block.len)
            return stk_fail(err, STK_ECORRUPT, "the block ends early");
        memcpy(&len, block.data + at, 2);
        at += 2;
    }
    *out = (stk_bytes){ block.data + at, len };
    return 0;
}

static const stk_format pak = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_format),
                                .name = "pak",
                                .help = "packed blocks",
                                .suffixes = ".pak",
                                .probe = pak_probe,
                                .index = pak_index,
                                .locate = pak_locate,
                                .unpack = pak_unpack,
                                .pick = pak_pick };

/* Two outputs over the one field: one block, two users. */
static const stk_output outputs[] = { { "a", "from(bin) | bytes" }, { "b", "from(bin) | bytes" } };

static stk_loader_options options(int32_t workers)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .outputs = outputs,
                                 .n_outputs = 2,
                                 .batch_size = 10,
                                 .num_workers = workers };
}

static stk_dataset *data(void)
{
    static int made;

    if (!made++) {
        stk_error err;

        seam_ok(stk_plugin_add(STK_PLUGIN_FORMAT, &pak, &err), &err);
        make_pak("p-0.pak", 0, -1);
        make_pak("p-1.pak", SAMPLES, -1);
        make_pak("bad-0.pak", 0, 3);
    }
    memset((void *)unpacked, 0, sizeof unpacked);
    total = picked = 0;
    return seam_open("", "p-{0..1}.pak", NULL);
}

static void check(const stk_batch *b, uint32_t output, uint32_t row, uint64_t k)
{
    stk_tensor t;

    assert_int_equal(stk_batch_row(b, output, row, &t), 0);
    assert_int_equal(t.shape[0], seam_bin_len(k));
    for (int64_t i = 0; i < t.shape[0]; i++)
        assert_int_equal(((uint8_t *)t.data)[i], seam_bin_at(k, (size_t)i));
}

static uint64_t epoch(stk_loader *l)
{
    stk_batch *b = NULL;
    uint64_t rows = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++)
            for (uint32_t o = 0; o < 2; o++)
                check(b, o, i, stk_batch_ids(b)[i]);
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        seam_ok(rc, &err);
    return rows;
}

static void each_block_is_unpacked_once(void **state)
{
    (void)state;
    for (int i = 0; i <= 8; i++) {
        int32_t w = i ? i : STK_NONE;
        stk_dataset *ds = data();
        stk_loader_options o = options(w);
        stk_loader *l;

        o.shuffle = w % 2 ? STK_SHUFFLE_EXACT : STK_SHUFFLE_NONE;
        l = seam_loader(&ds, 1, &o);
        assert_int_equal(epoch(l), 2 * SAMPLES);
        for (int k = 0; k < BLOCKS * 2; k++)
            assert_int_equal(unpacked[k], 1);
        assert_int_equal(epoch(l), 2 * SAMPLES); /* the second pass finds them all */
        assert_int_equal(total, BLOCKS * 2);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* A cache of an eighth of memory_limit holds a few blocks only: dropped, read again, never
 * wrong. */
static void a_small_cache_drops_blocks(void **state)
{
    (void)state;
    for (int32_t w = 1; w <= 4; w++) {
        stk_dataset *ds = data();
        stk_loader_options o = options(w);
        stk_stats st = { .size = sizeof st };
        stk_loader *l;

        o.shuffle = STK_SHUFFLE_EXACT;
        o.memory_limit = 160 * 1024;
        o.prefetch = 2;
        l = seam_loader(&ds, 1, &o);
        for (int e = 0; e < 3; e++)
            assert_int_equal(epoch(l), 2 * SAMPLES);
        assert_true(total > BLOCKS * 2);
        stk_loader_stats(l, &st);
        assert_in_range(st.memory_peak, 1, st.memory_limit);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

static void a_bad_block_is_a_bad_sample_each(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = options(k % 2 ? 4 : STK_NONE);
        uint64_t raised = 0, invalid = 0, rows = 0;
        stk_stats st = { .size = sizeof st };
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;
        int rc;

        stk_dataset_unref(&ds);
        ds = seam_open("", "bad-0.pak", "pak");
        o.batch_size = 1;
        o.on_error = k / 2 ? STK_ON_ERROR_SKIP : STK_ON_ERROR_RAISE;
        l = seam_loader(&ds, 1, &o);
        while ((rc = stk_loader_next(l, &b, 60000, &err)) != STK_END) {
            if (rc < 0) {
                assert_int_equal(rc, STK_ECORRUPT);
                assert_string_equal(err.message, "a run of no bytes");
                assert_int_equal(err.sample, 21 + raised);
                assert_non_null(strstr(err.shard, "bad-0.pak"));
                assert_true(err.offset != STK_NO_OFFSET && err.offset > 0);
                raised++;
                assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_ECORRUPT); /* again */
                seam_ok(stk_loader_seek(l, 0, 21 + raised, &err), &err);
                continue;
            }
            check(b, 0, 0, stk_batch_ids(b)[0]);
            if (!stk_batch_valid(b)[0]) {
                assert_in_range(rows, 21, 27);
                assert_true(stk_batch_ids(b)[0] < 21 || stk_batch_ids(b)[0] > 27);
                invalid++;
            }
            rows++;
            stk_batch_release(&b);
        }
        stk_loader_stats(l, &st);
        assert_int_equal(raised, k / 2 ? 0 : PER_BLOCK);
        assert_int_equal(invalid, k / 2 ? PER_BLOCK : 0);
        assert_true(k / 2 ? st.skipped >= PER_BLOCK : st.skipped == 0);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* held://PATH: a source that has all bytes in memory; peek() gives them and nothing is read. */
typedef struct held_file {
    stk_file base;
    uint8_t *data;
    size_t len;
} held_file;

static const stk_source held;

static int held_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    held_file *h = calloc(1, sizeof *h);
    FILE *f = fopen(o->url + 7, "rb");

    (void)err;
    assert_non_null(f);
    h->base.source = &held;
    h->data = malloc(1 << 20);
    h->len = fread(h->data, 1, 1 << 20, f);
    fclose(f);
    *out = &h->base;
    return 0;
}

static int held_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)err;
    memset(out, 0, sizeof *out);
    out->size = ((held_file *)f)->len;
    return 0;
}

static int held_read(stk_file *f, stk_io *io)
{
    held_file *h = (held_file *)f;

    io->got = io->offset > h->len             ? 0
              : io->len < h->len - io->offset ? io->len
                                              : h->len - io->offset;
    memcpy(io->dst, h->data + io->offset, io->got);
    return io->rc = 0;
}

static const void *held_peek(stk_file *f, uint64_t offset, size_t len)
{
    held_file *h = (held_file *)f;

    return offset <= h->len && len <= h->len - offset ? h->data + offset : NULL;
}

static void held_close(stk_file *f)
{
    free(((held_file *)f)->data);
    free(f);
}

static const stk_source held = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_source),
                                 .name = "held",
                                 .help = "in memory",
                                 .scheme = "held",
                                 .open = held_open,
                                 .ready = held_ready,
                                 .read = held_read,
                                 .peek = held_peek,
                                 .close = held_close };

static void blocks_that_lie_in_memory(void **state)
{
    stk_dataset *ds = data();
    stk_loader_options o = options(2);
    stk_error err;
    stk_loader *l;

    (void)state;
    stk_dataset_unref(&ds);
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &held, &err), &err);
    ds = seam_open("held://", "p-{0..1}.pak", NULL);
    l = seam_loader(&ds, 1, &o);
    assert_int_equal(epoch(l), 2 * SAMPLES);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

static void single_samples(void **state)
{
    stk_dataset *ds = data();
    stk_sample *s = NULL;
    const void *bytes;
    stk_error err;
    size_t len;

    (void)state;
    seam_ok(stk_dataset_read(ds, 150, &s, &err), &err);
    assert_string_equal(stk_sample_field(s, 0, &bytes, &len), "bin");
    assert_int_equal(len, seam_bin_len(150));
    assert_int_equal(((const uint8_t *)bytes)[len - 1], seam_bin_at(150, len - 1));
    stk_sample_close(&s);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_is_unpacked_once),
        cmocka_unit_test(a_small_cache_drops_blocks),
        cmocka_unit_test(a_bad_block_is_a_bad_sample_each),
        cmocka_unit_test(blocks_that_lie_in_memory),
        cmocka_unit_test(single_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
