/* deps.sh, openmp.sh and the Makefile on a simulated Mac: PATH has some tools of this machine, and
   a uname, cc and brew that behave as on a Mac. For Windows, uname answers as there. */
#define _GNU_SOURCE // setenv
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Apple's compiler has OpenMP only after -Xpreprocessor and where libomp is installed, and does not
   know -march=native. */
#define APPLE_CC                                                                                   \
    "#!/bin/bash\n"                                                                                \
    "words=() before=\n"                                                                           \
    "for word; do\n"                                                                               \
    "    case $before$word in\n"                                                                   \
    "    -Xpreprocessor-fopenmp) words+=(-fopenmp) ;;\n"                                           \
    "    -fopenmp) echo \"clang: error: unsupported option '-fopenmp'\" >&2; exit 1 ;;\n"          \
    "    -march=native) echo 'clang: error: unsupported argument' >&2; exit 1 ;;\n"                \
    "    -Xpreprocessor) before=$word; continue ;;\n"                                              \
    "    -mcpu=native | -lomp) ;;\n"                                                               \
    "    *) words+=(\"$word\") ;;\n"                                                               \
    "    esac\n"                                                                                   \
    "    before=\n"                                                                                \
    "done\n"                                                                                       \
    "exec real-gcc \"${words[@]}\"\n"

static void enter(void) {
    if (file_there("/opt/homebrew") || file_there("/usr/local/opt/libomp") ||
        file_there("/opt/local/include"))
        skip("deps", "a machine with Homebrew or MacPorts");
    folder_enter();
    struct ending ending =
        bash("mkdir bin && for tool in bash sh env sed grep tr id mktemp rm cat dirname "
             "basename make find mkdir true head as ld; do\n"
             "ln -s \"$(type -P $tool)\" bin/ || exit; done\n"
             "ln -s \"$(type -P gcc)\" bin/real-gcc && ln -s \"$(type -P bash)\" bin/real-bash");
    cr_assert(ending.status == 0, "%s", ending.err);
    command_put("uname", "#!/bin/sh\necho Darwin\n");
    command_put("cc", APPLE_CC);
    command_put("brew", "#!/bin/sh\nexit 1\n");
    *strchr(getenv("PATH"), ':') = 0;
    static const char *const leave[] = {
        "CC", "ARCH", "PYTHON", "LDLIBS", "MAKEFLAGS", "HOMEBREW_PREFIX", "MFLAGS", "MAKELEVEL"};
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++) unsetenv(leave[i]);
}

TestSuite(deps, .init = enter, .fini = folder_leave);

/* Installs libomp where brew says that it is. */
static void libomp_put(void) {
    struct ending ending =
        bash("mkdir -p omp/include omp/lib\n"
             "echo 'int omp_get_max_threads(void);' >omp/include/omp.h\n"
             "printf '#!/bin/sh\\n[ \"$*\" = \"--prefix libomp\" ] && echo %s\\n' "
             "\"$PWD/omp\" >bin/brew");
    cr_assert(ending.status == 0, "%s", ending.err);
}

static void expect(const struct ending *ending, int status, const char *out, const char *err) {
    cr_expect(ending->status == status, "status %d, not %d", ending->status, status);
    cr_expect_str_eq(ending->out, out);
    cr_expect_str_eq(ending->err, err);
}

Test(deps, apples_compiler_lacks_openmp) {
    struct ending ending = script("openmp.sh cc");
    expect(&ending, 1, "-fopenmp\n",
           "openmp: cc builds no program with OpenMP (brew install libomp, or brew install gcc)\n");
    ending = script("deps.sh build");
    expect(&ending, 1, "", "deps: missing: libomp-dev; to get it: brew install libomp\n");
}

Test(deps, libomp_serves_apples_compiler) {
    libomp_put();
    struct ending ending = script("openmp.sh cc");
    cr_expect(ending.status == 0 && !*ending.err);
    cr_expect(!strncmp(ending.out, "-Xpreprocessor -fopenmp -I/", 27), "%s", ending.out);
    expect_part(ending.out, "/omp/include -L/");
    expect_part(ending.out, "/omp/lib -lomp\n");
    ending = script("deps.sh build");
    expect(&ending, 0, "", "");
}

Test(deps, gcc_by_its_number_serves_where_the_system_decides) {
    command_put("gcc-13", "#!/bin/sh\nexit 1\n"); // a broken one
    command_put("gcc-12", "#!/bin/sh\nexec real-gcc \"$@\"\n");
    struct ending ending = script("openmp.sh cc");
    expect(&ending, 0, "gcc-12 -fopenmp\n", "");
    ending = script("deps.sh build");
    expect(&ending, 0, "", "");
    ending = script("openmp.sh cc -O2"); // a compiler that is named is not replaced
    cr_expect(ending.status == 1);
    cr_expect_str_eq(ending.out, "-fopenmp\n");
}

Test(deps, a_compiler_with_openmp_needs_nothing) {
    struct ending ending = script("openmp.sh real-gcc");
    expect(&ending, 0, "-fopenmp\n", "");
    setenv("CC", "real-gcc -m64", 1);
    ending = script("deps.sh build");
    expect(&ending, 0, "", "");
}

Test(deps, apples_tools_come_from_apple) {
    cr_assert(!unlink("bin/cc") && !unlink("bin/make"));
    struct ending ending = script("deps.sh build");
    cr_expect(ending.status == 1);
    expect_part(ending.err, "deps: missing: gcc");
    expect_part(ending.err, " make; Apple's command line tools have it: xcode-select --install\n");
    cr_expect(!strstr(ending.err, "brew"), "%s", ending.err);
}

Test(deps, macs_bash_is_too_old_for_ablations) {
    command_put("parallel", "#!/bin/sh\necho GNU parallel\n");
    command_put("flock", "#!/bin/sh\n");
    struct ending ending = script("deps.sh ablate");
    expect(&ending, 0, "", "");
    command_put("bash", "#!/bin/sh\ncase $1 in -c) exit 1 ;; esac\nexec real-bash \"$@\"\n");
    ending = script("deps.sh ablate");
    expect(&ending, 1, "", "deps: missing: bash; to get it: brew install bash\n");
}

Test(deps, groups) {
    static const char *const groups[] = {"clang", "mpi", "arm", "lint", "notebook", "report"};
    enum { COMMANDS = 4 }; // of which bin/ has none; modules of Python may be there
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct ending ending = script("deps.sh %s", groups[i]);
        bool missing = ending.status == 1 && !strncmp(ending.err, "deps: missing", 13);
        cr_expect(missing || (i >= COMMANDS && ending.status == 0), "%s: %d, %s", groups[i],
                  ending.status, ending.err);
    }
    struct ending ending = script("deps.sh arms");
    expect(&ending, 2, "",
           "deps: no group or package 'arms' (groups: build test data plot ablate report "
           "golden lint clang mpi arm notebook)\n");
}

/* ---- Windows ---- */

static void windows_put(const char *name) {
    char answer[64];
    snprintf(answer, sizeof answer, "#!/bin/sh\necho %s_NT-10.0-22631\n", name);
    command_put("uname", answer);
    command_put("pacman", "#!/bin/sh\nexit 1\n");
    cr_assert(!unlink("bin/brew"));
}

Test(deps, msys2_has_what_builds) {
    windows_put("MSYS");
    cr_assert(!unlink("bin/cc") && !unlink("bin/make"));
    struct ending ending = script("deps.sh build");
    cr_expect(ending.status == 1);
    expect_part(ending.err, "deps: missing: gcc");
    expect_part(ending.err, " make; to get it: pacman -S gcc ");
    cr_expect(!strstr(ending.err, "sudo") && !strstr(ending.err, "not packaged"), "%s", ending.err);
    ending = script("deps.sh clang");
    expect_part(ending.err, "not packaged for this system: ");
    expect_part(ending.err, " (WSL with Debian or Ubuntu in it has all)\n");
}

Test(deps, compilers_without_posix_are_refused) {
    windows_put("MINGW64");
    struct ending ending = script("deps.sh build");
    expect(&ending, 1, "",
           "deps: the compilers of this shell lack POSIX: use MSYS2's MSYS shell, or WSL with "
           "Debian or Ubuntu in it\n");
}

/* ---- the Makefile ---- */

#define MAKE "make -C \"$SCRIPTS/..\" --no-print-directory "

Test(deps, make_builds_with_apples_compiler) {
    libomp_put();
    struct ending ending = bash(MAKE "-Bn build/cc-native/float/data/die.o");
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_part(ending.out, "cc -std=gnu11 -I. -O3 -mcpu=native ");
    expect_part(ending.out, " -Xpreprocessor -fopenmp -I/");
    cr_expect(!strstr(ending.out, "-lomp"), "%s", ending.out);
    ending = bash(MAKE "-Bn train | grep -e '-o build/cc-native/train '");
    expect_part(ending.out, "/omp/lib -lomp ");
}

Test(deps, make_builds_with_a_gcc_by_its_number) {
    command_put("gcc-12", "#!/bin/sh\nexec real-gcc \"$@\"\n");
    struct ending ending = bash(MAKE "-Bn build/gcc-12-native/float/data/die.o");
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_part(ending.out, "gcc-12 -std=gnu11 -I. -O3 -march=native ");
    ending = bash(MAKE "-Bn CC=cc build/cc-native/float/data/die.o");
    expect_part(ending.out, "cc -std=gnu11 ");
}

Test(deps, make_elsewhere_takes_fopenmp) {
    command_put("uname", "#!/bin/sh\necho Linux\n");
    struct ending ending = bash(MAKE "-Bn CC=real-gcc build/real-gcc-native/float/data/die.o");
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_part(ending.out, "real-gcc -std=gnu11 -I. -O3 -march=native ");
    expect_part(ending.out, " -fopenmp ");
    cr_expect(!strstr(ending.out, "-Xpreprocessor") && !*ending.err, "%s", ending.err);
}

Test(deps, make_in_msys2_takes_fopenmp) {
    windows_put("MSYS");
    command_put("cc", "#!/bin/sh\nexec real-gcc \"$@\"\n");
    struct ending ending = bash(MAKE "-Bn build/cc-native/float/data/die.o");
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_part(ending.out, "cc -std=gnu11 -I. -O3 -march=native ");
    cr_expect(!strstr(ending.out, "-Xpreprocessor") && !*ending.err, "%s", ending.err);
}
