/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - computes the hash of a whole file: xxh64 with libxxhash, and others (sha1, sha256,
 * md5, ...) with OpenSSL, if the build has them.  Checks of tables call it
 * (stk_trust_ops.verify). */
#ifndef STOKER_STORE_DIGEST_H
#define STOKER_STORE_DIGEST_H

#include "source/source.h"

#define STK_DIGEST_HEX 129 /* bytes of the longest hash as text, with its NUL */

/* STK_ENOTSUP: the hash is not known. */
int stk_digest_file(stk_file *f, uint64_t size, const char *name, char hex[STK_DIGEST_HEX],
                    stk_error *err);

#endif
