/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pack_plan - any bytes as the plan of a pack: read, or refused. */
#include <string.h>

#include "fuzz.h"
#include "tools/pack_plan_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_pack_plan *plan = NULL;
    stk_error err;
    int rc = stk_pack_plan_parse(&plan, (stk_bytes){ data, size }, &err);

    FUZZ_CHECK(rc < 0 || plan);
    for (uint32_t i = 0; rc == 0 && i < plan->n_args; i++)
        FUZZ_CHECK(strlen(plan->args[i]) <= size);
    stk_pack_plan_free(&plan);
    return 0;
}
