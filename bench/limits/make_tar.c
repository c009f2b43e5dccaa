/* SPDX-License-Identifier: Apache-2.0 */
/* make_tar.c - make large WebDataset shards fast: headers are written directly, bytes are
 * pseudo-random.
 *
 *     make_tar PREFIX SHARDS SAMPLES FIELD:BYTES...      ->  PREFIX-000000.tar ...
 *
 * A field called cls holds a number of up to BYTES digits; every other one BYTES letters. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FIELDS 8
#define BLOCK 512

typedef struct field {
    char name[16];
    size_t size;
} field;

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void make_header(char *h, uint64_t key, const char *name, size_t size)
{
    unsigned sum = 0;

    memset(h, 0, BLOCK);
    snprintf(h, 100, "%09llu.%.15s", (unsigned long long)key, name);
    memcpy(h + 100, "0000644\0000000000\0000000000", 24);
    snprintf(h + 124, 12, "%011zo", size);
    memcpy(h + 136, "00000000000", 12);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
}

static size_t make_body(char *dst, const field *f, uint64_t *state)
{
    size_t n = f->size;

    if (!strcmp(f->name, "cls"))
        return (size_t)snprintf(dst, BLOCK, "%llu",
                                (unsigned long long)(next_random(state) % 1000));
    for (size_t i = 0; i < n; i++)
        dst[i] = (char)('a' + next_random(state) % 26);
    return n;
}

static void write_shard(FILE *to, uint64_t first, uint64_t n, const field *fields, int n_fields)
{
    static char zeros[2 * BLOCK];
    uint64_t state = first + 1;

    for (uint64_t i = 0; i < n; i++)
        for (int k = 0; k < n_fields; k++) {
            char head[BLOCK], *body = calloc(1, fields[k].size + 2 * BLOCK);
            size_t size;

            if (!body)
                exit(3);
            size = make_body(body, &fields[k], &state);
            make_header(head, first + i, fields[k].name, size);
            fwrite(head, 1, BLOCK, to);
            fwrite(body, 1, (size + BLOCK - 1) / BLOCK * BLOCK, to);
            free(body);
        }
    fwrite(zeros, 1, sizeof zeros, to);
}

int main(int argc, char **argv)
{
    field fields[MAX_FIELDS];
    int n_fields = argc - 4;
    uint64_t shards, samples;

    if (argc < 5 || n_fields > MAX_FIELDS) {
        fprintf(stderr, "usage: make_tar PREFIX SHARDS SAMPLES FIELD:BYTES...\n");
        return 2;
    }
    shards = strtoull(argv[2], NULL, 10);
    samples = strtoull(argv[3], NULL, 10);
    for (int i = 0; i < n_fields; i++)
        if (sscanf(argv[4 + i], "%15[^:]:%zu", fields[i].name, &fields[i].size) != 2) {
            fprintf(stderr, "make_tar: '%s' is not FIELD:BYTES\n", argv[4 + i]);
            return 2;
        }
    for (uint64_t s = 0; s < shards; s++) {
        uint64_t from = samples * s / shards, to = samples * (s + 1) / shards;
        char path[4096];
        FILE *f;

        snprintf(path, sizeof path, "%s-%06llu.tar", argv[1], (unsigned long long)s);
        f = fopen(path, "wb");
        if (!f) {
            perror(path);
            return 3;
        }
        write_shard(f, from, to - from, fields, n_fields);
        if (ferror(f) || fclose(f)) {
            perror(path);
            return 3;
        }
    }
    return 0;
}
