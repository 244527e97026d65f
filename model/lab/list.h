/* The conditions under which options have an effect: CONDITION(name, text, holds), where `holds` is
   an expression of the `config`. Messages and --help put "only" before the text. A row of the table
   of options lists &needs_name. config_rows.h and config_use.c include this file, so it has no
   include guard. */
CONDITION(training, "in training", !config->generate && !config->evaluate, .usual = true)
CONDITION(use, "with --generate or --evaluate", config->generate || config->evaluate)
CONDITION(generate, "with --generate", config->generate)
CONDITION(evaluate, "with --evaluate", config->evaluate)
CONDITION(sampling, "with --generate, --sample or --sample-interval",
          config->generate || (!config->evaluate && (config->sample || config->sample_interval)))
CONDITION(heat, "with nonzero --temperature", config->sampling.temperature != 0)
CONDITION(out, "with --out", config->out)
CONDITION(plot, "without --plot=off", config->plot != PLOT_OFF)

// data
CONDITION(split, "without a corpus for --evaluate", !config->evaluate || !config->named)
CONDITION(grammar, "without --corpus", !config->corpus)
CONDITION(random, "with --corpus=random", config_is_random(config))
CONDITION(text, "without --corpus=random", !config_is_random(config))
CONDITION(items, "with --items", config->items)
CONDITION(no_items, "without --items", !config->items)

// model
CONDITION(rope, "with --position=rope", config->model.position == POSITION_ROPE)
CONDITION(positions, "with --position=learned", config->model.position == POSITION_LEARNED)
CONDITION(init_std, "with --init=gpt2", config->model.init == INIT_GPT2)
CONDITION(init_embd, "without --init=xavier", config->model.init != INIT_XAVIER)
CONDITION(embd_scale, "with --embd-scale=learned", config->model.embd_scale == EMBD_SCALE_LEARNED)
CONDITION(qk_scale, "with --qk-scale=learned", config->model.qk_scale == QK_SCALE_LEARNED)
CONDITION(mix, "with --placement=mix", config_has_placement(config, "mix"))

// norms
CONDITION(norm, "with a norm that no other option overrides", config_has_own_norm(config))
CONDITION(attn_norms, "with a norm in the attention sub-layers",
          model_has_site(&config->model, SITE_ATTENTION))
CONDITION(ffn_norms, "with a norm in the MLP sub-layers", model_has_site(&config->model, SITE_FFN))
CONDITION(end_norms, "with a norm before the output layer or after the embedding",
          model_has_site(&config->model, SITE_FINAL))
CONDITION(qkv_norms, "with --qk-norm or --v-norm",
          config->model.qk_norm != INNER_NORM_OFF || config->model.v_norm != INNER_NORM_OFF ||
              model_inner_norm(&config->model, INNER_QK)->forward) // of the placement
CONDITION(gamma, "with a norm that learns gamma", model_learns(&config->model, NORM_GAMMA))
CONDITION(beta, "with a norm that learns beta", model_learns(&config->model, NORM_BETA))
CONDITION(gamma_or_beta, "with a norm that learns gamma or beta",
          model_learns(&config->model, NORM_GAMMA) || model_learns(&config->model, NORM_BETA))
CONDITION(affine, "with --affine", config->model.norms.affine)

// training
CONDITION(micro_batches,
          "without --probe-interval, norms that pool over tokens and --connection=admin",
          !model_needs_batch(&config->model))
CONDITION(decay, "without --schedule=constant", schedule_kinds[config->schedule.kind].remaining)
CONDITION(wsd, "with --schedule=wsd", schedule_kinds[config->schedule.kind].from_end)
CONDITION(weight_decay, "with nonzero --weight-decay", config->optimizer.weight_decay != 0)
