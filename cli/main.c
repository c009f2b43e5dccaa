/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the stoker command: finds the command, hands over, and helps those who are lost. */
#include <stdlib.h>
#include <stoker/own_op.h>
#include <stoker/store.h>
#include <string.h>

#include "cli.h"

static const cli_command *const commands[] = { &cli_index,  &cli_pack, &cli_check,    &cli_ls,
                                               &cli_cat,    &cli_ops,  &cli_bench,    &cli_ledger,
                                               &cli_doctor, &cli_plan, &cli_describe, &cli_drift,
                                               &cli_top,    &cli_cache };

#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_help(FILE *to)
{
    fputs("stoker - training data from where it is to ready batches\n\n"
          "Usage: stoker COMMAND ...\n\n"
          "Commands:\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        cli_put(to, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\nA first walk:\n"
        "  stoker index 'train-{000000..000099}.tar'     find every sample once; opening is "
        "instant from then on\n"
        "  stoker bench 'train-{000000..000099}.tar'     how fast can this machine load it, and "
        "what is slow?\n"
        "  stoker ops random_resized_crop                what can a chain do, and with which "
        "arguments?\n\n"
        "'stoker COMMAND --help' teaches a command; 'stoker --version' says what this build has.\n"
        "'stoker --completion bash' (zsh, fish) prints completion for a shell, 'stoker --manual' a "
        "man page.\n"
        "Exit codes: 0 fine, 1 found something bad, 2 wrong usage, 3 data or system failed.\n",
        to);
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS], *near;

    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    near = cli_nearest(word, names, N_COMMANDS);
    if (near)
        return cli_usage("there is no command '%s'; did you mean '%s'?", word, near);
    return cli_usage("there is no command '%s'; 'stoker --help' lists them", word);
}

/* How remote data is reached comes from the environment, these flags included. */
static int set_store(const cli_args *a)
{
    const char *cache = cli_value(a, "store-cache"), *limit = cli_value(a, "store-cache-limit");

    stk_store_log(cli_log, NULL);
    if (cache && setenv("STOKER_STORE_CACHE", cache, 1))
        return -1;
    return limit && setenv("STOKER_STORE_CACHE_LIMIT", limit, 1) ? -1 : 0;
}

/* --op: ops that chains can name, as stoker.load_op() in Python. */
static int load_ops(const cli_args *a)
{
    const char *path;
    stk_error err;

    for (size_t i = 0; (path = cli_value_at(a, "op", i)); i++) {
        /* a bare name would be looked for where libraries are */
        char *whole = realpath(path, NULL);
        int rc = stk_registry_load(NULL, whole ? whole : path, NULL, &err);

        free(whole);
        if (rc < 0)
            return cli_failed(&err);
    }
    return 0;
}

static int run_command(const cli_command *cmd, int argc, char **argv)
{
    cli_args *args = NULL;
    int rc = cli_args_parse(&args, cmd, argc, argv);

    if (rc == 0 && set_store(args) < 0)
        rc = cli_usage("out of memory");
    if (rc == 0)
        rc = load_ops(args);
    if (rc == 0)
        rc = cmd->run(args);
    cli_args_free(args);
    return rc < 0 ? CLI_OK : rc;
}

static void print_version(void)
{
    char video[640];

    stk_video_libraries(video, sizeof video);
    cli_put(stdout, "%s; video: %s\n", stk_build_info(), video);
}

static int find_command(const char *word, int argc, char **argv)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i]->name, word))
            return run_command(commands[i], argc, argv);
    return unknown_command(word);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    int rc = CLI_OK;

    if (!strcmp(word, "--version"))
        print_version();
    else if (!strcmp(word, "--help") || !strcmp(word, "-h") || (!strcmp(word, "help") && argc < 3))
        print_help(stdout);
    else if (!strcmp(word, "help"))
        rc = find_command(argv[2], 1, (char *[]){ (char *)"--help", NULL });
    else if (!strcmp(word, "--manual"))
        rc = cli_manual(argc > 2 ? argv[2] : NULL, commands, N_COMMANDS);
    else if (!strcmp(word, "--completion"))
        rc = cli_completion(argc > 2 ? argv[2] : NULL, commands, N_COMMANDS);
    else if (word[0] == '-')
        rc = cli_usage("a command comes first, not '%s'; 'stoker --help' lists them", word);
    else
        rc = find_command(word, argc - 2, argv + 2);
    if ((fflush(stdout) || ferror(stdout)) && rc == CLI_OK) {
        fputs("stoker: the output could not be written\n", stderr);
        rc = CLI_FAILED;
    }
    return rc;
}
