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

/* How to train, with whatever it needs of the model. nanogpt: the defaults, nanoGPT's
   config/train_shakespeare_char.py as its README has it for a CPU, with biases. */
static const struct settings recipes[] = {
    {"nanogpt", ""},
    {"best", "preset=llama qk-norm=on placement=peri init-std=0.08 learning-rate=4e-3 min-lr=0"},
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
