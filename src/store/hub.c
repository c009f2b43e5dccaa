/* SPDX-License-Identifier: Apache-2.0 */
/* hub.c - hf://datasets/org/name[@rev]/path: files of the Hugging Face Hub.
 *
 * A file is asked for by its resolve URL, which redirects to where its bytes are: the token goes to
 * the Hub alone, and the version is that of the answer that redirects.  The tree API lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/dialect.h"

#define HUB "https://huggingface.co"
#define HEAD "hf://datasets/"

static int refuse(stk_error *err)
{
    return stk_fail(err, STK_EINVAL, "write it as hf://datasets/ORG/NAME/path/to/file");
}

/* The token of $HF_TOKEN, else the file that huggingface-cli login writes. */
static int hub_token(stk_target *t, stk_error *err)
{
    const char *token = getenv("HF_TOKEN"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    char path[1024], text[512] = "";
    FILE *f;

    if (!token || !*token) {
        snprintf(path, sizeof path, "%s%s/token",
                 home   ? home
                 : user ? user
                        : "",
                 home ? "" : "/.cache/huggingface");
        f = fopen(path, "re");
        if (f && !fgets(text, sizeof text, f))
            text[0] = 0;
        if (f)
            fclose(f);
        text[strcspn(text, "\r\n")] = 0;
        token = text;
    }
    return *token ? stk_copy_text(&t->token, token, strlen(token), err) : 0;
}

/* Where the path of the file begins, at its "/"; NULL: it has none.  A revision has its slashes as
 * %2F, but for the Hub's own: refs/pr/1, refs/convert/parquet. */
static const char *path_of(const char *url)
{
    const char *org = strncmp(url, HEAD, sizeof HEAD - 1) ? NULL : url + sizeof HEAD - 1,
               *name = org ? strchr(org, '/') : NULL, *end = name ? strchr(name + 1, '/') : NULL,
               *at = end ? memchr(name, '@', (size_t)(end - name)) : NULL;

    if (at && (!strncmp(at, "@refs/pr/", 9) || !strncmp(at, "@refs/convert/", 14)))
        end = strchr(strchr(at + 6, '/') + 1, '/');
    return end;
}

/* As it is written in an address, with %2F, or as it is. */
static int put_revision(stk_text *p, const char *s, size_t len, stk_error *err)
{
    char text[256];
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof text; n++) {
        unsigned byte;
        int coded = s[i] == '%' && len - i >= 3 && sscanf(s + i + 1, "%2x", &byte) == 1;

        text[n] = coded ? (char)byte : s[i];
        i += coded ? 3 : 1;
    }
    return stk_uri_encode(p, text, n, 0, err);
}

/* datasets/org/name[@revision]/path */
static int hub_open(stk_target *t, const char *url, stk_error *err)
{
    const char *end = path_of(url), *org = url + sizeof HEAD - 1,
               *at = end ? memchr(org, '@', (size_t)(end - org)) : NULL,
               *base = stk_env_or("HF_ENDPOINT", HUB);
    stk_text p = { 0 };
    int rc;

    if (!end || !end[1])
        return refuse(err);
    rc = stk_text_put(&p, "/datasets/", 10, err);
    if (rc == 0)
        rc = stk_uri_encode(&p, org, (size_t)((at ? at : end) - org), 1, err);
    if (rc == 0)
        rc = stk_text_put(&p, "/resolve/", 9, err);
    if (rc == 0)
        rc = put_revision(&p, at ? at + 1 : "main", at ? (size_t)(end - at - 1) : 4, err);
    if (rc == 0)
        rc = stk_uri_encode(&p, end, strlen(end), 1, err);
    t->path = p.s;
    if (rc == 0)
        rc = stk_copy_text(&t->origin, base, strlen(base) - (base[strlen(base) - 1] == '/'), err);
    return rc == 0 ? hub_token(t, err) : rc;
}

static int hub_sign(const stk_lines *s, stk_transfer *t)
{
    char line[sizeof((stk_keys *)0)->token + 32];

    if (!t->to->token)
        return 0;
    snprintf(line, sizeof line, "Authorization: Bearer %s", t->to->token);
    return s->add(s->cookie, line);
}

/* ---- listing ---- */

typedef struct tree {
    int (*each)(void *cookie, const stk_listed *f, stk_error *err);
    void *cookie;
    const char *head; /* "hf://datasets/org/name@rev/" */
    size_t head_len;
    const char *prefix;
    stk_text url;
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
    r->url.len = 0;
    STK_TRY(stk_text_put(&r->url, r->head, r->head_len, err));
    STK_TRY(stk_text_put(&r->url, path, strlen(path), err));
    return r->each(r->cookie,
                   &(stk_listed){ r->url.s, strtoull((const char *)size.data, NULL, 10), tag },
                   err);
}

/* "/datasets/o/n/resolve/main/dir" -> "/api/datasets/o/n/tree/main/dir" */
static int tree_path(stk_target *to, stk_error *err)
{
    char *mark = strstr(to->path, "/resolve/"), *cut;
    stk_text p = { 0 };
    int rc;

    if (!mark)
        return refuse(err);
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

static int hub_list(const char *prefix, const stk_store *s,
                    int (*each)(void *cookie, const stk_listed *f, stk_error *err), void *cookie,
                    stk_error *err)
{
    tree r = { .each = each, .cookie = cookie, .head = prefix };
    const char *rest = path_of(prefix);
    stk_text url = { 0 };
    stk_target *to = NULL;
    int rc;

    if (!rest)
        return refuse(err);
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
    stk_free(r.url.s);
    return rc;
}

static const char *const hub_env[] = { "HF_ENDPOINT", NULL };

const stk_dialect stk_dialect_hf = {
    .source = STK_REMOTE(hf, "hf://datasets/org/name/path: files of the Hugging Face Hub",
                         STK_SOURCE_LISTS, .list = hub_list),
    .env = hub_env,
    .open = hub_open,
    .sign = hub_sign,
    .linked = 1,
};
