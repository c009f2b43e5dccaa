/* SPDX-License-Identifier: Apache-2.0 */
/* out.c - what the commands print: one-line errors, a progress bar, JSON, numbers for people. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- text ---- */

#define PIECE 64

/* A piece of at most PIECE bytes that does not end inside of a character. */
static size_t piece_of(const char *text, size_t len)
{
    size_t n = len < PIECE ? len : PIECE;

    for (int back = 0; n < len && back < 3 && ((unsigned char)text[n] & 0xc0) == 0x80; back++)
        n--;
    return n;
}

void cli_put_shown(FILE *to, const char *text, size_t len)
{
    char shown[4 * PIECE + 16];

    for (size_t i = 0, n; i < len; i += n) {
        n = piece_of(text + i, len - i);
        stk_text_show(text + i, n, shown, sizeof shown);
        fputs(shown, to);
    }
}

void cli_put_ours(FILE *to, const char *text)
{
    fputs(text, to);
}

static size_t line_of(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] != '\n' && text[n] != '\t')
        n++;
    return n && n < len && text[n] == '\n' && text[n - 1] == '\r' ? n - 1 : n;
}

int cli_is_harmless(const char *text, size_t len)
{
    while (len) {
        size_t n = line_of(text, len);

        if (stk_text_show(text, n, NULL, 0) != n)
            return 0;
        n += n < len && text[n] == '\r'; /* of a line's end */
        n += n < len;
        text += n;
        len -= n;
    }
    return 1;
}

typedef struct conversion { /* of a format */
    char spec[32];          /* as printf() has it, without * */
    int width, precision;   /* precision -1: none */
    int left, longs;        /* longs: 1 l, 2 ll, 3 z */
    char type;
} conversion;

/* A number or an asterisk, which stands for an argument. */
static const char *take_number(const char *at, int *out, va_list *ap)
{
    if (*at == '*') {
        *out = va_arg(*ap, int);
        return at + 1;
    }
    for (*out = 0; *at >= '0' && *at <= '9'; at++)
        *out = *out * 10 + (*at - '0');
    return at;
}

/* The conversion after a percent sign. */
static const char *take_conversion(const char *at, conversion *c, va_list *ap)
{
    char flags[8] = "";
    size_t n = strspn(at, "-+ 0#");

    *c = (conversion){ .precision = -1 };
    snprintf(flags, sizeof flags, "%.*s", (int)n, at);
    c->left = strchr(flags, '-') != NULL;
    at = take_number(at + n, &c->width, ap);
    if (*at == '.')
        at = take_number(at + 1, &c->precision, ap);
    for (; *at == 'l'; at++)
        c->longs++;
    if (*at == 'z' || *at == 'j')
        c->longs = *at++ == 'z' ? 3 : 2;
    c->type = *at++;
    n = (size_t)snprintf(c->spec, sizeof c->spec, "%%%s", flags);
    if (c->width)
        n += (size_t)snprintf(c->spec + n, sizeof c->spec - n, "%d", c->width);
    if (c->precision >= 0)
        n += (size_t)snprintf(c->spec + n, sizeof c->spec - n, ".%d", c->precision);
    snprintf(c->spec + n, sizeof c->spec - n, "%s%c",
             strchr("dux", c->type) && c->longs ? "ll" : "", c->type);
    return at;
}

static void put_string(FILE *to, const conversion *c, const char *s)
{
    size_t len = c->precision >= 0 ? strnlen(s, (size_t)c->precision) : strlen(s);
    size_t wide = stk_text_show(s, len, NULL, 0);
    int pad = wide < (size_t)c->width ? c->width - (int)wide : 0;

    if (!c->left)
        fprintf(to, "%*s", pad, "");
    cli_put_shown(to, s, len);
    if (c->left)
        fprintf(to, "%*s", pad, "");
}

static unsigned long long take_unsigned(const conversion *c, va_list *ap)
{
    return c->longs == 3   ? va_arg(*ap, size_t)
           : c->longs == 2 ? va_arg(*ap, unsigned long long)
           : c->longs == 1 ? va_arg(*ap, unsigned long)
                           : va_arg(*ap, unsigned);
}

static long long take_signed(const conversion *c, va_list *ap)
{
    return c->longs == 2 ? va_arg(*ap, long long) : c->longs ? va_arg(*ap, long) : va_arg(*ap, int);
}

static void put_one(FILE *to, const conversion *c, va_list *ap)
{
    if (c->type == 's')
        put_string(to, c, va_arg(*ap, const char *));
    else if (c->type == 'f' || c->type == 'g')
        fprintf(to, c->spec, va_arg(*ap, double));
    else if (c->type == 'd' && c->longs)
        fprintf(to, c->spec, take_signed(c, ap));
    else if (c->longs)
        fprintf(to, c->spec, take_unsigned(c, ap));
    else
        fprintf(to, c->spec, va_arg(*ap, int));
}

static void put_all(FILE *to, const char *fmt, va_list *ap)
{
    conversion c;

    while (*fmt) {
        size_t n = strcspn(fmt, "%");

        fwrite(fmt, 1, n, to);
        fmt += n;
        if (*fmt && fmt[1] == '%') {
            fputc('%', to);
            fmt += 2;
        } else if (*fmt) {
            fmt = take_conversion(fmt + 1, &c, ap);
            put_one(to, &c, ap);
        }
    }
}

void cli_put(FILE *to, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_all(to, fmt, &ap);
    va_end(ap);
}

int cli_usage(const char *fmt, ...)
{
    char *line = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&line, &len);
    va_list ap;

    va_start(ap, fmt);
    if (to)
        put_all(to, fmt, &ap);
    va_end(ap);
    if (to && fclose(to) == 0) {
        stk_secrets_hide(line); /* what was typed is often a part of it */
        fprintf(stderr, "stoker: %s\n", line);
    }
    free(line);
    return CLI_USAGE;
}

int cli_failed(const stk_error *err)
{
    char line[1024];

    stk_error_format(err, line, sizeof line);
    cli_put(stderr, "stoker: %s\n", line);
    return err->code == STK_EINVAL ? CLI_USAGE : CLI_FAILED;
}

void cli_log(void *cookie, stk_log_level level, const char *line)
{
    (void)cookie;
    if (level <= STK_LOG_WARN)
        cli_put(stderr, "stoker: %s: %s\n", level == STK_LOG_ERROR ? "error" : "warning", line);
}

/* ---- JSON ---- */

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

/* A character that is not shown as it is, as JSON's escapes: two of them beyond U+FFFF. */
static void json_escaped(FILE *to, const unsigned char *s, size_t n)
{
    uint32_t c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    if (c < 0x10000)
        fprintf(to, "\\u%04x", (unsigned)c);
    else
        fprintf(to, "\\u%04x\\u%04x", 0xd800 + (unsigned)((c - 0x10000) >> 10),
                0xdc00 + (unsigned)(c & 0x3ff));
}

/* The one writer of strings, keys of objects included. */
static void json_quoted(FILE *to, const char *text, size_t len)
{
    fputc('"', to);
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        const unsigned char *s = (const unsigned char *)text + i;

        n = utf8_length(s, len - i);
        if (!n)
            fputs("\\ufffd", to);
        else if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (stk_text_show(text + i, n, NULL, 0) != n)
            json_escaped(to, s, n);
        else
            fwrite(s, 1, n, to);
    }
    fputc('"', to);
}

static void json_begin(cli_json *j, const char *key)
{
    if (j->depth && j->lines)
        fputs(j->filled ? ", " : "", j->to);
    else if (j->depth)
        fprintf(j->to, "%s\n%*s", j->filled ? "," : "", 2 * j->depth, "");
    if (key) {
        json_quoted(j->to, key, strlen(key));
        fputs(": ", j->to);
    }
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

static int bar_columns(void)
{
    struct winsize w;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* One line of the terminal, however narrow it is: a line that wraps could not be drawn over.  The
 * bar is what gives way, then the note. */
void cli_bar_draw(cli_bar *b, double share, const char *note)
{
    static const char full[] = "################################";
    static const char rest[] = "................................";
    double now = b->on ? cli_seconds() : 0;
    int columns, width, n;
    char line[256];

    if (!b->on || now - b->drawn < BAR_PAUSE)
        return;
    b->drawn = now;
    share = share > 0 ? share < 1 ? share : 1 : 0;
    columns = bar_columns() - 1;
    width = columns - (int)(strlen(b->title) + strlen(" [] 100% ") + strlen(note));
    width = width > BAR_WIDTH ? BAR_WIDTH : width;
    n = (int)(share * width);
    if (width >= 4)
        snprintf(line, sizeof line, "%s [%.*s%.*s] %3.0f%% %s", b->title, n, full, width - n, rest,
                 100 * share, note);
    else
        snprintf(line, sizeof line, "%s %3.0f%% %s", b->title, 100 * share, note);
    fprintf(stderr, "\r%.*s\033[K", columns < 1 ? 1 : columns, line);
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
