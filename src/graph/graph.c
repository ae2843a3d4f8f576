/* graph.c: the outputs of a graph, and its memory. */
#include "graph/graph.h"

#include "base/mem.h"
#include "graph/attended.h"

fv_wanted *fv_graph_wanted(const fv_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_wanted; i++)
        if (strcmp(g->wanted[i].name, name) == 0)
            return &g->wanted[i];
    return NULL;
}

const fv_wanted *fv_graph_output(const fv_graph *g, fovea_output_kind kind)
{
    for (uint32_t i = 0; i < g->n_wanted; i++)
        if (g->wanted[i].kind == kind && g->wanted[i].value != FV_NO_VALUE)
            return &g->wanted[i];
    return NULL;
}

void fv_graph_drop_constants(fv_graph *g)
{
    for (fv_constant *c = g->constants; c; c = c->next) {
        fv_mem_free((void *)(uintptr_t)c->tensor.data);
        c->tensor.data = NULL;
    }
}

void fv_graph_release(fv_graph *g)
{
    fv_graph_drop_constants(g);
    while (g->constants) {
        fv_constant *c = g->constants;
        g->constants = c->next;
        fv_mem_free(c);
    }
    while (g->tables) {
        fv_plan_table *t = g->tables;
        g->tables = t->next;
        fv_posemb_free(&t->posemb);
        fv_mem_free(t->data);
        fv_mem_free(t);
    }
    fv_mem_free(g->step);
    fv_mem_free(g->value);
    for (uint32_t i = 0; i < g->n_wanted; i++)
        fv_attended_free(g->wanted[i].attended);
    fv_mem_free(g->wanted);
}
