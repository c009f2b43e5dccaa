/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what all commands share: a table for options and help, and output for users and programs.
 *
 * A command is a table and a function.  Results go to stdout, everything else (errors, the progress
 * bar) to stderr; an error is one line.  Exit codes are for scripts.
 *
 * Names in data may hold anything, so text is only printed by out.c: cli_put() for users, cli_json
 * for programs.  Neither passes a control character to a terminal or a parser. */
#ifndef STOKER_CLI_H
#define STOKER_CLI_H

#include <stdio.h>
#include <stoker/stoker.h>

enum {
    CLI_OK = 0,
    CLI_BAD = 1,    /* the command worked and found something bad */
    CLI_USAGE = 2,  /* the command line, an option or a chain is wrong */
    CLI_FAILED = 3, /* data or the system failed */
};

typedef struct cli_option {
    const char *name;     /* without the dashes */
    const char *value;    /* what it takes, for the help; NULL: nothing */
    const char *fallback; /* for the help; NULL: none */
    const char *help;
} cli_option;

typedef struct cli_args cli_args;

typedef struct cli_command {
    const char *name, *synopsis, *summary;
    const char *about;         /* what it does and when one wants it */
    const char *examples;      /* lines */
    const cli_option *options; /* ends with a NULL name */
    int loader;                /* takes the loader's options as well */
    int min_words, max_words;  /* words that are no options; max -1: any number */
    int (*run)(const cli_args *args);
} cli_command;

extern const cli_command cli_index, cli_pack, cli_check, cli_ls, cli_cat, cli_ops, cli_bench,
    cli_ledger, cli_doctor, cli_plan, cli_describe, cli_drift, cli_top, cli_cache;

/* ---- args.c: the command line, checked against the command's table ---- */

/* 0; CLI_USAGE after an error was printed; -1 after help was printed.  End with cli_args_free(). */
int cli_args_parse(cli_args **out, const cli_command *cmd, int argc, char **argv);
void cli_args_free(cli_args *a);
size_t cli_words(const cli_args *a);
const char *const *cli_word_list(const cli_args *a);
const char *const *cli_words_after(const cli_args *a); /* "--", up to a NULL; NULL: there is none */
const char *cli_value(const cli_args *a,
                      const char *name); /* the last one; "" for a flag; NULL: not given */
const char *cli_value_at(const cli_args *a, const char *name,
                         size_t i); /* the i-th of several; or NULL */

/* A number from an option; `fallback` if it was not given.  CLI_USAGE when it is none in [low,
 * high]. */
int cli_number(const cli_args *a, const char *name, double low, double high, double *value);

/* Bytes from an option, as stk_size_parse() reads them; at least 1.  CLI_USAGE when it is not a
 * size. */
int cli_size_value(const cli_args *a, const char *name, uint64_t *value);

/* Sets the loader's options that were given.  CLI_USAGE: an error was printed. */
int cli_loader_options(const cli_args *a, stk_loader_options *opt);

void cli_help(const cli_command *cmd, FILE *to);
/* Every option that the command takes: its own and those of all commands; those of the loader. */
typedef void cli_option_fn(FILE *to, const cli_command *cmd, const cli_option *o);
void cli_each_option(FILE *to, const cli_command *cmd, cli_option_fn *fn);
void cli_each_loader_option(FILE *to, const cli_command *cmd, cli_option_fn *fn);
const char *cli_nearest(const char *word, const char *const *names, size_t n); /* or NULL */

/* ---- manual.c: what is installed beside the command ---- */

/* A man page of `stoker` (name NULL) or of one command, to stdout. */
int cli_manual(const char *name, const cli_command *const *c, size_t n);
/* A completion file for bash, zsh or fish, to stdout. */
int cli_completion(const char *shell, const cli_command *const *c, size_t n);

/* ---- out.c: lines for people, JSON for programs ---- */

/* printf() whose strings (%s) are shown as stk_text_show() writes them.  The format is ours and
 * goes out as it is.  Conversions: d u x c s f g, with flags, width, precision and l ll z. */
void cli_put(FILE *to, const char *fmt, ...) STK_PRINTF(2, 3);
void cli_put_shown(FILE *to, const char *text, size_t len); /* one such string */
void cli_put_ours(FILE *to, const char *text);              /* lines of our own, as they are */
/* 1: these bytes may go to a terminal: they are lines of text without control characters. */
int cli_is_harmless(const char *text, size_t len);

int cli_usage(const char *fmt, ...) STK_PRINTF(1, 2); /* one line to stderr; returns CLI_USAGE */
int cli_failed(const stk_error *err);                 /* the same for an error; its exit code */
void cli_log(void *cookie, stk_log_level level,
             const char *line); /* an stk_log_fn: warnings to stderr */

typedef struct cli_json {
    FILE *to;
    int depth, filled; /* filled: true if this object or list has an element already */
    int lines;         /* true for JSON lines: one line per object */
} cli_json;
/* `key` is NULL inside of lists.  Open and close with { } or [ ].  Keys and texts may hold
 * anything: what is not UTF-8 becomes U+FFFD, a byte each; what a terminal would obey is written
 * as \uXXXX. */
void cli_json_open(cli_json *j, const char *key, char bracket);
void cli_json_close(cli_json *j, char bracket);
void cli_json_text(cli_json *j, const char *key, const char *text); /* NULL: null */
void cli_json_bytes(cli_json *j, const char *key, const char *text, size_t len);
int cli_is_utf8(const char *text, size_t len);
void cli_json_count(cli_json *j, const char *key, uint64_t v);
void cli_json_real(cli_json *j, const char *key, double v);
void cli_json_bool(cli_json *j, const char *key, int v);

typedef struct cli_bar {
    const char *title;
    double start, drawn;
    int on;
} cli_bar;
void cli_bar_open(cli_bar *b, const char *title); /* silent where stderr is no terminal */
void cli_bar_draw(cli_bar *b, double share, const char *note);
void cli_bar_close(cli_bar *b);

/* ---- file.c: a file that appears whole or not at all ---- */

typedef struct cli_file {
    FILE *to;
    char *path, *tmp; /* tmp NULL: `path` is written directly (a pipe, a device) */
} cli_file;
int cli_file_open(cli_file *f, const char *path); /* 0, or CLI_FAILED after an error was printed */
/* keep: gives the file its name; else removes it.  0, or CLI_FAILED after an error was printed. */
int cli_file_close(cli_file *f, int keep);

/* ---- seek.c: prints figures of seek points ---- */

/* Prints how many JPEGs have points, how many have none, and the bytes of both. */
void cli_put_seek(uint64_t jpegs, uint64_t without, uint64_t jpeg_bytes, uint64_t seek_bytes);
void cli_json_seek(cli_json *j, uint64_t jpegs, uint64_t without, uint64_t jpeg_bytes,
                   uint64_t seek_bytes);
int cli_seek_progress(void *bar, uint64_t done, uint64_t total); /* an stk_progress_fn */

/* ---- values.c: fields that have a type, as text ---- */

/* "3", "[0.5, 1]": values of the type, whose dtype is not 0; NULL: no memory.  End with free(). */
char *cli_value_text(const stk_field_type *t, const void *data, size_t len);
/* 1: the field of this name has a type, which *t is set to. */
int cli_field_type(const stk_dataset *ds, const char *name, stk_field_type *t);
/* The key of a sample; for data without keys its number, written to `text`. */
const char *cli_key(const stk_dataset *ds, uint64_t id, char text[24], size_t *len);

/* ---- picture.c: one decoded value as a file ---- */

/* How "ppm", "png" and "npy" are written; NULL: no such kind. */
typedef int (*cli_writer)(FILE *to, const stk_tensor *t); /* 0, or CLI_USAGE (said why) */
cli_writer cli_writer_of(const char *kind);

int cli_check_rules(const cli_args *a); /* cmd_describe.c: check --rules FILE; an exit code */

double cli_seconds(void);                       /* a clock */
const char *cli_many(char buf[32], uint64_t n); /* "1,281,167" */

#endif
