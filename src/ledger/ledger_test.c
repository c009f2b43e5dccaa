/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_test.c - ledgers written and read back: torn, replaced, damaged, and which of several
 * tries is the history. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "ledger/ledger_model.h"

#define SAMPLES 1000

static char dir[256];

static int make_dir(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(dir, sizeof dir, "%s/stoker-ledger-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static int clear_dir(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* Steps of 4 positions a rank, with ids that follow from the position. */
typedef struct life {
    uint64_t generation, epoch, position;
    uint32_t world;
    uint64_t steps;
} life;

static ldg_head head_of(const life *f, uint32_t rank)
{
    return (ldg_head){ .rank = rank,
                       .world = f->world,
                       .max_rows = 4,
                       .generation = f->generation,
                       .global = 4u * f->world,
                       .seed = 7,
                       .epoch = f->epoch,
                       .position = f->position,
                       .samples = SAMPLES,
                       .data = { .samples = SAMPLES, .content = 0xabc } };
}

static int add(stk_ledger_writer *w, uint64_t epoch, uint64_t start, uint64_t count, stk_error *err)
{
    uint8_t valid[4] = { 1, 1, 0, 1 };
    uint64_t ids[4];

    for (uint64_t i = 0; i < 4; i++)
        ids[i] = (start + i) % SAMPLES;
    return stk_ledger_writer_add(w,
                                 &(stk_ledger_row){ .epoch = epoch,
                                                    .step = start / 4,
                                                    .start = start,
                                                    .count = count,
                                                    .rows = 4,
                                                    .ids = ids,
                                                    .valid = valid },
                                 err);
}

static void live(const life *f)
{
    for (uint32_t rank = 0; rank < f->world; rank++) {
        ldg_head h = head_of(f, rank);
        stk_ledger_writer *w = NULL;
        stk_error err;

        assert_int_equal(stk_ledger_writer_open(&w, dir, &h, &err), 0);
        for (uint64_t s = 0; s < f->steps; s++)
            assert_int_equal(add(w, f->epoch, f->position + s * 4 * f->world, 4 * f->world, &err),
                             0);
        stk_ledger_writer_close(&w);
    }
}

/* Positions of epoch 0 that count, as "from-to" pieces by generation: read through rank 0. */
static void told(char *out, size_t size)
{
    stk_ledger_step s = { .size = sizeof s };
    uint64_t lo[8], hi[8] = { 0 };
    stk_ledger *l = NULL;
    stk_error err;
    size_t at = 0;
    int rc;

    memset(lo, 0xff, sizeof lo);
    assert_int_equal(stk_ledger_open(&l, dir, &err), 0);
    while ((rc = stk_ledger_next(l, &s, &err)) == 0) {
        assert_int_equal(s.rows, 4);
        assert_int_equal(s.ids[1], (s.position + 1) % SAMPLES);
        assert_true(s.valid[1] && !s.valid[2]);
        lo[s.generation] = s.position < lo[s.generation] ? s.position : lo[s.generation];
        if (s.position + s.count > hi[s.generation])
            hi[s.generation] = s.position + s.count;
    }
    assert_int_equal(rc, STK_END);
    out[0] = 0;
    for (size_t g = 0; g < 8; g++)
        if (hi[g])
            at += (size_t)snprintf(out + at, size - at, "%s%zu:%llu-%llu", at ? " " : "", g,
                                   (unsigned long long)lo[g], (unsigned long long)hi[g]);
    stk_ledger_close(&l);
}

#define TELLS(text)                                                                                \
    do {                                                                                           \
        char is_[200];                                                                             \
        told(is_, sizeof is_);                                                                     \
        assert_string_equal(is_, text);                                                            \
    } while (0)

static void a_resume_supersedes(void **state)
{
    (void)state;
    live(&(life){ 0, 0, 0, 4, 10 });
    TELLS("0:0-160");
    live(&(life){ 1, 0, 96, 3, 5 });
    TELLS("0:0-96 1:96-156");
    live(&(life){ 2, 0, 120, 1, 2 });
    TELLS("0:0-96 1:96-120 2:120-128");
}

/* Tries that were given up tell nothing, also where files of them are left. */
static void tries_that_were_given_up(void **state)
{
    (void)state;
    live(&(life){ 0, 0, 0, 2, 60 });
    live(&(life){ 1, 0, 96, 4, 5 });
    live(&(life){ 1, 0, 200, 2, 5 }); /* ranks 2 and 3 of the try before are still there */
    TELLS("0:0-200 1:200-240");
    live(&(life){ 1, 0, 96, 4, 10 });
    live(&(life){ 2, 0, 160, 1, 10 });
    live(&(life){ 1, 0, 400, 2, 5 }); /* from a later checkpoint of generation 0 */
    TELLS("0:0-400 1:400-440");
    live(&(life){ 0, 0, 0, 1, 3 }); /* and the whole run again */
    TELLS("0:0-12");
}

/* A head as another clock, or a version without turns, would have written it. */
static void alter(uint64_t generation, uint32_t rank, int64_t seconds, int old)
{
    char path[300];
    ldg_head h;
    int fd;

    snprintf(path, sizeof path, "%s/rank%05u-gen%04u.stkl", dir, rank, (unsigned)generation);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    h.started_ns += (uint64_t)(seconds * 1000000000);
    h.turn = old ? 0 : h.turn;
    h.crc = 0;
    h.crc = stk_crc32c(0, &h, sizeof h);
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    close(fd);
}

/* Machines with clocks an hour apart, ranks of one life among them. */
static void clocks_say_nothing(void **state)
{
    (void)state;
    live(&(life){ 0, 0, 0, 4, 10 });
    alter(0, 2, 86400, 0);
    live(&(life){ 1, 0, 96, 3, 5 });
    alter(1, 0, -3600, 0);
    alter(1, 1, -7200, 0);
    alter(1, 2, -3600, 0);
    TELLS("0:0-96 1:96-156");
    live(&(life){ 2, 0, 120, 1, 2 });
    alter(2, 0, -1000000, 0);
    TELLS("0:0-96 1:96-120 2:120-128");
    live(&(life){ 1, 0, 96, 2, 5 }); /* another try, with other ranks */
    alter(1, 0, -2000000, 0);
    alter(1, 1, -2000000, 0);
    TELLS("0:0-96 1:96-136");
    live(&(life){ 0, 0, 0, 1, 3 });
    alter(0, 0, -3000000, 0);
    TELLS("0:0-12");
}

/* Files without turns are ordered by their clocks, as they were, and are older than all others. */
static void files_before_turns(void **state)
{
    char path[300];

    (void)state;
    live(&(life){ 0, 0, 0, 1, 40 });
    alter(0, 0, -20, 1);
    live(&(life){ 1, 0, 96, 1, 5 });
    alter(1, 0, -10, 1);
    snprintf(path, sizeof path, "%s/.turn", dir);
    assert_int_equal(unlink(path), 0);
    TELLS("0:0-96 1:96-116");
    alter(1, 0, -20, 1); /* before its ancestor: it was given up */
    TELLS("0:0-160");
    live(&(life){ 2, 0, 100, 1, 5 });
    alter(2, 0, -1000, 0);
    TELLS("0:0-100 2:100-120");
}

/* The count is lost or damaged: the files have it. */
static void a_lost_count(void **state)
{
    static const char *const damage[] = { "", "1", "abcdefghij\n", "99999999999", "-000000001\n" };
    char path[300];
    uint32_t turn;
    stk_error err;
    FILE *f;

    (void)state;
    live(&(life){ 0, 0, 0, 4, 1 });
    snprintf(path, sizeof path, "%s/.turn", dir);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        f = fopen(path, "w");
        assert_non_null(f);
        fputs(damage[i], f);
        fclose(f);
        assert_int_equal(stk_ledger_turn(dir, &turn, &err), 0);
        assert_int_equal(turn, 5);
        assert_int_equal(stk_ledger_turn(dir, &turn, &err), 0);
        assert_int_equal(turn, 6);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/nowhere/else", path), 0);
    assert_int_equal(stk_ledger_turn(dir, &turn, &err), STK_EIO);
    assert_non_null(strstr(err.message, ".turn"));
}

static void read_size(uint64_t *n, uint64_t *torn)
{
    stk_ledger_step s = { .size = sizeof s };
    stk_ledger *l = NULL;
    uint64_t superseded;
    stk_error err;
    int rc;

    assert_int_equal(stk_ledger_open(&l, dir, &err), 0);
    for (*n = 0; (rc = stk_ledger_next(l, &s, &err)) == 0; ++*n) {}
    assert_int_equal(rc, STK_END);
    stk_ledger_left_out(l, &superseded, torn);
    stk_ledger_close(&l);
}

static void torn_anywhere(void **state)
{
    size_t record = ldg_step_bytes(4, 4), size = sizeof(ldg_head) + 3 * record;
    char path[300];
    struct stat st;
    uint64_t n, torn;

    (void)state;
    snprintf(path, sizeof path, "%s/rank00000-gen0000.stkl", dir);
    for (size_t cut = 0; cut < record; cut++) {
        live(&(life){ 0, 0, 0, 1, 3 });
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, size);
        assert_int_equal(truncate(path, (off_t)(size - cut)), 0);
        read_size(&n, &torn);
        assert_int_equal(n, cut ? 2 : 3);
        assert_int_equal(torn, cut != 0);
        assert_int_equal(truncate(path, (off_t)size), 0); /* zeros where the machine crashed */
        read_size(&n, &torn);
        assert_int_equal(n, cut > 7 ? 2 : 3); /* a record ends with 7 zeros here */
    }
}

/* A flipped byte is found, wherever it is; in the last record it is one that was torn. */
static void damage(void **state)
{
    size_t record = ldg_step_bytes(4, 4), last = sizeof(ldg_head) + 2 * record;
    stk_ledger_step s = { .size = sizeof s };
    char path[300];

    (void)state;
    snprintf(path, sizeof path, "%s/rank00000-gen0000.stkl", dir);
    live(&(life){ 0, 0, 0, 1, 3 });
    for (size_t at = 0; at < last + record; at++) {
        int fd = open(path, O_RDWR), rc;
        stk_ledger *l = NULL;
        uint64_t n = 0;
        stk_error err;
        uint8_t byte;

        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        rc = stk_ledger_open(&l, dir, &err);
        for (; rc == 0; n++)
            rc = stk_ledger_next(l, &s, &err);
        assert_true(rc == STK_ECORRUPT || (at >= sizeof(ldg_head) && rc == STK_END && n == 3));
        assert_true(rc == STK_END || strstr(err.shard, "rank00000-gen0000.stkl"));
        stk_ledger_close(&l);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        close(fd);
    }
}

static void two_loaders_one_folder(void **state)
{
    life f = { 0, 0, 0, 1, 0 };
    ldg_head h = head_of(&f, 0);
    stk_ledger_writer *a = NULL, *b = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_ledger_writer_open(&a, dir, &h, &err), 0);
    assert_int_equal(stk_ledger_writer_open(&b, dir, &h, &err), 0);
    assert_int_equal(add(a, 0, 0, 4, &err), 0);
    assert_int_equal(add(b, 0, 0, 4, &err), 0);
    assert_int_equal(add(a, 0, 4, 4, &err), STK_EIO);
    assert_non_null(strstr(err.message, "give every loader a folder of its own"));
    assert_int_equal(add(b, 0, 4, 4, &err), 0);
    stk_ledger_writer_close(&a);
    stk_ledger_writer_close(&b);
}

/* A write that fails leaves nothing that counts, and is made again when there is room. */
static void no_room(void **state)
{
    struct rlimit was, tight;
    life f = { 0, 0, 0, 1, 0 };
    ldg_head h = head_of(&f, 0);
    stk_ledger_writer *w = NULL;
    uint64_t n, torn;
    stk_error err;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    tight = was;
    tight.rlim_cur = sizeof h + ldg_step_bytes(4, 4) + 20;
    assert_int_equal(stk_ledger_writer_open(&w, dir, &h, &err), 0);
    assert_int_equal(add(w, 0, 0, 4, &err), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_int_equal(add(w, 0, 4, 4, &err), STK_EIO);
    assert_non_null(strstr(err.message, "can't write the ledger"));
    read_size(&n, &torn);
    assert_true(n == 1 && torn == 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(add(w, 0, 4, 4, &err), 0);
    read_size(&n, &torn);
    assert_true(n == 2 && torn == 0);
    stk_ledger_writer_close(&w);
}

static void wrong_folders(void **state)
{
    life f = { 0, 0, 0, 1, 0 };
    ldg_head h = head_of(&f, 0);
    stk_ledger_writer *w = NULL;
    stk_ledger *l = NULL;
    char path[300];
    stk_error err;

    (void)state;
    assert_int_equal(stk_ledger_open(&l, dir, &err), STK_ENOTFOUND);
    assert_null(l);
    snprintf(path, sizeof path, "%s/none", dir);
    assert_int_equal(stk_ledger_open(&l, path, &err), STK_ENOTFOUND);
    snprintf(path, sizeof path, "%s/a/b/c", dir);
    assert_int_equal(stk_ledger_writer_open(&w, path, &h, &err), 0);
    stk_ledger_writer_close(&w);
    snprintf(path, sizeof path, "%s/file", dir);
    close(open(path, O_CREAT | O_WRONLY, 0666));
    assert_int_equal(stk_ledger_writer_open(&w, path, &h, &err), STK_EINVAL);
    snprintf(path, sizeof path, "%s/file/x", dir);
    assert_true(stk_ledger_writer_open(&w, path, &h, &err) < 0);
    assert_int_equal(stk_ledger_writer_open(&w, "", &h, &err), STK_EINVAL);
    assert_null(w);
}

/* Files of another rank's copy, ids beyond 32 bits, and epochs chosen. */
static void copies_wide_ids_and_ranges(void **state)
{
    life f = { 0, 0, 0, 1, 0 };
    ldg_head h = head_of(&f, 0);
    stk_ledger_step s = { .size = sizeof s };
    uint64_t ids[2] = { ((uint64_t)1 << 33) + 5, 6 };
    uint8_t valid[2] = { 1, 1 };
    stk_ledger_row row = { .epoch = 3, .count = 2, .rows = 2, .ids = ids, .valid = valid };
    stk_ledger_writer *w = NULL;
    stk_ledger *l = NULL;
    char command[700];
    stk_error err;

    (void)state;
    h.data.samples = (uint64_t)1 << 34;
    assert_int_equal(stk_ledger_writer_open(&w, dir, &h, &err), 0);
    assert_int_equal(stk_ledger_writer_add(w, &row, &err), 0);
    row.epoch = 4;
    assert_int_equal(stk_ledger_writer_add(w, &row, &err), 0);
    stk_ledger_writer_close(&w);
    assert_int_equal(stk_ledger_open(&l, dir, &err), 0);
    stk_ledger_range(l, 4, 9);
    assert_int_equal(stk_ledger_next(l, &s, &err), 0);
    assert_true(s.epoch == 4 && s.ids[0] == ids[0] && s.ids[1] == 6);
    assert_int_equal(stk_ledger_next(l, &s, &err), STK_END);
    stk_ledger_close(&l);
    snprintf(command, sizeof command, "cp %s/rank00000-gen0000.stkl %s/copy.stkl", dir, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(stk_ledger_open(&l, dir, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "copy.stkl"));
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_dir, clear_dir)
    const struct CMUnitTest tests[] = {
        EACH(a_resume_supersedes),
        EACH(tries_that_were_given_up),
        EACH(clocks_say_nothing),
        EACH(files_before_turns),
        EACH(a_lost_count),
        EACH(torn_anywhere),
        EACH(damage),
        EACH(two_loaders_one_folder),
        EACH(no_room),
        EACH(wrong_folders),
        EACH(copies_wide_ids_and_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
