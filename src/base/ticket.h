/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.h - how a stage that finishes later reports that it has finished.  The pipe gives the
 * stage a ticket with a function to call at the end.  So the GPU's code, which finishes batches on
 * its own threads, includes nothing of the pipe. */
#ifndef STOKER_BASE_TICKET_H
#define STOKER_BASE_TICKET_H

#include <stoker/plugin.h>

struct stk_ticket {                                            /* embedded as the first member */
    void (*done)(stk_ticket *t, int rc, const stk_error *err); /* stk_ticket_done() calls it */
};

#endif
