/* The models that parameterized tests iterate: norms with placements and with connections (support.h). */
#include "tests/sanitizer.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

static int count_norms(void) {
    int count = 0;
    while (norm_kinds[count]) count++;
    return count;
}

static int count_placements(void) {
    int count = 0;
    while (placements[count].name) count++;
    return count;
}

static int64_t activation_index(const char *name) {
    int64_t row = 0;
    while (strcmp(activations[row].name, name) != 0) row++;
    return row;
}

/* As the options of pair_options(). Caps and wavelengths are small, so that a small model feels
   them. */
static void set_block(struct model_config *config, int block) {
    if (block == BLOCK_GPT2) return;
    config->n_embd = 8; // of a head: even
    config->position = block == BLOCK_OTHER ? POSITION_SINUSOIDAL : POSITION_ROPE;
    config->rope_theta = 20;
    config->head = block == BLOCK_GEMMA ? HEAD_TIED : HEAD_UNTIED;
    config->n_kv_head = block == BLOCK_LLAMA ? 2 : 1;
    config->activation = activation_index(block == BLOCK_LLAMA   ? "swiglu"
                                          : block == BLOCK_GEMMA ? "geglu-tanh"
                                                                 : "relu2");
    if (block == BLOCK_OTHER) config->ffn_width = 10;
    if (block == BLOCK_GEMMA) config->attn_softcap = 0.5, config->logit_softcap = 4;
}

struct model_config pair_config(const struct pair *pair) {
    struct model_config config = small_config(pair->norm, pair->placement);
    config.connection = pair->connection;
    set_block(&config, pair->block);
    if (pair->inner) config.qk_norm = INNER_NORM_ON;
    if (pair->inner == INNER_HEADS) config.ffn_norm = INNER_NORM_ON;
    if (pair->inner == INNER_WIDTH) {
        config.v_norm = INNER_NORM_ON;
        config.qk_norm_over = EXTENT_WIDTH;
        config.qk_scale = QK_SCALE_LEARNED;
        config.qk_scale_start = model_qk_scale_start(&config);
        config.embd_scale = EMBD_SCALE_LEARNED;
        config.embd_scale_start = 1.5;
    }
    return config;
}

const char *pair_options(const struct pair *pair) {
    static const char *const inner[] = {
        [INNER_NONE] = "",
        [INNER_HEADS] = " --qk-norm=on --ffn-norm=on",
        [INNER_WIDTH] = " --qk-norm=on --v-norm=on --qk-norm-over=width --qk-scale=learned "
                        "--embd-scale=learned",
    };
    static const char *const block[] = {
        [BLOCK_GPT2] = "",
        [BLOCK_LLAMA] = " --position=rope --rope-theta=20 --act=swiglu --head=untied",
        [BLOCK_GEMMA] = " --position=rope --rope-theta=20 --act=geglu-tanh --n-kv-head=1 "
                        "--attn-softcap=0.5 --logit-softcap=4",
        [BLOCK_OTHER] = " --position=sinusoidal --act=relu2 --n-kv-head=1 --head=untied "
                        "--ffn-width=10",
    };
    static char options[256];
    int used = snprintf(options, sizeof options, "--norm=%s --placement=%s%s%s",
                        norm_kinds[pair->norm]->name, placements[pair->placement].name,
                        inner[pair->inner], block[pair->block]);
    if (pair->connection)
        snprintf(options + used, sizeof options - (size_t)used, " --connection=%s",
                 connection_kinds[pair->connection - 1]->name);
    return options;
}

/* Whether a table's row is in a list of names, which NULL ends. */
static bool is_listed(const char *const *names, const char *name) {
    for (; *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

static int placement_index(const char *name) {
    return (int)(placement_find(name) - placements);
}

/* Appends the blocks other than GPT-2's; ngpt cannot group queries. Before them, embeddings with a
   learned scale and a norm or a second stream. Returns the number of pairs. */
static int add_blocks(struct pair *pair, int count) {
    const int ln = norm_index("ln"), ngpt = placement_index("ngpt");
    pair[count++] = (struct pair){ln, placement_index("peri"), INNER_WIDTH, BLOCK_GPT2, 0};
    pair[count++] = (struct pair){ln, placement_index("siamese"), INNER_WIDTH, BLOCK_GPT2, 0};
    pair[count++] = (struct pair){ln, placement_index("residual"), INNER_WIDTH, BLOCK_GPT2, 0};
    for (int block = BLOCK_GPT2 + 1; block < BLOCKS; block++) {
        for (int inner = INNER_NONE; inner <= INNER_WIDTH; inner++) {
            pair[count++] = (struct pair){ln, 0, inner, block, 0};
            pair[count++] = (struct pair){norm_index("bn"), 0, inner, block, 0};
        }
        if (block == BLOCK_LLAMA) pair[count++] = (struct pair){ln, ngpt, INNER_NONE, block, 0};
    }
    return count;
}

static int count_connections(void) {
    int count = 0;
    while (connection_kinds[count]) count++;
    return count;
}

/* Appends the connections in pre and post that have a formula there. Returns the number of pairs. */
static int add_connections(struct pair *pair, int count) {
    static const char *const places[] = {"pre", "post"}, *const norms[] = {"ln", "bn"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; connection_kinds[k]; k++) {
            const struct placement *row = placement_find(places[i]);
            if (placement_refuses(row, connection_kinds[k])) continue;
            for (int n = 0; n < 2; n++)
                pair[count++] = (struct pair){norm_index(norms[n]), (int)(row - placements),
                                              INNER_NONE, BLOCK_GPT2, 1 + k};
        }
    return count;
}

/* The pairs of a norm and a placement where one of the two is in its list;
   and if `inner`, every norm in the first placement with norms inside its sub-layers, every connection, and
   the other blocks. */
static struct criterion_test_params pairs(const char *const *norms, const char *const *places,
                                          bool inner) {
    static const char *const sampled[] = {"ln", "bn", "cln", NULL}; // under the sanitizers
    int count = 0, rows = count_placements();
    struct pair *pair = cr_malloc(
        (count_norms() * (rows + 2) + 7 * BLOCKS + 3 + 4 * count_connections()) * sizeof *pair);
    for (int n = 0; n < count_norms(); n++) {
        for (int p = 0; p < rows; p++)
            if (is_listed(norms, norm_kinds[n]->name) || is_listed(places, placements[p].name))
                pair[count++] = (struct pair){n, p, INNER_NONE, BLOCK_GPT2, 0};
        if (!inner || (SANITIZED && !is_listed(sampled, norm_kinds[n]->name))) continue;
        pair[count++] = (struct pair){n, 0, INNER_HEADS, BLOCK_GPT2, 0};
        pair[count++] = (struct pair){n, 0, INNER_WIDTH, BLOCK_GPT2, 0};
    }
    if (inner) count = add_blocks(pair, add_connections(pair, count));
    return cr_make_param_array(struct pair, pair, count, NULL);
}

struct criterion_test_params every_pair(void) {
    enum { PLACEMENTS_MAX = 64 };
    const char *all[PLACEMENTS_MAX + 1] = {NULL};
    for (int p = 0; p < PLACEMENTS_MAX && placements[p].name; p++) all[p] = placements[p].name;
    return pairs((const char *const[]){NULL}, all, true);
}

struct criterion_test_params every_norm_and_placement(void) {
    return pairs((const char *const[]){"ln", "bn", "cln", NULL},
                 (const char *const[]){"pre", "post", "siamese", "ngpt", NULL}, true);
}

struct criterion_test_params every_row(void) {
    return pairs((const char *const[]){"ln", NULL}, (const char *const[]){"pre", NULL}, true);
}

struct criterion_test_params every_norm(void) {
    return pairs((const char *const[]){NULL}, (const char *const[]){"pre", NULL}, false);
}
