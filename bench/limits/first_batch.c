/* SPDX-License-Identifier: Apache-2.0 */
/* first_batch.c - how long from nothing to the first shuffled batch of an indexed data set.
 *
 *     first_batch SHARDS BATCH
 *
 * Each run is a process of its own, so nothing is warm but the page cache. */
#include <stoker/stoker.h>

#include "timing.h"

int main(int argc, char **argv)
{
    const stk_output out[] = { { "text", "from(txt) | text" }, { "label", "from(cls) | int" } };
    stk_loader_options o = {
        .size = sizeof o, .outputs = out, .n_outputs = 2, .shuffle = STK_SHUFFLE_EXACT
    };
    const char *urls[] = { argc > 1 ? argv[1] : "" };
    stk_dataset *data = NULL;
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    stk_error err;
    double start, opened, end;
    char line[1024];

    if (argc < 3) {
        fprintf(stderr, "usage: first_batch SHARDS BATCH\n");
        return 2;
    }
    o.batch_size = (uint32_t)strtoul(argv[2], NULL, 10);
    start = now_s();
    if (stk_dataset_open(&data, urls, 1, NULL, &err) < 0)
        goto failed;
    opened = now_s();
    if (stk_loader_open(&l, &data, 1, &o, &err) < 0 || stk_loader_next(l, &b, -1, &err) < 0)
        goto failed;
    end = now_s();
    printf("{\"name\": \"first_batch\", \"dataset_samples\": %llu, \"open_s\": %.6f, \"seconds\": "
           "%.6f}\n",
           (unsigned long long)stk_dataset_len(data), opened - start, end - start);
    stk_batch_release(&b);
    stk_loader_close(&l);
    stk_dataset_unref(&data);
    return 0;
failed:
    stk_error_format(&err, line, sizeof line);
    fprintf(stderr, "first_batch: %s\n", line);
    return 3;
}
