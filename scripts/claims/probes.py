"""Linear probes: ridge regression on activations, and which norms of a dump are read."""
import re

import numpy as np

RIDGE = 1e-3  # of the mean square of a feature


def principal_sites(arrays):
    """The names of the norms before sub-layers and before the head."""
    return sorted(name[:-len(".input")] for name in arrays
                  if re.fullmatch(r"transformer\.(h\.\d+\.ln_[12]|ln_f)\.input", name))


def ridge_r2(features, target):
    """R^2 of a ridge regression that is fitted to the first three quarters of the sequences and measured
    on the rest. features: (B,T,C), target: (B,T). A constant target has nothing to explain: 0."""
    count = features.shape[0] * 3 // 4
    width = features.shape[-1]
    x, test = features[:count].reshape(-1, width), features[count:].reshape(-1, width)
    y, wanted = np.ravel(target[:count]), np.ravel(target[count:])
    if wanted.std() < 1e-12:
        return 0.0
    middle, level = x.mean(0), y.mean()
    x, test = x - middle, test - middle
    square = x.T @ x / len(x)
    square += np.eye(width) * RIDGE * max(square.trace() / width, 1e-30)
    weights = np.linalg.solve(square, x.T @ (y - level) / len(x))
    return float(1 - ((test @ weights + level - wanted) ** 2).sum() /
                 ((wanted - wanted.mean()) ** 2).sum())
