# What a person wants, grouped: make help.
SHELL      := /bin/bash
GO         ?= go
COMPOSE    ?= $(shell if docker compose version >/dev/null 2>&1; then echo docker compose; else echo docker-compose; fi)
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STRATEGY   ?= all
URL        ?= http://localhost:$(or $(STOCK_HTTP_PORT),8080)
SECONDS_FUZZ ?= 15
.DEFAULT_GOAL := help

##@ See it
.PHONY: demo
demo: deps build ## Start everything here, show the race and its fixes, stop it (DEPS=no installs nothing)
	bin/stock demo $(ARGS)

.PHONY: class
class: deps build ## Show it live to a class: a page for the projector (ARGS='--bind 192.168.1.20:8100' for phones; docs/class.md)
	bin/stock class $(ARGS)

.PHONY: class-bench
class-bench: ## Measure how the wall draws 2,000 events/s of 100 requests in headless Chromium
	CLASS_FRAMES=yes $(GO) test -count 1 -v -run '^TestFrames$$' ./lab/class

.PHONY: lab lab-quick lab-matrix
lab: build ## Reproduce every failure of the catalogue, check docs/failure-modes.json, write out/lab.html (15 minutes)
	@mkdir -p out
	bin/stock lab run --all --json out/lab.json --html out/lab.html $(ARGS)
	bin/stock lab matrix out/lab.json --check docs/failure-modes.json

lab-quick: build ## Reproduce one case of each failure that takes less than 10 s (3 minutes)
	@mkdir -p out
	bin/stock lab run --quick --json out/lab-quick.json
	bin/stock lab matrix out/lab-quick.json --check docs/failure-modes.json

lab-matrix: build ## Make docs/failure-modes.* anew from a run of the whole lab
	@mkdir -p out
	REQUIRE_BACKENDS=1 bin/stock lab run --all --json out/lab.json --html out/lab.html
	docs/refresh lab out/lab.json

.PHONY: lessons
lessons: ## Run every command of docs/lessons, and check that it does what the lesson says (minutes)
	REQUIRE_BACKENDS=1 $(GO) test -race -count 1 -parallel 3 -timeout 20m \
	  -run '^TestLessonsAsTyped$$' ./docs -type-lessons

##@ Run it in containers
.PHONY: up ha down loadtest logs compose-test
# MONITORING=1 adds deploy/monitoring. Grafana's image has no stand-in: without it, its profile is left out.
MONITORED = $(if $(MONITORING),COMPOSE_FILE=$${COMPOSE_FILE:-docker-compose.yml}:deploy/monitoring/docker-compose.yml)
up: build ## Start three instances behind nginx, with Redis, MariaDB and ZooKeeper, on http://localhost:8080 (MONITORING=1: with Prometheus and Grafana)
	$(MONITORED) deploy/images
	$(MONITORED) $(if $(MONITORING),COMPOSE_PROFILES="$$($(MONITORED) deploy/monitoring/profiles)") $(COMPOSE) up -d --no-build --remove-orphans
	@echo "Waiting for it, 60 s at most ..."
	@bin/stock healthcheck --url $(URL)/readyz --all --wait 60s && echo "It serves at $(URL). Now: make loadtest"
	$(if $(MONITORING),@$(MONITORED) deploy/monitoring/profiles addresses)

loadtest: build ## Compare all strategies on the running containers, write out/loadtest.html (STRATEGY=none,atomic to choose)
	@mkdir -p out
	STOCK_ADMIN_TOKEN=$${STOCK_ADMIN_TOKEN:-demo} bin/stock load --url $(URL) --strategies $(STRATEGY) \
	  -c 30 -n 1000 --stock 100 --html out/loadtest.html --json out/loadtest.json --history out/loadtest.jsonl $(ARGS)

logs: ## Follow the logs of the containers
	$(COMPOSE) logs -f --tail 50

WITH_HA = COMPOSE_FILE=docker-compose.yml:deploy/ha/docker-compose.yml
ha: ## The same, with servers that fail over: MariaDB behind HAProxy, Redis with Sentinels, ZooKeeper (make down ends it)
	$(WITH_HA) $(MAKE) --no-print-directory up

down: ## Stop the containers and remove their data
	$(WITH_HA):deploy/monitoring/docker-compose.yml COMPOSE_PROFILES=grafana $(COMPOSE) down -v --remove-orphans

compose-test: build ## Start the containers, load them, kill an instance under load, stop them (ARGS=--ha: of make ha; --monitoring)
	deploy/compose-test $(ARGS)

##@ Develop
.PHONY: build test verify test-busy bench-peers bench-http fuzz lint supply sbom fmt tidy deps clean
build: ## Build bin/stock
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/stock ./cmd/stock

# The locks are a module of their own, which ./... does not reach.
ALL       = ./... $(LOCK)
LOCK      = example.com/stock/lock/...
# Packages in which goroutines meet are tested with the race detector. make lint vets everything, and more strictly. On a
# busy computer a package may take ten times as long as on an idle one.
RACED     = ./app/... ./lab/... ./loadtest/... $(LOCK) ./orders/... ./repo/... ./service/...
GO_TEST   = $(GO) test -vet=off -timeout 40m
# A process under the race detector would sleep for a second before it ends: there are hundreds of them.
RACE_TEST = GORACE="$$GORACE atexit_sleep_ms=0" $(GO_TEST) -race -p 3
test: ## Run the tests on real servers, each once, without the long ones (REQUIRE_BACKENDS=1: a missing server is a failure)
	$(RACE_TEST) -short $(RACED)
	others=$$($(GO) list ./... | grep -vE '^[^/]+/stock/(app|lab|loadtest|lock|orders|repo|service)(/|$$)') && $(GO_TEST) -short -p 4 $$others
	cd tools && $(GO_TEST) -short ./...

verify: ## Run the rest, before an issue is called resolved: long tests, the whole lab, lessons, fail-over, soak, compositions (an hour)
	$(RACE_TEST) $(ALL)
	$(MAKE) new-test
	$(MAKE) failover ARGS=--short
	$(MAKE) lab lessons
	$(MAKE) soak FOR=45s SEED=5
	$(MAKE) compose-test ARGS=--ha
	$(MAKE) compose-test ARGS=--monitoring
	$(MAKE) new-compose-test
	cd orders/deploy && promtool test rules alerts_test.yml

test-busy: ## Run make test RUNS=3 times beside programs that take a core each (LOOPS=2), and list what failed
	.ci/busy "$(or $(LOOPS),$$(nproc))" "$(or $(RUNS),3)" $(MAKE) --no-print-directory test GO_TEST='$(GO_TEST) -count 1'

.PHONY: new-test new-compose-test
new-test: build ## Write an order service (stock new), lint it, test it
	internal/starter/try

new-compose-test: build ## Write an order service, start its containers, sell, kill an instance, stop them
	internal/starter/try compose

.PHONY: soak
soak: deps build ## Sell while servers and links fail at random, and judge the sales (FOR=10m SEED=7 to choose)
	bin/stock lab soak --for $(or $(FOR),10m) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: failover
failover: build ## Sell while every server fails over, and measure for how long nothing is sold (5 minutes; ARGS=--short)
	bin/stock lab failover $(ARGS)

bench-peers: ## Compare our locks with those of other libraries, in one run (about 25 minutes; see tools/bench/README.md)
	cd tools && $(GO) run ./bench $(ARGS)

bench-http: build ## Measure the endpoints side by side over HTTP (6 minutes; ARGS='--beside PROGRAM'; see tools/bench/README.md)
	cd tools && $(GO) run ./bench/http $(ARGS)

fuzz: ## Fuzz every parser for SECONDS_FUZZ seconds each
	@for target in $$(grep -rho --include='*_test.go' 'func Fuzz[A-Za-z0-9]*' . | cut -c6- | sort -u); do \
	  dir=$$(dirname "$$(grep -rl --include='*_test.go' "func $$target(" . | head -1)"); \
	  echo "$$dir $$target"; \
	  (cd "$$dir" && $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(SECONDS_FUZZ)s -fuzzminimizetime 20x .) || \
	    exit 1; \
	done

# A script is a file that begins with the shebang of a shell, or with the directive that tells shellcheck its shell. A
# template of one is checked as the service of one's own that it becomes (make new-test).
SCRIPTS = $(shell find . -type f -not -path './.git/*' -not -path './out/*' -not -path './bin/*' -not -name '*.tmpl' -exec awk \
  'FNR == 1 && (/^.!.*[\/ ](ba|da)?sh( |$$)/ || /^. shellcheck shell=/) { print FILENAME } { nextfile }' {} +)
lint: ## go vet and staticcheck (of tools, too), gofumpt, shellcheck, the width of lines, and whether go.mod is tidy
	$(GO) vet $(ALL)
	$(GO) tool staticcheck $$($(GO) list $(ALL) | grep -v /orders/api$$) # which is generated
	cd tools && $(GO) vet ./... && "$$(cd .. && $(GO) tool -n staticcheck)" ./...
	@bad=$$($(GO) tool gofumpt -l .); if [ -n "$$bad" ]; then echo "not formatted (make fmt):"; echo "$$bad"; exit 1; fi
	@if command -v shellcheck >/dev/null; then shellcheck -x $(SCRIPTS); \
	else echo "shellcheck is not installed: scripts are not checked (apt-get install shellcheck)"; fi
	@$(GO) test -count 1 -run '^TestLines$$' .
	$(GO) mod verify >/dev/null
	cd lock && $(GO) mod tidy -diff

supply: ## Look for known vulnerabilities (govulncheck) and dangerous code (gosec), with the tools of tools/supply
	tools/supply/check

sbom: ## Write out/sbom.json (CycloneDX): the modules that bin/stock contains, with versions and licences
	@mkdir -p out
	CGO_ENABLED=0 "$$(cd tools/supply && $(GO) tool -n cyclonedx-gomod)" app -json -licenses -std -main cmd/stock -output out/sbom.json .

fmt: ## Format the code
	$(GO) tool gofumpt -w .

tidy: ## Tidy go.mod, and those of the modules that use the same packages
	cd lock && $(GO) mod tidy
	$(GO) mod tidy
	cd tools && $(GO) mod tidy

deps: ## Install the servers of the demonstration and the tests (Debian, Ubuntu, as root; DEPS=no: only name them)
	@deploy/deps

clean: ## Remove what was built
	rm -rf bin out

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
