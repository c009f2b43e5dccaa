/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - the hash of a whole file, by the name that other programs give it. */
#include "store/digest.h"

#include <config.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/sign.h"

#if STK_HAVE_XXHASH
#include <xxhash.h>
#endif

#define PART ((size_t)4 << 20) /* bytes read at a time */

typedef struct digest { /* one of them */
    void *evp, *xxh;
} digest;

static int digest_open(digest *d, const char *name, stk_error *err)
{
    *d = (digest){ 0 };
#if STK_HAVE_XXHASH
    if (!strcmp(name, "xxh64") && (d->xxh = XXH64_createState()))
        XXH64_reset(d->xxh, 0);
#endif
#if STK_HAVE_STORES
    if (!d->xxh)
        d->evp = stk_evp_open(name);
#endif
    return d->evp || d->xxh
               ? 0
               : stk_fail(err, STK_ENOTSUP, "the hash %.40s is not known to this build", name);
}

static void digest_add(digest *d, const uint8_t *p, size_t len)
{
#if STK_HAVE_XXHASH
    if (d->xxh)
        XXH64_update(d->xxh, p, len);
#endif
#if STK_HAVE_STORES
    if (d->evp)
        stk_evp_add(d->evp, p, len);
#endif
}

static void digest_end(digest *d, char hex[STK_DIGEST_HEX])
{
#if STK_HAVE_XXHASH
    if (d->xxh)
        snprintf(hex, STK_DIGEST_HEX, "%016" PRIx64, (uint64_t)XXH64_digest(d->xxh));
    XXH64_freeState(d->xxh);
#endif
#if STK_HAVE_STORES
    if (d->evp)
        stk_evp_end(&d->evp, hex);
#endif
}

int stk_digest_file(stk_file *f, uint64_t size, const char *name, char hex[STK_DIGEST_HEX],
                    stk_error *err)
{
    uint8_t *part;
    uint64_t at = 0;
    digest d;
    int rc = digest_open(&d, name, err);

    if (rc < 0)
        return rc;
    part = stk_large_alloc(PART);
    rc = part ? 0 : stk_fail_nomem(err, PART);
    while (rc == 0 && at < size) {
        size_t n = size - at < PART ? (size_t)(size - at) : PART;

        rc = stk_file_read(f, at, part, n, err);
        if (rc == 0)
            digest_add(&d, part, n);
        at += n;
    }
    digest_end(&d, hex);
    stk_large_free(part, PART);
    return rc;
}
