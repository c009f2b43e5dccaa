/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c - man pages and completion for shells, made of the commands' own tables.
 *
 * `stoker --manual [COMMAND]` prints a man page, `stoker --completion SHELL` what bash, zsh or fish
 * reads.  The build installs both, so an option that is added to a table is in all of them. */
#include <string.h>

#include "cli.h"

static void each_option(FILE *to, const cli_command *cmd, cli_option_fn *fn)
{
    cli_each_option(to, cmd, fn);
    cli_each_loader_option(to, cmd, fn);
}

/* ---- man pages ---- */

/* roff takes a backslash, and a dot or quote that begins a line, for its own. */
static void put_roff(FILE *to, const char *text)
{
    int begins = 1;

    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", to);
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else
            fputc(*text, to);
        begins = *text == '\n';
    }
}

static void put_section(FILE *to, const char *title, const char *text, int as_it_is)
{
    fprintf(to, ".SH %s\n%s", title, as_it_is ? ".nf\n" : "");
    put_roff(to, text);
    fputs(as_it_is ? "\n.fi\n" : "\n", to);
}

static void put_man_option(FILE *to, const cli_command *cmd, const cli_option *o)
{
    (void)cmd;
    fputs(".TP\n\\fB\\-\\-", to);
    put_roff(to, o->name);
    fputs("\\fR", to);
    if (o->value)
        fprintf(to, " \\fI%s\\fR", o->value);
    fputc('\n', to);
    put_roff(to, o->help);
    if (o->fallback) {
        fputs(" (default: ", to);
        put_roff(to, o->fallback);
        fputc(')', to);
    }
    fputc('\n', to);
}

static void put_command_page(FILE *to, const cli_command *c)
{
    fprintf(to, ".TH STOKER\\-%s 1 \"\" \"stoker %s\"\n.SH NAME\nstoker\\-%s \\- ", c->name,
            stk_version(), c->name);
    put_roff(to, c->summary);
    fprintf(to, "\n.SH SYNOPSIS\n.B stoker %s\n", c->name);
    put_roff(to, c->synopsis);
    fputc('\n', to);
    put_section(to, "DESCRIPTION", c->about, 0);
    fputs(".SH OPTIONS\n", to);
    each_option(to, c, put_man_option);
    put_section(to, "EXAMPLES", c->examples, 1);
    fputs(".SH SEE ALSO\n.BR stoker (1)\n", to);
}

static void put_first_page(FILE *to, const cli_command *const *c, size_t n)
{
    fprintf(to,
            ".TH STOKER 1 \"\" \"stoker %s\"\n.SH NAME\nstoker \\- training data to ready "
            "batches\n.SH SYNOPSIS\n.B stoker\n.I COMMAND\n[...]\n.SH COMMANDS\n",
            stk_version());
    for (size_t i = 0; i < n; i++) {
        fprintf(to, ".TP\n\\fBstoker\\-%s\\fR(1)\n", c[i]->name);
        put_roff(to, c[i]->summary);
        fputc('\n', to);
    }
    fputs(".SH EXIT STATUS\n0: fine; 1: something bad was found; 2: wrong usage; 3: data or the "
          "system failed.\n",
          to);
}

int cli_manual(const char *name, const cli_command *const *c, size_t n)
{
    if (!name) {
        put_first_page(stdout, c, n);
        return CLI_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (!strcmp(c[i]->name, name)) {
            put_command_page(stdout, c[i]);
            return CLI_OK;
        }
    return cli_usage("there is no command '%s'; 'stoker --help' lists them", name);
}

/* ---- completion ---- */

/* Between single quotes of a shell. */
static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text, to);
    fputc('\'', to);
}

static void put_bash_option(FILE *to, const cli_command *cmd, const cli_option *o)
{
    (void)cmd;
    fprintf(to, " --%s", o->name);
}

static void put_bash(FILE *to, const cli_command *const *c, size_t n)
{
    fputs("_stoker() {\n    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
          "    COMPREPLY=()\n    case ${COMP_WORDS[1]} in\n",
          to);
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "    %s) options='", c[i]->name);
        each_option(to, c[i], put_bash_option);
        fputs("' ;;\n", to);
    }
    fputs("    esac\n    if [ \"$COMP_CWORD\" = 1 ]; then options='", to);
    for (size_t i = 0; i < n; i++)
        fprintf(to, "%s ", c[i]->name);
    fputs("--help --version'\n    elif [[ $word != -* ]]; then return; fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n}\n"
          "complete -o default -F _stoker stoker\n",
          to);
}

static void put_fish_option(FILE *to, const cli_command *cmd, const cli_option *o)
{
    fprintf(to, "complete -c stoker -n '__fish_seen_subcommand_from %s' -l %s%s -d ", cmd->name,
            o->name, o->value ? " -r" : "");
    put_quoted(to, o->help);
    fputc('\n', to);
}

static void put_fish(FILE *to, const cli_command *const *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "complete -c stoker -n __fish_use_subcommand -a %s -d ", c[i]->name);
        put_quoted(to, c[i]->summary);
        fputc('\n', to);
        each_option(to, c[i], put_fish_option);
    }
}

/* _describe takes what follows the first colon for the description. */
static void put_zsh_option(FILE *to, const cli_command *cmd, const cli_option *o)
{
    (void)cmd;
    fprintf(to, "        '--%s:'", o->name);
    put_quoted(to, o->help);
    fputc('\n', to);
}

static void put_zsh(FILE *to, const cli_command *const *c, size_t n)
{
    fputs("#compdef stoker\n_stoker() {\n    local -a words_of\n"
          "    if (( CURRENT == 2 )); then\n        words_of=(\n",
          to);
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "        '%s:'", c[i]->name);
        put_quoted(to, c[i]->summary);
        fputc('\n', to);
    }
    fputs("        )\n        _describe command words_of\n        return\n    fi\n"
          "    case $words[2] in\n",
          to);
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "    %s) words_of=(\n", c[i]->name);
        each_option(to, c[i], put_zsh_option);
        fputs("        ) ;;\n", to);
    }
    fputs("    esac\n    if [[ $words[CURRENT] == -* ]]; then _describe -o option words_of; "
          "else _files; fi\n}\n_stoker \"$@\"\n",
          to);
}

int cli_completion(const char *shell, const cli_command *const *c, size_t n)
{
    static const struct {
        const char *name;
        void (*put)(FILE *to, const cli_command *const *c, size_t n);
    } shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };

    for (size_t i = 0; shell && i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, shell)) {
            shells[i].put(stdout, c, n);
            return CLI_OK;
        }
    return cli_usage("--completion takes bash, zsh or fish");
}
