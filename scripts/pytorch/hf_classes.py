"""The classes of Hugging Face transformers that compute what a model of ./train computes: a row for each.

A row of CLASSES has the class, the options of ./train that it needs, the members of its config.json that
are options of ./train, members that must have one value, and its arrays. To add a class, add a row here and a line to
VARIANTS of tests/scripts/test_hf_folders.py (PYTHON=venv/bin/python make check FILTER=pytest/hf_folders).
hf_folder.py converts in both directions by these rows. They were read from the classes' code in
transformers 5.23: models/gpt2, llama, olmo2, gemma2 and qwen3.

All of them rotate the two halves of a head (rotate_half), as ./train does. Gemma's norms multiply by
1 + weight, and its embedding is multiplied by sqrt(C).
"""
from collections import namedtuple

from pytorch.model_file import USAGE, ModelError
from pytorch.options import MODEL, PARENTS, Config, text_of

# ---- members of config.json ---------------------------------------------------------------------

# How the value of an option becomes a JSON value, and the reverse.
Kind = namedtuple("Kind", "json option")

# A member of config.json and the option that it is. `default` is the option's value if the member is missing. Without
# a default (REQUIRED) it must be there; with LEFT the option is left to other members, or to ./train.
Member = namedtuple("Member", "key option kind default")
REQUIRED, LEFT = object(), None


def names(table):
    """The kind of an option with names: for each of ./train's the names of transformers, the first of
    which is written."""
    known = {theirs: ours for ours, all_theirs in table.items() for theirs in all_theirs}
    return Kind(lambda name: table[name][0], lambda value: known[value])


def rope_theta(value):
    """The base of rotary positions that are not stretched."""
    if value.get("rope_type", "default") != "default" or value.get("partial_rotary_factor", 1) != 1:
        raise ValueError
    return float(value["rope_theta"])


def truth(value):
    """A JSON value that must be true or false."""
    if not isinstance(value, bool):
        raise TypeError
    return value


WHOLE, REAL, SWITCH = Kind(int, int), Kind(float, float), Kind(bool, truth)
CAP = Kind(lambda cap: cap or None, lambda value: float(value or 0))
TIED = Kind(lambda head: head == "tied", lambda value: "tied" if truth(value) else "untied")
ROPE = Kind(lambda theta: {"rope_type": "default", "rope_theta": theta}, rope_theta)
PLAIN = {"gelu": ["gelu"], "gelu-tanh": ["gelu_new", "gelu_pytorch_tanh"], "relu": ["relu"],
         "relu2": ["relu2"], "silu": ["silu", "swish"]}
GATED = {"swiglu": ["silu", "swish"], "geglu": ["gelu"], "geglu-tanh": ["gelu_pytorch_tanh", "gelu_new"],
         "reglu": ["relu"]}

GPT2_MEMBERS = [
    Member("n_embd", "n_embd", WHOLE, REQUIRED), Member("n_layer", "n_layer", WHOLE, REQUIRED),
    Member("n_head", "n_head", WHOLE, REQUIRED), Member("n_positions", "block_size", WHOLE, REQUIRED),
    Member("n_inner", "ffn_width", WHOLE, LEFT), Member("layer_norm_epsilon", "norm_eps", REAL, 1e-5),
    Member("activation_function", "act", names(PLAIN), "gelu-tanh"),
    Member("tie_word_embeddings", "head", TIED, "tied"),
    *(Member(key, "dropout", REAL, LEFT) for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop"))]


def llama_members(act=("hidden_act", "swiglu"), head="untied", head_dim=LEFT):
    """Members of Llama's config and of its descendants'."""
    return [
        Member("hidden_size", "n_embd", WHOLE, REQUIRED),
        Member("num_hidden_layers", "n_layer", WHOLE, REQUIRED),
        Member("num_attention_heads", "n_head", WHOLE, REQUIRED),
        Member("num_key_value_heads", "n_kv_head", WHOLE, LEFT),
        Member("head_dim", "head_size", WHOLE, head_dim),
        Member("intermediate_size", "ffn_width", WHOLE, REQUIRED),
        Member("max_position_embeddings", "block_size", WHOLE, REQUIRED),
        Member("rms_norm_eps", "norm_eps", REAL, 1e-6),
        Member(act[0], "act", names(GATED), act[1]),
        Member("rope_parameters", "rope_theta", ROPE, LEFT), Member("rope_theta", "rope_theta", REAL, 1e4),
        Member("tie_word_embeddings", "head", TIED, head),
        Member("attention_bias", "bias", SWITCH, LEFT), Member("attention_dropout", "dropout", REAL, LEFT)]


# ---- arrays -------------------------------------------------------------------------------------

# Functions from and to a weight of ./train.
SAME = (lambda weight: weight,) * 2
TRANSPOSED = (lambda weight: weight.T,) * 2
LESS_ONE = lambda weight: weight - 1, lambda weight: weight + 1
OVER_ROOT = (lambda weight: weight / root_of_width(weight), lambda weight: weight * root_of_width(weight))


def root_of_width(weight):
    return weight.dtype.type(weight.shape[1] ** 0.5)


def sizes(config, V):
    """The sizes that shapes are made of: V, T and C; S of a head, K of all keys, A of queries, keys and
    values together, H of the hidden units."""
    C, S = config.n_embd, config.n_embd // config.n_head
    K = S * config.n_kv_head
    return {"V": V, "T": config.block_size, "C": C, "S": S, "K": K, "A": C + 2 * K, "H": config.ffn_width}


# Tensors of ./train: the name, and those of the parts that the class has, one below the other, all without .weight and
# .bias; * is the layer. With the shape of each part's weight, in the letters of sizes(): that of a norm has one letter.
OURS = "transformer.h.*."
GPT2_ARRAYS = {name: [(name, shape)] for name, shape in {
    "transformer.wte": "VC", "transformer.wpe": "TC", OURS + "ln_1": "C", OURS + "ln_2": "C",
    OURS + "attn.c_attn": "AC", OURS + "attn.c_proj": "CC", OURS + "mlp.c_fc": "HC", OURS + "mlp.c_proj": "CH",
    "transformer.ln_f": "C", "lm_head": "VC"}.items()}


def llama_arrays(norms, qk_shapes=""):
    """Llama's and its descendants'. `norms` are those of a layer: ./train's name and the class's.
    qk_shapes: of the norms of queries and keys, if there are any."""
    theirs, attention, mlp = "model.layers.*.", "model.layers.*.self_attn.", "model.layers.*.mlp."
    return {
        "transformer.wte": [("model.embed_tokens", "VC")],
        **{OURS + name: [(theirs + other, "C")] for name, other in norms},
        **{f"{OURS}attn.{x}_norm": [(f"{attention}{x}_norm", shape)] for x, shape in zip("qk", qk_shapes)},
        OURS + "attn.c_attn": [(attention + "q_proj", "CC"), (attention + "k_proj", "KC"), (attention + "v_proj", "KC")],
        OURS + "attn.c_proj": [(attention + "o_proj", "CC")],
        OURS + "mlp.c_fc": [(mlp + "gate_proj", "HC"), (mlp + "up_proj", "HC")],
        OURS + "mlp.c_proj": [(mlp + "down_proj", "CH")],
        "transformer.ln_f": [("model.norm", "C")],
        "lm_head": [("lm_head", "VC")]}


# ---- the classes --------------------------------------------------------------------------------

# model_type, architecture: how config.json names the class. needs: options of ./train, with the values
# that they may have; the first is that of a model from the class. An option of the model that neither `needs` nor `members`
# name must have its default. members, fixed: of config.json, `fixed` with the only value that fits. `always`: members and
# values that are written beside these. biased: whether its linear layers and norms always have biases; others may have them
# in linear layers. arrays: see above. linear, norm, embedding: what the class makes of the weights of its linear layers, its
# norms and of its embedding.
Class = namedtuple("Class", "model_type architecture needs members fixed arrays biased always linear norm embedding",
                   defaults=[False, {}, SAME, SAME, SAME])

ANY = []  # every value of the option fits
# Options that others, the arrays or the tokenizer say, and those that have no effect with ln, rms and the classes' placements.
SAID = dict.fromkeys(("norm", "bias", "norm_bias", "level", "items", "qk_norm_over", "norm_groups", "bn_axis", "pn_group_scaling",
                      "ts_prior_count", "bhyt_kappa", "gated_rank", "mix_fraction"), ANY)
OF_NORM = {"ln": {"rms_fraction": ANY}, "rms": {}}  # that have none with this norm


def needs(norm, placement, **others):
    """The options that a class with this norm in this placement needs."""
    return {"norm_attn": [norm], "norm_ffn": [norm], "norm_final": [norm], "final_norm": ["auto", "on"],
            "placement": [placement], "placement_attn": [placement], "placement_ffn": [placement],
            "connection": ["auto", "plain"], **SAID, **OF_NORM[norm], **others}


GPT2 = {"rope_theta": ANY, "act": list(PLAIN)}
LLAMA = {"position": ["rope"], "act": list(GATED)}
TWO_NORMS = [("ln_1", "input_layernorm"), ("ln_2", "post_attention_layernorm")]
OLMO2_NORMS = [("ln_1", "post_attention_layernorm"), ("ln_2", "post_feedforward_layernorm")]
FOUR_NORMS = [("ln_1", "input_layernorm"), ("ln_1_out", "post_attention_layernorm"),
              ("ln_2", "pre_feedforward_layernorm"), ("ln_2_out", "post_feedforward_layernorm")]
OF_ALL = {"quantization_config": None}
OF_ROPE = {**OF_ALL, "rope_scaling": None, "partial_rotary_factor": 1.0}

CLASSES = [
    Class("gpt2", "GPT2LMHeadModel", needs("ln", "pre", **GPT2), GPT2_MEMBERS,
          {**OF_ALL, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
           "add_cross_attention": False}, GPT2_ARRAYS, biased=True, linear=TRANSPOSED),
    Class("llama", "LlamaForCausalLM", needs("rms", "pre", **LLAMA),
          [*llama_members(), Member("mlp_bias", "bias", SWITCH, LEFT)], OF_ROPE, llama_arrays(TWO_NORMS)),
    Class("qwen3", "Qwen3ForCausalLM", needs("rms", "pre", **LLAMA, qk_norm=["rms"], qk_norm_over=["head"],
                                             bias=[False]),
          llama_members(head_dim=128), {**OF_ROPE, "use_sliding_window": False},
          llama_arrays(TWO_NORMS, "SS")),
    Class("olmo2", "Olmo2ForCausalLM", needs("rms", "reordered", **LLAMA, qk_norm=["rms"],
                                             qk_norm_over=["width"], bias=[False]),
          llama_members(), OF_ROPE, llama_arrays(OLMO2_NORMS, "CK")),
    Class("gemma2", "Gemma2ForCausalLM", needs("rms", "sandwich", **LLAMA, bias=[False]),
          [*llama_members(("hidden_activation", "geglu-tanh"), "tied", 256),
           Member("query_pre_attn_scalar", "head_size", WHOLE, 256),
           Member("sliding_window", "block_size", WHOLE, LEFT),
           Member("attn_logit_softcapping", "attn_softcap", CAP, 50.0),
           Member("final_logit_softcapping", "logit_softcap", CAP, 30.0)],
          {**OF_ROPE, "use_bidirectional_attention": None},
          llama_arrays(FOUR_NORMS), norm=LESS_ONE, embedding=OVER_ROOT,
          always={"layer_types": lambda layers: ["full_attention"] * layers}),
]


# ---- the class of a model of ./train ------------------------------------------------------------

def misfits(needed, texts, config):
    """Options of the model that do not fit, a phrase for each: an option that `needed` does not name must have its default.
    texts: what the model's file says."""
    wrong, default = [], Config(**{name: getattr(config, name) for name in MODEL.keys() & needed})
    for name in MODEL:
        allowed, own = needed.get(name, [getattr(default, name)]), getattr(config, name)
        if allowed is ANY or own in allowed:
            continue
        shown = PARENTS.get(name, name) if texts.get(name.replace("_", "-"), "auto") == "auto" else name
        phrase = f"{shown.replace('_', '-')}={'|'.join(map(text_of, allowed))}, not {text_of(own)}"
        wrong += [] if phrase in wrong else [phrase]
    return wrong


def class_of(path, texts, config):
    """The row for a model of ./train. ModelError if no class computes it."""
    wrong = [(row, misfits({**{member.option: ANY for member in row.members}, **row.needs}, texts, config)) for row in CLASSES]
    fewest = min(len(phrases) for _, phrases in wrong)
    nearest = [(row, phrases) for row, phrases in wrong if len(phrases) == fewest]
    if fewest:
        raise ModelError(f"{path}: no class of transformers fits: " + "; ".join(
            f"{row.architecture} needs {', '.join(phrases)}" for row, phrases in nearest), USAGE)
    return nearest[0][0]
