/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hdf5 - any bytes as an HDF5 file: its data sets, their indexes of chunks, some chunks
 * unpacked, some values of the heap; or a clean error.  Checksums of metadata rarely survive: seeds
 * of the first version have none. */
#include <string.h>

#include "format/hdf5/h5_filters.h"
#include "fuzz.h"
#include "index/index.h"
#include "source/source.h"

#define CHUNKS 16u
#define CHUNK_MAX 65536u

static volatile unsigned all;

static void touch(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        all += p[i];
}

static void look_at_sequences(const stk_h5_file *f, stk_bytes file, const uint8_t *p, size_t n,
                              size_t step)
{
    for (size_t i = 0; step >= 8u + f->offsets && i + step <= n; i += step) {
        stk_h5_sequence seq = stk_h5_sequence_read(f, p + i);
        stk_bytes value;
        uint64_t need;

        if (seq.addr < file.len &&
            stk_h5_sequence_find(f,
                                 (stk_bytes){ file.data + seq.addr, (size_t)(file.len - seq.addr) },
                                 seq.number, &value, &need, NULL) == 0)
            touch(value.data, value.len);
    }
}

static void look_chunks(stk_h5_file *f, const stk_h5_set *s, stk_bytes file)
{
    static uint8_t room[CHUNK_MAX];
    stk_h5_chunks c = { 0 };
    uint64_t bytes = stk_h5_chunk_bytes(s);

    if (stk_h5_chunks_read(&c, f, s, NULL) == 0 && bytes <= sizeof room)
        for (uint64_t i = 0; i < c.n && i < CHUNKS; i++) {
            stk_bytes raw = { file.data + c.chunk[i].addr, (size_t)c.chunk[i].size };

            if (stk_unpack_chunk(s->filter, s->n_filters, c.chunk[i].mask, raw,
                                 (stk_bytes){ room, (size_t)bytes }, NULL) < 0)
                continue;
            touch(room, (size_t)bytes);
            if (s->type.kind == STK_H5_VALUES)
                look_at_sequences(f, file, room, (size_t)bytes, s->type.size);
        }
    stk_h5_chunks_fini(&c);
}

/* Parts as if the set itself were their source. */
static void look_parts(const stk_h5_set *s)
{
    for (uint32_t i = 0; i < s->n_mappings; i++) {
        stk_h5_select to = s->mapping[i].to;
        uint64_t n, run = 1, at, all_of = 1;

        for (uint32_t d = 0; d < s->rank; d++)
            all_of *= s->dim[d];
        if (!stk_h5_select_settle(&to, s->rank, s->dim, &n))
            continue;
        for (uint64_t k = 0; k < n && k < CHUNKS; k += run) {
            at = stk_h5_select_at(&to, s->dim, k, &run);
            if (!run || at >= all_of || run > all_of - at)
                __builtin_trap();
        }
    }
}

static void look(stk_h5_file *f, stk_bytes file)
{
    stk_h5_group g = { 0 };

    if (stk_h5_group_read(&g, f, "/", NULL) == 0)
        for (uint32_t i = 0; i < g.n; i++) {
            const stk_h5_set *s = &g.set[i];

            if (s->refused)
                continue;
            if (s->layout == STK_H5_CHUNKED)
                look_chunks(f, s, file);
            else if (s->layout == STK_H5_COMPACT)
                touch(s->here, (size_t)s->size);
            else if (s->layout == STK_H5_VIRTUAL)
                look_parts(s);
            else if (s->addr != STK_H5_NOWHERE && s->type.kind == STK_H5_VALUES)
                look_at_sequences(f, file, file.data + s->addr, (size_t)s->size, s->element);
            else if (s->addr != STK_H5_NOWHERE)
                touch(file.data + s->addr, (size_t)s->size);
        }
    stk_h5_group_fini(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_file *file = NULL;
    stk_h5_file f;

    if (stk_memory_put("fuzz.h5", size ? (const void *)data : "", size, NULL) < 0)
        return 0;
    if (stk_source_open(&stk_source_memory, STK_URL("mem://fuzz.h5", NULL), &file, NULL) == 0 &&
        stk_h5_file_init(&f, file, NULL) == 0)
        look(&f, (stk_bytes){ data, size });
    stk_file_close(&file);
    stk_memory_put("fuzz.h5", NULL, 0, NULL);
    return 0;
}
