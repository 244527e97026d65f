/* Compiled without -march, so that its code runs on the processors that it is there for. */
#include "model/math/processor.h"
#include "data/die.h"
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#if defined __aarch64__ && defined __linux__
#    include <sys/auxv.h>
#endif

struct extension {
    const char *name; // with its blanks
    bool present;
};

/* The first extension that the build needs and the processor lacks, or NULL. */
static const char *missing(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    const struct extension extensions[] = {
        {" sse3 ", __builtin_cpu_supports("sse3")},
        {" ssse3 ", __builtin_cpu_supports("ssse3")},
        {" sse4.1 ", __builtin_cpu_supports("sse4.1")},
        {" sse4.2 ", __builtin_cpu_supports("sse4.2")},
        {" popcnt ", __builtin_cpu_supports("popcnt")},
        {" avx ", __builtin_cpu_supports("avx")},
        {" fma4 ", __builtin_cpu_supports("fma4")},
        {" xop ", __builtin_cpu_supports("xop")},
        {" bmi ", __builtin_cpu_supports("bmi")},
        {" bmi2 ", __builtin_cpu_supports("bmi2")},
        {" fma ", __builtin_cpu_supports("fma")},
        {" avx2 ", __builtin_cpu_supports("avx2")},
        {" avx512f ", __builtin_cpu_supports("avx512f")},
        {" avx512cd ", __builtin_cpu_supports("avx512cd")},
        {" avx512bw ", __builtin_cpu_supports("avx512bw")},
        {" avx512dq ", __builtin_cpu_supports("avx512dq")},
        {" avx512vl ", __builtin_cpu_supports("avx512vl")},
        {" avx512ifma ", __builtin_cpu_supports("avx512ifma")},
        {" avx512vbmi ", __builtin_cpu_supports("avx512vbmi")},
        {" avx512vbmi2 ", __builtin_cpu_supports("avx512vbmi2")},
        {" avx512bitalg ", __builtin_cpu_supports("avx512bitalg")},
        {" avx512vpopcntdq ", __builtin_cpu_supports("avx512vpopcntdq")},
        {" avx512vnni ", __builtin_cpu_supports("avx512vnni")},
        {" gfni ", __builtin_cpu_supports("gfni")},
        {NULL, true},
    };
#elif defined __aarch64__ && defined __linux__
    const unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    const struct extension extensions[] = {{" atomics ", one & HWCAP_ATOMICS},
                                           {" sve ", one & HWCAP_SVE},
                                           {" sve2 ", two & HWCAP2_SVE2},
                                           {NULL, true}};
#else
    const struct extension extensions[] = {{NULL, true}}; // of others nothing is known
#endif
    for (const struct extension *e = extensions; e->name; e++)
        if (!e->present && strstr(processor_needs, e->name)) return e->name;
    return NULL;
}

#ifdef __x86_64__
#    define COMMON "x86-64-v2"
#else
#    define COMMON "armv8-a"
#endif

/* Before any other constructor, since their code may not run here; so it uses neither stdio nor
   die(). Not on a Mac, where constructors have no order. */
#ifndef __APPLE__
__attribute__((constructor(101))) static void check(void) {
    char line[256] = "train: processor: lacks";
    const char *extension = missing();
    if (!extension) return;
    strcat(line, extension);
    strcat(line, "instructions, for which this program was built (build it here with make, or for "
                 "many processors with make ARCH=" COMMON ")\n");
    (void)!write(STDERR_FILENO, line, strlen(line)); // what else could it do
    _exit(STATUS_MACHINE);
}
#endif
