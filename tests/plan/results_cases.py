"""results_cases.py: makes synthetic outputs of frames. tests/data/results.json has the expected results for them:
tests/data/make_results.py writes that file, test_results_data.py reads it. RandomState's numbers are the same with
every version of NumPy."""
import numpy as np

# Pixels of the frame, and of the picture that the model gets.
DEPTHS = [((61, 47), (42, 28)), ((23, 17), (70, 56)), ((56, 42), (56, 42)), ((97, 61), (28, 28))]
STEP = 5  # share of a depth map's pixels that is kept
FRAMES = [(40, 30), (25, 44), (64, 64)]
THRESHOLDS = [(0.8, 0.5, 0.8), (0.5, 0.3, 0.2), (0.3, 0.5, 0.5)]  # thresholds of scores, masks and overlaps
STUFF = [0, 1]
PADDED = [(40, 30), (25, 44)]  # frames, which are resized to a length of 48 pixels and padded to a square
PARTS = [(100, 60), (60, 100), (130, 50), (48, 48), (47, 200)]
SIDE = 48  # of a part
POSE = (192, 256)
BOXES = [[0, 0, 150, 100], [30.5, -12.25, 64.3, 140.7], [100, 20, 40, 300], [10, 10, 152.8, 204.0],
         [-500, 3, 20, 20], [149, 99, 0, 1], [33, 21, 17.77, 0]]


def depth(case):
    wide, high = DEPTHS[case][1]
    return np.random.RandomState(case).uniform(0, 10, (high, wide)).astype(np.float32)


def masks(case, queries, high, wide, classes):
    """Logits of masks (queries, high, wide), which are discs with noise, and of classes and of no object
    (queries, classes + 1)."""
    random = np.random.RandomState(100 + case)
    y, x = np.mgrid[:high, :wide]
    of_masks = np.empty((queries, high, wide), np.float32)
    of_classes = random.normal(0, 1, (queries, classes + 1)).astype(np.float32)
    for q in range(queries):
        at_x, at_y, radius = random.uniform(0, wide), random.uniform(0, high), random.uniform(2, wide / 2)
        far = np.hypot(x - at_x, y - at_y)
        of_masks[q] = 2 * (radius - far) + random.normal(0, 0.7, (high, wide))
        of_classes[q, classes if q % 4 == 3 else random.randint(classes)] += random.uniform(2, 8)
    return of_masks, of_classes


def masks_of_mask2former(case, queries, high, wide, classes):
    """Such logits with a query that has two probable classes."""
    of_masks, of_classes = masks(30 + case, queries, high, wide, classes)
    of_classes[1, [0, 2]] = 6
    return of_masks, of_classes


def heat(case, points, high, wide):
    """Maps (points, high, wide): peaks between positions, noise, peaks at the edges, and maps without a peak."""
    random = np.random.RandomState(200 + case)
    y, x = np.mgrid[:high, :wide]
    maps = random.normal(0, 0.01 if case % 2 == 0 else 0.1, (points, high, wide))
    for k in range(points):
        at_x, at_y = random.uniform(-1, wide), random.uniform(-1, high)
        maps[k] += random.uniform(0.2, 1) * np.exp(-((x - at_x) ** 2 + (y - at_y) ** 2) / 8)
        if case >= 2 and k % 3 == 1:
            maps[k] = -abs(maps[k])
    return maps.astype(np.float32)


def picture(wide=150, high=100):
    return np.random.RandomState(7).randint(0, 256, (high, wide, 3)).astype(np.uint8)
