/* SPDX-License-Identifier: Apache-2.0 */
/* web.c - http:// and https://: the address is asked as it is, with the query and the password that
 * its name does not show (source/hidden.h). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "source/hidden.h"
#include "store/dialect.h"

/* Spaces and bytes beyond ASCII are encoded, the rest is the user's; the mark is ours. */
static int plain_path(stk_target *t, const char *path, const char *mark, stk_error *err)
{
    stk_text p = { 0 };
    int rc = path[0] == '/' ? 0 : stk_text_put(&p, "/", 1, err);

    for (; rc == 0 && *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (path == mark)
            path += STK_URL_MARK - 1;
        else
            rc = c <= ' ' || c >= 127 ? stk_uri_encode(&p, path, 1, 0, err)
                                      : stk_text_put(&p, path, 1, err);
    }
    t->path = p.s;
    return rc;
}

static int web_open(stk_target *t, const char *url, stk_error *err)
{
    stk_url_parts p = stk_url_split(url);
    const char *mark = stk_url_mark(url);
    stk_hidden h;
    size_t room;
    int rc;

    if (p.path == p.scheme)
        return stk_fail(err, STK_EINVAL, "the address has no host");
    STK_TRY(stk_url_reveal(url, &h, err));
    room = p.path + (h.user ? strlen(h.user) : 0) + 2;
    t->query = h.query;
    h.query = NULL;
    t->origin = stk_alloc(room);
    rc = t->origin ? 0 : stk_fail_nomem(err, room);
    if (rc == 0)
        snprintf(t->origin, room, "%.*s%s%s%.*s", (int)p.scheme, url, h.user ? h.user : "",
                 h.user ? "@" : "", (int)(p.path - p.scheme), url + p.scheme);
    stk_hidden_fini(&h);
    if (rc == 0 && mark && !t->query)
        rc = stk_fail(err, STK_EINVAL,
                      "the address is shown without its query: give it as it was given first");
    return rc == 0 ? plain_path(t, url + p.path, mark, err) : rc;
}

#define WEB(x)                                                                                     \
    const stk_dialect stk_dialect_##x = {                                                          \
        .source = STK_REMOTE(x, #x "://host/path: files of a web server", STK_SOURCE_QUERIES),     \
        .open = web_open,                                                                          \
    }
WEB(http);
WEB(https);
