/* SPDX-License-Identifier: Apache-2.0 */
/* tar_write.h - writes one tar file, under a temporary name until it is complete.  `stoker pack`
 * calls it, and stk_writer.
 *
 * Under its own name the file is whole or does not exist (base/atomic_file.h).  Equal members give
 * equal bytes. */
#ifndef STOKER_FORMAT_TAR_WRITE_H
#define STOKER_FORMAT_TAR_WRITE_H

#include "compress/squeeze.h"
#include "source/source.h"

typedef struct stk_tar_writer stk_tar_writer; /* Thread: one. */

/* replace 0: a file called `path` is an error, now and at commit.  store: how a bucket is reached;
 * NULL: by the environment. */
int stk_tar_writer_open(stk_tar_writer **out, const char *path, const stk_store *store, int replace,
                        stk_error *err);

/* Adds a regular file.  Names are any bytes but NUL; long ones and sizes of 8 GiB and more get a
 * pax header. */
int stk_tar_writer_add(stk_tar_writer *w, stk_bytes name, stk_bytes data, int64_t mtime,
                       stk_error *err);

/* Compresses what is written; call before the first member.  Takes `f`; NULL: nothing is
 * compressed. */
void stk_tar_writer_take_framer(stk_tar_writer *w, stk_framer *f);
/* Call after the last member of a sample: a frame may end here. */
int stk_tar_writer_sample_end(stk_tar_writer *w, stk_error *err);

uint64_t stk_tar_writer_bytes(const stk_tar_writer *w); /* bytes of members, not compressed */

/* Ends the archive and syncs it to disk, still under its temporary name; sets *size (may be NULL)
 * to the size of the file.  publish() then gives it its name. */
int stk_tar_writer_finish(stk_tar_writer *w, uint64_t *size, stk_error *err);
int stk_tar_writer_publish(stk_tar_writer *w, stk_error *err);

void stk_tar_writer_close(stk_tar_writer **w); /* what was not published is removed */

/* Bytes that a member takes in the archive. */
uint64_t stk_tar_member_bytes(size_t name_len, uint64_t size);

#endif
