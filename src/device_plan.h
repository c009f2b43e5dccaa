/* SPDX-License-Identifier: Apache-2.0 */
/* device_plan.h - a loader's options for a GPU, turned into an engine's plan. */
#ifndef STOKER_DEVICE_PLAN_H
#define STOKER_DEVICE_PLAN_H

#include "pipe/engine.h"

/* Open the device, if there is to be one. */
int stk_device_plan(stk_engine *e, const stk_loader_options *o, stk_error *err);

/* Output i is planned: how it goes over. */
void stk_device_records(const stk_engine *e, uint32_t i);

/* The memory of batches, page-locked where it must be. */
int stk_device_pool(stk_engine *e, const stk_loader_options *o, uint64_t limit, stk_error *err);

/* More slots where some are on their way to a GPU; `bytes`: of a batch here. */
void stk_device_ahead(stk_engine *e, uint64_t bytes);

/* The ring is planned: no more slots than the GPU has room for. */
int stk_device_fit(stk_engine *e, stk_error *err);

/* All outputs are planned: what the GPU keeps. */
int stk_device_cache(stk_engine *e, const stk_loader_options *o, stk_error *err);

#endif
