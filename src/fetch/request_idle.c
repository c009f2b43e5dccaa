/* SPDX-License-Identifier: Apache-2.0 */
/* request_idle.c - the request and the blocks that a data set keeps for the next ds[i], column or
 * check, which have no engine. */
#include "fetch/request.h"

#define BLOCKS_MAX ((uint64_t)64 << 20) /* bytes of unused blocks that a data set keeps */
#define IDLE_FIELDS 256                 /* of a request that a data set keeps */

int stk_dataset_request(stk_dataset *ds, uint32_t fields, stk_request **out, stk_error *err)
{
    stk_request *r = atomic_exchange_explicit(&ds->idle, NULL, memory_order_acq_rel);
    stk_cache *blocks = NULL;
    int rc = 0;

    if (ds->can & STK_DATA_BLOCKS)
        rc = stk_cache_of_process(&ds->blocks, BLOCKS_MAX, &blocks, err);
    if (r && r->cap_want < fields)
        stk_request_close(&r);
    if (rc == 0 && !r)
        rc = stk_request_open(&r, fields, NULL, NULL, err);
    if (rc < 0) {
        stk_request_close(&r);
        return rc;
    }
    r->data = ds;
    r->cache = blocks;
    *out = r;
    return 0;
}

void stk_dataset_request_done(stk_dataset *ds, stk_request **rp)
{
    stk_request *r = *rp;

    *rp = NULL;
    if (!r)
        return;
    stk_request_end(r);
    if (r->cap_want <= IDLE_FIELDS)
        r = atomic_exchange_explicit(&ds->idle, r, memory_order_acq_rel);
    stk_request_close(&r);
}

void stk_dataset_rest(stk_dataset *ds)
{
    stk_request *r = atomic_exchange_explicit(&ds->idle, NULL, memory_order_acq_rel);
    stk_cache *blocks = atomic_exchange_explicit(&ds->blocks, NULL, memory_order_acq_rel);

    stk_request_close(&r);
    stk_cache_close(&blocks);
}
