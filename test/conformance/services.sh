#!/usr/bin/env bash
# The etcd and the API server of the node suite, for a kubelet on an emulated machine, which would be too slow for them. They write
# into folders that are gone when this process is: it is to be run in a mount namespace of its own.
#
#	services.sh SUITE TOKEN
#
# SUITE is the program of the suite. TOKEN is what its clients present.
set -euo pipefail

suite=$1 token=$2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run # for the API server's certificates
mkdir /run/work
touch /run/e2e_node.test
mount --bind "$suite" /run/e2e_node.test
mount -t tmpfs -o mode=1777 tmpfs /tmp
cd /run/work
exec /run/e2e_node.test --run-services-mode --bearer-token="$token"
