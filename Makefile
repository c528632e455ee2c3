# `make` checks a change, and `make help` lists all targets. Go 1.26 is enough for test,
# lint, fuzz, bench and cross. The race targets need a C compiler. conformance, peers, clients
# and browser need npm, and browser also needs Chromium.

# On a tagged commit, the tag is the version. Otherwise, the program uses the version in its
# build info.
VERSION  ?= $(patsubst v%,%,$(shell git describe --tags --exact-match --dirty 2>/dev/null))
LDFLAGS  := -s -w -X github.com/dragoman-mcp/dragoman/internal/app/cli.release=$(VERSION)
TOOL     := go tool -modfile=$(CURDIR)/tools/go.mod
# These are separate modules, so that users do not download packages that only tests need.
NESTED   := test bench packaging
FUZZTIME ?= 10s
COUNT    ?= 6
CALLS    ?= 1000000
SOAK     ?= 10m
ATTACK   ?= 60
HERDS    := ^TestTC1[0-8](Seats)?$$
RACES    := -race -gcflags=modernc.org/sqlite/lib=-race=false
BENCH    ?= .
TARGETS  := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.DEFAULT_GOAL := check
.PHONY: check help build vet test lint race-short soak soak-signin same-ids attack fuzz bench bench-diff bench-compare bench-access bench-pages bench-cluster cluster-short cluster-test conformance peers house sweep search-recall search-clients clients clients-check issuers browser dashboard remote wine cross tidy release release-try release-check clean matrix matrix-check bin/matrix.md screenshots examples

check: build vet lint race-short ## check a change: build, vet, lint, short race tests

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/dragoman, static and reproducible
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/dragoman

vet: ## go vet in every module
	go vet ./...
	@for m in $(NESTED); do echo "go vet ./... in $$m"; (cd $$m && go vet ./...) || exit 1; done

# Under the race detector, tests that count allocations or read the whole tree skip themselves, so
# they run again without it. atexit_sleep_ms=0 removes the pause of one second before each process
# exits. The -timeout of a package is below the limit in .ci/run, so that a test that hangs prints
# its stacks. SQLite, which was C once, is built without the detector: instrumented, it takes four
# times as long, and tests beside it miss their deadlines. Only this one package, since it has no code
# that others share: from a package with generic code, the linker may take the copy that the detector
# can't see, and it then reports races that aren't there. The scripts of app/cli start the program
# 800 times, which under the detector takes longer than what they do.
test: ## every test, in every module; RACE=1: the main module under the race detector (needs a C compiler)
ifdef RACE
	GORACE="atexit_sleep_ms=0 $$GORACE" go test $(RACES) -skip '^TestScripts$$' -timeout 15m ./...
	go test -run '^TestScripts$$' -timeout 15m ./internal/app/cli
	go test -run 'Alloc|Tree|Rule|Docs|FindSecrets' ./internal/testkit/archtest ./internal/relay/calls ./internal/protocol/dialect ./internal/base/excerpt ./internal/relay/gateway ./internal/base/jsonrpc
else
	go test ./...
endif
	@for m in $(NESTED); do echo "go test ./... in $$m"; (cd $$m && go test ./...) || exit 1; done

# govulncheck is not included, because it needs the vulnerability database from the network.
# Without a network, the whole target would fail.
lint: ## gofmt and staticcheck; staticcheck.conf has the exceptions
	@unformatted=$$(gofmt -l $(wildcard */)); test -z "$$unformatted" || { echo "gofmt wants these:"; echo "$$unformatted"; exit 1; }
	$(TOOL) staticcheck ./...
	@for m in $(NESTED); do echo "staticcheck ./... in $$m"; (cd $$m && $(TOOL) staticcheck ./...) || exit 1; done

race-short:
	go test $(RACES) -short ./...

soak: ## 5,000 sessions of both eras that come, idle, call and go for an hour; ARGS=-time 10m
	cd bench && go run . soak $(ARGS)

soak-signin: ## three processes that share a sign-in, with 48 clients and tokens of a tenth of SOAK=10m, at most a minute
	DRAGOMAN_SOAK_SIGNIN=$(SOAK) go test -count=1 -timeout 0 -v -run 'TestSoakSignIn' ./internal/app/cli

same-ids: ## 64 clients with the same ids on one process, CALLS=1000000 times (test X05)
	DRAGOMAN_SOAK_CALLS=$(CALLS) go test -count=1 -timeout 30m -v -run 'TestX05_TM08_AllTheSameIDs' ./internal/app/daemon

attack: ## the attack tests of the filesystem server, longer: ATTACK=SECONDS
	DRAGOMAN_ATTACK=$(ATTACK) go test -race -count=1 -v -run 'Attack|Large' ./internal/server/files

# `go test -list` prints the names of the fuzz targets of a package, and then the package.
fuzz: ## each fuzz target for FUZZTIME=10s
	@mkdir -p bin && go test -list '^Fuzz' ./... > bin/fuzz.list || { cat bin/fuzz.list; exit 1; }
	@awk '/^Fuzz/ { names[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, names[i]; n = 0 }' bin/fuzz.list | \
	while read -r package name; do \
		echo "== $$package $$name for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x "$$package" </dev/null || exit 1; \
	done

bench: ## benchmarks, COUNT=6 times, into bin/bench.txt for benchstat
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./... | tee bin/bench.txt

bench-diff: ## compare two files from make bench: make bench-diff OLD=a.txt NEW=b.txt
	$(TOOL) benchstat $(OLD) $(NEW)

bench-compare: ## compare Dragoman with a plain proxy, and with the targets in bench/README.md; ARGS=-rounds 30
	cd bench && go run . $(ARGS)

bench-access: ## measure what API keys, tokens, sign-ins, rules, pins, the audit and the store cost; ARGS=-rounds 30
	go test ./internal/team/access ./internal/team/issuers ./internal/team/signin ./internal/relay/catalog ./internal/app/runtime -run '^$$' -bench 'Benchmark(Find|Remembered|Sign|People|Rules)$$' -benchmem
	cd bench && go run . -paths serve,keys,keyring,audited,guarded,listed,filtered,header,signedin -only load,house -sizes 256 -clients 16 -rounds 24 -time 300ms -starts 40 $(ARGS)

bench-pages: ## measure the pages of the console of a large team, with 50 open consoles
	go test ./internal/app/daemon -run '^$$' -bench 'BenchmarkConsole$$' -benchtime 30x

bench-cluster: ## measure what replicas cost, with a PostgreSQL (needs Debian's package, or installs it as root); ARGS=-rounds 30
	cd bench && ../.ci/postgres go run . cluster $(ARGS)

# A replica that hardly runs counts as dead to the others. So the tests that have replicas in processes
# of their own aren't in make test, where others keep the machine busy.
cluster-short: ## replicas that are killed and stopped under load, briefly, and behind HAProxy and nginx
	DRAGOMAN_CLUSTER_TEST=short .ci/postgres go test $(RACES) -count=1 -timeout 8m -run '$(HERDS)' -v ./internal/app/daemon
	cd test && ../.ci/postgres ../.ci/remote go test -count=1 ./cluster

cluster-test: export DRAGOMAN_CLUSTER_TEST = long
cluster-test: export DRAGOMAN_CLUSTER_SOAK = $(SOAK)
cluster-test: ## all tests of replicas, with PostgreSQL, HAProxy and nginx (unpacks Debian's packages), the matrix and the suite through a balancer, and SOAK=10m
	.ci/postgres go test -count=1 -timeout 30m -p 1 -run 'TestTC[0-9]' ./internal/app/daemon ./internal/team/cluster
	cd test && ../.ci/postgres ../.ci/remote go test -count=1 -timeout 60m -v ./cluster
	cd test && ../.ci/postgres go run ./conformance -only replicas

conformance: ## the official conformance suite (npm); ARGS=-direct, -only REGEXP, -v
	cd test && go run ./conformance $(ARGS)

peers: ## test servers from npm behind dragoman serve
	cd test && DRAGOMAN_PEERS=1 go test -count=1 -timeout 8m ./peers/...

# What a team decides about tools changes nothing of what works. The suite has legs with it in make conformance.
house: export DRAGOMAN_HOUSE = 1
house: ## the matrix, servers and clients from npm with an API key, 200 rules, pins and the audit
	cd test && go test -count=1 -timeout 8m -v ./house
	cd test && DRAGOMAN_PEERS=1 go test -count=1 -timeout 8m -run 'TestPeers$$' ./peers
	cd test && DRAGOMAN_CLIENTS=check go test -count=1 -timeout 8m -run 'TestClients$$' ./clients

sweep: ## about 100 servers from npm through both eras, and 60 behind one serve, each killed once (20 minutes); ARGS=-only REGEXP
	cd test && go run ./sweep $(ARGS)

search-recall: ## measure what search mode finds among the tools of 25 servers from npm, and the tokens of a task; ARGS=-misses
	cd test && go run ./sweep -recall $(ARGS)

search-clients: ## let Claude Code, Codex and SDKs find and call a tool among those 25 servers, with models that are scripts (npm, 3 GB)
	cd test && DRAGOMAN_CLIENTS=find go test -count=1 -timeout 30m -run TestClientsFindReal -v ./clients

# splice prints a document, with the text between two markers replaced by the content of a file.
splice = awk -v mark=$(1) -v part=$(2) '$$0 == "<!-- /" mark " -->" { skip = 0 } !skip { print } $$0 == "<!-- " mark " -->" { skip = 1; while ((getline line < part) > 0) print line }' $(3)

bin/matrix.md: build
	bin/dragoman matrix --markdown >bin/matrix.new
	@mv bin/matrix.new bin/matrix.md
	@$(call splice,matrix,bin/matrix.md,docs/compatibility.md) >bin/compatibility.md

matrix: bin/matrix.md ## measure which revisions work together; writes docs/compatibility.md
	@cp bin/compatibility.md docs/compatibility.md

matrix-check: bin/matrix.md ## like matrix, but fails if a cell fails or docs/compatibility.md differs
	@diff -u docs/compatibility.md bin/compatibility.md || { echo "the matrix is not what the documents say: if nothing got worse, run make matrix"; exit 1; }

examples: ## run the examples
	go test -count=1 -v -run TestExamples ./examples

clients: ## test clients from npm; writes their part of docs/compatibility.md
	cd test && DRAGOMAN_CLIENTS=update go test -count=1 -timeout 15m ./clients/...

clients-check: ## like clients, but fails if docs/compatibility.md differs
	cd test && DRAGOMAN_CLIENTS=check go test -count=1 -timeout 8m ./clients/...

issuers: ## sign in at authorization servers that others made (npm)
	cd test && DRAGOMAN_ISSUERS=1 go test -count=1 -timeout 8m ./issuers

# One part of it runs with PostgreSQL, too, if .ci/postgres runs this.
browser: ## test the console in Chromium (Debian: apt-get install chromium; npm)
	cd test && DRAGOMAN_BROWSER=1 go test -count=1 -timeout 24m ./browser/...

dashboard: ## draw docs/grafana.json with a real Prometheus (unpacks Debian's package if there is none)
	cd test && DRAGOMAN_DASHBOARD=1 ../.ci/prometheus go test -count=1 -timeout 8m -v ./dashboard

remote: ## reach serve through nginx, Caddy, HAProxy and ssh -L, as root (unpacks Debian's packages of what is not installed)
	cd test && ../.ci/remote go test -count=1 -timeout 8m -parallel 4 -v ./remote

# TempDir of package testing can't remove its folder in Wine 8, so most other packages would fail.
wine: ## test the program for Windows in Wine, as root (installs Debian's packages)
	GOOS=windows go test -count=1 -exec $(CURDIR)/.ci/wine -run 'Batch|Env|Exit|Stop|Job|Half|Endless|Stderr' ./internal/transport/stdio
	GOOS=windows go test -count=1 -exec $(CURDIR)/.ci/wine ./internal/base/failure ./internal/base/jsonrpc ./internal/base/servername ./internal/base/work ./internal/setup/intake
	cd test && DRAGOMAN_WINE=$(CURDIR)/.ci/wine go test -count=1 -timeout 8m -v ./wine

screenshots: ## make docs/pictures/console from serve --demo in Chromium; uses port 7300
	cd test && DRAGOMAN_BROWSER=screenshots go test -count=1 -timeout 8m -run TestConsole ./browser/...

peers-codex: ## test the real Codex (npm, 650 MB) with a local model endpoint
	cd test && DRAGOMAN_PEERS_CODEX=1 go test -count=1 -timeout 15m -v ./codex/...

cross: ## build and vet for every released platform
	@for t in $(TARGETS); do \
		echo "== $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 go build ./... || exit 1; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 go vet ./... || exit 1; \
	done

tidy: ## go mod tidy in every module
	go mod tidy
	@for m in $(NESTED) tools; do echo "go mod tidy in $$m"; (cd $$m && go mod tidy) || exit 1; done

release: ## build all release files for six platforms into dist/; needs npm; publishes nothing
	cd packaging && go run ./release $(if $(VERSION),-version '$(VERSION)')

# The second run has another umask, time zone and locale, which must not change the result.
# release-try also works without the date of the commit, which a real release needs.
release-try: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),1700000000)
release-try: ## like release, but for this platform and twice; compares the results and tests them
	@mkdir -p bin/try
	cd packaging && go build -o ../bin/release ./release
	cd packaging && ../bin/release -dist ../bin/try/one -platforms "$$(go env GOOS)/$$(go env GOARCH)"
	cd packaging && umask 077 && TZ=Asia/Tokyo LC_ALL=C ../bin/release -dist ../bin/try/two -platforms "$$(go env GOOS)/$$(go env GOARCH)"
	@diff bin/try/one/SHA256SUMS bin/try/two/SHA256SUMS || { echo "two releases of one commit differ"; exit 1; }
	cd packaging && DRAGOMAN_TRY=$(CURDIR)/bin/try/one go test -count=1 -timeout 6m -v ./try

release-check: ## check before a tag: clean, tidy, documented, reproducible
	@test -z "$$(git status --porcelain)" || { echo "the work tree is not clean"; exit 1; }
	go mod tidy -diff
	@for m in $(NESTED) tools; do echo "go mod tidy -diff in $$m"; (cd $$m && go mod tidy -diff) || exit 1; done
	@! ls changelog/unreleased/*.md | grep -v README.md || { echo "these entries are not in CHANGELOG.md yet"; exit 1; }
	@$(MAKE) --no-print-directory check cross release-try
	@mkdir -p bin/again
	@CGO_ENABLED=0 go build -a -trimpath -ldflags '$(LDFLAGS)' -o bin/again/ ./cmd/dragoman
	@cmp bin/dragoman bin/again/dragoman || { echo "two builds differ"; exit 1; }
	@rm -r bin/again
	@bin/dragoman version

clean: ## remove built files; the caches stay
	rm -rf bin dist
