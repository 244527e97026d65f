"""The options of a model of ./train, as normlab.py and the classes of Hugging Face read them. Needs no PyTorch."""
import json
import types

from pytorch.model_file import number_of

# Options of ./train, with _ for -, and their defaults: what the model is (OPTION_OF_MODEL), and what only its training needs.
MODEL = dict(
    level="char", items=False, n_layer=4, n_head=4, n_kv_head=0, n_embd=128, block_size=64, position="learned", rope_theta=1e4,
    embd_scale="none", act="gelu", ffn_width=0, head="tied", attn_gate="none", attn_softcap=0.0, logit_softcap=0.0, bias=True,
    norm="ln", norm_attn="auto", norm_ffn="auto", norm_final="auto", affine=True, norm_bias="auto", norm_eps=1e-5, norm_groups=0,
    qk_norm="off", v_norm="off", attn_norm="off", ffn_norm="off", qk_norm_over="head", qk_scale="fixed",
    rms_fraction=1.0, bn_axis="batch+time", pn_group_scaling=True, ts_prior_count=0, bhyt_kappa=10.0, gated_rank=16,
    placement="pre", placement_attn="auto", placement_ffn="auto", final_norm="auto", connection="auto", mix_fraction=0.25)
OPTIONS = dict(
    **MODEL, init="gpt2", init_std=0.02, init_embd_std="auto", dropout=0.0, bn_momentum=0.1, bn_shards=1, rbn_mean=0.0, rbn_var=0.0,
    brn_r_max=3.0, brn_d_max=5.0, brn_warmup=80, brn_relax=560, dyt_alpha=0.5, prepbn_steps=2000, prepbn_eta=0.0,
    pn_alpha_fwd=0.9, pn_alpha_bkw=0.9, pn_warmup=200, pn_divisor="psi", pad_stats="mask", pad_to="longest",
    bhyt_lambda=2.0, norm_detach_mean=False, norm_detach_std=False)

# Activations whose hidden units have two halves: the function of the one, which the other multiplies.
GATED = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}

# Options whose value "auto" is that of another.
PARENTS = {"norm_attn": "norm", "norm_ffn": "norm", "norm_final": "norm", "placement_attn": "placement",
           "placement_ffn": "placement", "n_kv_head": "n_head", "norm_groups": "n_head"}
# Norms of queries, keys, values, attention's output and hidden units: their option, and that of the norm which "on" stands for. Placements
# in which they are on.
INNER = {"qk_norm": "norm_attn", "v_norm": "norm_attn", "attn_norm": "norm_attn", "ffn_norm": "norm_ffn"}
INNER_ON = {"qk_norm": ("hybrid", "hybrid-star", "ngpt"), "v_norm": ("hybrid", "hybrid-star")}


class Config(types.SimpleNamespace):
    """What a model is: vocab_size and OPTIONS, with each norm by its name, "none" for no norm."""
    rows_per_token = 1  # of a norm's input; of queries and keys NH

    def __init__(self, vocab_size=256, **options):
        assert options.keys() <= OPTIONS.keys(), f"unknown: {options.keys() - OPTIONS.keys()}"
        super().__init__(vocab_size=vocab_size, **{**OPTIONS, **options})
        for name, parent in PARENTS.items():
            if getattr(self, name) in ("auto", 0):
                setattr(self, name, getattr(self, parent))
        if not self.ffn_width:
            self.ffn_width = -(-(8 * self.n_embd // 3) // 32) * 32 if self.act in GATED else 4 * self.n_embd
        self.affine = self.affine and self.placement != "ngpt"
        for name, norm in INNER.items():
            kind = getattr(self, name)
            if kind == "off" and self.placement_attn in INNER_ON.get(name, ()):
                kind = "on"
            setattr(self, name, {"off": "none", "on": getattr(self, norm)}.get(kind, kind))


def parse(texts):
    """The options that the texts of a model's file say. Its text "auto" says what this became; older files have none."""
    became = json.loads(texts.get("auto", "{}"))
    texts = {name: str(became.get(name, text)) if text == "auto" else text for name, text in texts.items()}
    said = {name: texts.get(name.replace("_", "-"), "auto") for name in OPTIONS}
    return {name: text == "on" if isinstance(OPTIONS[name], bool) else number_of({name: text}, name, OPTIONS[name])
            for name, text in said.items() if text != "auto"}


def text_of(value):
    """The text of an option's value."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).removesuffix(".0")
