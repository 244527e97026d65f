/* scripts/load_pytorch.py verifies the checksums that ./train writes into a model's file: a flipped
   bit anywhere is refused, so scripts/normlab.py never loads damaged weights. */
#include "tests/scripts.h"
#include <criterion/criterion.h>

TestSuite(load, .init = folder_enter, .fini = folder_leave);

Test(load, a_flipped_bit_is_refused) {
    size_t bytes;
    struct ending ending = train("--n-layer=1 --n-head=1 --n-embd=4 --block-size=4 --max-iters=1 "
                                 "--eval-iters=1 --sample=0 --out=out");
    cr_assert(ending.status == 0, "%s", ending.err);
    ending = script("load_pytorch.py out");
    cr_assert(ending.status == 0, "%s", ending.err);
    char *model = file_text("out/model.safetensors", &bytes);
    const size_t places[] = {9, 40, bytes / 3, bytes / 2, bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        model[places[i]] ^= 1;
        file_put("out/model.safetensors", model, bytes);
        ending = script("load_pytorch.py out");
        cr_expect(ending.status == 1, "byte %zu: status %d", places[i], ending.status);
        expect_part(ending.err, "model.safetensors: not a whole safetensors file");
        model[places[i]] ^= 1;
    }
}
