/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - the files under a prefix of a bucket, page by page (ListObjectsV2), or of a data set of
 * the Hub (its tree API). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "source/http.h"
#include "source/remote.h"

#define PAGES_MAX 100000u

typedef struct listing {
    const char *scheme, *bucket;
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
    if (p->n && hash == p->kept)
        return stk_fail(err, STK_ECORRUPT,
                        "the server's listing repeats itself: page %u asks for one that came "
                        "before",
                        p->n + 1);
    if (p->n++ == p->until) { /* a circle of any length is found within three rounds */
        p->kept = hash;
        p->until = 2 * p->n;
    }
    return 0;
}

static int hand_on(listing *l, stk_listed f, stk_error *err)
{
    return l->each(l->cookie, &f, err);
}

static int on_key(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err)
{
    listing *l = cookie;
    char text[64];

    l->url.len = 0;
    STK_TRY(stk_text_put(&l->url, l->scheme, 5, err));
    STK_TRY(stk_text_put(&l->url, l->bucket, strlen(l->bucket), err));
    STK_TRY(stk_text_put(&l->url, "/", 1, err));
    STK_TRY(stk_text_put(&l->url, key, strlen(key), err));
    stk_etag_short(etag, text);
    return hand_on(l, (stk_listed){ l->url.s, size, text }, err);
}

static int query_of(stk_text *q, const char *prefix, const char *token, stk_error *err)
{
    q->len = 0;
    STK_TRY(stk_text_put(q, "list-type=2&prefix=", 19, err));
    STK_TRY(stk_uri_encode(q, prefix, strlen(prefix), 0, err));
    if (!token[0])
        return 0;
    STK_TRY(stk_text_put(q, "&continuation-token=", 20, err));
    return stk_uri_encode(q, token, strlen(token), 0, err);
}

static int list_page(const stk_target *to, const char *prefix, stk_xml_list *x, stk_text *body,
                     stk_error *err)
{
    stk_text q = { 0 };
    stk_transfer t = { .to = to,
                       .method = "GET",
                       .text = body,
                       .budget_ms = stk_store_patience(to->store, !x->token[0]) };
    int rc = query_of(&q, prefix, x->token, err);

    t.query = q.s;
    if (to->store->o.requester_pays == STK_YES)
        t.header[0] = "x-amz-request-payer:requester";
    if (rc == 0)
        rc = stk_http_run(&t, err);
    if (rc < 0 && t.status == 403)
        rc = stk_fail(err, rc,
                      "the bucket can't be listed (HTTP status 403%s%s): check credentials and "
                      "permissions, or write the "
                      "names out, as in {000..099}, which needs no listing",
                      t.code[0] ? ", " : "", t.code);
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

/* The listing is of the bucket: its root is asked. */
int stk_remote_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                    stk_error *err)
{
    const char *rest = prefix + 5, *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - prefix) : strlen(prefix);
    listing l = { .scheme = prefix, .each = each, .cookie = cookie };
    char *root = stk_strndup(prefix, len);
    stk_target *to = NULL;
    int rc = root ? stk_http_hold(err) : stk_fail_nomem(err, len), held = root && rc == 0;

    if (rc == 0)
        rc = stk_target_open(&to, root, s, err);
    if (rc == 0) {
        l.bucket = to->bucket;
        rc = list_all(to, slash ? slash + 1 : "", &l, err);
    }
    stk_target_close(&to);
    stk_free(root);
    stk_free(l.url.s);
    if (held)
        stk_http_drop();
    return rc;
}

/* ---- the Hub ---- */

typedef struct tree {
    listing *l;
    const char *head; /* "hf://datasets/org/name@rev/" */
    size_t head_len;
    const char *prefix;
} tree;

static int json_text(stk_bytes doc, const char *path, char *out, size_t size)
{
    stk_bytes v;
    size_t len = 0;
    uint8_t *to;

    out[0] = 0;
    if (stk_json_find(doc, path, &v, NULL) < 0 || v.len < 2 || v.data[0] != '"' || v.len >= size)
        return 0;
    to = (uint8_t *)out;
    if (stk_json_unquote(v, to, &len, NULL) < 0 || memchr(to, 0, len))
        len = 0;
    out[len] = 0;
    return len > 0;
}

static int tree_entry(void *cookie, stk_bytes key, stk_bytes e, stk_error *err)
{
    char path[2048], type[32], etag[160], tag[64];
    tree *r = cookie;
    stk_bytes size;

    (void)key;
    if (!json_text(e, "type", type, sizeof type) || strcmp(type, "file") != 0 ||
        !json_text(e, "path", path, sizeof path) || stk_json_find(e, "size", &size, NULL) < 0)
        return 0;
    if (strncmp(path, r->prefix, strlen(r->prefix)) != 0)
        return 0;
    if (!json_text(e, "lfs.oid", etag, sizeof etag))
        (void)json_text(e, "oid", etag, sizeof etag);
    stk_etag_short(etag, tag);
    r->l->url.len = 0;
    STK_TRY(stk_text_put(&r->l->url, r->head, r->head_len, err));
    STK_TRY(stk_text_put(&r->l->url, path, strlen(path), err));
    return hand_on(
        r->l, (stk_listed){ r->l->url.s, strtoull((const char *)size.data, NULL, 10), tag }, err);
}

/* "/datasets/o/n/resolve/main/dir" -> "/api/datasets/o/n/tree/main/dir" */
static int tree_path(stk_target *to, stk_error *err)
{
    char *mark = strstr(to->path, "/resolve/"), *cut;
    stk_text p = { 0 };
    int rc;

    if (!mark)
        return stk_fail(err, STK_EINVAL, "write it as hf://datasets/ORG/NAME/path/to/file");
    cut = strrchr(mark + 9, '/');
    rc = stk_text_put(&p, "/api", 4, err);
    if (rc == 0)
        rc = stk_text_put(&p, to->path, (size_t)(mark - to->path), err);
    if (rc == 0)
        rc = stk_text_put(&p, "/tree/", 6, err);
    if (rc == 0)
        rc = stk_text_put(&p, mark + 9, cut ? (size_t)(cut - mark - 9) : strlen(mark + 9), err);
    stk_free(to->path);
    to->path = p.s;
    return rc;
}

/* A page has 1,000 files; its head says how the next one is asked for. */
static int tree_all(tree *r, const stk_target *to, stk_error *err)
{
    char query[sizeof(((stk_answer *)0)->next)] = "recursive=true";
    stk_text body = { 0 };
    stk_pages pages = { 0 };
    int rc = 0;

    for (int page = 0; rc == 0 && query[0]; page++) {
        stk_transfer t = { .to = to,
                           .method = "GET",
                           .text = &body,
                           .budget_ms = stk_store_patience(to->store, !page),
                           .query = query };

        rc = stk_http_run(&t, err);
        if (rc == 0)
            rc = stk_json_elements((stk_bytes){ (const uint8_t *)body.s, body.len }, tree_entry, r,
                                   err);
        if (rc == 0 && t.answer.next[0])
            rc = stk_pages_next(&pages, strcmp(t.answer.next, "?") ? t.answer.next : "", err);
        memcpy(query, t.answer.next, sizeof query);
        stk_transfer_fini(&t);
    }
    stk_free(body.s);
    return rc;
}

int stk_hub_list(const char *prefix, const stk_store *s,
                 int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                 stk_error *err)
{
    listing l = { .each = each, .cookie = cookie };
    tree r = { .l = &l, .head = prefix };
    const char *rest = stk_hub_path(prefix + 5);
    stk_text url = { 0 };
    stk_target *to = NULL;
    int rc;

    if (!rest)
        return stk_fail(err, STK_EINVAL, "write it as hf://datasets/ORG/NAME/path/to/file");
    r.head_len = (size_t)(rest + 1 - prefix);
    r.prefix = rest + 1;
    rc = stk_text_put(&url, prefix, strlen(prefix), err);
    if (rc == 0) /* a name to stand for the file */
        rc = stk_text_put(&url, "x", 1, err);
    if (rc == 0)
        rc = stk_target_open(&to, url.s, s, err);
    if (rc == 0)
        rc = tree_path(to, err);
    if (rc == 0)
        rc = tree_all(&r, to, err);
    stk_target_close(&to);
    stk_free(url.s);
    stk_free(l.url.s);
    return rc;
}
