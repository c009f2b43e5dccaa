/* SPDX-License-Identifier: Apache-2.0 */
/* seam.h - what the seam tests share: data whose content is a function of the sample's number,
 * and its check.
 *
 * Sample k has key "%06u", fields bin (bytes), cls (a number) and txt (a text).  Public headers
 * only: what a plug-in sees. */
#ifndef STOKER_TESTS_SEAM_H
#define STOKER_TESTS_SEAM_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stoker/plugin.h>
#include <stoker/stoker.h>

/* A folder for this process, removed at exit; and a name in it (static, four at a time). */
const char *seam_dir(void);
const char *seam_path(const char *name);

size_t seam_bin_len(uint64_t k);
uint8_t seam_bin_at(uint64_t k, size_t i);
int64_t seam_number(uint64_t k);

/* NAME-0.tar, NAME-1.tar, ... of `per` samples each, numbered from `first`. */
void seam_shards(const char *name, unsigned shards, unsigned per, uint64_t first);

/* Open a pattern below the folder; `scheme` ("slow://") goes before the path. */
stk_dataset *seam_open(const char *scheme, const char *pattern, const char *format);

/* bytes, int and text outputs over those fields. */
extern const stk_output seam_outputs[3];
stk_loader_options seam_options(uint32_t batch, int32_t workers);
stk_loader *seam_loader(stk_dataset *const *data, size_t n, const stk_loader_options *o);

/* Row `row` holds sample `k` in all three outputs, under the id `id`. */
void seam_check_row(const stk_batch *b, uint32_t row, uint64_t k, uint64_t id);

/* One epoch of `n` rows, every row checked (number == id); their ids in order. */
void seam_epoch(stk_loader *l, uint64_t n, uint64_t *ids);

/* Fails with the error's text unless rc is 0. */
void seam_ok(int rc, const stk_error *err);

uint64_t seam_now_ms(void);
void seam_sleep_ms(unsigned ms);

/* Returns when every worker has had nothing to do for 20 ms, or after a minute. */
void seam_idle(stk_loader *l);

#endif
