/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.h - the options that say which samples take part and how often, turned into a sample set
 * and an order.  The plan of the schedule and stk_sampler call it. */
#ifndef STOKER_SAMPLING_H
#define STOKER_SAMPLING_H

#include <stoker/stoker.h>

#include "order/order.h"

/* Checks select, skip, limit and repeat and adds them to a sample set that has its data sets and
 * `exclude`. */
int stk_sampling_set(stk_sample_set *r, const stk_loader_options *o, stk_error *err);

int stk_sampling_given(const stk_loader_options *o); /* 0: only `shuffle` is given */

/* The fingerprint of weights and classes, for a state. */
uint64_t stk_sampling_print(const stk_loader_options *o);

/* Makes the order that the options ask for; it borrows the sample set. */
int stk_sampling_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                       stk_error *err);

/* STK_EINVAL: options that an order of the program's own decides itself. */
int stk_sampling_own_order(const stk_loader_options *o, stk_error *err);

/* Cuts *order into epochs of epoch_size, if that is given. */
int stk_sampling_epochs(stk_order *order, const stk_loader_options *o, stk_error *err);

#endif
