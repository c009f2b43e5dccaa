/* SPDX-License-Identifier: Apache-2.0 */
/* clips_test.c - clips that the GPU decodes: hostgpu.c is the GPU, hostnvdec.c its NVDEC, and the
 * CPU's batches are what is right.  Needs libavcodec. */
#include <unistd.h>

#include "clips_testing.h"
#include "gpu/nvdec.h"
#include "video/vdec.h"

#define ROUNDS 6 /* times that each file is there */

static const char *const files[] = { "h264.mp4", "hevc.mp4", "hevc10.mkv", "vp9.webm" };
static stk_dataset *mixed, *alike; /* all files; the first alone */
static stk_dataset *torn, *halves; /* every other one is damaged; colors that change within */
static stk_dataset *sizes;         /* every other one is smaller */

static stk_loader *on_gpu(stk_dataset *ds, const char *decode)
{
    stk_loader_options o = clip_options("cuda", decode);

    return seam_loader(&ds, 1, &o);
}

static stk_loader *on_cpu(stk_dataset *ds)
{
    stk_loader_options o = clip_options(NULL, NULL);

    return seam_loader(&ds, 1, &o);
}

static stk_stats stats_of(const stk_loader *l)
{
    stk_stats s = { .size = sizeof s };

    stk_loader_stats(l, &s);
    return s;
}

/* ---- what the simulated driver noted ---- */

static void begin_log(void)
{
    setenv("STK_HOSTNVDEC_LOG", seam_path("log"), 1);
    (void)unlink(seam_path("log"));
}

/* Lines that begin so; *most: decoders that were open at once. */
static unsigned count_log(const char *what, unsigned *most)
{
    FILE *f = fopen(getenv("STK_HOSTNVDEC_LOG"), "r");
    unsigned n = 0, open = 0;
    char line[80];

    *most = 0;
    while (f && fgets(line, sizeof line, f)) {
        n += !strncmp(line, what, strlen(what));
        open += !strncmp(line, "make", 4);
        open -= !strncmp(line, "close", 5);
        *most = open > *most ? open : *most;
    }
    if (f)
        fclose(f);
    unsetenv("STK_HOSTNVDEC_LOG");
    return n;
}

/* The driver makes as many decoders as the gate has bytes. */
static void set_gate(size_t n)
{
    FILE *f = fopen(seam_path("gate"), "w");

    setenv("STK_HOSTNVDEC_GATE", seam_path("gate"), 1);
    while (n--)
        fputc('x', f);
    fclose(f);
}

/* ---- tests ---- */

static void the_cpus_bits(void **state)
{
    const char *const decode[] = { "gpu", NULL, "cpu" };
    const unsigned epochs = TEST_SHARE(4, 2), clips = epochs * ROUNDS * 4;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        stk_loader *a = on_cpu(mixed), *b = on_gpu(mixed, decode[i]);
        stk_stats s;

        same_epochs(a, b, epochs);
        s = stats_of(b);
        assert_int_equal(s.gpu_redecoded, 0);
        assert_true(i == 0   ? !s.gpu_clips_by_workers && s.gpu_clips >= clips
                    : i == 1 ? s.gpu_clips_by_workers > 0
                             : !s.gpu_clips && s.gpu_clips_by_workers >= clips);
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

/* Whatever call fails, and whatever status frames have, batches are the CPU's. */
static void failures_are_the_cpus(void **state)
{
    const char *const what[] = { "create",      "map",    "parse",    "decode",
                                 "reconfigure", "status", "status:5", "late:7" };

    (void)state;
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        stk_loader *a = on_cpu(mixed), *b;
        stk_stats s;

        setenv("STK_HOSTNVDEC_FAIL", what[i], 1);
        b = on_gpu(mixed, "gpu");
        same_epochs(a, b, TEST_SHARE(2, 1));
        s = stats_of(b);
        stk_loader_close(&a);
        stk_loader_close(&b);
        unsetenv("STK_HOSTNVDEC_FAIL");
        if (strcmp(what[i], "reconfigure")) /* of sizes that are all alike */
            assert_true(s.gpu_redecoded > 0);
    }
}

static stk_loader *of_chain(stk_dataset *ds, const char *chain, const char *device)
{
    const stk_output out[] = { { "video", chain } };
    stk_loader_options o = clip_options(device, device ? "gpu" : NULL);

    o.outputs = out;
    o.on_error = STK_ON_ERROR_SKIP;
    return seam_loader(&ds, 1, &o);
}

/* Frames 8 and 9 are whole, and refer to one that is damaged, and that nobody wants.  A session
 * takes the next clip after such a one. */
static void damage_that_is_not_shown(void **state)
{
    const char *chain = "from(mp4) | video(frames=2, start=8) | resize((40, 40)) | to(u8)";
    stk_loader *a = of_chain(torn, chain, NULL), *b = of_chain(torn, chain, "cuda");
    unsigned most;

    (void)state;
    begin_log();
    same_epochs(a, b, 4);
    assert_true(stats_of(a).skipped > 0);
    assert_int_equal(stats_of(a).skipped, stats_of(b).skipped);
    assert_true(stats_of(b).gpu_redecoded > 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
    assert_true(count_log("make", &most) <= 4); /* as many as there are threads */
}

/* Headers inside the packets say other colors from the middle on. */
static void colors_that_change(void **state)
{
    const char *chain = "from(mp4) | video(frames=4, stride=3) | resize((40, 40)) | to(u8)";
    stk_loader *a = of_chain(halves, chain, NULL), *b = of_chain(halves, chain, "cuda");
    stk_stats s;

    (void)state;
    same_epochs(a, b, 8);
    s = stats_of(b);
    assert_true(s.gpu_clips > 0 && s.gpu_clips_by_workers > 0);
    assert_int_equal(s.gpu_redecoded, 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
}

/* Clips that fail are made again one by one, where the consumer waits: so that ends soon, and the
 * log says it once. */
static void frames_that_always_fail(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *a = on_cpu(alike), *b;
    said log = { .word = "NVDEC" };
    stk_stats s;

    (void)state;
    setenv("STK_HOSTNVDEC_FAIL", "decode", 1);
    o.log = note_said;
    o.log_cookie = &log;
    o.prefetch = 2;
    b = seam_loader(&alike, 1, &o);
    same_epochs(a, b, 12);
    s = stats_of(b);
    assert_true(s.gpu_redecoded >= 8 && s.gpu_redecoded <= 8 + 8 * BATCH); /* in flight meanwhile */
    assert_true(s.gpu_clips_by_workers > 10 * 4 * ROUNDS);
    assert_int_equal(atomic_load(&log.lines), 1);
    assert_non_null(strstr(log.last, "workers decode H.264 of 144x96"));
    stk_loader_close(&a);
    stk_loader_close(&b);
    unsetenv("STK_HOSTNVDEC_FAIL");
}

/* It makes batches ahead; nothing waits for them. */
static void begin(stk_loader *l)
{
    stk_batch *b = NULL;
    stk_error err;

    assert_true(stk_loader_next(l, &b, 0, &err) != 0);
    stk_batch_release(&b);
}

/* More batches wait for their clips than there were places for once. */
static void many_batches_wait(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *l;
    stk_batch *b;

    (void)state;
    set_gate(0);
    o.batch_size = 1;
    o.prefetch = 200;
    l = seam_loader(&alike, 1, &o);
    begin(l);
    for (uint64_t end = seam_now_ms() + 60000; stats_of(l).gpu_clips < 150 && seam_now_ms() < end;)
        seam_sleep_ms(2);
    assert_true(stats_of(l).gpu_clips >= 150);
    set_gate(64);
    for (int i = 0; i < 100; i++) {
        while (!(b = next_batch(l))) {} /* epochs follow each other */
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    unsetenv("STK_HOSTNVDEC_GATE");
}

/* Clips that wait for the GPU have a share of memory_limit: beyond it workers decode. */
static void waiting_clips_have_a_limit(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *l, *cpu;
    stk_stats s;

    (void)state;
    set_gate(0);
    o.batch_size = 1;
    o.prefetch = 200;
    o.memory_limit = 6 << 20;
    l = seam_loader(&alike, 1, &o);
    o.device = o.decode = NULL;
    o.memory_limit = 0;
    cpu = seam_loader(&alike, 1, &o);
    begin(l);
    for (uint64_t end = seam_now_ms() + 60000;
         !stats_of(l).gpu_clips_by_workers && seam_now_ms() < end;)
        seam_sleep_ms(2);
    s = stats_of(l);
    assert_true(s.gpu_clips > 8 && s.gpu_clips_by_workers > 0);
    assert_true(s.memory <= s.memory_limit);
    set_gate(64);
    same_epochs(cpu, l, 12);
    stk_loader_close(&cpu);
    stk_loader_close(&l);
    unsetenv("STK_HOSTNVDEC_GATE");
}

/* Where there is room for one session it takes smaller frames too: it is made to fit, there and
 * back. */
static void sizes_that_alternate(void **state)
{
    const stk_frame_format f = { .width = 144, .height = 96, .bits = 8, .chroma = 1 };
    stk_loader_options o = clip_options("cuda", "gpu");

    o.device_memory_limit = 4 * (stk_nvdec_bytes(&f) / 3 * 4 + (1 << 20));
    for (int i = 0; i < 2; i++) {
        stk_loader *a = on_cpu(sizes), *b;
        unsigned changes, most;
        stk_stats s;

        begin_log();
        if (i)
            setenv("STK_HOSTNVDEC_FAIL", "reconfigure", 1);
        b = seam_loader(&sizes, 1, &o);
        same_epochs(a, b, TEST_SHARE(4, 2));
        s = stats_of(b);
        stk_loader_close(&a);
        stk_loader_close(&b);
        unsetenv("STK_HOSTNVDEC_FAIL");
        changes = count_log("change", &most);
        assert_true(i ? !changes && s.gpu_redecoded : changes > 1 && !s.gpu_redecoded);
    }
    (void)state;
}

/* Capabilities are asked: what no engine takes is decoded by workers. */
static void engines_that_take_nothing(void **state)
{
    stk_loader *a = on_cpu(mixed), *b;
    stk_stats s;

    (void)state;
    setenv("STK_HOSTNVDEC_FAIL", "caps", 1);
    b = on_gpu(mixed, "gpu");
    same_epochs(a, b, 1);
    s = stats_of(b);
    assert_true(!s.gpu_clips && s.gpu_clips_by_workers >= ROUNDS * 4 && !s.gpu_redecoded);
    stk_loader_close(&a);
    stk_loader_close(&b);
    unsetenv("STK_HOSTNVDEC_FAIL");
}

/* Sessions are used again from clip to clip: as many as there are threads, for each codec and
 * depth. */
static void sessions_are_used_again(void **state)
{
    stk_loader *a = on_cpu(mixed), *b;
    unsigned most;

    (void)state;
    begin_log();
    b = on_gpu(mixed, "gpu");
    same_epochs(a, b, TEST_SHARE(8, 3));
    stk_loader_close(&a);
    stk_loader_close(&b);
    assert_true(count_log("make", &most) <= 16 && most <= 16); /* of some 200 clips, or 72 */
}

/* Sessions have a share of device_memory_limit: then one has to go before another is opened. */
static void sessions_have_a_limit(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_frame_format f = { .width = 160, .height = 96, .bits = 8, .chroma = 1 };
    stk_loader *a = on_cpu(mixed), *b;
    unsigned most;

    (void)state;
    begin_log();
    f.bits = 10; /* the largest of the files */
    o.device_memory_limit = 4 * (stk_nvdec_bytes(&f) / 3 * 4 + (1 << 20));
    b = seam_loader(&mixed, 1, &o);
    same_epochs(a, b, 2);
    assert_int_equal(stats_of(b).gpu_redecoded, 0);
    assert_true(stats_of(b).gpu_memory_peak > stk_nvdec_bytes(&f)); /* batches, too */
    stk_loader_close(&a);
    stk_loader_close(&b);
    assert_true(count_log("close", &most) > 1);
    assert_int_equal(most, 1);
}

/* No session fits: the log says so, once, and workers decode. */
static void no_session_fits(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_frame_format f = { .width = 144, .height = 96, .bits = 8, .chroma = 1 };
    stk_loader *a = on_cpu(alike), *b;
    said log = { .word = "NVDEC" };

    (void)state;
    o.device_memory_limit = 4 * stk_nvdec_bytes(&f);
    o.log = note_said;
    o.log_cookie = &log;
    b = seam_loader(&alike, 1, &o);
    same_epochs(a, b, 2);
    assert_int_equal(stats_of(b).gpu_clips, 0);
    assert_int_equal(stats_of(b).gpu_redecoded, 0);
    assert_int_equal(atomic_load(&log.lines), 1);
    assert_non_null(strstr(log.last, "device_memory_limit"));
    stk_loader_close(&a);
    stk_loader_close(&b);
}

/* One session is enough for the first batches: those that are being opened hold newer clips. */
static void the_first_batch_waits_for_one_session(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *l;
    stk_batch *b;

    (void)state;
    set_gate(1);
    o.num_workers = 1; /* clips come in their order */
    o.prefetch = 4;
    l = seam_loader(&alike, 1, &o);
    b = next_batch(l);
    assert_non_null(b);
    stk_batch_release(&b);
    set_gate(64);
    stk_loader_close(&l);
    unsetenv("STK_HOSTNVDEC_GATE");
}

/* Where workers may decode, nothing waits for the first session; when it is there it is used. */
static void workers_begin(void **state)
{
    stk_loader *l;
    stk_batch *b;

    (void)state;
    set_gate(0);
    l = on_gpu(alike, NULL);
    for (int i = 0; i < 3; i++) {
        b = next_batch(l);
        assert_non_null(b);
        stk_batch_release(&b);
    }
    assert_int_equal(stats_of(l).gpu_clips, 0);
    set_gate(64);
    for (uint64_t end = seam_now_ms() + 60000; !stats_of(l).gpu_clips && seam_now_ms() < end;) {
        b = next_batch(l);
        stk_batch_release(&b);
    }
    assert_true(stats_of(l).gpu_clips > 0);
    stk_loader_close(&l);
    unsetenv("STK_HOSTNVDEC_GATE");
}

/* A first session that can't be opened is tried again. */
static void a_trial_may_fail(void **state)
{
    stk_loader *a = on_cpu(alike), *b;

    (void)state;
    setenv("STK_HOSTNVDEC_FAIL", "create", 1);
    b = on_gpu(alike, NULL);
    same_epochs(a, b, 1);
    assert_int_equal(stats_of(b).gpu_clips, 0);
    assert_int_equal(stats_of(b).gpu_redecoded, 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
    unsetenv("STK_HOSTNVDEC_FAIL");
}

static stk_loader *kept(const char *chain, uint64_t limit, const char *decode)
{
    const stk_output out[] = { { "video", chain } };
    stk_loader_options o = clip_options("cuda", decode);

    o.outputs = out;
    o.cache = "device";
    o.device_cache_limit = limit;
    o.prefetch = 2; /* most clips of an epoch are there before the next one begins */
    return seam_loader(&mixed, 1, &o);
}

/* Cached frames are decoded once, and their crops may differ.  If other frames are drawn, or there
 * is no room for them, they are decoded each time.  The bits are the CPU's. */
static void frames_are_kept(void **state)
{
    const char *const chain[] = {
        "from(mp4) | video(frames=4, start=2) | random_resized_crop(40) | to(f16)", CHAIN
    };

    (void)state;
    for (int i = 0; i < 4; i++) {
        const uint64_t limit = i == 1 ? 200 << 10 : 8 << 20;
        stk_loader *a = of_chain(mixed, chain[i == 2], NULL);
        stk_loader *b = kept(chain[i == 2], limit, i == 3 ? NULL : "gpu");
        stk_stats s;

        same_epochs(a, b, 4);
        s = stats_of(b);
        assert_true(s.gpu_cache_bytes > 0 && s.gpu_cache_bytes <= limit && !s.gpu_redecoded);
        assert_true(i != 0 ||
                    (s.gpu_cache_entries == 4 * ROUNDS && s.gpu_cache_hits >= 2 * 4 * ROUNDS &&
                     s.gpu_cache_misses < 2 * 4 * ROUNDS));
        assert_true(i != 1 || (s.gpu_cache_entries > 0 && s.gpu_cache_entries < 4 * ROUNDS));
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

/* What could not be decoded is not kept. */
static void damage_is_not_kept(void **state)
{
    stk_loader *a, *b;
    const char *chain = "from(mp4) | video(frames=4, start=2) | random_resized_crop(40) | to(f16)";

    (void)state;
    setenv("STK_HOSTNVDEC_FAIL", "status:5", 1);
    a = of_chain(mixed, chain, NULL);
    b = kept(chain, 8 << 20, "gpu");
    same_epochs(a, b, 4);
    assert_true(stats_of(b).gpu_redecoded > 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
    unsetenv("STK_HOSTNVDEC_FAIL");
}

/* Closed while sessions open, decode, or wait. */
static void closed_in_mid_clip(void **state)
{
    (void)state;
    setenv("STK_HOSTNVDEC_CREATE_MS", "3", 1);
    setenv("STK_HOSTNVDEC_DECODE_US", "700", 1);
    for (unsigned n = 0; n < TEST_SHARE(16, 8); n++) {
        stk_loader *l = on_gpu(mixed, n % 2 ? "gpu" : NULL);
        stk_error err;

        for (unsigned i = 0; i < n % 5; i++) {
            stk_batch *b = next_batch(l);

            stk_batch_release(&b);
        }
        if (n % 3 == 1)
            seam_ok(stk_loader_resume(l, 2, n, &err), &err);
        seam_sleep_ms(n % 4 * 3);
        stk_loader_close(&l);
    }
    unsetenv("STK_HOSTNVDEC_CREATE_MS");
    unsetenv("STK_HOSTNVDEC_DECODE_US");
}

static void two_loaders(void **state)
{
    stk_loader *a = on_cpu(mixed), *b = on_gpu(mixed, "gpu"), *c = on_cpu(alike),
               *d = on_gpu(alike, NULL);

    (void)state;
    for (int i = 0; i < 30; i++) {
        stk_batch *x[4] = { next_batch(a), next_batch(b), next_batch(c), next_batch(d) };

        for (int k = 0; k < 4; k += 2) {
            assert_true(!x[k] == !x[k + 1]);
            if (x[k])
                same(x[k], x[k + 1]);
        }
        for (int k = 0; k < 4; k++)
            stk_batch_release(&x[k]);
    }
    stk_loader_close(&b); /* the other goes on */
    same_epochs(c, d, 2);
    stk_loader_close(&a);
    stk_loader_close(&c);
    stk_loader_close(&d);
}

/* sm_limit and memory_limit change nothing but how much is done at once. */
static void limits_change_no_bit(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *a = on_cpu(mixed), *b;
    unsigned n = 0, blocks;
    char line[80];
    FILE *f;

    (void)state;
    setenv("STK_HOSTGPU_LOG", seam_path("launches"), 1);
    (void)unlink(seam_path("launches"));
    o.sm_limit = 1;
    o.in_flight = 1;
    o.memory_limit = 48 << 20;
    b = seam_loader(&mixed, 1, &o);
    same_epochs(a, b, 2);
    assert_true(stats_of(b).gpu_clips > 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
    unsetenv("STK_HOSTGPU_LOG");
    f = fopen(seam_path("launches"), "r");
    for (; f && fgets(line, sizeof line, f); n++) {
        assert_int_equal(sscanf(line, "pictures %*u blocks %u", &blocks), 1);
        assert_int_equal(blocks, 6); /* of one multiprocessor */
    }
    assert_true(n > 0);
    fclose(f);
}

/* ---- data ---- */

static int setup(void **state)
{
    (void)state;
    mixed = write_clips("mixed.tar", files, 4, ROUNDS);
    alike = write_clips("alike.tar", files, 1, 4 * ROUNDS);
    torn = write_clips("torn.tar", (const char *[]){ "damaged.mp4", "h264.mp4" }, 2, ROUNDS);
    halves = write_clips("halves.tar", (const char *[]){ "halves.mp4" }, 1, 2 * ROUNDS);
    sizes = write_clips("sizes.tar", (const char *[]){ "h264.mp4", "small.mp4" }, 2, 2 * ROUNDS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&mixed);
    stk_dataset_unref(&alike);
    stk_dataset_unref(&torn);
    stk_dataset_unref(&halves);
    stk_dataset_unref(&sizes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpus_bits),
        cmocka_unit_test(failures_are_the_cpus),
        cmocka_unit_test(damage_that_is_not_shown),
        cmocka_unit_test(colors_that_change),
        cmocka_unit_test(sizes_that_alternate),
        cmocka_unit_test(frames_that_always_fail),
        cmocka_unit_test(many_batches_wait),
        cmocka_unit_test(waiting_clips_have_a_limit),
        cmocka_unit_test(engines_that_take_nothing),
        cmocka_unit_test(sessions_are_used_again),
        cmocka_unit_test(sessions_have_a_limit),
        cmocka_unit_test(no_session_fits),
        cmocka_unit_test(the_first_batch_waits_for_one_session),
        cmocka_unit_test(workers_begin),
        cmocka_unit_test(a_trial_may_fail),
        cmocka_unit_test(frames_are_kept),
        cmocka_unit_test(damage_is_not_kept),
        cmocka_unit_test(closed_in_mid_clip),
        cmocka_unit_test(two_loaders),
        cmocka_unit_test(limits_change_no_bit),
    };
    stk_error err;
    void *lib;

    if (stk_vdec_libav.load(&lib, &err) < 0) {
        printf("%s\n", err.message);
        return 77;
    }
    stk_vdec_libav.unload(lib);
    return cmocka_run_group_tests(tests, setup, teardown);
}
