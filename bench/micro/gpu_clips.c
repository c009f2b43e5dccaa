/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_clips - clips per second in batches on a GPU, finished, by who decodes them.
 *
 *   gpu_clips TAR SECONDS BATCH WORKERS CHAIN [DECODE...]
 *
 * For each of DECODE (gpu cpu auto): batches of the chain are taken and let go of; the first batch
 * is not in the time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stoker/stoker.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int failed(const stk_error *err)
{
    printf("%s\n", err->message);
    return 1;
}

static int run(stk_dataset *ds, char **argv, const char *decode)
{
    const stk_output outputs[] = { { "video", argv[5] } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = (uint32_t)atoi(argv[3]),
                             .num_workers = atoi(argv[4]),
                             .outputs = outputs,
                             .n_outputs = 1,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 5,
                             .drop_last = STK_YES,
                             .device = "cuda",
                             .decode = strcmp(decode, "auto") != 0 ? decode : NULL };
    stk_stats s = { .size = sizeof s };
    double from = now(), first = 0, end, took;
    uint64_t clips = 0;
    stk_loader *l;
    stk_batch *b;
    stk_error err;
    int rc;

    if (stk_loader_open(&l, &ds, 1, &o, &err) < 0)
        return failed(&err);
    end = 1e300;
    while (now() < end) {
        rc = stk_loader_next(l, &b, -1, &err);
        if (rc < 0)
            return failed(&err);
        if (rc == STK_END)
            continue;
        if (first > 0)
            clips += stk_batch_rows(b);
        stk_batch_release(&b);
        if (first == 0) {
            first = now();
            end = first + atof(argv[2]);
        }
    }
    took = now() - first;
    stk_loader_stats(l, &s);
    printf("%-4s %7.0f clips/s, first batch %.2f s; clips: %llu on the GPU, %llu by workers; %llu "
           "redecoded; %.0f MB of %.0f there\n",
           decode, (double)clips / took, first - from, (unsigned long long)s.gpu_clips,
           (unsigned long long)s.gpu_clips_by_workers, (unsigned long long)s.gpu_redecoded,
           (double)s.gpu_memory_peak * 1e-6, (double)s.gpu_memory_limit * 1e-6);
    fflush(stdout);
    stk_loader_close(&l);
    return 0;
}

int main(int argc, char **argv)
{
    stk_dataset_options o = { .size = sizeof o };
    const char *url = argc > 1 ? argv[1] : "";
    stk_dataset *ds;
    stk_error err;
    int rc = 0;

    if (argc < 7)
        return 2;
    if (stk_dataset_open(&ds, &url, 1, &o, &err) < 0)
        return failed(&err);
    for (int i = 6; i < argc && !rc; i++)
        rc = run(ds, argv, argv[i]);
    stk_dataset_unref(&ds);
    return rc;
}
