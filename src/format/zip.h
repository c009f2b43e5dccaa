/* SPDX-License-Identifier: Apache-2.0 */
/* zip.h - the members of a ZIP archive, for .npz: stored or deflated, also past 4 GiB. */
#ifndef STOKER_FORMAT_ZIP_H
#define STOKER_FORMAT_ZIP_H

#include "source/source.h"

#define STK_ZIP_STORED 0
#define STK_ZIP_DEFLATED 8

typedef struct stk_zip_member {
    char *name;
    uint16_t method;
    uint32_t crc;
    uint64_t offset;       /* of its bytes in the file */
    uint64_t packed, size; /* as they are stored there, unpacked */
} stk_zip_member;

typedef struct stk_zip { /* init with zeros, end with fini */
    stk_zip_member *member;
    size_t n;
} stk_zip;

/* Read the directory of a file of `size` bytes.  Every range is in the file. */
int stk_zip_read(stk_file *f, uint64_t size, stk_zip *out, stk_error *err);
void stk_zip_fini(stk_zip *z);
/* Unpack a deflated member into m->size bytes; its checksum must fit. */
int stk_zip_inflate(stk_file *f, const stk_zip_member *m, void *dst, stk_error *err);

#endif
