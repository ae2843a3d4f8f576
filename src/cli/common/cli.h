/* cli.h: what the commands of `fovea` share: options, exit codes, pictures, progress, reports.
 *
 * The program uses the public interface of the library only. stdout is data, stderr is messages.
 * Functions return an exit code of the program (0: go on) and have then written one line to stderr.
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
    CLI_WRONG = 3, /* failed verification */
    CLI_DEVICE = 4,
    CLI_UNSTABLE = 5, /* only with --strict or --baseline */
    CLI_SLOWER = 6,   /* than the baseline */
    CLI_INPUT = 7,
};

/* ---- commands: one file each, one entry of the table in commands.c ---- */

/* The shared options that a command accepts. */
enum cli_takes {
    CLI_TAKES_ISA = 1 << 0,
    CLI_TAKES_DEVICE = 1 << 1, /* also threads, cores, longest dispatch */
    CLI_TAKES_PLAN = 1 << 2,   /* attention, types, schedule, memory, rigor */
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
    bool development;     /* for those who work on Fovea itself */
    const char *examples; /* command lines, each with a line feed */
} cli_command;

/* A word and what it means. */
typedef struct cli_term {
    const char *name, *meaning;
} cli_term;

/* commands.c: the tables that help, completion and manual pages are made of; a NULL ends each. */
extern const cli_command cli_commands[];
extern const cli_term cli_exit_terms[], cli_environment_terms[];
extern const char cli_model_words[];                   /* what MODEL is */
const cli_command *cli_command_find(const char *name); /* NULL: there is none */

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
int cli_completion(const cli_command *self, int argc, char **argv);
int cli_manual(const cli_command *self, int argc, char **argv);

/* ---- messages ---- */

#if defined(__GNUC__)
#ifdef __MINGW32__ /* its own printf, which is C's, is not the default's */
#define CLI_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#else
#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif
#else
#define CLI_PRINTF(f, a)
#endif

/* log_filter.c: prints log messages of the library, as FOVEA_LOG says. */
void cli_log_begin(void);
/* Writes "fovea: ..." to stderr. */
void cli_tell(const char *format, ...) CLI_PRINTF(1, 2);
/* Says on stderr, once for each text, that a plan's attention is not what its weights were trained
 * with. */
void cli_tell_untrained(const fovea_plan_info *plan);
/* What FOVEA_COMPUTE_AUTO has come to, why, and how to get what else there is; freed by the caller.
 * NULL: the options said what products are. */
char *cli_products_text(const fovea_plan_info *plan);
/* Says it on stderr, once for each text. */
void cli_tell_products(const fovea_plan_info *plan);
/* That a share of a plan's time is spent in reference kernels, freed by the caller; NULL: hardly
 * any. */
char *cli_reference_text(const fovea_plan_info *plan);
/* Says it on stderr, once for each text. */
void cli_tell_reference(const fovea_plan_info *plan);
/* How pictures become pixels, and which file says so: "preprocessor_config.json:
 * CLIPImageProcessor, short side to 224, ..."; freed by the caller. */
char *cli_preprocess_text(const fovea_preprocess *p, const fovea_model_info *info);
/* Says it on stderr, with a warning where no file does. */
void cli_tell_preprocess(const fovea_preprocess *p, const fovea_model_info *info);
/* Like cli_tell; returns `code`. */
int cli_fail(int code, const char *format, ...) CLI_PRINTF(2, 3);
/* Writes the library's message; returns the exit code of its status, 0 for FOVEA_OK. */
int cli_check(fovea_status status);

/* Returns from the caller when `call` fails. */
#define CLI_TRY(call)                                                                              \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_)                                                                                 \
            return code_;                                                                          \
    } while (0)

/* The next call where nothing has failed yet, of functions that have something to free at their
 * end. */
#define CLI_THEN(code, call)                                                                       \
    do {                                                                                           \
        if (!(code))                                                                               \
            (code) = (call);                                                                       \
    } while (0)

/* ---- options ---- */

/* One option of a command. */
typedef struct cli_option {
    const char *name;     /* NULL ends a list */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a flag */
    const char *help;
    void *target;               /* const char ** of what has an argument, bool * of a flag */
    unsigned takes;             /* of a shared option: who accepts it, enum cli_takes */
    const char *const *choices; /* of the argument, NULL at their end; NULL: others too */
    bool again;                 /* may be given several times: target is a cli_texts */
} cli_option;

/* The arguments of such an option in their order; `text` is to be freed. */
typedef struct cli_texts {
    const char **text;
    size_t n;
} cli_texts;

/* The options that all commands share, as written; NULL: not given. */
typedef struct cli_common { /* More than 25 fields: one for each option */
    const char *device, *isa, *threads, *cores;
    const char *attention, *dtype, *compute, *memory_limit, *max_dispatch, *wisdom, *rigor;
    const char *weights_cache;
    const char *schedule, *chunk, *size, *backend, *prefix;
    const char *nala_lambda, *pola_alpha, *q_scale, *linear_heads;
    bool json, strict, no_exif;
    const char *half;     /* help of --dtype, set by a command that takes 16-bit types */
    const char *more;     /* what --help says below the options; NULL: nothing */
    const char *products; /* help of --compute, where it is not that of operations */
    bool stores_int8;     /* --dtype int8 too, of a model's weights */
    bool fast;            /* products are FOVEA_COMPUTE_AUTO if neither --compute nor --dtype says
                             what they are, else FOVEA_COMPUTE_F32 */
    bool new_wisdom;      /* the file of --wisdom need not be there yet */
} cli_common;

/* Of commands that plan a model and run it. */
#define CLI_STORES                                                                                 \
    .half = "f32, f16, bf16: of the weights; not on the CPU of activations too; int8: of the "     \
            "weights of blocks alone",                                                             \
    .stores_int8 = true, .products = CLI_COMPUTE_HELP, .fast = true
#define CLI_COMPUTE_HELP                                                                           \
    "what products of matrices multiply: auto, if neither it nor --dtype is given: the fastest "   \
    "that fovea tune has found accurate enough, else bf16 where the device has instructions for "  \
    "it, else f32; f32; bf16; int8"

/* Parses argv into the targets; positional arguments begin at argv[*first]. On --help it prints the
 * text and sets *first to 0: the command is done. */
int cli_parse(int *first, const cli_command *self, cli_common *common, const cli_option *own,
              int argc, char **argv);

/* A command as its --help knows it. Without the option --help itself. */
typedef struct cli_description {
    const cli_command *command;
    const cli_option *option;
    size_t options;
    const char *more; /* of cli_common; NULL: nothing */
} cli_description;

typedef void cli_describer(const cli_description *d, void *payload);

/* Calls `to` with what --help would print. */
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
    uint32_t width, height; /* of --size; 0: not given */
    int backend;            /* a fovea_resample, of --backend; -1: not given */
    fovea_linear_attention_params linear;
} cli_settings;

const char *cli_dtype_name(fovea_dtype type); /* "f32" */
const char *cli_compute_name(fovea_compute compute);
/* What FOVEA_COMPUTE_AUTO comes to in a plan; any other `compute` is left as it is. */
int cli_settle_compute(fovea_compute *out, const fovea_model *model, fovea_device *device,
                       const fovea_plan_options *options);
int cli_settle(cli_settings *out, const cli_common *common);
/* Reads and saves wisdom in the file of --wisdom; "none": neither. */
int cli_wisdom(const cli_common *c);
/* `text` as a number in [low, high]; NULL leaves *out alone. */
int cli_number(uint32_t *out, const char *option, const char *text, uint32_t low, uint32_t high);
int cli_real(double *out, const char *option, const char *text, double low, double high);
/* The index of `text` in `names`, which end with NULL; NULL leaves *out alone. */
int cli_choose(int *out, const char *option, const char *text, const char *const *names);
/* "518", "1920x1080". */
int cli_size(uint32_t *width, uint32_t *height, const char *text);
/* Splits a list at its commas and expands ranges A..B*F and A..B+S, of option "device" also "all";
 * *out ends with NULL, free it with cli_list_free. NULL gives a list of one NULL, with *n 1. */
int cli_list(char ***out, size_t *n, const char *option, const char *text);
void cli_list_free(char **list);

/* The entry of `names`, which end with NULL, that `text` most likely misspells; NULL: none. */
const char *cli_likely(const char *text, const char *const *names);

/* Zeroed memory, aligned to a cache line; exits the program when memory runs out. */
void *cli_alloc(size_t count, size_t size);
/* Grows an array of `n` elements, or NULL, so that one more fits. Exits without memory. */
void *cli_grow(void *array, size_t n, size_t size);
char *cli_text(const char *format, ...) CLI_PRINTF(1, 2);

/* ---- a model on a device ---- */

typedef struct cli_session {
    cli_settings settings;
    fovea_device *device;
    fovea_model *model;
    fovea_model_info info;
} cli_session;

/* These return the exit code of their failure. cli_open resolves the device "auto" to the one on
 * which the model is fastest at --size according to wisdom; cli_close saves what --rigor or
 * FOVEA_RIGOR has measured. */
int cli_open_device(fovea_device **out, const cli_settings *s);
int cli_linear_form(fovea_linear_attention_params *out, const cli_common *c);
/* What of it was given, to the parameters of a result; returns `params`. */
json_t *cli_add_linear_form(json_t *params, const cli_settings *s);
/* prefix, linear: NULL: none. */
int cli_load_model(fovea_model **out, const char *path, const char *prefix,
                   const fovea_linear_attention_params *linear);
/* One that the next replaces: nothing of it is kept. */
int cli_load_student(fovea_model **out, const char *folder);
int cli_open(cli_session *out, const cli_common *common, const char *model);
void cli_close(cli_session *s);
/* The attention that a model runs with. */
const char *cli_attention(const cli_settings *s, const fovea_model_info *info);
/* The model's preprocessing, at --size and by --backend if they were given. */
fovea_preprocess cli_preprocess(const cli_settings *s, const fovea_model *model);
/* The model's own text of output `name`; NULL: it has none of that name. */
const char *cli_output_name(const fovea_model *model, const char *name);
/* The output with logits of the classes of pixels, by a linear head or another; or NULL. */
const char *cli_segments_output(const fovea_model *model);
/* detector.c: whether boxes are made of output `name`; a model that finds boxes needs all such. */
bool cli_makes_boxes(const fovea_model *model, const char *name);
/* x, y, width and height of a box in a frame of width x height pixels, at whose border it ends. */
void cli_place_box(double out[4], const fovea_detection *box, uint32_t width, uint32_t height);
/* The size of a picture after preprocessing. */
void cli_picture_size(uint32_t *width, uint32_t *height, const fovea_preprocess *p,
                      const fovea_model_info *info);
enum { CLI_BATCH = 256 }; /* frames of a run at most, as of a plan */
/* --dtype sets the type of weights, and on devices other than the CPU of activations too, unless it
 * is int8. Frames have the size that the model sees; of no model: none. */
void cli_plan_options(fovea_plan_options *out, const cli_settings *s, const fovea_device *device,
                      const fovea_model *model);

/* ---- files that are written ---- */

typedef struct cli_output {
    FILE *file;
    const char *path;
    char *temporary; /* temporary name until the file is complete; NULL: written in place */
    bool nameless;   /* O_TMPFILE: it has no name yet */
} cli_output;

/* Checks before the work that the file can be written; changes nothing. */
int cli_output_check(const char *path);
int cli_output_begin(cli_output *out, const char *path);
/* Renames the file to its path. With a `problem` (NULL: none), or if writing failed, the old file
 * stays. */
int cli_output_end(cli_output *o, const char *problem);
/* What follows the last slash; what it is in, to be freed. */
const char *cli_file_name(const char *path);
char *cli_folder(const char *path);
bool cli_is_folder(const char *path);
/* True if both paths exist and name one file. */
bool cli_same_file(const char *a, const char *b);

/* ---- pictures, arrays ---- */

/* 8-bit RGB rows, packed. */
typedef struct cli_image {
    uint32_t width, height;
    uint8_t *rgb;
} cli_image;

bool cli_is_stdin(const char *path); /* "-" */
/* JPEG, PNG, WebP, TIFF, BMP, binary PPM or PGM, detected by content; of "-" standard input. Grey
 * becomes RGB, alpha is dropped unless cli_images_on_white was called. Pictures and classes are
 * turned upright as EXIF says, unless cli_images_as_stored was called. */
int cli_image_read(cli_image *out, const char *path);
/* One byte per pixel, into `rgb`: the values of a grey PNG or PGM, or a PNG's palette indices. */
int cli_indices_read(cli_image *out, const char *path);
/* A grey PNG of 16 bits, two bytes per pixel as the machine orders them, into `rgb`. */
int cli_depth_read(cli_image *out, const char *path);
bool cli_is_y4m(const char *path); /* a file that begins as Y4M does, whatever its name */
void cli_images_as_stored(void);
/* Whether transparent pixels of the pictures read from now on are blended with white, as some
 * models' image processors do; else alpha is dropped. */
void cli_images_on_white(bool white);
/* The names of the pictures in a folder, by what the files begin with, in the order of their bytes;
 * also of files that have a picture's name and are none, which reading then refuses. Not of folders
 * in it. One line tells which other files are left out. Free with cli_list_free. */
int cli_folder_pictures(char ***names, size_t *n, const char *folder);
int cli_image_write_png(const char *path, const cli_image *image);
/* One byte per pixel, an index into `colours` R, G, B triples; without a palette its R, G, B. */
int cli_indices_write_png(const char *path, const uint8_t *index, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint32_t colours);
/* Grey of 16 bits. */
int cli_depth_write_png(const char *path, const uint16_t *depth, uint32_t width, uint32_t height);
void cli_image_free(cli_image *image);

/* json_file.c: a file that the user gives, as json.h reads it. Release *out with json_decref. */
int cli_json_read(json_t **out, const char *path);

bool cli_ends_with(const char *text, const char *end);
/* float32 values to be written; shape: `rank` sizes. */
fovea_tensor cli_tensor(const char *name, const float *data, uint32_t rank, const uint64_t *shape);
int cli_npy_write(const char *path, const float *data, const uint64_t *shape, uint32_t rank);

enum { CLI_COMPONENTS = 3 };

/* What makes colours of features: their first principal components, in red, green and blue, from
 * the smallest value of each to the largest. Pictures of one basis can be compared. */
typedef struct cli_basis {
    uint32_t columns;
    double *mean, *axis; /* axis: one row a component */
    double low[CLI_COMPONENTS], high[CLI_COMPONENTS];
} cli_basis;

cli_basis cli_basis_of(const float *features, size_t rows, uint32_t columns);
void cli_basis_free(cli_basis *b);
/* As a .safetensors, in float32. */
int cli_basis_write(const cli_basis *b, const char *path);
int cli_basis_read(cli_basis *out, const char *path);
/* Token features of a grid, scaled up to width x height. */
void cli_pca(cli_image *out, const cli_basis *b, const float *features, uint32_t grid_width,
             uint32_t grid_height, uint32_t width, uint32_t height);

/* Bilinear between the centres of a grid's cells; (0, 0) is the centre of the first cell. */
double cli_sample(const double *grid, uint32_t grid_width, uint32_t grid_height, double x,
                  double y);

/* ASCII with its upper left corner at (x, y), every dot `scale` pixels wide, clipped to the
 * picture. */
void cli_letters(cli_image *on, uint32_t x, uint32_t y, uint32_t scale, const uint8_t rgb[3],
                 const char *text);

/* Cosine of two rows. 0 where there is none: values that are not finite, a single one of two rows
 * that is zero. */
double cli_cosine(const float *a, const float *b, size_t n);
/* The same for `rows` rows: their mean, and the smallest, which is row `at`. */
typedef struct cli_likeness {
    double mean, worst;
    size_t at;
} cli_likeness;
cli_likeness cli_compare_rows(const float *a, const float *b, size_t rows, size_t columns);
/* The output that holds a model's last token features: the last hidden state, a detector's grid, or
 * the last stage; NULL: it has none. */
const char *cli_features_output(const fovea_model *model);
/* The output with the features that a detector chooses its queries from, which change places where
 * scores are nearly equal, so that rows of queries cannot be compared; NULL: it chooses none. */
const char *cli_chosen_from(const fovea_model *model);

/* ---- progress ---- */

/* A long task. A task that begins inside it is shown instead. End each with cli_progress_end. */
typedef struct cli_progress {
    const char *what;
    char text[96]; /* copy of `what`, for the thread that draws */
    double begin, shown, done, total;
    const char *unit; /* what `done` counts, for the rate: set after cli_progress_begin, or NULL */
    struct cli_progress *below;
} cli_progress;

double cli_seconds(void);
/* On a terminal: a line that counts seconds after the first second, and once done > 0 a bar with
 * the rate and the time left. */
void cli_progress_begin(cli_progress *p, const char *what);
void cli_progress_show(cli_progress *p, double done, double total);
void cli_progress_end(cli_progress *p);
/* Erases the line before other output. */
void cli_progress_hide(void);

/* ---- reports ---- */

json_t *cli_build(void);
json_t *cli_environment(const fovea_device *device);
json_t *cli_plan_bytes(const fovea_plan_info *info);
/* `text` without terminal control characters. Free it. */
char *cli_printable(const char *text);
/* JSON allows only UTF-8 and finite numbers: others become U+FFFD and null. */
json_t *cli_json_text(const char *text);
json_t *cli_json_number(double x);
/* One object, one line. */
void cli_print_json(json_t *object);
/* json_csv.c: an array of objects as comma-separated values, a line each: the same keys as in JSON,
 * those of members after their member's name; arrays are left out. */
void cli_csv_write(FILE *to, const json_t *results);
/* A short text by value, for one expression. */
typedef struct cli_word {
    char text[64];
} cli_word;
cli_word cli_bytes(uint64_t bytes); /* "1.4 MiB" */
cli_word
cli_duration(double seconds); /* "35 us", "12.3 ms", "4.1 s", "7 min", "2.5 h", "4.7 days" */
/* ", int8 products (as tuned)"; empty where they are float32 for another reason. */
cli_word cli_products(const fovea_plan_info *plan);

#endif
