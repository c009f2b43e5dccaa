/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - what the answer to a request means: it is whole, it is tried again, or it failed for
 * good.
 *
 * Before a byte is taken, all headers must agree with each other and with what was asked: range,
 * length, total, version, encoding.  Bytes of an answer that a broken connection cut short stay:
 * the next try asks for the rest.  Bytes of an answer that ended otherwise than its headers say are
 * dropped.  An answer that has another version than the one that is expected is never taken, nor
 * tried again.  Everything here is a function of the transfer alone, so that it can be tested
 * without a network. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/dialect.h"

#define FIRST_PAUSE_NS 50000000u
#define LAST_PAUSE_NS 5000000000u
#define MAX_REDIRECTS 5
#define SLOW_BYTES 1024u /* a second; less is no progress */

static int failed(stk_transfer *t, int rc, const char *why)
{
    t->rc = rc;
    snprintf(t->why, sizeof t->why, "%s", why);
    return STK_DONE;
}

/* One more try; when there is no time left, this is why it failed. */
static int again(stk_transfer *t, const char *why)
{
    t->rc = STK_EIO;
    snprintf(t->why, sizeof t->why, "%.90s", why);
    return STK_AGAIN;
}

/* How the answer's version stands to the one that is wanted. */
typedef enum sameness { SAME, OTHER, UNSAID } sameness;

static sameness version(const stk_transfer *t)
{
    stk_answer a = t->answer;
    char now[64];

    if (!t->etag || !t->etag[0])
        return SAME;
    if (t->etag[0] == '@' && a.modified) { /* no etag was known: one that is new says nothing */
        a.etag[0] = a.linked_etag[0] = 0;
        a.date = a.modified + 2;
    }
    stk_answer_version(&a, t->to->dialect->linked, now);
    if (!now[0] || (now[0] == '@' && t->etag[0] != '@'))
        return UNSAID;
    return strcmp(now, t->etag) ? OTHER : SAME;
}

/* Has the file the size that is known?  A total of "*" says nothing. */
static int same_total(const stk_transfer *t)
{
    return !t->size || t->answer.total == UINT64_MAX || t->answer.total == t->size;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

/* Are these the stored bytes?  Servers call a file.gz encoded because of its name, and a bucket
 * says what was said when the object was uploaded; otherwise it was encoded on its way. */
static int is_plain(const stk_transfer *t)
{
    static const char *const stored[] = { ".gz", ".tgz", ".bz2", ".xz", ".zst", ".br", ".Z" };
    const char *path = t->to->path;

    if (!t->answer.encoding[0] || !strcmp(t->answer.encoding, "identity") ||
        (t->to->bucket && t->to->bucket[0]))
        return 1;
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
        if (path && ends_with(path, stored[i]))
            return 1;
    return 0;
}

/* Is a 206 a part of the file that was asked for, by all that its headers say? */
static int is_range(const stk_transfer *t)
{
    const stk_answer *a = &t->answer;

    return !a->unclear && a->first == t->offset + t->got && a->last < t->offset + t->len &&
           (a->length == UINT64_MAX || a->length == a->last - a->first + 1) &&
           (a->total == UINT64_MAX || a->last < a->total) && same_total(t) &&
           strncmp(a->content_type, "multipart/", 10) != 0;
}

/* May a whole file be the answer to a range?  Not a page that says what went wrong: these have no
 * version of the file's, or say what they are. */
static int may_be_whole(const stk_transfer *t)
{
    const stk_answer *a = &t->answer;

    return t->status == 200 && !t->to->dialect->ranges && !a->unclear && a->length != UINT64_MAX &&
           a->length > t->offset + t->got && (!t->size || a->length == t->size) &&
           !strstr(a->content_type, "html") && !strstr(a->content_type, "xml");
}

int stk_transfer_accepts(stk_transfer *t)
{
    stk_answer *a = &t->answer;

    t->own.looked = 1;
    if (version(t) != SAME || !is_plain(t))
        return 0;
    if (!t->len)
        return t->status >= 200 && t->status < 300;
    if (t->status == 206 && is_range(t))
        t->at.due = t->got + (size_t)(a->last - a->first + 1);
    if (t->status == 206)
        return is_range(t);
    t->own.whole = may_be_whole(t);
    t->own.body_at = 0;
    if (t->own.whole) {
        a->total = a->length;
        t->at.due = a->length - t->offset < t->len ? (size_t)(a->length - t->offset) : t->len;
    }
    return t->own.whole;
}

/* A range that is shorter than asked for, though the file goes on. */
static int is_short(const stk_transfer *t)
{
    uint64_t end = t->offset + t->len;

    if (!t->len || t->got == t->len)
        return 0;
    if (t->answer.total != UINT64_MAX && end > t->answer.total)
        end = t->answer.total;
    return t->offset + t->got < end;
}

static int other_size(stk_transfer *t)
{
    t->rc = STK_ESTALE;
    snprintf(t->why, sizeof t->why,
             "it has %" PRIu64 " bytes now, %" PRIu64 " were indexed: run: stoker index ...",
             t->answer.total, t->size);
    return STK_DONE;
}

/* Why an answer of success is not taken; its bytes, if there were any, are dropped. */
static int not_taken(stk_transfer *t)
{
    sameness is = version(t);

    t->got = t->at.earlier;
    if (is == OTHER)
        return failed(t, STK_ESTALE,
                      "it has another version (etag) than was indexed: run: stoker index ...");
    if (is == UNSAID)
        return again(t, t->etag[0] == '@' ? "the answer says no version (Last-Modified), as it did"
                                          : "the answer says no version (ETag), as it did");
    if (!is_plain(t))
        return again(t, "the answer is compressed (Content-Encoding), which was not asked for");
    if (t->status == 206 && !same_total(t) && !(t->etag && t->etag[0]))
        return other_size(t);
    return again(t, t->status == 206 ? "the answer has another range than was asked for"
                                     : "the answer to a range is not that range");
}

static int judge_ok(stk_transfer *t)
{
    if (!t->own.looked) /* there was no body */
        t->own.bad_body = !stk_transfer_accepts(t);
    if (t->own.bad_body)
        return not_taken(t);
    if (t->len && t->got < t->at.due) {
        t->got = t->at.earlier;
        return again(t, "the answer has fewer bytes than its headers say");
    }
    if (is_short(t))
        return again(t, "the answer is shorter than what was asked for");
    t->rc = 0;
    t->why[0] = 0;
    return STK_DONE;
}

static int starts_with(const char *s, const char *head)
{
    return !strncmp(s, head, strlen(head));
}

/* AWS without an endpoint has no origin of its own: that is https. */
static int is_tls(const stk_transfer *t)
{
    const char *from = t->own.moved ? t->own.moved : t->to->origin;

    return !from || !starts_with(from, "http://");
}

/* location is a whole address: http.c resolves what servers say. */
static int take_redirect(stk_transfer *t)
{
    const char *to = t->answer.location;
    char *moved;

    if (t->own.redirects == STK_STAYS)
        return failed(t, STK_EIO, "it redirects, and a service that hands out keys must not");
    if (t->own.redirects++ >= MAX_REDIRECTS)
        return failed(t, STK_EIO, "it redirects without end");
    if (!starts_with(to, "https://") && !(starts_with(to, "http://") && !is_tls(t)))
        return failed(t, STK_EIO, "it redirects to an address that is not followed");
    moved = stk_strdup(to);
    if (!moved)
        return failed(t, STK_ENOMEM, "no memory");
    stk_free(t->own.moved);
    t->own.moved = moved;
    t->own.due_ns = 0; /* without a pause */
    t->rc = STK_EIO;
    return STK_AGAIN;
}

/* A redirect, which may mean something of its own to the store. */
static int judge_moved(stk_transfer *t)
{
    stk_verdict v;

    if (t->to->dialect->moved && t->to->dialect->moved(t, &v))
        return v;
    if (!t->answer.location[0])
        return failed(t, STK_EIO, "it redirects to nowhere");
    return take_redirect(t);
}

/* Is the error's word in a list of the dialect's? */
static int is_code(const stk_transfer *t, const char *words)
{
    size_t len = strlen(t->code);

    for (; len && words && *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");

        if (n == len && !memcmp(words, t->code, n))
            return 1;
        words += n;
    }
    return 0;
}

const char *stk_transfer_remedy(const stk_transfer *t)
{
    return t->to->dialect->check ? t->to->dialect->check : "credentials and permissions";
}

static int judge_denied(stk_transfer *t)
{
    if (is_code(t, t->to->dialect->expired) && !t->own.refreshed && !t->keys) {
        t->own.refreshed = 1;
        t->rc = STK_EIO;
        snprintf(t->why, sizeof t->why, "the credentials have expired");
        return STK_KEYS;
    }
    if (is_code(t, t->to->dialect->skewed) && t->answer.date && !t->own.skewed) {
        t->own.skewed = 1;
        stk_store_note_clock(t->to->store, t->answer.date);
        t->own.due_ns = 0;
        t->rc = STK_EIO;
        return STK_AGAIN;
    }
    snprintf(t->why, sizeof t->why, "access denied (HTTP status %d%s%s): check %s", t->status,
             t->code[0] ? ", " : "", t->code, stk_transfer_remedy(t));
    t->rc = STK_EIO;
    return STK_DONE;
}

/* 416: nothing is there.  Of a file that is known to go on, that is a fault; where its size is not
 * known, two such answers are believed. */
static int judge_past_end(stk_transfer *t)
{
    uint64_t total = t->answer.total;

    if (!same_total(t))
        return other_size(t);
    if (total == UINT64_MAX)
        total = t->size ? t->size : t->at.past_end++ ? 0 : UINT64_MAX;
    if (t->offset + t->got < total)
        return again(t, "HTTP status 416, though the file goes on");
    t->rc = 0;
    return STK_DONE;
}

static int judge_missing(stk_transfer *t)
{
    t->rc = STK_ENOTFOUND;
    snprintf(t->why, sizeof t->why, "no such %s",
             is_code(t, t->to->dialect->no_bucket) ? t->to->dialect->bucket : "file");
    return STK_DONE;
}

static int judge_status(stk_transfer *t)
{
    char text[96];

    snprintf(text, sizeof text, "HTTP status %d%s%.50s", t->status, t->code[0] ? " " : "", t->code);
    if (t->status >= 500 || t->status == 429 || t->status == 408 ||
        !strcmp(t->code, "RequestTimeout"))
        return again(t, text);
    if (t->status == 412 && t->etag)
        return failed(
            t, STK_ESTALE,
            "it has changed since it was indexed (HTTP status 412): run: stoker index ...");
    if (t->status == 404 || t->status == 410)
        return judge_missing(t);
    if (t->status == 416 && t->len)
        return judge_past_end(t);
    if (is_code(t, t->to->dialect->expired) || t->status == 401 || t->status == 403)
        return judge_denied(t);
    if ((t->status >= 300 && t->status < 400) || is_code(t, t->to->dialect->elsewhere))
        return judge_moved(t);
    return failed(t, STK_EIO, text);
}

/* S3 may answer 200 and say in the body that it failed. */
static int error_in_body(stk_transfer *t)
{
    stk_bytes body = { (const uint8_t *)(t->text ? t->text->s : NULL), t->text ? t->text->len : 0 };

    if (t->len || !body.len || !strstr(t->answer.content_type, "xml"))
        return 0;
    if (!memmem(body.data, body.len < 1024 ? body.len : 1024, "<Error>", 7))
        return 0;
    stk_xml_text(body, "Code", t->code, sizeof t->code);
    return 1;
}

stk_verdict stk_transfer_judge(stk_transfer *t, const char *network, int final)
{
    char text[96];

    t->own.due_ns = 1; /* after a pause */
    if (network && final)
        return failed(t, STK_EIO, network);
    if (network)
        return again(t, network);
    if (t->status >= 300 || t->own.bad_body)
        stk_xml_text((stk_bytes){ (const uint8_t *)t->own.error.s, t->own.error.len }, "Code",
                     t->code, sizeof t->code);
    if (t->status >= 300 || t->status < 200)
        return judge_status(t);
    if (error_in_body(t)) {
        snprintf(text, sizeof text, "HTTP status %d with the error %.50s", t->status, t->code);
        return is_code(t, t->to->dialect->expired) ? judge_denied(t) : again(t, text);
    }
    return judge_ok(t);
}

int stk_transfer_progressed(stk_transfer *t)
{
    uint64_t least = (uint64_t)t->budget_ms * SLOW_BYTES / 1000u;

    if (t->got < t->at.counted || t->got - t->at.counted < least)
        return 0;
    t->at.counted = t->got;
    return 1;
}

void stk_transfer_gave_up(stk_transfer *t)
{
    size_t n = strlen(t->why);

    snprintf(t->why + n, sizeof t->why - n,
             ", %u tries in %u s without progress (Store timeout=%u)", t->own.tries,
             (t->budget_ms + 500u) / 1000u, stk_store_patience(t->to->store, 0) / 1000u);
}

uint64_t stk_retry_pause_ns(const stk_transfer *t, uint64_t random)
{
    uint32_t shift = t->own.tries < 8 ? t->own.tries : 8;
    uint64_t most = (uint64_t)FIRST_PAUSE_NS << shift;

    if (!t->own.due_ns)
        return 0;
    if (most > LAST_PAUSE_NS)
        most = LAST_PAUSE_NS;
    return (uint64_t)t->answer.retry_after * 1000000000u + random % most; /* full jitter */
}
