/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_map.c - large rows that are stored as they are: copied from where the system has them.
 *
 * Only bytes that are in memory are handed out so: others are read as every range is, without a
 * worker that waits for a disk.  A file that was cut short is an error: it is looked at before each
 * touch, and what is past its end is not in memory. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "table/hdf5_data.h"

#define WORTH 16384u /* bytes of a row from which a copy saved is worth two calls of the system */
#define PAGES 1024u  /* of a row that are looked at */

static uint8_t *map_get(const stk_hdf5 *h, uint64_t shard, int fd)
{
    stk_hdf5_shard *s = &h->shard[shard];
    uint8_t *have = atomic_load_explicit(&s->map, memory_order_acquire);
    size_t size = (size_t)h->base.file[shard].size;
    void *mine;

    if (have)
        return have;
    mine = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mine == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&s->map, &have, mine, memory_order_acq_rel,
                                                memory_order_acquire))
        return mine;
    munmap(mine, size);
    return have;
}

static int in_memory(const uint8_t *p, uint64_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), back = (uintptr_t)p % page,
           n = (size_t)(back + len + page - 1) / page;
    unsigned char there[PAGES];

    if (n > PAGES || mincore((void *)(uintptr_t)(p - back), (size_t)(back + len), there))
        return 0;
    while (n && there[n - 1] & 1)
        n--;
    return !n;
}

void stk_hdf5_mapped(const stk_hdf5_at *at, stk_place *place)
{
    const stk_table_file *f = &at->h->base.file[at->shard];
    /* acquire() was before */
    stk_file *file = atomic_load_explicit(&f->file, memory_order_acquire);
    int fd = file ? stk_file_fd(file) : -1;
    struct stat st;
    const uint8_t *map;

    if (place->len < WORTH || fd < 0 || place->offset > f->size ||
        place->len > f->size - place->offset)
        return;
    map = map_get(at->h, at->shard, fd);
    if (map && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= f->size &&
        stk_file_unchanged(file, 0, NULL) == 0 && /* reading it is an error then */
        in_memory(map + place->offset, place->len))
        place->here = (stk_bytes){ map + place->offset, (size_t)place->len };
}

void stk_hdf5_unmap(const stk_hdf5 *h, uint64_t shard)
{
    uint8_t *map = atomic_load_explicit(&h->shard[shard].map, memory_order_relaxed);

    if (map)
        munmap(map, (size_t)h->base.file[shard].size);
}
