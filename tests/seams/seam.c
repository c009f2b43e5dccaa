/* SPDX-License-Identifier: Apache-2.0 */
/* seam.c - see seam.h. */
#include "seam.h"

#include <ftw.h>
#include <time.h>
#include <unistd.h>

#include "make_tar.h"

const stk_output seam_outputs[3] = { { "bin", "bytes" },
                                     { "n", "from(cls) | int" },
                                     { "t", "from(txt) | text" } };

static char dir[256];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_dir(void)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *seam_dir(void)
{
    const char *tmp = getenv("TMPDIR");

    if (!dir[0]) {
        snprintf(dir, sizeof dir, "%s/stoker-seam-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        assert_non_null(mkdtemp(dir));
        atexit(remove_dir);
    }
    return dir;
}

const char *seam_path(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *p = path[turn++ % 4];

    snprintf(p, sizeof path[0], "%s/%s", seam_dir(), name);
    return p;
}

size_t seam_bin_len(uint64_t k)
{
    return k % 11 == 3 ? 0 : (size_t)(k * 37 % 500); /* some are empty */
}

uint8_t seam_bin_at(uint64_t k, size_t i)
{
    return (uint8_t)(k * 131 + i * 7 + (k >> 3));
}

int64_t seam_number(uint64_t k)
{
    return (int64_t)(k * k) - 1000;
}

void seam_shards(const char *name, unsigned shards, unsigned per, uint64_t first)
{
    for (unsigned s = 0; s < shards; s++) {
        char path[64], member[32], text[64];
        uint8_t bin[512];
        FILE *f;

        snprintf(path, sizeof path, "%s-%u.tar", name, s);
        f = fopen(seam_path(path), "wb");
        assert_non_null(f);
        for (unsigned i = 0; i < per; i++, first++) {
            size_t len = seam_bin_len(first);

            for (size_t j = 0; j < len; j++)
                bin[j] = seam_bin_at(first, j);
            snprintf(member, sizeof member, "%06u.bin", (unsigned)first);
            tar_member(f, member, bin, len);
            snprintf(member, sizeof member, "%06u.cls", (unsigned)first);
            snprintf(text, sizeof text, "%" PRId64 "\n", seam_number(first));
            tar_member(f, member, text, strlen(text));
            snprintf(member, sizeof member, "%06u.txt", (unsigned)first);
            snprintf(text, sizeof text, "sample %u \xc3\xa9", (unsigned)first);
            tar_member(f, member, text, strlen(text));
        }
        tar_end(f);
        assert_int_equal(fclose(f), 0);
    }
}

void seam_ok(int rc, const stk_error *err)
{
    char line[800];

    if (rc == 0)
        return;
    stk_error_format(err, line, sizeof line);
    fail_msg("%s: %s", stk_code_name(rc), line);
}

stk_dataset *seam_open(const char *scheme, const char *pattern, const char *format)
{
    stk_dataset_options o = {
        .size = sizeof o, .cache_dir = seam_dir(), .format = format, .num_workers = 1
    };
    const char *urls[1];
    stk_dataset *ds = NULL;
    char url[600];
    stk_error err;

    snprintf(url, sizeof url, "%s%s", scheme, seam_path(pattern));
    urls[0] = url;
    seam_ok(stk_dataset_open(&ds, urls, 1, &o, &err), &err);
    return ds;
}

stk_loader_options seam_options(uint32_t batch, int32_t workers)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .batch_size = batch,
                                 .num_workers = workers,
                                 .outputs = seam_outputs,
                                 .n_outputs = 3 };
}

stk_loader *seam_loader(stk_dataset *const *data, size_t n, const stk_loader_options *o)
{
    stk_loader *l = NULL;
    stk_error err;

    seam_ok(stk_loader_open(&l, data, n, o, &err), &err);
    return l;
}

void seam_check_row(const stk_batch *b, uint32_t row, uint64_t k, uint64_t id)
{
    char text[64];
    stk_tensor t;
    size_t len;
    int64_t n;

    assert_int_equal(stk_batch_ids(b)[row], id);
    assert_int_equal(stk_batch_row(b, 0, row, &t), 0);
    assert_int_equal(t.shape[0], seam_bin_len(k));
    for (int64_t i = 0; i < t.shape[0]; i++)
        assert_int_equal(((uint8_t *)t.data)[i], seam_bin_at(k, (size_t)i));
    assert_int_equal(stk_batch_row(b, 1, row, &t), 0);
    memcpy(&n, t.data, sizeof n);
    assert_int_equal(n, seam_number(k));
    assert_int_equal(stk_batch_row(b, 2, row, &t), 0);
    snprintf(text, sizeof text, "sample %u \xc3\xa9", (unsigned)k);
    assert_int_equal(t.shape[0], strlen(text));
    assert_memory_equal(t.data, text, strlen(text));
    snprintf(text, sizeof text, "%06u", (unsigned)k);
    assert_memory_equal(stk_batch_key(b, row, &len), text, 6);
    assert_int_equal(len, 6);
}

void seam_epoch(stk_loader *l, uint64_t n, uint64_t *ids)
{
    stk_batch *b = NULL;
    uint64_t at = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
            uint64_t id = stk_batch_ids(b)[i];

            assert_true(at < n);
            assert_int_equal(stk_batch_valid(b)[i], 1);
            seam_check_row(b, i, id, id);
            ids[at++] = id;
        }
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        seam_ok(rc, &err);
    assert_int_equal(at, n);
}

uint64_t seam_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void seam_sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

void seam_idle(stk_loader *l)
{
    uint64_t end = seam_now_ms() + 60000;
    stk_doing doing;

    for (int quiet = 0; quiet < 20 && seam_now_ms() < end; quiet++) {
        seam_sleep_ms(1);
        for (uint32_t i = 0; stk_loader_doing(l, i, &doing) == 0; i++)
            quiet = doing.stage == STK_STAGE_IDLE ? quiet : 0;
    }
}
