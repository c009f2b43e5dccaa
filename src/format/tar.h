/* SPDX-License-Identifier: Apache-2.0 */
/* tar.h - parses one header of a tar file (tar_header.c).  tar.c, which walks a file, calls it. */
#ifndef STOKER_FORMAT_TAR_H
#define STOKER_FORMAT_TAR_H

#include "format/format.h"

#define TAR_BLOCK 512u
#define TAR_NAME_MAX (64u << 10) /* longest name, by GNU 'L' or pax "path" */
#define TAR_PAX_MAX (1u << 20)   /* longest pax header */

typedef struct tar_header {
    char type;     /* as written; '5' for an old header whose name ends in '/' */
    uint64_t size; /* as written; 0 where the type has no data */
    char name[100 + 1 + 155 + 1];
    size_t name_len;
} tar_header;

typedef struct tar_pax { /* what one pax header says, borrowed from its bytes */
    const char *path;    /* NULL: nothing; slashes at the end are gone */
    size_t path_len;
    uint64_t size;
    int has_size, sparse;
} tar_pax;

int stk_tar_is_zero(const uint8_t block[TAR_BLOCK]);
int stk_tar_checksum_ok(const uint8_t block[TAR_BLOCK]);

/* Errors have no address yet: the caller knows the offset. */
int stk_tar_header_parse(const uint8_t block[TAR_BLOCK], tar_header *out, stk_error *err);
int stk_tar_pax_parse(const uint8_t *data, size_t len, tar_pax *out, stk_error *err);

/* 1: members of this type have data after the header: regular, extension and unknown types (as
 * POSIX says), but not links, devices, folders and FIFOs. */
int stk_tar_has_data(char type);

#endif
