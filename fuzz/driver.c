/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - replays files through a fuzz target without libFuzzer, so that the ordinary suite
 * runs the corpus.
 *
 *   replay_NAME FILE|FOLDER...     exit 0: all went through; 2: nothing there to replay
 *
 * A crash, a failed check or a sanitizer's report ends the program; the file in hand is named
 * before it is run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replay_file(const char *path)
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
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

static int replay(const char *path)
{
    char inner[4096];
    struct dirent *e;
    struct stat st;
    DIR *d;
    int n = 0;

    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return replay_file(path);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        n += replay(inner);
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    printf("%d inputs\n", n);
    return n ? 0 : 2;
}
