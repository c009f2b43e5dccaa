/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - many test programs in one file: `units NAME` runs what was NAME's main().
 *
 * Each links with the whole library, and linking them one by one took longer than running them.
 * Meson renames every main() to NAME_main and passes TESTS, a list of TEST(NAME).  Every test is
 * still a process of its own, with its own exit status: 77 skips. */
#include <stdio.h>
#include <string.h>

#define TEST(name) int name##_main(void);
TESTS
#undef TEST

#define TEST(name) { #name, name##_main },
static const struct {
    const char *name;
    int (*run)(void);
} tests[] = { TESTS };

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc == 2 && !strcmp(argv[1], tests[i].name))
            return tests[i].run();
    fprintf(stderr, "usage: %s NAME, one of:\n", argv[0]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        fprintf(stderr, "  %s\n", tests[i].name);
    return 2;
}
