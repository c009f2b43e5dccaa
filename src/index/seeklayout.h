/* SPDX-License-Identifier: Apache-2.0 */
/* seeklayout.h - HASH.seek as it is stored on disk: head | groups, in the order in which they came
 * | table of shards | table of groups.  Little-endian, loaded with memcpy. */
#ifndef STOKER_SEEKLAYOUT_H
#define STOKER_SEEKLAYOUT_H

#include "base/hash.h"
#include "index/seekfile.h"

#define SEEK_MAGIC "STKSEEK\n"
#define SEEK_VERSION 1u
#define SEEK_HEAD 64u

typedef struct seek_head {
    char magic[8];
    uint32_t version, table_crc;                 /* of both tables */
    uint64_t file_bytes, shards, groups, tables; /* tables: where they begin */
    uint32_t zero[3], crc;                       /* crc: of what is before it */
} seek_head;

typedef struct seek_shard {
    uint64_t size, print, samples, first; /* first: its first group */
} seek_shard;

#define SEEK_PARTIAL ((uint64_t)1 << 63) /* samples of the group may lack: found while running */

typedef struct seek_place {
    uint64_t offset; /* and SEEK_PARTIAL; 0: the group was not made */
    uint32_t len, crc;
    stk_seek_counts counts;
} seek_place;

_Static_assert(sizeof(seek_head) == SEEK_HEAD && sizeof(seek_shard) == 32 &&
                   sizeof(seek_place) == 32,
               "on disk");

/* A group of a shard as it is stored, read into `room` and checked; no data: none. */
stk_bytes stk_seekfile_group(stk_seekfile *s, uint64_t shard, uint64_t row, stk_seek_room *room,
                             stk_seek_counts *counts);

/* What a shard is known by besides its size: its fingerprint, and when it was written. */
static inline uint64_t seek_print(const stk_shard_info *s)
{
    return stk_hash64(s->print, &s->mtime_ns, sizeof s->mtime_ns);
}

static inline uint64_t seek_offset(const seek_place *p)
{
    return p->offset & ~SEEK_PARTIAL;
}

static inline uint64_t seek_groups(uint64_t samples)
{
    return samples / STK_SEEK_GROUP + (samples % STK_SEEK_GROUP != 0);
}

#endif
