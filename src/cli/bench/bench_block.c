/* bench_block.c: makes a transformer block a benchmark case: a synthetic ViT with one block. Its
 * patches have 2 x 2 pixels, so that the embedding costs little compared with the block. */
#include <string.h>

#include "cli/bench/bench.h"

enum { PATCH = 2, TOKENS_MOST = 1 << 20 };

struct block {
    uint32_t tokens, dim, heads, mlp;
};

/* Values that the options do not set are those of the given model, or else of a ViT-B. */
static int parse_block(struct block *out, const bench_request *r)
{
    *out = (struct block){.tokens = 4096, .dim = 768, .heads = 12, .mlp = 4};
    if (r->model) {
        fovea_model_info info = FOVEA_MODEL_INFO_INIT;
        fovea_model_describe(r->model, &info);
        out->dim = info.width;
        out->heads = info.heads;
    }
    CLI_TRY(cli_number(&out->tokens, "tokens", r->tokens, 1, TOKENS_MOST));
    CLI_TRY(cli_number(&out->dim, "dim", r->dim, 1, 16384));
    CLI_TRY(cli_number(&out->heads, "heads", r->heads, 1, 1024));
    CLI_TRY(cli_number(&out->mlp, "mlp", r->mlp, 1, 16));
    return CLI_OK;
}

/* Returns the height of the grid of `tokens` tokens whose shape is closest to a square. */
static uint32_t grid_height(uint32_t tokens)
{
    uint32_t best = 1;
    for (uint32_t h = 1; h <= tokens / h; h++)
        if (tokens % h == 0)
            best = h;
    return best;
}

int bench_block(bench_case *out, const cli_settings *s, const bench_request *r)
{
    struct block b;
    cli_settings sized = *s;
    bench_model_run what = {.output = "hidden1", .batch = 1, .owned = true};
    CLI_TRY(parse_block(&b, r));
    sized.height = PATCH * grid_height(b.tokens);
    sized.width = PATCH * (b.tokens / grid_height(b.tokens));
    char name[64];
    snprintf(name, sizeof name, "synthetic:block-%ux%ux%u", b.dim, b.heads, b.mlp);
    CLI_TRY(cli_load_model(&what.model, name, NULL, &s->linear));
    what.name = name;
    CLI_TRY(bench_model_case(out, &sized, &what));
    const char *attention = s->attention ? s->attention : "softmax";
    out->title = cli_text("block %ux%u %s%s N=%u", b.heads, b.dim / b.heads, attention,
                          bench_types(s->dtype, out->info.compute).text, b.tokens);
    out->params = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "what", "block", "attention",
                            attention, "dtype", cli_dtype_name(s->dtype), "tokens", (int)b.tokens,
                            "dim", (int)b.dim, "heads", (int)b.heads, "mlp", (int)b.mlp);
    cli_add_linear_form(out->params, s);
    return CLI_OK;
}
