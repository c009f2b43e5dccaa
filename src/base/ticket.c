/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.c - the public call of ticket.h. */
#include "base/ticket.h"

void stk_ticket_done(stk_ticket *t, int rc, const stk_error *err)
{
    t->done(t, rc, err);
}
