/* hub_client.c: asks the hub for files over HTTP. A build without libcurl has no client. */
#include "cli/common/hub.h"

#ifndef CLI_CURL

bool hub_can_download(void)
{
    return false;
}

#else

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "cli/common/cli.h"

enum { REDIRECTIONS = 5, CONNECT_SECONDS = 10, USUAL_TIMEOUT = 30, SLOWEST = 1000 /* bytes/s */ };

struct hub_client {
    CURL *curl;
    char *token; /* NULL if there is none */
    long timeout;
    char problem[CURL_ERROR_SIZE];
};

/* The state of a transfer. */
typedef struct transfer {
    hub_client *client;
    hub_answer *answer;
    FILE *to;
    int64_t have, most;
    bool begun, too_long, unwritten;
    void (*seen)(void *ctx, int64_t bytes);
    void *ctx;
} transfer;

bool hub_can_download(void)
{
    return true;
}

/* ---- the client ---- */

/* Returns the text of a file's first line without spaces, or NULL if there is none. */
static char *first_word(const char *path)
{
    char line[512] = "";
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    const bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    line[strcspn(line, " \t\r\n")] = 0;
    return read && *line ? cli_text("%s", line) : NULL;
}

/* Returns the user's token: HF_TOKEN, or the file in which `hf auth login` stores it. */
static char *find_token(void)
{
    const char *token = getenv("HF_TOKEN"), *path = getenv("HF_TOKEN_PATH");
    if (token && *token)
        return cli_text("%s", token);
    if (path && *path)
        return first_word(path);
    char *home = hub_home(), *file = cli_text("%s/token", home);
    char *out = first_word(file);
    free(file);
    free(home);
    return out;
}

hub_client *hub_client_open(void)
{
    hub_client *c = cli_alloc(1, sizeof *c);
    const char *timeout = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->curl = curl_easy_init();
    c->token = find_token();
    c->timeout = timeout ? strtol(timeout, NULL, 10) : 0;
    if (c->timeout < 1)
        c->timeout = USUAL_TIMEOUT;
    return c;
}

void hub_client_close(hub_client *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    curl_global_cleanup();
    free(c->token);
    free(c);
}

/* ---- headers ---- */

/* Copies a header's value without spaces, quotes and the mark of a weak etag. */
static void take_value(char *out, size_t size, const char *value, size_t n)
{
    while (n > 0 && isspace((unsigned char)*value)) {
        value++;
        n--;
    }
    if (n >= 2 && value[0] == 'W' && value[1] == '/') {
        value += 2;
        n -= 2;
    }
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < size; i++)
        if (value[i] != '"' && !isspace((unsigned char)value[i]))
            out[used++] = value[i];
    out[used] = 0;
}

static bool is_header(const char *line, size_t n, const char *name)
{
    const size_t length = strlen(name);
    return n > length && line[length] == ':' && strncasecmp(line, name, length) == 0;
}

/* Reads one line of an answer. "X-Linked-" headers describe the file that a link leads to. */
static size_t take_header(char *line, size_t one, size_t n, void *ctx)
{
    hub_answer *a = ((transfer *)ctx)->answer;
    char number[32];
    (void)one;
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* perhaps the next answer of a redirection */
        *a = (hub_answer){.size = -1};
        a->status = strtol(line + strcspn(line, " \r\n"), NULL, 10);
    } else if (is_header(line, n, "X-Linked-Etag"))
        take_value(a->etag, sizeof a->etag, line + strlen("X-Linked-Etag:"),
                   n - strlen("X-Linked-Etag:"));
    else if (is_header(line, n, "ETag") && !*a->etag)
        take_value(a->etag, sizeof a->etag, line + strlen("ETag:"), n - strlen("ETag:"));
    else if (is_header(line, n, "X-Repo-Commit"))
        take_value(a->commit, sizeof a->commit, line + strlen("X-Repo-Commit:"),
                   n - strlen("X-Repo-Commit:"));
    else if (is_header(line, n, "X-Error-Code"))
        take_value(a->error, sizeof a->error, line + strlen("X-Error-Code:"),
                   n - strlen("X-Error-Code:"));
    else if (is_header(line, n, "Retry-After")) {
        take_value(number, sizeof number, line + strlen("Retry-After:"),
                   n - strlen("Retry-After:"));
        a->retry_after = strtod(number, NULL);
    } else if (is_header(line, n, "X-Linked-Size")) {
        take_value(number, sizeof number, line + strlen("X-Linked-Size:"),
                   n - strlen("X-Linked-Size:"));
        a->size = strtoll(number, NULL, 10);
    } else if (is_header(line, n, "Content-Length") && a->size < 0 && a->status / 100 == 2) {
        take_value(number, sizeof number, line + strlen("Content-Length:"),
                   n - strlen("Content-Length:"));
        a->size = strtoll(number, NULL, 10);
    }
    return n;
}

/* ---- contents ---- */

static size_t take_bytes(char *bytes, size_t one, size_t n, void *ctx)
{
    transfer *t = ctx;
    long status = 0;
    (void)one;
    curl_easy_getinfo(t->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status >= 300)
        return n; /* the text of an error */
    if (!t->begun && status != 206 && t->have > 0) {
        /* The server sends the whole file. */
        if (fflush(t->to) != 0 || ftruncate(fileno(t->to), 0) != 0)
            return 0;
        rewind(t->to);
        t->have = 0;
    }
    t->begun = true;
    t->too_long = t->most >= 0 && (int64_t)n > t->most - t->have;
    if (t->too_long)
        return 0;
    t->unwritten = fwrite(bytes, 1, n, t->to) != n;
    if (t->unwritten)
        return 0;
    t->have += (int64_t)n;
    t->seen(t->ctx, t->have);
    return n;
}

/* ---- requests ---- */

static void set_protocols(CURL *curl, bool secure)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS,
                     secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

static void prepare(transfer *t, const char *url)
{
    CURL *curl = t->client->curl;
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    set_protocols(curl, strncmp(url, "https:", 6) == 0);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTIONS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "fovea");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, t->client->timeout);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, t->client->problem);
    if (t->client->token) {
        /* libcurl sends it to the first host alone, not to those of redirections. */
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, t->client->token);
    }
}

static void perform(transfer *t)
{
    hub_client *c = t->client;
    hub_answer *a = t->answer;
    c->problem[0] = 0;
    *a = (hub_answer){.size = -1};
    const CURLcode code = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &a->status);
    if (code == CURLE_OK)
        return;
    if (t->unwritten)
        snprintf(a->problem, sizeof a->problem, "the file cannot be written; is the disk full?");
    else if (t->too_long)
        snprintf(a->problem, sizeof a->problem, "the file is longer than the hub says");
    else
        snprintf(a->problem, sizeof a->problem, "%s",
                 *c->problem ? c->problem : curl_easy_strerror(code));
    a->status = 0;
    a->unreachable = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
                     code == CURLE_COULDNT_RESOLVE_PROXY;
}

void hub_head(hub_client *c, const char *url, hub_answer *out)
{
    transfer t = {.client = c, .answer = out};
    char *to = cli_text("%s", url);
    for (int i = 0; i <= REDIRECTIONS; i++) {
        char *next = NULL;
        prepare(&t, to);
        curl_easy_setopt(c->curl, CURLOPT_NOBODY, 1L);
        curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, c->timeout);
        perform(&t);
        if (out->status >= 300 && out->status < 400)
            curl_easy_getinfo(c->curl, CURLINFO_REDIRECT_URL, &next);
        /* A renamed model leads to another path of the hub. A link to the host that stores the file
         * comes with the file's description. */
        if (!next || (*out->etag && *out->commit))
            break;
        char *copy = cli_text("%s", next);
        free(to);
        to = copy;
    }
    free(to);
}

void hub_get(hub_client *c, const char *url, FILE *to, int64_t have, int64_t most,
             void (*seen)(void *ctx, int64_t bytes), void *ctx, hub_answer *out)
{
    transfer t = {
        .client = c, .answer = out, .to = to, .have = have, .most = most, .seen = seen, .ctx = ctx};
    char range[32];
    prepare(&t, url);
    curl_easy_setopt(c->curl, CURLOPT_FOLLOWLOCATION, 1L);
    /* Not CURLOPT_RESUME_FROM, which fails if the server sends the whole file. */
    snprintf(range, sizeof range, "%lld-", (long long)have);
    if (have > 0)
        curl_easy_setopt(c->curl, CURLOPT_RANGE, range);
    perform(&t);
}

#endif
