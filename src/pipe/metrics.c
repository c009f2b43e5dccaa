/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - figures of a loader as OpenMetrics text, for Prometheus and what reads its format.
 *
 * A function of one snapshot (stk_stats): it looks at no loader and allocates nothing.  Seconds are
 * written with as few digits as read back to the same double, and with a point in every locale. */
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipe/engine.h"

#define SECOND 1e-9    /* in nanoseconds */
#define MOST_DIGITS 17 /* that a double needs */
#define FIXED_FROM -4  /* smaller exponents are written with an e */

typedef struct text {
    char *out;
    size_t room, len; /* len: of the whole text, also of what does not fit */
} text;

typedef struct row {
    const char *name, *help; /* help: of a family that has one row */
    uint64_t value;
} row;

#define PUT_ROWS(put, t, ...)                                                                      \
    do {                                                                                           \
        const row rows[] = { __VA_ARGS__ };                                                        \
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)                                    \
            put(t, &rows[i]);                                                                      \
    } while (0)

static void put(text *t, const char *format, ...) STK_PRINTF(2, 3);

static void put(text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->len < t->room ? t->out + t->len : NULL,
                  t->len < t->room ? t->room - t->len : 0, format, args);
    va_end(args);
    t->len += n > 0 ? (size_t)n : 0;
}

static void put_seconds(text *t, uint64_t ns)
{
    double v = (double)ns * SECOND;
    char digits[MOST_DIGITS + 16];
    int n = 0, exponent;

    do
        snprintf(digits, sizeof digits, "%.*e", n, v);
    while (strtod(digits, NULL) != v && ++n < MOST_DIGITS);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < FIXED_FROM)
        put(t, "%s\n", digits);
    else
        put(t, "%.*f\n", n > exponent ? n - exponent : 1, v);
}

static void put_family(text *t, const char *name, const char *kind, const char *help)
{
    put(t, "# TYPE stoker_%s %s\n# HELP stoker_%s %s.\n", name, kind, name, help);
}

static void put_counter(text *t, const row *r)
{
    put_family(t, r->name, "counter", r->help);
    put(t, "stoker_%s_total %llu\n", r->name, (unsigned long long)r->value);
}

static void put_gauge(text *t, const row *r)
{
    put_family(t, r->name, "gauge", r->help);
    put(t, "stoker_%s %llu\n", r->name, (unsigned long long)r->value);
}

static void put_wait(text *t, const row *r)
{
    put(t, "stoker_wait_seconds_total{for=\"%s\"} ", r->name);
    put_seconds(t, r->value);
}

static void put_ring(text *t, const row *r)
{
    put(t, "stoker_ring{state=\"%s\"} %llu\n", r->name, (unsigned long long)r->value);
}

static void put_owner(text *t, const row *r)
{
    put(t, "stoker_memory_of{owner=\"%s\"} %llu\n", r->name, (unsigned long long)r->value);
}

static void put_figures(text *t, const stk_stats *s)
{
    PUT_ROWS(put_counter, t, { "samples", "Rows made", s->samples },
             { "handed_out", "Rows of batches handed out", s->handed_out },
             { "batches", "Batches handed out", s->batches },
             { "bytes", "Bytes read from shards", s->bytes },
             { "skipped", "Bad samples left out", s->skipped },
             { "retried_reads", "Reads that failed and were tried again", s->retried_reads },
             { "cold_reads", "Reads that had to be waited for", s->cold_reads },
             { "remote_reads", "Of them, from far away", s->remote_reads },
             { "jpeg_seek", "JPEGs decoded from seek points", s->jpeg_seek },
             { "jpeg_fallback", "JPEGs that libjpeg-turbo decoded", s->jpeg_fallback });
    PUT_ROWS(put_gauge, t, { "workers", "Worker threads", s->workers },
             { "memory", "Bytes that memory_limit counts", s->memory },
             { "memory_peak", "Their peak", s->memory_peak },
             { "memory_limit", "Their bound", s->memory_limit },
             { "held", "Batches that the consumer holds", s->held });
}

static void put_stages(text *t, const stk_stats *s)
{
    put_family(t, "stage_seconds", "counter", "Time of all workers by stage");
    for (int i = 0; i < STK_STAGES; i++) {
        put(t, "stoker_stage_seconds_total{stage=\"%s\"} ", stk_stage_name((stk_stage_id)i));
        put_seconds(t, s->stage_ns[i]);
    }
}

static void put_shares(text *t, const stk_stats *s)
{
    uint64_t parts = s->wait_ns + s->repair_ns + s->ledger_ns;

    put_family(t, "wait_seconds", "counter",
               "Time of the consumer in next(), and of workers until reads came");
    PUT_ROWS(put_wait, t, { "reads", NULL, s->read_wait_ns }, { "memory", NULL, s->room_ns },
             { "first", NULL, s->first_wait_ns }, { "data", NULL, s->wait_ns },
             { "repair", NULL, s->repair_ns }, { "ledger", NULL, s->ledger_ns },
             { "rest", NULL, s->next_ns > parts ? s->next_ns - parts : 0 });
    put_family(t, "ring", "gauge", "Batches");
    PUT_ROWS(put_ring, t, { "slots", NULL, s->slots }, { "ahead", NULL, s->ring_ahead },
             { "open", NULL, s->ring_open }, { "ready", NULL, s->ring_ready });
    put_family(t, "memory_of", "gauge", "Bytes by owner");
    PUT_ROWS(put_owner, t, { "batches", NULL, s->memory_batches },
             { "reads", NULL, s->memory_reads }, { "blocks", NULL, s->memory_blocks },
             { "scratch", NULL, s->memory_scratch });
}

/* Buckets from the first to the last that has a row; the sum takes the middle of each. */
static void put_histogram(text *t, const char *stage, const uint32_t *times, double tick_ns)
{
    int first = 0, end = STK_TIMES;
    unsigned long long seen = 0;
    double total = 0;

    while (first < end && !times[first])
        first++;
    while (end > first && !times[end - 1])
        end--;
    for (int k = first; k < end; k++) {
        double least = (double)((uint64_t)1 << k) * tick_ns * SECOND;

        seen += times[k];
        total += 1.5 * least * times[k];
        put(t, "stoker_row_seconds_bucket{stage=\"%s\",le=\"%.9g\"} %llu\n", stage, 2 * least,
            seen);
    }
    put(t, "stoker_row_seconds_bucket{stage=\"%s\",le=\"+Inf\"} %llu\n", stage, seen);
    put(t, "stoker_row_seconds_count{stage=\"%s\"} %llu\n", stage, seen);
    put(t, "stoker_row_seconds_sum{stage=\"%s\"} %.9g\n", stage, total);
}

size_t stk_stats_metrics(const stk_stats *stats, char *out, size_t room)
{
    /* The C locale is a constant of the C library: nothing is allocated, and this cannot fail. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
    size_t size = stats->size && stats->size < sizeof *stats ? stats->size : sizeof *stats;
    text t = { .out = out, .room = room };
    stk_stats s = { 0 };

    memcpy(&s, stats, size); /* fields that an older caller does not know are 0 */
    put_figures(&t, &s);
    put_stages(&t, &s);
    put_shares(&t, &s);
    put_family(&t, "row_seconds", "histogram", "Rows that were timed, by stage");
    for (int i = 0; i < STK_STAGES; i++)
        put_histogram(&t, stk_stage_name((stk_stage_id)i), s.stage_times[i], s.tick_ns);
    put(&t, "# EOF\n");
    uselocale(before);
    freelocale(c);
    return t.len;
}
