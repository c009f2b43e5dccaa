/* SPDX-License-Identifier: Apache-2.0 */
/* stores_test.c - the parts of remote sources that need no network: signatures against AWS's own
 * examples, headers, what an answer means, profile files, listings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "source/hidden.h"
#include "store/credentials.h"
#include "store/dialect.h"
#include "store/store_cache.h"

static stk_bytes bytes(const char *s)
{
    return (stk_bytes){ (const uint8_t *)s, strlen(s) };
}

/* ---- signatures: the examples of AWS's documentation of Signature Version 4 for S3 ---- */

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const stk_keys example = { .id = "AKIAIOSFODNN7EXAMPLE",
                                  .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };

static const char *signature(const char *query, const char *path, const char *header,
                             stk_signed *out)
{
    stk_sign_in in = { .method = "GET",
                       .host = "examplebucket.s3.amazonaws.com",
                       .path = path,
                       .query = query,
                       .payload = EMPTY,
                       .region = "us-east-1",
                       .service = "s3",
                       .keys = &example,
                       .now = 1369353600,
                       .headers = &header,
                       .n_headers = header != NULL };
    stk_error err;

    assert_int_equal(stk_sign(&in, out, &err), 0);
    return strstr(out->authorization, "Signature=") + 10;
}

static void signs(void **state)
{
    stk_signed out;

    (void)state;
    assert_string_equal(signature(NULL, "/test.txt", "range:bytes=0-9", &out),
                        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    assert_string_equal(signature("lifecycle", "/", NULL, &out),
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    assert_string_equal(signature("max-keys=2&prefix=J", "/", NULL, &out),
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    assert_string_equal(signature("prefix=J&max-keys=2", "/", NULL, &out), /* in any order */
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    assert_string_equal(out.date, "x-amz-date:20130524T000000Z");
}

static void kept_keys_sign_alike(void **state)
{
    stk_day_key key = { 0 };
    stk_sign_in in = { .method = "GET",
                       .host = "h",
                       .path = "/",
                       .payload = EMPTY,
                       .region = "r",
                       .service = "s3",
                       .keys = &example,
                       .now = 1369353600 };
    stk_signed a, b;

    (void)state;
    for (int i = 0; i < 3; i++) {
        in.now += 86400 * (i == 2);
        in.day_key = &key;
        assert_int_equal(stk_sign(&in, &a, NULL), 0);
        in.day_key = NULL;
        assert_int_equal(stk_sign(&in, &b, NULL), 0);
        assert_string_equal(a.authorization, b.authorization);
    }
}

static void encodes(void **state)
{
    stk_text t = { 0 };

    (void)state;
    assert_int_equal(stk_uri_encode(&t, "a b/c=~+%\xc3\xbc", 11, 1, NULL), 0);
    assert_string_equal(t.s, "a%20b/c%3D~%2B%25%C3%BC");
    stk_free(t.s);
}

/* ---- headers ---- */

static void take(stk_answer *a, const char *line)
{
    stk_answer_header(a, line, strlen(line));
}

static void headers(void **state)
{
    stk_answer a;
    char tag[64];

    (void)state;
    stk_answer_clear(&a);
    take(&a, "Content-Range: bytes 5-9/100\r\n");
    assert_int_equal(a.first, 5);
    assert_int_equal(a.last, 9);
    assert_int_equal(a.total, 100);
    take(&a, "content-range: bytes 9-5/100"); /* not a range: what was said stays */
    assert_int_equal(a.last, 9);
    take(&a, "Content-Length: 99999999999999999999999");
    assert_true(a.length == UINT64_MAX);
    take(&a, "ETag: \"abc-3\"\r\n");
    stk_etag_short(a.etag, tag);
    assert_string_equal(tag, "abc-3");
    take(&a, "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    assert_int_equal(a.date, 784111777);
    take(&a, "Retry-After: 7");
    assert_int_equal(a.retry_after, 7);
    take(&a, "x-amz-bucket-region: eu-west-1\r\n");
    assert_string_equal(a.region, "eu-west-1");
    stk_etag_short("\"0123456789012345678901234567890123456789012345678901234567890123\"", tag);
    assert_int_equal(tag[0], '#');
}

/* ---- what an answer means ---- */

static stk_target target = {
    .dialect = &stk_dialect_s3, .origin = "http://h", .path = "/x", .bucket = "b"
};

static stk_transfer answer(int status, const char *range, size_t got)
{
    static uint8_t dst[100];
    stk_transfer t = { .to = &target,
                       .len = 100,
                       .dst = dst,
                       .etag = "v1",
                       .own.tries = 1,
                       .status = status,
                       .got = 0 };

    stk_answer_clear(&t.answer);
    take(&t.answer, "ETag: \"v1\"");
    if (range)
        take(&t.answer, range);
    t.own.bad_body = got && !stk_transfer_accepts(&t);
    t.got = t.own.bad_body ? 0 : got;
    return t;
}

static void means(void **state)
{
    static const struct {
        int status;
        const char *range;
        size_t got;
        int verdict, rc;
    } cases[] = {
        { 206, "Content-Range: bytes 0-99/500", 100, STK_DONE, 0 },
        { 206, "Content-Range: bytes 0-49/50", 50, STK_DONE, 0 },           /* the file ends */
        { 206, "Content-Range: bytes 0-49/500", 50, STK_AGAIN, STK_EIO },   /* a short body */
        { 206, "Content-Range: bytes 1-100/500", 100, STK_AGAIN, STK_EIO }, /* another range */
        { 206, "Content-Range: bytes 0-199/500", 200, STK_AGAIN, STK_EIO }, /* too much */
        { 200, NULL, 100, STK_AGAIN, STK_EIO },                             /* an error page */
        { 206, NULL, 0, STK_AGAIN, STK_EIO },                               /* empty */
        { 503, NULL, 0, STK_AGAIN, STK_EIO },
        { 500, NULL, 0, STK_AGAIN, STK_EIO },
        { 429, NULL, 0, STK_AGAIN, STK_EIO },
        { 412, NULL, 0, STK_DONE, STK_ESTALE },
        { 404, NULL, 0, STK_DONE, STK_ENOTFOUND },
        { 403, NULL, 0, STK_DONE, STK_EIO },
        { 416, "Content-Range: bytes */0", 0, STK_DONE, 0 },
        { 416, "Content-Range: bytes */40", 0, STK_AGAIN, STK_EIO }, /* there are 40 */
        { 416, NULL, 0, STK_AGAIN, STK_EIO },                        /* once is not enough */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_transfer t = answer(cases[i].status, cases[i].range, cases[i].got);

        assert_int_equal(stk_transfer_judge(&t, NULL, 0), cases[i].verdict);
        assert_int_equal(t.rc, cases[i].rc);
        stk_transfer_fini(&t);
    }
}

/* A server without ranges sends all of the file; a page that says what went wrong is not the
 * file. */
static void a_whole_file(void **state)
{
    stk_target web = { .dialect = &stk_dialect_http, .origin = "http://h", .path = "/x" };
    stk_transfer t = answer(200, "Content-Length: 83", 0);

    (void)state;
    t.to = &web;
    assert_true(stk_transfer_accepts(&t));
    take(&t.answer, "Content-Type: application/xml");
    assert_false(stk_transfer_accepts(&t));
    take(&t.answer, "Content-Type: application/x-tar");
    assert_true(stk_transfer_accepts(&t));
    t.answer.etag[0] = 0; /* the file had a version */
    assert_false(stk_transfer_accepts(&t));
    t.etag = NULL;
    assert_true(stk_transfer_accepts(&t));
    stk_transfer_fini(&t);
}

static void another_version(void **state)
{
    stk_transfer t = answer(206, "Content-Range: bytes 0-99/500", 0);

    (void)state;
    take(&t.answer, "ETag: \"v2\"");
    assert_false(stk_transfer_accepts(&t)); /* not a byte of it is taken */
    t.own.bad_body = 1;
    assert_int_equal(stk_transfer_judge(&t, NULL, 0), STK_DONE);
    assert_int_equal(t.rc, STK_ESTALE);
    stk_transfer_fini(&t);
}

/* Bytes of an answer that did not end as its headers say are dropped, earlier ones stay. */
static void bytes_that_stay(void **state)
{
    stk_transfer t = answer(206, "Content-Range: bytes 0-99/500", 0);

    (void)state;
    t.got = t.at.earlier = 40;
    stk_answer_clear(&t.answer);
    take(&t.answer, "ETag: \"v1\"");
    take(&t.answer, "Content-Range: bytes 40-99/500");
    assert_true(stk_transfer_accepts(&t));
    assert_int_equal(t.at.due, 100);
    t.got = 70;
    assert_int_equal(stk_transfer_judge(&t, "reset", 0), STK_AGAIN);
    assert_int_equal(t.got, 70); /* the connection broke: these are good */
    assert_int_equal(stk_transfer_judge(&t, NULL, 0), STK_AGAIN);
    assert_int_equal(t.got, 40); /* it ended, and was to have 60 */
    take(&t.answer, "Content-Length: 61");
    assert_false(stk_transfer_accepts(&t));
    take(&t.answer, "Content-Length: 60"); /* said twice */
    assert_false(stk_transfer_accepts(&t));
    stk_transfer_fini(&t);
}

/* AWS without an endpoint has no origin: what is relative, or not TLS, is not followed. */
static void redirects(void **state)
{
    static const char *const to[] = { "/x", "x", "http://h/x", "ftp://h/x", "https://h/x" };
    stk_target aws = { .dialect = &stk_dialect_http, .path = "/x", .bucket = "" };

    (void)state;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        stk_transfer t = answer(302, NULL, 0);

        t.to = &aws;
        snprintf(t.answer.location, sizeof t.answer.location, "%s", to[i]);
        assert_int_equal(stk_transfer_judge(&t, NULL, 0), i == 4 ? STK_AGAIN : STK_DONE);
        assert_int_equal(t.own.moved != NULL, i == 4);
        stk_transfer_fini(&t);
    }
}

static void denied(const char *code, int verdict)
{
    stk_store *s = NULL;
    stk_transfer t = answer(403, NULL, 0);
    char body[100];

    assert_int_equal(stk_store_open(&s, NULL, NULL), 0);
    target.store = s;
    snprintf(body, sizeof body, "<Error><Code>%s</Code></Error>", code);
    assert_int_equal(stk_text_put(&t.own.error, body, strlen(body), NULL), 0);
    take(&t.answer, "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    assert_int_equal(stk_transfer_judge(&t, NULL, 0), verdict);
    assert_string_equal(t.code, code);
    if (!strcmp(code, "RequestTimeTooSkewed"))
        assert_int_equal(stk_store_clock(s) - 784111777 < 5, 1);
    assert_int_not_equal(stk_transfer_judge(&t, NULL, 0), verdict == STK_DONE ? -1 : verdict);
    stk_transfer_fini(&t);
    stk_store_unref(&s);
}

/* Keys are renewed and the clock is set once; then it is an error. */
static void keys_and_clocks(void **state)
{
    (void)state;
    denied("ExpiredToken", STK_KEYS);
    denied("RequestTimeTooSkewed", STK_AGAIN);
    denied("AccessDenied", STK_DONE);
}

static void regions(void **state)
{
    stk_store_options o = { .size = sizeof o, .region = "us-east-1" };
    stk_store *s = NULL;
    stk_transfer t = answer(301, "x-amz-bucket-region: eu-west-1", 0);
    char region[64];

    (void)state;
    assert_int_equal(stk_store_open(&s, &o, NULL), 0);
    target.store = s;
    stk_store_region(s, "b", region, sizeof region);
    assert_string_equal(region, "us-east-1");
    assert_int_equal(stk_transfer_judge(&t, NULL, 0), STK_AGAIN);
    stk_store_region(s, "b", region, sizeof region);
    assert_string_equal(region, "eu-west-1");
    stk_store_region(s, "other", region, sizeof region);
    assert_string_equal(region, "us-east-1");
    assert_int_equal(stk_transfer_judge(&t, NULL, 0), STK_DONE); /* it is said again: no loop */
    assert_non_null(strstr(t.why, "eu-west-1"));
    assert_int_equal(stk_store_note_region(s, "b", "evil/../host"), 0);
    stk_transfer_fini(&t);
    stk_store_unref(&s);
}

/* ---- files of keys ---- */

static void profiles(void **state)
{
    static const char text[] = "[default]\nregion = a\n# x\n[profile  two]\nregion=b # why\n"
                               "s3 =\n  region = nested\n[ three ]\naws_access_key_id = K=1\n";
    char out[64];

    (void)state;
    assert_true(stk_ini_find(bytes(text), "default", "region", out, sizeof out));
    assert_string_equal(out, "a");
    assert_true(stk_ini_find(bytes(text), "profile two", "region", out, sizeof out));
    assert_string_equal(out, "b");
    assert_true(stk_ini_find(bytes(text), "three", "aws_access_key_id", out, sizeof out));
    assert_string_equal(out, "K=1");
    assert_false(stk_ini_find(bytes(text), "two", "region", out, sizeof out));
}

static void json_keys(void **state)
{
    stk_keys k;
    stk_error err;

    (void)state;
    assert_int_equal(stk_keys_from_json(bytes("{\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"s\","
                                              "\"Token\":\"t\",\"Expiration\":"
                                              "\"1994-11-06T08:49:37Z\"}"),
                                        &k, &err),
                     0);
    assert_string_equal(k.token, "t");
    assert_int_equal(k.expires, 784111777);
    assert_int_equal(stk_keys_from_json(bytes("{\"AccessKeyId\":\"i\"}"), &k, &err), STK_ECORRUPT);
    assert_null(strstr(err.message, "\"i\""));
}

static int count(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err)
{
    (void)err;
    assert_string_equal(key, "a&b.tar");
    assert_int_equal(size, 7);
    assert_string_equal(etag, "\"x\"");
    ++*(int *)cookie;
    return 0;
}

static void listings(void **state)
{
    int n = 0;
    stk_xml_list l = { .names = &stk_xml_objects, .each = count, .cookie = &n };
    stk_error err;

    (void)state;
    assert_int_equal(
        stk_xml_listing(bytes("<ListBucketResult><IsTruncated>true</IsTruncated>"
                              "<NextContinuationToken>tok</NextContinuationToken><Contents>"
                              "<Key>a&amp;b.tar</Key><Size>7</Size><ETag>&quot;x&quot;</ETag>"
                              "</Contents></ListBucketResult>"),
                        &l, &err),
        0);
    assert_int_equal(n, 1);
    assert_true(l.more);
    assert_string_equal(l.token, "tok");
    assert_int_equal(stk_xml_listing(bytes("<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>"), &l, &err),
                     STK_ECORRUPT);
    assert_int_equal(stk_xml_listing(bytes("<html>"), &l, &err), STK_ECORRUPT);
}

typedef struct seen {
    char key[32], etag[16];
    uint64_t size;
    int n;
} seen;

static int see(void *cookie, const char *key, uint64_t size, const char *etag, stk_error *err)
{
    seen *s = cookie;

    (void)err;
    snprintf(s->key, sizeof s->key, "%s", key);
    snprintf(s->etag, sizeof s->etag, "%s", etag);
    s->size = size;
    s->n++;
    return 0;
}

/* Another dialect's names: a Name deeper in a Blob is not the blob's; a marker means more. */
static void listings_of_azure(void **state)
{
    seen s = { .n = 0 };
    stk_xml_list l = { .names = stk_dialect_az.listing, .each = see, .cookie = &s };
    stk_error err;

    (void)state;
    assert_int_equal(
        stk_xml_listing(bytes("<EnumerationResults><Prefix>a</Prefix><Blobs><Blob>"
                              "<Name>a&amp;b</Name>"
                              "<Properties><Content-Length>7</Content-Length><Etag>0x8D</Etag>"
                              "<Owner><Name>x</Name></Owner></Properties></Blob></Blobs>"
                              "<NextMarker>2!76</NextMarker></EnumerationResults>"),
                        &l, &err),
        0);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.key, "a&b");
    assert_string_equal(s.etag, "0x8D");
    assert_int_equal(s.size, 7);
    assert_true(l.more);
    assert_string_equal(l.token, "2!76");
    assert_int_equal(stk_xml_listing(bytes("<EnumerationResults><Blobs/><NextMarker/>"
                                           "</EnumerationResults>"),
                                     &l, &err),
                     0);
    assert_false(l.more);
}

/* A table has what its flags promise: what it lists and writes, and which words it knows. */
static void dialects(void **state)
{
#define STK_STORE(x) &stk_dialect_##x,
    static const stk_dialect *const all[] = {
#include "registry.def"
    };
    char url[40], names[100];
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const stk_dialect *d = all[i];

        snprintf(url, sizeof url, "%s://x/y", d->source.scheme);
        assert_ptr_equal(stk_dialect_of(url), d);
        assert_true(d->open != NULL);
        assert_int_equal(!(d->source.can & STK_SOURCE_LISTS), !d->source.list);
        assert_int_equal(!(d->source.can & STK_SOURCE_PUTS), !d->source.put);
        assert_int_equal(!d->source.put, !d->source.remove);
        if (d->source.list == stk_remote_list)
            assert_true(d->bucket && d->list_query && d->listing);
        if (d->source.put)
            assert_true(d->bucket && d->parts && d->parts->query && d->parts->note);
        assert_true(!d->find_keys || d->sign);
        assert_true(!d->expired || d->find_keys); /* else nothing could be renewed */
        n += d->find_keys != NULL;
    }
    assert_true(n < STK_RINGS);
    assert_ptr_equal(stk_dialect_of("gopher://x/y"), &stk_dialect_http);
    assert_string_equal(stk_stores_that(STK_SOURCE_PUTS, names, sizeof names),
                        "s3://, gs:// or az://");
}

/* RFC 4648, and what is not base64. */
static void base64_texts(void **state)
{
    static const char *const pairs[][2] = {
        { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" }
    };
    uint8_t out[8];
    char text[16];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t len = strlen(pairs[i][0]);

        stk_base64((const uint8_t *)pairs[i][0], len, text);
        assert_string_equal(text, pairs[i][1]);
        assert_int_equal(stk_base64_read(text, out, sizeof out), len);
        assert_memory_equal(out, pairs[i][0], len);
    }
    assert_int_equal(stk_base64_read("Zg=", out, sizeof out), -1);
    assert_int_equal(stk_base64_read("Z!==", out, sizeof out), -1);
    assert_int_equal(stk_base64_read("Zm9vYmFyZm9v", out, sizeof out), -1); /* no room */
}

/* What may be secret in a URL is in no name. */
static void hides(void **state)
{
    stk_text t = { 0 };
    stk_target *to = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_url_hide("https://me:pw@host/a.tar?X-Amz-Signature=deadbeef#f", &t, &err),
                     0);
    assert_string_equal(t.s, "https://host/a.tar");
    assert_int_equal(stk_target_open(&to, t.s, NULL, &err), 0);
    assert_string_equal(to->query, "X-Amz-Signature=deadbeef");
    assert_string_equal(to->origin, "https://me:pw@host");
    assert_string_equal(to->path, "/a.tar");
    stk_target_close(&to);
    stk_free(t.s);
}

static void hidden_as(const char *url, char out[128])
{
    stk_text t = { 0 };

    assert_int_equal(stk_url_hide(url, &t, NULL), 0);
    snprintf(out, 128, "%s", t.s);
    stk_free(t.s);
}

/* A query is a part of the name, as a hash; a signature is not. */
static void queries(void **state)
{
    static const char *const signed_ones[] = {
        "http://h/a/get.tar?id=0&X-Amz-Signature=s&X-Amz-Date=d",
        "http://h/a/get.tar?Expires=9&id=0&Signature=s&Key-Pair-Id=k",
        "http://h/a/get.tar?sv=1&se=2&id=0&sig=x",
        "http://u:p@h/a/get.tar?id=0#part",
    };
    char zero[128], one[128], x[128];

    (void)state;
    hidden_as("http://h/a/get.tar?id=0", zero);
    hidden_as("http://h/a/get.tar?id=1", one);
    assert_string_not_equal(zero, one);
    assert_memory_equal(zero, "http://h/a/?", 12);
    assert_string_equal(zero + strlen(zero) - 8, "~get.tar");
    for (size_t i = 0; i < sizeof signed_ones / sizeof *signed_ones; i++) {
        hidden_as(signed_ones[i], x);
        assert_string_equal(x, zero);
    }
    hidden_as(zero, x);
    assert_string_equal(x, zero);
    hidden_as("http://h/a/get.tar?Expires=9&sp=1", x); /* no signature: names of the user's */
    assert_non_null(strchr(x, '?'));
    hidden_as("http://h/a/get.tar?X-Goog-Signature=1", x);
    assert_string_equal(x, "http://h/a/get.tar");
    hidden_as("http://h?id=0", x);
    assert_memory_equal(x, "http://h/?", 10);
}

/* ---- second requests ---- */

static void hedges(void **state)
{
    stk_hedge h = { 0 };
    uint64_t ms = 1000000u;

    (void)state;
    assert_false(stk_hedge_now(&h, 1000 * ms, 0)); /* nothing is known yet */
    for (int i = 0; i < 112; i++)
        stk_hedge_note(&h, i % 10 ? 20 * ms : 40 * ms); /* one of ten is slow: the usual */
    assert_int_equal(h.after_ns, 80 * ms);
    assert_false(stk_hedge_now(&h, 1000 * ms, 930 * ms));
    assert_true(stk_hedge_now(&h, 1000 * ms, 920 * ms));
    h.sent = 2; /* of 112 */
    assert_false(stk_hedge_now(&h, 1000 * ms, 0));
    h.sent = 1;
    stk_hedge_slow(&h, 1000 * ms);
    assert_false(stk_hedge_now(&h, 2000 * ms, 0));
    assert_true(stk_hedge_now(&h, 31000 * ms, 0));
}

/* ---- the pace of a host ---- */

static void paces(void **state)
{
    char dir[] = "/tmp/stk-pace-XXXXXX", path[64];
    uint64_t now = 5000000000u, until, big = STK_PACE_MAX;
    stk_pace *a, *b;

    (void)state;
    assert_non_null(mkdtemp(dir));
    a = stk_pace_open(dir);
    b = stk_pace_open(dir);
    assert_true(a && b);
    assert_false(stk_pace_news(a, now, &until));
    assert_int_equal(until, 0);
    stk_pace_tell(a, now + 1000);
    assert_true(stk_pace_news(b, now, &until));
    assert_int_equal(until, now + 1000);
    assert_false(stk_pace_news(b, now, &until)); /* once */
    assert_int_equal(until, now + 1000);
    assert_false(stk_pace_news(a, now, &until)); /* its own */
    stk_pace_tell(b, now + 500);                 /* the longer pause stays */
    assert_true(stk_pace_news(a, now + 700, &until));
    assert_int_equal(until, now + 1000);
    assert_false(stk_pace_news(a, now + 1000, &until)); /* over */
    assert_int_equal(until, 0);
    stk_pace_tell(a, now + 2 * big); /* of another boot's clock */
    assert_true(stk_pace_news(b, now, &until));
    assert_int_equal(until, 0);
    stk_pace_tell(b, now + 10);
    assert_true(stk_pace_news(a, now, &until));
    assert_int_equal(until, now + 10);
    stk_pace_close(&a);
    stk_pace_close(&b);
    snprintf(path, sizeof path, "%s/pace", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_null(stk_pace_open(dir)); /* each process by itself then */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs),
        cmocka_unit_test(kept_keys_sign_alike),
        cmocka_unit_test(encodes),
        cmocka_unit_test(headers),
        cmocka_unit_test(means),
        cmocka_unit_test(a_whole_file),
        cmocka_unit_test(another_version),
        cmocka_unit_test(keys_and_clocks),
        cmocka_unit_test(regions),
        cmocka_unit_test(profiles),
        cmocka_unit_test(json_keys),
        cmocka_unit_test(listings),
        cmocka_unit_test(listings_of_azure),
        cmocka_unit_test(dialects),
        cmocka_unit_test(base64_texts),
        cmocka_unit_test(hides),
        cmocka_unit_test(hedges),
        cmocka_unit_test(paces),
        cmocka_unit_test(bytes_that_stay),
        cmocka_unit_test(redirects),
        cmocka_unit_test(queries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
