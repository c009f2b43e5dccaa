/* SPDX-License-Identifier: Apache-2.0 */
/* out.c - what the commands print: one-line errors, a progress bar, JSON, numbers for people. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

int cli_usage(const char *fmt, ...)
{
    va_list ap;

    fputs("stoker: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return CLI_USAGE;
}

int cli_failed(const stk_error *err)
{
    char line[1024];

    stk_error_format(err, line, sizeof line);
    fprintf(stderr, "stoker: %s\n", line);
    return err->code == STK_EINVAL ? CLI_USAGE : CLI_FAILED;
}

void cli_log(void *cookie, stk_log_level level, const char *line)
{
    (void)cookie;
    if (level <= STK_LOG_WARN)
        fprintf(stderr, "stoker: %s: %s\n", level == STK_LOG_ERROR ? "error" : "warning", line);
}

/* ---- JSON ---- */

static void json_begin(cli_json *j, const char *key)
{
    if (j->depth && j->lines)
        fputs(j->filled ? ", " : "", j->to);
    else if (j->depth)
        fprintf(j->to, "%s\n%*s", j->filled ? "," : "", 2 * j->depth, "");
    if (key)
        fprintf(j->to, "\"%s\": ", key);
    j->filled = 1;
}

void cli_json_open(cli_json *j, const char *key, char bracket)
{
    json_begin(j, key);
    fputc(bracket, j->to);
    j->depth++;
    j->filled = 0;
}

void cli_json_close(cli_json *j, char bracket)
{
    j->depth--;
    if (j->filled && !j->lines)
        fprintf(j->to, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->to);
    if (!j->depth)
        fputc('\n', j->to);
    j->filled = 1;
}

/* The length of the UTF-8 sequence that begins `s`; 0: it is none. */
static size_t utf8_length(const unsigned char *s, size_t len)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] > 0xf4 || n > len || !n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

int cli_is_utf8(const char *text, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_length((const unsigned char *)text + i, len - i);
        if (!n)
            return 0;
    }
    return 1;
}

void cli_put_shown(FILE *to, const char *text, size_t len)
{
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        unsigned char c = (unsigned char)text[i];

        n = utf8_length((const unsigned char *)text + i, len - i);
        if (c == '\n')
            fputs("\\n", to);
        else if (!n || c < 0x20 || c == 0x7f)
            fprintf(to, "\\x%02x", c);
        else
            fwrite(text + i, 1, n, to);
    }
}

static void json_quoted(FILE *to, const char *text, size_t len)
{
    fputc('"', to);
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        unsigned char c = (unsigned char)text[i];

        n = utf8_length((const unsigned char *)text + i, len - i);
        if (!n)
            fputs("\\ufffd", to);
        else if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(to, "\\u%04x", c);
        else
            fwrite(text + i, 1, n, to);
    }
    fputc('"', to);
}

void cli_json_text(cli_json *j, const char *key, const char *text)
{
    json_begin(j, key);
    if (!text) {
        fputs("null", j->to);
        return;
    }
    json_quoted(j->to, text, strlen(text));
}

void cli_json_bytes(cli_json *j, const char *key, const char *text, size_t len)
{
    json_begin(j, key);
    json_quoted(j->to, text, len);
}

void cli_json_count(cli_json *j, const char *key, uint64_t v)
{
    json_begin(j, key);
    fprintf(j->to, "%" PRIu64, v);
}

void cli_json_real(cli_json *j, const char *key, double v)
{
    json_begin(j, key);
    if (isfinite(v))
        fprintf(j->to, "%.9g", v);
    else
        fputs("null", j->to);
}

void cli_json_bool(cli_json *j, const char *key, int v)
{
    json_begin(j, key);
    fputs(v ? "true" : "false", j->to);
}

/* ---- the bar ---- */

#define BAR_WIDTH 32
#define BAR_PAUSE 0.1

double cli_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_bar_open(cli_bar *b, const char *title)
{
    *b = (cli_bar){ .title = title, .start = cli_seconds(), .on = isatty(STDERR_FILENO) };
}

void cli_bar_draw(cli_bar *b, double share, const char *note)
{
    static const char full[] = "################################";
    static const char rest[] = "................................";
    double now = b->on ? cli_seconds() : 0;
    int n = share <= 0 ? 0 : share >= 1 ? BAR_WIDTH : (int)(share * BAR_WIDTH);

    if (!b->on || now - b->drawn < BAR_PAUSE)
        return;
    b->drawn = now;
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f%% %s\033[K", b->title, n, full, BAR_WIDTH - n, rest,
            100 * (share > 1 ? 1 : share), note);
}

void cli_bar_close(cli_bar *b)
{
    if (b->on)
        fputs("\r\033[K", stderr);
    b->on = 0;
}

/* ---- numbers ---- */

const char *cli_many(char buf[32], uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = 0;
    return buf;
}
