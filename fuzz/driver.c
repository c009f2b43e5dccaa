/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - replays files through a fuzz target without libFuzzer, so that the ordinary suite
 * runs the corpus.
 *
 *   replay TARGET FILE|FOLDER...   exit 0: all were replayed; 2: no such target, or no file
 *
 * A crash, a failed check or a sanitizer's report ends the program; the current file is named
 * before it is run.  Meson passes TARGETS, a list of TARGET(name). */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define TARGET(name) int replay_##name(const uint8_t *data, size_t size);
TARGETS
#undef TARGET

#define TARGET(name) { #name, replay_##name },
static const struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} targets[] = { TARGETS };

static int replay_file(const struct target *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    struct stat st;
    size_t n;

    if (!f || fstat(fileno(f), &st)) {
        perror(path);
        exit(1);
    }
    data = malloc((size_t)st.st_size +
                  1); /* exactly as long as the input under ASan, but never NULL */
    if (!data)
        exit(1);
    n = fread(data, 1, (size_t)st.st_size, f);
    fclose(f);
    data = realloc(data, n ? n : 1);
    printf("%s: %zu bytes\n", path, n);
    fflush(stdout);
    t->run(data, n);
    free(data);
    return 1;
}

static int replay(const struct target *t, const char *path)
{
    char inner[4096];
    struct dirent *e;
    struct stat st;
    DIR *d;
    int n = 0;

    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return replay_file(t, path);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        n += replay(t, inner);
    }
    if (d)
        closedir(d);
    return n;
}

static const struct target *find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(name, targets[i].name))
            return &targets[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct target *t = argc > 1 ? find(argv[1]) : NULL;
    int n = 0;

    if (!t) {
        fprintf(stderr, "%s: no such fuzz target\n", argc > 1 ? argv[1] : "(none)");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        n += replay(t, argv[i]);
    printf("%d inputs\n", n);
    return n ? 0 : 2;
}
