/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c - ~/.aws/config and ~/.aws/credentials. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/key_sources.h"

#define FILE_MAX ((size_t)4 << 20)

static size_t trimmed(const char *s, size_t len, const char **out)
{
    while (len && isspace((unsigned char)*s)) {
        s++;
        len--;
    }
    while (len && isspace((unsigned char)s[len - 1]))
        len--;
    *out = s;
    return len;
}

/* "[profile  x]" and "[x]" of `section`, whose words are apart by any blanks. */
static int is_section(const char *s, size_t len, const char *section)
{
    const char *end = memchr(s, ']', len);
    size_t i = 1, n = end ? (size_t)(end - s) : 0;

    while (i < n && isspace((unsigned char)s[i]))
        i++;
    for (; *section; section++) {
        if (*section == ' ') {
            if (i >= n || !isspace((unsigned char)s[i]))
                return 0;
            while (i < n && isspace((unsigned char)s[i]))
                i++;
        } else if (i >= n || s[i++] != *section) {
            return 0;
        }
    }
    while (i < n && isspace((unsigned char)s[i]))
        i++;
    return n && i == n;
}

static int take_value(const char *line, size_t len, const char *name, char *out, size_t size)
{
    const char *eq = memchr(line, '=', len), *s;
    size_t n = eq ? trimmed(line, (size_t)(eq - line), &s) : 0;

    if (!eq || n != strlen(name) || memcmp(s, name, n) != 0)
        return 0;
    n = trimmed(eq + 1, len - (size_t)(eq + 1 - line), &s);
    for (size_t i = 1; i + 1 < n; i++) /* " # comment" */
        if ((s[i] == '#' || s[i] == ';') && isspace((unsigned char)s[i - 1])) {
            n = trimmed(s, i, &s);
            break;
        }
    if (n >= size || memchr(s, 0, n))
        return 0;
    memcpy(out, s, n);
    out[n] = 0;
    return 1;
}

int stk_ini_find(stk_bytes text, const char *section, const char *name, char *out, size_t size)
{
    const char *p = (const char *)text.data, *end = p + text.len;
    int inside = 0, found = 0;

    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *s;
        size_t len = (size_t)((stop ? stop : end) - p);
        int nested = isspace((unsigned char)*p);
        size_t n = trimmed(p, len, &s);

        if (n && *s == '[')
            inside = is_section(s, n, section);
        else if (n && inside && *s != '#' && *s != ';' && !nested && name)
            found |= take_value(s, n, name, out, size);
        found |= inside && !name;
        p += len + 1;
    }
    return found;
}

static int read_whole(const char *path, stk_bytes *out)
{
    FILE *f = fopen(path, "re");
    uint8_t *data = NULL;
    size_t n = 0;

    *out = (stk_bytes){ 0 };
    if (!f)
        return 0;
    data = stk_alloc(65536);
    for (size_t cap = 65536; data;) {
        size_t got = fread(data + n, 1, cap - n, f);
        uint8_t *grown;

        n += got;
        if (!got || cap >= FILE_MAX)
            break;
        grown = stk_grow(data, n, cap * 2);
        if (!grown)
            break;
        data = grown;
        cap *= 2;
    }
    fclose(f);
    *out = (stk_bytes){ data, n };
    return data != NULL;
}

static void file_of(const char *variable, const char *usual, char *path, size_t size)
{
    const char *given = getenv(variable), *home = getenv("HOME");

    if (given && *given)
        snprintf(path, size, "%s", given);
    else
        snprintf(path, size, "%s/.aws/%s", home ? home : "", usual);
}

typedef struct files {
    stk_bytes config, credentials;
    char section[160]; /* of the config file */
    const char *name;
} files;

static void files_open(files *f, const char *name)
{
    char path[1200];

    f->name = name;
    if (!strcmp(name, "default"))
        snprintf(f->section, sizeof f->section, "default");
    else
        snprintf(f->section, sizeof f->section, "profile %.140s", name);
    file_of("AWS_CONFIG_FILE", "config", path, sizeof path);
    (void)read_whole(path, &f->config);
    file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials", path, sizeof path);
    (void)read_whole(path, &f->credentials);
}

static void file_wipe(stk_bytes b)
{
    if (b.data)
        explicit_bzero((uint8_t *)(uintptr_t)b.data, b.len);
    stk_free((uint8_t *)(uintptr_t)b.data);
}

static void files_close(files *f)
{
    file_wipe(f->config);
    file_wipe(f->credentials);
}

/* Credentials go before config, as in AWS's tools. */
static int setting(const files *f, const char *name, char *out, size_t size)
{
    if (size)
        out[0] = 0;
    return stk_ini_find(f->credentials, f->name, name, out, size) ||
           stk_ini_find(f->config, f->section, name, out, size);
}

void stk_profile_setting(const stk_store *s, const char *name, char *out, size_t size)
{
    const char *profile = s->o.profile ? s->o.profile : getenv("AWS_PROFILE");
    files f = { 0 };

    files_open(&f, profile && *profile ? profile : "default");
    (void)setting(&f, name, out, size);
    files_close(&f);
}

void stk_profile_read(const char *name, stk_profile *out)
{
    char text[1024];
    files f = { 0 };

    memset(out, 0, sizeof *out);
    out->name = name;
    files_open(&f, name);
    out->found = setting(&f, NULL, NULL, 0);
    if (setting(&f, "aws_access_key_id", out->id, sizeof out->id) &&
        !setting(&f, "aws_secret_access_key", out->secret, sizeof out->secret))
        out->id[0] = 0;
    (void)setting(&f, "aws_session_token", out->token, sizeof out->token);
    (void)setting(&f, "role_arn", out->role_arn, sizeof out->role_arn);
    (void)setting(&f, "source_profile", out->source_profile, sizeof out->source_profile);
    (void)setting(&f, "credential_source", out->credential_source, sizeof out->credential_source);
    (void)setting(&f, "role_session_name", out->session, sizeof out->session);
    (void)setting(&f, "external_id", out->external_id, sizeof out->external_id);
    (void)setting(&f, "web_identity_token_file", out->token_file, sizeof out->token_file);
    (void)setting(&f, "credential_process", out->process, sizeof out->process);
    out->sso = setting(&f, "sso_session", text, sizeof text) ||
               setting(&f, "sso_start_url", text, sizeof text) ||
               setting(&f, "login_session", text, sizeof text);
    files_close(&f);
}
