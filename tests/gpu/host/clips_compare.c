/* SPDX-License-Identifier: Apache-2.0 */
/* clips_compare - clips by way of a GPU against those of the CPU, bit for bit.
 *
 *   clips_compare TAR DECODE EPOCHS CHAIN...
 *
 * DECODE: auto, gpu or cpu.  A CHAIN may end with ; and ops on batches, with labels cls.  Bad
 * samples are skipped.  One line per chain: batches, and what the GPU's figures say.  Exits with 1
 * at the first byte that differs.  The GPU is whatever STK_CUDA_LIB names: tests have one of
 * threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "base/err.h"
#include "gpu/load.h"

#define BATCH 3

static int failed(const char *what, const stk_error *err)
{
    printf("%s: %s\n", what, err->message);
    return 1;
}

static int open_loader(stk_loader **out, stk_dataset *ds, const char *chain, const char *device,
                       const char *decode, stk_error *err)
{
    const char *ops = strchr(chain, ';');
    char *head = strndup(chain, ops ? (size_t)(ops - chain) : strlen(chain));
    const stk_output outputs[] = { { "image", head }, { "label", "from(cls) | int | one_hot(3)" } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .n_outputs = ops ? 2 : 1,
                             .num_workers = 2,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 5,
                             .batch_ops = ops ? ops + 1 : NULL,
                             .on_error = STK_ON_ERROR_SKIP,
                             .device = device,
                             .decode = device && strcmp(decode, "auto") != 0 ? decode : NULL };
    int rc = stk_loader_open(out, &ds, 1, &o, err);

    free(head);
    return rc;
}

/* 1: they differ. */
static int compare(const stk_cuda *cuda, const stk_batch *x, const stk_batch *y)
{
    stk_tensor t, u;
    size_t bytes, n = 0;
    uint8_t *copy;
    int rc;

    if (stk_batch_dense(x, 0, &t) || stk_batch_dense(y, 0, &u) || u.gpu != 1 || t.ndim != u.ndim)
        return 1;
    bytes = stk_dtype_size(t.dtype);
    for (uint32_t i = 0; i < t.ndim; i++) {
        if (t.shape[i] != u.shape[i] || t.strides[i] != u.strides[i])
            return 1;
        bytes *= (size_t)t.shape[i];
    }
    copy = malloc(bytes + !bytes);
    rc = cuda->copy(0, copy, u.data, bytes, STK_COPY_OUT, NULL) || cuda->stream_sync(0, NULL) ||
         memcmp(copy, t.data, bytes) != 0;
    while (rc && n < bytes && copy[n] == ((const uint8_t *)t.data)[n])
        n++;
    if (rc)
        printf("byte %zu of %zu, %zu in a row, sample %u ", n, bytes, bytes / (size_t)t.shape[0],
               (unsigned)stk_batch_ids(x)[n / (bytes / (size_t)t.shape[0])]);
    free(copy);
    return rc;
}

static int run(const stk_cuda *cuda, stk_dataset *ds, const char *chain, const char *decode,
               int epochs)
{
    stk_loader *a = NULL, *b = NULL;
    stk_batch *x, *y;
    stk_stats s = { .size = sizeof s };
    stk_error err;
    unsigned batches = 0, bad = 0;

    if (open_loader(&a, ds, chain, NULL, decode, &err) < 0 ||
        open_loader(&b, ds, chain, "cuda", decode, &err) < 0)
        return failed(chain, &err);
    for (int epoch = 0; epoch < epochs; epoch++) {
        int rc;

        while ((rc = stk_loader_next(a, &x, -1, &err)) == 0) {
            if (stk_loader_next(b, &y, -1, &err) < 0)
                return failed("on the GPU", &err);
            if (compare(cuda, x, y)) {
                printf("%s: batch %u differs\n", chain, batches);
                bad = 1;
            }
            batches++;
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
        if (rc < 0)
            return failed("on the CPU", &err);
        if (stk_loader_next(b, &y, -1, &err) != STK_END)
            return failed("the GPU has more batches", &err);
    }
    stk_loader_stats(b, &s);
    if (!bad)
        printf("same: %u batches, %llu bytes sent, %llu redecoded, %llu clips by the GPU, %llu by "
               "workers, %llu skipped: %s\n",
               batches, (unsigned long long)s.gpu_bytes, (unsigned long long)s.gpu_redecoded,
               (unsigned long long)s.gpu_clips, (unsigned long long)s.gpu_clips_by_workers,
               (unsigned long long)s.skipped, chain);
    stk_loader_close(&a);
    stk_loader_close(&b);
    return (int)bad;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "";
    stk_dataset_options o = { .size = sizeof o };
    const stk_cuda *cuda;
    stk_dataset *ds;
    stk_error err;
    int rc = 0;

    if (argc < 5)
        return 2;
    if (stk_cuda_load(&cuda, &err) < 0 || stk_dataset_open(&ds, &url, 1, &o, &err) < 0)
        return failed(url, &err);
    for (int i = 4; i < argc && !rc; i++)
        rc = run(cuda, ds, argv[i], argv[2], atoi(argv[3]));
    stk_dataset_unref(&ds);
    return rc;
}
