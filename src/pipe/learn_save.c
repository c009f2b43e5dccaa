/* SPDX-License-Identifier: Apache-2.0 */
/* learn_save.c - seek points that workers found are written beside the index, by the consumer's
 * thread, at the end of an epoch and at close. */
#include <time.h>

#include "pipe/engine.h"

#define TRIES 100 /* at the end, for a file that another process is writing */

static void save(stk_engine *e, stk_learn *l, int wait)
{
    static const struct timespec pause = { 0, 20000000 };
    stk_error err = { 0 };
    int rc = stk_learn_write(l, &err);

    for (int i = 0; rc == STK_END && wait && i < TRIES; i++) {
        nanosleep(&pause, NULL);
        rc = stk_learn_write(l, &err);
    }
    if (rc < 0 && !e->consumer.learn_told++)
        stk_log_line(&e->plan->policy.log, STK_LOG_WARN,
                     "seek points that were found are not kept for the next run: %s", err.message);
}

void stk_learn_save(stk_engine *e, int wait)
{
    for (uint32_t i = 0; e->plan->rows.learn && i < e->plan->data.n; i++)
        if (e->plan->rows.learn[i])
            save(e, e->plan->rows.learn[i], wait);
}
