/* SPDX-License-Identifier: Apache-2.0 */
/* engine_bytes.c - the engine with next to nothing to do: `bytes` samples, shuffled, in batches.
 *
 *     engine_bytes mem|tar SHARDS THREADS EPOCHS BATCH FIELD [PREFETCH]
 *
 * mem gives the shards to the mem:// source, so that no system call reads them; tar reads the
 * files, which the run before has brought into the page cache.  The first epoch is not timed. */
#include <string.h>

#include "shards.h"
#include "timing.h"

static char **hold_as_memory(const char *url, size_t *n)
{
    stk_names names = { 0 };
    stk_error err;
    char **urls;

    if (stk_urls_expand(&url, 1, &names, &err) < 0)
        die(&err);
    urls = calloc(names.n, sizeof *urls);
    if (!urls)
        exit(3);
    for (size_t i = 0; i < names.n; i++) {
        span s = hold_file(names.name[i]);

        urls[i] = malloc(64);
        if (!urls[i])
            exit(3);
        snprintf(urls[i], 64, "mem://bench-%06zu.tar", i);
        if (stk_memory_put(urls[i] + strlen("mem://"), s.data, s.len, &err) < 0)
            die(&err);
    }
    *n = names.n;
    return urls;
}

static uint64_t run_epoch(stk_loader *l)
{
    stk_batch *b = NULL;
    uint64_t samples = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
        samples += stk_batch_rows(b);
        stk_batch_release(&b);
    }
    if (rc < 0)
        die(&err);
    return samples;
}

static void measure(stk_dataset *data, char **argv)
{
    char chain[64];
    stk_output out = { "x", chain };
    stk_loader_options o = {
        .size = sizeof o, .outputs = &out, .n_outputs = 1, .shuffle = STK_SHUFFLE_EXACT
    };
    uint64_t samples = 0;
    stk_loader *l = NULL;
    stk_error err;
    double start, cpu;
    unsigned epochs = (unsigned)strtoul(argv[4], NULL, 10);

    snprintf(chain, sizeof chain, "from(%.32s) | bytes", argv[6]);
    o.num_workers = (int32_t)strtol(argv[3], NULL, 10);
    o.batch_size = (uint32_t)strtoul(argv[5], NULL, 10);
    o.prefetch = argv[7] ? (uint32_t)strtoul(argv[7], NULL, 10) : 0;
    if (stk_loader_open(&l, &data, 1, &o, &err) < 0)
        die(&err);
    run_epoch(l);
    start = now_s();
    cpu = cpu_s();
    for (unsigned e = 0; e < epochs; e++)
        samples += run_epoch(l);
    report(argv[1][0] == 'm' ? "engine_mem" : "engine_tar", samples, now_s() - start,
           cpu_s() - cpu);
    stk_loader_close(&l);
}

int main(int argc, char **argv)
{
    stk_dataset *data = NULL;
    char **urls = &argv[2];
    stk_error err;
    size_t n = 1;

    if (argc < 7 || (strcmp(argv[1], "mem") && strcmp(argv[1], "tar"))) {
        fprintf(stderr,
                "usage: engine_bytes mem|tar SHARDS THREADS EPOCHS BATCH FIELD [PREFETCH]\n");
        return 2;
    }
    if (!strcmp(argv[1], "mem"))
        urls = hold_as_memory(argv[2], &n);
    if (stk_dataset_open(&data, (const char *const *)urls, n, NULL, &err) < 0)
        die(&err);
    measure(data, argv);
    stk_dataset_unref(&data);
    return 0;
}
