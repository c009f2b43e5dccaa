/* SPDX-License-Identifier: Apache-2.0 */
/* cache_layout.h - the layout of an object of the host cache on disk.  The files cache_*.c include
 * it; cache_object.c describes it. */
#ifndef STOKER_STORE_CACHE_LAYOUT_H
#define STOKER_STORE_CACHE_LAYOUT_H

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/store_cache.h"

#define HEAD 4096u
#define RECORDS_AT(o) ((o)->map_at + HEAD)

typedef struct head {
    char magic[8];
    uint32_t crc; /* CRC of all fields after this one */
    uint32_t chunk;
    uint64_t size, n_chunks;
    char etag[64];
    char url[STK_CACHE_URL_MAX + 1];
    char rest[HEAD - 96 - STK_CACHE_URL_MAX - 1];
} head;
static_assert(sizeof(head) == HEAD, "on disk");

/* Version 1 is refused: its content may have come with headers that contradicted each other. */
#define STK_OBJECT_MAGIC "STKOBJ2"

static inline uint64_t map_at(uint64_t size)
{
    return (size + HEAD - 1) / HEAD * HEAD;
}

static inline uint64_t chunks_of(uint64_t size)
{
    return (size + STK_CHUNK - 1) / STK_CHUNK;
}

static inline uint32_t head_crc(const head *h)
{
    return stk_crc32c(0, (const char *)h + 12, sizeof *h - 12);
}

static inline void head_make(head *h, const stk_cache_id *id)
{
    memset(h, 0, sizeof *h);
    memcpy(h->magic, STK_OBJECT_MAGIC, 8);
    h->chunk = (uint32_t)STK_CHUNK;
    h->size = id->size;
    h->n_chunks = chunks_of(id->size);
    snprintf(h->etag, sizeof h->etag, "%s", id->etag);
    snprintf(h->url, sizeof h->url, "%s", id->url);
    h->crc = head_crc(h);
}

/* The group of an object, which is dropped as a whole: objects of one folder are one data set. */
static inline uint64_t stk_cache_group(const char *url)
{
    const char *slash = strrchr(url, '/');

    return stk_hash64(2, url, slash ? (size_t)(slash - url) : strlen(url));
}

#endif
