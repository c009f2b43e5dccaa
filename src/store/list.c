/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - the files under a prefix of a bucket, page by page, as its dialect asks for them. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "store/dialect.h"

#define PAGES_MAX 100000u

typedef struct listing {
    const char *root; /* scheme://bucket */
    int (*each)(void *cookie, const stk_listed *f, stk_error *err);
    void *cookie;
    stk_text url;
} listing;

int stk_pages_next(stk_pages *p, const char *text, stk_error *err)
{
    uint64_t hash = stk_hash64(1, text, strlen(text));

    if (p->n >= PAGES_MAX)
        return stk_fail(err, STK_ELIMIT, "the server's listing has more than %u pages", PAGES_MAX);
    if (!text[0])
        return stk_fail(err, STK_ECORRUPT, "the server's listing goes on without saying how");
    if (p->n && hash == p->earlier)
        return stk_fail(err, STK_ECORRUPT,
                        "the server's listing repeats itself: page %u asks for one that came "
                        "before",
                        p->n + 1);
    if (p->n++ == p->until) { /* a circle of any length is found within three rounds */
        p->earlier = hash;
        p->until = 2 * p->n;
    }
    return 0;
}

static int on_key(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err)
{
    listing *l = cookie;
    char text[64];

    l->url.len = 0;
    STK_TRY(stk_text_put(&l->url, l->root, strlen(l->root), err));
    STK_TRY(stk_text_put(&l->url, "/", 1, err));
    STK_TRY(stk_text_put(&l->url, key, strlen(key), err));
    stk_etag_short(etag, text);
    return l->each(l->cookie, &(stk_listed){ l->url.s, size, text }, err);
}

static int list_page(const stk_target *to, const char *prefix, stk_xml_list *x, stk_text *body,
                     stk_error *err)
{
    stk_text q = { 0 };
    stk_transfer t = { .to = to,
                       .method = "GET",
                       .text = body,
                       .budget_ms = stk_store_patience(to->store, !x->token[0]) };
    int rc = to->dialect->list_query(&q, prefix, x->token, err);

    t.query = q.s;
    if (rc == 0)
        rc = stk_http_run(&t, err);
    if (rc < 0 && t.status == 403)
        rc = stk_fail(err, rc,
                      "the %s can't be listed (HTTP status 403%s%s): check %s, or write the names "
                      "out, as in {000..099}, which needs no listing",
                      to->dialect->bucket, t.code[0] ? ", " : "", t.code, stk_transfer_remedy(&t));
    stk_transfer_fini(&t);
    stk_free(q.s);
    return rc ? rc : stk_xml_listing((stk_bytes){ (const uint8_t *)body->s, body->len }, x, err);
}

static int list_all(const stk_target *to, const char *prefix, listing *l, stk_error *err)
{
    stk_xml_list *x = STK_NEW(stk_xml_list);
    stk_text body = { 0 };
    stk_pages pages = { 0 };
    int rc = x ? 0 : stk_fail_nomem(err, sizeof *x), more = 1;

    while (rc == 0 && more) {
        x->names = to->dialect->listing;
        x->each = on_key;
        x->cookie = l;
        rc = list_page(to, prefix, x, &body, err);
        more = x->more;
        if (rc == 0 && more)
            rc = stk_pages_next(&pages, x->token, err);
    }
    stk_free(body.s);
    stk_free(x);
    return rc;
}

size_t stk_bucket_len(const char *url)
{
    size_t scheme = stk_scheme_len(url) + strlen("://");

    return scheme + strcspn(url + scheme, "/");
}

/* The listing is of the bucket: its root is asked. */
int stk_remote_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                    stk_error *err)
{
    size_t len = stk_bucket_len(prefix);
    char *root = stk_strndup(prefix, len);
    listing l = { .root = root, .each = each, .cookie = cookie };
    stk_target *to = NULL;
    int rc = root ? stk_http_hold(err) : stk_fail_nomem(err, len), held = root && rc == 0;

    if (rc == 0)
        rc = stk_target_open(&to, root, s, err);
    if (rc == 0)
        rc = list_all(to, prefix + len + (prefix[len] == '/'), &l, err);
    stk_target_close(&to);
    stk_free(root);
    stk_free(l.url.s);
    if (held)
        stk_http_drop();
    return rc;
}
