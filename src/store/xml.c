/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c - the XML that S3 and STS answer with, by expat.
 *
 * Answers are flat lists of short texts.  A document with a DTD is refused: nothing that answers us
 * has one, and entities are how XML is made to explode.  Texts and depth are bounded. */
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/http.h"
#include "store/remote.h"

#define TEXT_BYTES 4096
#define DEPTH_MAX 32

const stk_xml_names stk_xml_objects = { .entry = "Contents",
                                        .key = "Key",
                                        .size = "Size",
                                        .etag = "ETag",
                                        .more = "IsTruncated",
                                        .next = "NextContinuationToken" };
const stk_xml_names stk_xml_uploads = { .entry = "Upload",
                                        .key = "Key",
                                        .etag = "UploadId",
                                        .more = "IsTruncated",
                                        .next = "NextKeyMarker",
                                        .after = "NextUploadIdMarker" };

typedef struct parse {
    XML_Parser parser;
    char text[TEXT_BYTES];
    size_t len;
    int depth, rc, overlong;
    /* one text */
    const char *name;
    char *out;
    size_t size;
    /* a listing */
    stk_xml_list *list;
    stk_error *err;
    int inside;
    uint64_t bytes;
    char key[TEXT_BYTES], etag[2048];
} parse;

static void stop(parse *p, int rc)
{
    p->rc = rc;
    XML_StopParser(p->parser, XML_FALSE);
}

static void XMLCALL no_doctype(void *arg, const XML_Char *name, const XML_Char *sys,
                               const XML_Char *pub, int internal)
{
    (void)name, (void)sys, (void)pub, (void)internal;
    stop(arg, STK_ECORRUPT);
}

static int is(const char *name, const char *wanted)
{
    return wanted && !strcmp(name, wanted);
}

static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');

    return colon ? colon + 1 : name;
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    parse *p = arg;

    (void)attributes;
    p->len = 0;
    p->overlong = 0;
    if (++p->depth > DEPTH_MAX)
        stop(p, STK_ECORRUPT);
    if (p->list && is(local_name(name), p->list->names->entry)) {
        p->inside = p->depth;
        p->key[0] = p->etag[0] = 0;
        p->bytes = 0;
    }
}

static void XMLCALL on_text(void *arg, const XML_Char *s, int n)
{
    parse *p = arg;

    if ((size_t)n >= sizeof p->text - p->len) {
        p->overlong = 1;
        return;
    }
    memcpy(p->text + p->len, s, (size_t)n);
    p->len += (size_t)n;
}

static void list_end(parse *p, const char *name)
{
    stk_xml_list *l = p->list;
    const stk_xml_names *n = l->names;
    int key = p->inside && p->inside == p->depth - 1 && is(name, n->key);

    if (key && p->overlong)
        stop(p, STK_ELIMIT);
    else if (key)
        memcpy(p->key, p->text, p->len + 1);
    else if (p->inside && is(name, n->size))
        p->bytes = strtoull(p->text, NULL, 10);
    else if (p->inside && is(name, n->etag) && p->len < sizeof p->etag)
        memcpy(p->etag, p->text, p->len + 1);
    else if (!p->inside && is(name, n->more))
        l->more = !strcmp(p->text, "true");
    else if (!p->inside && is(name, n->next))
        memcpy(l->token, p->text, p->len + 1);
    else if (!p->inside && is(name, n->after) && p->len < sizeof l->after)
        memcpy(l->after, p->text, p->len + 1);
    if (p->inside == p->depth && is(name, n->entry)) {
        p->inside = 0;
        if (p->key[0])
            p->rc = l->each(l->cookie, p->key, p->bytes, p->etag, p->err);
        if (p->rc)
            XML_StopParser(p->parser, XML_FALSE);
    }
}

static void XMLCALL on_end(void *arg, const XML_Char *full)
{
    parse *p = arg;
    const char *name = local_name(full);

    p->text[p->len] = 0;
    if (p->list) {
        list_end(p, name);
    } else if (!strcmp(name, p->name) && !p->overlong && p->len < p->size) {
        memcpy(p->out, p->text, p->len + 1);
        stop(p, STK_END);
    }
    p->depth--;
    p->len = 0;
}

static int parse_run(parse *p, stk_bytes doc)
{
    int bad;

    p->parser = XML_ParserCreate(NULL);
    if (!p->parser)
        return STK_ENOMEM;
    XML_SetUserData(p->parser, p);
    XML_SetElementHandler(p->parser, on_start, on_end);
    XML_SetCharacterDataHandler(p->parser, on_text);
    XML_SetStartDoctypeDeclHandler(p->parser, no_doctype);
    bad = doc.len > INT32_MAX ||
          XML_Parse(p->parser, (const char *)doc.data, (int)doc.len, 1) != XML_STATUS_OK;
    XML_ParserFree(p->parser);
    return p->rc ? p->rc : bad ? STK_ECORRUPT : 0;
}

void stk_xml_text(stk_bytes doc, const char *name, char *out, size_t size)
{
    parse *p;

    out[0] = 0;
    if (!doc.len)
        return;
    p = STK_NEW(parse);
    if (!p)
        return;
    p->name = name;
    p->out = out;
    p->size = size;
    (void)parse_run(p, doc);
    stk_free(p);
    for (char *c = out; *c; c++) /* it goes into errors */
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127)
            *c = '?';
}

int stk_xml_listing(stk_bytes doc, stk_xml_list *l, stk_error *err)
{
    parse *p = STK_NEW(parse);
    int rc;

    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->list = l;
    p->err = err;
    l->more = 0;
    l->token[0] = l->after[0] = 0;
    rc = parse_run(p, doc);
    stk_free(p);
    if (!l->names->more)
        l->more = l->token[0] != 0;
    if (rc == STK_ECORRUPT)
        return stk_fail(err, rc, "the server's listing is not the XML of a listing");
    if (rc == STK_ELIMIT)
        return stk_fail(err, rc, "the server lists a key of more than %d bytes", TEXT_BYTES);
    return rc;
}
