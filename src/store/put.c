/* SPDX-License-Identifier: Apache-2.0 */
/* put.c - write an object: one PUT where it is small, else in parts, as its dialect has them.
 *
 * Nothing appears under the name before commit.  An upload that is not committed is aborted, so
 * that no parts are left to be paid for.  A completed upload whose answer was lost is told from one
 * that failed by asking for the object. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "store/dialect.h"

#define PART ((size_t)8 << 20)
#define PARTS_MAX 10000u
#define GROW_AFTER 1500u /* parts, then they double: 5 TB fit */
#define ABORT_MS 10000u
#define ABORT_HALTED_MS 2000u /* of someone who wants to end */

typedef struct remote_put {
    stk_put base;
    stk_target *to;
    const stk_parts *how; /* the dialect's */
    uint8_t *buf;
    size_t len, cap;
    uint64_t total;
    uint32_t parts;
    char *upload;  /* its id; NULL: not begun */
    stk_text list; /* parts, as XML */
    int committed, halted;
} remote_put;

static int request(remote_put *p, stk_transfer *t, stk_error *err)
{
    int rc;

    t->to = p->to;
    rc = stk_http_run(t, err);
    stk_transfer_fini(t);
    p->halted |= rc == STK_ECLOSED;
    return rc;
}

static int begin_at_server(remote_put *p, char *id, size_t size, stk_error *err)
{
    stk_text answer = { 0 };
    stk_transfer t = { .method = "POST", .query = p->how->begin, .text = &answer };
    int rc = request(p, &t, err);

    if (rc == 0)
        stk_xml_text((stk_bytes){ (const uint8_t *)answer.s, answer.len }, "UploadId", id, size);
    stk_free(answer.s);
    return rc == 0 && !id[0] ? stk_fail(err, STK_EIO, "the server began no upload") : rc;
}

static int begin(remote_put *p, stk_error *err)
{
    uint64_t number = 0;
    char id[2048] = "";

    if (p->how->begin) {
        STK_TRY(begin_at_server(p, id, sizeof id, err));
    } else {
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return stk_fail(err, STK_EIO, "the system gives no random number");
        snprintf(id, sizeof id, "%016" PRIx64, number);
    }
    p->upload = stk_strdup(id);
    return p->upload ? 0 : stk_fail_nomem(err, sizeof id);
}

/* The server compares the checksum, so that a part that was damaged on its way is refused. */
static int send_part(remote_put *p, stk_error *err)
{
    char sum[25], header[48];
    stk_text q = { 0 };
    stk_transfer t = { .method = "PUT", .body = p->buf, .body_len = p->len };
    int rc = p->upload ? 0 : begin(p, err);

    if (rc == 0 && p->parts == PARTS_MAX)
        rc = stk_fail(err, STK_ELIMIT, "the file has more than %u parts", PARTS_MAX);
    p->parts++;
    if (rc == 0)
        rc = p->how->query(&q, p->upload, p->parts, err);
    stk_md5_base64(p->buf, p->len, sum);
    snprintf(header, sizeof header, "Content-MD5: %s", sum);
    t.header[0] = header;
    t.query = q.s;
    if (rc == 0)
        rc = request(p, &t, err);
    if (rc == 0)
        rc = p->how->note(&p->list, p->upload, p->parts, t.answer.etag, err);
    stk_free(q.s);
    p->total += p->len;
    p->len = 0;
    return rc;
}

static size_t part_size(const remote_put *p)
{
    return PART << (p->parts / GROW_AFTER);
}

static int make_room(remote_put *p, stk_error *err)
{
    size_t want = part_size(p);

    if (p->cap >= want)
        return 0;
    stk_large_free(p->buf, p->cap);
    p->cap = 0;
    p->buf = stk_large_alloc(want);
    if (!p->buf)
        return stk_fail_nomem(err, want);
    p->cap = want;
    return 0;
}

static int put_write(stk_put *put, const void *data, size_t len, stk_error *err)
{
    remote_put *p = (remote_put *)put;
    const uint8_t *from = data;

    while (len) {
        size_t n;

        if (!p->len)
            STK_TRY(make_room(p, err));
        n = p->cap - p->len < len ? p->cap - p->len : len;
        memcpy(p->buf + p->len, from, n);
        p->len += n;
        from += n;
        len -= n;
        if (p->len == p->cap)
            STK_TRY(send_part(p, err));
    }
    return 0;
}

static int put_whole(remote_put *p, stk_error *err)
{
    char sum[25], header[48];
    stk_transfer t = { .method = "PUT", .body = p->buf, .body_len = p->len };

    stk_md5_base64(p->len ? p->buf : (const uint8_t *)"", p->len, sum);
    snprintf(header, sizeof header, "Content-MD5: %s", sum);
    t.header[0] = header;
    t.header[1] = p->to->dialect->put_header;
    return request(p, &t, err);
}

/* Is the object there with all of its bytes? */
static int is_there(remote_put *p)
{
    uint8_t byte;
    stk_transfer t = { .method = "GET", .len = 1, .dst = &byte };

    return request(p, &t, NULL) == 0 && t.answer.total == p->total;
}

static int complete(remote_put *p, stk_error *err)
{
    const stk_parts *how = p->how;
    stk_text body = { 0 }, answer = { 0 }, q = { 0 };
    stk_transfer t = { .method = how->method,
                       .text = &answer,
                       .header = { "Content-Type: application/xml" } };
    int rc = stk_text_put(&body, how->head, strlen(how->head), err);

    if (rc == 0)
        rc = stk_text_put(&body, p->list.s, p->list.len, err);
    if (rc == 0)
        rc = stk_text_put(&body, how->tail, strlen(how->tail), err);
    if (rc == 0)
        rc = how->query(&q, p->upload, 0, err);
    t.query = q.s;
    t.body = body.s;
    t.body_len = body.len;
    if (rc == 0)
        rc = request(p, &t, err);
    if (rc == STK_ENOTFOUND && t.own.tries > 1 && is_there(p))
        rc = 0;
    stk_free(body.s);
    stk_free(answer.s);
    stk_free(q.s);
    return rc;
}

static int put_commit(stk_put *put, stk_error *err)
{
    remote_put *p = (remote_put *)put;

    if (!p->upload)
        STK_TRY(put_whole(p, err));
    else if (p->len)
        STK_TRY(send_part(p, err));
    if (p->upload)
        STK_TRY(complete(p, err));
    p->committed = 1;
    return 0;
}

/* Also for one who is told to end, though not for long: parts that are left cost money. */
static void abort_upload(remote_put *p)
{
    const stk_halt *was = stk_halt_enter(NULL);
    stk_asking asking = stk_thread_hush();
    stk_transfer t = { .method = "DELETE", .strict = 1 };
    stk_text q = { 0 };

    t.budget_ms = p->halted || stk_halt_is(was) ? ABORT_HALTED_MS : ABORT_MS;
    if (p->how->query(&q, p->upload, 0, NULL) == 0) {
        t.query = q.s;
        (void)request(p, &t, NULL);
    }
    stk_free(q.s);
    stk_thread_ask(asking.asked, asking.cookie);
    stk_halt_enter(was);
}

static void put_close(stk_put *put)
{
    remote_put *p = (remote_put *)put;

    if (p->upload && !p->committed && p->how->begin)
        abort_upload(p);
    stk_free(p->list.s);
    stk_free(p->upload);
    stk_large_free(p->buf, p->cap);
    stk_target_close(&p->to);
    stk_free(p);
    stk_http_drop();
}

int stk_remote_put(const char *url, const stk_store *s, stk_put **out, stk_error *err)
{
    remote_put *p = STK_NEW(remote_put);
    int rc;

    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->base = (stk_put){ put_write, put_commit, put_close };
    rc = stk_http_hold(err);
    if (rc < 0) {
        stk_free(p);
        return rc;
    }
    rc = stk_target_open(&p->to, url, s, err);
    if (rc < 0) {
        put_close(&p->base);
        return rc;
    }
    p->how = p->to->dialect->parts;
    *out = &p->base;
    return 0;
}
