/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - which hosts owe an answer, since when, and how often they were asked again: for the
 * line that says what a loader waits for.  A few hosts are counted; of more nothing is said. */
#include <stdio.h>

#include "base/clock.h"
#include "source/http_client.h"
#include "source/source.h"

/* "host:port" of an address, without user and password. */
static size_t host_in(const char *url, const char **out)
{
    const char *at = strstr(url, "://");
    size_t len;

    *out = at ? at + 3 : url;
    len = strcspn(*out, "/?#");
    for (size_t i = 0; i < len; i++)
        if ((*out)[i] == '@') {
            *out += i + 1;
            len -= i + 1;
            i = (size_t)-1;
        }
    return len;
}

static int is_named(const stk_asked_host *h, const char *name, size_t len)
{
    return strlen(h->name) == len && !memcmp(h->name, name, len);
}

stk_asked_host *stk_client_asks(stk_client *c, const char *url)
{
    stk_asked_host *found = NULL, *h;
    const char *name;
    size_t len = host_in(url, &name);

    if (!len || len >= sizeof h->name)
        return NULL;
    stk_mutex_lock(&c->lock);
    for (h = c->host; h < c->host + STK_HOSTS && !(found && is_named(found, name, len)); h++)
        if (is_named(h, name, len) || (!found && !h->running && !h->retries))
            found = h;
    if (found && !is_named(found, name, len)) {
        *found = (stk_asked_host){ 0 };
        memcpy(found->name, name, len);
    }
    if (found && !found->running++ && !found->retries)
        found->since_ns = stk_now_ns();
    stk_mutex_unlock(&c->lock);
    return found;
}

void stk_client_asked(stk_client *c, const stk_slot *s, stk_verdict v, const char *network)
{
    stk_asked_host *h = s->host;

    if (!h)
        return;
    stk_mutex_lock(&c->lock);
    h->running--;
    if (v == STK_DONE || (v == STK_KEYS && !h->running)) {
        h->retries = 0;
        h->why[0] = 0;
        h->since_ns = stk_now_ns();
    } else if (v == STK_AGAIN) {
        h->retries++;
        if (network)
            snprintf(h->why, sizeof h->why, "%s", network);
        else
            snprintf(h->why, sizeof h->why, "HTTP status %d", s->t->status);
    }
    stk_mutex_unlock(&c->lock);
}

int stk_client_owes(stk_client *c, const char *url, stk_owing *out)
{
    const stk_asked_host *found = NULL;
    const char *name;
    size_t len = host_in(url, &name);

    stk_mutex_lock(&c->lock);
    for (const stk_asked_host *h = c->host; h < c->host + STK_HOSTS; h++) {
        if (!h->running && !h->retries)
            continue;
        if (!found || h->since_ns < found->since_ns || is_named(h, name, len))
            found = h;
        if (is_named(h, name, len))
            break;
    }
    if (found) {
        *out = (stk_owing){ .running = found->running,
                            .retries = found->retries,
                            .since_ns = found->since_ns };
        memcpy(out->host, found->name, sizeof out->host);
        memcpy(out->why, found->why, sizeof out->why);
    }
    stk_mutex_unlock(&c->lock);
    return found != NULL;
}
