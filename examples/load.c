/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - open shards, pull one epoch of batches, print what came.
 *     cc load.c $(pkg-config --cflags --libs stoker) -o load && ./load 'train-{000..099}.tar' */
#include <stdio.h>
#include <stoker/stoker.h>
#include <time.h>

int main(int argc, char **argv)
{
    const stk_output out[] = { { "image", "image | resize((64, 64)) | to(f32)" },
                               { "label", "from(cls) | int" } };
    stk_loader_options o = {
        .size = sizeof o, .batch_size = 32, .outputs = out, .n_outputs = 2, .shuffle = 1
    };
    const char *const *urls = (const char *const *)argv + 1;
    stk_dataset *ds = NULL;
    stk_loader *loader = NULL;
    stk_batch *b = NULL;
    stk_tensor t;
    stk_error err;
    time_t start = time(NULL);
    unsigned long rows = 0;
    size_t len;
    int rc = stk_dataset_open(&ds, urls, (size_t)argc - 1, NULL, &err);

    if (rc == 0)
        rc = stk_loader_open(&loader, &ds, 1, &o, &err);
    while (rc == 0 && (rc = stk_loader_next(loader, &b, -1, &err)) == 0) {
        const char *key = stk_batch_key(b, 0, &len);

        if (stk_batch_dense(b, 0, &t) == 0)
            printf("step %lu: %ld x %ld x %ld x %ld, from %.*s on\n",
                   (unsigned long)stk_batch_step(b), (long)t.shape[0], (long)t.shape[1],
                   (long)t.shape[2], (long)t.shape[3], (int)len, key);
        rows += stk_batch_rows(b);
        stk_batch_release(&b);
    }
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", stk_code_name(err.code), err.message);
    else
        printf("%lu samples, %.0f a second\n", rows, rows / (difftime(time(NULL), start) + 1));
    stk_loader_close(&loader);
    stk_dataset_unref(&ds);
    return rc < 0;
}
