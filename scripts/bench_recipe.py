"""What bench_pytorch.py times: the sizes of the models, the norms, the numbers of the training step."""
from collections import namedtuple

# L layers, NH heads, C channels, T positions, B sequences, V characters.
Sizes = namedtuple("Sizes", "L NH C T B V")
SIZES = {"cpu": Sizes(4, 4, 128, 64, 12, 65),
         "baby": Sizes(6, 6, 384, 256, 64, 65),
         "micro": Sizes(1, 4, 16, 16, 1, 27)}
NORMS, PLACEMENTS = ("none", "ln", "bn", "rms"), ("pre", "post")
EPS, BN_MOMENTUM = 1e-5, 0.1
LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


def gflop(sizes):
    """Of a step: 6 per token and matrix parameter (the head's included), 12 L C T for attention."""
    L, _, C, T, B, V = sizes
    return 1e-9 * B * T * (6 * (12 * L * C * C + V * C) + 12 * L * C * T)
