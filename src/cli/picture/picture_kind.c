/* picture_kind.c: recognises files by their first bytes, whatever their names are, and finds the
 * pictures in a folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/picture/picture_files.h"

/* Bytes at an offset of the file. A signature comes in the list before any other that it begins
 * with. */
struct signature {
    size_t at, size;
    const char *bytes;
    enum picture_format format;
    const char *name, *remedy;
};

#define CONVERT "convert it to PNG or JPEG"
#define FRAMES                                                                                     \
    "convert it to frames with ffmpeg: ffmpeg -v error -i FILE -f image2pipe -c:v ppm - | fovea "  \
    "run MODEL - --raw ppm"                                                                        \
    "MODEL - --raw ppm"
#define AT(at, bytes, format, name, remedy)                                                        \
    {                                                                                              \
        at, sizeof(bytes) - 1, bytes, format, name, remedy                                         \
    }
#define READ(at, bytes, format, name) AT(at, bytes, format, name, NULL)
#define OTHER(at, bytes, name, remedy) AT(at, bytes, PICTURE_OTHER, name, remedy)

static const struct signature signatures[] = {
    READ(0, "\xff\xd8\xff", PICTURE_JPEG, "a JPEG"),
    READ(0, "\x89PNG\r\n\x1a\n", PICTURE_PNG, "a PNG"),
    READ(8, "WEBP", PICTURE_WEBP, "a WebP"),
    READ(0, "II*\0", PICTURE_TIFF, "a TIFF"),
    READ(0, "MM\0*", PICTURE_TIFF, "a TIFF"),
    READ(0, "II+\0", PICTURE_TIFF, "a TIFF"),
    READ(0, "MM\0+", PICTURE_TIFF, "a TIFF"),
    READ(0, "BM", PICTURE_BMP, "a BMP"),
    READ(0, "P1", PICTURE_PNM, "a PBM"),
    READ(0, "P2", PICTURE_PNM, "a PGM"),
    READ(0, "P3", PICTURE_PNM, "a PPM"),
    READ(0, "P4", PICTURE_PNM, "a PBM"),
    READ(0, "P5", PICTURE_PNM, "a PGM"),
    READ(0, "P6", PICTURE_PNM, "a PPM"),
    READ(0, "Pf", PICTURE_PNM, "a PFM"),
    OTHER(0, "P7", "a PAM", CONVERT),
    OTHER(0, "PF\n", "a PFM with colours", CONVERT),
    OTHER(0, "GIF8", "a GIF", CONVERT ", or " FRAMES),
    OTHER(4, "ftypavif", "an AVIF", CONVERT),
    OTHER(4, "ftypavis", "an AVIF with several frames", FRAMES),
    OTHER(4, "ftyphei", "a HEIC", CONVERT),
    OTHER(4, "ftyphev", "a HEIC", CONVERT),
    OTHER(4, "ftypmif1", "a HEIF", CONVERT),
    OTHER(4, "ftypmsf1", "a HEIF", CONVERT),
    OTHER(4, "ftypcrx ", "a camera's raw file", CONVERT),
    OTHER(4, "ftypqt", "a video (QuickTime)", FRAMES),
    OTHER(4, "ftyp", "a video (MP4)", FRAMES),
    OTHER(4, "moov", "a video (QuickTime)", FRAMES),
    OTHER(4, "mdat", "a video (QuickTime)", FRAMES),
    OTHER(8, "AVI ", "a video (AVI)", FRAMES),
    OTHER(0, "\x1a\x45\xdf\xa3", "a video (Matroska or WebM)", FRAMES),
    OTHER(0, "\0\0\1\xba", "a video (MPEG)", FRAMES),
    OTHER(0, "\0\0\1\xb3", "a video (MPEG)", FRAMES),
    OTHER(0, "\0\0\0\1", "a video (H.264 or H.265)", FRAMES),
    OTHER(188, "\x47", "a video (MPEG transport stream)", FRAMES),
    OTHER(0, "FLV\1", "a video (FLV)", FRAMES),
    OTHER(0, "OggS", "a video (Ogg)", FRAMES),
    {0, 10, "YUV4MPEG2 ", PICTURE_Y4M, "a video (Y4M)", "fovea run reads it as an input"},
    OTHER(0, "\0\0\0\x0cjP  ", "a JPEG 2000", CONVERT),
    OTHER(0, "\xff\x4f\xff\x51", "a JPEG 2000", CONVERT),
    OTHER(0, "\0\0\0\x0cJXL ", "a JPEG XL", CONVERT),
    OTHER(0, "\xff\x0a", "a JPEG XL", CONVERT),
    OTHER(0, "8BPS", "a Photoshop file", CONVERT),
    OTHER(0, "gimp xcf", "a file of GIMP", CONVERT),
    OTHER(0, "qoif", "a QOI", CONVERT),
    OTHER(0, "DDS ", "a DDS", CONVERT),
    OTHER(0, "\x76\x2f\x31\x01", "an OpenEXR", CONVERT),
    OTHER(0, "#?RADIANCE", "a Radiance HDR", CONVERT),
    OTHER(0, "\0\0\1\0", "an icon (ICO)", CONVERT),
    OTHER(0, "SIMPLE  =", "a FITS", CONVERT),
    OTHER(128, "DICM", "a DICOM", CONVERT),
    OTHER(0, "\x59\xa6\x6a\x95", "a Sun raster", CONVERT),
    OTHER(0, "%PDF", "a PDF", CONVERT),
    OTHER(0, "%!PS", "a PostScript file", CONVERT),
    OTHER(0, "<svg", "an SVG", CONVERT),
    OTHER(0, "\x93NUMPY", "a NumPy array", "save its pixels as PNG"),
    OTHER(0, "\x89HDF", "an HDF5 file", "save its pictures as PNG"),
    OTHER(0, "PK\3\4", "a ZIP archive", "unpack it"),
    OTHER(0, "\x1f\x8b", "compressed by gzip", "decompress it"),
    OTHER(0, "version https://git-lfs", "a Git LFS pointer, not the file itself",
          "fetch it: git lfs pull"),
    OTHER(0, "<!DOCTYPE", "a web page", "download the picture itself"),
    OTHER(0, "<html", "a web page", "download the picture itself"),
};

/* Checks signatures of two or three letters further, because a file could begin with them by
 * chance. */
static bool fits(const struct signature *s, const uint8_t *head, size_t size)
{
    if (s->format == PICTURE_BMP) /* the size of the second header, a number of four bytes */
        return size >= 18 && head[15] < 2 && !head[16] && !head[17];
    if (s->format == PICTURE_PNM || strncmp(s->bytes, "P7", 2) == 0)
        return size >= 3 && (head[2] == '#' || (head[2] && strchr(" \t\r\n\v\f", head[2])));
    if (s->format == PICTURE_WEBP || strncmp(s->bytes, "AVI ", 4) == 0)
        return memcmp(head, "RIFF", 4) == 0;
    return s->at != 188 || head[0] == 0x47;
}

bool picture_is_read(enum picture_format format)
{
    return format != PICTURE_UNKNOWN && format != PICTURE_OTHER && format != PICTURE_Y4M;
}

struct picture_kind picture_recognise(const uint8_t *head, size_t size)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *s = &signatures[i];
        if (size >= s->at + s->size && memcmp(head + s->at, s->bytes, s->size) == 0 &&
            fits(s, head, size))
            return (struct picture_kind){s->format, s->name, s->remedy};
    }
    return (struct picture_kind){.format = PICTURE_UNKNOWN};
}

/* ---- files, folders ---- */

/* Recognises a file by its first bytes. If its format is unknown, sets *why to the reason. */
static struct picture_kind recognise_file(const char *path, const char **why)
{
    const struct picture_kind unknown = {.format = PICTURE_UNKNOWN};
    uint8_t head[PICTURE_HEAD];
    struct stat st;
    *why = "not a regular file"; /* opening a pipe could block forever */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return unknown;
    FILE *f = fopen(path, "rb");
    *why = strerror(errno);
    if (!f)
        return unknown;
    const size_t size = fread(head, 1, sizeof head, f);
    fclose(f);
    *why = size == 0 ? "empty" : "not a picture";
    return picture_recognise(head, size);
}

bool cli_is_y4m(const char *path)
{
    const char *why;
    return recognise_file(path, &why).format == PICTURE_Y4M;
}

/* Returns whether the name ends like the name of a readable format. If the content does not match,
 * the file counts as a broken picture, not as another kind of file. */
static bool claims_to_be_a_picture(const char *name)
{
    static const char *const endings[] = {"jpg",  "jpeg", "jpe",  "jfif", "png",
                                          "webp", "tif",  "tiff", "bmp",  "dib",
                                          "pbm",  "pgm",  "ppm",  "pnm",  "pfm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return true;
    return false;
}

/* Returns NULL if the file is a picture or has a picture's name, else the kind of file that it is.
 * Returns "" for hidden files that are not pictures, such as those that macOS creates. */
static const char *other_than_picture(const char *path, const char *name)
{
    const char *why;
    const struct picture_kind kind = recognise_file(path, &why);
    if (picture_is_read(kind.format) || (name[0] != '.' && claims_to_be_a_picture(name)))
        return NULL;
    return name[0] == '.' ? "" : kind.name ? kind.name : why;
}

static int select_any(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

int cli_folder_pictures(char ***names, size_t *n, const char *folder)
{
    enum { NAMED = 5 };
    struct dirent **list;
    /* alphasort compares names by bytes */
    const int entries = scandir(folder, &list, select_any, alphasort);
    if (entries < 0)
        return cli_fail(CLI_INPUT, "%s: %s", folder, strerror(errno));
    size_t others = 0;
    char *told = cli_text("%s", "");
    *n = 0;
    *names = cli_alloc((size_t)entries + 1, sizeof **names);
    for (int i = 0; i < entries; i++) {
        char *path = cli_text("%s/%s", folder, list[i]->d_name);
        const bool folder_in_it = cli_is_folder(path);
        const char *what = folder_in_it ? "" : other_than_picture(path, list[i]->d_name);
        if (what && *what && others++ < NAMED) {
            char *longer = cli_text("%s%s %s (%s)", told, *told ? "," : "", list[i]->d_name, what);
            free(told);
            told = longer;
        } else if (!what) {
            (*names)[(*n)++] = cli_text("%s", list[i]->d_name);
        }
        free(path);
        free(list[i]);
    }
    free(list);
    if (others)
        cli_tell("%s: %zu file%s left out:%s%s", folder, others, others > 1 ? "s are" : " is", told,
                 others > NAMED ? ", and others" : "");
    free(told);
    return CLI_OK;
}
