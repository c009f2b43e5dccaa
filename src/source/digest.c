/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - the hash of a whole file, by the name that other programs give it. */
#include "source/digest.h"

#include <config.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh64.h"
#include "source/sign.h"

#define PART ((size_t)4 << 20) /* bytes read at a time: whole stripes of xxh64 */

typedef struct digest {
    stk_xxh64 xxh; /* evp NULL */
    void *evp;
} digest;

static int digest_open(digest *d, const char *name, stk_error *err)
{
    d->evp = NULL;
    stk_xxh64_init(&d->xxh);
    if (!strcmp(name, "xxh64"))
        return 0;
#if STK_HAVE_STORES
    d->evp = stk_evp_open(name);
#endif
    return d->evp ? 0
                  : stk_fail(err, STK_ENOTSUP, "the hash %.40s is not known to this build", name);
}

static void digest_add(digest *d, const uint8_t *p, size_t len)
{
#if STK_HAVE_STORES
    if (d->evp) {
        stk_evp_add(d->evp, p, len);
        return;
    }
#endif
    stk_xxh64_add(&d->xxh, p, len / 32);
}

static void digest_end(digest *d, const uint8_t *last, size_t len, char hex[STK_DIGEST_HEX])
{
#if STK_HAVE_STORES
    if (d->evp) {
        stk_evp_add(d->evp, last, len);
        stk_evp_end(&d->evp, hex);
        return;
    }
#endif
    stk_xxh64_add(&d->xxh, last, len / 32);
    snprintf(hex, STK_DIGEST_HEX, "%016" PRIx64,
             stk_xxh64_end(&d->xxh, last + len / 32 * 32, len % 32));
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
    for (; rc == 0 && size - at > PART; at += PART) {
        rc = stk_file_read(f, at, part, PART, err);
        if (rc == 0)
            digest_add(&d, part, PART);
    }
    if (rc == 0)
        rc = stk_file_read(f, at, part, (size_t)(size - at), err);
    digest_end(&d, part, rc == 0 ? (size_t)(size - at) : 0, hex);
    stk_large_free(part, PART);
    return rc;
}
