/* commands.c: the commands of `fovea`, and the texts that their help shares. */
#include <string.h>

#include "cli/common/cli.h"

enum {
    MODEL = CLI_TAKES_ISA | CLI_TAKES_DEVICE | CLI_TAKES_PLAN | CLI_TAKES_WISDOM | CLI_TAKES_SIZE |
            CLI_TAKES_JSON | CLI_TAKES_MODEL | CLI_TAKES_WEIGHTS_CACHE,
};

const cli_command cli_commands[] = {
    {"info", "[--kernels] [--models] [--attentions]", "lists devices, backends and kernels",
     cli_info, CLI_TAKES_ISA | CLI_TAKES_JSON,
     .examples = "fovea info\n"
                 "fovea info --models --attentions\n"
                 "fovea info --kernels --json\n"},
    {"run", "MODEL INPUT...", "computes labels, features and other outputs of pictures", cli_run,
     MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT,
     .examples = "fovea run vit-base-patch16-224 photo.jpg --top 3\n"
                 "fovea run dinov2-base photos/ --size 518 --features features.safetensors\n"
                 "fovea run dinov2-base photo.jpg --size 1920x1080 --attention linear:elu1 "
                 "--pca pca.png\n"
                 "fovea run rf-detr-small photo.jpg --boxes boxes.json --overlay drawn.png\n"},
    {"plan", "MODEL [--size WxH]",
     "prints the time, memory and steps of a model without running it", cli_plan, MODEL,
     .examples = "fovea plan dinov2-base --size 1036\n"
                 "fovea plan synthetic:dinov2-b --size 4096 --attention linear:elu1 "
                 "--memory-limit 512\n"
                 "fovea plan dinov2-base --advise --budget 100ms,300MiB\n"},
    {"tune", "[MODEL] [--size LIST], or MODEL --accuracy X PICTURE...",
     "measures the fastest kernels or types on this machine, and saves the results", cli_tune,
     MODEL | CLI_TAKES_PICTURES,
     .examples = "fovea tune dinov2-base --size 518,1036 --time 300\n"
                 "fovea tune dinov2-base --device all -o wisdom.txt\n"
                 "fovea tune dinov2-base --accuracy 0.9995 photos/\n"},
    {"verify", "[MODEL [PICTURE...]] [--kernel TEXT]",
     "checks kernels, or each step of a model, against references", cli_verify,
     MODEL | CLI_TAKES_PICTURES,
     .examples = "fovea verify --kernel gemm\n"
                 "fovea verify --device cl:0\n"
                 "fovea verify dinov2-base photo.jpg --size 518 --dtype f16\n"},
    {"cache", "list|verify|clear|retry|export|import [FILE]",
     "manages wisdom, compiled kernels and packed weights on disk", cli_cache,
     CLI_TAKES_WISDOM | CLI_TAKES_WEIGHTS_CACHE | CLI_TAKES_JSON,
     .examples = "fovea cache list\n"
                 "fovea cache export wisdom.txt\n"},
#ifdef CLI_TRAIN
    {"linearise", "MODEL --data PHOTOS -o OUT",
     "converts a softmax checkpoint to attention that is linear in the number of tokens",
     cli_linearise, (MODEL & ~(unsigned)CLI_TAKES_SIZE) | CLI_TAKES_PICTURES | CLI_TAKES_STRICT,
     .examples = "fovea linearise dinov2-small --data photos -o linear --budget 60min\n"
                 "fovea linearise dinov2-small --data photos -o linear --resume\n"},
    {"adapt", "MODEL --stage 1|2|3 --data PATH -o OUT",
     "trains linear attention for a softmax checkpoint", cli_adapt,
     MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT,
     .examples = "fovea adapt dinov2-small --stage 2 --data photos --attention linear:elu1 -o out\n"
                 "fovea adapt out --stage 3 --data classes --val held-out -o task\n"
                 "fovea adapt dinov2-small --stage 2 --data photos --attention linear:elu1 -o out "
                 "--resume\n"},
#endif
    {"lm", "MODEL --ids 1,2,3 [--generate N]",
     "continues a sequence of tokens with a language model", cli_lm,
     MODEL & ~(unsigned)CLI_TAKES_SIZE,
     .examples = "fovea lm gla-340m --ids 1,523,17 --generate 64\n"
                 "fovea lm gla-340m --ids - --generate 64 --top-k 40 --temperature 0.8 --json\n"},
    {"eval", "MODEL --data DIR",
     "measures the accuracy of a model on pictures with reference results", cli_eval,
     MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT,
     .examples = "fovea eval vit-base-patch16-224 --data classes\n"
                 "fovea eval dinov2-linear --data photos --against dinov2-base -o report.md\n"
                 "fovea eval rf-detr-small --data photos --annotations instances.json\n"},
    {"bench", "gemm|attention|block|model|lm|kernel|floors",
     "measures speed and memory, and verifies results", cli_bench, MODEL | CLI_TAKES_STRICT,
     .examples = "fovea bench model dinov2-base --size 518,1036 --attention softmax,linear\n"
                 "fovea bench attention --tokens 256..65536*2 --attention softmax,linear -o md\n"
                 "fovea bench gemm --shape 1024x768x768 --dtype f32 -o jsonl --output gemm.jsonl\n"
                 "fovea bench model dinov2-base --baseline before.json --fail-above 5\n"},
    {"fetch", "OWNER/NAME[@REVISION] [FILE...]",
     "downloads a model of the Hugging Face hub into the cache of huggingface_hub", cli_fetch, 0,
     .examples = "fovea fetch facebook/dinov2-small\n"
                 "fovea fetch facebook/dinov2-small@main README.md\n"},
    {"convert", "CHECKPOINT FOLDER [--architecture NAME]",
     "makes a model folder from files of PyTorch or from quantised weights", cli_convert, 0,
     .examples = "fovea convert dinov2-base/pytorch_model.bin dinov2-base\n"
                 "fovea convert rf-detr-small.pth rf-detr-small\n"
                 "fovea convert vit_b.pth vit-b --architecture vit_base_patch16_224\n"
                 "fovea convert dinov2-base-int8 dinov2-base-f32\n"},
    {"completion", "bash|zsh|fish",
     "writes a script that completes commands and options in a shell", cli_completion, 0,
     .examples = "source <(fovea completion bash)\n"
                 "fovea completion fish > ~/.config/fish/completions/fovea.fish\n"},
    {"op", "CASE.safetensors -o OUT.safetensors",
     "runs one operation from a file in the format of the golden files", cli_op,
     MODEL &
         ~(unsigned)(CLI_TAKES_JSON | CLI_TAKES_SIZE | CLI_TAKES_MODEL | CLI_TAKES_WEIGHTS_CACHE),
     .development = true,
     .examples = "fovea op case.safetensors -o out.safetensors\n"
                 "fovea op case.safetensors -o out.safetensors --form chunk --chunk 64\n"},
    {"manual", "[COMMAND]", "writes the manual page of the program, or of a command", cli_manual, 0,
     .development = true,
     .examples = "fovea manual > fovea.1\n"
                 "fovea manual run > fovea-run.1\n"},
    {NULL},
};

const char cli_model_words[] =
    "MODEL is a Hugging Face directory, a .safetensors file next to its config.json, the name\n"
    "OWNER/NAME of a model of the Hugging Face hub, which is downloaded once, or synthetic:NAME,\n"
    "which has random weights; fovea info --models lists the names.\n";

const cli_term cli_exit_terms[] = {
    {"0", "success"},
    {"1", "wrong usage"},
    {"2", "not supported on this machine"},
    {"3", "verification failed"},
    {"4", "device error"},
    {"5", "a measurement was unstable"},
    {"6", "slower than the baseline"},
    {"7", "bad input, or output that cannot be written"},
    {NULL, NULL},
};

const cli_term cli_environment_terms[] = {
    {"FOVEA_ISA", "highest instruction set, like --isa"},
    {"FOVEA_CACHE", "folder for compiled kernels"},
    {"FOVEA_COMPILE_SECONDS", "time after which a kernel's compilation is given up; default: 120"},
    {"FOVEA_WEIGHTS_CACHE", "folder in which packed weights are stored, like --weights-cache"},
    {"FOVEA_WISDOM", "file with results of fovea tune, like --wisdom; empty: use no results"},
    {"FOVEA_RIGOR", "estimate, measure or exhaustive, like --rigor"},
    {"FOVEA_TUNE_BUSY",
     "keep: fovea tune also keeps results that it measures while the machine is busy"},
    {"HF_HUB_CACHE, HF_HOME", "folder of downloaded models, as for huggingface_hub"},
    {"HF_HUB_OFFLINE", "1: nothing is downloaded"},
    {"FOVEA_LOG", "log messages to print: off; all; or those that contain a word: cache, wisdom, "
                  "tuning, device, cuda"},
    {NULL, NULL},
};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(name, c->name) == 0)
            return c;
    return NULL;
}
