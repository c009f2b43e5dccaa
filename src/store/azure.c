/* SPDX-License-Identifier: Apache-2.0 */
/* azure.c - az://container/path: block blobs of Azure, signed by the account's key or a SAS token.
 *
 * The address does not say whose container it is.  The account, its key and its endpoint come from
 * the options (access_key is the account's name, secret_key its key, session_token a SAS token),
 * AZURE_STORAGE_CONNECTION_STRING, then AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY and
 * AZURE_STORAGE_SAS_TOKEN.  An emulator's endpoint has the account in its path.
 *
 * Parts of a file are blocks.  Their names begin with a random number, so that two processes that
 * write the same file do not mix theirs; blocks that are not committed go away after a week. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "store/credentials.h"
#include "store/dialect.h"

#define VERSION "x-ms-version:2021-12-02"
#define CONNECTION "AZURE_STORAGE_CONNECTION_STRING"
#define MAX_PARAMS 32
#define MAX_LINES (STK_HEADERS + 2)

/* ---- settings ---- */

/* The value of a name in "AccountName=x;AccountKey=y==;..."; 1: it is there. */
static int connection(const char *name, char *out, size_t size)
{
    size_t n = strlen(name), len;

    out[0] = 0;
    for (const char *p = stk_env_or(CONNECTION, ""); *p; p += len + (p[len] == ';')) {
        len = strcspn(p, ";");
        if (len <= n || strncasecmp(p, name, n) || p[n] != '=' || len - n > size)
            continue;
        snprintf(out, size, "%.*s", (int)(len - n - 1), p + n + 1);
    }
    return out[0] != 0;
}

static int account_of(const stk_store *s, char *out, size_t size)
{
    const char *name = s->o.access_key;

    if (!name && connection("AccountName", out, size))
        return 1;
    snprintf(out, size, "%s", name ? name : stk_env_or("AZURE_STORAGE_ACCOUNT", ""));
    return out[0] != 0;
}

static int endpoint_of(const stk_store *s, char *out, size_t size, stk_error *err)
{
    const char *given = s->o.endpoint ? s->o.endpoint
                                      : stk_env_or("AZURE_STORAGE_SERVICE_ENDPOINT", NULL);
    char account[256], suffix[256], protocol[16];
    size_t len;

    if (given) {
        snprintf(out, size, "%s", given);
    } else if (!connection("BlobEndpoint", out, size)) {
        if (!account_of(s, account, sizeof account))
            return stk_fail(err, STK_EINVAL,
                            "az:// needs an account: set AZURE_STORAGE_ACCOUNT or " CONNECTION);
        connection("DefaultEndpointsProtocol", protocol, sizeof protocol);
        connection("EndpointSuffix", suffix, sizeof suffix);
        snprintf(out, size, "%s://%.100s.blob.%.100s", protocol[0] ? protocol : "https", account,
                 suffix[0] ? suffix : "core.windows.net");
    }
    for (len = strlen(out); len && out[len - 1] == '/'; len--)
        out[len - 1] = 0;
    return 0;
}

static int azure_open(stk_target *t, const char *url, stk_error *err)
{
    char endpoint[512];
    const char *key;

    STK_TRY(stk_target_bucket(t, url + strlen("az://"), &key, err));
    STK_TRY(endpoint_of(t->store, endpoint, sizeof endpoint, err));
    STK_TRY(stk_copy_text(&t->origin, endpoint, strlen(endpoint), err));
    STK_TRY(stk_target_path(t, key, 1, err));
    if (!key[0]) /* the container itself has no slash */
        t->path[strlen(t->path) - 1] = 0;
    return 0;
}

/* ---- keys ---- */

static int by_connection(stk_keys *out)
{
    char name[sizeof out->id], key[sizeof out->secret];
    int rc = STK_END;

    memset(out, 0, sizeof *out);
    if (connection("AccountName", name, sizeof name) && connection("AccountKey", key, sizeof key))
        rc = stk_keys_take(out, name, key, NULL);
    else if (connection("SharedAccessSignature", out->token, sizeof out->token))
        rc = 0;
    explicit_bzero(key, sizeof key);
    return rc;
}

/* A SAS token alone: without id and secret. */
static int by_token(stk_keys *out, const char *token)
{
    return token ? stk_keys_take(out, "", "", token + (token[0] == '?')) : STK_END;
}

static int azure_keys(stk_store *s, stk_keys *out, stk_error *err)
{
    uint8_t key[sizeof out->secret];
    int rc = stk_keys_given(s, 0, out, err), bad;

    if (rc < 0)
        return rc;
    if (rc == STK_END)
        rc = by_token(out, s->o.session_token);
    if (rc == STK_END)
        rc = by_connection(out);
    if (rc == STK_END)
        rc = stk_keys_take(out, stk_env_or("AZURE_STORAGE_ACCOUNT", NULL),
                           stk_env_or("AZURE_STORAGE_KEY", NULL), NULL);
    if (rc == STK_END)
        rc = by_token(out, stk_env_or("AZURE_STORAGE_SAS_TOKEN", NULL));
    if (rc == STK_EINVAL)
        return stk_fail(err, rc, "the account's name, key or SAS token is too long to be one");
    bad = rc == 0 && out->id[0] && stk_base64_read(out->secret, key, sizeof key) <= 0;
    explicit_bzero(key, sizeof key);
    return bad ? stk_fail(err, STK_EINVAL,
                          "the account's key is not base64: copy it again, all of it")
               : rc;
}

/* ---- the signature of a request ---- */

static int put(stk_text *t, const char *s)
{
    return stk_text_put(t, s, strlen(s), NULL);
}

/* A header of the request's own, after its name; "": it has none. */
static const char *header(const stk_transfer *t, const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < STK_HEADERS; i++)
        if (t->header[i] && !strncasecmp(t->header[i], name, n) && t->header[i][n] == ':')
            return t->header[i] + n + 1 + strspn(t->header[i] + n + 1, " ");
    return "";
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* x-ms-...: sorted by name, which none of them shares with another. */
static int put_lines(stk_text *to, const stk_transfer *t, const char *date)
{
    const char *line[MAX_LINES] = { date, VERSION };
    size_t n = 2;

    for (int i = 0; i < STK_HEADERS; i++)
        if (t->header[i] && !strncasecmp(t->header[i], "x-ms-", 5))
            line[n++] = t->header[i];
    qsort(line, n, sizeof *line, by_text);
    for (size_t i = 0; i < n; i++) {
        STK_TRY(put(to, line[i]));
        STK_TRY(put(to, "\n"));
    }
    return 0;
}

static int put_decoded(stk_text *to, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)s[i];
        char c;

        if (s[i] == '%' && len - i >= 3 && sscanf(s + i + 1, "%2x", &byte) == 1)
            i += 2;
        c = (char)byte;
        STK_TRY(stk_text_put(to, &c, 1, NULL));
    }
    return 0;
}

/* "/account/path", then a line "name:value" for each parameter, sorted by name. */
static int put_resource(stk_text *to, const char *account, const char *url)
{
    const char *path = strstr(url, "://") + 3, *param[MAX_PARAMS], *q;
    size_t n = 0;

    path += strcspn(path, "/?");
    STK_TRY(put(to, "/"));
    STK_TRY(put(to, account));
    STK_TRY(stk_text_put(to, path, strcspn(path, "?"), NULL));
    for (q = path + strcspn(path, "?"); *q && n < MAX_PARAMS; q += strcspn(q, "&"))
        param[n++] = ++q; /* after "?" or "&" */
    qsort(param, n, sizeof *param, by_text);
    for (size_t i = 0; i < n; i++) {
        size_t len = strcspn(param[i], "&"), name = strcspn(param[i], "=&");

        STK_TRY(put(to, "\n"));
        STK_TRY(stk_text_put(to, param[i], name, NULL));
        STK_TRY(put(to, ":"));
        STK_TRY(put_decoded(to, param[i] + name + (name < len), len - name - (name < len)));
    }
    return 0;
}

/* The text that is signed: the request's headers in a fixed order, a line each. */
static int put_request(stk_text *to, const stk_lines *s, const stk_transfer *t, const char *date)
{
    char length[24] = "";
    const char *line[] = { t->method,
                           "", /* Content-Encoding */
                           "", /* Content-Language */
                           length,
                           header(t, "content-md5"),
                           header(t, "content-type"),
                           "", /* Date: x-ms-date is there */
                           "", /* If-Modified-Since */
                           s->match[0] ? s->match + strlen("If-Match: ") : "",
                           "", /* If-None-Match */
                           "", /* If-Unmodified-Since */
                           s->range[0] ? s->range + strlen("Range: ") : "" };

    if (t->body_len)
        snprintf(length, sizeof length, "%zu", t->body_len);
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        STK_TRY(put(to, line[i]));
        STK_TRY(put(to, "\n"));
    }
    return put_lines(to, t, date);
}

/* As HTTP writes a date, whatever the locale says. */
static void date_line(time_t now, char *out, size_t size)
{
    static const char *const day[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char *const month[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct tm tm;

    gmtime_r(&now, &tm);
    snprintf(out, size, "x-ms-date:%s, %02d %s %d %02d:%02d:%02d GMT", day[tm.tm_wday], tm.tm_mday,
             month[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static int add_signature(const stk_lines *s, const stk_transfer *t, const stk_keys *keys,
                         const char *date)
{
    char line[400], text[64];
    uint8_t key[sizeof keys->secret], sum[STK_SHA256];
    int len = stk_base64_read(keys->secret, key, sizeof key);
    stk_text to = { 0 };
    int rc = put_request(&to, s, t, date);

    if (rc == 0)
        rc = put_resource(&to, keys->id, s->url->s);
    if (rc == 0) {
        stk_hmac_sha256((stk_bytes){ key, len > 0 ? (size_t)len : 0 },
                        (stk_bytes){ (const uint8_t *)to.s, to.len }, sum);
        stk_base64(sum, sizeof sum, text);
        snprintf(line, sizeof line, "Authorization: SharedKey %.255s:%s", keys->id, text);
        rc = s->add(s->cookie, line);
    }
    explicit_bzero(key, sizeof key);
    stk_free(to.s);
    return rc;
}

static int azure_sign(const stk_lines *s, stk_transfer *t)
{
    char date[64];
    stk_keys keys;
    int rc = stk_keys_peek(t->to->store, t->to->dialect, &keys, &t->own.keys_turn);

    if (rc)
        return rc;
    date_line(stk_store_clock(t->to->store), date, sizeof date);
    rc = s->add(s->cookie, date);
    if (rc == 0)
        rc = s->add(s->cookie, VERSION);
    if (rc == 0 && keys.id[0])
        rc = add_signature(s, t, &keys, date);
    else if (rc == 0 && keys.token[0]) { /* a SAS token is a part of the query */
        rc = put(s->url, strchr(s->url->s, '?') ? "&" : "?");
        if (rc == 0)
            rc = put(s->url, keys.token);
    }
    explicit_bzero(&keys, sizeof keys);
    return rc;
}

/* ---- lists and blocks ---- */

static int list_query(stk_text *q, const char *prefix, const char *token, stk_error *err)
{
    static const char head[] = "restype=container&comp=list&prefix=";

    STK_TRY(stk_text_put(q, head, sizeof head - 1, err));
    STK_TRY(stk_uri_encode(q, prefix, strlen(prefix), 0, err));
    if (!token[0])
        return 0;
    STK_TRY(stk_text_put(q, "&marker=", 8, err));
    return stk_uri_encode(q, token, strlen(token), 0, err);
}

static const stk_xml_names listing = {
    .entry = "Blob", .key = "Name", .size = "Content-Length", .etag = "Etag", .next = "NextMarker"
};

static void block_id(const char *upload, uint32_t part, char out[64])
{
    char text[40];

    snprintf(text, sizeof text, "%.16s%08u", upload, part);
    stk_base64((const uint8_t *)text, strlen(text), out);
}

static int block_query(stk_text *q, const char *upload, uint32_t part, stk_error *err)
{
    char id[64];

    if (!part)
        return stk_text_put(q, "comp=blocklist", 14, err);
    block_id(upload, part, id);
    STK_TRY(stk_text_put(q, "comp=block&blockid=", 19, err));
    return stk_uri_encode(q, id, strlen(id), 0, err);
}

static int note_block(stk_text *list, const char *upload, uint32_t part, const char *etag,
                      stk_error *err)
{
    char id[64], text[100];

    (void)etag;
    block_id(upload, part, id);
    snprintf(text, sizeof text, "<Latest>%s</Latest>", id);
    return stk_text_put(list, text, strlen(text), err);
}

static const stk_parts blocks = { .query = block_query,
                                  .note = note_block,
                                  .method = "PUT",
                                  .head = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>",
                                  .tail = "</BlockList>" };

static const char *const azure_env[] = { "AZURE_STORAGE_ACCOUNT", CONNECTION,
                                         "AZURE_STORAGE_SERVICE_ENDPOINT", NULL };

const stk_dialect stk_dialect_az = {
    .source = STK_REMOTE(az, "az://container/path: blobs of Azure",
                         STK_SOURCE_LISTS | STK_SOURCE_PUTS, .list = stk_remote_list,
                         .put = stk_remote_put, .remove = stk_remote_remove),
    .bucket = "container",
    .env = azure_env,
    .open = azure_open,
    .sign = azure_sign,
    .find_keys = azure_keys,
    .ranges = 1,
    .expired = "AuthenticationFailed",
    .skewed = "AuthenticationFailed",
    .no_bucket = "ContainerNotFound",
    .check = "AZURE_STORAGE_ACCOUNT with its key or SAS token",
    .list_query = list_query,
    .listing = &listing,
    .put_header = "x-ms-blob-type:BlockBlob",
    .parts = &blocks,
};
