/* cmd_eval.c: `fovea eval`: compares a model's classes, masks, depths or boxes with the known
 * answers, or its features with another model's. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/depth_truth.h"
#include "cli/common/interrupt.h"
#include "cli/eval/eval.h"

/* Chooses the task for which the data has answers. */
static int choose_task(eval_run *r)
{
    if (r->annotations_path)
        CLI_TRY(annotations_read(&r->annotations, r->annotations_path));
    if (r->against)
        r->task = &eval_agreement;
    else if (r->annotations_path)
        r->task = annotations_are_panoptic(&r->annotations) ? &eval_panoptic : &eval_objects;
    else if (r->pictures)
        r->task = &eval_depth;
    else if (r->data.masks)
        r->task = &eval_segments;
    else if (r->data.classes)
        r->task = &eval_classes;
    return r->task ? CLI_OK
                   : cli_fail(CLI_INPUT,
                              "%s: the pictures have no classes, masks or depths; use "
                              "--annotations FILE with the objects in them, or --against MODEL2, "
                              "which compares features without labels",
                              r->data_path);
}

static int check_options(eval_run *r)
{
    int align = 0;
    if (r->against && r->annotations_path)
        return cli_fail(
            CLI_USAGE,
            "--against and --annotations cannot be combined; evaluate with one of them at a time");
    if (!r->data_path)
        return cli_fail(CLI_USAGE, "eval needs --data DIR; see fovea eval --help");
    r->depth_scale = 1000;
    r->batch = 1;
    CLI_TRY(cli_number(&r->batch, "batch", r->batch_text, 1, CLI_BATCH));
    CLI_TRY(cli_choose(&align, "align", r->align_text, eval_aligns));
    CLI_TRY(cli_real(&r->depth_scale, "depth-scale", r->scale_text, 1e-6, 1e9));
    CLI_TRY(cli_real(&r->score, "score", r->score_text, 0, 1));
    r->align = (enum depth_align)align;
    return eval_output_check(r);
}

/* Refuses options about depth with any other task, because they show a misunderstanding. */
static int check_depth(const eval_run *r)
{
    const char *option = r->align_text ? "align" : r->scale_text ? "depth-scale" : NULL;
    if (!option || r->task == &eval_depth)
        return CLI_OK;
    return cli_fail(CLI_USAGE, "--%s is only for depth, but %s has no folders images and depth",
                    option, r->data_path);
}

/* Refuses options about segments with any other task. */
static int check_panoptic(const eval_run *r)
{
    const char *option = r->panoptic_folder ? "panoptic" : r->score_text ? "score" : NULL;
    if (!option || r->task == &eval_panoptic)
        return CLI_OK;
    return cli_fail(CLI_USAGE,
                    "--%s is only for panoptic segmentation, which needs an --annotations FILE "
                    "with segments_info",
                    option);
}

/* Refuses options about the data's classes with tasks that do not use them. */
static int check_mapping(const eval_run *r)
{
    if (r->class_order && r->task != &eval_classes)
        return cli_fail(CLI_USAGE, "--class-order needs folders of classes, which %s does not have",
                        r->data_path);
    if (r->reduce_labels && r->task != &eval_segments)
        return cli_fail(CLI_USAGE, "--reduce-labels needs masks, which %s does not have",
                        r->data_path);
    return CLI_OK;
}

/* Opens the model on the device that is best for the first value of each list. */
static int open_model(eval_run *r)
{
    const struct {
        const char *name, **of;
    } lists[] = {{"attention", &r->common.attention},
                 {"compute", &r->common.compute},
                 {"size", &r->common.size}};
    cli_common first = r->common;
    const char **firsts[] = {&first.attention, &first.compute, &first.size};
    char **list[3] = {NULL};
    size_t n;
    int code = CLI_OK;
    for (int i = 0; i < 3; i++) {
        CLI_THEN(code, cli_list(&list[i], &n, lists[i].name, *lists[i].of));
        *firsts[i] = list[i] ? list[i][0] : NULL;
    }
    CLI_THEN(code, cli_open(&r->s, &first, r->path));
    for (int i = 0; i < 3; i++)
        cli_list_free(list[i]);
    return code;
}

static int finish(eval_run *r)
{
    int code = eval_cases_run(r);
    if (code && code == interrupt_code())
        cli_tell("interrupted; %s", r->output ? "the same command with --resume continues"
                                              : "with -o FILE, --resume could continue it");
    CLI_THEN(code, eval_output_write(r));
    eval_journal_end(r, !code);
    return code;
}

static int evaluate(eval_run *r, const char *model)
{
    r->path = model;
    CLI_TRY(check_options(r));
    r->pictures = r->against || r->annotations_path ? NULL : depth_truth_pictures(r->data_path);
    const char *path = r->pictures ? r->pictures : r->data_path;
    const bool any = r->pictures || r->annotations_path || (r->against && cli_is_folder(path));
    CLI_TRY(any ? dataset_open_pictures(&r->data, path) : dataset_open(&r->data, path));
    CLI_TRY(choose_task(r));
    CLI_TRY(check_depth(r));
    CLI_TRY(check_mapping(r));
    CLI_TRY(check_panoptic(r));
    CLI_TRY(open_model(r));
    CLI_TRY(r->task->begin(r));
    CLI_TRY(eval_cases_begin(r));
    CLI_TRY(eval_journal_begin(r));
    interrupt_catch(r->batch > 1 ? "batch of pictures" : "picture");
    return finish(r);
}

static void release(eval_run *r)
{
    eval_cases_end(r);
    dataset_close(&r->data);
    fovea_model_free(r->other);
    cli_close(&r->s);
    annotations_free(&r->annotations);
    free(r->stuff);
    free(r->own_folder);
    free(r->image_of);
    free(r->class_of);
    free(r->mapping);
    free(r->pictures);
    free(r);
}

static const char more[] =
    "\nDIR contains one of\n"
    "  a folder of pictures for each class\n"
    "  pictures with masks: NAME_mask.png next to NAME.jpg, or the folders images and masks\n"
    "  pictures with depths: the folders images and depth\n"
    "  any pictures, with --annotations or --against\n"
    "--attention, --compute and --size take lists; the result has a line for every combination.\n";

int cli_eval(const cli_command *self, int argc, char **argv)
{
    eval_run *r = cli_alloc(1, sizeof *r);
    const cli_option own[] = {
        {"data", 0, "DIR",
         "folder with pictures and reference results, or a packed .safetensors file",
         &r->data_path},
        {"against", 0, "MODEL2",
         "reference model, run in float32: measure the cosines of MODEL's patch features with "
         "those of MODEL2",
         &r->against},
        {"annotations", 0, "FILE",
         "COCO file (.json) with the objects or the panoptic segments in the pictures of DIR",
         &r->annotations_path},
        {"panoptic", 0, "DIR2",
         "folder of the pictures whose colours are the ids of segments (default: FILE of "
         "--annotations without .json)",
         &r->panoptic_folder},
        {"score", 0, "P",
         "lowest score of a panoptic segment (default 0.8; for Mask2Former and detectors 0.5)",
         &r->score_text},
        {"class-order", 0, "HOW",
         "how folders map to classes: name: by the order of the folders' names; number: by the "
         "numbers in the names; FILE: by the lines of FILE, or by a .json (default: by the names "
         "of the model's classes, else name)",
         &r->class_order},
        {"reduce-labels", 0, "HOW",
         "masks: yes: value 0 is ignored, and value 1 is class 0; no (default: do_reduce_labels of "
         "the model's preprocessing file)",
         &r->reduce_labels, .choices = dataset_reductions},
        {"align", 0, "HOW",
         "alignment of depths: none; median: by the ratio of the medians; affine: for relative "
         "models, of inverse depth by scale and shift",
         &r->align_text, .choices = eval_aligns},
        {"depth-scale", 0, "N", "units of a depth picture per metre (default 1000)",
         &r->scale_text},
        {"batch", 0, "N",
         "largest number of consecutive pictures of one size that run together (default 1)",
         &r->batch_text},
        {"output", 'o', "FILE",
         "file for the results; its extension selects the format: .md, .csv, .json, .jsonl",
         &r->output},
        {"format", 0, "NAME", "format of the results: text, md, csv, json, jsonl", &r->format_text},
        {"resume", 0, NULL, "resume an earlier run from FILE.journal, where FILE is that of -o",
         &r->resume},
        {NULL},
    };
    r->common = (cli_common){CLI_STORES};
    r->common.more = more;
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    if (!code && first && first + 1 != argc)
        code = cli_fail(CLI_USAGE, "eval takes one MODEL; see fovea eval --help");
    else if (!code && first)
        code = evaluate(r, argv[first]);
    release(r);
    return code;
}
