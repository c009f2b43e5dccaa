/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - the bytes that make a shard's fingerprint.
 *
 * They are at up to 16 samples, three places each.  Of a local file they are read one by one.  Of a
 * remote one each would be a round trip, so all of them are asked for at once: places no farther
 * apart than the bytes that a round trip takes by one request, a small shard as a whole. */
#include <string.h>

#include "base/halt.h"
#include "base/hash.h"
#include "index/part.h"
#include "store/remote.h"

#define AHEAD_ALL (8u << 20) /* remote shards up to this are read by one request ... */
#define AHEAD_ROW (1u << 20) /* ... and places within so many bytes */

int idx_print_note(idx_print *p)
{
    p->noting = (p->file->source->can & STK_SOURCE_REMOTE) != 0;
    if (p->noting && p->size && p->size <= AHEAD_ALL)
        p->range[p->n++] = (stk_io){ .len = (size_t)p->size };
    return p->noting;
}

static void note(idx_print *p, uint64_t offset, size_t len)
{
    stk_io *last = p->n ? &p->range[p->n - 1] : NULL;

    if (!len || (last && offset >= last->offset && offset + len <= last->offset + last->len))
        return;
    if (last && offset >= last->offset && offset + len - last->offset <= AHEAD_ROW)
        last->len = (size_t)(offset + len - last->offset);
    else if (p->n < sizeof p->range / sizeof *p->range)
        p->range[p->n++] = (stk_io){ .offset = offset, .len = len };
}

static void came(stk_io *io)
{
    stk_wait_came(io->cookie);
}

/* All ranges, waited for.  0: some did not come whole. */
static int read_all(idx_print *p)
{
    stk_halt halt = { .above = stk_halt_mine() };
    const stk_halt *was = stk_halt_enter(&halt);
    stk_wait w;
    int whole = 1;

    stk_wait_init(&w, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        stk_io *io = &p->range[i];
        int rc;

        io->file = p->file;
        io->done = came;
        io->cookie = &w;
        rc = p->file->source->submit(p->file, io);
        if (rc < 0)
            io->rc = rc;
        if (rc != STK_PENDING)
            came(io);
    }
    if (stk_wait_look(&w) < 0) {
        stk_halt_set(&halt, 1);
        stk_source_look();
    }
    stk_wait_all(&w);
    stk_wait_fini(&w);
    stk_halt_enter(was);
    for (uint32_t i = 0; i < p->n; i++)
        whole &= p->range[i].rc == 0 && p->range[i].got == p->range[i].len;
    return whole;
}

/* What does not come this way is read place by place, where an error has words. */
int idx_print_fetch(idx_print *p, stk_error *err)
{
    const stk_source *s = p->file->source;
    size_t total = 0;

    p->noting = 0;
    for (uint32_t i = 0; i < p->n; i++)
        total += p->range[i].len;
    if (!s->submit || s->drive || !total) {
        p->n = 0;
        return 0;
    }
    p->data = stk_alloc(total);
    if (!p->data)
        return stk_fail_nomem(err, total);
    total = 0;
    for (uint32_t i = 0; i < p->n; total += p->range[i++].len)
        p->range[i].dst = p->data + total;
    if (!read_all(p))
        p->n = 0;
    return 0;
}

static const uint8_t *find(const idx_print *p, uint64_t offset, size_t len)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const stk_io *r = &p->range[i];

        if (offset >= r->offset && offset + len <= r->offset + r->len)
            return (const uint8_t *)r->dst + (offset - r->offset);
    }
    return NULL;
}

int idx_print_mix(idx_print *p, uint64_t offset, uint64_t *hash, stk_error *err)
{
    uint8_t block[IDX_PRINT_BYTES];
    const uint8_t *data;
    size_t len = IDX_PRINT_BYTES;

    if (offset >= p->size)
        len = 0;
    else if (p->size - offset < len)
        len = (size_t)(p->size - offset);
    if (p->noting) {
        note(p, offset, len);
        return 0;
    }
    data = len ? find(p, offset, len) : block;
    if (!data) {
        STK_TRY(stk_file_read(p->file, offset, block, len, err));
        data = block;
    }
    *hash = stk_hash64(*hash ^ offset, data, len);
    return 0;
}
