/* SPDX-License-Identifier: Apache-2.0 */
/* below.c - the one rule for names of files that come with data: manifests, wids lists, Energon's
 * splits, index.json of MDS and LitData, HDF5's virtual data sets (SECURITY.md, *Names*).
 *
 * A name is a path below the folder that it is relative to.  It has no part ".." and is no address;
 * it begins with a slash only where it goes on with that folder.  Symlinks are not looked at here:
 * who opens the file decides. */
#include <string.h>

#include "source/source.h"

static int is_up(const uint8_t *part, size_t len)
{
    return len == 2 && part[0] == '.' && part[1] == '.';
}

int stk_name_below(stk_bytes folder, stk_bytes name)
{
    const uint8_t *p = name.data, *end = p + name.len;
    int none = !folder.len;

    while (folder.len && folder.data[folder.len - 1] == '/')
        folder.len--;
    if (!name.len || end[-1] == '/' || memchr(p, 0, name.len) || memmem(p, name.len, "://", 3))
        return 0;
    if (*p == '/' && (none || name.len <= folder.len || memcmp(p, folder.data, folder.len) != 0 ||
                      p[folder.len] != '/'))
        return 0;
    while (p < end) {
        const uint8_t *slash = memchr(p, '/', (size_t)(end - p));
        size_t len = (size_t)((slash ? slash : end) - p);

        if (is_up(p, len))
            return 0;
        p += len + (slash != NULL);
    }
    return 1;
}
