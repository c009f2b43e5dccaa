/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_rows.c - what the host does for one picture that a GPU decodes: crops of 224 from JPEGs with
 * seek points, batch 32, for a profiler.
 *
 *     gpu_rows SHARDS EPOCHS [cpu]
 *
 * bench/micro/gpu_rows.sh runs it with a GPU made of threads and counts the instructions of its
 * worker.  Prints how many pictures were made; those made ahead count. */
#include <stdio.h>
#include <stdlib.h>
#include <stoker/stoker.h>

static void die(const stk_error *err)
{
    char line[1024];

    stk_error_format(err, line, sizeof line);
    fprintf(stderr, "gpu_rows: %s\n", line);
    exit(3);
}

int main(int argc, char **argv)
{
    stk_output out = { "image",
                       "from(image, jpg, jpeg) | image | random_resized_crop(224) | hflip | "
                       "normalize(imagenet) | to(f16)" };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = &out,
                             .n_outputs = 1,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .batch_size = 32,
                             .num_workers = 1,
                             .device = "cuda" };
    stk_dataset_options d = { .size = sizeof d, .jpeg = STK_YES };
    stk_dataset *data = NULL;
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    stk_stats s = { .size = sizeof s };
    unsigned long n = 0;
    stk_error err;
    int rc = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: gpu_rows SHARDS EPOCHS [cpu]\n");
        return 2;
    }
    if (argc > 3)
        o.device = NULL;
    if (stk_dataset_open(&data, (const char *const *)&argv[1], 1, &d, &err) < 0 ||
        stk_loader_open(&l, &data, 1, &o, &err) < 0)
        die(&err);
    for (long e = strtol(argv[2], NULL, 10); e > 0 && rc >= 0; e--)
        while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
            n += stk_batch_rows(b);
            stk_batch_release(&b);
        }
    if (rc < 0)
        die(&err);
    stk_loader_stats(l, &s);
    printf("pictures %llu, delivered %lu\n", (unsigned long long)s.samples, n);
    stk_loader_close(&l);
    stk_dataset_unref(&data);
    return 0;
}
