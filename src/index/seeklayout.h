/* SPDX-License-Identifier: Apache-2.0 */
/* seeklayout.h - HASH.seek as it is stored on disk: head | groups, in the order in which they came
 * | table of shards | table of groups.  Little-endian, loaded with memcpy.  Only index/ and fuzzers
 * include it. */
#ifndef STOKER_SEEKLAYOUT_H
#define STOKER_SEEKLAYOUT_H

#include "base/hash.h"
#include "index/seekfile.h"

#define SEEK_MAGIC "STKSEEK\n"
#define SEEK_VERSION 1u
#define SEEK_HEAD 64u

typedef struct seek_head {
    char magic[8];
    uint32_t version, table_crc;                 /* table_crc: CRC of both tables */
    uint64_t file_bytes, shards, groups, tables; /* tables: offset at which they begin */
    uint32_t zero[3], crc;                       /* crc: CRC of the head before it */
} seek_head;

typedef struct seek_shard {
    uint64_t size, print, samples, first; /* first: its first group */
} seek_shard;

/* the group was found while running: some may be missing */
#define SEEK_PARTIAL ((uint64_t)1 << 63)

typedef struct seek_place {
    uint64_t offset; /* offset of the group, with SEEK_PARTIAL; 0: the group was not made */
    uint32_t len, crc;
    stk_seek_counts counts;
} seek_place;

_Static_assert(sizeof(seek_head) == SEEK_HEAD && sizeof(seek_shard) == 32 &&
                   sizeof(seek_place) == 32,
               "on disk");

/* Reads a group as it is stored into `room`, and checks it.  No data: there is no valid one. */
stk_bytes stk_seekfile_group(stk_seekfile *s, uint64_t shard, uint64_t row, stk_seek_room *room,
                             stk_seek_counts *counts);

/* A number that identifies a shard, besides its size: its fingerprint and its mtime. */
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
