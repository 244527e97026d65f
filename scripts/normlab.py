"""Every norm and every placement of ./train in PyTorch: to read, to copy from, to load runs.

    import normlab; from pytorch import texts # with scripts/ on sys.path
    model = normlab.load("runs/bn-pre-s1")    # a run's folder or a safetensors file; in eval mode
    ids = texts.encode(model, "To be or not to be")[None]           # (B,T)
    logits = model(ids)                       # (B,T,V)
    seen = model.activations(ids)             # {"h.0.ln_1": (B,T,C), "h.0.ln_1.in": (B,T,C), ...}

The formulas come from the papers (./train --list-norms and --list-placements name them), not from
the C code. scripts/pytorch/check_normlab.py compares the two. A new Model(Config(...)) has PyTorch's default
weights; for the initial weights of ./train, load a run of --max-iters=0.
B sequences, T positions, C channels, NH heads, V characters. A norm sees x (B,S,C). S is T, except for
queries, keys and values head by head: T NH, a row for each head of a token. `valid` (B,S) is False at
pads, or None.

model.train() and model.eval() do what ./train does. Norms that pool over tokens use the statistics
of the batch in training, and each forward updates their running statistics, which they use in
evaluation. After its warm-up pn uses running statistics in training too. Dropout is on in training
only; PyTorch samples its masks, so they differ from ./train's.
"""
import contextlib
import functools

from common import command_line

if __name__ == "__main__":
    command_line.require("normlab", "pytorch", "torch")

import torch
from torch import nn

from pytorch import model_file, nanogpt, placements
from pytorch.block import MLP, Attention, FixedPositions, softcap
from pytorch.norms import make_norm
from pytorch.options import Config

# ---- layers -------------------------------------------------------------------------------------
class Layer(nn.Module):
    def __init__(self, config, l):
        super().__init__()
        self.config, self.depth, self.drop = config, (config.n_layer, l), nn.Dropout(config.dropout)
        self.sublayers = []  # function, placement's row, connection and names of norms by site
        for name, function, site, kind in (("ln_1", "attn", "attn", config.norm_attn), ("ln_2", "mlp", "ffn", config.norm_ffn)):
            row = placements.row_of(config, site, l)
            connection = placements.connection_of(config, row)
            sites = row.sites + [connection.norm] * bool(connection.norm)
            norms = {place: f"{name}_{place}" if i else name for i, place in enumerate(sites)}
            self.sublayers.append((function, row, connection(self, function, config.n_embd), norms))
            for norm in norms.values():
                setattr(self, norm, make_norm(kind, config.n_embd, config))
            if site == "attn":  # in nanoGPT's order
                self.attn = Attention(config)
        self.mlp = MLP(config)

    def forward(self, x, r, valid=None):
        """x (B,T,C) after the layer, and r: what the connection keeps beside it."""
        for function, row, connection, names in self.sublayers:
            F, *norms = (functools.partial(getattr(self, name), valid=valid) for name in (function, *names.values()))
            x, r = placements.sublayer(row, connection, (x, r), F, dict(zip(names, norms)), self.drop, self.depth)
        return x, r


# ---- the Transformer ----------------------------------------------------------------------------
class Model(nn.Module):
    """nanoGPT's Transformer and names. `vocabulary`: the code points or bytes of the ids."""
    def __init__(self, config: Config, vocabulary=None):
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        C, row = config.n_embd, placements.PLACEMENTS[config.placement]
        self.connection = placements.connection_of(config, row)

        def norm_if(there):
            return make_norm(config.norm_final if there else "none", C, config)
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config.vocab_size, C),
            "wpe": nn.Embedding(config.block_size, C) if config.position == "learned"
            else FixedPositions(config),
            "drop": nn.Dropout(config.dropout),
            "ln_e": norm_if(row.of_embedding),
            "h": nn.ModuleList(Layer(config, l + 1) for l in range(config.n_layer)),
            "ln_f": norm_if(row.final if config.final_norm == "auto" else config.final_norm == "on"),
            "ln_f_second": norm_if(self.connection.norm),
        })
        # one number, of dyt's and derf's recipes: Zhu et al. 2025, Chen et al. 2025
        self.shared_scale = nn.Parameter(torch.full((1,), C ** 0.5)) if config.embd_scale == "learned" else 1
        self.lm_head = nn.Linear(C, config.vocab_size, bias=False)
        if config.head == "tied":
            self.lm_head.weight = self.transformer["wte"].weight
        self.connection.attach_head(self, C)
        placements.apply(self)

    def forward(self, ids, valid=None):
        """Logits (B,T,V) of ids (B,T)."""
        valid = valid if self.config.pad_stats == "mask" else None
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1], device=ids.device))
        embedded = t["drop"](x * self.shared_scale)
        x = t["ln_e"](embedded, valid)
        r = self.connection.start(x, embedded)
        for layer in t["h"]:
            x, r = layer(x, r, valid)
        norms = (functools.partial(t[name], valid=valid) for name in ("ln_f", "ln_f_second"))
        logits = self.lm_head(self.connection.head(self, x, r, *norms))
        return softcap(self.config.logit_softcap, logits)

    def activations(self, ids, valid=None):
        """The last output of each module in forward(ids), and as NAME.in its input:
        {"h.0.ln_1": (B,T,C), "h.0.attn.softmax": (B,NH,T,T), "logits": (B,T,V), ...}."""
        seen = {}
        with contextlib.ExitStack() as hooks:
            for name, module in self.named_modules():
                def keep(module, inputs, output, name=name.replace("transformer.", "") or "logits"):
                    seen[name] = output[0] if isinstance(output, tuple) else output
                    seen[name + ".in"] = inputs[0]
                hooks.callback(module.register_forward_hook(keep).remove)
            self(ids, valid)
        return seen


@contextlib.contextmanager
def rounded_inputs(model, bits):
    """In this context the inputs of all linear layers are rounded, each tensor to 2^bits - 1 equal steps between minus and
    plus its largest absolute value."""
    levels = 2 ** (bits - 1) - 1

    def round_input(module, inputs):
        step = (inputs[0].abs().amax() / levels).clamp(min=1e-30)
        return ((inputs[0] / step).round() * step, *inputs[1:])
    with contextlib.ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, nn.Linear):
                hooks.callback(module.register_forward_pre_hook(round_input).remove)
        yield


def load(run, **changes):
    """The model of a run's folder or a safetensors file, in eval mode; `changes` replace its options.
    A missing file raises FileNotFoundError, a damaged one ValueError."""
    path, texts, arrays = model_file.read(run)
    config, arrays = nanogpt.config_of(path, arrays, texts, **changes)
    model = Model(config, model_file.symbols_of({"vocabulary": "", **texts}))  # empty if there is none
    model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    return model.eval()


if __name__ == "__main__":  # a module to import: it only prints its documentation
    print(__doc__)
