/* SPDX-License-Identifier: Apache-2.0 */
/* seam_streams_test.c - shuffle="block" through the face: ranks and streams, other streams in
 * mid-epoch, and the line that an exact shuffle over a remote source (far://PATH) is worth. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seam.h"

#define A 60
#define B 40

/* ---- far://PATH: a file, said to be remote ---- */

typedef struct far_file {
    stk_file base;
    int fd;
} far_file;

static const stk_source far_source;
static _Atomic unsigned told, untold; /* opened with the size that the index knows, or without */

static int far_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    far_file *f = stk_alloc(sizeof *f);

    if (!f)
        return stk_fail(err, STK_ENOMEM, "no memory");
    f->base.source = &far_source;
    *(o->size == UINT64_MAX ? &untold : &told) += 1;
    f->fd = open(o->url + strlen("far://"), O_RDONLY);
    if (f->fd < 0) {
        stk_free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file: %s", o->url);
    }
    *out = &f->base;
    return 0;
}

static int far_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    struct stat st;

    memset(out, 0, sizeof *out);
    if (fstat(((far_file *)f)->fd, &st) < 0)
        return stk_fail(err, STK_EIO, "fstat");
    out->size = (uint64_t)st.st_size;
    return 0;
}

static int far_read(stk_file *f, stk_io *io)
{
    ssize_t n = pread(((far_file *)f)->fd, io->dst, io->len, (off_t)io->offset);

    io->rc = n < 0 ? STK_EIO : 0;
    io->got = n < 0 ? 0 : (size_t)n;
    return 0;
}

static void far_close(stk_file *f)
{
    close(((far_file *)f)->fd);
    stk_free(f);
}

static const stk_source far_source = { .abi = STK_PLUGIN_ABI,
                                       .size = sizeof(stk_source),
                                       .name = "far",
                                       .help = "a file that is far away",
                                       .scheme = "far",
                                       .open = far_open,
                                       .ready = far_ready,
                                       .read = far_read,
                                       .close = far_close,
                                       .can = STK_SOURCE_REMOTE };

/* ---- tests ---- */

static stk_dataset *ds[2], *away;
static unsigned warned;

static int open_all(void **state)
{
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &far_source, &err), &err);
    seam_shards("a", 3, A / 3, 0);
    seam_shards("b", 2, B / 2, A);
    ds[0] = seam_open("", "a-{0..2}.tar", NULL);
    ds[1] = seam_open("", "b-{0..1}.tar", NULL);
    away = seam_open("far://", "a-{0..2}.tar", NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    stk_dataset_unref(&ds[0]);
    stk_dataset_unref(&ds[1]);
    stk_dataset_unref(&away);
    return 0;
}

/* What ranks get, for any number of them: every sample once, where find says that it is. */
static void ranks(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 5; world++)
        for (uint64_t streams = 0; streams <= 128; streams = streams ? streams * 8 : 2) {
            uint8_t seen[A + B] = { 0 };

            for (uint32_t rank = 0; rank < world; rank++) {
                stk_loader_options o = seam_options(6, 2);
                stk_batch *b = NULL;
                stk_loader *l;
                stk_error err;

                o.shuffle = STK_SHUFFLE_BLOCK;
                o.rank = rank;
                o.world_size = world;
                o.ranks_per_node = world == 4 ? 2 : 0;
                o.streams = streams;
                o.window = streams * 3;
                l = seam_loader(ds, 2, &o);
                for (uint64_t step = 0; stk_loader_next(l, &b, 60000, &err) == 0; step++) {
                    for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
                        uint64_t id = stk_batch_ids(b)[i], p;

                        seam_check_row(b, i, id, id);
                        seen[id] += stk_batch_valid(b)[i];
                        seam_ok(stk_loader_find(l, 0, id, &p, &err), &err);
                        assert_true(!stk_batch_valid(b)[i] || p / (6 * world) == step);
                    }
                    stk_batch_release(&b);
                }
                stk_loader_close(&l);
            }
            for (int i = 0; i < A + B; i++)
                assert_int_equal(seen[i], 1);
        }
}

/* Other streams while batches are made ahead: the rest of the epoch is that of a loader that had
 * them from the start. */
static void other_streams(void **state)
{
    static const int32_t workers[] = { STK_NONE, 3 };
    uint64_t want[A + B], streams, window;
    stk_error err;

    (void)state;
    for (int k = 0; k < 2; k++) {
        stk_loader_options o = seam_options(8, workers[k]);
        stk_batch *b = NULL;
        stk_loader *l;
        uint64_t at = 40;

        o.shuffle = STK_SHUFFLE_BLOCK;
        o.streams = 16;
        o.window = 50;
        l = seam_loader(ds, 2, &o);
        seam_epoch(l, A + B, want);
        stk_loader_close(&l);
        o.streams = o.window = 0;
        l = seam_loader(ds, 2, &o);
        stk_loader_streams(l, &streams, &window);
        assert_int_equal(streams, 64); /* not more than samples */
        assert_int_equal(window, 65536);
        for (int i = 0; i < 5; i++) {
            seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
            stk_batch_release(&b);
        }
        assert_int_equal(stk_loader_set_streams(l, 12, 50, &err), STK_EINVAL);
        assert_non_null(strstr(err.message, "8 or 16"));
        assert_int_equal(stk_loader_set_streams(l, 16, 0, &err), STK_EINVAL);
        seam_ok(stk_loader_set_streams(l, 16, 50, &err), &err);
        assert_int_equal(stk_loader_position(l), 40);
        while (stk_loader_next(l, &b, 60000, &err) == 0) {
            for (uint32_t i = 0; i < stk_batch_rows(b); i++)
                assert_int_equal(stk_batch_ids(b)[i], want[at++]);
            stk_batch_release(&b);
        }
        assert_int_equal(at, A + B);
        stk_loader_close(&l);
    }
}

static void refusals(void **state)
{
    stk_loader_options o = seam_options(4, 1), x;
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    o.shuffle = STK_SHUFFLE_BLOCK;
#define REFUSED(field, value, text)                                                                \
    x = o;                                                                                         \
    x.field = value;                                                                               \
    assert_int_equal(stk_loader_open(&l, ds, 2, &x, &err), STK_EINVAL);                            \
    assert_non_null(strstr(err.message, text))
    REFUSED(streams, 24, "16 or 32");
    REFUSED(streams, 1ull << 40, "streams is 1..1048576 or auto, not");
    REFUSED(ranks_per_node, 2, "does not divide");
    REFUSED(shuffle, (stk_shuffle)4, "shuffle is one of: none exact block megatron, not \"4\"");
    o.window = 100;
    REFUSED(window_bytes, 100, "give one");
    REFUSED(shuffle, STK_SHUFFLE_EXACT, "belong to");
    o = seam_options(4, 1);
    l = seam_loader(ds, 2, &o);
    assert_int_equal(stk_loader_set_streams(l, 16, 50, &err), STK_EINVAL);
    stk_loader_close(&l);
}

static void window_in_bytes(void **state)
{
    stk_loader_options o = seam_options(4, 1);
    uint64_t streams, all, half;
    stk_loader *l;

    (void)state;
    o.shuffle = STK_SHUFFLE_BLOCK;
    o.window_bytes = 1 << 20;
    l = seam_loader(ds, 2, &o);
    stk_loader_streams(l, &streams, &all);
    stk_loader_close(&l);
    o.window_bytes /= 2;
    l = seam_loader(ds, 2, &o);
    stk_loader_streams(l, &streams, &half);
    assert_in_range(half, all / 2, all / 2 + 1);
    assert_in_range(all, 10, 1024); /* samples are three tar members */
    stk_loader_close(&l);
}

static void note_warning(void *cookie, stk_log_level level, const char *line)
{
    (void)cookie;
    if (level != STK_LOG_WARN)
        return;
    assert_non_null(strstr(line, "60 reads"));
    assert_non_null(strstr(line, "shuffle=\"block\""));
    warned++;
}

/* Said once, for what is remote and shuffled exactly. */
static void remote(void **state)
{
    uint64_t ids[A];

    (void)state;
    told = untold = 0;
    for (int far = 0; far < 2; far++)
        for (int shuffle = 0; shuffle < 3; shuffle++) {
            stk_loader_options o = seam_options(8, 2);
            stk_loader *l;

            warned = 0;
            o.log = note_warning;
            o.shuffle = (stk_shuffle)shuffle;
            l = seam_loader(far ? &away : &ds[0], 1, &o);
            seam_epoch(l, A, ids);
            seam_epoch(l, A, ids);
            assert_int_equal(warned, far && shuffle == STK_SHUFFLE_EXACT);
            stk_loader_close(&l);
        }
    assert_int_equal(untold, 0); /* open() is told what the index knows, so that it need not ask */
    assert_true(told >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks),    cmocka_unit_test(other_streams),
        cmocka_unit_test(refusals), cmocka_unit_test(window_in_bytes),
        cmocka_unit_test(remote),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
