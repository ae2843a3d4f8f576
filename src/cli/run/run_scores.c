/* run_scores.c: sorts and lists classes by their scores. */
#include "cli/run/run_scores.h"

#include <stdio.h>
#include <stdlib.h>

static int by_probability(const void *a, const void *b)
{
    const run_score *x = a, *y = b;
    const int order = (x->p < y->p) - (x->p > y->p);
    return order ? order : (x->class > y->class) - (x->class < y->class);
}

run_score *run_rank(const double *p, uint32_t n)
{
    run_score *s = cli_alloc(n, sizeof *s);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (run_score){i, p[i]};
    qsort(s, n, sizeof *s, by_probability);
    return s;
}

static const char *label(const run_state *r, uint32_t class, enum run_score_of of)
{
    return of == RUN_SCORE_OF_PIXELS && r->s.info.classes > 0 ? "" : run_label(r, class);
}

void run_print_scores(const run_state *r, const run_score *s, uint32_t n, enum run_score_of of)
{
    for (uint32_t i = 0; i < n; i++) {
        char *text = cli_printable(label(r, s[i].class, of));
        printf("  %.4f  %5u  %s\n", s[i].p, s[i].class, text);
        free(text);
    }
}

json_t *run_describe_scores(const run_state *r, const run_score *s, uint32_t n,
                            enum run_score_of of)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "class", (int)s[i].class, "label",
                                              cli_json_text(label(r, s[i].class, of)),
                                              of == RUN_SCORE_OF_PIXELS ? "share" : "p",
                                              cli_json_number(s[i].p)));
    return list;
}
