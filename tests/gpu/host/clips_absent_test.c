/* SPDX-License-Identifier: Apache-2.0 */
/* clips_absent_test.c - videos where the driver's library for them is absent: a container whose
 * NVIDIA_DRIVER_CAPABILITIES leave video out.  hostgpu.c is the GPU.  Needs libavcodec. */
#include <dlfcn.h>

#include "clips_testing.h"
#include "video/vdec.h"

static stk_dataset *alike;

static const char *remedy_of(const char *line)
{
    const char *at = strstr(line, "libnvcuvid");

    return at ? strstr(at, "NVIDIA_DRIVER_CAPABILITIES has to name video") : NULL;
}

static void workers_decode(void **state)
{
    stk_loader_options o = clip_options(NULL, NULL), p = clip_options("cuda", NULL);
    stk_stats s = { .size = sizeof s };
    said log = { .word = "libnvcuvid" };
    stk_loader *a, *b;

    (void)state;
    p.log = note_said;
    p.log_cookie = &log;
    a = seam_loader(&alike, 1, &o);
    b = seam_loader(&alike, 1, &p);
    same_epochs(a, b, 2);
    stk_loader_stats(b, &s);
    assert_true(!s.gpu_clips && s.gpu_clips_by_workers > 0 && !s.gpu_redecoded);
    assert_int_equal(atomic_load(&log.lines), 1);
    assert_non_null(remedy_of(log.last));
    assert_non_null(strstr(log.last, "workers decode videos"));
    stk_loader_close(&a);
    stk_loader_close(&b);
}

static void the_gpu_alone_is_refused(void **state)
{
    stk_loader_options o = clip_options("cuda", "gpu");
    stk_loader *l;
    stk_error err;

    (void)state;
    assert_int_equal(stk_loader_open(&l, &alike, 1, &o, &err), STK_ENOTSUP);
    assert_null(l);
    assert_non_null(strstr(err.message, "decode=\"gpu\""));
    assert_non_null(remedy_of(err.message));
}

static int setup(void **state)
{
    (void)state;
    alike = write_clips("alike.tar", (const char *[]){ "h264.mp4" }, 1, 8);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&alike);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_decode),
        cmocka_unit_test(the_gpu_alone_is_refused),
    };
    stk_error err;
    void *lib;

    if (dlopen("libnvcuvid.so.1", RTLD_NOW | RTLD_LOCAL)) {
        printf("this machine has libnvcuvid\n");
        return 77;
    }
    if (stk_vdec_libav.load(&lib, &err) < 0) {
        printf("%s\n", err.message);
        return 77;
    }
    stk_vdec_libav.unload(lib);
    return cmocka_run_group_tests(tests, setup, teardown);
}
