/* regions.h: names for the dim[] and operands, by number, of the ops of detectors with regions. The
 * contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_REGIONS_H
#define FOVEA_SRC_CONTRACTS_REGIONS_H

/* Columns of a region: left, top, right and bottom edge, score, class. A class below 0 means that
 * the row has no region. */
enum { FV_REGION_SCORE = 4, FV_REGION_CLASS = 5, FV_REGION_COLUMNS = 6 };

/* CANDIDATES; FV_ROW_C is the number of scores of a row */
enum { FV_CANDIDATES_FROM = 2, FV_CANDIDATES_DELTAS = 3 };
enum {
    FV_CANDIDATES_INDEX,
    FV_CANDIDATES_SCORE,
    FV_CANDIDATES_DELTA,
    FV_CANDIDATES_REGION,
    FV_CANDIDATES_OUT
};

/* SUPPRESS */
enum { FV_SUPPRESS_FROM = 1 };
enum { FV_SUPPRESS_IN, FV_SUPPRESS_OUT };

/* ROI_ALIGN; FV_ROW_C is the number of channels */
#define FV_ROI_LEVELS 6 /* most levels */
enum { FV_ROI_SIZE = 2, FV_ROI_REGIONS = 3, FV_ROI_COUNT = 4 };
enum { FV_ROI_REGION, FV_ROI_LEVEL, FV_ROI_OUT = FV_ROI_LEVEL + FV_ROI_LEVELS };

/* CLASS_MASK; FV_ROW_C is the number of classes */
enum { FV_CLASS_MASK_CELLS = 2, FV_CLASS_MASK_REGIONS = 3 };
enum { FV_CLASS_MASK_IN, FV_CLASS_MASK_REGION, FV_CLASS_MASK_RES, FV_CLASS_MASK_OUT };

#endif
