/* SPDX-License-Identifier: Apache-2.0 */
/* sign.h - signs requests with AWS Signature Version 4, and has the hashes and encodings for it.
 * Dialects call it. */
#ifndef STOKER_STORE_SIGN_H
#define STOKER_STORE_SIGN_H

#include <stoker/store.h>
#include <time.h>

#include "base/err.h"
#include "base/text.h"

#define STK_SHA256 32
#define STK_UNSIGNED "UNSIGNED-PAYLOAD"

void stk_sha256(const void *data, size_t len, uint8_t out[STK_SHA256]);
void stk_hmac_sha256(stk_bytes key, stk_bytes data, uint8_t out[STK_SHA256]);
void stk_md5_base64(const void *data, size_t len, char out[25]);
void stk_base64(const uint8_t *in, size_t len, char *out); /* 4 bytes for 3, and a NUL */
/* Decodes the text and returns the number of bytes; -1: it is not base64, or there is no room. */
int stk_base64_read(const char *text, uint8_t *out, size_t size);
/* A hash by OpenSSL's name for it, piece by piece; NULL: it knows none.  stk_evp_end() writes it as
 * text, up to 129 bytes, and frees it. */
void *stk_evp_open(const char *name);
void stk_evp_add(void *evp, const void *data, size_t len);
void stk_evp_end(void **evp, char *hex);
void stk_hex(const uint8_t *in, size_t len, char *out); /* 2 * len + 1 bytes */

/* Percent-encode as AWS does: all but letters, digits, - . _ ~, and / where `slash` is 1. */
int stk_uri_encode(stk_text *to, const char *s, size_t len, int slash, stk_error *err);

typedef struct stk_day_key { /* the key for one day, region and service, which saves four hashes */
    char of[640];
    uint8_t key[STK_SHA256];
} stk_day_key;

typedef struct stk_sign_in {
    const char *method;
    const char *host;    /* as in the Host header */
    const char *path;    /* encoded, as it is sent */
    const char *query;   /* "a=b&c=d", encoded, in any order; NULL or "" */
    const char *payload; /* hex hash of the body, or STK_UNSIGNED */
    const char *region, *service;
    const stk_keys *keys;
    time_t now;
    /* further headers that are signed (x-amz-...), "name: value", names in lower case */
    const char *const *headers;
    uint32_t n_headers;
    stk_day_key *day_key; /* cache from request to request; NULL: none */
} stk_sign_in;

#define STK_SIGN_HEADERS 12 /* most signed headers, host and date included */

typedef struct stk_signed { /* header lines to be sent with the request */
    char authorization[1024];
    char date[48];    /* "x-amz-date: ..." */
    char content[96]; /* "x-amz-content-sha256: ..." */
} stk_signed;

/* The session token, if there is one, must be among `headers`. */
int stk_sign(const stk_sign_in *in, stk_signed *out, stk_error *err);

#endif
