/* SPDX-License-Identifier: Apache-2.0 */
/* google.c - gs://bucket/key: Google Cloud Storage by its XML API, which speaks S3.  Its keys are
 * not those of AWS: HMAC keys sign, a token of OAuth is sent as it is. */
#include <stdio.h>
#include <string.h>

#include "store/credentials.h"
#include "store/dialect.h"
#include "store/key_sources.h"

#define GOOGLE "https://storage.googleapis.com"

static int google_open(stk_target *t, const char *url, stk_error *err)
{
    const char *endpoint = t->store->o.endpoint;
    char text[256];
    size_t len;

    snprintf(text, sizeof text, "%s",
             endpoint ? endpoint : stk_env_or("STORAGE_EMULATOR_HOST", GOOGLE));
    for (len = strlen(text); endpoint && len && text[len - 1] == '/'; len--)
        text[len - 1] = 0;
    return stk_s3_open(t, url + strlen("gs://"), text, err);
}

static int google_keys(stk_store *s, stk_keys *out, stk_error *err)
{
    const char *token = s->o.session_token ? s->o.session_token
                                           : stk_env_or("GOOGLE_OAUTH_ACCESS_TOKEN", NULL);
    int rc = stk_keys_given(s, 0, out, err);

    if (rc == STK_END)
        rc = stk_keys_take(out, stk_env_or("GS_ACCESS_KEY_ID", NULL),
                           stk_env_or("GS_SECRET_ACCESS_KEY", NULL), NULL);
    if (rc == STK_END && token)
        rc = stk_keys_take(out, "", "", token);
    if (rc == STK_END)
        rc = stk_keys_of_google(s, out, err);
    return rc;
}

static const char *const google_env[] = { "STORAGE_EMULATOR_HOST", NULL };

const stk_dialect stk_dialect_gs = {
    .source = STK_S3_SOURCE(gs, "gs://bucket/key: objects of Google Cloud Storage"),
    .usual = GOOGLE,
    .region = "auto",
    .env = google_env,
    .open = google_open,
    .find_keys = google_keys,
    STK_S3_SPEAKS,
};
