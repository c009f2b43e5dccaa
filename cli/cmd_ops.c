/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ops.c - stoker ops: everything that can be named in chains and URLs, from the registry. */
#include <string.h>

#include <stoker/plugin.h>

#include "cli.h"

static const struct kind {
    stk_plugin_kind kind;
    const char *name, *title;
} kinds[] = {
    { STK_PLUGIN_SOURCE, "sources", "Sources (where bytes are)" },
    { STK_PLUGIN_FORMAT, "formats", "Formats (how samples are stored in them)" },
    { STK_PLUGIN_DATA, "data", "Kinds of data (tables and arrays)" },
    { STK_PLUGIN_CODEC, "codecs", "Codecs (the head of a chain: bytes to values)" },
    { STK_PLUGIN_DECODER, "decoders", "Decoders (pictures, found by content)" },
    { STK_PLUGIN_OP, "ops", "Ops (the rest of a chain)" },
};

#define N_KINDS (sizeof kinds / sizeof *kinds)

static const char *type_name(stk_arg_type t)
{
    static const char *const names[] = {
        [STK_ARG_INT] = "integer",
        [STK_ARG_FLOAT] = "number",
        [STK_ARG_BOOL] = "true|false",
        [STK_ARG_NAME] = "name",
        [STK_ARG_NAMES] = "names",
        [STK_ARG_INTS] = "integer or tuple",
        [STK_ARG_FLOATS] = "number or tuple",
        [STK_ARG_ANY] = "name or numbers",
        [STK_ARG_CHAIN] = "chain",
        [STK_ARG_CHAINS] = "chains",
    };

    return (size_t)t < sizeof names / sizeof *names && names[t] ? names[t] : "?";
}

/* Entry i of a kind, if it is the one that was asked for. */
static int next(const struct kind *k, size_t *i, const char *only, stk_plugin_info *out)
{
    while (stk_plugin_list(k->kind, (*i)++, out) == 0)
        if (!only || !strcmp(only, out->name))
            return 1;
    return 0;
}

/* ---- JSON ---- */

static void json_args(cli_json *j, const stk_arg *arg)
{
    cli_json_open(j, "args", '[');
    for (; arg && arg->name; arg++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", arg->name);
        cli_json_text(j, "type", type_name(arg->type));
        cli_json_bool(j, "required", !arg->fallback);
        cli_json_text(j, "default", arg->fallback && *arg->fallback ? arg->fallback : NULL);
        cli_json_text(j, "help", arg->help);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(const char *only)
{
    cli_json j = { .to = stdout };
    stk_plugin_info info;

    cli_json_open(&j, NULL, '{');
    for (size_t k = 0; k < N_KINDS; k++) {
        cli_json_open(&j, kinds[k].name, '[');
        for (size_t i = 0; next(&kinds[k], &i, only, &info);) {
            cli_json_open(&j, NULL, '{');
            cli_json_text(&j, "name", info.name);
            cli_json_text(&j, "help", info.help);
            if (kinds[k].kind == STK_PLUGIN_CODEC || kinds[k].kind == STK_PLUGIN_OP)
                json_args(&j, info.args);
            cli_json_close(&j, '}');
        }
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, '}');
}

/* ---- people ---- */

static void print_signature(const stk_plugin_info *info)
{
    const char *sep = "(";

    cli_put(stdout, "%s", info->name);
    for (const stk_arg *a = info->args; a && a->name; a++, sep = ", ") {
        cli_put(stdout, "%s%s%s", sep, a->name, a->type == STK_ARG_NAMES ? ", ..." : "");
        if (a->fallback && *a->fallback)
            cli_put(stdout, "=%s", a->fallback);
    }
    if (*sep == ',')
        fputc(')', stdout);
}

static void print_args(const stk_arg *arg)
{
    for (; arg && arg->name; arg++) {
        cli_put(stdout, "      %-10s %-17s %s", arg->name, type_name(arg->type),
                arg->help ? arg->help : "");
        if (!arg->fallback)
            fputs(" (required)", stdout);
        else if (*arg->fallback)
            cli_put(stdout, " (default: %s)", arg->fallback);
        fputc('\n', stdout);
    }
}

static void print_all(const char *only)
{
    stk_plugin_info info;
    int sections = 0;

    for (size_t k = 0; k < N_KINDS; k++) {
        int entries = 0;

        for (size_t i = 0; next(&kinds[k], &i, only, &info);) {
            if (!entries++)
                cli_put(stdout, sections++ ? "\n%s\n" : "%s\n", kinds[k].title);
            fputs("  ", stdout);
            print_signature(&info);
            cli_put(stdout, "\n      %s\n", info.help ? info.help : "");
            print_args(info.args);
        }
    }
}

static int check_name(const char *name)
{
    const char *names[256], *near;
    stk_plugin_info info;
    size_t n = 0;

    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t i = 0; n < 256 && stk_plugin_list(kinds[k].kind, i, &info) == 0; i++) {
            if (!strcmp(info.name, name))
                return 0;
            names[n++] = info.name;
        }
    near = cli_nearest(name, names, n);
    if (near)
        return cli_usage("nothing is called '%s'; did you mean '%s'?", name, near);
    return cli_usage("nothing is called '%s'; 'stoker ops' lists all there is", name);
}

static int run(const cli_args *a)
{
    const char *only = cli_words(a) ? cli_word_list(a)[0] : NULL;

    if (only && check_name(only))
        return CLI_USAGE;
    if (cli_value(a, "json"))
        print_json(only);
    else
        print_all(only);
    return CLI_OK;
}

static const cli_option options[] = { { NULL } };

const cli_command cli_ops = {
    .name = "ops",
    .synopsis = "[NAME] [options]",
    .summary = "list formats, codecs and ops with their arguments",
    .about = "Lists what this build can read and do: sources, formats, codecs, decoders and ops, "
             "with the\n"
             "arguments they take.  Use it while writing a chain.  A chain begins with a codec and "
             "goes on with\n"
             "ops:  from(jpg) | image | random_resized_crop(224) | hflip | normalize(imagenet) | "
             "to(f32)",
    .examples = "  stoker ops\n"
                "  stoker ops random_resized_crop\n",
    .options = options,
    .max_words = 1,
    .run = run,
};
