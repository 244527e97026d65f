/* The conditions under which options have an effect: CONDITION(name, text, holds), where `holds` is
   an expression of the `config`. A row of the table of options lists &needs_name. config_rows.h and
   config_conditions.c include this file, so it has no #pragma once. */
CONDITION(training, "only in training", !config->generate && !config->evaluate, .usual = true)
CONDITION(use, "only with --generate or --evaluate", config->generate || config->evaluate)
CONDITION(generate, "only with --generate", config->generate)
CONDITION(evaluate, "only with --evaluate", config->evaluate)
CONDITION(show_norm, "only with --show-norm", config->show_norm)
CONDITION(sampling, "only with --generate, --sample or --sample-interval",
          config->generate || (!config->evaluate && (config->sample || config->sample_interval)))
CONDITION(heat, "only with nonzero --temperature", config->sampling.temperature != 0)
CONDITION(out, "only with --out", config->out)
CONDITION(plot, "not with --plot=off", config->plot != PLOT_OFF)

// data
CONDITION(split, "not with a corpus for --evaluate", !config->evaluate || !config->named)
CONDITION(grammar, "not with --corpus", !config->corpus)
CONDITION(random, "only with --corpus=random", config_is_random(config))
CONDITION(text, "not with --corpus=random", !config_is_random(config))
CONDITION(items, "only with --items", config->items)
CONDITION(no_items, "not with --items", !config->items)

// model
CONDITION(rope, "only with --position=rope", config->model.position == POSITION_ROPE)
CONDITION(positions, "only with --position=learned", config->model.position == POSITION_LEARNED)
CONDITION(init_std, "only with --init=gpt2", config->model.init == INIT_GPT2)
CONDITION(init_embd, "not with --init=xavier", config->model.init != INIT_XAVIER)
CONDITION(embd_scale, "only with --embd-scale=learned",
          config->model.embd_scale == EMBD_SCALE_LEARNED)
CONDITION(qk_scale, "only with --qk-scale=learned", config->model.qk_scale == QK_SCALE_LEARNED)
CONDITION(mix, "only with --placement=mix", config_has_placement(config, "mix"))

// norms
CONDITION(norm, "only where no other option overrides it", config_has_own_norm(config))
CONDITION(attn_norms, "only with a norm in the attention sub-layers",
          model_has_site(&config->model, SITE_ATTENTION))
CONDITION(ffn_norms, "only with a norm in the MLP sub-layers",
          model_has_site(&config->model, SITE_FFN))
CONDITION(end_norms, "only with a norm before the output layer or after the embedding",
          model_has_site(&config->model, SITE_FINAL))
CONDITION(qkv_norms, "only with --qk-norm or --v-norm",
          config->model.qk_norm != INNER_NORM_OFF || config->model.v_norm != INNER_NORM_OFF ||
              model_inner_norm(&config->model, INNER_QK)->forward) // of the placement
CONDITION(gamma, "only with a norm that learns gamma", model_learns(&config->model, NORM_GAMMA))
CONDITION(beta, "only with a norm that learns beta", model_learns(&config->model, NORM_BETA))
CONDITION(gamma_or_beta, "only with a norm that learns gamma or beta",
          model_learns(&config->model, NORM_GAMMA) || model_learns(&config->model, NORM_BETA))
CONDITION(affine, "only with --affine", config->model.norms.affine)

// training
CONDITION(micro_batches, "not with --probe-interval, batch statistics or --connection=admin",
          !model_needs_batch(&config->model))
CONDITION(decay, "not with --schedule=constant", schedule_kinds[config->schedule.kind].remaining)
CONDITION(wsd, "only with --schedule=wsd", schedule_kinds[config->schedule.kind].from_end)
CONDITION(weight_decay, "only with nonzero --weight-decay", config->optimizer.weight_decay != 0)
