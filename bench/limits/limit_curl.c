/* SPDX-License-Identifier: Apache-2.0 */
/* limit_curl - the least that random ranges over HTTP cost with libcurl: a bare multi loop in one
 * thread, unsigned, bodies copied to one buffer.
 *
 *   limit_curl URL SIZE LEN IN_FLIGHT COUNT     prints requests/s and CPU microseconds per
 *                                               request */
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct one {
    CURL *easy;
    uint8_t *dst;
    size_t got;
} one;

static size_t take(char *p, size_t size, size_t n, void *arg)
{
    one *o = arg;

    memcpy(o->dst + o->got, p, size * n);
    o->got += size * n;
    return size * n;
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static double cpu(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return seconds(&u.ru_utime) + seconds(&u.ru_stime);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void begin(CURLM *m, one *o, uint64_t size, size_t len)
{
    static uint64_t x = 1;
    char range[64];
    uint64_t at;

    x = x * 6364136223846793005u + 1442695040888963407u;
    at = (x >> 20) % (size - len);
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)at,
             (unsigned long long)(at + len - 1));
    o->got = 0;
    curl_easy_setopt(o->easy, CURLOPT_RANGE, range);
    curl_multi_add_handle(m, o->easy);
}

int main(int argc, char **argv)
{
    uint64_t size = argc == 6 ? strtoull(argv[2], NULL, 10) : 0;
    size_t len = size ? strtoull(argv[3], NULL, 10) : 0;
    int n = size ? atoi(argv[4]) : 0, count = size ? atoi(argv[5]) : 0, started = 0, done = 0, left;
    CURLM *m = curl_multi_init();
    one *all = calloc((size_t)n + 1, sizeof *all);
    double t, c;
    CURLMsg *msg;

    if (!size || !m || !all)
        return fprintf(stderr, "limit_curl URL SIZE LEN IN_FLIGHT COUNT\n"), 2;
    for (int i = 0; i < n; i++) {
        all[i].easy = curl_easy_init();
        all[i].dst = malloc(len + 1);
        curl_easy_setopt(all[i].easy, CURLOPT_URL, argv[1]);
        curl_easy_setopt(all[i].easy, CURLOPT_WRITEFUNCTION, take);
        curl_easy_setopt(all[i].easy, CURLOPT_WRITEDATA, &all[i]);
        curl_easy_setopt(all[i].easy, CURLOPT_PRIVATE, &all[i]);
        curl_easy_setopt(all[i].easy, CURLOPT_BUFFERSIZE, 262144L);
        curl_easy_setopt(all[i].easy, CURLOPT_NOSIGNAL, 1L);
    }
    t = now();
    c = cpu();
    for (; started < n && started < count; started++)
        begin(m, &all[started], size, len);
    while (done < count) {
        curl_multi_perform(m, &left);
        while ((msg = curl_multi_info_read(m, &left))) {
            one *o = NULL;

            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&o);
            if (msg->data.result != CURLE_OK || o->got != len)
                return fprintf(stderr, "limit_curl: a request failed\n"), 1;
            curl_multi_remove_handle(m, o->easy);
            done++;
            if (started++ < count)
                begin(m, o, size, len);
        }
        if (done < count)
            curl_multi_poll(m, NULL, 0, 100, NULL);
    }
    t = now() - t;
    c = cpu() - c;
    printf("%.0f requests/s, %.1f us CPU per request\n", count / t, c / count * 1e6);
    return 0;
}
