/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - the command line against a command's table, and the help that is printed from that
 * table.
 *
 * The loader's options come from the library (stk_option_list), so that a new one is a flag and
 * has help without a line here.  --name value and --name=value are the same; "--" ends the
 * options. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct given {
    char name[32]; /* with _ for - */
    const char *value;
    int loader;
} given;

struct cli_args {
    const char **word;
    size_t n_words, n_before; /* n_before: words before "--", where there is one */
    int parted;               /* there is one */
    given *opt;
    size_t n_opts;
};

static const cli_option everywhere[] = {
    { "op", "FILE", NULL, "ops of your own for chains, from this shared object; may be repeated" },
    { "store-cache", "DIR", "$STOKER_STORE_CACHE", "keep remote data in this folder" },
    { "store-cache-limit", "SIZE", "most of what is free", "how much it may hold: 500GB" },
    { "json", NULL, NULL, "print one JSON object for programs" },
    { "help", NULL, NULL, "print this" },
    { NULL },
};

typedef struct known {
    int found, takes_value, flag, loader;
} known;

/* ---- names ---- */

static void spell(char *dst, size_t size, const char *name, char from, char to)
{
    size_t i = 0;

    for (; name[i] && i + 1 < size; i++)
        dst[i] = name[i] == from ? to : name[i];
    dst[i] = 0;
}

/* People write --workers; the field is called num_workers, as in PyTorch. */
static const char *short_name(const char *field)
{
    return strcmp(field, "num_workers") ? field : "workers";
}

static const cli_option *find_in(const cli_option *table, const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name))
            return table;
    return NULL;
}

static known lookup(const cli_command *cmd, const char *name)
{
    const cli_option *o = find_in(cmd->options, name);
    stk_option_info info;
    char field[32];

    /* First, since a command may have a row for one of them: its own default in the help. */
    spell(field, sizeof field, strcmp(name, "workers") ? name : "num_workers", '-', '_');
    for (size_t i = 0; cmd->loader && stk_option_list(i, &info) == 0; i++)
        if (!strcmp(info.name, field))
            return (known){ .found = 1, .takes_value = !info.flag, .flag = info.flag, .loader = 1 };
    if (!o)
        o = find_in(everywhere, name);
    return (known){ .found = o != NULL, .takes_value = o && o->value };
}

/* Levenshtein's distance with two rows; names are short. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(b), row[40], last, up;

    if (n >= 40)
        return 40;
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 1; *a; a++, i++) {
        last = row[0];
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            up = row[k];
            last += *a != b[k - 1];
            row[k] = last < up + 1 ? last : up + 1;
            row[k] = row[k] < row[k - 1] + 1 ? row[k] : row[k - 1] + 1;
            last = up;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2;

    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, names[i]);

        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static int unknown_option(const cli_command *cmd, const char *name)
{
    static char spelled[64][32];
    const char *names[64], *near;
    stk_option_info info;
    size_t n = 0;

    for (const cli_option *o = cmd->options; o && o->name && n < 32; o++)
        names[n++] = o->name;
    for (const cli_option *o = everywhere; o->name; o++)
        names[n++] = o->name;
    for (size_t i = 0; cmd->loader && n < 64 && stk_option_list(i, &info) == 0; i++) {
        spell(spelled[n], sizeof spelled[n], short_name(info.name), '_', '-');
        names[n] = spelled[n];
        n++;
    }
    near = cli_nearest(name, names, n);
    if (near)
        return cli_usage("%s has no option --%s; did you mean --%s?", cmd->name, name, near);
    return cli_usage("%s has no option --%s; 'stoker %s --help' lists them", cmd->name, name,
                     cmd->name);
}

/* ---- parsing ---- */

static int take_option(cli_args *a, const cli_command *cmd, char **argv, int *at)
{
    const char *text = argv[*at] + 2, *equals = strchr(text, '=');
    char name[32];
    known k;
    given *g = &a->opt[a->n_opts];

    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - text : 31), text);
    k = lookup(cmd, name);
    if (!k.found)
        return unknown_option(cmd, name);
    if (equals && !k.takes_value && !k.flag)
        return cli_usage("--%s takes no value", name);
    if (!equals && k.takes_value && !argv[*at + 1])
        return cli_usage("--%s needs a value; 'stoker %s --help' shows which", name, cmd->name);
    g->loader = k.loader;
    spell(g->name, sizeof g->name, k.loader && !strcmp(name, "workers") ? "num_workers" : name, '-',
          '_');
    g->value = equals ? equals + 1 : k.takes_value ? argv[++*at] : k.loader ? "true" : "";
    a->n_opts++;
    return 0;
}

static int check_words(const cli_args *a, const cli_command *cmd)
{
    if (a->n_words < (size_t)cmd->min_words)
        return cli_usage(
            "%s needs %s; try 'stoker %s --help'", cmd->name,
            cmd->max_words < 0 ? "at least one path, folder or pattern" : "an argument", cmd->name);
    if (cmd->max_words >= 0 && a->n_words > (size_t)cmd->max_words)
        return cli_usage("%s takes no '%s'; try 'stoker %s --help'", cmd->name,
                         a->word[cmd->max_words], cmd->name);
    return 0;
}

int cli_args_parse(cli_args **out, const cli_command *cmd, int argc, char **argv)
{
    cli_args *a = calloc(1, sizeof *a);
    int rc = 0, only_words = 0;

    *out = a;
    if (a) {
        a->word = calloc((size_t)argc + 1, sizeof *a->word);
        a->opt = calloc((size_t)argc + 1, sizeof *a->opt);
    }
    if (!a || !a->word || !a->opt)
        return cli_usage("out of memory");
    for (int i = 0; i < argc && rc == 0; i++) {
        if (!only_words && !strcmp(argv[i], "-h"))
            argv[i] = (char *)"--help";
        if (!only_words && !strcmp(argv[i], "-o") && find_in(cmd->options, "output"))
            argv[i] = (char *)"--output";
        if (!only_words && !strcmp(argv[i], "--"))
            only_words = a->parted = 1, a->n_before = a->n_words;
        else if (!only_words && !strncmp(argv[i], "--", 2))
            rc = take_option(a, cmd, argv, &i);
        else if (!only_words && argv[i][0] == '-' && argv[i][1])
            rc = cli_usage("options begin with two dashes: '%s'; try 'stoker %s --help'", argv[i],
                           cmd->name);
        else
            a->word[a->n_words++] = argv[i];
    }
    if (rc == 0 && cli_value(a, "help")) {
        cli_help(cmd, stdout);
        return -1;
    }
    return rc ? rc : check_words(a, cmd);
}

void cli_args_free(cli_args *a)
{
    if (!a)
        return;
    free(a->word);
    free(a->opt);
    free(a);
}

size_t cli_words(const cli_args *a)
{
    return a->n_words;
}

const char *const *cli_words_after(const cli_args *a)
{
    return a->parted ? a->word + a->n_before : NULL;
}

const char *const *cli_word_list(const cli_args *a)
{
    return a->word;
}

const char *cli_value_at(const cli_args *a, const char *name, size_t nth)
{
    char field[32];

    spell(field, sizeof field, name, '-', '_');
    for (size_t i = 0; i < a->n_opts; i++)
        if (!strcmp(a->opt[i].name, field) && nth-- == 0)
            return a->opt[i].value;
    return NULL;
}

const char *cli_value(const cli_args *a, const char *name)
{
    const char *last = NULL, *v;

    for (size_t i = 0; (v = cli_value_at(a, name, i)); i++)
        last = v;
    return last;
}

int cli_number(const cli_args *a, const char *name, double low, double high, double *value)
{
    const char *text = cli_value(a, name);
    char *end;

    if (!text)
        return 0;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || *value < low || *value > high)
        return cli_usage("--%s is a number from %g to %g, not \"%s\"", name, low, high, text);
    return 0;
}

int cli_size_value(const cli_args *a, const char *name, uint64_t *value)
{
    const char *text = cli_value(a, name);

    if (text && (stk_size_parse(text, value) < 0 || *value < 1 || *value > INT64_MAX))
        return cli_usage("--%s is a size like 500MB or 1GiB, not \"%s\"", name, text);
    return 0;
}

int cli_loader_options(const cli_args *a, stk_loader_options *opt)
{
    stk_error err;

    for (size_t i = 0; i < a->n_opts; i++)
        if (a->opt[i].loader && stk_option_set(opt, a->opt[i].name, a->opt[i].value, &err) < 0)
            return cli_failed(&err);
    return 0;
}

/* ---- help ---- */

#define HELP_COLUMN 26
#define HELP_WIDTH 96

/* `text` from column `indent` on, broken between words. */
static void wrap(FILE *to, const char *text, size_t indent)
{
    size_t column = indent;

    while (*text) {
        size_t n = strcspn(text, " ");

        if (column + n > HELP_WIDTH && column > indent) {
            cli_put(to, "\n%*s", (int)indent, "");
            column = indent;
        }
        cli_put(to, "%.*s", (int)n, text);
        column += n + 1;
        text += n;
        while (*text == ' ')
            text++;
        if (*text && column + strcspn(text, " ") <= HELP_WIDTH)
            fputc(' ', to);
    }
}

static void help_line(FILE *to, const cli_command *cmd, const cli_option *o)
{
    char text[512];
    int n = (int)(4 + strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0));

    cli_put(to, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    if (n > HELP_COLUMN - 2) {
        cli_put(to, "\n");
        n = 0;
    }
    cli_put(to, "%*s", HELP_COLUMN - n, "");
    snprintf(text, sizeof text, "%s%s%s%s", o->help, o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "");
    wrap(to, text, HELP_COLUMN);
    fputc('\n', to);
}

void cli_each_option(FILE *to, const cli_command *cmd, cli_option_fn *fn)
{
    for (const cli_option *o = cmd->options; o && o->name; o++)
        fn(to, cmd, o);
    for (const cli_option *o = everywhere; o->name; o++)
        fn(to, cmd, o);
}

void cli_each_loader_option(FILE *to, const cli_command *cmd, cli_option_fn *fn)
{
    stk_option_info info;

    for (size_t i = 0; cmd->loader && stk_option_list(i, &info) == 0; i++) {
        int words = !strstr(info.values, "..");
        char name[32], value[64];
        cli_option o = { .name = name, .help = info.help, .fallback = info.fallback };

        spell(name, sizeof name, short_name(info.name), '_', '-');
        if (find_in(cmd->options, name))
            continue;
        spell(value, sizeof value, info.values, ' ', '|');
        o.value = info.flag ? NULL : words ? value : strstr(info.values, "EB") ? "SIZE" : "N";
        fn(to, cmd, &o);
    }
}

void cli_help(const cli_command *cmd, FILE *to)
{
    cli_put(to, "Usage: stoker %s %s\n\n", cmd->name, cmd->synopsis);
    cli_put_ours(to, cmd->about);
    cli_put_ours(to, "\n\nExamples:\n");
    cli_put_ours(to, cmd->examples);
    cli_put_ours(to, "\nOptions:\n");
    cli_each_option(to, cmd, help_line);
    if (cmd->loader)
        cli_put_ours(to, "\nLoader options (the same names as in Python):\n");
    cli_each_loader_option(to, cmd, help_line);
}
