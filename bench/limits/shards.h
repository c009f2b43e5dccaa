/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - loads whole shards into memory, and finds a field of every sample, for the bare
 * loops. */
#ifndef STOKER_SHARDS_H
#define STOKER_SHARDS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stoker/stoker.h>

#include "data/shard_data.h"

typedef struct span {
    const uint8_t *data;
    size_t len;
} span;

typedef struct held_shards {
    stk_dataset *data;
    span *shard;
    uint64_t n_shards;
    span *sample; /* the field's bytes, by sample id */
    uint64_t n_samples;
} held_shards;

static inline void die(const stk_error *err)
{
    char line[1024];

    stk_error_format(err, line, sizeof line);
    fprintf(stderr, "bench: %s\n", line);
    exit(3);
}

/* A file's bytes in memory that is all there: populated, so that no fault is timed. */
static inline span hold_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    void *p;

    if (fd < 0 || fstat(fd, &st)) {
        perror(path);
        exit(3);
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        perror(path);
        exit(3);
    }
    return (span){ p, (size_t)st.st_size };
}

static inline span find_field(const held_shards *h, uint64_t id, const char *name)
{
    const stk_index *ix = stk_shard_data_of(h->data)->index;
    stk_entry e;
    stk_field f;
    stk_error err;
    int k;

    if (stk_index_entry(ix, id, &e, &err) < 0)
        die(&err);
    k = stk_index_schema_find(ix, e.schema, name);
    if (k < 0) {
        fprintf(stderr, "bench: sample %llu has no field %s\n", (unsigned long long)id, name);
        exit(3);
    }
    if (stk_index_field(ix, &e, (uint32_t)k, &f, &err) < 0)
        die(&err);
    return (span){ h->shard[e.shard].data + f.offset, (size_t)f.size };
}

static inline void hold_shards(held_shards *h, const char *url, const char *field)
{
    stk_error err;

    if (stk_dataset_open(&h->data, &url, 1, NULL, &err) < 0)
        die(&err);
    h->n_shards = stk_dataset_shards(h->data);
    h->n_samples = stk_dataset_len(h->data);
    h->shard = calloc(h->n_shards, sizeof *h->shard);
    h->sample = calloc(h->n_samples, sizeof *h->sample);
    if (!h->shard || !h->sample)
        exit(3);
    for (uint64_t i = 0; i < h->n_shards; i++)
        h->shard[i] = hold_file(stk_dataset_shard_name(h->data, i));
    for (uint64_t i = 0; i < h->n_samples; i++)
        h->sample[i] = find_field(h, i, field);
}

#endif
