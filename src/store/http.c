/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - the client: one thread, one epoll, libcurl's multi interface.
 *
 * Transfers wait in a list, then for one of the slots, each of which has an easy handle for good,
 * so that a request costs a few settings and no set-up; connections are libcurl's and are used
 * again.  How many run is bounded by the bytes that they may bring, and by a number that halves
 * when a server says "slow down" and grows again with every answer.  Bodies go from libcurl's
 * buffer straight to where they are wanted.
 *
 * Keys are looked up by other threads (key_look.c), since that may take requests of its own.
 * http_process.c opens the client, closes it, and hands it what other threads ask for. */
#include "store/http_client.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/credentials.h"
#include "store/store_cache.h"

#define SLOTS STK_SLOTS
#define IN_FLIGHT ((uint64_t)64 << 20) /* bytes */
#define ERROR_MAX 16384u
#define HEAD_MAX 131072u /* bytes of headers; libcurl calls more than 300 KB out of memory */
#define TEXT_MAX ((size_t)256 << 20)
#define CONNECT_MS 5000
#define SLOW_BYTES 1024 /* a second; less than that for SLOW_SECONDS is a stall */
#define SLOW_SECONDS 10
#define EVENTS 64
#define RESOLVE_TRIES 4u /* a name that is not known stays so, as a rule */

typedef stk_client client;
typedef stk_http_slot slot;

/* ---- libcurl's callbacks ---- */

static size_t on_header(char *line, size_t one, size_t len, void *arg)
{
    slot *s = arg;
    stk_transfer *t = s->t;

    (void)one;
    s->head += len;
    if (s->head > HEAD_MAX)
        return 0;
    if (len > 5 && !memcmp(line, "HTTP/", 5)) { /* a new head: after 100 Continue, or a proxy's */
        char linked[sizeof t->answer.linked_etag];
        uint64_t size = t->answer.linked_size;

        memcpy(linked, t->answer.linked_etag, sizeof linked);
        stk_answer_clear(&t->answer);
        if (t->own.moved) {
            memcpy(t->answer.linked_etag, linked, sizeof linked);
            t->answer.linked_size = size;
        }
    } else {
        stk_answer_header(&t->answer, line, len);
    }
    return len;
}

/* The part of a whole file that is the range; 0: enough has come. */
static size_t take_slice(stk_transfer *t, const char *p, size_t len)
{
    uint64_t from = t->offset + t->got, skip = from > t->own.body_at ? from - t->own.body_at : 0;
    size_t n;

    t->own.body_at += len;
    if (skip >= len)
        return len;
    n = len - (size_t)skip;
    if (n > t->len - t->got)
        n = t->len - t->got;
    stk_transfer_put(t, p + skip, n);
    return t->got < t->len ? len : 0;
}

static size_t put_text(stk_text *to, size_t most, const char *p, size_t len)
{
    if (to->len + len > most)
        return 0;
    return stk_text_put(to, p, len, NULL) == 0 ? len : 0;
}

static size_t on_body(char *p, size_t one, size_t len, void *arg)
{
    slot *s = arg;
    stk_transfer *t = s->t;
    long status = 0;

    (void)one;
    if (!t->status) { /* the first bytes */
        curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
        t->status = (int)status;
        t->own.bad_body = !stk_transfer_accepts(t);
    }
    if (t->own.bad_body)
        return put_text(&t->own.error, ERROR_MAX, p, len);
    if (t->own.whole)
        return take_slice(t, p, len);
    if (!t->len)
        return t->text ? put_text(t->text, TEXT_MAX, p, len) : len;
    if (len > t->at.due - t->got) { /* none of it is taken */
        t->own.bad_body = 1;
        return 0;
    }
    stk_transfer_put(t, p, len);
    return len;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    client *c = arg;
    struct epoll_event e = { .data.fd = fd };

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(c->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    e.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    epoll_ctl(c->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
    if (!known)
        curl_multi_assign(c->multi, fd, c);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
    (void)multi;
    ((client *)arg)->timer_ns = ms < 0 ? 0 : stk_now_ns() + (uint64_t)ms * 1000000u + 1;
    return 0;
}

/* ---- slots ---- */

static void slot_set(slot *s)
{
    CURL *e = s->easy;
    const char *ca = stk_ca_bundle();

    curl_easy_setopt(e, CURLOPT_PRIVATE, (char *)s);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, s->failure);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* a name that is being looked up is not waited for */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
    curl_easy_setopt(e, CURLOPT_USERAGENT, "stoker/" STK_VERSION);
    if (ca)
        curl_easy_setopt(e, CURLOPT_CAINFO, ca);
}

stk_http_slot *stk_slot_take(stk_client *c)
{
    slot *s = c->idle;

    if (s) {
        c->idle = s->next;
        return s;
    }
    if (c->n_slots == SLOTS)
        return NULL;
    s = STK_NEW(slot);
    if (!s)
        return NULL;
    s->easy = curl_easy_init();
    if (!s->easy) {
        stk_free(s);
        return NULL;
    }
    slot_set(s);
    c->all[c->n_slots++] = s;
    return s;
}

void stk_slot_give(stk_client *c, stk_http_slot *s)
{
    curl_slist_free_all(s->lines);
    s->lines = NULL;
    s->t = NULL;
    s->next = c->idle;
    c->idle = s;
}

/* ---- a request ---- */

static int add_line(void *arg, const char *line)
{
    slot *s = arg;
    struct curl_slist *more = curl_slist_append(s->lines, line);

    if (!more)
        return STK_ENOMEM;
    s->lines = more;
    return 0;
}

static void set_method(slot *s, const stk_transfer *t)
{
    CURL *e = s->easy;

    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, NULL);
    if (stk_transfer_sends(t)) {
        curl_easy_setopt(e, CURLOPT_POST, 1L);
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body_len);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->body ? t->body : "");
        curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, t->method);
    } else if (!strcmp(t->method, "HEAD")) {
        curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else {
        curl_easy_setopt(e, CURLOPT_NOBODY, 0L);
        curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
        if (strcmp(t->method, "GET"))
            curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, t->method);
    }
}

static int prepare(client *c, slot *s, stk_transfer *t)
{
    s->t = t;
    t->status = 0;
    t->at.earlier = t->got;
    t->own.whole = t->own.looked = t->own.bad_body = 0;
    t->code[0] = 0;
    t->own.error.len = 0;
    if (t->text)
        t->text->len = 0;
    return stk_lines_make(&(stk_lines){ &s->url, &c->day_key, add_line, s }, t);
}

/* ---- lists ---- */

static void append(stk_transfer ***end, stk_transfer *t)
{
    t->next = NULL;
    **end = t;
    *end = &t->next;
}

static stk_transfer *pop_waiting(client *c)
{
    stk_transfer *t = c->waiting;

    c->waiting = t->next;
    if (!c->waiting)
        c->waiting_end = &c->waiting;
    return t;
}

static void put_later(client *c, stk_transfer *t)
{
    stk_transfer **at = &c->later;

    while (*at && (*at)->own.due_ns <= t->own.due_ns)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void stk_client_finish(stk_transfer *t)
{
    stk_free(t->own.error.s);
    t->own.error = (stk_text){ 0 };
    stk_transfer_ends(t);
    t->done(t);
}

static uint64_t weight(const stk_transfer *t)
{
    return t->len ? t->len : t->body_len + 65536;
}

/* A try that stalls is cut, since its connection may be dead.  Each is given twice the time of the
 * one before: a server that is slow is not asked again and again for what it is about to say. */
static void set_patience(slot *s, const stk_transfer *t)
{
    uint64_t now = s->started_ns, end = t->own.deadline_ns;
    uint64_t left = end > now ? (end - now) / 1000000u : 0;
    uint64_t stall = (uint64_t)stk_env_seconds("STOKER_STORE_STALL", SLOW_SECONDS)
                     << (t->own.tries < 8 ? t->own.tries - 1 : 7);
    uint64_t connect = t->connect_ms ? t->connect_ms : CONNECT_MS;

    if (left < 1000 || t->own.is_twin)
        left = 1000;
    curl_easy_setopt(s->easy, CURLOPT_LOW_SPEED_TIME,
                     (long)(stall * 1000 < left ? stall : (left + 999) / 1000));
    curl_easy_setopt(s->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect < left ? connect : left));
}

void stk_client_begin(stk_client *c, stk_http_slot *s, stk_transfer *t)
{
    int rc;

    if (stk_halt_is(t->halt)) { /* since it waited for the slot */
        stk_slot_give(c, s);
        stk_transfer_halted(t);
        return;
    }
    rc = t->own.keys_rc < 0 ? t->own.keys_rc : prepare(c, s, t);
    if (rc) {
        stk_slot_give(c, s);
        if (rc == STK_PENDING && !t->own.is_twin) {
            stk_client_keys(c, t);
            return;
        }
        t->rc = rc;
        if (!t->why[0])
            snprintf(t->why, sizeof t->why, "no memory");
        stk_client_finish(t);
        return;
    }
    if (!t->own.tries && !t->strict && !t->own.is_twin) /* its wait does not count */
        t->own.deadline_ns = stk_now_ns() + (uint64_t)t->budget_ms * 1000000u;
    t->own.tries++;
    stk_client_asks(c, t, s->url.s);
    set_method(s, t);
    curl_easy_setopt(s->easy, CURLOPT_URL, s->url.s);
    curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->lines);
    s->failure[0] = 0;
    s->head = 0;
    s->started_ns = stk_now_ns();
    curl_easy_setopt(s->easy, CURLOPT_TIMEOUT_MS, stk_transfer_strict_ms(t, s->started_ns));
    set_patience(s, t);
    stk_hedge_watch(c, t, s->started_ns);
    c->running++;
    c->bytes += weight(t);
    curl_multi_add_handle(c->multi, s->easy);
}

/* End a request without its answer. */
void stk_client_cut(stk_client *c, stk_http_slot *s)
{
    c->running--;
    c->bytes -= weight(s->t);
    curl_multi_remove_handle(c->multi, s->easy);
    stk_slot_give(c, s);
}

static void start_waiting(client *c, uint64_t now)
{
    while (c->later && c->later->own.due_ns <= now) { /* before those that were not tried yet */
        stk_transfer *t = c->later;

        c->later = t->next;
        t->next = c->waiting;
        if (!c->waiting)
            c->waiting_end = &t->next;
        c->waiting = t;
    }
    while (c->waiting) {
        slot *s;

        stk_client_heed(c, c->waiting, now);
        if (c->running >= c->pace.allowed || now < c->pace.slow_until)
            break;
        if (c->running && c->bytes + weight(c->waiting) > IN_FLIGHT)
            break;
        s = stk_slot_take(c);
        if (!s)
            break;
        stk_client_begin(c, s, pop_waiting(c));
    }
}

/* ---- answers ---- */

static uint64_t roll(client *c)
{
    return c->random = stk_mix64(c->random + 0x9E3779B97F4A7C15u);
}

/* Errors that one more try would not change. */
static int is_final(CURLcode code, const stk_transfer *t)
{
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY)
        return t->own.tries >= RESOLVE_TRIES;
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

static const char *network_text(const slot *s, CURLcode code)
{
    return code == CURLE_OPERATION_TIMEDOUT ? "the server went silent or is too slow"
           : s->head > HEAD_MAX             ? "the answer has more than 128 KB of headers"
           : s->failure[0]                  ? s->failure
                                            : curl_easy_strerror(code);
}

static void conclude(client *c, stk_transfer *t, stk_verdict v, uint64_t now)
{
    uint64_t pause;

    if (v != STK_DONE && stk_halt_is(t->halt)) {
        stk_transfer_halted(t);
        return;
    }
    if (v == STK_KEYS && now < t->own.deadline_ns) {
        stk_keys_stale(t->to->store, t->to->dialect, t->own.keys_turn);
        stk_client_keys(c, t);
        return;
    }
    if (v == STK_AGAIN && !t->strict && stk_transfer_progressed(t))
        t->own.deadline_ns = now + (uint64_t)t->budget_ms * 1000000u;
    pause = v == STK_AGAIN ? stk_retry_pause_ns(t, roll(c)) : 0;
    if (v == STK_AGAIN && now + pause < t->own.deadline_ns) {
        t->own.due_ns = now + pause;
        put_later(c, t);
        return;
    }
    if (v == STK_AGAIN)
        stk_transfer_gave_up(t);
    stk_client_finish(t);
}

/* Location, which can be relative to the address that answered, as a whole address. */
static void resolve_location(slot *s, stk_transfer *t)
{
    char *whole = NULL, *to = t->answer.location;

    curl_easy_getinfo(s->easy, CURLINFO_REDIRECT_URL, &whole);
    if (to[0] && whole && strlen(whole) < sizeof t->answer.location)
        memcpy(to, whole, strlen(whole) + 1);
}

static void completed(client *c, slot *s, CURLcode code)
{
    stk_transfer *t = s->t;
    uint64_t now = stk_now_ns(), started;
    curl_off_t first = 0, sent = 0;
    long status = 0;
    stk_verdict v;
    int enough, silent = code == CURLE_OPERATION_TIMEDOUT;

    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    t->status = (int)status;
    curl_easy_getinfo(s->easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(s->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
    c->running--;
    c->bytes -= weight(t);
    enough = t->own.whole && t->got == t->len; /* the rest of the file was not wanted */
    if (code == CURLE_WRITE_ERROR && (enough || t->own.bad_body))
        code = CURLE_OK;
    resolve_location(s, t);
    v = stk_transfer_judge(t, code == CURLE_OK ? NULL : network_text(s, code), is_final(code, t));
    stk_client_pace(c, t,
                    &(stk_timing){ .now = now,
                                   .started = s->started_ns,
                                   .waited_us = first > sent ? (uint64_t)(first - sent)
                                                : silent     ? (now - s->started_ns) / 1000u
                                                             : 0 },
                    roll(c));
    stk_client_asked(c, t, v, code == CURLE_OK ? NULL : network_text(s, code));
    curl_multi_remove_handle(c->multi, s->easy);
    started = s->started_ns;
    stk_slot_give(c, s);
    if (!stk_hedge_settle(c, t, v, now - started))
        conclude(c, t, v, now);
}

static void read_messages(client *c)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(c->multi, &left))) {
        slot *s = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        completed(c, s, m->data.result);
    }
}

/* ---- the threads ---- */

void stk_client_wait(stk_client *c, stk_transfer *t)
{
    append(&c->waiting_end, t);
}

static int take_incoming(client *c)
{
    stk_key_look *found;
    stk_transfer *t;
    int stop, look;

    stk_mutex_lock(&c->lock);
    t = c->in;
    c->in = NULL;
    c->in_end = &c->in;
    found = c->found;
    c->found = NULL;
    stop = c->stop;
    look = c->look;
    c->look = 0;
    stk_mutex_unlock(&c->lock);
    while (t) {
        stk_transfer *next = t->next;

        append(&c->waiting_end, t);
        t = next;
    }
    stk_client_found(c, found);
    if (look)
        stk_client_halted(c);
    return stop;
}

static int timeout_ms(const client *c, uint64_t now)
{
    uint64_t at = UINT64_MAX;

    if (c->timer_ns)
        at = c->timer_ns;
    if (c->later && c->later->own.due_ns < at)
        at = c->later->own.due_ns;
    if (c->waiting && c->pace.slow_until > now && c->pace.slow_until < at)
        at = c->pace.slow_until;
    if (c->hedge_look_ns && c->hedge_look_ns < at)
        at = c->hedge_look_ns;
    if (at == UINT64_MAX)
        return -1;
    return at <= now ? 0 : (int)((at - now) / 1000000u + 1);
}

static void turn(client *c)
{
    struct epoll_event e[EVENTS];
    uint64_t count;
    int n = epoll_wait(c->epoll, e, EVENTS, timeout_ms(c, stk_now_ns())), running;

    for (int i = 0; i < n; i++) {
        int mask = (e[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (e[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (e[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);

        if (e[i].data.fd == c->event)
            (void)!read(c->event, &count, sizeof count);
        else
            curl_multi_socket_action(c->multi, e[i].data.fd, mask, &running);
    }
    if (c->timer_ns && stk_now_ns() >= c->timer_ns) {
        c->timer_ns = 0;
        curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    read_messages(c);
}

static void *client_main(void *arg)
{
    client *c = arg;

    while (!take_incoming(c)) {
        start_waiting(c, stk_now_ns());
        stk_hedge_look(c, stk_now_ns());
        turn(c);
    }
    return NULL;
}

void stk_client_wake(stk_client *c)
{
    uint64_t one = 1;

    (void)!write(c->event, &one, sizeof one);
}

void stk_client_push(stk_client *c, stk_transfer *t)
{
    int first;

    stk_mutex_lock(&c->lock);
    first = !c->in;
    append(&c->in_end, t);
    stk_mutex_unlock(&c->lock);
    if (first)
        stk_client_wake(c);
}

/* ---- the client ---- */

static void client_free(client *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        curl_easy_cleanup(c->all[i]->easy);
        curl_slist_free_all(c->all[i]->lines);
        stk_free(c->all[i]->url.s);
        stk_free(c->all[i]);
    }
    if (c->multi)
        curl_multi_cleanup(c->multi);
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->event >= 0)
        close(c->event);
    stk_key_looks_close(c);
    stk_mutex_destroy(&c->lock);
    explicit_bzero(&c->day_key, sizeof c->day_key);
    stk_free(c);
}

static int client_set_up(client *c)
{
    struct epoll_event e = { .events = EPOLLIN };

    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->multi = curl_multi_init();
    if (c->epoll < 0 || c->event < 0 || !c->multi)
        return STK_ENOMEM;
    e.data.fd = c->event;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->event, &e) < 0)
        return STK_ENOMEM;
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)SLOTS);
    curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return stk_thread_start(&c->thread, client_main, c, "stk-http");
}

int stk_client_open(stk_client **out, stk_error *err)
{
    client *c = STK_NEW(client);

    *out = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    curl_global_init(CURL_GLOBAL_DEFAULT); /* counts its calls: the first one does it */
    c->epoll = c->event = -1;
    c->in_end = &c->in;
    c->waiting_end = &c->waiting;
    c->pace.allowed = SLOTS;
    c->random = stk_now_ns() ^ (uint64_t)getpid() << 32;
    stk_mutex_init(&c->lock);
    if (client_set_up(c) < 0) {
        client_free(c);
        return stk_fail(err, STK_ENOMEM, "no HTTP client could be started");
    }
    *out = c;
    return 0;
}

void stk_client_close(stk_client **all)
{
    stk_client *c = *all;

    *all = NULL;
    if (!c)
        return;
    stk_mutex_lock(&c->lock);
    c->stop = 1;
    stk_mutex_unlock(&c->lock);
    stk_client_wake(c);
    pthread_join(c->thread, NULL);
    client_free(c);
}
