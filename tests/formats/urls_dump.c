/* SPDX-License-Identifier: Apache-2.0 */
/* urls_dump - how patterns expand, for comparing with braceexpand and WebDataset.
 *
 *   urls_dump braces | urls     patterns on stdin, one a line in hex
 *
 * Each answer is one line: "ok" and the names in hex, each after a space and an 'x', or the
 * error's code. */
#include <stdio.h>
#include <string.h>

#include "source/braces.h"
#include "source/source.h"

static void put_name(const void *data, size_t len)
{
    printf(" x");
    for (size_t i = 0; i < len; i++)
        printf("%02x", ((const uint8_t *)data)[i]);
}

static int braces(const char *pattern, stk_error *err)
{
    stk_braces *b = NULL;
    stk_bytes name;
    int rc = stk_braces_open(&b, pattern, strlen(pattern), err);

    if (rc < 0)
        return rc;
    if (stk_braces_count(b) > 100000)
        rc = stk_fail(err, STK_ELIMIT, "too many");
    else
        printf("ok");
    for (uint64_t i = 0; rc == 0 && i < stk_braces_count(b); i++) {
        rc = stk_braces_at(b, i, &name, err);
        if (rc == 0)
            put_name(name.data, name.len);
    }
    stk_braces_close(&b);
    return rc;
}

static int urls(const char *pattern, stk_error *err)
{
    stk_names names = { 0 };
    int rc = stk_urls_expand(&pattern, 1, &names, err);

    if (rc == 0)
        printf("ok");
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        put_name(names.name[i], strlen(names.name[i]));
    stk_names_fini(&names);
    return rc;
}

int main(int argc, char **argv)
{
    static char line[1 << 16], pattern[1 << 15];
    stk_error err;
    unsigned byte;
    size_t n;
    int rc;

    if (argc != 2)
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        for (n = 0; sscanf(line + 2 * n, "%2x", &byte) == 1; n++)
            pattern[n] = (char)byte;
        pattern[n] = 0;
        rc = strcmp(argv[1], "braces") ? urls(pattern, &err) : braces(pattern, &err);
        if (rc < 0)
            printf("%s", stk_code_name(rc));
        printf("\n");
    }
    return 0;
}
