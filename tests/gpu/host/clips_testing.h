/* SPDX-License-Identifier: Apache-2.0 */
/* clips_testing.h - makes shards of videos, loaders of clips and their batches, for tests of the
 * GPU stage. */
#ifndef CLIPS_TESTING_H
#define CLIPS_TESTING_H

#include <limits.h>
#include <stdatomic.h>

#include "../../seams/make_tar.h"
#include "../../seams/seam.h"
#include "../../support/sanitized.h"
#include "gpu/load.h"

#define CHAIN "from(mp4) | video(frames=4, stride=2) | random_resized_crop(40) | hflip | to(f16)"
#define BATCH 3

static const stk_output outputs[] = { { "video", CHAIN } };

static inline stk_loader_options clip_options(const char *device, const char *decode)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .batch_size = BATCH,
                                 .outputs = outputs,
                                 .n_outputs = 1,
                                 .num_workers = 2,
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 7,
                                 .drop_last = STK_YES,
                                 .device = device,
                                 .decode = decode };
}

static inline stk_batch *next_batch(stk_loader *l)
{
    stk_batch *b = NULL;
    stk_error err;
    int rc = stk_loader_next(l, &b, -1, &err);

    if (rc != STK_END)
        seam_ok(rc, &err);
    return b;
}

static inline void same(const stk_batch *a, const stk_batch *b)
{
    stk_tensor x, y;
    size_t n;

    assert_int_equal(stk_batch_dense(a, 0, &x), 0);
    assert_int_equal(stk_batch_dense(b, 0, &y), 0);
    assert_int_equal(y.gpu, 1);
    n = stk_dtype_size(x.dtype);
    for (uint32_t i = 0; i < x.ndim; i++)
        n *= (size_t)x.shape[i];
    assert_memory_equal(x.data, y.data, n); /* the simulated GPU's memory is the host's */
}

static inline void same_epochs(stk_loader *a, stk_loader *b, unsigned epochs)
{
    for (unsigned epoch = 0; epoch < epochs; epoch++)
        for (;;) {
            stk_batch *x = next_batch(a), *y = next_batch(b);

            assert_true(!x == !y);
            if (!x)
                break;
            same(x, y);
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
}

typedef struct said { /* lines of a loader's log that have a word */
    const char *word;
    _Atomic unsigned lines;
    char last[400];
} said;

static inline void note_said(void *cookie, stk_log_level level, const char *line)
{
    said *s = cookie;

    if (level <= STK_LOG_WARN && strstr(line, s->word)) {
        snprintf(s->last, sizeof s->last, "%s", line);
        atomic_fetch_add(&s->lines, 1);
    }
}

static inline stk_bytes file_of(const char *name)
{
    char path[PATH_MAX];
    uint8_t *data = NULL;
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", CLIPS, name);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    n = (size_t)ftell(f);
    rewind(f);
    data = malloc(n);
    assert_int_equal(fread(data, 1, n, f), n);
    fclose(f);
    return (stk_bytes){ data, n };
}

static inline stk_dataset *write_clips(const char *name, const char *const *file, unsigned kinds,
                                       unsigned rounds)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    for (unsigned i = 0; i < rounds * kinds; i++) {
        stk_bytes in = file_of(file[i % kinds]);

        snprintf(member, sizeof member, "%03u.mp4", i);
        tar_member(f, member, in.data, in.len);
        free((void *)in.data);
    }
    tar_end(f);
    fclose(f);
    return seam_open("", name, NULL);
}

#endif
