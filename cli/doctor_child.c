/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_child.c - stoker doctor -- python train.py: an unedited script is watched.
 *
 * The child's Python finds a sitecustomize module first that asks stoker._watch to watch the
 * loaders of PyTorch and of stoker; what they saw is written to a file as the script goes on, so
 * that there is something to say also when it crashes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "doctor.h"

static const char hook[] = "import os, sys\n"
                           "_here = os.path.dirname(os.path.abspath(__file__))\n"
                           "try:\n"
                           "    from stoker import _watch\n"
                           "    _watch.install(os.environ['STOKER_DOCTOR'])\n"
                           "except Exception as e:\n"
                           "    with open(os.environ['STOKER_DOCTOR'] + '.why', 'w') as f:\n"
                           "        f.write(f'{type(e).__name__}: {e}')\n"
                           "sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _here]\n"
                           "_me = sys.modules.pop('sitecustomize', None)\n"
                           "try:\n"
                           "    import sitecustomize\n" /* the one that ours hid */
                           "except ImportError:\n"
                           "    pass\n"
                           "finally:\n"
                           "    sys.modules.setdefault('sitecustomize', _me)\n";

typedef struct place {
    char dir[300], hook[340], report[340], why[360];
} place;

static int make_place(place *p)
{
    const char *tmp = getenv("TMPDIR");
    FILE *f;

    snprintf(p->dir, sizeof p->dir, "%.200s/stoker-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(p->dir)) {
        cli_put(stderr, "stoker: no folder could be made in %s: %s\n", tmp && *tmp ? tmp : "/tmp",
                strerror(errno));
        return CLI_FAILED;
    }
    snprintf(p->hook, sizeof p->hook, "%s/sitecustomize.py", p->dir);
    snprintf(p->report, sizeof p->report, "%s/report", p->dir);
    snprintf(p->why, sizeof p->why, "%s.why", p->report);
    f = fopen(p->hook, "we");
    if (f && fwrite(hook, 1, strlen(hook), f) == strlen(hook) && fclose(f) == 0)
        return 0;
    cli_put(stderr, "stoker: %s could not be written: %s\n", p->hook, strerror(errno));
    return CLI_FAILED;
}

static void remove_place(const place *p)
{
    char path[400];

    static const char *const left[] = { "sitecustomize.py", "report", "report.why", "report.json" };

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        snprintf(path, sizeof path, "%s/%s", p->dir, left[i]);
        unlink(path);
    }
    rmdir(p->dir);
}

static void run_there(const place *p, const char *const *command)
{
    const char *old = getenv("PYTHONPATH");
    size_t len = strlen(p->dir) + (old ? strlen(old) : 0) + 2;
    char *path = malloc(len);

    if (path) {
        snprintf(path, len, "%s%s%s", p->dir, old && *old ? ":" : "", old ? old : "");
        setenv("PYTHONPATH", path, 1);
        setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
        setenv("STOKER_DOCTOR", p->report, 1);
        execvp(command[0], (char *const *)command);
    }
    cli_put(stderr, "stoker: %s could not be run: %s\n", command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* A file to a stream, as text of ours; 0: there is none. */
static int copy(const char *path, FILE *to)
{
    FILE *f = fopen(path, "re");
    char line[4096];

    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (cli_is_harmless(line, strlen(line)))
            cli_put_ours(to, line);
        else
            cli_put_shown(to, line, strlen(line));
    fclose(f);
    return 1;
}

static void say(const place *p, int json)
{
    char path[400];

    snprintf(path, sizeof path, "%s%s", p->report, json ? ".json" : "");
    if (!json)
        fputs("\n", stdout);
    if (copy(path, stdout))
        return;
    fputs("stoker: nothing was seen: ", stderr);
    if (!copy(p->why, stderr))
        fputs("the command ran no loop over a PyTorch DataLoader or a stoker.Loader in Python",
              stderr);
    fputs("; stoker must be importable there\n", stderr);
}

int doctor_child(const char *const *command, int json)
{
    place p;
    pid_t child;
    int status = 0, rc = make_place(&p);

    if (rc)
        return rc;
    fflush(stdout);
    child = fork();
    if (child == 0)
        run_there(&p, command);
    if (child < 0) {
        cli_put(stderr, "stoker: no process could be started: %s\n", strerror(errno));
        remove_place(&p);
        return CLI_FAILED;
    }
    signal(SIGINT, SIG_IGN); /* the terminal sends it to the child as well, whose end we tell of */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    signal(SIGINT, SIG_DFL);
    say(&p, json);
    remove_place(&p);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
