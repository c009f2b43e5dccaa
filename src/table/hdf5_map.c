/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_map.c - large rows that are stored as they are: copied from where the system has them.
 *
 * Only bytes that are in memory are handed out so: others are read as every range is, without a
 * worker that waits for a disk.  A file that was cut short is an error: it is looked at before each
 * touch, and what is cut away meanwhile is base/guarded.h's. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "table/hdf5_data.h"

#define WORTH 16384u /* bytes of a row from which a copy saved is worth two calls of the system */
#define PAGES 1024u  /* of a row that are looked at */

static const uint8_t *map_get(const stk_hdf5 *h, uint64_t shard, int fd)
{
    stk_hdf5_shard *s = &h->shard[shard];
    stk_guarded *have = atomic_load_explicit(&s->map, memory_order_acquire), *mine = NULL;

    if (!have && stk_guarded_map(&mine, fd, (size_t)h->base.file[shard].size) < 0)
        return NULL;
    if (!have && atomic_compare_exchange_strong_explicit(&s->map, &have, mine, memory_order_acq_rel,
                                                         memory_order_acquire))
        return stk_guarded_data(mine);
    stk_guarded_close(&mine);
    return stk_guarded_data(have);
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
    stk_guarded *map = atomic_load_explicit(&h->shard[shard].map, memory_order_relaxed);

    stk_guarded_close(&map);
}

int stk_hdf5_unchanged(const stk_dataset *d, stk_error *err)
{
    const stk_hdf5 *h = (const stk_hdf5 *)d;
    int rc = stk_table_unchanged(d, err);

    for (uint64_t i = 0; rc == 0 && i < h->base.names.n; i++)
        if (stk_guarded_torn(atomic_load_explicit(&h->shard[i].map, memory_order_acquire))) {
            rc = stk_fail(err, STK_ESTALE,
                          "the file was cut short while it was read: open it again");
            stk_error_at(err, h->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
        }
    return rc;
}
