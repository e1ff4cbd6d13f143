# make            the demos                       make test        everything (about 15 minutes)
# make demo       the three mixers learn, report  make test-fast   what to run after each edit (30 s)
# make demo-linmu attention out, M-MATE in, report
# make bench      times of the parts              make compare     the same beside PyTorch
# make clean
#
# Everything built goes to build/.

CC     ?= cc
CXX    ?= c++
CFLAGS ?= -std=c99 -O2 -Wall -Wextra
LIBS    = -lm -lpthread
ARM    ?= aarch64-linux-gnu-gcc
SAN     = -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined

DEMOS = dino mixers features linmu bench

all: $(DEMOS:%=build/%)

demo: build/dino
	build/dino --out build/demo --minutes 1.6
	@echo "open build/demo/report.html"

demo-linmu: build/linmu
	build/linmu --out build/demo-linmu
	@echo "open build/demo-linmu/report.html"

bench: build/bench
	build/bench --table

# the other side of the comparison is a script outside of this repository
COMPARE ?= ../shared/bench/compare.py
PYTHON  ?= python3
compare: build/bench
	@if [ ! -e $(COMPARE) ]; then echo "make compare: there is no $(COMPARE)"; \
	elif ! $(PYTHON) -c 'import torch' 2>/dev/null; then echo "make compare: $(PYTHON) has no torch; PYTHON=… names another"; \
	else $(PYTHON) $(COMPARE) --rounds 3 -- build/bench; fi

build:
	mkdir -p build

build/%: demos/%.c mamba_mix.h demos/scenes.h demos/report.h demos/pictures.h demos/program.h demos/linmu_figures.h | build
	$(CC) $(CFLAGS) -o $@ $< $(LIBS)

# tests: NAME is float, NAME_f64 double, NAME_reg float with tiny blocks, chunks and tiles, NAME_san with sanitizers,
# NAME_neon for 64-bit ARM
build/%: tests/%.c mamba_mix.h | build
	$(CC) $(CFLAGS) -o $@ $< $(LIBS)
build/%_f64: tests/%.c mamba_mix.h | build
	$(CC) $(CFLAGS) -DMMIX_REAL=double -o $@ $< $(LIBS)
build/%_reg: tests/%.c mamba_mix.h | build
	$(CC) $(CFLAGS) -DMMIX_REGRESSION $(SAN) -o $@ $< $(LIBS)
build/%_san: tests/%.c mamba_mix.h | build
	$(CC) $(CFLAGS) $(SAN) -o $@ $< $(LIBS)
build/%_neon: tests/%.c mamba_mix.h | build
	$(ARM) $(CFLAGS) -static -o $@ $< $(LIBS)
build/%_tsan: tests/%.c mamba_mix.h | build
	$(CC) $(CFLAGS) -O1 -g -fsanitize=thread -o $@ $< $(LIBS)

test: 
	tests/run.sh all
test-fast:
	tests/run.sh fast

clean:
	rm -rf build

.PHONY: all demo demo-linmu bench compare test test-fast clean
