#!/usr/bin/env bash
# Makes the packages berth and berth-kubelet of what is built in BIN, in the folder OUT. The same
# sources make the same bytes: the time of all files is that of the last commit.
set -euo pipefail
bin=$(realpath "${1:?usage: build.sh BIN OUT [VERSION]}")
out=$(realpath -m "${2:?usage: build.sh BIN OUT [VERSION]}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=${3:-$(packaging/deb/version.sh)}

export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)} # sources without history have no time
arch=$(dpkg --print-architecture)
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubelet) # v0.36.3 is of v1.36.3
kubernetes=1${kubernetes#v0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$out"

# add_berth TREE: the program, with what is made from it.
add_berth() {
	local tree=$1 doc=$1/usr/share/doc/$(basename "$1")
	mkdir -p "$tree"/usr/{bin,lib/berth,lib/systemd/system} "$tree"/usr/share/man/man1 "$doc"/sbom \
		"$tree"/usr/share/{bash-completion/completions,fish/vendor_completions.d,zsh/vendor-completions}
	cp "$bin"/berth "$tree"/usr/lib/berth
	ln -s ../lib/berth/berth "$tree"/usr/bin/berth
	cp LICENSE "$doc"/copyright
	go run -C packaging ./man -version "$version" -o "$tree"/usr/share/man/man1
	gzip -9n "$tree"/usr/share/man/man1/*
	"$bin"/berth completion bash >"$tree"/usr/share/bash-completion/completions/berth
	"$bin"/berth completion fish >"$tree"/usr/share/fish/vendor_completions.d/berth.fish
	"$bin"/berth completion zsh >"$tree"/usr/share/zsh/vendor-completions/_berth
	"$work"/sbom -version "$version" -o "$doc"/sbom/berth.cdx.json "$bin"/berth
}

go build -C packaging -o "$work"/sbom ./sbom

# berth by its own name, with its container runtime.
tree=$work/berth
add_berth "$tree"
cp -r "$bin"/libexec "$tree"/usr/lib/berth
for program in "$bin"/libexec/{containerd,containerd-shim-runc-v2,runc} "$bin"/libexec/cni/*; do
	"$work"/sbom -o "$tree/usr/share/doc/berth/sbom/$(basename "$program").cdx.json" "$program"
done
mkdir -p "$tree"/etc/{berth/manifests,default}
cp packaging/config.yaml "$tree"/etc/berth
cp packaging/berth.default "$tree"/etc/default/berth
cp packaging/berth.service "$tree"/usr/lib/systemd/system

# The kubelet of a machine that has a container runtime.
tree=$work/berth-kubelet
add_berth "$tree"
mkdir -p "$tree"/usr/lib/systemd/system/kubelet.service.d "$tree"/etc/kubernetes/manifests
ln -s ../lib/berth/berth "$tree"/usr/bin/kubelet
cp packaging/kubelet.service "$tree"/usr/lib/systemd/system
cp packaging/10-kubeadm.conf "$tree"/usr/lib/systemd/system/kubelet.service.d

for package in berth berth-kubelet; do
	tree=$work/$package
	size=$(find "$tree" -type f -printf '%s\n' | awk '{ all += int(($1 + 1023) / 1024) } END { print all }')
	mkdir "$tree"/DEBIAN
	cp packaging/deb/$package/* "$tree"/DEBIAN
	sed -i "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/; s/@KUBERNETES@/$kubernetes/" "$tree"/DEBIAN/control
	find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zzstd --build "$tree" "$out/${package}_${version}_$arch.deb"
done
