/* The list of a sub-layer, and the memory of its values. */
#include "model/block/chain.h"
#include "data/die.h"
#include <string.h>

static void add(struct chain *chain, const struct op *row) {
    if (chain->ops == CHAIN_OPS || chain->values == CHAIN_VALUES)
        die(STATUS_MACHINE, "a sub-layer has too many operations (CHAIN_OPS, CHAIN_VALUES)");
    const size_t i = chain->ops++;
    struct op *op = &chain->op[i];
    *op = *row;
    op->scratch_at = (struct place){SWEEP, .width = op->scratch};
    op->held_at = (struct place){ALL, .width = op->held};
    op->in = op->out = &chain->value[chain->values - 1];
    if (op->kind->flags & OP_HEADS) chain->heads = i;
    if (op->kind->flags & OP_PRODUCT) chain->product[chain->products++] = i;
    if (!(op->kind->flags & OP_IN_PLACE)) {
        const struct place place = {.width = op->width};
        op->out = &chain->value[chain->values++];
        *op->out =
            (struct value){op->writes, op->stores_out, .place = {place, place}, .gradient = place};
        op->out->writer = i;
    }
    op->out->complete = i;
    op->in->stored |= op->stores_in;
    if (op->passes) op->in->same = op->out;
}

void chain_attach(struct chain *chain, size_t width, size_t sweep, size_t count,
                  const struct op *rows) {
    const struct place place = {.width = width};
    *chain = (struct chain){.sweep = sweep, .values = 1, .heads = CHAIN_OPS};
    chain->value[0] = (struct value){"x", .place = {place, place}, .gradient = place};
    for (size_t i = 0; i < count; i++)
        if (rows[i].wanted) add(chain, &rows[i]);
    for (struct op *op = chain->op; op < chain->op + chain->ops; op++)
        if (op->reads) op->beside = (struct value *)chain_value(chain, op->reads);
    // the memory of the input belongs to another sub-layer, that of u (mostly the same) to the connection
    for (int i = 0; i < 2; i++) chain->value[i].stored = chain->value[i].borrowed = true;
    chain_plan(chain);
}

const struct value *chain_value(const struct chain *chain, const char *name) {
    for (size_t i = 0; i < chain->values; i++)
        if (!strcmp(chain->value[i].name, name)) return &chain->value[i];
    return NULL;
}

const real *chain_stored(const struct chain *chain, const char *name) {
    return chain_value(chain, name)->place[FORWARD].first;
}

void chain_place(struct value *value, const real *first) {
    for (int i = 0; i < DIRECTIONS; i++)
        if (value->place[i].kept == ALL) value->place[i].first = (real *)first;
}

void chain_take(struct chain *chain, size_t N, struct arena *arena) {
    for (struct value *v = chain->value; v < chain->value + chain->values; v++)
        if (v->place[FORWARD].kept == ALL && !v->borrowed)
            chain_place(v, arena_reals(arena, N * v->place[FORWARD].width));
}

/* ---- memory that sub-layers have in common ---- */

/* Puts a place behind those that use[] counts. */
static void put(const struct chain_memory *memory, struct place *place, size_t use[KEPT_KINDS]) {
    const size_t size = memory->rows[place->kept] * place->width, line = 64 / sizeof(real);
    place->offset = use[place->kept];
    use[place->kept] += (size + line - 1) / line * line;
}

void chain_need(struct chain_memory *memory, struct chain *chain, size_t N, size_t threads) {
    // Backward keeps what it computes again in a ring of slabs. Threads that share slabs need two:
    // the current one, and the one before it, which other threads may still be reading. A thread
    // that is alone has one of its own.
    memory->rows[SLABS] = size_min(size_max(2 * slab_rows(threads), threads * slab_rows(1)), N);
    memory->rows[ALL] = N;
    memory->rows[SWEEP] = chain->sweep;
    for (int direction = FORWARD; direction < DIRECTIONS; direction++) {
        size_t use[KEPT_KINDS] = {0};
        for (struct op *op = chain->op; op < chain->op + chain->ops; op++) {
            put(memory, &op->held_at, use);
            if (!(op->kind->flags & OP_HEADS))
                put(memory, &op->scratch_at, use);
            else
                memory->size[SWEEP] = size_max(memory->size[SWEEP], op->scratch);
        }
        for (struct value *v = chain->value; v < chain->value + chain->values; v++) {
            if (v->place[direction].kept != ALL) put(memory, &v->place[direction], use);
            if (direction == BACKWARD && !v->same) put(memory, &v->gradient, use);
        }
        for (int i = 0; i < KEPT_KINDS; i++) memory->size[i] = size_max(memory->size[i], use[i]);
    }
    for (struct value *v = chain->value; v < chain->value + chain->values; v++)
        if (v->same) v->gradient = v->same->gradient;
}

void chain_memory_attach(struct chain_memory *memory, const struct chain *chain, size_t threads,
                         struct arena *arena) {
    for (int kept = SWEEP; kept <= ALL; kept++)
        memory->first[kept] =
            arena_reals(arena, (kept == SWEEP ? threads : 1) * memory->size[kept]);
    for (size_t i = 0; i < chain->products; i++) {
        const struct linear *linear = chain->op[chain->product[i]].self;
        linear_operands_attach(&memory->operands[i], linear->in, linear->out, memory->rows[SLABS],
                               arena);
    }
}
