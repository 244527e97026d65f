#include "model/lab/preset.h"
#include <stddef.h>

/* Sizes, grouped queries and initial weights are not part of a preset.

     gpt2     Radford et al. 2019
     llama    Touvron et al. 2023 (arXiv:2302.13971)
     gemma2   Gemma team 2024 (arXiv:2408.00118), without sliding windows, and without the factor
              sqrt(C) of the embeddings
     olmo2    OLMo 2, 2024 (arXiv:2501.00656)
     qwen3    Qwen team 2025 (arXiv:2505.09388) */
struct settings {
    const char *name, *settings;
};

static const struct settings presets[] = {
    {"none", ""},
    {"gpt2", "norm=ln placement=pre norm-eps=1e-5 position=learned act=gelu-tanh bias=on head=tied "
             "qk-norm=off"},
    {"llama", "norm=rms placement=pre norm-eps=1e-5 position=rope rope-theta=10000 act=swiglu "
              "bias=off head=untied qk-norm=off"},
    {"gemma2", "norm=rms placement=sandwich norm-eps=1e-6 position=rope rope-theta=10000 "
               "act=geglu-tanh bias=off head=tied qk-norm=off attn-softcap=50 logit-softcap=30"},
    {"olmo2", "norm=rms placement=reordered norm-eps=1e-6 position=rope rope-theta=500000 "
              "act=swiglu bias=off head=untied qk-norm=on qk-norm-over=width"},
    {"qwen3", "norm=rms placement=pre norm-eps=1e-6 position=rope rope-theta=1000000 act=swiglu "
              "bias=off head=untied qk-norm=on qk-norm-over=head"},
    {0},
};

/* How to train, with whatever it needs of the model.

     nanogpt  the defaults: nanoGPT's config/train_shakespeare_char.py as its README has it for a CPU,
              with biases
     best     the lowest loss found for the same budget: 1,536,000 training characters, a context of
              64 and at most 825,000 parameters. Chosen on the end of the training split of tiny
              Shakespeare (--hold-out), one choice at a time; scripts/RESULTS.md has the trials */
static const struct settings recipes[] = {
    {"nanogpt", ""},
    {"best", "preset=llama placement=peri qk-norm=on ffn-norm=on n-layer=7 n-embd=96 "
             "init-std=0.06 init-embd-std=0.08 optimizer=muon muon-steps=4 learning-rate=5e-3 "
             "muon-lr=2.5e-3 schedule=linear min-lr=0 grad-clip=0 batch-size=6 max-iters=4000"},
    {0},
};

const char *preset_name(int64_t i) {
    return presets[i].name;
}

const char *preset_settings(int64_t i) {
    return presets[i].settings;
}

const char *recipe_name(int64_t i) {
    return recipes[i].name;
}

const char *recipe_settings(int64_t i) {
    return recipes[i].settings;
}
