/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - the hash of a whole file: xxh64 by libxxhash, and those that OpenSSL knows by name
 * (sha1, sha256, md5, ...), where the build has them. */
#ifndef STOKER_STORE_DIGEST_H
#define STOKER_STORE_DIGEST_H

#include "source/source.h"

#define STK_DIGEST_HEX 129 /* of the longest, as text */

/* STK_ENOTSUP: the hash is not known. */
int stk_digest_file(stk_file *f, uint64_t size, const char *name, char hex[STK_DIGEST_HEX],
                    stk_error *err);

#endif
