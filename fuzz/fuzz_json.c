/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_json - the first line is a path, the rest a JSON text: a value inside it or a clean
 * error.  A found value is JSON itself; one that is a string can be unquoted and is then UTF-8,
 * or has half a surrogate pair. */
#include <string.h>

#include "base/mem.h"
#include "base/json.h"
#include "fuzz.h"

static void check_value(stk_bytes value)
{
    stk_bytes again, text;
    stk_error err;
    uint8_t *dst;
    size_t len;
    int rc;

    FUZZ_CHECK(stk_json_find(value, "", &again, &err) == 0);
    FUZZ_CHECK(again.data == value.data && again.len == value.len);
    dst = stk_alloc(value.len);
    FUZZ_CHECK(dst);
    rc = stk_json_unquote(value, dst, &len, &err);
    text = (stk_bytes){ dst, len };
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT);
    FUZZ_CHECK(rc < 0 || (len + 2 <= value.len && stk_utf8_span(text) == len));
    stk_free(dst);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size ? memchr(data, '\n', size < 256 ? size : 256) : NULL;
    stk_bytes doc, out;
    char path[256];
    stk_error err;
    int rc;

    if (!line)
        return 0;
    memcpy(path, data, (size_t)(line - data));
    path[line - data] = 0;
    doc = (stk_bytes){ line + 1, size - (size_t)(line + 1 - data) };
    rc = stk_json_find(doc, path, &out, &err);
    FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && err.code == rc && !strchr(err.message, '\n')));
    if (rc < 0)
        return 0;
    FUZZ_CHECK(out.len && out.data >= doc.data && out.data + out.len <= doc.data + doc.len);
    check_value(out);
    return 0;
}
