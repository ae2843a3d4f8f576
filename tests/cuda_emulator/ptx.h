/* ptx.h: inline PTX, interpreted: an asm statement as ptx_functions.py writes it, and mistakes that
 * can be planted in one. C for the interpreter, C++ for what calls it. */
#ifndef FOVEA_TESTS_PTX_H
#define FOVEA_TESTS_PTX_H

#include <stdbool.h>

#include "tests/cuda_emulator/emulated_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptx_operand {
    const char *constraint;
    void *to;                 /* an output's variable; NULL: an input */
    unsigned long long value; /* of an input */
    unsigned size;            /* bytes of the variable */
    bool is_float;
} ptx_operand;

/* The statement with that number. What is wrong with it is counted. */
void ptx_run(int site, const char *text, bool is_volatile, bool memory, ptx_operand *list,
             int outputs, int operands);
bool ptx_was_run(int site);

/* ---- memory ---- */

/* Addresses of shared memory are these numbers of 32 bits; of global memory pointers. */
enum { PTX_BYTES = 4096, PTX_SHARED_BEGIN = 0x2000 };
extern char ptx_shared[PTX_BYTES], ptx_global[PTX_BYTES];

/* What was asked of the units that copy. */
typedef struct ptx_copy {
    char what; /* 'c': a copy, 'g': a group ends, 'w': waits for all but the newest `size` */
    const void *to, *from;
    unsigned size, present;
    bool past_l1;
} ptx_copy;
enum { PTX_COPIES = 64 };
typedef struct ptx_copies {
    ptx_copy copy[PTX_COPIES];
    int count;
} ptx_copies;
void ptx_note_copy(ptx_copies *to, const ptx_copy *copy);
extern ptx_copies ptx_asked; /* by interpreted statements */

/* ---- mistakes ---- */

/* Counts one, and says it unless a fault is planted. */
void ptx_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int ptx_mistakes;

typedef struct ptx_fault {
    enum {
        PTX_NONE,
        PTX_SWAP,
        PTX_LETTER,
        PTX_WRITE_ONLY,
        PTX_PLAIN,
        PTX_NO_MEMORY,
        PTX_WORD
    } kind;
    int site, operand;
    char letter;
    const char *from, *to;
} ptx_fault;
/* Fills in the n-th fault of a statement that was run; false: it has fewer. A fault that changes
 * nothing has kind PTX_NONE. */
bool ptx_fault_of(ptx_fault *out, int site, int n);
extern ptx_fault ptx_planted;
void ptx_describe(const ptx_fault *fault, char *out, int size);

/* ---- a warp ---- */

/* Runs all 32 lanes, which may meet (emulated_warp.h). */
void ptx_warp(void (*lane)(int lane, void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
