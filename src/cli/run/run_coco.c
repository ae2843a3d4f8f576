/* run_coco.c: writes records in COCO's format: the picture of a record, and the file with the
 * records of all frames. */
#include "cli/run/runner.h"

void run_coco_picture(json_t *record, const run_state *r)
{
    json_object_set_new(record, "image_id", json_integer((json_int_t)r->pictures));
    json_object_set_new(record, "file_name", cli_json_text(r->now.name));
}

int run_save_coco(const run_state *r, const char *path, const json_t *coco, const char *one,
                  const char *many)
{
    const size_t n = json_array_size(coco);
    cli_output file;
    CLI_TRY(cli_output_begin(&file, path));
    const int bad = json_dumpf(coco, file.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    CLI_TRY(cli_output_end(&file, bad ? "the JSON text cannot be created" : NULL));
    cli_tell("%s: %zu %s from %zu picture%s", path, n, n == 1 ? one : many, r->pictures,
             r->pictures == 1 ? "" : "s");
    return CLI_OK;
}
