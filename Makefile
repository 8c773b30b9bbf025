# fanfare. `make` alone lists what there is.

# Versions of tools are pinned, so that a run today and in a year say the same.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# ARGS goes to `go test` or to the benchmark: make test ARGS='-run TestShare'
ARGS ?=

# Which packages have the race detector in make test: "all", or, if it is empty, some of them (.ci/test.sh).
RACE ?=

# How long `make soak` takes, and whose faults it repeats.
MINUTES ?= 5
SEED ?=

# The tests of faults that last or come in pairs, of wrong clocks, and those that measure,
# which need the machine for themselves and no race detector.
FAULTS = ^Test(AMasterAndItsReplicaStayAway|WritesAreBackWithTheReplica|SQLOrAPNsStaysAway|AFullRedisDrainsWhenAPNsHeals|FaultsOfLinks|P4_NothingReachesADeviceThatWasTaken)$$
CLOCKS = ^TestClocksThatAreWrong$$
CAPACITY = ^Test(Q5_NoLostWakeUp|BacklogDrains|OneUserEventDuringAFanOut|W17_AMixedAudienceWhileFCMHangs|W17_AnAppThatHangsDelaysNoOther|RedisNearMaxmemory|HostileClients|IdleStreamsMemory|MemoryOfAOneDeviceEvent)$$
COMPILED = . .ci/compile.sh && export

.DEFAULT_GOAL := help
.PHONY: help build release image quick test full capacity engines clocks faults faults-short soak fuzz bench bench-growth bench-against lint size openapi chart clients

# What `fanfare version` and fanfare_build_info say.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILD = CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X fanfare/app.buildVersion=$(VERSION)"

# Where and for what `make release` builds, and the name of the image that `make image` pushes.
DIST ?= dist
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
IMAGE ?= fanfare

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build ./fanfare
	$(BUILD) -o fanfare .

release: ## build static binaries for Linux and macOS into dist/, each with what it is made of (CycloneDX), and their sums
	rm -rf $(DIST) && mkdir -p $(DIST)
	set -e; for p in $(PLATFORMS); do \
		name=$(DIST)/fanfare-$(VERSION)-$${p%/*}-$${p#*/}; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(BUILD) -o $$name .; \
		go run $(CYCLONEDX) bin -json -noserial -version $(VERSION) -output $$name.cdx.json $$name; \
	done
	cd $(DIST) && { sha256sum fanfare-* 2>/dev/null || shasum -a 256 fanfare-*; } >SHA256SUMS

image: ## build the image for amd64 and arm64 with its SBOM and provenance, and push it as IMAGE:VERSION, and print its digest (needs docker buildx)
	mkdir -p $(DIST)
	docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=$(VERSION) --sbom=true --provenance=mode=max \
		--tag $(IMAGE):$(VERSION) --metadata-file $(DIST)/image.json --push .
	@echo "$(IMAGE)@$$(sed -n 's/.*"containerimage.digest": *"\([^"]*\)".*/\1/p' $(DIST)/image.json)"

quick: ## vet and test what needs no server, without the race detector, in a minute
	go vet ./...
	go test -short -vet=off -p 4 ./... $(ARGS)

test: ## vet and test everything on private servers (installs what is missing); RACE=all: all of it with the race detector
	RACE=$(RACE) ./.ci/test.sh -skip '$(CAPACITY)' $(ARGS)

full: ## what make test tries with smaller numbers, at full size (an hour)
	FANFARE_TEST_FULL=1 RACE=all ./.ci/test.sh -timeout 2h -skip '$(FAULTS)|$(CLOCKS)' $(ARGS)

capacity: ## measure memory, backlogs, hostile clients and how soon a job starts (a minute or two)
	. .ci/compile.sh && go test -count=1 -p 1 -parallel 1 -run '$(CAPACITY)' ./store/queue ./delivery/targeting ./e2e $(ARGS)

engines: ## try other servers that speak Redis' protocol, which ENGINES names (valkey-server), if they can be had
	./.ci/engines.sh

clocks: ## try servers whose clocks are wrong, which compiles everything anew (minutes)
	$(COMPILED) FANFARE_TEST_FAULTS=short && go test -race -count=1 -run '$(CLOCKS)' ./e2e $(ARGS)

soak: ## mixed traffic and random faults for MINUTES (5), on one Redis and beside it on a Cluster, then a check that nothing was lost or sent twice; SEED=n repeats the faults
	FANFARE_SOAK=$(MINUTES)m FANFARE_SOAK_SEED=$(SEED) FANFARE_SOAK_RESULTS=$(CURDIR)/bench/RESULTS.md \
		go test -count=1 -timeout 0 -parallel 2 -v -run '^TestSoak(OnACluster)?$$' ./e2e $(ARGS)

faults: ## try faults that last, and all that come in pairs, at full length (an hour)
	$(COMPILED) FANFARE_TEST_FULL=1 && go test -race -count=1 -timeout 2h -run '$(FAULTS)' ./e2e $(ARGS)

faults-short: ## the same for as long as leases and deadlines take, and some of the pairs (minutes)
	$(COMPILED) FANFARE_TEST_FAULTS=short && go test -race -count=1 -timeout 30m -run '$(FAULTS)' ./e2e $(ARGS)

fuzz: ## let the fuzz tests look for new cases, FUZZTIME (20000x) each
	./.ci/fuzz.sh $(ARGS)

bench: ## measure, print goals and verdicts, write bench/RESULTS.md (about 25 minutes)
	go run ./bench $(ARGS)

bench-growth: ## measure how cost grows, into the same file, 3 rounds (half an hour)
	go run ./bench -growth -rounds 3 $(ARGS)

bench-against: ## compare with a revision in turns: REV=main ARGS='push latency' or ARGS='-profile one'
	@test -n "$(REV)" || { echo "name the revision: make bench-against REV=main ARGS='push'"; exit 1; }
	go run ./bench -against $(REV) $(ARGS)

lint: ## run the linters
	go run $(GOLANGCI) run ./...

size: ## count lines of code: server, Lua, tests, and what stands beside them
	./.ci/size.sh

openapi: ## generate the OpenAPI document anew
	go generate ./openapi

chart: ## render the chart for Helm, and compare it with the base for kustomize
	cd deploy/charttest && go vet ./... && go test -count=1 ./...

clients: ## check the OpenAPI document, try clients that are made of it, and test those in clients (needs npm)
	./.ci/clients.sh
