/* SPDX-License-Identifier: Apache-2.0 */
/* medialayout.h - HASH.media as it is stored on disk: head | columns | tables of shards, columns
 * and names | text of the names.  Little-endian, loaded with memcpy.  Only mediafile.c and a
 * fuzzer include it. */
#ifndef STOKER_MEDIALAYOUT_H
#define STOKER_MEDIALAYOUT_H

#include "index/mediafile.h"

#define MEDIA_MAGIC "STKMEDIA"
#define MEDIA_VERSION 1u
#define MEDIA_HEAD 64u

typedef struct media_head {
    char magic[8];
    uint32_t version, table_crc;                  /* table_crc: CRC of all after the columns */
    uint64_t file_bytes, shards, columns, tables; /* tables: offset at which they begin */
    uint32_t names, text, zero, crc;              /* text: bytes of names; crc: CRC of the head */
} media_head;

typedef struct media_shard {
    stk_media_shard id;
    uint64_t first; /* its first column; its last is before the next shard's first */
} media_shard;

typedef struct media_column {
    uint64_t offset;
    uint32_t crc, name; /* name: number of the field's name */
    uint32_t width, zero;
} media_column;

_Static_assert(sizeof(media_head) == MEDIA_HEAD && sizeof(media_shard) == 32 &&
                   sizeof(media_column) == 24 && sizeof(stk_media_rec) == 32,
               "on disk");

/* A record of a picture is one word: 28 bits of width, 28 of height, 4 of turn, 4 of kind.  Records
 * of other media, and of larger pictures, are a stk_media_rec. */
#define MEDIA_NARROW 8u
#define MEDIA_WIDE ((uint32_t)sizeof(stk_media_rec))
#define MEDIA_SIDE ((uint32_t)1 << 28)

#endif
