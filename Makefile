# The short names for what people do here. The work is in the CMake presets (CMakePresets.json) and in tools/.

EXAMPLE ?= show
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Tests wait more than they compute.
export CTEST_PARALLEL_LEVEL := $(shell echo $$(($(JOBS) * 3 / 2)))

.NOTPARALLEL:
.PHONY: help run test test-full test-hooks test-clients test-mutants stress soak fuzz bench bench-http install check clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /make \1\t/p' Makefile | expand -t 20

EXAMPLES := $(sort $(basename $(notdir $(wildcard examples/*.c))) show)

run: ## an echo server under load, for ten seconds; EXAMPLE=hello, chat, ... ARGS="..." runs an example instead
	@$(if $(filter $(EXAMPLE),$(EXAMPLES)),,echo "make run: there is no example $(EXAMPLE); there are: $(EXAMPLES)" >&2; exit 1)
	@tools/setup run
	cmake --preset release && cmake --build --preset release --target example-$(EXAMPLE)
	build/release/examples/$(EXAMPLE) $(ARGS)

test: ## the tests in the builds dev, asan and tsan; outside programs; layers and headers
	@tools/setup run test
	@tools/test quick

test-full: ## the tests in all other builds (clang, other processors, valgrind), and what must hold under the hooks
	@tools/setup run test full mutants hooks clients
	@tools/test full

test-hooks: ## what must hold under the hooks; the clients; python's own tests with the hooks loaded
	@tools/setup run test hooks clients
	@tools/test hooks

test-clients: ## client libraries (libpq, libcurl, hiredis...) in fibers under the hooks, against real servers
	@tools/setup run test clients
	@tools/test clients

test-mutants: ## break the library in known ways: every break must turn a test red
	@tools/setup run test mutants
	@tools/test mutants

stress: ## the tests under load, in the builds dev, asan, tsan and release-test; then faults that the random program must find
	@tools/setup run test mutants
	@tools/test stress

soak: ## ten minutes of connections that are closed, reset and cancelled at random; WEFT_SOAK_SECONDS=600
	@tools/setup run test
	@tools/test soak

fuzz: ## libFuzzer on the HTTP server's parsers and connections, each for FUZZ_SECONDS=1200; FUZZ="parse chunk" takes these
	@tools/setup run test
	@tools/fuzz $(FUZZ)

bench: ## measure: coroutines, fibers, tasks, connections, HTTP, timers, hooks; BENCH_ARGS="..." go to all seven programs
	@tools/setup run bench
	cmake --preset release && cmake --build --preset release
	status=0; for name in coro sched task net timer hook; do build/release/bench/bench-$$name $(BENCH_ARGS) || status=$$?; done; \
	build/release/bench/bench-http $(BENCH_HTTP_FEW) $(BENCH_ARGS) || status=$$?; exit $$status

# Of bench-http, what `make bench` takes; `make bench-http` takes all of it.
BENCH_HTTP_FEW := --only hello-100,hello-1000,pipe-100 --library weft-epoll,weft-uring,raw-epoll,nginx,h2o,go

bench-http: ## measure the HTTP server beside others; BENCH_ARGS=--judged takes only what has a limit
	@tools/setup run bench
	cmake --preset release && cmake --build --preset release --target bench-http
	build/release/bench/bench-http $(BENCH_ARGS)

install: ## install the release; PREFIX=/usr/local, DESTDIR= are honoured
	@tools/setup run
	cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" && cmake --build --preset release --target weft weft_static weft_hook weft_hook_object weft_http weft_http_static
	DESTDIR="$(DESTDIR)" cmake --install build/release

check: ## format, clang-tidy, cppcheck, shellcheck, layers, headers
	@tools/setup run test check
	@tools/check

clean: ## remove every build
	rm -rf build
