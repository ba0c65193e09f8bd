# The short names for what people do here. The work is in the CMake presets (CMakePresets.json) and in tools/.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Tests wait more than they compute.
export CTEST_PARALLEL_LEVEL := $(shell echo $$(($(JOBS) * 3 / 2)))

.NOTPARALLEL:
.PHONY: help run test test-full test-hooks test-clients test-browser test-mutants stress soak soak-http fuzz bench bench-http bench-http-slow install check clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /make \1\t/p' Makefile | expand -t 24

EXAMPLES := $(sort $(basename $(notdir $(wildcard examples/*.c))) notes show)

run: ## a web server on a sample site, under load for ten seconds; EXAMPLE=hello, chat, ... runs an example; ARGS="..."
	@$(if $(filter $(EXAMPLE),$(EXAMPLES)),,$(if $(EXAMPLE),echo "make run: there is no example $(EXAMPLE); there are: $(EXAMPLES)" >&2; exit 1))
	@tools/setup run $(filter notes,$(EXAMPLE))
	cmake --preset release && cmake --build --preset release --target $(or $(EXAMPLE:%=example-%),weft_tool example-first-run)
	$(if $(EXAMPLE),build/release/examples/$(EXAMPLE),$(FIRST_RUN)) $(ARGS)

# What `make run` runs without an example: the command, and the site that it serves.
FIRST_RUN = build/release/examples/first-run build/release/tools/weft/weft examples/site

test: ## the tests in the builds dev, asan and tsan; outside programs; layers and headers
	@tools/setup run notes test
	@tools/test quick

test-full: ## the tests in all other builds (clang, other processors, valgrind), and what must hold under the hooks
	@tools/setup run notes test full mutants hooks clients browser http
	@tools/test full

test-hooks: ## what must hold under the hooks; the clients; python's own tests with the hooks loaded
	@tools/setup run notes test hooks clients
	@tools/test hooks

test-clients: ## client libraries (libpq, libcurl, hiredis...) in fibers under the hooks, against real servers
	@tools/setup run notes test clients
	@tools/test clients

test-browser: ## the sample site and the live page of weft serve, in chromium
	@tools/setup run test browser
	@tools/test browser

test-mutants: ## break the library in known ways: every break must turn a test red
	@tools/setup run test mutants
	@tools/test mutants

stress: ## the tests under load, in the builds dev, asan, tsan and release-test; then faults that the random program must find
	@tools/setup run test mutants
	@tools/test stress

soak: ## ten minutes of connections that are closed, reset and cancelled at random; WEFT_SOAK_SECONDS=600
	@tools/setup run test
	@tools/test soak

soak-http: ## twenty minutes of a web server whose clients break off at random; WEFT_SOAK_SECONDS=1200
	@tools/setup run test
	@tools/test soak-http

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

bench-http-slow: ## the HTTP server's rate and memory beside 5,000 slow clients; BENCH_ARGS="--library weft-epoll 3 7"
	@tools/setup run bench
	cmake --preset release && cmake --build --preset release --target bench-http
	build/release/bench/bench-http-slow $(BENCH_ARGS)

install: ## install the release; PREFIX=/usr/local, DESTDIR= are honoured
	@tools/setup run
	cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" && cmake --build --preset release --target weft weft_static weft_hook weft_hook_object weft_http weft_http_static weft_tool
	DESTDIR="$(DESTDIR)" cmake --install build/release

check: ## format, clang-tidy, cppcheck, shellcheck, layers, headers
	@tools/setup run notes test check
	@tools/check

clean: ## remove every build
	rm -rf build
