/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - the index file as it is stored on disk, and the struct of an open index.  Private to
 * index/.  docs/formats/index.md describes the same layout.
 *
 * A file is: head (4 KiB, with the table of sections) | segments, one per shard, in the order of
 * the shards, each followed by its chunks of columns | tables.  Numbers are little-endian.  They
 * are loaded with memcpy, so that an index in memory may begin at any address. */
#ifndef STOKER_INDEX_LAYOUT_H
#define STOKER_INDEX_LAYOUT_H

#include <stdatomic.h>
#include <string.h>

#include "index/chunk.h"
#include "index/index.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the index is mapped as it is on disk");

#define IDX_MAGIC "STKIDX1\n"
#define IDX_VERSION 1u
#define IDX_HEAD 4096u /* bytes of the head with the section table; its last word is its CRC */
#define IDX_SECTIONS_AT 128u
#define IDX_MAX_SECTIONS ((IDX_HEAD - 4 - IDX_SECTIONS_AT) / sizeof(idx_section))
#define IDX_BLOCK 65536u    /* bytes of a block, which has one CRC, in the segments */
#define IDX_WIDE UINT32_MAX /* idx_field.rel: `size` is an index in the table of wide fields */
#define IDX_MAX_OFFSET ((uint64_t)1 << 48)
#define IDX_MAX_SCHEMAS 65535u

#define IDX_MAX_COLUMNS 256u

enum {
    SEC_SEGMENTS = 1,
    SEC_BLOCKS,
    SEC_SHARDS,
    SEC_FIRSTS,
    SEC_SCHEMAS,
    SEC_STRINGS,
    SEC_COLUMNS /* may be absent */
};

typedef struct idx_head {
    char magic[8];
    uint32_t version, n_sections;
    uint64_t file_bytes, samples, shards;
    char format[32];
} idx_head;

typedef struct idx_section {
    uint32_t id, crc; /* crc: 0 for the segments, whose blocks have CRCs */
    uint64_t offset, len;
} idx_section;

typedef struct idx_shard { /* one cache line */
    uint64_t size;
    int64_t mtime_ns;
    uint64_t print;   /* stk_index_print() at build time */
    uint64_t segment; /* offset from the start of the segments */
    uint32_t n_fields, n_wide, key_bytes;
    uint32_t map, n_map; /* schema s of the segment is schema maps[map + s] of the index */
    uint32_t name, etag; /* offsets in the strings */
    uint32_t zero;
} idx_shard;

typedef struct idx_sample {
    uint64_t place; /* offset << 16 | schema in the segment */
    uint32_t field; /* index of its first field; its last is before the next sample's first */
    uint32_t key;   /* offset of its key, which ends where the next sample's begins */
} idx_sample;

typedef struct idx_field {
    uint32_t rel, size;
} idx_field;

typedef struct idx_wide {
    uint64_t offset, size;
} idx_wide;

_Static_assert(sizeof(idx_head) == 72 && sizeof(idx_section) == 24 && sizeof(idx_shard) == 64,
               "on disk");
_Static_assert(sizeof(idx_sample) == 16 && sizeof(idx_field) == 8 && sizeof(idx_wide) == 16,
               "on disk");

/* Bytes of a segment: samples and one entry after the last, fields, wide fields, keys, padding to a
 * multiple of 8. */
static inline uint64_t idx_segment_bytes(uint64_t samples, uint32_t fields, uint32_t wide,
                                         uint32_t keys)
{
    return ((samples + 1) * sizeof(idx_sample) + (uint64_t)fields * sizeof(idx_field) +
            (uint64_t)wide * sizeof(idx_wide) + keys + 7) &
           ~(uint64_t)7;
}

typedef struct stk_column_section { /* the optional section of typed columns */
    const uint8_t *names;
    const uint8_t *chunks; /* idx_chunk: by column, then by shard */
    uint32_t n;            /* columns */
} stk_column_section;

struct stk_index {
    const uint8_t *base; /* the head; for memory and a memfd the whole index */
    size_t len;          /* bytes of the file */
    int fd;              /* -1: the index is in borrowed memory */
    int mapped;          /* true for a memfd that can't shrink; other files are read into memory */
    uint8_t *own_segments; /* memory that segments are read into */
    uint64_t segments_at;  /* their offset in the file */
    uint64_t samples, n_shards;
    const uint8_t *segments, *blocks, *shards, *firsts, *names, *starts, *ids, *maps;
    const char *strings;
    uint64_t segments_len;
    uint32_t strings_len, n_names, n_schemas, n_maps;
    stk_column_section columns;
    void *tables[SEC_COLUMNS +
                 1]; /* sections that were read, by id; NULL: they are in borrowed memory */
    double guess;    /* shards per sample, to guess the shard of a sample */
    /* by block: IDX_UNSEEN, IDX_GOOD, or IDX_READING plus the number of the process that reads
     * it */
    _Atomic uint32_t *seen;
    char format[33];
    char *path;       /* for messages */
    stk_scan scan_as; /* the options that its shards were scanned with */
};

static inline uint64_t idx_u64(const uint8_t *p, uint64_t i)
{
    uint64_t v;

    memcpy(&v, p + i * 8, 8);
    return v;
}

static inline uint32_t idx_u32(const uint8_t *p, uint64_t i)
{
    uint32_t v;

    memcpy(&v, p + i * 4, 4);
    return v;
}

static inline uint16_t idx_u16(const uint8_t *p, uint64_t i)
{
    uint16_t v;

    memcpy(&v, p + i * 2, 2);
    return v;
}

enum { IDX_UNSEEN, IDX_GOOD, IDX_READING };

/* Reads bytes [offset, offset + len) of the segments, if needed, and checks their CRCs.
 * STK_ECORRUPT: a CRC is wrong. */
int idx_check_blocks(const stk_index *ix, uint64_t offset, uint64_t len, stk_error *err);

/* The same, without a call if the bytes are in one block that was checked before. */
static inline int idx_check(const stk_index *ix, uint64_t offset, uint64_t len, stk_error *err)
{
    uint64_t b = offset / IDX_BLOCK;

    if (len - 1 < IDX_BLOCK - offset % IDX_BLOCK &&
        atomic_load_explicit(&ix->seen[b], memory_order_acquire) == IDX_GOOD)
        return 0;
    return idx_check_blocks(ix, offset, len, err);
}

/* Reads `len` bytes of the file.  A file that has become shorter is an error. */
int idx_read(const stk_index *ix, void *to, uint64_t len, uint64_t offset, stk_error *err);

int idx_damaged(const stk_index *ix, stk_error *err, const char *what);

/* column.c: loads the section of columns, `len` bytes at `p`; len 0: the index has none. */
int idx_columns_load(stk_index *ix, const uint8_t *p, uint64_t len, stk_error *err);

#endif
