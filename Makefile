# normlab. `make` builds ./train (V=1: shows the commands); `make help` lists the rest.
#
#   make ARCH=x86-64-v3     for another processor than this one (-march); CC=clang-16: by another compiler
#   make SANITIZE=1 ...     with the address and undefined-behaviour sanitizers
#   make MPI=1              for several processes on one or more machines (mpirun)
#   make OPENMP=            for one thread, by a compiler without OpenMP

# On all cores, unless -j says otherwise. Several goals are made one after another (make clean all).
ifeq ($(findstring -j,-$(MAKEFLAGS))$(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
    MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
endif

ARCH     := native
SANITIZE :=
PREFIX   := /usr/local
CLANG    := clang-16
FUZZ_SECONDS := 60
MARCH    := -march=$(ARCH)
OPENMP   := -fopenmp
ifeq ($(shell uname -s),Darwin)
    # Apple's Clang has other options for OpenMP, and libomp from Homebrew; without it, cc becomes gcc-NN.
    # On ARM it does not always know -march=native.
    FOUND  := $(shell scripts/upkeep/openmp.sh $(CC))
    CC     := $(or $(filter-out -%,$(FOUND)),$(CC))
    OPENMP := $(filter-out -L% -l%,$(filter -%,$(FOUND))) $(addprefix -I,$(wildcard /opt/homebrew/include))
    LDLIBS += $(filter -L% -l%,$(FOUND)) $(addprefix -L,$(wildcard /opt/homebrew/lib))
    MARCH  := $(shell for flag in $(MARCH) -mcpu=$(ARCH); do \
                $(CC) $$flag -E - </dev/null >/dev/null 2>&1 && echo $$flag && break; done)
endif
BUILD    := build/$(shell echo '$(CC)' | tr ' /' __)-$(ARCH)$(if $(SANITIZE),-sanitize)$(if $(FUZZ),-fuzz)$(if $(MPI),-mpi)$(if $(OPENMP),,-serial)
WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wshadow -Wconversion -Wno-sign-conversion -Wvla
WARNINGS += $(if $(findstring clang,$(CC) $(shell $(CC) --version)),-Wno-pass-failed) # of scalar loops
# No product and sum are fused except where the source says so (model/math/real.h). Where the compiler has
# it: whole AVX-512 vectors in plain loops too.
OPTIMIZE := -O3 $(MARCH) -ffp-contract=off -fno-math-errno -fno-trapping-math
OPTIMIZE += $(shell $(CC) $(MARCH) -mprefer-vector-width=512 -E - </dev/null >/dev/null 2>&1 \
              && echo -mprefer-vector-width=512)
OPTIMIZE += $(shell $(CC) $(MARCH) -dM -E - </dev/null | grep -q 'FLT_EVAL_METHOD__ 2' && echo -msse2 -mfpmath=sse) # 32-bit x86
OPTIMIZE += $(if $(SANITIZE),-O2 -g -fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
OPTIMIZE += $(if $(FUZZ),-fsanitize=fuzzer-no-link) # for make fuzz, which counts what runs
DRIVER   := $(if $(MPI),MPICH_CC='$(CC)' OMPI_CC='$(CC)' mpicc -DMPI,$(CC))
# Expanded where it is used, since OPTIMIZE differs between targets.
COMPILE   = $(DRIVER) -std=gnu11 -I. $(OPTIMIZE) $(or $(OPENMP),-fopenmp-simd -Imodel/math/serial) $(WARNINGS) -MMD -MP $(CPPFLAGS) $(CFLAGS)
LDLIBS   += -lm

SOURCES  := $(filter-out $(if $(MPI),,model/math/ranks.c),$(wildcard model/*.c model/*/*.c data/*.c data/*/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/float/%.o)

# Every test except test_gradient*.c and test_plain.c runs on floats; those of the mathematics run on doubles too.
TESTS        := $(filter-out tests/bench%.c tests/plain.c tests/fuzz/fuzz.c,$(wildcard tests/*.c tests/*/*.c))
MATHEMATICS  := tests/support.c $(wildcard tests/model/*.c)
# What has no mathematics is not compiled a second time: runs, their files, what a run says.
RUNS         := model/app/%.c model/instruments/fault.c model/options/config_output.c model/options/help%.c data/files/safetensors.c data/streams.c
DOUBLES      := $(MATHEMATICS) $(filter-out $(RUNS),$(SOURCES))
FLOAT_TESTS  := $(filter-out tests/model/test_gradient%.c tests/model/test_plain.c,$(TESTS))
# Those with a test that FILTER picks; without FILTER, both.
picks         = $(if $(FILTER),$(shell scripts/upkeep/picks.sh '$(FILTER)' $(1)),yes)
TEST_PROGRAMS := $(if $(call picks,$(FLOAT_TESTS)),$(BUILD)/test-float) $(if $(call picks,$(MATHEMATICS)),$(BUILD)/test-double)

.PHONY: all help test check check-all ranks fuzz bench plain data demo speedrun ablate report plots web web-check asan archs lint format count install uninstall clean FORCE
all: train

train: $(BUILD)/train FORCE
	@cmp -s $< $@ || { cp $< $@.new && mv -f $@.new $@; }

SILENT := $(findstring s,$(firstword -$(filter-out --%,$(MAKEFLAGS))))# with -s nothing is said
SAY    := @$(if $(V)$(SILENT),:,printf '  %-5s %s\n')
Q      := $(if $(V),,@)

$(BUILD)/train: $(BUILD)/float/train.o $(OBJECTS)
$(BUILD)/plain: $(addprefix $(BUILD)/float/,tests/plain.o $(patsubst %.c,%.o,$(wildcard data/*.c data/text/*.c)))
$(BUILD)/bench: $(addprefix $(BUILD)/float/tests/,bench.o bench_products.o) $(OBJECTS)
$(BUILD)/test-float: $(FLOAT_TESTS:%.c=$(BUILD)/float/%.o) $(OBJECTS)
$(BUILD)/test-double: $(DOUBLES:%.c=$(BUILD)/double/%.o)
$(BUILD)/fuzz: $(addprefix $(BUILD)/float/tests/,fuzz/fuzz.o fuzz/readers.o fuzz/cases.o death.o) $(OBJECTS)
$(BUILD)/test-float $(BUILD)/test-double: LIBRARIES := -lcriterion
$(BUILD)/fuzz: LIBRARIES := -fsanitize=fuzzer -Wl,--wrap=fopen,--wrap=fdopen,--wrap=fclose

$(BUILD)/train $(BUILD)/plain $(BUILD)/bench $(BUILD)/fuzz $(BUILD)/test-float $(BUILD)/test-double:
	$(SAY) LINK $@
	$(Q)$(COMPILE) $^ -o $@ $(LDFLAGS) $(LIBRARIES) $(LDLIBS)

# A test takes longer to compile than to run.
$(TESTS:%.c=$(BUILD)/float/%.o) $(TESTS:%.c=$(BUILD)/double/%.o): OPTIMIZE += -O1

# It runs on processors that lack what the rest is built for, and says so.
$(BUILD)/float/model/math/processor.o $(BUILD)/double/model/math/processor.o: \
  COMPILE := $(filter-out $(MARCH) -mprefer-vector-width=512,$(COMPILE))

$(BUILD)/float/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) -c $< -o $@

$(BUILD)/double/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC "$< (double)"
	$(Q)$(COMPILE) -DREAL=double -c $< -o $@

help: ## this list
	@echo 'make            build ./train'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1=\2/p' Makefile | awk -F= '{ i = index($$0, "="); printf "%-16s%s\n", $$1, substr($$0, i + 1) }'

demo: train ## train with three norms on the built-in grammar and draw their loss curves
	@scripts/demo.sh

speedrun: train ## compare the recipes of --recipe on tiny Shakespeare (CORPUS=FILE)
	@scripts/speedrun.sh $(if $(CORPUS),'$(CORPUS)')

test: ## install what the tests need, build, and run every test (five minutes)
	@scripts/deps.sh build test
	@$(MAKE) --no-print-directory check

check: $(BUILD)/train $(TEST_PROGRAMS) ## run tests without installing anything (FILTER='norm/*': some of them)
	@TRAIN="$$(cd $(BUILD) && pwd)/train" scripts/upkeep/run_tests.sh $(TEST_PROGRAMS) $(BUILD)/pytest
	@$(if $(FILTER)$(SWEEP),,echo 'Each kind was tested. make check-all tests every norm in every placement, and every bit of damaged files.')

check-all: export SWEEP := 1
check-all: check ## make check with every combination, where that takes one of each kind

ranks: ## test several MPI processes
	@scripts/deps.sh build test mpi && $(MAKE) --no-print-directory MPI=1 $(BUILD:-mpi=)-mpi/train
	@$(MAKE) --no-print-directory check MPI= RANKS="$$(cd $(BUILD:-mpi=)-mpi && pwd)/train" FILTER='$(or $(FILTER),pytest/cli/ranks)'

asan: ## run the tests in C, and of the command line, under sanitizers (SWEEP=1: every combination)
	@$(MAKE) --no-print-directory test SANITIZE=1 FILTER='$(or $(FILTER),*/*)'
	@$(if $(FILTER),,$(MAKE) --no-print-directory check SANITIZE=1 FILTER='pytest/cli/*')

FUZZER := build/$(CLANG)-$(ARCH)-sanitize-fuzz/fuzz
fuzz: ## fuzz the readers of files, each for FUZZ_SECONDS=60; needs clang
	@CC=$(CLANG) scripts/deps.sh clang
	@$(MAKE) --no-print-directory CC=$(CLANG) SANITIZE=1 FUZZ=1 $(FUZZER)
	@scripts/upkeep/fuzz.sh $(FUZZER) $(FUZZ_SECONDS)

archs: ## test for other processors and compilers (TARGETS="clang:native" ...)
	@scripts/deps.sh build test && CC=$(CLANG) scripts/deps.sh clang
	@CLANG=$(CLANG) scripts/upkeep/archs.sh $(TARGETS)

bench: $(BUILD)/bench train ## measure the speed of training and of ablations (BENCH="--only=cpu --norm=bn" ...)
	@$(BUILD)/bench $(BENCH)
	@$(if $(BENCH),,scripts/deps.sh ablate && scripts/upkeep/bench_ablation.py)

plain: $(BUILD)/plain ## build the program in one file, tests/plain.c: build/plain CORPUS trains, slowly
	@cmp -s $< build/plain || cp -f $< build/plain

# The page runs the program, without a change of its source, in workers, whose files are in memory.
WEB := build/emcc-simd128-serial
web: ## build the page that trains in a browser, build/web/index.html
	@scripts/deps.sh web
	@NODE_PATH=/usr/share/nodejs $(MAKE) --no-print-directory CC=emcc ARCH=simd128 MARCH=-msimd128 OPENMP= \
	  CFLAGS='-Wno-shorten-64-to-32 -Wno-float-conversion -Wno-missing-field-initializers' \
	  LIBRARIES='-s MODULARIZE=1 -s EXPORT_NAME=createTrain -s ENVIRONMENT=worker -s INVOKE_RUN=0 -s EXIT_RUNTIME=1 \
	  -s ALLOW_MEMORY_GROWTH=1 -s FORCE_FILESYSTEM=1 -s EXPORTED_RUNTIME_METHODS=["callMain","FS"]' $(WEB)/train
	@scripts/web/build.py $(WEB)/train build/web/index.html

web-check: train web ## test that page in headless Chromium, with three seeds (FILTER="deep-postln")
	@scripts/deps.sh browser
	@scripts/web/check.sh "$(FILTER)"

data: ## get real corpora into data/corpora/
	@data/get_corpora.sh

ablate: train ## every norm in every placement on the grammar, three seeds: table and picture
	@scripts/deps.sh ablate && scripts/ablate.sh --seeds=3 --out=runs/ablate -- --max-iters=300 --eval-interval=50 --eval-iters=20
	@scripts/deps.sh plot && scripts/plot.py runs/ablate

report: train ## judge the claims of five articles (REPORT="--claim=A21"; REPORT="--train ..." repeats runs)
	@scripts/deps.sh report && scripts/report.py $(REPORT)

plots: ## draw all runs in runs/, and each folder of runs there
	@scripts/deps.sh plot && scripts/plot.py --each runs

lint: ## check the layout, includes, lengths, links and scripts
	@scripts/deps.sh lint && scripts/upkeep/lint.sh

format: ## lay out the C code with clang-format
	@scripts/deps.sh lint && $$(command -v clang-format-14 || echo clang-format) -i train.c $(wildcard */*.[ch] */*/*.[ch])

COUNT := build/count
count: ## count the code that runs in one loss and in one update (FILES=--files: which)
	@$(MAKE) -s BUILD=$(COUNT) OPTIMIZE='$(MARCH) -O0 --coverage' $(COUNT)/train
	@scripts/upkeep/count_code.py $(COUNT)/train $(COUNT) $(FILES)

PLACE    := '$(DESTDIR)$(PREFIX)'
MANUAL   := $(PLACE)/share/man/man1/normlab.1
COMPLETE := $(PLACE)/share/bash-completion/completions/normlab
install: train ## install ./train as PREFIX/bin/normlab (/usr/local), man page and bash completion
	$(SAY) PUT $(PLACE)/bin/normlab PUT $(MANUAL) PUT $(COMPLETE)
	@mkdir -p $(PLACE)/bin "$$(dirname $(MANUAL))" "$$(dirname $(COMPLETE))" && install train $(PLACE)/bin/normlab
	@./train --help=man >$(MANUAL) && ./train --help=completion >$(COMPLETE) && chmod 644 $(MANUAL) $(COMPLETE)

uninstall: ## remove what make install installed
	rm -f $(PLACE)/bin/normlab $(MANUAL) $(COMPLETE)

clean: ## remove what was built (runs and corpora stay)
	rm -rf build train

-include $(shell find build $(BUILD) -name '*.d' 2>/dev/null)
