# berth: build, run and test. `make` alone lists what can be made.
#
# Nothing has to be prepared: what is missing is installed (from Debian's
# packages, as root) or fetched (Go modules) on the way.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # go builds in parallel by itself
.SUFFIXES:

# Where `make run` keeps its state.
ROOT ?= /var/lib/berth

# Where `make cluster` keeps its state, while it runs.
CLUSTER_ROOT ?= /tmp/berth-cluster

# This repository has more than one module on purpose, and no workspace.
export GOWORK := off

# Versions are stamped by us, so go need not ask git about them.
flags := -trimpath -buildvcs=false
lint  := go tool -modfile=tools/go.mod golangci-lint

## Everyday commands

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^## / { print "\n" substr($$0, 4) ":" } /^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: root build bin/images/hello.tar ## run the pods of examples/ in the foreground, as root (ROOT=/var/lib/berth)
	mkdir -p '$(ROOT)'/images
	cmp -s bin/images/hello.tar '$(ROOT)'/images/hello.tar || { \
		cp bin/images/hello.tar '$(ROOT)'/images/.hello.tar; \
		mv '$(ROOT)'/images/.hello.tar '$(ROOT)'/images/hello.tar; }
	exec bin/berth run --root-dir '$(ROOT)' --manifests examples

.PHONY: cluster
cluster: root build cluster-parts bin/images/hello.tar ## a Kubernetes cluster of two nodes to try out, in the foreground, as root
	go build -C test $(flags) -o ../bin/cluster/up ./lab/up
	exec bin/cluster/up -root '$(CLUSTER_ROOT)'

.PHONY: build
build: bin/berth libexec ## build bin/berth and its runtime in bin/libexec

.PHONY: deb
deb: build ## make Debian packages in bin/deb: berth, and berth-kubelet, which is the kubelet of a machine
	rm -rf bin/deb
	packaging/deb/build.sh bin bin/deb

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

## Tests and checks

.PHONY: test
test: root setup test-fast test-deb test-real test-cluster test-kubeadm conformance-quick test-machine ## all tests, as root

.PHONY: test-fast
test-fast: lint ## lint, and the tests that need neither root nor a container runtime
	go test -race ./...
	go test -C test -race ./...

.PHONY: test-deb
test-deb: setup ## the packages of the last commit are the same bytes when they are made twice
	packaging/deb/reproduce.sh

.PHONY: bench-flat
bench-flat: ## compare what a pod costs among 50 and among 500, in processor time, too
	go test -count=1 -run TestFlatTo500Pods -v ./internal/core/agent -flat.cpu

.PHONY: test-real
test-real: root setup build ## the tests on the real container runtime, as root
	go test -tags real -count=1 -p 1 -timeout 30m ./internal/runtime/bundle ./internal/pods/cgroup ./internal/pods/volume
	go test -C test -tags real -count=1 -p 1 -timeout 30m ./real/...

# Two folders at a time, and first those in which a test waits for minutes (for a token to be renewed,
# and without an API server) while the machine has little to do.
.PHONY: test-cluster
test-cluster: root setup build cluster-parts bin/images/hello.tar ## the tests in a real cluster, as root (its parts take minutes to build, once)
	go test -C $(kubernetes) -count=1 ./...
	go test -C test -tags real -count=1 -p 2 -timeout 30m ./cluster/intake ./cluster/cluster ./cluster/...

.PHONY: test-machine
test-machine: root setup build cluster-parts bin/machine/disk ## the tests on an emulated Debian with cgroup v2, as root (its disk takes minutes to make, once)
	go test -C test -tags real -count=1 -timeout 60m -v ./machine

.PHONY: test-kubeadm
test-kubeadm: root setup build cluster-parts bin/machine/disk ## kubeadm makes clusters of machines whose kubelet is berth, as root
	go test -C test -tags real -count=1 -timeout 30m -v ./kubeadm

# Upstream's own tests of a kubelet: the node suite, or that of a cluster (SUITE=cluster). FOCUS and SKIP are regular
# expressions on the texts of specs, PROCS is how many run at a time, KUBELET=upstream runs upstream's kubelet; with
# RECORD=1, what it passes becomes the yardstick.
SUITE   ?= node
PROCS   ?= 8
KUBELET ?= berth

conformance_run = go build -C test $(flags) -o ../bin/conformance/run ./conformance && \
	exec bin/conformance/run -suite '$(SUITE)' -kubelet '$(KUBELET)' -procs '$(PROCS)' -focus '$(FOCUS)' -skip '$(SKIP)' $(if $(RECORD),-record)

.PHONY: conformance
conformance: root build conformance-parts $(if $(filter cluster,$(SUITE)),cluster-parts bin/conformance/e2e.test) ## upstream's suites with berth as the kubelet, as root (SUITE=cluster, FOCUS=, SKIP=, PROCS=8, KUBELET=upstream)
	$(conformance_run)

.PHONY: conformance-quick
conformance-quick: override SUITE := node
conformance-quick: root build conformance-parts ## a selection of the node suite, in minutes
	$(conformance_run) -selection test/conformance/quick.txt

# An emulated machine is too slow for more specs, or for more of them at a time. FOCUS replaces the selection.
.PHONY: conformance-machine
conformance-machine: SUITE = emulated
conformance-machine: PROCS = 3
conformance-machine: root build conformance-parts bin/machine/disk ## another selection on an emulated Debian with systemd and cgroup v2, in a quarter of an hour
	$(conformance_run) -timeout 30m $(if $(FOCUS),,-selection test/conformance/emulated.txt)

.PHONY: lint
lint: ## check the code (.golangci.yml)
	$(lint) run ./...
	cd test && go tool -modfile=../tools/go.mod golangci-lint run ./...
	@dead=$$(go tool -modfile=tools/go.mod deadcode -filter '^berth/internal' ./cmd/... ./examples/...); \
	[[ -z $$dead ]] || { echo "no program needs these functions: remove them, or move them to the tests that call them"; echo "$$dead"; exit 1; }
	go mod tidy -diff
	go -C test mod tidy -diff
	cd packaging && go tool -modfile=../tools/go.mod golangci-lint run ./... && go mod tidy -diff

.PHONY: docs
docs: ## write the documents that are made from the code
	go test -count=1 ./internal/config/kubelet ./internal/telemetry/metrics ./internal/telemetry/event ./internal/pods/volume -run TestTheDocument -update

# The kubelet's own code prints them. To be run after Kubernetes was upgraded below test/lab/parts.
.PHONY: kubelet-facts
kubelet-facts:
	go run -C $(kubernetes) ./facts ../../../../$(facts)/cases.yaml >$(facts)/.upstream.json
	mv $(facts)/.upstream.json $(facts)/upstream.json
	go test -count=1 ./internal/config/features -run TestTheTable -update

.PHONY: fmt
fmt: ## format the code
	$(lint) fmt

.PHONY: setup
setup: ## install what is missing to build and run (done by the others as needed)
	@tools/setup.sh

.PHONY: root
root:
	@[[ $$EUID == 0 ]] || { echo "make $(MAKECMDGOALS) needs root, since it starts containers: sudo env PATH=\"\$$PATH\" make $(MAKECMDGOALS)" >&2; exit 1; }

# The agent.

sources := $(shell find cmd internal -type f ! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)

bin/berth: go.mod go.sum bin/version $(sources) | setup
	CGO_ENABLED=0 go build $(flags) -ldflags "-s -w -X main.version=$$(cat bin/version)" -o $@ ./cmd/berth

# The version of the tree. The file changes only when the version does.
bin/version: always
	@mkdir -p bin
	@version=$$(git describe --tags --always --dirty 2>/dev/null || echo dev); \
	[[ -f $@ && $$(<$@) == "$$version" ]] || echo "$$version" >$@

.PHONY: always
always:

# The bundled container runtime, as pinned in bundle/go.mod. The go command keeps
# what it has compiled, so only the first build ever takes a minute or two.

containerd := github.com/containerd/containerd/v2
runc       := github.com/opencontainers/runc
cni        := github.com/containernetworking/plugins

containerd_programs := $(addprefix bin/libexec/,containerd containerd-shim-runc-v2)
cni_packages        := $(addprefix $(cni)/plugins/,ipam/host-local main/bridge main/loopback meta/bandwidth meta/portmap)
cni_programs        := $(addprefix bin/libexec/cni/,$(notdir $(cni_packages)))
pinned              := bundle/go.mod bundle/go.sum Makefile

# The version of a module, as a command for the shell.
version_of = $$(go list -C bundle -m -f '{{.Version}}' $(1))

.PHONY: libexec
libexec: $(containerd_programs) bin/libexec/runc $(cni_programs) bin/libexec/pause

# The tags leave out snapshotters that berth never uses.
$(containerd_programs) &: $(pinned) | setup
	CGO_ENABLED=0 go build -C bundle $(flags) -tags "no_btrfs no_devmapper no_zfs" \
		-ldflags "-s -w -X $(containerd)/version.Version=$(call version_of,$(containerd))" \
		-o ../bin/libexec/ $(addprefix $(containerd)/cmd/,$(notdir $(containerd_programs)))
	@touch $(containerd_programs)

# Static, so that it also runs where libseccomp is not installed.
bin/libexec/runc: $(pinned) | setup
	CGO_ENABLED=1 go build -C bundle $(flags) -tags "seccomp netgo osusergo" \
		-ldflags "-s -w -linkmode external -extldflags -static" -o ../$@ $(runc)
	@touch $@

$(cni_programs) &: $(pinned) | setup
	CGO_ENABLED=0 go build -C bundle $(flags) \
		-ldflags "-s -w -X $(cni)/pkg/utils/buildversion.BuildVersion=$(call version_of,$(cni))" \
		-o ../bin/libexec/cni/ $(cni_packages)
	@touch $(cni_programs)

# Has no libc, and no use for what the compiler assumes of one.
bin/libexec/pause: bundle/pause/pause.c Makefile | setup
	@mkdir -p $(@D)
	gcc -std=c11 -Wall -Wextra -Werror -Os -ffreestanding -nostdlib -static -fno-pie -no-pie \
		-fno-stack-protector -fno-asynchronous-unwind-tables -s -Wl,--build-id=none -Wl,-z,noexecstack -o $@ $<

# The image of the examples.

bin/examples/hello: examples/hello/main.go go.mod | setup
	CGO_ENABLED=0 go build $(flags) -ldflags "-s -w" -o $@ ./examples/hello

bin/images/hello.tar: bin/examples/hello $(wildcard examples/mkimage/*.go internal/runtime/ociarchive/*.go)
	@mkdir -p $(@D)
	go run ./examples/mkimage -tag localhost/hello:1 -entrypoint /hello -o $@ /hello=$<

# A control plane for tests, kubectl and kubeadm, as pinned below test/lab/parts.

kubernetes          := test/lab/parts/kubernetes
facts               := internal/config/kubelet/testdata
etcd                := test/lab/parts/etcd
kubernetes_programs := $(addprefix bin/cluster/,kube-apiserver kube-controller-manager kube-scheduler kubectl kubeadm)

.PHONY: cluster-parts
cluster-parts: bin/cluster/etcd $(kubernetes_programs) ## build etcd, the Kubernetes control plane, kubectl and kubeadm in bin/cluster

# Sets the variable stamps to the linker's flags for the version of Kubernetes that a module pins: that of
# 'kubectl version', and that of the user agent in requests.
stamp = version=$$(go list -C $(1) -m -f '{{.Version}}' k8s.io/kubernetes); \
	IFS=v. read -r _ major minor _ <<<"$$version"; \
	stamps=; for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do \
		stamps+=" -X $$package.gitVersion=$$version -X $$package.gitMajor=$$major -X $$package.gitMinor=$$minor"; done

$(kubernetes_programs) &: $(kubernetes)/go.mod $(kubernetes)/go.sum Makefile | setup
	$(call stamp,$(kubernetes)); \
	CGO_ENABLED=0 go build -C $(kubernetes) $(flags) -ldflags "-s -w $$stamps" \
		-o '$(CURDIR)/bin/cluster/' $(addprefix k8s.io/kubernetes/cmd/,$(notdir $(kubernetes_programs)))
	@touch $(kubernetes_programs)

bin/cluster/etcd: $(etcd)/go.mod $(etcd)/go.sum Makefile | setup
	CGO_ENABLED=0 go build -C $(etcd) $(flags) -ldflags "-s -w" -o '$(CURDIR)/$@' go.etcd.io/etcd/server/v3
	@touch $@

# The suites of Kubernetes with all that they need, as pinned in test/conformance/suite.

suite          := test/conformance/suite
suite_programs := $(addprefix bin/conformance/,e2e_node.test ginkgo upstream/kubelet images/agnhost images/nonewprivs)

.PHONY: conformance-parts
conformance-parts: $(suite_programs) bin/conformance/images/utilities ## build upstream's node suite, its images and its kubelet in bin/conformance
	tools/setup.sh conformance

$(suite_programs) &: $(suite)/go.mod $(suite)/go.sum Makefile | setup
	mkdir -p bin/conformance/images
	$(call stamp,$(suite)); export CGO_ENABLED=0; \
	build() { go build -C $(suite) $(flags) -ldflags "-s -w $$stamps" -o "$(CURDIR)/bin/conformance/$$1" "$$2"; }; \
	go test -C $(suite) -c $(flags) -ldflags "-s -w $$stamps" -o '$(CURDIR)/bin/conformance/e2e_node.test' k8s.io/kubernetes/test/e2e_node; \
	build ginkgo github.com/onsi/ginkgo/v2/ginkgo; \
	build upstream/kubelet k8s.io/kubernetes/cmd/kubelet; \
	build images/agnhost k8s.io/kubernetes/test/images/agnhost; \
	build images/nonewprivs k8s.io/kubernetes/test/images/nonewprivs
	install -m 644 -t bin/conformance/images "$$(go list -C $(suite) -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.{crt,key}
	@touch $(suite_programs)

bin/conformance/e2e.test: $(suite)/go.mod $(suite)/go.sum Makefile | setup
	$(call stamp,$(suite)); CGO_ENABLED=0 go test -C $(suite) -c $(flags) -ldflags "-s -w $$stamps" -o '$(CURDIR)/$@' k8s.io/kubernetes/test/e2e
	@touch $@

bin/conformance/images/utilities: test/conformance/utilities/main.go | setup
	CGO_ENABLED=0 go build -C test $(flags) -ldflags "-s -w" -o ../$@ ./conformance/utilities

# The disk of a machine for tests.

bin/machine/disk: test/machine/image.sh | setup
	tools/setup.sh machine
	test/machine/image.sh bin/machine
