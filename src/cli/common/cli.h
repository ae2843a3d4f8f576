/* cli.h: what the commands of `fovea` share: options, exit codes, pictures, progress, reports.
 *
 * The program uses the public interface of the library only. Data goes to stdout, messages to
 * stderr. A function that returns int returns an exit code of the program: 0 to continue, else the
 * function has already written one line to stderr.
 */
#ifndef FOVEA_CLI_CLI_H
#define FOVEA_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <fovea/results.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 1,
    CLI_UNSUPPORTED = 2,
    CLI_WRONG = 3, /* the verification failed */
    CLI_DEVICE = 4,
    CLI_UNSTABLE = 5, /* an unreliable result; only with --strict or --baseline */
    CLI_SLOWER = 6,   /* slower than the baseline */
    CLI_INPUT = 7,
};

/* ---- commands: one file each, one entry of the table in commands.c ---- */

/* The shared options that a command accepts. */
enum cli_takes {
    CLI_TAKES_ISA = 1 << 0,
    CLI_TAKES_DEVICE = 1 << 1, /* also --threads, --cores and --max-dispatch */
    CLI_TAKES_PLAN = 1 << 2,   /* --attention, --dtype, --schedule, --memory-limit, --rigor */
    CLI_TAKES_WISDOM = 1 << 3,
    CLI_TAKES_SIZE = 1 << 4,
    CLI_TAKES_PICTURES = 1 << 5,
    CLI_TAKES_STRICT = 1 << 6,
    CLI_TAKES_JSON = 1 << 7,
    CLI_TAKES_MODEL = 1 << 8,
    CLI_TAKES_WEIGHTS_CACHE = 1 << 9,
};

typedef struct cli_command {
    const char *name, *usage, *summary;
    int (*run)(const struct cli_command *self, int argc, char **argv);
    unsigned takes;
    bool development;     /* not listed in the help: for developers of Fovea */
    const char *examples; /* command lines; each ends with a line feed */
} cli_command;

/* A value (an exit code, an environment variable) and its meaning, for the help. */
typedef struct cli_term {
    const char *name, *meaning;
} cli_term;

/* commands.c: the tables that help, completion and manual pages are made from. Each ends with an
 * entry whose name is NULL. */
extern const cli_command cli_commands[];
extern const cli_term cli_exit_terms[], cli_environment_terms[];
extern const char cli_model_words[]; /* explains the argument MODEL */
/* Returns NULL if there is no such command. */
const cli_command *cli_command_find(const char *name);

int cli_info(const cli_command *self, int argc, char **argv);
int cli_run(const cli_command *self, int argc, char **argv);
int cli_plan(const cli_command *self, int argc, char **argv);
int cli_op(const cli_command *self, int argc, char **argv);
int cli_verify(const cli_command *self, int argc, char **argv);
int cli_cache(const cli_command *self, int argc, char **argv);
int cli_bench(const cli_command *self, int argc, char **argv);
int cli_tune(const cli_command *self, int argc, char **argv);
int cli_adapt(const cli_command *self, int argc, char **argv);
int cli_eval(const cli_command *self, int argc, char **argv);
int cli_linearise(const cli_command *self, int argc, char **argv);
int cli_lm(const cli_command *self, int argc, char **argv);
int cli_convert(const cli_command *self, int argc, char **argv);
int cli_fetch(const cli_command *self, int argc, char **argv);
int cli_completion(const cli_command *self, int argc, char **argv);
int cli_manual(const cli_command *self, int argc, char **argv);

/* ---- messages ---- */

#if defined(__GNUC__)
/* On MinGW, this program's printf follows C; the compiler's default check expects Windows'
 * printf */
#ifdef __MINGW32__
#define CLI_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#else
#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif
#else
#define CLI_PRINTF(f, a)
#endif

/* log_filter.c: makes the library print its log messages on stderr, filtered by FOVEA_LOG. */
void cli_log_begin(void);
/* Writes "fovea: " and the message to stderr. */
void cli_tell(const char *format, ...) CLI_PRINTF(1, 2);
/* Warns on stderr if the plan's attention differs from the one that the model was trained with. A
 * repetition of the last warning is not printed. */
void cli_tell_untrained(const fovea_plan_info *plan);
/* Returns a text, which the caller frees, about the products' precision that FOVEA_COMPUTE_AUTO
 * chose: which one, why, and which options select another. Returns NULL if the options specified
 * the precision. */
char *cli_products_text(const fovea_plan_info *plan);
/* Prints cli_products_text on stderr, unless it equals the last such text. */
void cli_tell_products(const fovea_plan_info *plan);
/* Returns a text, which the caller frees, that says which share of a plan's time is spent in
 * reference kernels. Returns NULL if the share is negligible. */
char *cli_reference_text(const fovea_plan_info *plan);
/* Warns with cli_reference_text on stderr, unless it equals the last such text. */
void cli_tell_reference(const fovea_plan_info *plan);
/* Returns a text, which the caller frees, that describes the preprocessing of pictures and names
 * the file that specifies it: "preprocessor_config.json: CLIPImageProcessor, short side to 224,
 * ...". */
char *cli_preprocess_text(const fovea_preprocess *p, const fovea_model_info *info);
/* Prints cli_preprocess_text on stderr, as a warning if no file specifies the preprocessing. */
void cli_tell_preprocess(const fovea_preprocess *p, const fovea_model_info *info);
/* Prints a message as cli_tell does, and returns `code`. */
int cli_fail(int code, const char *format, ...) CLI_PRINTF(2, 3);
/* If `status` is a failure, writes the library's error message to stderr. Returns the exit code for
 * `status`, 0 for FOVEA_OK. */
int cli_check(fovea_status status);

/* Returns the exit code of `call` from the calling function unless it is 0. */
#define CLI_TRY(call)                                                                              \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_)                                                                                 \
            return code_;                                                                          \
    } while (0)

/* Runs `call` only if `code` is still 0, and stores its exit code there. Use it in functions that
 * must free something at their end, and so cannot return early. */
#define CLI_THEN(code, call)                                                                       \
    do {                                                                                           \
        if (!(code))                                                                               \
            (code) = (call);                                                                       \
    } while (0)

/* ---- options ---- */

/* One option of a command. */
typedef struct cli_option {
    const char *name;     /* NULL in the last entry of a list */
    char letter;          /* 0 if the option has no letter */
    const char *argument; /* NULL for a flag */
    const char *help;
    /* a const char ** for an option with an argument, a bool * for a flag, a cli_texts * with
     * `again` */
    void *target;
    /* for shared options: bits of enum cli_takes; the option belongs to commands with any of
     * them */
    unsigned takes;
    /* values of the argument, ended by NULL, for help and completion; NULL if any value is
     * allowed */
    const char *const *choices;
    bool again; /* the option may be given several times; then target is a cli_texts * */
} cli_option;

/* The arguments of an option that may be given several times, in order. The caller frees `text`. */
typedef struct cli_texts {
    const char **text;
    size_t n;
} cli_texts;

/* The unparsed arguments of the shared options. An option that was not given is NULL. */
typedef struct cli_common { /* More than 25 fields: each option has one */
    const char *device, *isa, *threads, *cores;
    const char *attention, *dtype, *compute, *memory_limit, *max_dispatch, *wisdom, *rigor;
    const char *weights_cache;
    const char *schedule, *chunk, *size, *backend, *prefix;
    const char *nala_lambda, *pola_alpha, *q_scale, *linear_heads;
    bool json, strict, no_exif;
    /* what --help prints about --dtype, for commands that accept 16-bit types */
    const char *half;
    const char *more; /* text that --help prints below the options, or NULL */
    /* what --help prints about --compute; NULL for commands that run single operators */
    const char *products;
    /* --dtype also accepts int8, which stores the weights of a model in int8 */
    bool stores_int8;
    /* without --compute and --dtype, the default is FOVEA_COMPUTE_AUTO instead of
     * FOVEA_COMPUTE_F32 */
    bool fast;
    bool new_wisdom; /* the file of --wisdom need not exist yet */
} cli_common;

/* Initialisers of cli_common for commands that plan and run a model. */
#define CLI_STORES                                                                                 \
    .half =                                                                                        \
        "type of the weights, and, except on the CPU, of activations: f32, f16, bf16; int8: only " \
        "of the weights of blocks",                                                                \
    .stores_int8 = true, .products = CLI_COMPUTE_HELP, .fast = true
#define CLI_COMPUTE_HELP                                                                           \
    "operand type of matrix products: f32, bf16, int8, or auto: the fastest type that fovea tune " \
    "found accurate enough, else bf16 if the device has instructions for it, else f32 (default: "  \
    "auto, or f32 with --dtype)"

/* Parses argv into the options' targets; positional arguments begin at argv[*first]. For --help,
 * prints the help and sets *first to 0; the command must then return. */
int cli_parse(int *first, const cli_command *self, cli_common *common, const cli_option *own,
              int argc, char **argv);

/* What --help prints about a command, except for the option --help itself. */
typedef struct cli_description {
    const cli_command *command;
    const cli_option *option;
    size_t options;
    const char *more; /* a copy of cli_common.more, or NULL */
} cli_description;

typedef void cli_describer(const cli_description *d, void *payload);

/* Calls `to` with the description that --help prints. */
int cli_describe(const cli_command *command, cli_describer *to, void *payload);

/* The parsed values of the shared options. */
typedef struct cli_settings {
    const char *device;
    fovea_device_options device_options;
    const char *attention;
    fovea_schedule schedule;
    fovea_dtype dtype;
    fovea_compute compute;
    fovea_rigor rigor;
    bool dtype_given;
    uint32_t chunk;
    uint64_t memory_limit;
    uint32_t width, height; /* from --size; 0 if not given */
    int backend;            /* a fovea_resample from --backend; -1 if not given */
    fovea_linear_attention_params linear;
} cli_settings;

const char *cli_dtype_name(fovea_dtype type); /* "f32" */
const char *cli_compute_name(fovea_compute compute);
/* Sets *out to the precision that FOVEA_COMPUTE_AUTO chooses in a plan with these options. Any
 * other `compute` is returned unchanged. */
int cli_settle_compute(fovea_compute *out, const fovea_model *model, fovea_device *device,
                       const fovea_plan_options *options);
int cli_settle(cli_settings *out, const cli_common *common);
/* Loads wisdom from the file of --wisdom, and makes it the file that new wisdom is saved to. For
 * "none", does neither. */
int cli_wisdom(const cli_common *c);
/* Parses `text` as a whole number from low to high. If `text` is NULL, *out keeps its value. */
int cli_number(uint32_t *out, const char *option, const char *text, uint32_t low, uint32_t high);
int cli_real(double *out, const char *option, const char *text, double low, double high);
/* Sets *out to the index of `text` in `names`, which end with NULL. If `text` is NULL, *out keeps
 * its value. */
int cli_choose(int *out, const char *option, const char *text, const char *const *names);
/* Parses a size such as "518" or "1920x1080". */
int cli_size(uint32_t *width, uint32_t *height, const char *text);
/* Splits a list at its commas, and expands the ranges A..B*F and A..B+S, and "all" for the option
 * "device". *out ends with NULL; free it with cli_list_free. If `text` is NULL, the list has the
 * single entry NULL, and *n is 1. */
int cli_list(char ***out, size_t *n, const char *option, const char *text);
void cli_list_free(char **list);

/* Returns the entry of `names` (ended by NULL) of which `text` is most likely a misspelling, or
 * NULL if no entry is close. */
const char *cli_likely(const char *text, const char *const *names);

/* Returns zeroed memory, aligned to a cache line. Exits the program if memory runs out. */
void *cli_alloc(size_t count, size_t size);
/* Grows an array of `n` elements (NULL if n is 0) if necessary, so that it has capacity for one
 * more, and returns it. Exits the program if memory runs out. */
void *cli_grow(void *array, size_t n, size_t size);
char *cli_text(const char *format, ...) CLI_PRINTF(1, 2);

/* ---- a model on a device ---- */

typedef struct cli_session {
    cli_settings settings;
    fovea_device *device;
    fovea_model *model;
    fovea_model_info info;
} cli_session;

/* These functions return an exit code. cli_open replaces the device "auto" with the one on which
 * the model is fastest at --size according to wisdom. cli_close saves the measurements that --rigor
 * or FOVEA_RIGOR asked for. */
int cli_open_device(fovea_device **out, const cli_settings *s);
int cli_linear_form(fovea_linear_attention_params *out, const cli_common *c);
/* Adds the options of linear attention that were given (--nala-lambda and others) to `params`, the
 * parameters of a result; returns `params`. */
json_t *cli_add_linear_form(json_t *params, const cli_settings *s);
/* prefix and linear may be NULL. */
int cli_load_model(fovea_model **out, const char *path, const char *prefix,
                   const fovea_linear_attention_params *linear);
/* Loads a model without its cache of packed weights: training soon replaces the file, and then a
 * cached copy would be useless. */
int cli_load_student(fovea_model **out, const char *folder);
int cli_open(cli_session *out, const cli_common *common, const char *model);
void cli_close(cli_session *s);
/* Returns the name of the attention that the model runs with: --attention if given, else the
 * model's own. */
const char *cli_attention(const cli_settings *s, const fovea_model_info *info);
/* Returns the model's preprocessing, with --size and --backend applied if they were given. */
fovea_preprocess cli_preprocess(const cli_settings *s, const fovea_model *model);
/* Returns the model's output `name`, as a string that lives as long as the model, or NULL if the
 * model has no such output. */
const char *cli_output_name(const fovea_model *model, const char *name);
/* Returns the name of the output with the class logits of pixels, or NULL if the model has none. */
const char *cli_segments_output(const fovea_model *model);
/* detector.c: returns whether boxes are computed from output `name`. A detector needs all outputs
 * for which the function returns true. */
bool cli_makes_boxes(const fovea_model *model, const char *name);
/* Returns the largest number of masks that the model finds in a picture. */
size_t cli_most_masks(const fovea_model_info *info);
/* Clips a box to a frame of width x height pixels. Sets `out` to x, y, width and height. */
void cli_place_box(double out[4], const fovea_detection *box, uint32_t width, uint32_t height);
/* Computes the size of a picture after preprocessing. */
void cli_picture_size(uint32_t *width, uint32_t *height, const fovea_preprocess *p,
                      const fovea_model_info *info);
enum { CLI_BATCH = 256 }; /* most frames in a run; equals the limit of a plan */
/* Fills *out from the shared options. --dtype sets the type of weights. On devices other than the
 * CPU it also sets the type of activations, unless it is int8. Frames get the size that the model
 * sees; without a model their size is not set. */
void cli_plan_options(fovea_plan_options *out, const cli_settings *s, const fovea_device *device,
                      const fovea_model *model);

/* ---- files that are written ---- */

typedef struct cli_output {
    FILE *file;
    const char *path;
    /* temporary name until the file is complete; NULL if the file is written in place */
    char *temporary;
    bool nameless; /* opened with O_TMPFILE: has no name in the folder yet */
} cli_output;

/* Checks before long work that the file can be written. Changes nothing. */
int cli_output_check(const char *path);
int cli_output_begin(cli_output *out, const char *path);
/* Renames the finished file to its path. If writing failed, or `problem` is not NULL, the old file
 * remains. */
int cli_output_end(cli_output *o, const char *problem);
/* cli_file_name returns the part of a path after its last slash. cli_folder returns the folder
 * part, which the caller frees. */
const char *cli_file_name(const char *path);
char *cli_folder(const char *path);
bool cli_is_folder(const char *path);
/* Returns whether both paths exist and name the same file. */
bool cli_same_file(const char *a, const char *b);

/* ---- pictures, arrays ---- */

/* 8-bit RGB rows, packed. */
typedef struct cli_image {
    uint32_t width, height;
    uint8_t *rgb;
} cli_image;

bool cli_is_stdin(const char *path); /* "-" */
/* Reads JPEG, PNG, WebP, TIFF, BMP, PBM, PGM or PPM, recognised by content; "-" is standard input.
 * Grey becomes RGB. Alpha is dropped unless cli_images_on_white was called. EXIF's orientation is
 * applied to pictures and masks, unless cli_images_as_stored was called. */
int cli_image_read(cli_image *out, const char *path);
/* Reads one byte per pixel into `rgb`: the values of a grey PNG or PGM, or the palette indices of a
 * PNG. */
int cli_indices_read(cli_image *out, const char *path);
/* Reads a 16-bit grey PNG into `rgb`: two bytes per pixel, in the machine's byte order. */
int cli_depth_read(cli_image *out, const char *path);
/* returns whether the file begins with the signature of Y4M, whatever its name is */
bool cli_is_y4m(const char *path);
void cli_images_as_stored(void);
/* Sets whether pictures read from now on have transparent pixels blended with white, as some
 * models' image processors do. Otherwise alpha is dropped. */
void cli_images_on_white(bool white);
/* Lists the names of the pictures in a folder, sorted by bytes. Files are recognised by their first
 * bytes. A file that has only the name of a picture is listed too, and fails when it is read.
 * Subfolders are not searched. One message names the files left out. Free *names with
 * cli_list_free. */
int cli_folder_pictures(char ***names, size_t *n, const char *folder);
int cli_image_write_png(const char *path, const cli_image *image);
/* Writes a PNG with one byte per pixel: an index into the palette of `colours` R, G, B triples. If
 * `palette` is NULL, `index` contains R, G, B triples. */
int cli_indices_write_png(const char *path, const uint8_t *index, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint32_t colours);
/* Writes a 16-bit grey PNG. */
int cli_depth_write_png(const char *path, const uint16_t *depth, uint32_t width, uint32_t height);
void cli_image_free(cli_image *image);

/* json_file.c: parses a JSON file that the user specified. Release *out with json_decref. */
int cli_json_read(json_t **out, const char *path);

bool cli_ends_with(const char *text, const char *end);
/* Returns a description of float32 values for writing; `shape` has `rank` sizes. */
fovea_tensor cli_tensor(const char *name, const float *data, uint32_t rank, const uint64_t *shape);
int cli_npy_write(const char *path, const float *data, const uint64_t *shape, uint32_t rank);

enum { CLI_COMPONENTS = 3 };

/* Maps features to colours: their first three principal components become red, green and blue,
 * each scaled from its smallest to its largest value. Pictures made with the same basis can be
 * compared. */
typedef struct cli_basis {
    uint32_t columns;
    double *mean, *axis; /* axis: one row per component */
    double low[CLI_COMPONENTS], high[CLI_COMPONENTS];
} cli_basis;

cli_basis cli_basis_of(const float *features, size_t rows, uint32_t columns);
void cli_basis_free(cli_basis *b);
/* Writes the basis as a float32 .safetensors file. */
int cli_basis_write(const cli_basis *b, const char *path);
int cli_basis_read(cli_basis *out, const char *path);
/* Draws the token features of a grid as colours, scaled up to width x height. */
void cli_pca(cli_image *out, const cli_basis *b, const float *features, uint32_t grid_width,
             uint32_t grid_height, uint32_t width, uint32_t height);

/* Returns the bilinear interpolation of a grid at (x, y), in cells; (0, 0) is the centre of the
 * first cell. */
double cli_sample(const double *grid, uint32_t grid_width, uint32_t grid_height, double x,
                  double y);

/* Draws ASCII text with its upper left corner at (x, y), clipped to the picture. Each dot of a
 * letter is `scale` pixels wide. */
void cli_letters(cli_image *on, uint32_t x, uint32_t y, uint32_t scale, const uint8_t rgb[3],
                 const char *text);

/* Returns the cosine of two rows: 1 if both are zero, 0 if only one is zero or a value is not
 * finite. */
double cli_cosine(const float *a, const float *b, size_t n);
/* Mean and smallest cosine of corresponding rows of two matrices; row `at` has the smallest. */
typedef struct cli_likeness {
    double mean, worst;
    size_t at;
} cli_likeness;
cli_likeness cli_compare_rows(const float *a, const float *b, size_t rows, size_t columns);
/* Returns the name of the output with the model's final token features: the last hidden state, the
 * grid of a detector, or the last stage. Returns NULL if the model has none. */
const char *cli_features_output(const fovea_model *model);
/* Returns the name of the output from which a detector chooses its queries, or NULL if the model
 * does not choose queries. Queries with nearly equal scores can swap, so that the query rows of two
 * runs cannot be compared. The rows of this output can be compared. */
const char *cli_chosen_from(const fovea_model *model);

/* ---- progress ---- */

/* A long task. If another task begins while it runs, that one is shown instead. End each task with
 * cli_progress_end. */
typedef struct cli_progress {
    const char *what;
    char text[96]; /* copy of `what`, for the thread that draws */
    double begin, shown, done, total;
    /* name of the units that `done` counts, to show a rate; NULL for no rate. Set after
     * cli_progress_begin. */
    const char *unit;
    struct cli_progress *below;
} cli_progress;

double cli_seconds(void);
/* Shows a line that counts seconds, but only on a terminal and after the first second. Once done >
 * 0, the line has a bar, the rate and the time left. */
void cli_progress_begin(cli_progress *p, const char *what);
void cli_progress_show(cli_progress *p, double done, double total);
void cli_progress_end(cli_progress *p);
/* Erases the progress line, so that other output can be written. */
void cli_progress_hide(void);

/* ---- reports ---- */

json_t *cli_build(void);
json_t *cli_environment(const fovea_device *device);
json_t *cli_plan_bytes(const fovea_plan_info *info);
/* Returns a copy of `text` without terminal control characters. The caller frees it. */
char *cli_printable(const char *text);
/* JSON allows only UTF-8 and finite numbers: these functions replace other bytes with U+FFFD and
 * other numbers with null. */
json_t *cli_json_text(const char *text);
json_t *cli_json_number(double x);
/* Prints one object as one line. */
void cli_print_json(json_t *object);
/* json_csv.c: writes an array of objects as comma-separated values, one line per object. The
 * columns are the keys of the JSON; keys of nested objects are prefixed with the object's key.
 * Arrays are left out. */
void cli_csv_write(FILE *to, const json_t *results);
/* A short text returned by value, for use within one expression. */
typedef struct cli_word {
    char text[64];
} cli_word;
cli_word cli_bytes(uint64_t bytes); /* "1.4 MiB" */
cli_word
cli_duration(double seconds); /* "35 us", "12.3 ms", "4.1 s", "7 min", "2.5 h", "4.7 days" */
/* Returns a text such as ", int8 products (as tuned)". The text is empty if products are float32
 * for any reason except tuning. */
cli_word cli_products(const fovea_plan_info *plan);

#endif
