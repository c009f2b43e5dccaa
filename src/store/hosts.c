/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - which hosts owe an answer, since when, and how often they were asked again: for the
 * line that says what a loader waits for.  A few hosts are counted; of more nothing is said.
 *
 * A transfer counts to its host from its first request until it ends, also while it pauses between
 * two tries or waits for its turn. */
#include <stdio.h>

#include "base/clock.h"
#include "store/http_client.h"
#include "store/remote.h"

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

static uint32_t pending(const stk_asked_host *h)
{
    return atomic_load_explicit(&h->pending, memory_order_relaxed);
}

/* The entry of a host; NULL: there is none, and no place for one. */
static stk_asked_host *entry_locked(stk_client *c, const char *name, size_t len)
    STK_REQUIRES(c->lock)
{
    stk_asked_host *found = NULL;

    for (stk_asked_host *h = c->host; h < c->host + STK_HOSTS; h++) {
        if (is_named(h, name, len))
            return h;
        if (!found && !pending(h))
            found = h;
    }
    if (found && len < sizeof found->name) {
        *found = (stk_asked_host){ 0 };
        memcpy(found->name, name, len);
        return found;
    }
    return NULL;
}

void stk_client_asks(stk_client *c, stk_transfer *t, const char *url)
{
    const char *name;
    size_t len = host_in(url, &name);
    stk_asked_host *h;

    stk_mutex_lock(&c->lock);
    h = len ? entry_locked(c, name, len) : NULL;
    if (h != t->at.host) {
        stk_transfer_ends(t); /* a redirect: the host before owes nothing */
        if (h && !atomic_fetch_add_explicit(&h->pending, 1, memory_order_relaxed) && !h->retries)
            h->since_ns = stk_now_ns();
        t->at.host = h;
    }
    stk_mutex_unlock(&c->lock);
}

void stk_transfer_ends(stk_transfer *t)
{
    if (t->at.host)
        atomic_fetch_sub_explicit(&t->at.host->pending, 1, memory_order_relaxed);
    t->at.host = NULL;
}

void stk_client_asked(stk_client *c, const stk_transfer *t, stk_verdict v, const char *network)
{
    stk_asked_host *h = t->at.host;

    if (!h || v == STK_KEYS)
        return;
    stk_mutex_lock(&c->lock);
    if (v == STK_DONE) {
        h->retries = 0;
        h->why[0] = 0;
        h->since_ns = stk_now_ns();
    } else {
        h->retries++;
        if (network)
            snprintf(h->why, sizeof h->why, "%s", network);
        else
            snprintf(h->why, sizeof h->why, "HTTP status %d", t->status);
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
        if (!pending(h))
            continue;
        if (!found || h->since_ns < found->since_ns || is_named(h, name, len))
            found = h;
        if (is_named(h, name, len))
            break;
    }
    if (found) {
        *out = (stk_owing){ .pending = pending(found),
                            .retries = found->retries,
                            .since_ns = found->since_ns };
        memcpy(out->host, found->name, sizeof out->host);
        memcpy(out->why, found->why, sizeof out->why);
    }
    stk_mutex_unlock(&c->lock);
    return found != NULL;
}
