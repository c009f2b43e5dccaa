/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_shard_list - any text as a wids file, and as a small document in JSON and in YAML: names and
 * values, or a clean error. */
#include <string.h>

#include "fuzz.h"
#include "source/leaves.h"
#include "source/shard_list.h"

static int leaf(void *cookie, const char *top, const char *sub, const char *value, stk_error *err)
{
    size_t *n = cookie;

    (void)err;
    *n += strlen(top) + strlen(sub) + (value ? strlen(value) : 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes text = { data, size };
    stk_names names = { 0 };
    stk_error err;
    size_t n = 0;
    int rc = stk_wids_read(text, "s3://bucket/x.json", 12, &names, &err);

    FUZZ_CHECK(rc == 0 ? names.n && names.n_samples == names.n
                       : rc < 0 && err.code == rc && err.message[0]);
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        FUZZ_CHECK(strstr(names.name[i], "://"));
    stk_names_fini(&names);
    rc = stk_leaves_json(text, leaf, &n, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    rc = stk_leaves_yaml(text, leaf, &n, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    return 0;
}
