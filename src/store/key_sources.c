/* SPDX-License-Identifier: Apache-2.0 */
/* key_sources.c - keys from servers and programs: STS, containers, instance metadata, Google's
 * metadata, a credential_process.
 *
 * A server at a metadata address can hand out keys, so such an address must be this host's
 * own or be reached by TLS.  On a machine that has no such address the look is over in a second. */
#include "store/key_sources.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/dialect.h"

#define INSTANCE "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"
#define LOOK_MS 1000
#define ASK_MS 10000
#define PROCESS_S 60
#define OUTPUT_MAX 65536

extern char **environ;

static const char *env(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* ---- answers ---- */

static int member(stk_bytes doc, const char *name, char *out, size_t size)
{
    uint8_t *text;
    stk_bytes v;
    size_t len = 0;
    int ok;

    out[0] = 0;
    if (stk_json_find(doc, name, &v, NULL) < 0 || v.len < 2 || v.data[0] != '"')
        return 0;
    text = stk_alloc(v.len);
    ok = text && stk_json_unquote(v, text, &len, NULL) == 0 && len && len < size &&
         !memchr(text, 0, len) && !memchr(text, '\n', len) && !memchr(text, '\r', len);
    if (ok) {
        memcpy(out, text, len);
        out[len] = 0;
    }
    if (text)
        explicit_bzero(text, v.len);
    stk_free(text);
    return ok;
}

static int64_t moment(const char *text)
{
    struct tm tm = { 0 };

    return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

int stk_keys_from_json(stk_bytes doc, stk_keys *out, stk_error *err)
{
    char end[64];

    memset(out, 0, sizeof *out);
    if (!member(doc, "AccessKeyId", out->id, sizeof out->id) ||
        !member(doc, "SecretAccessKey", out->secret, sizeof out->secret)) {
        memset(out, 0, sizeof *out);
        return stk_fail(
            err, STK_ECORRUPT,
            "the answer has no AccessKeyId and SecretAccessKey: it gives no credentials");
    }
    if (!member(doc, "SessionToken", out->token, sizeof out->token))
        (void)member(doc, "Token", out->token, sizeof out->token);
    if (member(doc, "Expiration", end, sizeof end))
        out->expires = moment(end);
    return 0;
}

int stk_keys_from_xml(stk_bytes doc, stk_keys *out, stk_error *err)
{
    char end[64];

    memset(out, 0, sizeof *out);
    stk_xml_text(doc, "AccessKeyId", out->id, sizeof out->id);
    stk_xml_text(doc, "SecretAccessKey", out->secret, sizeof out->secret);
    stk_xml_text(doc, "SessionToken", out->token, sizeof out->token);
    stk_xml_text(doc, "Expiration", end, sizeof end);
    out->expires = moment(end);
    return out->id[0] && out->secret[0]
               ? 0
               : stk_fail(err, STK_ECORRUPT, "the answer of STS gives no credentials");
}

/* ---- requests ---- */

typedef struct question {
    const char *url, *method, *header, *body;
    uint32_t connect_ms, budget_ms; /* of all tries: a server that is silent is not waited for */
    const stk_keys *keys;           /* signed by them, for STS; NULL: unsigned */
} question;

static void wipe(stk_text *t)
{
    if (t->s)
        explicit_bzero(t->s, t->cap);
    stk_free(t->s);
    *t = (stk_text){ 0 };
}

static int ask(stk_store *s, const question *q, stk_text *out, stk_error *err)
{
    stk_target *to = NULL;
    stk_transfer t = { .method = q->method ? q->method : "GET",
                       .header = { q->header },
                       .body = q->body,
                       .body_len = q->body ? strlen(q->body) : 0,
                       .text = out,
                       .connect_ms = q->connect_ms,
                       .budget_ms = q->budget_ms,
                       .strict = 1,
                       .own.redirects = STK_STAYS,
                       .keys = q->keys,
                       .service = q->keys ? "sts" : NULL };
    int rc = stk_target_open(&to, q->url, s, err);

    if (rc == 0 && q->keys) /* STS is signed as S3 is */
        to->dialect = &stk_dialect_s3;
    t.to = to;
    if (rc == 0)
        rc = stk_http_run(&t, err);
    stk_transfer_fini(&t);
    stk_target_close(&to);
    return rc;
}

static stk_bytes bytes_of(const stk_text *t)
{
    return (stk_bytes){ (const uint8_t *)t->s, t->len };
}

/* ---- STS ---- */

static int add(stk_text *t, const char *name, const char *value, stk_error *err)
{
    if (!value || !*value)
        return 0;
    STK_TRY(stk_text_put(t, "&", 1, err));
    STK_TRY(stk_text_put(t, name, strlen(name), err));
    STK_TRY(stk_text_put(t, "=", 1, err));
    return stk_uri_encode(t, value, strlen(value), 0, err);
}

/* The first line of a small file, such as a token. */
static int read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");

    out[0] = 0;
    if (!f)
        return 0;
    if (!fgets(out, (int)size, f))
        out[0] = 0;
    fclose(f);
    out[strcspn(out, "\r\n")] = 0;
    return out[0] != 0;
}

static int role_body(stk_text *t, const stk_role *role, const stk_keys *base, stk_error *err)
{
    char token[8192];
    const char *action = base ? "Action=AssumeRole&Version=2011-06-15"
                              : "Action=AssumeRoleWithWebIdentity&Version=2011-06-15";
    int rc;

    if (!base && !read_line(role->token_file, token, sizeof token))
        return stk_fail(err, STK_ENOTFOUND, "the web identity token file %.120s can't be read",
                        role->token_file);
    rc = stk_text_put(t, action, strlen(action), err);
    if (rc == 0)
        rc = add(t, "RoleArn", role->arn, err);
    if (rc == 0)
        rc = add(t, "RoleSessionName", role->session && *role->session ? role->session : "stoker",
                 err);
    if (rc == 0 && base)
        rc = add(t, "ExternalId", role->external_id, err);
    if (rc == 0 && !base)
        rc = add(t, "WebIdentityToken", token, err);
    return rc;
}

int stk_keys_of_role(stk_store *s, const stk_role *role, const stk_keys *base, stk_keys *out,
                     stk_error *err)
{
    char region[64], url[300];
    stk_text body = { 0 }, answer = { 0 };
    question q = { .url = url,
                   .method = "POST",
                   .keys = base,
                   .budget_ms = ASK_MS,
                   .header = "Content-Type: application/x-www-form-urlencoded" };
    int rc = role_body(&body, role, base, err);

    stk_store_region(s, "", region, sizeof region);
    if (env("AWS_ENDPOINT_URL_STS"))
        snprintf(url, sizeof url, "%s/", env("AWS_ENDPOINT_URL_STS"));
    else
        snprintf(url, sizeof url, "https://sts.%s.amazonaws.com/", region);
    q.body = body.s;
    if (rc == 0)
        rc = ask(s, &q, &answer, err);
    if (rc == 0)
        rc = stk_keys_from_xml(bytes_of(&answer), out, err);
    wipe(&body);
    wipe(&answer);
    return rc;
}

/* ---- containers: ECS, EKS pod identity ---- */

/* Is the host of an http URL this one?  The whole name counts: 127.0.0.1.example.com is another. */
static int may_hand_out(const char *url)
{
    static const char *const own[] = { "localhost", "[::1]", "169.254.170.2", "169.254.170.23",
                                       "[fd00:ec2::23]" };
    struct in_addr loopback;
    char host[64];
    size_t len;

    if (!strncmp(url, "https://", 8))
        return 1;
    if (strncmp(url, "http://", 7) != 0)
        return 0;
    url += 7;
    len = *url == '[' ? strcspn(url, "]") + 1 : strcspn(url, ":/?#");
    if (len >= sizeof host || !memchr("/:?#", url[len], 5)) /* 5: or the end */
        return 0;
    snprintf(host, sizeof host, "%.*s", (int)len, url);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcasecmp(host, own[i]))
            return 1;
    return inet_pton(AF_INET, host, &loopback) == 1 && ntohl(loopback.s_addr) >> 24 == 127;
}

int stk_keys_of_container(stk_store *s, stk_keys *out, stk_error *err)
{
    const char *relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
               *token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
               *file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char url[1024], text[4096], header[4200];
    question q = { .url = url, .budget_ms = ASK_MS };
    stk_text answer = { 0 };
    int rc;

    if (!relative && !full)
        return STK_END;
    snprintf(url, sizeof url, "%s%s", relative ? CONTAINER : "", relative ? relative : full);
    if (!may_hand_out(url))
        return stk_fail(err, STK_EINVAL,
                        "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https or this host's own");
    if (file && read_line(file, text, sizeof text))
        token = text;
    if (token) {
        snprintf(header, sizeof header, "Authorization: %s", token);
        q.header = header;
    }
    rc = ask(s, &q, &answer, err);
    if (rc == 0)
        rc = stk_keys_from_json(bytes_of(&answer), out, err);
    wipe(&answer);
    return rc;
}

/* ---- instance metadata, version 2 ---- */

static int instance_role(stk_store *s, const char *base, const char *header, stk_keys *out,
                         stk_error *err)
{
    char url[600];
    question q = { .url = url, .header = header, .connect_ms = LOOK_MS, .budget_ms = ASK_MS };
    stk_text role = { 0 }, answer = { 0 };
    size_t len;
    int rc;

    len = (size_t)snprintf(url, sizeof url, "%.300s/latest/meta-data/iam/security-credentials/",
                           base);
    rc = ask(s, &q, &role, err);
    if (rc == STK_ENOTFOUND || (rc == 0 && !role.len))
        rc = STK_END; /* an instance without a role */
    if (rc == 0) {
        snprintf(url + len, sizeof url - len, "%.*s", (int)strcspn(role.s, "\r\n/?#"), role.s);
        rc = ask(s, &q, &answer, err);
    }
    if (rc == 0)
        rc = stk_keys_from_json(bytes_of(&answer), out, err);
    wipe(&role);
    wipe(&answer);
    return rc;
}

int stk_keys_of_instance(stk_store *s, stk_keys *out, stk_error *err)
{
    const char *off = env("AWS_EC2_METADATA_DISABLED"),
               *base = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char url[400], header[600];
    question q = { .url = url,
                   .method = "PUT",
                   .connect_ms = LOOK_MS,
                   .budget_ms = LOOK_MS,
                   .header = "X-aws-ec2-metadata-token-ttl-seconds: 21600" };
    stk_text token = { 0 };
    int rc;

    if (off && !strcmp(off, "true"))
        return STK_END;
    base = base ? base : INSTANCE;
    snprintf(url, sizeof url, "%.300s/latest/api/token", base);
    if (ask(s, &q, &token, NULL) < 0 || !token.len || token.len > 500 || strpbrk(token.s, "\r\n")) {
        wipe(&token);
        return STK_END; /* no such address here: not a machine of AWS */
    }
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token.s);
    rc = instance_role(s, base, header, out, err);
    wipe(&token);
    return rc;
}

int stk_keys_of_google(stk_store *s, stk_keys *out, stk_error *err)
{
    const char *host = env("GCE_METADATA_HOST");
    char url[400];
    question q = {
        .url = url, .connect_ms = LOOK_MS, .budget_ms = LOOK_MS, .header = "Metadata-Flavor: Google"
    };
    stk_text answer = { 0 };
    stk_bytes seconds;
    int rc = STK_END;

    (void)err;
    snprintf(url, sizeof url,
             "http://%.200s/computeMetadata/v1/instance/service-accounts/default/token",
             host ? host : "169.254.169.254");
    memset(out, 0, sizeof *out);
    if (ask(s, &q, &answer, NULL) == 0 &&
        member(bytes_of(&answer), "access_token", out->token, sizeof out->token)) {
        rc = 0;
        if (stk_json_find(bytes_of(&answer), "expires_in", &seconds, NULL) == 0)
            out->expires = (int64_t)time(NULL) + strtol((const char *)seconds.data, NULL, 10);
    }
    wipe(&answer);
    return rc;
}

/* ---- a program ---- */

static int drain(int fd, char *text, size_t size, uint64_t until)
{
    size_t n = 0;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t now = stk_now_ns();
        ssize_t got;

        if (now >= until || n + 1 >= size || stk_halt_is(stk_halt_mine()))
            return -1;
        if (poll(&p, 1, STK_HALT_MS) <= 0)
            continue;
        got = read(fd, text + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    text[n] = 0;
    return (int)n;
}

/* In a group of its own, so that all of it can be ended. */
static pid_t spawn(const char *command, int out)
{
    char *argv[] = { "sh", "-c", (char *)(uintptr_t)command, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    pid_t pid = -1;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (posix_spawn(&pid, "/bin/sh", &files, &attributes, argv, environ) != 0)
        pid = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

int stk_keys_of_process(const char *command, stk_keys *out, stk_error *err)
{
    char *text = stk_alloc(OUTPUT_MAX);
    int ends[2] = { -1, -1 }, n = -1, status = -1, rc;
    pid_t pid = text && pipe2(ends, O_CLOEXEC) == 0 ? spawn(command, ends[1]) : -1;

    if (ends[1] >= 0)
        close(ends[1]);
    if (pid > 0) {
        n = drain(ends[0], text, OUTPUT_MAX, stk_now_ns() + PROCESS_S * 1000000000ull);
        if (n < 0)
            kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    if (ends[0] >= 0)
        close(ends[0]);
    if (pid <= 0 || n < 0 || status != 0)
        rc = stk_fail(err, STK_EIO,
                      "the profile's credential_process (or aws configure export-credentials) "
                      "failed: run it by hand to see why");
    else
        rc = stk_keys_from_json((stk_bytes){ (uint8_t *)text, (size_t)n }, out, err);
    if (text)
        explicit_bzero(text, OUTPUT_MAX);
    stk_free(text);
    return rc;
}
