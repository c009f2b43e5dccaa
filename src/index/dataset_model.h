/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_model.h - tests only: makes folders of small tar files whose bytes follow from numbers,
 * and checks what a data set over them returns. */
#ifndef STOKER_DATASET_MODEL_H
#define STOKER_DATASET_MODEL_H

#include <fcntl.h>
#include <sys/stat.h>

#include <stoker/dataset.h>
#include <stoker/tools.h>

#include "index/index_model.h"

static char dir[512], cache[600];

/* ---- a folder of its own for each test program, with the cache in it ---- */

static inline int setup(void **state)
{
    (void)state;
    test_folder(dir, sizeof dir);
    chmod(dir, 0755);
    snprintf(cache, sizeof cache, "%s/cache", dir);
    setenv("STOKER_CACHE", cache, 1);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    test_remove(dir);
    return 0;
}

/* ---- small tar files ---- */

static inline void member(FILE *f, const char *name, const void *data, size_t len)
{
    char h[512] = { 0 }, zeros[512] = { 0 };
    unsigned sum = 0;

    snprintf(h, 100, "%s", name);
    snprintf(h + 100, 8, "%07o", 0644);
    snprintf(h + 108, 8, "%07o", 0);
    snprintf(h + 116, 8, "%07o", 0);
    snprintf(h + 124, 12, "%011o", (unsigned)len);
    snprintf(h + 136, 12, "%011o", 0);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    fwrite(h, 1, 512, f);
    fwrite(data, 1, len, f);
    fwrite(zeros, 1, (512 - len % 512) % 512, f);
}

/* Writes the txt of sample `i` of shard `s` and returns its length.  Its key is "s-i", its cls one
 * digit.  `salt` changes content, not sizes. */
static inline size_t text_of(unsigned s, unsigned i, unsigned salt, char *out)
{
    size_t len = 10 + (s * 31 + i * 7) % 900;

    for (size_t k = 0; k < len; k++)
        out[k] = (char)('a' + (s + i * 3 + k + salt) % 26);
    return len;
}

static inline void shard_write(const char *path, unsigned s, unsigned n, unsigned salt)
{
    FILE *f = fopen(path, "wb");
    char name[64], text[1024], zeros[1024] = { 0 };

    assert_non_null(f);
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%u-%06u.txt", s, i);
        member(f, name, text, text_of(s, i, salt, text));
        snprintf(name, sizeof name, "%u-%06u.cls", s, i);
        member(f, name, &"0123456789"[(s + i + salt) % 10], 1);
    }
    fwrite(zeros, 1, sizeof zeros, f);
    assert_int_equal(fclose(f), 0);
}

typedef struct set { /* a folder of shards */
    char folder[560], pattern[600];
    const char *urls[1];
    unsigned shards, samples;
} set;

static inline void shard_path(const set *d, unsigned s, char *out, size_t size)
{
    snprintf(out, size, "%s/%04u.tar", d->folder, s);
}

static inline void set_grow(set *d, unsigned shards)
{
    char path[700];

    for (; d->shards < shards; d->shards++) {
        shard_path(d, d->shards, path, sizeof path);
        shard_write(path, d->shards, d->samples, 0);
    }
}

static inline void set_make(set *d, const char *name, unsigned shards, unsigned samples)
{
    snprintf(d->folder, sizeof d->folder, "%s/%s", dir, name);
    snprintf(d->pattern, sizeof d->pattern, "%s/*.tar", d->folder);
    d->urls[0] = d->pattern;
    d->shards = 0;
    d->samples = samples;
    assert_int_equal(mkdir(d->folder, 0777), 0);
    chmod(d->folder, 0777);
    set_grow(d, shards);
}

static inline int set_open(const set *d, stk_dataset **out, stk_error *err)
{
    stk_dataset_options o = { .size = sizeof o, .cache_dir = cache, .num_workers = 3 };

    return stk_dataset_open(out, d->urls, 1, &o, err);
}

static inline int set_build(const set *d, int force, stk_index_report *r, stk_error *err)
{
    stk_index_options o = {
        .size = sizeof o, .cache_dir = cache, .num_workers = 3, .force = force ? STK_YES : STK_UNSET
    };

    *r = (stk_index_report){ .size = sizeof *r };
    return stk_index_build(d->urls, 1, &o, r, err);
}

static inline void sample_check(stk_dataset *ds, const set *d, uint64_t id)
{
    unsigned s = (unsigned)(id / d->samples), i = (unsigned)(id % d->samples);
    char key[64], text[1024];
    const void *data;
    stk_sample *x = NULL;
    stk_error err;
    size_t len, n = text_of(s, i, 0, text);

    assert_int_equal(stk_dataset_read(ds, id, &x, &err), 0);
    snprintf(key, sizeof key, "%u-%06u", s, i);
    assert_memory_equal(stk_sample_key(x, &len), key, strlen(key));
    assert_int_equal(len, strlen(key));
    assert_memory_equal(stk_dataset_key(ds, id, &len), key, strlen(key));
    assert_int_equal(len, strlen(key));
    assert_int_equal(stk_sample_fields(x), 2);
    assert_string_equal(stk_sample_field(x, 0, &data, &len), "txt");
    assert_int_equal(len, n);
    assert_memory_equal(data, text, n);
    assert_string_equal(stk_sample_field(x, 1, &data, &len), "cls");
    assert_int_equal(len, 1);
    assert_int_equal(*(const char *)data, '0' + (s + i) % 10);
    assert_null(stk_sample_field(x, 2, NULL, NULL));
    assert_string_equal(stk_sample_shard(x), stk_dataset_shard_name(ds, s));
    stk_sample_close(&x);
}

static inline void set_check(stk_dataset *ds, const set *d)
{
    size_t len;

    assert_int_equal(stk_dataset_len(ds), (uint64_t)d->shards * d->samples);
    assert_int_equal(stk_dataset_shards(ds), d->shards);
    assert_null(stk_dataset_key(ds, stk_dataset_len(ds), &len));
    assert_int_equal(len, 0);
    for (uint64_t id = 0; id < stk_dataset_len(ds); id++)
        sample_check(ds, d, id);
}

static inline void open_check(const set *d, const char *index_below)
{
    stk_dataset *ds = NULL;
    stk_error err;
    char text[700];

    if (set_open(d, &ds, &err) < 0) {
        stk_error_format(&err, text, sizeof text);
        fail_msg("%s", text);
    }
    if (index_below)
        assert_int_equal(strncmp(stk_dataset_index_path(ds), index_below, strlen(index_below)), 0);
    set_check(ds, d);
    stk_dataset_unref(&ds);
}

static inline void touch(const char *path, time_t seconds)
{
    struct timespec t[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static inline void hidden(const set *d, char *out, size_t size)
{
    snprintf(out, size, "%s/.stoker", d->folder);
}

#endif
