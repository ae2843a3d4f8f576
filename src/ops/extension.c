/* extension.c: stores the extension of the process. */
#include "ops/extension.h"

#include <stdatomic.h>

static const fv_extension *_Atomic added;

void fv_extension_add(const fv_extension *e)
{
    const fv_extension *none = NULL;
    /* Descriptors enter the table before anything refers to their ops. */
    for (int op = 0; op < FV_OP_COUNT; op++)
        if (e->op[op] && !fv_op_table[op])
            fv_op_table[op] = e->op[op];
    atomic_compare_exchange_strong(&added, &none, e);
}

const fv_extension *fv_extension_added(void)
{
    return added;
}
