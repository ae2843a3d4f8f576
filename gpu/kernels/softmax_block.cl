/* softmax_block.cl: how a work-group of softmax attention divides a block of queries and a slice of
 * value channels among its work-items. They form rows of ACROSS; each row has four queries, and
 * each work-item QUADS quads of channels. */
#define SLICE 64 /* value channels */
#if FV_GROUP < 16
#define ACROSS FV_GROUP
#else
#define ACROSS 16
#endif
#define DOWN (FV_GROUP / ACROSS)
#define BLOCK (4 * DOWN) /* queries */
#define QUADS (SLICE / 4 / ACROSS)
#define STAGED (FV_STAGE && FV_GROUP > 1)
