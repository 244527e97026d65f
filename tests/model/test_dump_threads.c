/* --dump on several threads. */
#include "model/lab/dump.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <omp.h>
#include <string.h>

static void visit(void *context, struct model *m, const struct measured_pass *pass) {
    dump_pass(context, m, pass);
}

/* What stands in a dump does not depend on the number of threads. */
Test(dump, the_same_for_any_number_of_threads) {
    enum { LONG = 40 };
    struct model_config config = small_config(norm_index("bn"), 0);
    config.block_size = LONG;
    config.qk_norm = config.v_norm = config.ffn_norm = INNER_NORM_ON;
    struct batch batch = make_batch(SMALL_B, LONG, SMALL_V, 3);
    struct dump dumps[2];
    omp_set_num_threads(3);
    struct model model;
    model_init(&model, &config, SMALL_V, SMALL_B, 1);
    for (size_t i = 0; i < 2; i++) {
        model.threads = 1 + 2 * i;
        dump_init(&dumps[i], &batch);
        measure_passes(&model, STATISTICS_OWN, &batch, NULL, visit, &dumps[i]);
    }
    cr_assert(dumps[0].count == dumps[1].count);
    for (size_t i = 0; i < dumps[0].count; i++) {
        const struct stored *one = &dumps[0].arrays[i], *two = &dumps[1].arrays[i];
        size_t size = one->type == STORED_I64 ? sizeof(int64_t) : sizeof(real);
        cr_expect(!memcmp(one->data, two->data, stored_count(one) * size), "%s", one->name);
    }
    dump_free(&dumps[0]);
    dump_free(&dumps[1]);
    batch_free(&batch);
    model_free(&model);
}
