/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - tables read by several threads at once: tables FOLDER [SEED [ROUNDS]].
 *
 * Every round opens each table again, so that its chunks, heads and dictionaries are made while
 * threads race for them: some run loaders of their own, some read samples one by one.  Every value
 * follows from the row's number (make_tables.py). */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#define ROWS 200u
#define THREADS 4u

static uint64_t seed = 1;
static stk_dataset *data;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "tables seed %" PRIu64 ": %s:%d: %s\n", seed, __FILE__, __LINE__,      \
                    #cond);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static size_t text_of(uint64_t id, char out[64])
{
    size_t n = 0;

    for (uint64_t k = 0; k < id % 7; k++)
        n += (size_t)snprintf(out + n, 64 - n, "t%" PRIu64, id);
    return n;
}

static void check_batch(const stk_batch *b, uint32_t outputs)
{
    stk_tensor x, both, text, list;

    CHECK(stk_batch_dense(b, 0, &x) == 0 && stk_batch_dense(b, 1, &both) == 0);
    for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
        uint64_t id = stk_batch_ids(b)[i];
        char want[64];
        size_t n = text_of(id, want);

        CHECK(id < ROWS);
        CHECK(((int64_t *)x.data)[i] == (int64_t)(3 * id + 1));
        CHECK(((float *)both.data)[2 * i] == (float)id / 2);
        CHECK(((float *)both.data)[2 * i + 1] == (float)(3 * id + 1));
        if (outputs == 2)
            continue;
        CHECK(stk_batch_row(b, 2, i, &text) == 0 && (size_t)text.shape[0] == n &&
              !memcmp(text.data, want, n));
        CHECK(stk_batch_row(b, 3, i, &list) == 0 && list.shape[0] == (int64_t)(id % 5));
        for (int64_t k = 0; k < list.shape[0]; k++)
            CHECK(((int32_t *)list.data)[k] == (int32_t)id);
    }
}

/* Shuffled, or every second one in order and of numbers only: such rows are made many at once. */
static void run_loader(uint64_t n)
{
    int scan = n / 2 % 2 == 0;
    static const stk_output outputs[] = { { "x", "from(x) | int" },
                                          { "both", "columns(f, x) | to(f32)" },
                                          { "text", "from(text) | bytes" },
                                          { "l", "from(l)" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = outputs,
                             .n_outputs = scan ? 2 : 4,
                             .batch_size = 1 + (uint32_t)(n * 7 % 50),
                             .num_workers = 1 + (int32_t)(n % 3),
                             .seed = seed + n,
                             .shuffle = scan ? STK_SHUFFLE_NONE : STK_SHUFFLE_EXACT,
                             .collate = STK_COLLATE_LIST };
    uint64_t rows = 0;
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    stk_error err;
    int rc = stk_loader_open(&l, &data, 1, &o, &err);

    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(rc == 0);
    for (int epoch = 0; epoch < 2; epoch++) {
        while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
            check_batch(b, o.n_outputs);
            rows += stk_batch_rows(b);
            stk_batch_release(&b);
        }
        if (rc < 0)
            fprintf(stderr, "%s\n", err.message);
        CHECK(rc == STK_END);
    }
    CHECK(rows == 2 * ROWS);
    stk_loader_close(&l);
}

static void read_samples(uint64_t n)
{
    for (uint64_t k = 0; k < ROWS; k++) {
        uint64_t id = (k * 37 + n * 11) % ROWS;
        stk_sample *s = NULL;
        int found = 0;

        CHECK(stk_dataset_read(data, id, &s, NULL) == 0);
        for (uint32_t i = 0; i < stk_sample_fields(s); i++) {
            const void *value = NULL;
            size_t len = 0;
            const char *name = stk_sample_field(s, i, &value, &len);
            char want[64];

            if (strcmp(name, "text") != 0)
                continue;
            CHECK(len == text_of(id, want) && (!len || !memcmp(value, want, len)));
            found = 1;
        }
        CHECK(found);
        stk_sample_close(&s);
    }
}

static void *run(void *cookie)
{
    uint64_t n = (uint64_t)(uintptr_t)cookie;

    if (n % 2)
        read_samples(n);
    else
        run_loader(n);
    return NULL;
}

static void round_of(const char *folder, const char *name, uint64_t round)
{
    pthread_t thread[THREADS];
    char path[1024];
    const char *url = path;
    stk_error err;
    int rc;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    rc = stk_dataset_open(&data, &url, 1, NULL, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", path, err.message);
    CHECK(rc == 0 && stk_dataset_len(data) == ROWS);
    for (uint64_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, run,
                             (void *)(uintptr_t)(round * THREADS + i + seed)) == 0);
    for (uint64_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    stk_dataset_unref(&data);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "t.parquet", "plain.arrow", "packed.arrow", "mds" };
    uint64_t rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 10;

    if (argc < 2)
        return 2;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    alarm(600); /* a run that hangs ends here */
    for (uint64_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            round_of(argv[1], names[i], r);
    printf("seed %" PRIu64 ": %" PRIu64 " rounds over %zu tables\n", seed, rounds,
           sizeof names / sizeof *names);
    return 0;
}
