/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.h - the options that say which samples take part and how often, turned into a sample set
 * and an order. */
#ifndef STOKER_SAMPLING_H
#define STOKER_SAMPLING_H

#include <stoker/stoker.h>

#include "order/order.h"

/* select, skip, limit and repeat, checked; the sample set has its data sets and `exclude`. */
int stk_sampling_set(stk_sample_set *r, const stk_loader_options *o, stk_error *err);

int stk_sampling_given(const stk_loader_options *o); /* 0: `shuffle` says it all */

/* The fingerprint of weights and classes, for a state. */
uint64_t stk_sampling_print(const stk_loader_options *o);

/* The order that they ask for; the sample set is borrowed. */
int stk_sampling_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                       stk_error *err);

/* What an order of one's own says itself. */
int stk_sampling_own_order(const stk_loader_options *o, stk_error *err);

/* Epochs of epoch_size over *order, where that is given. */
int stk_sampling_epochs(stk_order *order, const stk_loader_options *o, stk_error *err);

#endif
