/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - epochs of one row kind, in the caller's thread, so that instructions can be counted.
 *
 *     bench_rows EPOCHS BATCH OPTIONS URL NAME=CHAIN...
 *
 * OPTIONS: letters.  m: the files are put into memory first (mem://); s: shuffled; g: Megatron's
 * order; p: rows are padded; l: rows are lists; t: batches of 4,096 values (max_tokens).  rows.py
 * runs it under callgrind for every kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "source/source.h"

#define MAX_OUT 16

static void die(const stk_error *err)
{
    char text[700];

    stk_error_format(err, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(3);
}

static const char *in_memory(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc((size_t)64 << 20);
    stk_error err;
    size_t n;

    if (!f || !data)
        exit(3);
    n = fread(data, 1, (size_t)64 << 20, f);
    fclose(f);
    if (stk_memory_put("rows.tar", data, n, &err) < 0)
        die(&err);
    return "mem://rows.tar";
}

static uint64_t run_epoch(stk_loader *l)
{
    stk_batch *b = NULL;
    uint64_t rows = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
        rows += stk_batch_rows(b);
        stk_batch_release(&b);
    }
    if (rc < 0)
        die(&err);
    return rows;
}

int main(int argc, char **argv)
{
    stk_output out[MAX_OUT];
    stk_loader_options o = { .size = sizeof o, .outputs = out, .num_workers = STK_NONE };
    stk_dataset *data = NULL;
    stk_loader *l = NULL;
    uint64_t rows = 0;
    stk_error err;

    if (argc < 6 || argc - 5 > MAX_OUT) {
        fprintf(stderr, "usage: bench_rows EPOCHS BATCH OPTIONS URL NAME=CHAIN...\n");
        return 2;
    }
    for (int i = 5; i < argc; i++) {
        char *chain = strchr(argv[i], '=');

        if (!chain)
            return 2;
        *chain = 0;
        out[o.n_outputs++] = (stk_output){ argv[i], chain + 1 };
    }
    o.batch_size = (uint32_t)strtoul(argv[2], NULL, 10);
    o.shuffle = strchr(argv[3], 'g')   ? STK_SHUFFLE_MEGATRON
                : strchr(argv[3], 's') ? STK_SHUFFLE_EXACT
                                       : STK_SHUFFLE_NONE;
    o.collate = strchr(argv[3], 'p')   ? STK_COLLATE_PAD
                : strchr(argv[3], 'l') ? STK_COLLATE_LIST
                                       : (stk_collate)0;
    o.max_tokens = strchr(argv[3], 't') ? 4096 : 0;
    if (strchr(argv[3], 'm'))
        argv[4] = (char *)(uintptr_t)in_memory(argv[4]);
    if (stk_dataset_open(&data, (const char *const *)&argv[4], 1, NULL, &err) < 0 ||
        stk_loader_open(&l, &data, 1, &o, &err) < 0)
        die(&err);
    for (unsigned e = (unsigned)strtoul(argv[1], NULL, 10); e; e--)
        rows += run_epoch(l);
    printf("%llu\n", (unsigned long long)rows);
    stk_loader_close(&l);
    stk_dataset_unref(&data);
    return 0;
}
