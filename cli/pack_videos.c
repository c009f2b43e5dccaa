/* SPDX-License-Identifier: Apache-2.0 */
/* pack_videos.c - stoker pack --video-gop: the ffmpeg program encodes videos again.
 *
 * What asks ffmpeg, and compares frames and times before and after, is python/stoker/_video_gop.py:
 * it is run by a Python of its own, with what the command was asked for as JSON. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack_job.h"

static const char program[] =
    "import sys\n"
    "try:\n"
    "    from stoker._video_gop import main\n"
    "except ImportError as e:\n"
    "    print(f'stoker: --video-gop needs a Python with stoker, and {sys.executable} '\n"
    "          f'has none ({e}); STOKER_PYTHON names another one', file=sys.stderr)\n"
    "    sys.exit(3)\n"
    "sys.exit(main(sys.argv[1]))\n";

/* These make fields in another way, or are for runs whose parts are put together. */
static const char *const apart[] = { "field", "arrays", "write-plan", "from-plan", "shard",
                                     "part",  "merge",  "salvage",    NULL };

static void put_text(cli_json *j, const cli_args *a, const char *option, const char *name)
{
    if (cli_value(a, option))
        cli_json_text(j, name, cli_value(a, option));
}

static void put_flag(cli_json *j, const cli_args *a, const char *option, int value)
{
    if (cli_value(a, option))
        cli_json_bool(j, option, value);
}

static void put_numbers(cli_json *j, const pack_job *job, const cli_args *a, uint32_t gop)
{
    cli_json_count(j, "video_gop", gop);
    if (job->o.samples)
        cli_json_count(j, "samples", job->o.samples);
    if (job->o.bytes)
        cli_json_count(j, "bytes", job->o.bytes);
    if (job->o.num_workers)
        cli_json_count(j, "num_proc", job->o.num_workers);
    if (cli_value(a, "shuffle"))
        cli_json_count(j, "shuffle", job->o.seed);
    if (cli_value(a, "fraction"))
        cli_json_real(j, "fraction", job->o.fraction);
    if (!job->n_splits)
        return;
    cli_json_open(j, "split", '{');
    for (uint32_t i = 0; i < job->n_splits; i++)
        cli_json_real(j, job->split[i].name, job->split[i].to - job->split[i].from);
    cli_json_close(j, '}');
}

static void put_job(cli_json *j, const pack_job *job, const cli_args *a, uint32_t gop)
{
    static const char *const texts[] = { "name",    "exclude", "where",    "dedup",
                                         "balance", "only",    "compress", NULL };
    const size_t n = cli_words(a) - 1;

    cli_json_open(j, NULL, '{');
    cli_json_bool(j, "json", cli_value(a, "json") != NULL);
    cli_json_open(j, "src", '[');
    for (size_t i = 0; i < n; i++)
        cli_json_text(j, NULL, cli_word_list(a)[i]);
    cli_json_close(j, ']');
    cli_json_open(j, "how", '{');
    cli_json_text(j, "dst", cli_word_list(a)[n]);
    for (int i = 0; texts[i]; i++)
        put_text(j, a, texts[i], texts[i]);
    put_flag(j, a, "force", 1);
    put_flag(j, a, "jpeg", 1);
    if (cli_value(a, "no-index"))
        cli_json_bool(j, "index", 0);
    put_numbers(j, job, a, gop);
    cli_json_close(j, '}');
    cli_json_close(j, '}');
}

int pack_videos(const pack_job *job, const cli_args *a)
{
    const char *python = getenv("STOKER_PYTHON");
    cli_json j = { .lines = 1 };
    double gop = 0;
    char *text = NULL;
    size_t len;

    if (cli_number(a, "video-gop", 1, 1000, &gop))
        return CLI_USAGE;
    for (int i = 0; apart[i]; i++)
        if (cli_value(a, apart[i]))
            return cli_usage("--video-gop does not go with --%s: pack twice", apart[i]);
    python = python && *python ? python : "python3";
    j.to = open_memstream(&text, &len);
    if (!j.to)
        return cli_usage("no memory");
    put_job(&j, job, a, (uint32_t)gop);
    if (fclose(j.to) == 0) {
        if (cli_value(a, "cache-dir"))
            setenv("STOKER_CACHE", cli_value(a, "cache-dir"), 1);
        fflush(stdout);
        execlp(python, python, "-c", program, text, (char *)NULL);
    }
    cli_usage("--video-gop needs Python, and %s could not be run (%s); STOKER_PYTHON names another "
              "one",
              python, strerror(errno));
    free(text);
    return CLI_FAILED;
}
