/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - the bytes that make a shard's fingerprint.
 *
 * They are at up to 16 samples, three places each.  Of a local file they are read one by one.  Of a remote one
 * each would be a round trip, so all of them are asked for at once: places no farther apart than the bytes that a
 * round trip takes by one request, a small shard as a whole. */
#include <string.h>

#include "base/hash.h"
#include "index/part.h"

#define AHEAD_ALL (8u << 20) /* remote shards up to this are read by one request ... */
#define AHEAD_ROW (1u << 20) /* ... and places within so many bytes */

typedef struct arrivals { /* reads that are waited for together */
    stk_mutex lock;
    pthread_cond_t cond;
    uint32_t left; /* lock */
} arrivals;

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
    arrivals *a = io->cookie;

    stk_mutex_lock(&a->lock);
    if (!--a->left)
        pthread_cond_signal(&a->cond);
    stk_mutex_unlock(&a->lock);
}

/* All ranges, waited for.  0: some did not come whole. */
static int read_all(idx_print *p)
{
    arrivals a = { .lock = STK_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .left = p->n };
    int whole = 1;

    for (uint32_t i = 0; i < p->n; i++) {
        stk_io *io = &p->range[i];
        int rc;

        io->file = p->file;
        io->done = came;
        io->cookie = &a;
        rc = p->file->source->submit(p->file, io);
        if (rc < 0)
            io->rc = rc;
        if (rc != STK_PENDING)
            came(io);
    }
    stk_mutex_lock(&a.lock);
    while (a.left)
        stk_cond_wait(&a.cond, &a.lock);
    stk_mutex_unlock(&a.lock);
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
