/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_top.c - stoker top: what the loaders of a running process do, now.
 *
 * A process that was asked to (loader.monitor(), STOKER_MONITOR=1) listens on a socket of its
 * user's, mode 0600, and answers one word with a text: "text" for people, "json" for programs.
 * This reads it, nothing else: the page that --http serves is for this machine alone and takes no
 * orders. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define MAX_TEXT (4u << 20)
#define MAX_SEEN 64

/* Where sockets are; the same rule as in python/stoker/_monitor.py. */
static void socket_folder(char *text, size_t size)
{
    const char *run = getenv("XDG_RUNTIME_DIR");

    if (run && *run)
        snprintf(text, size, "%s/stoker", run);
    else
        snprintf(text, size, "/tmp/stoker-%u", (unsigned)getuid());
}

static int dial(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    int fd = len < sizeof to.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd >= 0)
        memcpy(to.sun_path, path, len + 1);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* What the process at `path` answers, for free(); NULL: it is gone. */
static char *ask(const char *path, const char *word)
{
    char *text = malloc(MAX_TEXT + 1);
    int fd = text ? dial(path) : -1;
    size_t len = 0;
    ssize_t n = 0;

    if (fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word))
        while (len < MAX_TEXT && (n = read(fd, text + len, MAX_TEXT - len)) > 0)
            len += (size_t)n;
    if (fd >= 0)
        close(fd);
    if (!len) {
        free(text);
        return NULL;
    }
    text[len] = 0;
    return text;
}

static int find_socket(const char *pid, char *path, size_t size)
{
    char folder[200], seen[MAX_SEEN][32], list[600] = "";
    struct dirent *e;
    unsigned n = 0;
    DIR *d;

    socket_folder(folder, sizeof folder);
    if (pid) {
        snprintf(path, size, "%s/%.20s.sock", folder, pid);
        return 0;
    }
    d = opendir(folder);
    while (d && (e = readdir(d)) && n < MAX_SEEN) {
        size_t len = strlen(e->d_name);
        int fd;

        if (len < 6 || len > 26 || strcmp(e->d_name + len - 5, ".sock"))
            continue;
        snprintf(path, size, "%s/%s", folder, e->d_name);
        fd = dial(path);
        if (fd < 0)
            continue; /* of a process that ended */
        close(fd);
        snprintf(seen[n++], sizeof seen[0], "%.*s", (int)len - 5, e->d_name);
    }
    if (d)
        closedir(d);
    if (n == 1) {
        snprintf(path, size, "%s/%s.sock", folder, seen[0]);
        return 0;
    }
    for (unsigned i = 0; i < n && strlen(list) < 500; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), " %.20s", seen[i]);
    if (n)
        cli_usage("several processes can be watched; name one:%s", list);
    else
        cli_usage("no process of yours can be watched; start it with STOKER_MONITOR=1, or call "
                  "loader.monitor()");
    return n ? CLI_USAGE : CLI_FAILED;
}

/* Lines cut to the terminal's width. */
static void show(const char *text, int width)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        size_t shown = width > 0 && len > (size_t)width ? (size_t)width : len;

        while (shown < len && shown && ((unsigned char)text[shown] & 0xc0) == 0x80)
            shown--; /* whole characters */
        cli_put_shown(stdout, text, shown);
        fputc('\n', stdout);
        text += len + (text[len] == '\n');
    }
    fflush(stdout);
}

/* What the other process sent: JSON of ours has no control characters; anything else is shown. */
static void put_json(const char *text)
{
    if (cli_is_harmless(text, strlen(text)))
        cli_put_ours(stdout, text);
    else
        cli_put_shown(stdout, text, strlen(text));
}

static int columns(void)
{
    struct winsize w;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

static int watch(const char *path, const cli_args *a, double seconds)
{
    struct timespec pause = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    int live = isatty(STDOUT_FILENO) && !cli_value(a, "json");
    char *text;

    for (unsigned n = 0;; n++) {
        text = ask(path, cli_value(a, "json") ? "json\n" : "text\n");
        if (!text && n)
            return CLI_OK; /* it ended */
        if (!text) {
            cli_usage("%s: no process answers there", path);
            return CLI_FAILED;
        }
        if (cli_value(a, "json"))
            put_json(text);
        else {
            if (live)
                fputs("\033[H\033[2J", stdout);
            show(text, live ? columns() : 0);
        }
        free(text);
        if (!live)
            return CLI_OK;
        nanosleep(&pause, NULL);
    }
}

/* ---- in a browser ---- */

static void put_html(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else
            fputc(*text, to);
}

static void answer(int fd, const char *path)
{
    char *text = ask(path, "text\n"), request[2048], *body = NULL;
    size_t len = 0;
    ssize_t n = read(fd, request, sizeof request - 1);
    FILE *f = open_memstream(&body, &len);
    int get = n > 4 && !strncmp(request, "GET ", 4);

    if (f) {
        fputs("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
              "http-equiv=\"refresh\" content=\"1\">"
              "<meta name=\"viewport\" content=\"width=device-width\"><title>stoker "
              "top</title><style>:root{color-scheme:light dark}"
              "pre{white-space:pre-wrap;font:14px/1.4 monospace}</style></head><body><pre>",
              f);
        put_html(f, text ? text : "the process has ended");
        fputs("</pre></body></html>\n", f);
        fclose(f);
        dprintf(fd,
                "HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: "
                "%zu\r\nConnection: close\r\n\r\n%s",
                get ? "200 OK" : "405 Method Not Allowed", get ? len : 0, get ? body : "");
    }
    free(body);
    free(text);
}

static int serve(const char *path, double port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0) {
        cli_usage("port %.0f of 127.0.0.1 cannot be served: %s; --http 0 takes one that is free",
                  port, strerror(errno));
        return CLI_FAILED;
    }
    signal(SIGPIPE, SIG_IGN);
    cli_put(stdout, "http://127.0.0.1:%u/\n", (unsigned)ntohs(at.sin_port));
    fflush(stdout);
    while ((one = accept(fd, NULL, NULL)) >= 0 || errno == EINTR) {
        struct timeval most = { 5, 0 };

        if (one < 0)
            continue;
        setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
        answer(one, path);
        close(one);
    }
    return CLI_FAILED;
}

static int run(const cli_args *a)
{
    const char *pid = cli_words(a) ? cli_word_list(a)[0] : NULL;
    double seconds = 1, port = -1;
    char path[300];
    int rc = cli_number(a, "interval", 0.05, 3600, &seconds);

    if (rc == 0)
        rc = cli_number(a, "http", 0, 65535, &port);
    if (rc == 0 && pid && strspn(pid, "0123456789") != strlen(pid))
        rc = cli_usage("a process is named by its number, not '%s'", pid);
    if (rc == 0)
        rc = find_socket(pid, path, sizeof path);
    if (rc)
        return rc;
    return port >= 0 ? serve(path, port) : watch(path, a, seconds);
}

static const cli_option options[] = {
    { "interval", "S", "1", "seconds from one look to the next" },
    { "http", "PORT", NULL, "serve a page on 127.0.0.1 instead; 0: any port that is free" },
    { NULL },
};

const cli_command cli_top = {
    .name = "top",
    .synopsis = "[PID] [options]",
    .summary = "what do the loaders of a running process do, now?",
    .about = "Shows the report of every loader of a process that can be watched: one that was "
             "started with\n"
             "STOKER_MONITOR=1, or that called loader.monitor().  On a terminal it goes on until "
             "the process\n"
             "ends or you stop it; elsewhere it prints once.  It only reads.",
    .examples = "  stoker top\n"
                "  stoker top 4711 --http 8080\n",
    .options = options,
    .min_words = 0,
    .max_words = 1,
    .run = run,
};
