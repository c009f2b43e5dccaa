/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cache.c - stoker cache: what remote data this host keeps; fill, compare, remove. */
#include <inttypes.h>
#include <stoker/store.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    { NULL },
};

typedef struct shown {
    cli_json *j;
    int json, verify;
    uint64_t objects, bytes, present, bad, torn;
} shown;

static void show_json(shown *s, const stk_cached *c)
{
    cli_json_open(s->j, NULL, '{');
    cli_json_text(s->j, "url", c->url);
    cli_json_text(s->j, "etag", c->etag);
    cli_json_count(s->j, "bytes", c->bytes);
    cli_json_count(s->j, "cached_bytes", c->present);
    cli_json_count(s->j, "bad_chunks", c->bad_chunks);
    cli_json_bool(s->j, "torn", c->torn);
    cli_json_bool(s->j, "in_use", c->in_use);
    cli_json_close(s->j, '}');
}

static int show(void *cookie, const stk_cached *c)
{
    shown *s = cookie;
    char here[16], all[16];

    s->objects++;
    s->bytes += c->bytes;
    s->present += c->present;
    s->bad += c->bad_chunks;
    s->torn += c->torn != 0;
    if (s->json)
        show_json(s, c);
    else if (c->torn)
        cli_put(stdout, "%s: not an object of this cache, or torn%s\n", c->url,
                s->verify ? ": removed" : "");
    else if (!s->verify || c->bad_chunks)
        cli_put(stdout, "%s of %s  %s%s%s\n", stk_size_format(here, c->present),
                stk_size_format(all, c->bytes), c->url, c->in_use ? "  (in use)" : "",
                c->bad_chunks ? "  (bad chunks were removed)" : "");
    return ferror(stdout) != 0;
}

static int list(const cli_args *a, int verify)
{
    cli_json j = { .to = stdout, .lines = 1 };
    shown s = { .j = &j, .json = cli_value(a, "json") != NULL, .verify = verify };
    stk_error err;
    char here[16];
    int rc = stk_cache_list(NULL, verify, show, &s, &err);

    if (rc < 0)
        return cli_failed(&err);
    if (!s.json)
        cli_put(stdout, "%" PRIu64 " objects, %s%s\n", s.objects, stk_size_format(here, s.present),
                !verify           ? ""
                : s.bad || s.torn ? "; what was bad is removed"
                                  : "; all good");
    return verify && (s.bad || s.torn) ? CLI_BAD : CLI_OK;
}

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char note[64];

    snprintf(note, sizeof note, "%" PRIu64 " of %" PRIu64 " files", done, total);
    cli_bar_draw(cookie, total ? (double)done / (double)total : 1, note);
    return 0;
}

static int fill(const cli_args *a)
{
    stk_cache_fill_options o = { .size = sizeof o, .progress = on_progress };
    stk_cache_filled r;
    stk_error err;
    cli_json j = { .to = stdout };
    cli_bar bar;
    char size[16];
    int rc;

    if (cli_words(a) < 2)
        return cli_usage("cache fill needs addresses: stoker cache fill 's3://bucket/train-*.tar'");
    cli_bar_open(&bar, "filling");
    o.cookie = &bar;
    rc = stk_cache_fill(cli_word_list(a) + 1, cli_words(a) - 1, &o, &r, &err);
    cli_bar_close(&bar);
    if (rc < 0)
        return cli_failed(&err);
    if (cli_value(a, "json")) {
        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "files", r.files);
        cli_json_count(&j, "bytes", r.bytes);
        cli_json_count(&j, "left_out", r.left_out);
        cli_json_close(&j, '}');
    } else {
        cli_put(stdout, "%" PRIu64 " files, %s, are in the cache", r.files,
                stk_size_format(size, r.bytes));
        if (r.left_out)
            cli_put(stdout, "; %" PRIu64 " are not: it has no room, or they have no version",
                    r.left_out);
        cli_put(stdout, "\n");
    }
    return r.left_out ? CLI_BAD : CLI_OK;
}

static int clear(const cli_args *a)
{
    stk_cache_cleared r;
    stk_error err;
    char size[16];
    int rc = stk_cache_clear(NULL, cli_words(a) > 1 ? cli_word_list(a)[1] : NULL, &r, &err);

    if (rc < 0)
        return cli_failed(&err);
    cli_put(stdout, "removed %" PRIu64 " objects, %s\n", r.objects, stk_size_format(size, r.bytes));
    if (r.in_use)
        cli_put(stdout, "%" PRIu64 " objects stay: a process reads them\n", r.in_use);
    return CLI_OK;
}

static int run(const cli_args *a)
{
    static const char *const words[] = { "ls", "fill", "verify", "clear" };
    const char *what = cli_word_list(a)[0], *near;

    if (!strcmp(what, "fill"))
        return fill(a);
    if (!strcmp(what, "clear") && cli_words(a) <= 2)
        return clear(a);
    if ((!strcmp(what, "ls") || !strcmp(what, "verify")) && cli_words(a) == 1)
        return list(a, what[0] == 'v');
    near = cli_nearest(what, words, 4);
    return cli_usage("cache does ls, fill, verify and clear, not '%s'%s%s", what,
                     near ? "; did you mean " : "", near ? near : "");
}

const cli_command cli_cache = {
    .name = "cache",
    .synopsis = "ls | fill URL... | verify | clear [PREFIX] [options]",
    .summary = "remote data that this host keeps on its disk",
    .about = "The cache is the folder of --store-cache or $STOKER_STORE_CACHE (docs/stores.md).  "
             "Loaders fill it\n"
             "as they read; 'fill' does so before.  'verify' reads all of it and compares "
             "checksums: what is bad\n"
             "is removed, and the exit code is 1.  'clear' removes what no process reads, all or "
             "what begins\n"
             "with PREFIX.",
    .examples = "  stoker cache fill 's3://bucket/train-*.tar' --store-cache /nvme "
                "--store-cache-limit 500GB\n"
                "  stoker cache ls --store-cache /nvme --json\n"
                "  stoker cache clear s3://bucket/old/ --store-cache /nvme\n",
    .options = options,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
