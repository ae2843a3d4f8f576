/* ptx.h: interprets inline PTX: asm statements in the form that ptx_functions.py writes, with
 * faults that can be planted in them. C for the interpreter, C++ for its callers. */
#ifndef FOVEA_TESTS_PTX_H
#define FOVEA_TESTS_PTX_H

#include <stdbool.h>

#include "tests/cuda_emulator/emulated_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptx_operand {
    const char *constraint;
    void *to;                 /* variable of an output; NULL: an input */
    unsigned long long value; /* value of an input */
    unsigned size;            /* bytes of the variable */
    bool is_float;
} ptx_operand;

/* Interprets statement number `site` and counts its errors. */
void ptx_run(int site, const char *text, bool is_volatile, bool memory, ptx_operand *list,
             int outputs, int operands);
bool ptx_was_run(int site);

/* ---- memory ---- */

/* Addresses of shared memory are 32-bit numbers from PTX_SHARED_BEGIN on. Addresses of global
 * memory are pointers. */
enum { PTX_BYTES = 4096, PTX_SHARED_BEGIN = 0x2000 };
extern char ptx_shared[PTX_BYTES], ptx_global[PTX_BYTES];

/* A request to the copy units. */
typedef struct ptx_copy {
    char
        what; /* 'c': a copy; 'g': end of a group; 'w': wait for all but the newest `size` groups */
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
extern ptx_copies ptx_asked; /* requested by interpreted statements */

/* ---- errors ---- */

/* Counts an error, and prints it unless a fault is planted. */
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
/* Fills in the n-th fault of a statement that was run; returns false if there are fewer. A fault
 * that changes nothing has kind PTX_NONE. */
bool ptx_fault_of(ptx_fault *out, int site, int n);
extern ptx_fault ptx_planted;
void ptx_describe(const ptx_fault *fault, char *out, int size);

/* ---- a warp ---- */

/* Runs all 32 lanes, which may call emulated_meet() (emulated_warp.h). */
void ptx_warp(void (*lane)(int lane, void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
