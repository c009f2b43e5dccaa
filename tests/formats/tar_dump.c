/* SPDX-License-Identifier: Apache-2.0 */
/* tar_dump - what Stoker sees in a tar file, for comparing with other readers.
 *
 *   tar_dump FILE
 *
 * One JSON line a sample: {"key": HEX, "offset": N, "fields": [[NAME HEX, OFFSET, SIZE], ...]}.
 * An error is one line on stderr and exit code 1. */
#include <stdio.h>

#include "format/format.h"

static void put_hex(const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", ((const uint8_t *)data)[i]);
}

static int print_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f,
                        uint32_t n, stk_error *err)
{
    (void)scan;
    (void)err;
    printf("{\"key\": \"");
    put_hex(key.data, key.len);
    printf("\", \"offset\": %" PRIu64 ", \"fields\": [", offset);
    for (uint32_t i = 0; i < n; i++) {
        printf("%s[\"", i ? ", " : "");
        put_hex(f[i].name, f[i].name_len);
        printf("\", %" PRIu64 ", %" PRIu64 "]", f[i].offset, f[i].size);
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    stk_scan scan = { .sample = print_sample };
    stk_file_info info;
    stk_file *f = NULL;
    stk_error err;
    char line[1024];
    int rc;

    if (argc != 2) {
        fprintf(stderr, "usage: tar_dump FILE\n");
        return 2;
    }
    rc = stk_source_local.open(STK_URL(argv[1], NULL), &f, &err);
    if (rc == 0)
        rc = stk_source_local.ready(f, 1, &info, &err);
    if (rc == 0)
        rc = stk_format_tar.index(f, info.size, &scan, &err);
    stk_file_close(&f);
    if (rc == 0)
        return 0;
    stk_error_format(&err, line, sizeof line);
    fprintf(stderr, "%s %s\n", stk_code_name(rc), line);
    return 1;
}
