/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.c - hides the secrets that an address may hold: "http://me:pw@host/a?sig=x"
 * is shown with stars for the user and dots for the query.  Of a connection string of Azure, and of
 * a SAS token, the values of keys and signatures are dots, wherever they are.
 *
 * Everything that shows an address calls this: errors, log lines, reprs, pages, side files.  It
 * works on whole texts, because an address is often a part of one.  Nothing grows, so it works in
 * place.  A query that hidden.c made of a hash, "?0123456789abcdef~", is a name and stays. */
#include <ctype.h>
#include <stoker/base.h>
#include <string.h>
#include <strings.h>

#define HASH_LEN 16u

/* How much of `s` belongs to an address: up to white space, a quote or a bracket. */
static size_t address_len(const char *s)
{
    return strcspn(s, " \t\r\n\"'<>`|\\");
}

static int is_http(const char *text, const char *colon)
{
    return (colon - text >= 4 && !strncasecmp(colon - 4, "http", 4)) ||
           (colon - text >= 5 && !strncasecmp(colon - 5, "https", 5));
}

static int is_name_hash(const char *query)
{
    return strspn(query, "0123456789abcdef") == HASH_LEN && query[HASH_LEN] == '~';
}

/* Replace s[0..len) by up to three of `mark`.  Returns how much shorter the text is now. */
static size_t replace(char *s, size_t len, char mark)
{
    size_t n = len < 3 ? len : 3;

    memset(s, mark, n);
    memmove(s + n, s + len, strlen(s + len) + 1);
    return len - n;
}

/* Of "user:password@host", or of the beginning of it where the text was cut short. */
static size_t user_len(const char *host, size_t len)
{
    const char *at = memrchr(host, '@', len), *colon;

    if (at)
        return (size_t)(at - host);
    colon = memchr(host, ':', len);
    if (!colon || host[len] || host[0] == '[')
        return 0;
    return strspn(colon + 1, "0123456789") == strlen(colon + 1) ? 0 : len; /* 0: it is a port */
}

static void hide_values(char *text, const char *name, const char *ends)
{
    for (char *at = text; (at = strcasestr(at, name)); at += strlen(name))
        if (at == text || !isalnum((unsigned char)at[-1]))
            replace(at + strlen(name), strcspn(at + strlen(name), ends), '.');
}

void stk_secrets_hide(char *text)
{
    hide_values(text, "AccountKey=", "; \t\r\n\"'<>`|\\");
    hide_values(text, "SharedAccessSignature=", "; \t\r\n\"'<>`|\\");
    hide_values(text, "sig=", "&; \t\r\n\"'<>`|\\");
    for (char *colon = text; (colon = strstr(colon, "://")); colon += 3) {
        char *host = colon + 3, *query;
        size_t len = address_len(host), domain = strcspn(host, "/?#");

        len -= replace(host, user_len(host, domain < len ? domain : len), '*');
        query = is_http(text, colon) ? memchr(host, '?', len) : NULL;
        if (query && !is_name_hash(query + 1))
            replace(query + 1, len - (size_t)(query + 1 - host), '.');
    }
}
