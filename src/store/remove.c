/* SPDX-License-Identifier: Apache-2.0 */
/* remove.c - what is taken away from a bucket: objects, and uploads that dead processes left.
 *
 * An upload that is neither completed nor aborted is not seen and yet is paid for.  Who aborts it
 * must know that its process is dead: the server can't tell. */
#include <string.h>

#include "base/mem.h"
#include "store/http.h"
#include "store/remote.h"

static int request(const stk_target *to, const char *method, const char *query, stk_text *body,
                   stk_error *err)
{
    stk_transfer t = { .to = to,
                       .method = method,
                       .query = query,
                       .text = body,
                       .budget_ms = stk_store_patience(to->store, 1) };
    int rc = stk_http_run(&t, err);

    stk_transfer_fini(&t);
    return rc;
}

/* DELETE of the object, or of its upload. */
static int remove_one(const char *url, const stk_store *s, const char *query, stk_error *err)
{
    stk_target *to = NULL;
    int rc = stk_http_hold(err), held = rc == 0;

    if (rc == 0)
        rc = stk_target_open(&to, url, s, err);
    if (rc == 0)
        rc = request(to, "DELETE", query, NULL, err);
    stk_target_close(&to);
    if (held)
        stk_http_drop();
    return rc == STK_ENOTFOUND ? 0 : rc;
}

int stk_remote_remove(const char *url, const stk_store *s, stk_error *err)
{
    return remove_one(url, s, NULL, err);
}

typedef struct sweep {
    const char *prefix;
    size_t root; /* of the prefix: scheme and bucket */
    const stk_store *store;
    int (*dead)(void *cookie, const char *url);
    void *cookie;
} sweep;

static int url_of(const sweep *w, const char *key, stk_text *url, stk_error *err)
{
    STK_TRY(stk_text_put(url, w->prefix, w->root, err));
    STK_TRY(stk_text_put(url, "/", 1, err));
    return stk_text_put(url, key, strlen(key), err);
}

static int on_upload(void *cookie, const char *key, uint64_t size, const char *id, stk_error *err)
{
    const sweep *w = cookie;
    stk_text url = { 0 }, query = { 0 };
    int rc = url_of(w, key, &url, err);

    (void)size;
    if (rc == 0 && id[0] && w->dead(w->cookie, url.s)) {
        rc = stk_text_put(&query, "uploadId=", 9, err);
        if (rc == 0)
            rc = stk_uri_encode(&query, id, strlen(id), 0, err);
        if (rc == 0)
            rc = remove_one(url.s, w->store, query.s, err);
    }
    stk_free(url.s);
    stk_free(query.s);
    return rc;
}

static int put_parameter(stk_text *q, const char *name, const char *value, stk_error *err)
{
    if (!value[0])
        return 0;
    STK_TRY(stk_text_put(q, name, strlen(name), err));
    return stk_uri_encode(q, value, strlen(value), 0, err);
}

static int page(const stk_target *to, const sweep *w, stk_xml_list *x, stk_error *err)
{
    stk_text q = { 0 }, body = { 0 };
    int rc = stk_text_put(&q, "uploads", 7, err);

    if (rc == 0)
        rc = put_parameter(&q, "&prefix=", w->prefix[w->root] ? w->prefix + w->root + 1 : "", err);
    if (rc == 0)
        rc = put_parameter(&q, "&key-marker=", x->token, err);
    if (rc == 0)
        rc = put_parameter(&q, "&upload-id-marker=", x->after, err);
    if (rc == 0)
        rc = request(to, "GET", q.s, &body, err);
    if (rc == 0)
        rc = stk_xml_listing((stk_bytes){ (const uint8_t *)body.s, body.len }, x, err);
    stk_free(q.s);
    stk_free(body.s);
    return rc;
}

static int sweep_all(const stk_target *to, sweep *w, stk_error *err)
{
    stk_xml_list *x = STK_NEW(stk_xml_list);
    stk_pages pages = { 0 };
    int rc = x ? 0 : stk_fail_nomem(err, sizeof *x), more = 1;

    while (rc == 0 && more) {
        x->names = &stk_xml_uploads;
        x->each = on_upload;
        x->cookie = w;
        rc = page(to, w, x, err);
        more = x->more && x->token[0];
        if (rc == 0 && more)
            rc = stk_pages_next(&pages, x->after[0] ? x->after : x->token, err);
    }
    stk_free(x);
    return rc;
}

int stk_remote_sweep(const char *prefix, const stk_store *s,
                     int (*dead)(void *cookie, const char *url), void *cookie, stk_error *err)
{
    sweep w = { prefix, stk_bucket_len(prefix), s, dead, cookie };
    char *root = stk_strndup(prefix, w.root);
    stk_target *to = NULL;
    int rc = root ? stk_http_hold(err) : stk_fail_nomem(err, w.root), held = root && rc == 0;

    if (rc == 0)
        rc = stk_target_open(&to, root, s, err);
    if (rc == 0)
        rc = sweep_all(to, &w, err);
    stk_target_close(&to);
    stk_free(root);
    if (held)
        stk_http_drop();
    return rc;
}
