/* subgroup.cl: products of 16 rows and 32 columns by the 16 lanes of a subgroup, in float16, with
 * functions of Intel's extensions. Lanes read blocks together, and broadcast numbers to all lanes.
 * A broadcast is part of the next instruction's operand, so it costs no instruction of its own.
 *
 *   FV_BLOCK(name, p)     declares 8 numbers a lane: number n of lane l is p[16 n + l]
 *   FV_SPREAD(name, p)    the same for 4, which lanes may give
 *   FV_GIVEN_BY(name, n, l)  number n of lane l of those, both known when the kernel is compiled
 */
#ifndef FV_LANES /* the tests' driver, which has no subgroups, defines its own */
#define FV_LANES 16
#define FV_OF_LANES __attribute__((intel_reqd_sub_group_size(FV_LANES))) /* of a kernel */
#define FV_LANE get_sub_group_local_id()
#define FV_EXCHANGE /* declares variables for exchanges between lanes; none are needed */
#define FV_BLOCK(name, p)                                                                          \
    const half8 name = as_half8(intel_sub_group_block_read_us8((global const ushort *)(p)))
#define FV_SPREAD(name, p)                                                                         \
    const ushort4 name = intel_sub_group_block_read_us4((global const ushort *)(p))
/* Broadcast as bits, because Intel's compiler makes a copy if the type is float16. */
#define FV_GIVEN_BY(name, n, l) as_half(intel_sub_group_broadcast((name).s##n, l))
#endif

/* w points to four steps of 32 columns; each step has the lanes' first columns, then their second
 * ones. a points to 16 rows. Of two steps, lane l has step l / 4 % 2 of row l % 4 + l / 8 * 4, then
 * of the row 8 further on. Calls ADD(i, x, columns) for each row i of each step, where x is the
 * row's number and `columns` the lane's two columns. */
#define FV_FOUR_ROWS(ADD, i, n, l, columns)                                                        \
    ADD(i, FV_GIVEN_BY(a_, n, l), columns);                                                        \
    ADD((i) + 1, FV_GIVEN_BY(a_, n, (l) + 1), columns);                                            \
    ADD((i) + 2, FV_GIVEN_BY(a_, n, (l) + 2), columns);                                            \
    ADD((i) + 3, FV_GIVEN_BY(a_, n, (l) + 3), columns)
#define FV_ALL_ROWS(ADD, n0, n1, l, columns)                                                       \
    FV_FOUR_ROWS(ADD, 0, n0, l, columns);                                                          \
    FV_FOUR_ROWS(ADD, 4, n0, (l) + 8, columns);                                                    \
    FV_FOUR_ROWS(ADD, 8, n1, l, columns);                                                          \
    FV_FOUR_ROWS(ADD, 12, n1, (l) + 8, columns)
#define FV_FOUR_STEPS(ADD, w, a)                                                                   \
    do {                                                                                           \
        FV_BLOCK(w_, w);                                                                           \
        FV_SPREAD(a_, a);                                                                          \
        FV_ALL_ROWS(ADD, 0, 1, 0, w_.s01);                                                         \
        FV_ALL_ROWS(ADD, 0, 1, 4, w_.s23);                                                         \
        FV_ALL_ROWS(ADD, 2, 3, 0, w_.s45);                                                         \
        FV_ALL_ROWS(ADD, 2, 3, 4, w_.s67);                                                         \
    } while (0)
