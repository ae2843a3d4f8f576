/* picture_jpeg.c: reads JPEG with libjpeg, with the same pixels as Pillow: libjpeg's defaults, and
 * CMYK as Adobe stores it. Warnings of libjpeg do not stop it.
 *
 * Several threads decode large pictures in parts. The start of a row's codes is known only after
 * all preceding codes were read. So each part reads the codes above it without computing pixels,
 * which takes less than half the time of decoding. Lower parts are therefore smaller. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include <string.h>

#include "cli/picture/orientation.h"
#include "cli/picture/picture_files.h"

#ifdef CLI_JPEG

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <jpeglib.h>

/* Largest number of pixels that one byte of a valid file can encode: a block of 16x16 pixels takes
 * at least six bits. */
#define PIXELS_PER_BYTE 512
/* Every scan of a progressive file processes all pixels, but can be a few bytes long. Their number
 * is therefore limited. */
#define SCANS_MOST 500

/* in smaller pictures, a second thread costs more than it saves */
#define TWO_PARTS_PIXELS (1 << 20)
#define CODES_SHARE 0.6 /* share of a row's decoding time that reading its codes takes */

static const char ends_early[] = "the file ends early";

/* ---- libjpeg ---- */

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX]; /* the error message */
};

static void failed(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->text);
    longjmp(d->back, 1);
}

static void warned(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean no_more(j_decompress_ptr jpeg)
{
    (void)jpeg;
    return FALSE; /* makes libjpeg's function return without a result */
}

static void skip(j_decompress_ptr jpeg, long n)
{
    struct jpeg_source_mgr *s = jpeg->src;
    const size_t step = n < 0 ? 0 : (size_t)n < s->bytes_in_buffer ? (size_t)n : s->bytes_in_buffer;
    s->next_input_byte += step;
    s->bytes_in_buffer -= step;
}

static void limit_scans(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;
    if (((j_decompress_ptr)jpeg)->input_scan_number <= SCANS_MOST)
        return;
    snprintf(d->text, sizeof d->text, "the JPEG has more than %d scans", SCANS_MOST);
    longjmp(d->back, 1);
}

/* Reads the header. Returns false if the file ends within it. Here and below, errors of libjpeg
 * jump to d->back. */
static bool begin(struct decoder *d, const struct picture_bytes *b)
{
    j_decompress_ptr j = &d->jpeg;
    j->err = jpeg_std_error(&d->error);
    d->error.error_exit = failed;
    d->error.output_message = warned;
    j->client_data = d;
    jpeg_create_decompress(j);
    d->progress.progress_monitor = limit_scans;
    j->progress = &d->progress;
    d->source = (struct jpeg_source_mgr){.next_input_byte = b->data,
                                         .bytes_in_buffer = b->size,
                                         .init_source = nothing,
                                         .fill_input_buffer = no_more,
                                         .skip_input_data = skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = nothing};
    j->src = &d->source;
    int header;
    do
        header = jpeg_read_header(j, FALSE);
    while (header == JPEG_HEADER_TABLES_ONLY);
    j->out_color_space = j->num_components == 4 ? JCS_CMYK : JCS_RGB;
    return header != JPEG_SUSPENDED;
}

/* ---- rows ---- */

/* Converts C, M, Y, K as Adobe stores them: as light instead of ink. */
static void colours_of_cmyk(uint8_t *to, const uint8_t *from, size_t pixels)
{
    for (; pixels > 0; pixels--, from += 4, to += 3)
        picture_cmyk(to, (uint8_t)~from[0], (uint8_t)~from[1], (uint8_t)~from[2],
                     (uint8_t)~from[3]);
}

/* A range of rows, and the result of decoding it. */
struct part {
    const struct picture_bytes *file;
    const cli_image *out;
    uint32_t from, to;
    bool read;
    struct decoder decoder;
};

/* Skips the rows above the part; `row` receives unneeded rows. The last few skipped rows are
 * decoded, because colours are interpolated between rows. */
static bool pass_over(j_decompress_ptr j, uint32_t rows, JSAMPROW row)
{
#ifdef LIBJPEG_TURBO_VERSION
    const uint32_t near = 2 * DCTSIZE * (uint32_t)j->max_v_samp_factor;
    if (rows > near && jpeg_skip_scanlines(j, rows - near) != rows - near)
        return false;
#endif
    while (j->output_scanline < rows)
        if (jpeg_read_scanlines(j, &row, 1) != 1)
            return false;
    return true;
}

static bool read_rows(struct part *p)
{
    j_decompress_ptr j = &p->decoder.jpeg;
    if (!begin(&p->decoder, p->file) || !jpeg_start_decompress(j))
        return false;
    const size_t stride = (size_t)p->out->width * 3;
    JSAMPROW row = p->out->rgb + p->from * stride, wide = NULL;
    if (j->out_color_space == JCS_CMYK)
        wide = j->mem->alloc_large((j_common_ptr)j, JPOOL_IMAGE, (size_t)p->out->width * 4);
    if (!pass_over(j, p->from, wide ? wide : row))
        return false;
    for (; j->output_scanline < p->to; row += stride) {
        if (jpeg_read_scanlines(j, wide ? &wide : &row, 1) != 1)
            return false;
        if (wide)
            colours_of_cmyk(row, wide, p->out->width);
    }
    return true;
}

static void *decode(void *argument)
{
    struct part *p = argument;
    struct decoder *d = &p->decoder;
    memcpy(d->text, ends_early, sizeof ends_early);
    p->read = !setjmp(d->back) && read_rows(p);
    jpeg_destroy_decompress(&d->jpeg);
    return NULL;
}

static uint32_t processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* ---- the picture ---- */

struct header {
    uint32_t width, height;
    int components, block; /* components; height in rows of a block that has all components */
    bool once;             /* one scan contains everything */
};

/* Is a separate function, because a longjmp would leave the caller's variables undefined. */
static bool read_header(struct header *out, struct decoder *d, const struct picture_bytes *b)
{
    memcpy(d->text, ends_early, sizeof ends_early);
    const bool read = !setjmp(d->back) && begin(d, b);
    if (read)
        *out = (struct header){d->jpeg.image_width, d->jpeg.image_height, d->jpeg.num_components,
                               DCTSIZE * d->jpeg.max_v_samp_factor,
                               !jpeg_has_multiple_scans(&d->jpeg)};
    jpeg_destroy_decompress(&d->jpeg);
    return read;
}

/* Returns the first row of the lower part, chosen so that both parts take equally long, or 0 if the
 * picture is decoded in one part. */
static uint32_t cut(const struct header *h)
{
    const uint32_t block = (uint32_t)h->block;
    if (!h->once || (uint64_t)h->width * h->height < TWO_PARTS_PIXELS || processors() < 2)
        return 0;
    return (uint32_t)(h->height / (2 - CODES_SHARE)) / block * block;
}

static void decode_parts(struct part *upper, struct part *lower)
{
    pthread_t thread;
    const bool started = pthread_create(&thread, NULL, decode, lower) == 0;
    decode(upper);
    if (started)
        pthread_join(thread, NULL);
    else
        decode(lower);
}

int picture_read_jpeg(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    struct part upper = {.file = b, .out = out}, lower = upper;
    struct header h;
    if (!read_header(&h, &upper.decoder, b))
        return picture_bad(path, upper.decoder.text);
    if (h.components != 1 && h.components != 3 && h.components != 4)
        return cli_fail(CLI_INPUT, "%s is a JPEG with %d components; only 1, 3 and 4 are supported",
                        path, h.components);
    CLI_TRY(picture_begin(out, path, b, h.width, h.height, PIXELS_PER_BYTE));
    *orientation = orientation_of_jpeg(b->data, b->size);
    lower.from = cut(&h);
    lower.to = h.height;
    upper.to = lower.from;
    if (lower.from)
        decode_parts(&upper, &lower);
    else
        decode(&lower);
    if (lower.from && !upper.read)
        return picture_bad(path, upper.decoder.text);
    return lower.read ? CLI_OK : picture_bad(path, lower.decoder.text);
}

#else

int picture_read_jpeg(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    (void)out, (void)b, (void)orientation;
    return cli_fail(
        CLI_UNSUPPORTED,
        "%s is a JPEG, but this program was built without libjpeg (Debian: libjpeg-dev)", path);
}

#endif
