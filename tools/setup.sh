#!/usr/bin/env bash
# Makes sure that what berth is built and run with is there. Says nothing and
# changes nothing if it is; otherwise installs the missing Debian packages.
# With the word machine, also what emulates one for tests is needed; with the word conformance, what goes into the
# images of upstream's suite.
set -euo pipefail

# Plain users often lack the folders that ip and iptables live in.
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "${BASH_SOURCE[0]}")/.."
purpose=${1:-}

fail() {
	echo "setup: $*" >&2
	exit 1
}

missing=()

# need PACKAGE CHECK...: PACKAGE is missing if the check fails.
need() {
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header() {
	echo "#include <$1>" | gcc -E -
}

# is_static PROGRAM: it needs no library, which an image would have to have.
is_static() {
	! readelf --program-headers "$(type -P "$1")" | grep -q INTERP
}

check() {
	missing=()
	need gcc type gcc
	need libc6-dev has_header stdio.h
	need pkg-config type pkg-config
	need libseccomp-dev pkg-config --exists libseccomp
	need iptables type iptables
	need iproute2 type ip
	need mount type losetup
	need e2fsprogs type mkfs.ext4
	need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
	case $purpose in
	machine)
		need qemu-system-x86 type qemu-system-x86_64
		need debootstrap type debootstrap
		;;
	conformance)
		need busybox-static is_static busybox
		;;
	esac
}

check
if ((${#missing[@]})); then
	install="apt-get install --no-install-recommends ${missing[*]}"
	type apt-get >/dev/null 2>&1 || fail "missing: ${missing[*]} (names of Debian's packages); install their like and try again"
	((EUID == 0)) || fail "missing: ${missing[*]}; as root, run: $install"

	echo "setup: installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update
	apt-get -q install -y --no-install-recommends "${missing[@]}"
	check
	((${#missing[@]} == 0)) || fail "still missing after the installation: ${missing[*]}"
fi

# Go is not taken from Debian's packages, which are often too old. A Go from 1.21
# on fetches by itself the version that go.mod asks for.
type go >/dev/null 2>&1 || fail "missing: Go 1.26 or newer, on the PATH"
for module in . bundle; do
	go -C "$module" list -m >/dev/null || fail "Go is too old: $(go version); version 1.26 or newer is needed"
done
