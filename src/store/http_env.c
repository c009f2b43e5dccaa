/* SPDX-License-Identifier: Apache-2.0 */
/* http_env.c - what the environment says to the client: which certificates count, how long to
 * wait.  It is looked up when it is wanted, so that a change counts for requests from then on. */
#include <stdlib.h>
#include <unistd.h>

#include "store/http_client.h"

/* Where distributions keep what TLS trusts; a wheel's libcurl knows only its builder's. */
const char *stk_ca_bundle(void)
{
    static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
    static const char *const names[] = { "AWS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE",
                                         "REQUESTS_CA_BUNDLE" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return getenv(names[i]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return NULL;
}

int stk_env_seconds(const char *name, int usual)
{
    const char *text = getenv(name);
    int n = text ? atoi(text) : 0;

    return n > 0 && n < 3600 ? n : usual;
}

long stk_transfer_strict_ms(const stk_transfer *t, uint64_t now)
{
    return !t->strict                 ? 0
           : t->own.deadline_ns > now ? (long)((t->own.deadline_ns - now) / 1000000u) + 1
                                      : 1;
}
