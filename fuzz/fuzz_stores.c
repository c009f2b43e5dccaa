/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_stores - the first byte chooses what the rest is: a listing, an error's XML, the headers of
 * an answer, a profile file, the JSON or XML of a credential endpoint.  Texts that come out are
 * bounded and can be shown. */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "store/credentials.h"
#include "store/dialect.h"

static int on_key(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err)
{
    char tag[64];

    (void)cookie, (void)size, (void)err;
    FUZZ_CHECK(key[0] && strlen(key) < 4096);
    stk_etag_short(etag, tag);
    FUZZ_CHECK(strlen(tag) < sizeof tag);
    return 0;
}

static void listing(stk_bytes doc, const stk_xml_names *names)
{
    stk_xml_list *l = stk_zalloc(1, sizeof *l);
    stk_error err;
    int rc;

    FUZZ_CHECK(l);
    l->names = names;
    l->each = on_key;
    rc = stk_xml_listing(doc, l, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(strlen(l->token) < sizeof l->token);
    stk_free(l);
}

static void headers(stk_bytes text)
{
    const uint8_t *p = text.data, *end = p + text.len;
    stk_answer a;
    char tag[64];

    stk_answer_clear(&a);
    while (p < end) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((stop ? stop + 1 : end) - p);

        stk_answer_header(&a, (const char *)p, len);
        p += len;
    }
    FUZZ_CHECK(a.first == UINT64_MAX || a.first <= a.last);
    FUZZ_CHECK(strlen(a.location) < sizeof a.location && strlen(a.region) < sizeof a.region);
    stk_etag_short(a.etag, tag);
}

static void keys(stk_bytes doc, int (*from)(stk_bytes, stk_keys *, stk_error *))
{
    stk_error err;
    stk_keys k;
    int rc = from(doc, &k, &err);

    FUZZ_CHECK(rc == 0 ? k.id[0] && k.secret[0] : rc == STK_ECORRUPT && err.code == rc);
    FUZZ_CHECK(rc < 0 || (strlen(k.id) < sizeof k.id && strlen(k.token) < sizeof k.token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes rest = { data + 1, size - 1 };
    char out[64];

    if (!size)
        return 0;
    switch (data[0] % 6) {
    case 0:
        listing(rest, &stk_xml_objects);
        listing(rest, &stk_xml_uploads);
        listing(rest, stk_dialect_az.listing);
        break;
    case 1:
        stk_xml_text(rest, "Code", out, sizeof out);
        FUZZ_CHECK(strlen(out) < sizeof out);
        break;
    case 2: headers(rest); break;
    case 3:
        FUZZ_CHECK(!stk_ini_find(rest, "profile x", "region", out, sizeof out) ||
                   strlen(out) < sizeof out);
        break;
    case 4: keys(rest, stk_keys_from_json); break;
    default: keys(rest, stk_keys_from_xml);
    }
    return 0;
}
