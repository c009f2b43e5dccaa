/* SPDX-License-Identifier: Apache-2.0 */
/* wds.c - how WebDataset reads a member's name: what is no field, and where the key ends.
 *
 * The package's regular expressions define it: "^((?:.*[/]|)[^.]+)[.]([^/]*)$" splits,
 * "__[^/]*__($|/)" ignores.  What follows are their meanings worked out, odd corners included:
 * "." crosses no newline, "[^.]+" may eat slashes, "$" also stands before a last newline. */
#include "format/format.h"

#include <string.h>

#define NONE SIZE_MAX

static size_t find(const char *s, size_t from, size_t len, char c)
{
    const char *p = from < len ? memchr(s + from, c, len - from) : NULL;

    return p ? (size_t)(p - s) : NONE;
}

static size_t find_last(const char *s, size_t len, char c)
{
    const char *p = len ? memrchr(s, c, len) : NULL;

    return p ? (size_t)(p - s) : NONE;
}

/* The directory part may end at any slash of the first line, the last one first, or be empty;
 * the key then runs to the first dot after it, which may not follow at once, and no slash may
 * follow the dot.  Once a dot is before the last slash, shorter directory parts find none
 * better, so that at most three starts are tried. */
int stk_wds_split(const char *name, size_t len, size_t *key_len, size_t *ext_start)
{
    size_t line = find(name, 0, len, '\n'), last = find_last(name, len, '/');
    size_t slash = find_last(name, line == NONE ? len : line, '/'), start, dot;

    for (;;) {
        start = slash == NONE ? 0 : slash + 1;
        dot = find(name, start, len, '.');
        if (dot == NONE || (last != NONE && dot < last))
            return 0;
        if (dot > start)
            break;
        if (!start)
            return 0;
        slash = find_last(name, slash, '/');
    }
    *key_len = dot;
    *ext_start = dot + 1;
    return 1;
}

int stk_wds_ignored(const char *name, size_t len)
{
    size_t slash = find(name, 0, len, '/'), end = slash == NONE ? len : slash;

    if (len < 2 || memcmp(name, "__", 2))
        return 0;
    if (slash == NONE && !memcmp(name + len - 2, "__", 2))
        return 1; /* also "__" and "___": starts and ends so */
    if (slash == NONE && name[len - 1] == '\n')
        end--;
    return end >= 4 && !memcmp(name + end - 2, "__", 2);
}
