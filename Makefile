# Every target runs one command that a human could type. A fresh clone needs Go, make and git.
export GOTOOLCHAIN := local
# No C compiler is needed; and binaries, demo and tests share what is compiled once.
export CGO_ENABLED := 0

# A tag is a version, which the chart's configuration and the program have to have in common.
ifdef TAG
VERSION ?= $(TAG)
endif
VERSION ?= dev
# Functions start at multiples of 16 bytes instead of 32: programs are one percent smaller.
LDFLAGS := -s -w -funcalign=16 -X github.com/fleet-hub/fleet/internal/version.Version=$(VERSION)

# The images' names: $(REPO)/fleet:$(TAG) and $(REPO)/fleet-agent:$(TAG).
REPO ?= docker.io/fleethub
TAG ?= $(VERSION)
SOURCE_DATE_EPOCH ?= 0

# make lint vets everything; and what no debugger reads is linked in less time.
TESTFLAGS := -vet=off -ldflags='-s -w'

# Gomega polls every 10 ms unless told otherwise. Many of these polls list objects of an API server.
export GOMEGA_DEFAULT_EVENTUALLY_POLLING_INTERVAL := 50ms

# Another minor version of the control planes, one of dev/kubeversions: make e2e KUBERNETES=1.31
ifdef KUBERNETES
export FLEET_KUBERNETES := $(KUBERNETES)
endif

.DEFAULT_GOAL := help
.PHONY: help build images push demo demo-capi lab-up lab-down test test-unit update-golden rights race e2e e2e-nodes recovery walls bench generate verify lint measure clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/fleetcontroller, bin/fleetagent and bin/fleet, which kubectl finds as a plugin.
	@echo 'building (some minutes the first time)' >&2
	@go build -ldflags '$(LDFLAGS)' -o bin/fleetcontroller ./cmd/controller
	@go build -ldflags '$(LDFLAGS)' -o bin/fleetagent ./cmd/agent
	@go build -ldflags '$(LDFLAGS)' -o bin/fleet ./cmd/fleet
	@ln -sf fleet bin/kubectl-fleet && ln -sf fleet bin/kubectl_complete-fleet

images: ## Make the container images dist/fleet.tar and dist/fleet-agent.tar, for amd64 and arm64. REPO=… TAG=…
	@go run ./dev/images/cmd build --repo '$(REPO)' --tag '$(TAG)' --version '$(VERSION)' --source-date-epoch '$(SOURCE_DATE_EPOCH)'

push: images ## Push both, REPO=… TAG=…, to the registry in REPO, with what `docker login` has stored. INSECURE=1 allows plain HTTP.
	@go run ./dev/images/cmd push $(if $(INSECURE),--insecure) dist/fleet.tar dist/fleet-agent.tar

demo: build ## Start a hub and two clusters here, join them in three ways, deliver a workload. ONCE=1 ends after that.
	@go build -o bin/demo ./dev/demo
	@exec bin/demo --with-parent $(if $(ONCE),--once)

demo-capi: build ## Create two clusters with Cluster API here, which join by themselves; scale and delete. ONCE=1 ends after that.
	@go build -o bin/democapi ./dev/machines/demo
	@exec bin/democapi $(if $(ONCE),--once)

# The nodes of a lab, each a cluster.
NODES ?= hub east west

lab-up: ## Start clusters with real pods here, NODES="hub east west", with the images in dist/ if there are. Linux, root.
	@go build -o bin/lab ./dev/lab
	@bin/lab up $(NODES) $(foreach archive,$(wildcard dist/*.tar),--image $(archive))

lab-down: ## End them, and remove all of them.
	@go build -o bin/lab ./dev/lab
	@bin/lab down

# How many packages are tested at once. The processors are busy with as many packages as there are of them.
ATONCE ?= $(shell getconf _NPROCESSORS_ONLN)

# Tests write the controllers' requests into a folder: outside of the checkout, because Go does not cache the result of a test
# that has written a file in it. Each state of the checkout has a folder of its own, since Go's cache also has results of other
# states, and a new name is a new run of these tests.
RECORDED := bin/requests
STATE = $(shell { git rev-parse 'HEAD^{tree}'; git status --porcelain; git diff HEAD; } 2>/dev/null | git hash-object --stdin)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fleet-hub

test: ## Run every test but e2e/recovery: rules, controllers and user stories on real API servers.
	@go run ./dev/plane/prebuild
	@mkdir -p bin $(CACHE) && last=$$(cat $(RECORDED) 2>/dev/null); \
		case $$last in *.$(STATE)) [ -d "$$last" ];; *) false;; esac || { rm -rf "$$last"; mktemp -d $(CACHE)/requests.XXXXXX.$(STATE) >$(RECORDED); }
	@FLEET_AUDIT_DIR="$$(cat $(RECORDED))" \
		go tool -modfile=dev/tools/test/go.mod gotestsum --format pkgname --format-hide-empty-pkg -- $(TESTFLAGS) -p $(ATONCE) -timeout 40m $$(go list ./... | grep -v /e2e/recovery$$)
	@cd dev/alerts && go test $(TESTFLAGS) -count=1 ./... # reads files outside of its module, which Go's cache does not compare
	@cd dev/tools/growth && go test $(TESTFLAGS) ./...
	@$(MAKE) --no-print-directory rights

test-unit: ## Run the tests that need no control plane, with fewer random sequences than `make test`.
	@go test $(TESTFLAGS) -short $$(dev/packages.sh unit)

update-golden: ## Rewrite golden files and the tables that documents copy from the code. Read the difference before you commit.
	@go test $(TESTFLAGS) $$(dev/packages.sh golden) -update
	@go test $(TESTFLAGS) ./internal/metrics ./pkg/apis/fleet.cattle.io/v1alpha1/conditions -update-docs

rights: ## Compare the rights of the controllers with the requests that the last `make test` has recorded.
	@go test $(TESTFLAGS) -v -count=1 -run TestControllerRights_AreAllUsed ./charts -requests "$$(cat $(RECORDED))"

race: ## Run the tests of rules, controllers and agents under the race detector, and find changes of cached objects. Needs a C compiler; most of an hour.
	@go run ./dev/plane/prebuild
	@CGO_ENABLED=1 KUBE_CACHE_MUTATION_DETECTOR=true go test -race -timeout 40m ./internal/... ./pkg/...

e2e: ## Run the user stories only.
	@go run ./dev/plane/prebuild
	@go test $(TESTFLAGS) -v -timeout 20m ./e2e/...

e2e-nodes: ## Tell the user stories on real nodes: images, charts and pods. Linux, root. E2E_NODES_REQUIRED=1: or fail.
	@go run ./dev/plane/prebuild
	@go test $(TESTFLAGS) -v -count=1 -timeout 20m ./e2e/nodes -on-nodes -required=$(if $(filter 1,$(E2E_NODES_REQUIRED)),true,false)

recovery: ## Let agents lose everything that they can lose, and measure how they return. AGENTS=100 of them: eight minutes.
	@go run ./dev/plane/prebuild
	@go test $(TESTFLAGS) -v -count=1 -timeout 30m ./e2e/recovery -agents $(or $(AGENTS),24)

walls: ## Attack one tenant of a hub as another one, with N=20000 random sequences of requests. SEED=… repeats a run.
	@go run ./dev/plane/prebuild
	@go test $(TESTFLAGS) -v -count=1 -timeout 0 ./e2e/walls -sequences=$(or $(N),20000) $(if $(SEED),-seed=$(SEED))

# The drawing of how the cost of a registration grows. The one of ten thousand clusters belongs to the documents.
CURVE ?= $(if $(filter 10000,$(N)),docs/developing,bin)/growth.svg

bench: build ## Measure what clusters cost a hub, and an agent its cluster, as JSON: N=100 of them, or 10, 100 and 1000. See docs/developing/benchmarks.md.
	@go run ./dev/plane/prebuild
	@go build -o bin/bench ./e2e/bench
	@go build -C dev/tools/growth -o $(CURDIR)/bin/growth .
	@rm -f bin/growth.json
	@bin/bench -binaries bin -growth bin/growth.json $(if $(N),-n $(N)) $(BENCH)
	@[ ! -f bin/growth.json ] || { bin/growth -from bin/growth.json -to '$(CURVE)' && echo 'the growth curve: $(CURVE)' >&2; }

generate: ## Regenerate deepcopy functions, CRDs, docs/api.md and docs/cli.md.
	go generate ./...

verify: ## Fail if generated files, go.mod or the format of the code are not up to date.
	@./dev/verify.sh

lint: ## Run the linters.
	@./dev/lint.sh

measure: ## Print the size of each package, its largest knot of files, and the lengths of functions.
	@go run -C dev/tools/measure . -dir $(CURDIR)

clean: ## Remove what the targets above have built here.
	[ ! -s $(RECORDED) ] || rm -rf "$$(cat $(RECORDED))"
	rm -rf bin dist
