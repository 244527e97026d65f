# normlab. `make` builds ./train; `make help` lists the rest.
#
#   make ARCH=x86-64-v3     for another processor than this one (-march)
#   make CC=clang-16        with another compiler
#   make SANITIZE=1 ...     with the address and undefined-behaviour sanitizers
#   make V=1                to see the commands
#   make fuzz FUZZ_SECONDS=300

ARCH     := native
SANITIZE :=
PREFIX   := /usr/local
FUZZ_SECONDS := 60
CLANG    := clang-16

MARCH    := -march=$(ARCH)
OPENMP   := -fopenmp
ifeq ($(shell uname -s),Darwin)
    # Apple's Clang needs other options for OpenMP, and Homebrew's libomp; without it, cc becomes gcc-NN.
    FOUND  := $(shell scripts/openmp.sh $(CC))
    CC     := $(or $(filter-out -%,$(FOUND)),$(CC))
    OPENMP := $(filter-out -L% -l%,$(filter -%,$(FOUND))) $(addprefix -I,$(wildcard /opt/homebrew/include))
    LDLIBS += $(filter -L% -l%,$(FOUND)) $(addprefix -L,$(wildcard /opt/homebrew/lib))
    # Apple's Clang for ARM does not always know -march=native.
    MARCH  := $(shell for flag in $(MARCH) -mcpu=$(ARCH); do \
                $(CC) $$flag -E - </dev/null >/dev/null 2>&1 && echo $$flag && break; done)
endif
BUILD    := build/$(CC)-$(ARCH)$(if $(SANITIZE),-sanitize)$(if $(FUZZ),-fuzz)
WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wshadow -Wconversion -Wno-sign-conversion -Wvla
# Clang warns of each loop that it leaves scalar (libm calls in double).
WARNINGS += $(if $(findstring clang,$(CC)),-Wno-pass-failed)
# No product and sum are fused but where the source says so: see model/math/real.h.
OPTIMIZE := -O3 $(MARCH) -ffp-contract=off -fno-math-errno -fno-trapping-math
# Where the compiler has it: whole AVX-512 vectors in plain loops too.
OPTIMIZE += $(shell $(CC) $(MARCH) -mprefer-vector-width=512 -E - </dev/null >/dev/null 2>&1 \
              && echo -mprefer-vector-width=512)
ifneq ($(SANITIZE),)
    OPTIMIZE += -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
# For `make fuzz`, which sets it: what runs is counted, files are noted (tests/fuzz/fuzz.c).
OPTIMIZE += $(if $(FUZZ),-fsanitize=fuzzer-no-link)
WRAPPED  := -Wl,--wrap=fopen,--wrap=fdopen,--wrap=fclose
COMPILE  := $(CC) -std=gnu11 -I. $(OPTIMIZE) $(OPENMP) $(WARNINGS) -MMD -MP
CFLAGS   :=
LDLIBS   += -lm

SOURCES  := $(wildcard model/*.c model/*/*.c data/*.c data/*/*.c)
OBJECTS  := $(SOURCES:%.c=$(BUILD)/float/%.o)

# Every test runs on floats; those of the mathematics run on doubles too. What dies comes back to
# the tests where they catch it: tests/death.c stands in for data/die.c.
TESTS        := $(filter-out tests/bench%.c tests/fuzz/fuzz.c,$(wildcard tests/*.c tests/*/*.c))
MATHEMATICS  := tests/support.c $(wildcard tests/model/*.c)
FLOAT_TESTS  := $(filter-out tests/model/test_gradient%.c,$(TESTS))
LIVING       := $(filter-out %/data/die.o,$(OBJECTS))
TEST_PROGRAMS := $(BUILD)/test-float $(BUILD)/test-double

.PHONY: all help test check fuzz bench data demo ablate plots asan archs lint format install uninstall clean FORCE
all: train

train: $(BUILD)/train FORCE
	@cmp -s $< $@ || { cp $< $@.new && mv -f $@.new $@; }

# A line for each file, the whole command with V=1, nothing with -s.
SILENT := $(findstring s,$(firstword -$(filter-out --%,$(MAKEFLAGS))))
SAY    := @$(if $(V)$(SILENT),:,printf '  %-5s %s\n')
Q      := $(if $(V),,@)
LINK    = $(COMPILE) $(CFLAGS) $^ -o $@

$(BUILD)/train: $(BUILD)/float/train.o $(OBJECTS)
	$(SAY) LINK $@
	$(Q)$(LINK) $(LDLIBS)

$(BUILD)/bench: $(addprefix $(BUILD)/float/tests/,bench.o bench_products.o) $(OBJECTS)
	$(SAY) LINK $@
	$(Q)$(LINK) $(LDLIBS)

$(BUILD)/test-float: $(FLOAT_TESTS:%.c=$(BUILD)/float/%.o) $(LIVING)
	$(SAY) LINK $@
	$(Q)$(LINK) -lcriterion $(LDLIBS)

$(BUILD)/test-double: $(MATHEMATICS:%.c=$(BUILD)/double/%.o) $(SOURCES:%.c=$(BUILD)/double/%.o)
	$(SAY) LINK $@
	$(Q)$(LINK) -lcriterion $(LDLIBS)

$(BUILD)/fuzz: $(addprefix $(BUILD)/float/tests/,fuzz/fuzz.o fuzz/readers.o death.o) $(LIVING)
	$(SAY) LINK $@
	$(Q)$(LINK) -fsanitize=fuzzer $(WRAPPED) $(LDLIBS)

$(BUILD)/float/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) $(CFLAGS) -c $< -o $@

$(BUILD)/double/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC "$< (double)"
	$(Q)$(COMPILE) $(CFLAGS) -DREAL=double -c $< -o $@

help:
	@echo 'make          build ./train'
	@echo 'make demo     train with three norms on the built-in grammar and draw their loss curves'
	@echo 'make test     build and run every test'
	@echo 'make bench    how close training comes to the machine (BENCH="--only=cpu --norm=bn" ...)'
	@echo 'make data     get real corpora into data/corpora/'
	@echo 'make ablate   every norm in every placement on the grammar, three seeds: table and picture'
	@echo 'make plots    draw what is in runs/: its runs, and each folder of runs'
	@echo 'make asan     every test under the address and undefined-behaviour sanitizers'
	@echo 'make fuzz     feed the readers of files damaged ones, each for FUZZ_SECONDS=$(FUZZ_SECONDS) (clang)'
	@echo 'make archs    the arithmetic as other processors and compilers have it (TARGETS="clang:native" ...)'
	@echo 'make lint     layout of the code, order of the folders, lengths, scripts'
	@echo 'make format   lay out the code'
	@echo 'make install  ./train as $(PREFIX)/bin/normlab-train, its man page and bash completion'
	@echo 'make uninstall  remove these three'
	@echo 'make clean    remove what was built (runs and corpora stay)'

demo: train
	@scripts/demo.sh

test:
	@scripts/deps.sh build test plot
	@$(MAKE) --no-print-directory check

check: $(BUILD)/train $(TEST_PROGRAMS)
	@TRAIN=$(abspath $(BUILD)/train) scripts/run_tests.sh $(TEST_PROGRAMS)

asan:
	@$(MAKE) --no-print-directory test SANITIZE=1

fuzz:
	@CC=$(CLANG) scripts/deps.sh clang
	@$(MAKE) --no-print-directory CC=$(CLANG) SANITIZE=1 FUZZ=1 build/$(CLANG)-$(ARCH)-sanitize-fuzz/fuzz
	@scripts/fuzz.sh build/$(CLANG)-$(ARCH)-sanitize-fuzz/fuzz $(FUZZ_SECONDS)

archs:
	@scripts/deps.sh build test && CC=$(CLANG) scripts/deps.sh clang
	@CLANG=$(CLANG) scripts/archs.sh $(TARGETS)

bench: $(BUILD)/bench
	@$(BUILD)/bench $(BENCH)

data:
	@data/get_corpora.sh

ablate: train
	@scripts/ablate.sh --seeds=3 --out=runs/ablate -- --max-iters=300 --eval-interval=50 --eval-iters=20
	@scripts/deps.sh plot && scripts/plot.py runs/ablate

plots:
	@scripts/deps.sh plot && scripts/plot.py --each runs

lint:
	@scripts/deps.sh lint
	@scripts/lint.sh

format:
	@scripts/deps.sh lint
	$(Q)clang-format -i train.c $(wildcard */*.[ch] */*/*.[ch])

MANUALS := share/man/man1/normlab-train.1 share/bash-completion/completions/normlab-train
install uninstall: PLACE = $(DESTDIR)$(PREFIX)
install: train
	mkdir -p $(PLACE)/bin $(PLACE)/share/man/man1 $(PLACE)/share/bash-completion/completions
	install train $(PLACE)/bin/normlab-train
	./train --help=man >$(PLACE)/share/man/man1/normlab-train.1
	./train --help=completion >$(PLACE)/share/bash-completion/completions/normlab-train
	chmod 644 $(MANUALS:%=$(PLACE)/%)

uninstall:
	rm -f $(PLACE)/bin/normlab-train $(MANUALS:%=$(PLACE)/%)

clean:
	rm -rf build train

-include $(shell find build -name '*.d' 2>/dev/null)
