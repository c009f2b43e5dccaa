/* SPDX-License-Identifier: Apache-2.0 */
/* zip.h - reads the members of a ZIP archive, stored or deflated, also past 4 GiB.  Readers of .npz
 * call it. */
#ifndef STOKER_FORMAT_ZIP_H
#define STOKER_FORMAT_ZIP_H

#include "source/source.h"

#define STK_ZIP_STORED 0
#define STK_ZIP_DEFLATED 8

typedef struct stk_zip_member {
    char *name;
    uint16_t method;
    uint32_t crc;
    uint64_t offset;       /* offset of its bytes in the file */
    uint64_t packed, size; /* bytes as stored, and unpacked */
} stk_zip_member;

typedef struct stk_zip { /* init with zeros, end with fini */
    stk_zip_member *member;
    size_t n;
} stk_zip;

/* Reads the directory of a file of `size` bytes, and checks that every range is in the file. */
int stk_zip_read(stk_file *f, uint64_t size, stk_zip *out, stk_error *err);
void stk_zip_fini(stk_zip *z);
/* Unpacks a deflated member into m->size bytes, and checks its checksum. */
int stk_zip_inflate(stk_file *f, const stk_zip_member *m, void *dst, stk_error *err);

#endif
