/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c - AWS Signature Version 4 over OpenSSL's hashes.
 *
 * libcurl has a signer of its own, which fails on queries that are not sorted, on parameters
 * without a value and on "=" in keys.  This one sorts the query and the headers as the
 * specification says, and signs the path as it is sent: S3 encodes once and normalizes nothing.
 * The key of a day, region and service is kept by the caller: it takes four hashes. */
#include "store/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MAX_PARAMS 64

void stk_sha256(const void *data, size_t len, uint8_t out[STK_SHA256])
{
    unsigned n = STK_SHA256;

    EVP_Digest(data, len, out, &n, EVP_sha256(), NULL);
}

void stk_hmac_sha256(stk_bytes key, stk_bytes data, uint8_t out[STK_SHA256])
{
    unsigned n = STK_SHA256;

    HMAC(EVP_sha256(), key.data, (int)key.len, data.data, data.len, out, &n);
}

void stk_md5_base64(const void *data, size_t len, char out[25])
{
    uint8_t sum[16];
    unsigned n = sizeof sum;

    EVP_Digest(data, len, sum, &n, EVP_md5(), NULL);
    stk_base64(sum, sizeof sum, out);
}

void stk_base64(const uint8_t *in, size_t len, char *out)
{
    EVP_EncodeBlock((unsigned char *)out, in, (int)len);
}

int stk_base64_read(const char *text, uint8_t *out, size_t size)
{
    size_t len = strlen(text), zeros = 0;
    int n = -1;

    if (len % 4 == 0 && len / 4 * 3 <= size)
        n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
    while (zeros < 2 && zeros < len && text[len - 1 - zeros] == '=')
        zeros++;
    return n < 0 ? -1 : n - (int)zeros;
}

void stk_hex(const uint8_t *in, size_t len, char *out)
{
    static const char digit[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digit[in[i] >> 4];
        out[2 * i + 1] = digit[in[i] & 15];
    }
    out[2 * len] = 0;
}

void *stk_evp_open(const char *name)
{
    const EVP_MD *kind = EVP_get_digestbyname(name);
    EVP_MD_CTX *x = kind && EVP_MD_size(kind) <= 64 ? EVP_MD_CTX_new() : NULL;

    if (x && EVP_DigestInit_ex(x, kind, NULL) != 1) {
        EVP_MD_CTX_free(x);
        x = NULL;
    }
    return x;
}

void stk_evp_add(void *evp, const void *data, size_t len)
{
    EVP_DigestUpdate(evp, data, len);
}

void stk_evp_end(void **evp, char *hex)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    EVP_DigestFinal_ex(*evp, sum, &n);
    EVP_MD_CTX_free(*evp);
    *evp = NULL;
    stk_hex(sum, n <= 64 ? n : 64, hex);
}

static int is_plain(unsigned char c, int slash)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~' || (slash && c == '/');
}

int stk_uri_encode(stk_text *to, const char *s, size_t len, int slash, stk_error *err)
{
    static const char digit[] = "0123456789ABCDEF";

    for (size_t i = 0, n; i < len; i += n) {
        unsigned char c = (unsigned char)s[i];
        char code[3] = { '%', digit[c >> 4], digit[c & 15] };

        for (n = 0; i + n < len && is_plain((unsigned char)s[i + n], slash); n++)
            ;
        if (n) {
            STK_TRY(stk_text_put(to, s + i, n, err));
        } else {
            STK_TRY(stk_text_put(to, code, 3, err));
            n = 1;
        }
    }
    return stk_text_put(to, "", 0, err);
}

/* ---- the canonical request ---- */

typedef struct param {
    const char *s;
    size_t name, len; /* of the name; of all */
} param;

/* By name, then by value: '=' must not take part in comparing names. */
static int by_param(const void *x, const void *y)
{
    const param *a = x, *b = y;
    size_t n = a->name < b->name ? a->name : b->name;
    int c = memcmp(a->s, b->s, n);

    if (c || a->name != b->name)
        return c ? c : a->name < b->name ? -1 : 1;
    n = a->len < b->len ? a->len : b->len;
    c = memcmp(a->s, b->s, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static int put_query(stk_text *t, const char *query, stk_error *err)
{
    param p[MAX_PARAMS];
    size_t n = 0;

    while (query && *query) {
        size_t len = strcspn(query, "&"), name = strcspn(query, "=&");

        if (n == MAX_PARAMS)
            return stk_fail(err, STK_ELIMIT, "a query has more than %d parameters", MAX_PARAMS);
        if (len)
            p[n++] = (param){ query, name, len };
        query += len + (query[len] == '&');
    }
    qsort(p, n, sizeof *p, by_param);
    for (size_t i = 0; i < n; i++) {
        STK_TRY(stk_text_put(t, "&", i > 0, err));
        STK_TRY(stk_text_put(t, p[i].s, p[i].len, err));
        if (p[i].name == p[i].len) /* without a value */
            STK_TRY(stk_text_put(t, "=", 1, err));
    }
    return 0;
}

static int put(stk_text *t, const char *s, stk_error *err)
{
    return stk_text_put(t, s, strlen(s), err);
}

static int by_header(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t n = strcspn(x, ":"), m = strcspn(y, ":");
    int c = memcmp(x, y, n < m ? n : m);

    return c ? c : (n > m) - (n < m);
}

/* Sorted header lines, an empty line, and the names; *names: where these begin in t. */
static int put_headers(stk_text *t, const char **line, uint32_t n, size_t *names, stk_error *err)
{
    qsort(line, n, sizeof *line, by_header);
    for (uint32_t i = 0; i < n; i++) {
        const char *value = strchr(line[i], ':') + 1;
        size_t len;

        value += strspn(value, " ");
        len = strlen(value);
        while (len && value[len - 1] == ' ')
            len--;
        STK_TRY(stk_text_put(t, line[i], strcspn(line[i], ":") + 1, err));
        STK_TRY(stk_text_put(t, value, len, err));
        STK_TRY(stk_text_put(t, "\n", 1, err));
    }
    STK_TRY(stk_text_put(t, "\n", 1, err));
    *names = t->len;
    for (uint32_t i = 0; i < n; i++) {
        STK_TRY(stk_text_put(t, ";", i > 0, err));
        STK_TRY(stk_text_put(t, line[i], strcspn(line[i], ":"), err));
    }
    return 0;
}

static int canonical(const stk_sign_in *in, const stk_signed *out, stk_text *t, char *names,
                     size_t size, stk_error *err)
{
    const char *line[STK_SIGN_HEADERS];
    char host[512];
    uint32_t n = 0;
    size_t at = 0;

    if (in->n_headers + 3 > STK_SIGN_HEADERS)
        return stk_fail(err, STK_EINVAL, "too many headers to sign");
    snprintf(host, sizeof host, "host:%s", in->host);
    line[n++] = host;
    line[n++] = out->date;
    line[n++] = out->content;
    for (uint32_t i = 0; i < in->n_headers; i++)
        line[n++] = in->headers[i];
    STK_TRY(put(t, in->method, err));
    STK_TRY(put(t, "\n", err));
    STK_TRY(put(t, in->path, err));
    STK_TRY(put(t, "\n", err));
    STK_TRY(put_query(t, in->query, err));
    STK_TRY(put(t, "\n", err));
    STK_TRY(put_headers(t, line, n, &at, err));
    snprintf(names, size, "%s", t->s + at);
    STK_TRY(put(t, "\n", err));
    return put(t, in->payload, err);
}

/* ---- the signature ---- */

static stk_bytes text_bytes(const char *s)
{
    return (stk_bytes){ (const uint8_t *)s, strlen(s) };
}

static void make_day_key(const stk_sign_in *in, const char *day, uint8_t key[STK_SHA256])
{
    const char *part[] = { day, in->region, in->service, "aws4_request" };
    char first[sizeof in->keys->secret + 8];

    snprintf(first, sizeof first, "AWS4%s", in->keys->secret);
    stk_hmac_sha256(text_bytes(first), text_bytes(part[0]), key);
    for (int i = 1; i < 4; i++) {
        uint8_t next[STK_SHA256];

        stk_hmac_sha256((stk_bytes){ key, STK_SHA256 }, text_bytes(part[i]), next);
        memcpy(key, next, sizeof next);
    }
    explicit_bzero(first, sizeof first);
}

static void day_key(const stk_sign_in *in, const char *day, uint8_t key[STK_SHA256])
{
    char of[sizeof in->day_key->of];

    if (!in->day_key) {
        make_day_key(in, day, key);
        return;
    }
    snprintf(of, sizeof of, "%s/%.60s/%.40s/%.255s", day, in->region, in->service,
             in->keys->secret);
    if (strcmp(of, in->day_key->of) != 0) {
        make_day_key(in, day, in->day_key->key);
        memcpy(in->day_key->of, of, sizeof of);
    }
    memcpy(key, in->day_key->key, STK_SHA256);
    explicit_bzero(of, sizeof of);
}

int stk_sign(const stk_sign_in *in, stk_signed *out, stk_error *err)
{
    char stamp[17], day[9], scope[160], hex[2 * STK_SHA256 + 1], names[400], text[400];
    uint8_t hash[STK_SHA256], key[STK_SHA256];
    stk_text t = { 0 };
    struct tm tm;
    int rc;

    gmtime_r(&in->now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    strftime(day, sizeof day, "%Y%m%d", &tm);
    snprintf(out->date, sizeof out->date, "x-amz-date:%s", stamp);
    snprintf(out->content, sizeof out->content, "x-amz-content-sha256:%s", in->payload);
    snprintf(scope, sizeof scope, "%s/%.60s/%.40s/aws4_request", day, in->region, in->service);
    rc = canonical(in, out, &t, names, sizeof names, err);
    if (rc == 0) {
        stk_sha256(t.s, t.len, hash);
        stk_hex(hash, sizeof hash, hex);
        snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", stamp, scope, hex);
        day_key(in, day, key);
        stk_hmac_sha256((stk_bytes){ key, sizeof key }, text_bytes(text), hash);
        stk_hex(hash, sizeof hash, hex);
        snprintf(out->authorization, sizeof out->authorization,
                 "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                 in->keys->id, scope, names, hex);
    }
    explicit_bzero(key, sizeof key);
    stk_free(t.s);
    return rc;
}
