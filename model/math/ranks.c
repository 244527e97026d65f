/* See ranks.h; part of the program with MPI=1 only. A sum over all ranks is made in two steps: each
   rank gets a share of the elements of all ranks' sums and adds them in the tree's order; then
   every rank gets all shares. So the work of adding is shared, and a rank sends and receives about
   twice the size of the model.

   MPI continues what was started only inside its own functions. So each start of an exchange also
   advances those before it. */
#include "model/math/ranks.h"
#include "data/die.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int count = 1, number;                    // `ranks` as MPI has it
static int counts[RANKS_MAX], starts[RANKS_MAX]; // what MPI's functions want to know
static MPI_Comm dying, gathering;                // of their own: they run beside other exchanges
static real *gathered;                           // of all ranks

struct ranks ranks = {.count = 1, .here = 1};

static const MPI_Datatype mpi_real = sizeof(real) == 4 ? MPI_FLOAT : MPI_DOUBLE;

/* Whether all ranks die within two seconds: of a wrong option, or a loss that is NaN. Then the
   first one's line stands for all. */
static bool all_die(void) {
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(dying, &request);
    for (int tenths = 0; tenths < 20 && !done; tenths++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) usleep(100000);
    }
    return done;
}

/* die_end of die.h. MPICH's mpirun ends at once when a rank aborts, and loses what it has not read
   from the ranks by then. So an abort comes half a second or more after the line. */
static void end_all(int status, const char *line) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (number == 0) fprintf(stderr, "train: %s\n", line);
    if (finalized || all_die()) return;
    if (number > 0) {
        fprintf(stderr, "train: rank %d: %s\n", number, line);
        usleep(500000);
    }
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void finalize(void) {
    int finalized;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Finalize();
}

void ranks_start(int *argc, char ***argv) {
    int provided, here;
    MPI_Comm machine;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    ranks = (struct ranks){(size_t)count, (size_t)number, (size_t)here};
    MPI_Comm_dup(MPI_COMM_WORLD, &dying);
    MPI_Comm_dup(MPI_COMM_WORLD, &gathering);
    atexit(finalize);
    if (provided < MPI_THREAD_FUNNELED)
        die(STATUS_MACHINE, "ranks: this MPI library supports no threads");
    if (count == 1) return;
    if (count > RANKS_MAX)
        die(STATUS_USAGE, "ranks: %d processes are too many (at most %d can take part)", count,
            RANKS_MAX);
    die_end = end_all;
    if (number > 0 && !freopen("/dev/null", "w", stdout))
        die(STATUS_MACHINE, "/dev/null: cannot be opened");
}

int ranks_first(int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

int ranks_largest(int value) {
    int largest;
    MPI_Allreduce(&value, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return largest;
}

void ranks_wait(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

void ranks_copy_first(real *numbers, size_t numbers_count) {
    MPI_Bcast(numbers, (int)numbers_count, mpi_real, 0, MPI_COMM_WORLD);
}

void ranks_check(const char *what, uint32_t checksum) {
    static uint32_t checksums[RANKS_MAX];
    MPI_Allgather(&checksum, 1, MPI_UINT32_T, checksums, 1, MPI_UINT32_T, MPI_COMM_WORLD);
    for (int rank = 1; rank < count; rank++)
        if (checksums[rank] != checksums[0])
            die(STATUS_USAGE,
                "ranks: %s of rank %d differs from that of rank 0 (checksums %08x and %08x)", what,
                rank, (unsigned)checksums[rank], (unsigned)checksums[0]);
}

void ranks_share(double *values, size_t total, size_t per_rank) {
    for (size_t rank = 0; rank < ranks.count; rank++) {
        const size_t begin = size_min(rank * per_rank, total);
        counts[rank] = (int)(size_min(begin + per_rank, total) - begin);
        starts[rank] = (int)begin;
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, values, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void gather_sums(size_t busy, const real *sum, size_t size) {
    for (size_t rank = 0; rank < ranks.count; rank++) {
        counts[rank] = rank < busy ? (int)size : 0;
        starts[rank] = (int)(size_min(rank, busy) * size);
    }
    gathered = memory_grow(gathered, busy * size, sizeof(real), "what ranks exchange");
    MPI_Allgatherv(sum, counts[number], mpi_real, gathered, counts, starts, mpi_real,
                   MPI_COMM_WORLD);
}

const real *ranks_gather(size_t parts, const real *sum, size_t size) {
    team_barrier();
    if (omp_get_thread_num() == 0) {
        gather_sums(ranks_busy(parts), sum, size);
        profile_lap(PROFILE_RANKS);
    }
    team_barrier();
    return gathered;
}

/* The sum of a range of elements over all ranks, on its way. Several are at the same time. */
struct exchange {
    int busy; // ranks that have parts
    real *grad;
    struct range elements;
    bool added;             // what was gathered is on its way back
    real *share[PARTS_MAX]; // of the sum of each of these ranks, what this rank adds
    real *received;         // from the other ranks; kept for the next update
    MPI_Request *request;
    size_t requests;
    int counts[RANKS_MAX], starts[RANKS_MAX];
    MPI_Request gathering;
};
static struct exchange **exchanges; // pointers, since MPI works on what they point to
static size_t exchanges_used, exchanges_size;

/* The elements that a rank adds: whole cache lines. */
static struct range share_of(const struct exchange *e, int rank) {
    size_t size = e->elements.end - e->elements.begin;
    struct range share = team_part_of((size_t)rank, (size_t)count, size, 64 / sizeof(real));
    return (struct range){e->elements.begin + share.begin, e->elements.begin + share.end};
}

/* Every rank that has parts sends each other rank's share of its sum. */
static void scatter(struct exchange *e, int tag) {
    const struct range share = share_of(e, number);
    const size_t length = share.end - share.begin;
    const size_t others = (size_t)(count - 1), busy = (size_t)e->busy;
    real *received = e->received =
        memory_grow(e->received, busy * length, sizeof(real), "what ranks exchange");
    e->request = memory_grow(e->request, others + busy, sizeof *e->request, "what ranks exchange");
    e->requests = 0;
    for (int rank = 0; rank < e->busy; rank++, received += length) {
        e->share[rank] = rank == number ? e->grad + share.begin : received;
        if (rank != number)
            MPI_Irecv(received, (int)length, mpi_real, rank, tag, MPI_COMM_WORLD,
                      &e->request[e->requests++]);
    }
    for (int step = 1; step < count && number < e->busy; step++) { // not all to one at a time
        const int rank = (number + step) % count;
        const struct range theirs = share_of(e, rank);
        MPI_Isend(e->grad + theirs.begin, (int)(theirs.end - theirs.begin), mpi_real, rank, tag,
                  MPI_COMM_WORLD, &e->request[e->requests++]);
    }
}

static void add(size_t length, real *to, const real *from) {
#pragma omp parallel for simd schedule(static) if (length > (1 << 16))
    for (size_t i = 0; i < length; i++) to[i] += from[i];
}

/* Adds the ranks' sums in the tree's order; returns where the sum is. */
static const real *add_sums(const struct exchange *e, size_t length) {
    real *stack[PARTS_HEIGHT] = {0};
    for (int rank = 0; rank < e->busy; rank++) {
        const struct parts_place place = parts_place_of((size_t)rank, rank + 1 == e->busy);
        stack[place.slot] = e->share[rank];
        for (size_t slot = place.slot, i = 0; i < place.merges; i++, slot--)
            add(length, stack[slot - 1], stack[slot]);
    }
    return stack[0];
}

/* Every rank sends its share of the sum to all. */
static void gather(struct exchange *e) {
    struct range share = share_of(e, number);
    size_t length = share.end - share.begin;
    const real *sum = add_sums(e, length);
    if (sum && sum != e->grad + share.begin)
        memcpy(e->grad + share.begin, sum, length * sizeof(real));
    for (int rank = 0; rank < count; rank++) {
        struct range theirs = share_of(e, rank);
        e->counts[rank] = (int)(theirs.end - theirs.begin);
        e->starts[rank] = (int)(theirs.begin - e->elements.begin);
    }
    MPI_Iallgatherv(MPI_IN_PLACE, 0, mpi_real, e->grad + e->elements.begin, e->counts, e->starts,
                    mpi_real, gathering, &e->gathering);
    e->added = true;
}

/* Continues with what has arrived. All ranks gather in the same order. */
static void advance(void) {
    int done = 1;
    for (size_t i = 0; i < exchanges_used && done; i++) {
        struct exchange *e = exchanges[i];
        for (size_t k = 0; k < e->requests && !e->added && done; k++)
            MPI_Test(&e->request[k], &done, MPI_STATUS_IGNORE);
        if (!e->added && done) gather(e);
    }
}

static void start(size_t parts, real *grad, struct range elements) {
    if (exchanges_used == exchanges_size) {
        exchanges = memory_grow(exchanges, exchanges_size + 1, sizeof *exchanges, "exchanges");
        exchanges[exchanges_size++] = memory_take(1, sizeof **exchanges, "exchanges");
    }
    struct exchange *e = exchanges[exchanges_used];
    e->busy = (int)ranks_busy(parts);
    e->grad = grad;
    e->elements = elements;
    e->added = false;
    scatter(e, (int)exchanges_used++);
    advance();
    profile_lap(PROFILE_RANKS);
}

void ranks_sum_start(size_t parts, real *grad, struct range elements) {
    team_barrier();
    if (omp_get_thread_num() == 0) start(parts, grad, elements);
}

void ranks_sum_finish(void) {
    for (size_t i = 0; i < exchanges_used; i++) {
        struct exchange *e = exchanges[i];
        for (size_t k = 0; k < e->requests && !e->added; k++)
            MPI_Wait(&e->request[k], MPI_STATUS_IGNORE);
        if (!e->added) gather(e);
    }
    for (size_t i = 0; i < exchanges_used; i++)
        MPI_Wait(&exchanges[i]->gathering, MPI_STATUS_IGNORE);
    exchanges_used = 0;
    profile_lap(PROFILE_RANKS);
}
