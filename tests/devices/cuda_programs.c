/* cuda_programs.c: the CUDA programs that the cases of the kernel checker ask for, each once.
 *
 *   cuda_programs                a line each: architecture it is from on, kernel, file, mechanism,
 *                                entry, options
 *   cuda_programs FILE MECHANISM the text
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_kernels.h"
#include "cuda/cuda_sources.h"
#include "gpu/gpu_host.h"
#include "tests/devices/dry_launch.h"
#include "tests/kernels/check_run.h"

/* Hashes of the options already printed for each file and mechanism. */
enum { CAPACITY = 1 << 18 };
static uint64_t seen[CAPACITY];

static uint64_t hash(const char *text, uint64_t h)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static bool is_new(uint64_t h)
{
    uint32_t i = (uint32_t)h % CAPACITY;
    h |= 1; /* 0 marks a free slot */
    for (; seen[i]; i = (i + 1) % CAPACITY)
        if (seen[i] == h)
            return false;
    seen[i] = h;
    return true;
}

static void print(const fv_kernel *k, const check_case *c, const fv_knobs *knobs)
{
    const fv_gpu_code *code = k->code.gpu;
    fv_launch l = {.kernel = k, .args = c->args, .rows = c->args.prob.dim[FV_DIM_ROWS], .cols = 1};
    fv_gpu_text options = {.length = 0};
    l.args.knobs = *knobs;
    for (int i = 0; i < FV_OPERANDS; i++) {
        const check_operand *o = &c->operand[i];
        if (o->kind != CHECK_ABSENT)
            l.operand[i] =
                (fv_operand){.ref = {.space = FV_SPACE_BUFFER},
                             .type = o->kind == CHECK_WEIGHT ? c->args.prob.weight : o->storage};
    }
    fv_gpu_settle(&l, 0, 0);
    fv_gpu_specialise(&options, &l, code->group);
    if (is_new(hash(options.text, hash(code->program, k->mech + 14695981039346656037u))))
        printf("%u %s %s %s %s%s\n",
               k->needs & FV_NEED_CUDA_MMA       ? 80
               : k->needs & FV_NEED_CUDA_MMA_F16 ? 75
                                                 : 0,
               k->name, code->program, dry_mechanism(k->mech), code->entry, options.text);
}

static void print_stored(const fv_kernel *k, check_case *c)
{
    fv_knobs knobs;
    for (uint32_t i = 0; check_knobs(k, &knobs, i); i++)
        print(k, c, &knobs);
}

static void print_kernel(const fv_kernel *k)
{
    static const uint8_t types[] = {FV_F16, FV_BF16};
    const check_op *op = check_ops[k->op];
    check_case c;
    for (uint32_t index = 0; check_make(&c, k->op, op, index); index++) {
        if (fv_kernel_fits(k, &c.args.prob, k->needs))
            print_stored(k, &c);
        check_release(&c, op);
        for (size_t t = 0; t < sizeof types; t++) {
            check_make(&c, k->op, op, index);
            if (check_store(&c, types[t]) && fv_kernel_fits(k, &c.args.prob, k->needs))
                print_stored(k, &c);
            check_release(&c, op);
        }
    }
}

static int print_text(const char *program, const char *mech)
{
    const char *text[FV_CUDA_TEXTS];
    uint16_t number = 0;
    while (strcmp(dry_mechanism(number), mech) != 0)
        if (++number == FV_MECH_COUNT)
            return 1;
    const uint32_t count = fv_cuda_texts(program, number, text);
    for (uint32_t i = 0; i < count; i++)
        printf("%s", text[i] ? text[i] : "");
    return text[count - 1] == NULL;
}

int main(int argc, char **argv)
{
    int count;
    const fv_kernel *list = fv_cuda_kernels(&count);
    if (argc == 3)
        return print_text(argv[1], argv[2]);
    for (int i = 0; i < count; i++)
        print_kernel(&list[i]);
    return 0;
}
