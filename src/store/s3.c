/* SPDX-License-Identifier: Apache-2.0 */
/* s3.c - s3://bucket/key: S3 and what speaks like it, at the store's endpoint, or AWS by region.
 *
 * AWS without an endpoint has no origin until a request is sent: it depends on the region, which
 * may turn out to be another. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/credentials.h"
#include "store/dialect.h"

/* ---- addresses ---- */

/* "https://{bucket}.host": the bucket is a part of the host's name. */
static int origin_with_bucket(stk_target *t, const char *endpoint, stk_error *err)
{
    const char *mark = strstr(endpoint, "{bucket}");
    stk_text o = { 0 };
    int rc = stk_text_put(&o, endpoint, (size_t)(mark - endpoint), err);

    if (rc == 0)
        rc = stk_text_put(&o, t->bucket, strlen(t->bucket), err);
    if (rc == 0)
        rc = stk_text_put(&o, mark + 8, strlen(mark + 8), err);
    t->origin = o.s;
    return rc;
}

int stk_s3_open(stk_target *t, const char *rest, const char *endpoint, stk_error *err)
{
    const char *key;

    STK_TRY(stk_target_bucket(t, rest, &key, err));
    if (!endpoint[0])
        return stk_target_path(t, key, strchr(t->bucket, '.') != NULL, err);
    if (strstr(endpoint, "{bucket}")) {
        STK_TRY(origin_with_bucket(t, endpoint, err));
        return stk_target_path(t, key, 0, err);
    }
    STK_TRY(stk_copy_text(&t->origin, endpoint, strlen(endpoint), err));
    return stk_target_path(t, key, 1, err);
}

static int s3_open(stk_target *t, const char *url, stk_error *err)
{
    char endpoint[256];

    stk_store_endpoint(t->store, endpoint, sizeof endpoint);
    return stk_s3_open(t, url + strlen("s3://"), endpoint, err);
}

static int s3_origin(const stk_target *t, stk_text *to)
{
    char region[64], text[400];

    if (t->origin)
        return stk_text_put(to, t->origin, strlen(t->origin), NULL);
    stk_store_region(t->store, t->bucket, region, sizeof region);
    if (strchr(t->bucket, '.')) /* no certificate covers bucket.with.dots.s3... */
        snprintf(text, sizeof text, "https://s3.%s.amazonaws.com", region);
    else
        snprintf(text, sizeof text, "https://%.200s.s3.%s.amazonaws.com", t->bucket, region);
    return stk_text_put(to, text, strlen(text), NULL);
}

/* ---- signatures ---- */

#define PAYS "x-amz-request-payer:requester"

static int pays(const stk_target *t)
{
    return t->bucket[0] && t->store->o.requester_pays == STK_YES;
}

/* Headers that are signed: those of the request that begin with x-amz-. */
static uint32_t signed_headers(const stk_transfer *t, const char *more[6])
{
    uint32_t n = 0;

    for (int i = 0; i < STK_HEADERS; i++)
        if (t->header[i] && !strncmp(t->header[i], "x-amz-", 6))
            more[n++] = t->header[i];
    if (pays(t->to))
        more[n++] = PAYS;
    return n;
}

static int add_signature(const stk_lines *s, const stk_transfer *t, const stk_keys *keys)
{
    const char *more[STK_HEADERS + 2], *host = strstr(s->url->s, "://") + 3;
    char region[64], token[sizeof keys->token + 32], name[300], body_hash[2 * STK_SHA256 + 1];
    uint8_t hash[STK_SHA256];
    stk_signed out;
    stk_sign_in in = { .method = t->method,
                       .path = t->to->path,
                       .query = t->query,
                       .payload = STK_UNSIGNED,
                       .region = t->to->dialect->region,
                       .service = t->service ? t->service : "s3",
                       .keys = keys,
                       .now = stk_store_clock(t->to->store),
                       .host = name,
                       .headers = more,
                       .n_headers = signed_headers(t, more),
                       .day_key = s->day_key };

    if (!in.region) {
        stk_store_region(t->to->store, t->to->bucket, region, sizeof region);
        in.region = region;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(host, "/?"), host);
    if (t->service) { /* others than S3 want the body's hash */
        stk_sha256(t->body ? t->body : "", t->body_len, hash);
        stk_hex(hash, sizeof hash, body_hash);
        in.payload = body_hash;
    }
    if (keys->token[0]) {
        snprintf(token, sizeof token, "x-amz-security-token:%s", keys->token);
        more[in.n_headers++] = token;
        STK_TRY(s->add(s->cookie, token));
    }
    STK_TRY(stk_sign(&in, &out, NULL));
    STK_TRY(s->add(s->cookie, out.authorization));
    STK_TRY(s->add(s->cookie, out.date));
    return s->add(s->cookie, out.content);
}

static int add_keys(const stk_lines *s, const stk_transfer *t, const stk_keys *keys)
{
    char line[sizeof keys->token + 32];

    if (keys->id[0])
        return add_signature(s, t, keys);
    if (!keys->token[0]) /* unsigned */
        return 0;
    snprintf(line, sizeof line, "Authorization: Bearer %s", keys->token);
    return s->add(s->cookie, line);
}

int stk_s3_sign(const stk_lines *s, stk_transfer *t)
{
    stk_keys keys;
    int rc;

    if (pays(t->to))
        STK_TRY(s->add(s->cookie, PAYS));
    if (t->keys)
        return add_keys(s, t, t->keys);
    rc = stk_keys_peek(t->to->store, t->to->dialect, &keys, &t->own.keys_turn);
    if (rc == 0)
        rc = add_keys(s, t, &keys);
    explicit_bzero(&keys, sizeof keys);
    return rc;
}

/* ---- answers ---- */

/* 301, 307 and 400 of a bucket that is in another region. */
int stk_s3_moved(stk_transfer *t, stk_verdict *v)
{
    char region[64];

    snprintf(region, sizeof region, "%s", t->answer.region);
    if (!region[0])
        stk_xml_text((stk_bytes){ (const uint8_t *)t->own.error.s, t->own.error.len }, "Region",
                     region, sizeof region);
    *v = STK_DONE;
    if (region[0] && stk_store_note_region(t->to->store, t->to->bucket, region)) {
        t->own.due_ns = 0;
        *v = STK_AGAIN;
    } else if (t->status == 400) {
        snprintf(t->why, sizeof t->why, "the request was refused: wrong region? set region=");
    } else if (!t->answer.location[0]) {
        snprintf(t->why, sizeof t->why,
                 "the bucket is in another region%s%s: set region= or AWS_REGION",
                 region[0] ? ", " : "", region);
    } else {
        return 0;
    }
    t->rc = STK_EIO;
    return 1;
}

/* ---- lists and uploads ---- */

int stk_s3_list_query(stk_text *q, const char *prefix, const char *token, stk_error *err)
{
    STK_TRY(stk_text_put(q, "list-type=2&prefix=", 19, err));
    STK_TRY(stk_uri_encode(q, prefix, strlen(prefix), 0, err));
    if (!token[0])
        return 0;
    STK_TRY(stk_text_put(q, "&continuation-token=", 20, err));
    return stk_uri_encode(q, token, strlen(token), 0, err);
}

static int part_query(stk_text *q, const char *upload, uint32_t part, stk_error *err)
{
    char text[40];

    if (part) {
        snprintf(text, sizeof text, "partNumber=%u&", part);
        STK_TRY(stk_text_put(q, text, strlen(text), err));
    }
    STK_TRY(stk_text_put(q, "uploadId=", 9, err));
    return stk_uri_encode(q, upload, strlen(upload), 0, err);
}

static int note_part(stk_text *list, const char *upload, uint32_t part, const char *etag,
                     stk_error *err)
{
    char text[300];

    (void)upload;
    if (!etag[0])
        return stk_fail(err, STK_EIO, "the server took a part and gave no etag for it");
    snprintf(text, sizeof text, "<Part><PartNumber>%u</PartNumber><ETag>%.160s</ETag></Part>", part,
             etag);
    return stk_text_put(list, text, strlen(text), err);
}

const stk_parts stk_s3_parts = { .begin = "uploads",
                                 .query = part_query,
                                 .note = note_part,
                                 .method = "POST",
                                 .head = "<CompleteMultipartUpload>",
                                 .tail = "</CompleteMultipartUpload>" };

static const char *const s3_env[] = { "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE",
                                      NULL };

const stk_dialect stk_dialect_s3 = {
    .source = STK_S3_SOURCE(s3, "s3://bucket/key: objects of S3 and what speaks like it"),
    .env = s3_env,
    .open = s3_open,
    .origin = s3_origin,
    .find_keys = stk_keys_of_aws,
    STK_S3_SPEAKS,
};
