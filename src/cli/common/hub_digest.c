/* hub_digest.c: checks files against the checksums by which the hub names them. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/hub.h"

enum { SHA1_DIGITS = 40, SHA256_DIGITS = 64 };

bool hub_is_checksum(const char *etag)
{
    const size_t n = strspn(etag, "0123456789abcdef");
    return !etag[n] && (n == SHA1_DIGITS || n == SHA256_DIGITS);
}

#ifdef CLI_CURL

#include <openssl/evp.h>

/* Adds the header that Git puts before the contents of a blob. */
static bool add_blob_header(EVP_MD_CTX *c, FILE *f)
{
    char header[48];
    const bool found = fseeko(f, 0, SEEK_END) == 0;
    const int n = snprintf(header, sizeof header, "blob %lld", (long long)ftello(f));
    rewind(f);
    return found && EVP_DigestUpdate(c, header, (size_t)n + 1) == 1;
}

static bool add_contents(EVP_MD_CTX *c, FILE *f)
{
    enum { BUFFER = 1 << 20 };
    char *buffer = malloc(BUFFER);
    bool good = buffer != NULL;
    size_t n;
    while (good && (n = fread(buffer, 1, BUFFER, f)) > 0)
        good = EVP_DigestUpdate(c, buffer, n) == 1;
    good = good && !ferror(f);
    free(buffer);
    return good;
}

static bool digest_is(FILE *f, const char *etag)
{
    const bool sha256 = strlen(etag) == SHA256_DIGITS;
    unsigned char sum[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned n = 0;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const bool good = c && EVP_DigestInit_ex(c, sha256 ? EVP_sha256() : EVP_sha1(), NULL) == 1 &&
                      (sha256 || add_blob_header(c, f)) && add_contents(c, f) &&
                      EVP_DigestFinal_ex(c, sum, &n) == 1;
    EVP_MD_CTX_free(c);
    for (unsigned i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    return good && strcmp(text, etag) == 0;
}

bool hub_matches(const char *path, const char *etag)
{
    if (!hub_is_checksum(etag))
        return true;
    FILE *f = fopen(path, "rb");
    const bool same = f && digest_is(f, etag);
    if (f)
        fclose(f);
    return same;
}

#endif
