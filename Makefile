# Everything a developer or a machine runs. `make help` lists it.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOL := go tool -modfile=tools/go.mod
# kgo built with this tag can run inside testing/synctest; tests that need it are tagged so, too.
TAGS := -tags synctests
# Where goroutines of ours meet, and so where the race detector earns its time.
RACED := ./framework/... ./state/... ./internal/restore/... ./devkafka/...
# Executions, not seconds: a fuzz run that ends by the clock now and then reports the end of its own time as a failure.
FUZZTIME ?= 50000x

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check
check: ## formatting, vet, staticcheck, the rules of ARCHITECTURE.md, tidy modules
	@out=$$($(TOOL) gofumpt -l .); if [ -n "$$out" ]; then echo "not in gofumpt's form; run: $(TOOL) gofumpt -w ."; echo "$$out"; exit 1; fi
	go vet ./...
	go vet $(TAGS) ./...
	go vet -tags 'synctests kafka' ./...
	go vet -tags failpoints ./framework ./internal/eos/...
	go vet -tags mutant_trust_no ./framework
	$(TOOL) staticcheck -tags 'synctests,kafka' ./...
	go test ./internal/archtest
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd bench && go mod tidy -diff && go vet ./... && go tool -modfile=../tools/go.mod staticcheck ./...

.PHONY: test
test: ## all tests, then again under the race detector where concurrency lives
	go test $(TAGS) ./...
	cd bench && go test ./...
	@if [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null; then \
		echo go test $(TAGS) -race $(RACED); \
		go test $(TAGS) -race $(RACED); \
	elif [ -n "$(RACE_REQUIRED)" ]; then \
		echo "the race detector needs cgo and a C compiler ($$(go env CC))"; exit 1; \
	else \
		echo "not run under the race detector: it needs cgo and a C compiler ($$(go env CC))"; \
	fi

.PHONY: test-kafka
test-kafka: ## integration tests on a real Apache Kafka; exits 2 without Java 17 and Maven
	scripts/test-kafka.sh

.PHONY: eos
eos: ## exactly-once on a real Apache Kafka under kills; PLAN=short, RECORDS=200000, SEED=0; exits 2 without Java 17 and Maven
	scripts/eos.sh

.PHONY: simulate
simulate: ## applications under schedules of faults in virtual time, one for each of SEEDS=10000, held to a batch; SEED=123 for one, in small if it differs
	go run ./internal/sim/run $(if $(SEED),-seed $(SEED),-seeds $(or $(SEEDS),10000))

.PHONY: simulate-runtime
simulate-runtime: ## whole apps under SCHEDULES=500 of faults in virtual time (RACE=1: 100, with -race); SEED=1 is the first; TRACE=file runs one that failed 50 times
	RACE=$(RACE) SCHEDULES=$(or $(SCHEDULES),$(if $(RACE),100,500)) scripts/simulate-runtime.sh

.PHONY: nightly
nightly: ## both simulations at length: 200,000 seeds, 5,000 schedules, and 1,000 with -race; hours
	$(MAKE) simulate SEEDS=200000
	$(MAKE) simulate-runtime SCHEDULES=5000
	$(MAKE) simulate-runtime SCHEDULES=1000 RACE=1

.PHONY: simulate-runtime-mutants
simulate-runtime-mutants: ## which planted bugs simulate-runtime finds in SCHEDULES=150
	SCHEDULES=$(or $(SCHEDULES),150) scripts/simulate-runtime.sh mutants

.PHONY: product
product: ## the reference app on a real Apache Kafka: feed, two processes, one killed, verify; exits 2 without Java 17 and Maven
	scripts/product.sh

.PHONY: image-check
image-check: ## build the image and run it read-only on a real Apache Kafka; exits 2 without a Docker engine, Java 17 and Maven
	scripts/image-check.sh

.PHONY: mutants
mutants: ## plant bugs in the library and see that the checkers of exactly-once, or the simulation, find each
	scripts/mutants.sh

.PHONY: demo
demo: ## the reference application on an embedded broker, which verifies itself
	go run ./cmd/sample-app demo

.PHONY: demo-mutants
demo-mutants: ## plant three faults in the demo and see that its checker finds each
	scripts/demo-mutants.sh

.PHONY: docs-check
docs-check: ## what the documents say: commands, programs and examples run, links lead somewhere, what is generated is fresh
	scripts/docs-check.sh

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (50000x: as many executions)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## beside a plain loop and Kafka Streams, against the targets: docs/performance.md; WORK=count RECORDS=300000 ROUNDS=1 for a quick look; exits 2 without a JDK 17 and Maven
	scripts/bench.sh -command 'make bench'

.PHONY: bench-full
bench-full: ## the same, and how cost grows with threads, keys, partitions, operators, tasks, instances; takes hours; GROWTH=keys,heap for some of it
	scripts/bench.sh -command 'make bench-full' -full -growth '$(GROWTH)'

.PHONY: bench-ops
bench-ops: ## micro-benchmarks of the hot paths: allocations as in bench/allocations.txt, none where ZeroAlloc is promised; UPDATE=1 writes the file
	scripts/bench-ops.sh

.PHONY: oracle
oracle: ## windowed counts and sums beside Kafka Streams' test driver, N=5000 random cases compared result for result; SEED=123 for one; exits 2 without a JDK 17 and Maven
	N='$(N)' SEED='$(SEED)' scripts/oracle.sh

.PHONY: profile
profile: ## CPU, allocation, block and mutex profiles of a run: WORK=count PEER=headrace-memory RECORDS=2000000; exits 2 without a JDK 17 and Maven
	scripts/profile.sh

# One after the other, cheapest first, each in its own make so that the log shows which one it was.
.PHONY: ci
ci: ## check, test (also untagged), build without cgo, simulate, simulate-runtime, bench-ops, oracle N=300, fuzz, demo, demo-mutants, docs-check, product, mutants, test-kafka, eos PLAN=short, a look at bench: what .ci/run runs
	$(MAKE) check
	$(MAKE) test RACE_REQUIRED=1
	go test ./...
	CGO_ENABLED=0 go build ./...
	$(MAKE) simulate SEEDS=3000
	$(MAKE) simulate-runtime SCHEDULES=150
	$(MAKE) bench-ops
	$(MAKE) oracle N=300
	$(MAKE) fuzz
	$(MAKE) demo
	$(MAKE) demo-mutants
	$(MAKE) docs-check
	$(MAKE) product
	$(MAKE) mutants
	$(MAKE) test-kafka
	$(MAKE) eos PLAN=short
	$(MAKE) bench WORK=count RECORDS=100000 ROUNDS=1
