# make            the programs of demos/studies   make test        everything
# make demo       the three mixers learn, report (6 minutes on two quiet cores)      make test-fast   after each edit (30 s)
# make demo-linmu attention out, M-MATE in, report
# make play       the mixing matrix in a browser: build/play/play.html (clang, lld, wasi-libc)
# make bench      times of the parts              make compare     the same beside PyTorch
# make cuda       mamba_mix_cuda.cu for sm_80, sm_90 and later
# make cuda-report   registers and spills of its kernels      make test-cuda    tests on a GPU
# make test-python   the header from Python: demos/python/mamba_mix.py      make clean
#
# Everything built goes to build/.

CC     ?= cc
CXX    ?= c++
CFLAGS ?= -std=c99 -O2 -Wall -Wextra
LIBS    = -lm -lpthread
ARM    ?= aarch64-linux-gnu-gcc
MINGW  ?= x86_64-w64-mingw32-gcc
I686   ?= i686-linux-gnu-gcc
SAN     = -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined

STUDIES = dino mixers features linmu linear tables ranks decode typeseg smol vqa bench
STUDY_HEADERS = $(wildcard demos/studies/*.h)

# nvcc from the PATH, CUDA_HOME, or where the toolkit is usually installed
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard $(CUDA_HOME)/bin/nvcc) $(wildcard /usr/local/cuda/bin/nvcc) nvcc)
NVCCFLAGS ?= -O3 -std=c++17 -Xcompiler -Wall,-Wextra
CUDA_ARCHS ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]

all: $(STUDIES:%=build/%)

# 4,600 steps a network whatever the machine: what they learn does not depend on how busy it is, how long they take does.
# Ctrl-C makes the report of what there is.
demo: build/dino
	build/dino --out build/demo
	@echo "open build/demo/report.html"

demo-linmu: build/linmu
	build/linmu --out build/demo-linmu
	@echo "open build/demo-linmu/report.html"

# The page imports nothing and is one file. Debian: clang lld wasi-libc libclang-rt-dev-wasm32. SIMD128 takes 9 to 28 % off
# the time of M and is in every browser that has DecompressionStream, which the page needs anyhow. -Os instead of -O2: the page
# has 118 kB instead of 150, and softmax attention's M takes 1.2 ms instead of 1.0; the others take what they took.
WASMCC    ?= clang
WASMFLAGS ?= --target=wasm32-wasi -std=c99 -Os -msimd128 -Wall -Wextra -DMMIX_NO_THREADS -DMMIX_NO_STDIO -ffunction-sections -fdata-sections \
	-mexec-model=reactor -Wl,--no-entry,--gc-sections,--strip-all,--stack-first,-z,stack-size=262144
play: build/play/play.html
	@echo "open build/play/play.html"
build/play/play.wasm: demos/page/play.c demos/studies/scenes.h mamba_mix.h
	mkdir -p build/play
	$(WASMCC) $(WASMFLAGS) -o $@ $<
build/play/play.html: demos/page/play.html build/play/play.wasm
	gzip -9nc build/play/play.wasm | base64 | tr -d '\n' >build/play/play.b64
	echo >>build/play/play.b64
	sed -e '/^@WASM@$$/{r build/play/play.b64' -e 'd' -e '}' $< >$@
# the same numbers without a browser, for the test
build/play_native: demos/page/play.c demos/studies/scenes.h build/mamba_mix.o
	$(CC) $(CFLAGS) -DMMIX_LINKED -o $@ $< build/mamba_mix.o $(LIBS)

bench: build/bench
	build/bench --table

# PyTorch's half is tests/pytorch_bench.py; make compare COMPARE="--only ^ssd --rounds 5"
PYTHON  ?= python3
compare: build/bench
	$(PYTHON) tests/compare.py build/bench $(COMPARE)

build:
	mkdir -p build

# The implementation is compiled once for each configuration, into build/mamba_mix*.o, and linked to all its programs:
# MMIX_LINKED keeps studies and tests from holding one of their own, which they do where one calls `cc program.c -lm -lpthread`.
build/%: demos/studies/%.c build/mamba_mix.o $(STUDY_HEADERS)
	$(CC) $(CFLAGS) -DMMIX_LINKED -o $@ $< build/mamba_mix.o $(LIBS)
build/smol build/vqa: demos/tokenizer.h
build/typeseg_reg: demos/studies/typeseg.c build/mamba_mix_reg.o $(STUDY_HEADERS)
	$(CC) $(CFLAGS) -DMMIX_REGRESSION $(SAN) -DMMIX_LINKED -o $@ $< build/mamba_mix_reg.o $(LIBS)
build/dino_mpi: demos/studies/dino_mpi.c build/mamba_mix.o $(STUDY_HEADERS)
	mpicc $(CFLAGS) -DMMIX_LINKED -o $@ $< build/mamba_mix.o $(LIBS)

# tests: NAME is float, NAME_f64 double, NAME_reg float with sanitizers and tiny blocks, chunks and tiles, NAME_tsan with the
# sanitizer of threads, NAME_neon for 64-bit ARM, NAME_i686 for 32 bits, NAME_x87 for those without SSE,
# NAME_win.exe for Windows (whose macros the header meets). kernels, narrow and internals call what has no name outside of the
# implementation and hold it themselves; kernels wants the mixers alone, and internals is quick without optimization, too.
define configuration
build/mamba_mix$(1).o: mamba_mix.h | build
	$(2) $(CFLAGS) $(3) -DMAMBA_MIX_IMPLEMENTATION -x c -c -o $$@ $$<
build/%$(1)$(4): tests/%.c build/mamba_mix$(1).o tests/test.h tests/json.h tests/models.h tests/decoders.h
	$(2) $(CFLAGS) $(3) -DMMIX_LINKED -o $$@ $$< build/mamba_mix$(1).o $$(LIBS)
build/kernels$(1)$(4): tests/kernels.c mamba_mix.h tests/test.h | build
	$(2) $(CFLAGS) $(3) -DMMIX_MIXERS_ONLY -o $$@ $$< $$(LIBS)
build/narrow$(1)$(4): tests/narrow.c mamba_mix.h tests/test.h tests/models.h | build
	$(2) $(CFLAGS) $(3) -o $$@ $$< $$(LIBS)
build/internals$(1)$(4): tests/internals.c mamba_mix.h tests/test.h tests/json.h | build
	$(2) $(CFLAGS) $(3) -O0 -o $$@ $$< $$(LIBS)
endef
$(eval $(call configuration,,$(CC),))
$(eval $(call configuration,_f64,$(CC),-DMMIX_REAL=double))
$(eval $(call configuration,_reg,$(CC),-DMMIX_REGRESSION $(SAN)))
$(eval $(call configuration,_tsan,$(CC),-O1 -g1 -fsanitize=thread))
$(eval $(call configuration,_neon,$(ARM),-static))
$(eval $(call configuration,_win,$(MINGW),-static -O0,.exe))
$(eval $(call configuration,_i686,$(I686),-static -O0 -msse2 -mfpmath=sse))
$(eval $(call configuration,_x87,$(I686),-static -O1 -std=gnu17))
build/mamba_mix_win.o: CFLAGS += -include windows.h
build/narrow_amx: tests/narrow.c tests/amx.h mamba_mix.h tests/test.h tests/models.h | build
	$(CC) $(CFLAGS) -DEMULATED_AMX -o $@ $< $(LIBS)
# tests/tiny.c holds the programs of docs/tiny
build/tiny build/tiny_f64 build/tiny_reg: $(wildcard docs/tiny/*.c)

build/tokenizer build/tokenizer_f64 build/tokenizer_reg: demos/tokenizer.h

# ---- the GPU. cuda, golden_cuda: the same kernels on tests/cuda_host.h; …_gpu: on a GPU ----

build/cuda: tests/cuda.cpp tests/cuda_host.h mamba_mix_cuda.cu build/mamba_mix.o
	$(CXX) -std=c++17 -O2 -Wall -Wextra -DMMIX_CUDA_HOST -o $@ $< build/mamba_mix.o $(LIBS)
build/cuda_san: tests/cuda.cpp tests/cuda_host.h mamba_mix_cuda.cu build/mamba_mix.o
	$(CXX) -std=c++17 -Wall -Wextra -DMMIX_CUDA_HOST $(SAN) -o $@ $< build/mamba_mix.o $(LIBS)
build/cuda_layouts: tests/cuda.cpp tests/cuda_host.h tests/cuda_layouts.h mamba_mix_cuda.cu build/mamba_mix.o
	$(CXX) -std=c++17 -O2 -Wall -Wextra -DMMIX_CUDA_HOST -DMMIX_CUDA_LAYOUTS -o $@ $< build/mamba_mix.o $(LIBS)
build/cuda_host.o: mamba_mix_cuda.cu tests/cuda_host.h mamba_mix.h | build
	$(CXX) -std=c++17 -O2 -Wall -Wextra -DMMIX_CUDA_HOST -include tests/cuda_host.h -x c++ -c -o $@ $<
build/golden_cuda.o: tests/golden.c tests/test.h tests/json.h mamba_mix_cuda.cu mamba_mix.h | build
	$(CC) $(CFLAGS) -DMMIX_LINKED -DMMIX_GOLDEN_CUDA -c -o $@ $<
build/golden_cuda: build/golden_cuda.o build/cuda_host.o build/mamba_mix.o
	$(CXX) -o $@ $^ $(LIBS)

cuda: build/mamba_mix_cuda.o
build/mamba_mix_cuda.o: mamba_mix_cuda.cu mamba_mix.h | build
	$(NVCC) $(NVCCFLAGS) $(CUDA_ARCHS) -t 0 -Xptxas -v -c -o $@ $< >build/cuda.txt 2>&1 || { cat build/cuda.txt; exit 1; }
	@grep -E 'warning|error' build/cuda.txt || true
# of each kind of GPU in REPORT by itself
REPORT ?= 80 90
build/cuda_%.txt: mamba_mix_cuda.cu mamba_mix.h | build
	$(NVCC) $(NVCCFLAGS) -gencode arch=compute_$*,code=sm_$* -Xptxas -v -c -o build/cuda_$*.o $< >$@ 2>&1 || { cat $@; rm $@; exit 1; }
cuda-report: $(REPORT:%=build/cuda_%.txt)
	cat $^ | tests/cuda_report.sh
build/bench_cuda: demos/studies/bench_cuda.c mamba_mix_cuda.cu build/mamba_mix_cuda.o build/mamba_mix.o
	$(NVCC) -O2 -o $@ $< build/mamba_mix_cuda.o build/mamba_mix.o $(LIBS)
# All that wants a GPU, in one command: tests/gpu.sh says what. `sh tests/gpu.sh build` needs none.
test-cuda:
	sh tests/gpu.sh

test: 
	tests/run.sh all
test-fast:
	tests/run.sh fast
test-python:
	sh tests/python.sh

clean:
	rm -rf build

.PHONY: all demo demo-linmu play bench compare cuda cuda-report test-cuda test test-fast test-python clean
