/* --show-norm --as=pytorch: a formula as a module of PyTorch. Its forward has the steps that --show-norm
   prints, its gradient is autograd's, and its tensors have the names that they have in the model's
   file, with _ at the end where Python or nn.Module has another use of the name. */
#include "model/norm/formula_show.h"
#include <stdio.h>
#include <string.h>

/* Whether no attribute of a module may have this name. */
static bool is_reserved(const char *name) {
    static const char keywords[] =
        " False None True and as assert async await break class continue def del elif else except "
        "finally for from global if import in is lambda nonlocal not or pass raise return try "
        "while with yield ";
    static const char members[] =
        " T_destination add_module apply bfloat16 buffers call_super_init children compile cpu "
        "cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state "
        "get_parameter get_submodule half hpu ipu load_state_dict modules momentum mtia "
        "named_buffers named_children named_modules named_parameters parameters "
        "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
        "register_full_backward_hook register_full_backward_pre_hook "
        "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module "
        "register_parameter register_state_dict_post_hook register_state_dict_pre_hook "
        "requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty train "
        "training type xpu zero_grad ";
    char word[80];
    snprintf(word, sizeof word, " %s ", name);
    return *name == '_' || strstr(keywords, word) || strstr(members, word);
}

static void make_attribute(const struct norm_kind *kind, int i, char name[64]);

/* Whether a parameter has this name, or one before parameter i gets it. */
static bool is_taken(const struct norm_kind *kind, int i, const char *name) {
    for (int k = 0; kind->param[k].name; k++) {
        char other[64];
        if (!strcmp(kind->param[k].name, name)) return true;
        if (k >= i) continue;
        make_attribute(kind, k, other);
        if (!strcmp(other, name)) return true;
    }
    return false;
}

static void make_attribute(const struct norm_kind *kind, int i, char name[64]) {
    snprintf(name, 64, "%s", kind->param[i].name);
    if (is_reserved(name)) do
            strcat(name, "_");
        while (is_taken(kind, i, name));
}

const char *show_attribute(const struct norm_kind *kind, int i) {
    static char name[64];
    make_attribute(kind, i, name);
    return name;
}

static void print_tensors(const struct norm *norm, const struct norm_options *options) {
    const struct norm_kind *kind = norm->kind;
    for (int i = 0; kind->param[i].name; i++) {
        const struct norm_tensor *t = &kind->param[i];
        const char *shape = !t->scalar ? "C" : t->dimensions ? "1" : "()";
        printf(show_learns(t, options)
                   ? "        self.%s = nn.Parameter(torch.ones(%s) * %.15g)\n"
                   : "        self.register_buffer(\"%s\", torch.ones(%s) * %.15g, "
                     "persistent=False)\n",
               show_attribute(kind, i), shape, formula_start(norm, i));
    }
    for (int i = 0; i < norm->formula->states; i++)
        printf("        self.register_buffer(\"%s\", torch.ones(C) * %g)\n", kind->state[i].name,
               kind->state[i].start);
    if (norm->formula->states)
        puts("        self.register_buffer(\"num_batches_tracked\", torch.tensor(0))");
}

/* The functions that occur, of tensors and numbers. */
static void print_functions(const struct norm *norm, const struct steps *s) {
    static const struct {
        enum graph_op op, other;
        const char *line;
    } functions[] = {
        {G_SQRT, G_RSQRT, "sqrt = lambda a: torch.sqrt(tensor(a))"},
        {G_EXP, G_EXP, "exp = lambda a: torch.exp(tensor(a))"},
        {G_LOG, G_LOG, "log = lambda a: torch.log(tensor(a))"},
        {G_TANH, G_TANH, "tanh = lambda a: torch.tanh(tensor(a))"},
        {G_ERF, G_ERF, "erf = lambda a: torch.erf(tensor(a))"},
        {G_SIGMOID, G_SIGMOID, "sigmoid = lambda a: torch.sigmoid(tensor(a))"},
        {G_MAX, G_MAX, "max = lambda a, b: torch.maximum(tensor(a), tensor(b))"},
        {G_GREATER, G_GREATER, "greater = lambda a, b: (tensor(a) > tensor(b)).to(x.dtype)"},
        {G_STOP, G_STOP, "stop = lambda a: tensor(a).detach()"},
        {G_SUM_C, G_SUM_C, "sum_c = lambda a: over(torch.sum, a)"},
        {G_SUM_C, G_SUM_C, "mean_c = lambda a: over(torch.mean, a)"},
        {G_MAX_C, G_MAX_C, "max_c = lambda a: over(torch.amax, a)"}};
    const size_t groups = formula_groups(norm);
    puts("        tensor = lambda a: torch.as_tensor(a, dtype=x.dtype, device=x.device)");
    if (groups > 1)
        printf("        over = lambda f, a: f(tensor(a).expand_as(x).unflatten(-1, (%zu, -1)), -1, "
               "True)"
               ".expand(*x.shape[:-1], %zu, C).flatten(-2)\n",
               groups, groups);
    else
        puts("        over = lambda f, a: f(tensor(a), -1, True)");
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        bool occurs = false;
        for (int i = 0; i <= s->y; i++)
            occurs |= s->g.node[i].op == functions[k].op || s->g.node[i].op == functions[k].other;
        if (occurs) printf("        %s\n", functions[k].line);
    }
}

static void print_mean_n(void) {
    puts("\n"
         "        def mean_n(a, running=None, unbiased=False):  # over tokens, or the running "
         "average\n"
         "            if running and not self.training:\n"
         "                return getattr(self, running)\n"
         "            rows = a.expand(*x.shape[:-1], a.shape[-1])\n"
         "            rows = rows.flatten(0, -2) if valid is None else rows[valid]\n"
         "            mean, N = rows.mean(0), len(rows)\n"
         "            if running and N > unbiased:\n"
         "                batch = mean.detach() * (N / (N - 1) if unbiased else 1)\n"
         "                getattr(self, running).lerp_(batch.expand_as(getattr(self, running)), "
         "self.momentum)\n"
         "            return mean\n"
         "        self.num_batches_tracked += self.training\n");
}

void show_module(const struct norm *norm, const struct norm_options *options,
                 const struct steps *s) {
    const struct formula *f = norm->formula;
    printf("import torch\nfrom torch import nn\n\n\n"
           "class Norm(nn.Module):\n    \"\"\"%s\"\"\"\n\n"
           "    def __init__(self, C=%zu):\n        super().__init__()\n",
           norm->kind->formula, norm->C);
    for (int i = 0; norm->kind->options[i]; i++)
        if (show_leaf(&f->graph, G_OPTION, i) >= 0)
            printf("        self.%s = %.15g\n", show_option(norm->kind, i),
                   formula_option(norm, i));
    if (f->states)
        printf("        self.momentum = %.15g\n", norm_option(norm, &norm_momentum).real);
    print_tensors(norm, options);
    printf("\n    def forward(self, x%s\n",
           f->states ? ", valid=None):  # x (..., C), valid (...)" : "):  # (..., C)");
    printf("        C = x.shape[-1] // %zu\n", formula_groups(norm));
    print_functions(norm, s);
    if (f->states) print_mean_n();
    for (int i = 0; i <= s->y; i++)
        if (*s->name[i]) {
            printf("        %s = ", s->name[i]);
            show_sum(s, i, i);
            putchar('\n');
        }
    printf("        return %s\n", *s->name[s->y] ? s->name[s->y] : "x");
}
