/* SPDX-License-Identifier: Apache-2.0 */
/* make_tar.h - writes a plain ustar file, member by member, to make shards for tests. */
#ifndef STOKER_TESTS_MAKE_TAR_H
#define STOKER_TESTS_MAKE_TAR_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void tar_member(FILE *f, const char *name, const void *data, size_t len)
{
    uint8_t h[512] = { 0 }, pad[512] = { 0 };
    unsigned sum = 0;

    snprintf((char *)h, 100, "%s", name);
    memcpy(h + 100, "0000644", 7);
    snprintf((char *)h + 124, 12, "%011o", (unsigned)len);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    fwrite(h, 1, sizeof h, f);
    fwrite(data, 1, len, f);
    fwrite(pad, 1, (512 - len % 512) % 512, f);
}

static inline void tar_end(FILE *f)
{
    uint8_t zero[1024] = { 0 };

    fwrite(zero, 1, sizeof zero, f);
}

#endif
