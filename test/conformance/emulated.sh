#!/bin/bash
# Puts a kubelet through the node suite on an emulated machine, whose first process is systemd. Reports and logs are in
# the folder results of its second disk when it is off.
#
# guest.conf sets SANDBOX_IMAGE, KUBELET (a program below bin), MIRROR (the URL of all registries), SERVER (that of the API server),
# TOKEN (what its clients present), ADDRESS and GATEWAY. The file options has those of ginkgo, one in a line.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
trap 'systemctl poweroff --force' EXIT
cd /berth
mkdir results
cp /proc/sys/kernel/osrelease results/
source guest.conf
source runtime.sh
source node.sh
source settings.sh
mapfile -t options <options

configure_network "$ADDRESS" "$GATEWAY"
echo 'nameserver 127.0.0.1' >/etc/resolv.conf # where no server is: lookups fail at once
find_registries_at "$MIRROR"
configure_runtime "$SANDBOX_IMAGE" 10.100.0.0/22 true
add_test_handler true
start_containerd

configure_kubelet systemd 10.100.0.0/22

# The suite writes into the folder of its program.
mkdir -p /opt/kubelet /opt/suite
ln -s "/berth/bin/$KUBELET" /opt/kubelet/kubelet
cd /opt/suite
touch e2e_node.test
mount --bind /berth/bin/conformance/e2e_node.test e2e_node.test
arguments=(
	--host="$SERVER" --bearer-token="$TOKEN" --k8s-bin-dir=/opt/kubelet --kubelet-config-file=/etc/kubelet.yaml
	--kubelet-flags=--runtime-cgroups=/system.slice/containerd.service --node-name="$(hostname)"
	--container-runtime-endpoint=unix:///run/containerd/containerd.sock --prepull-images=false --report-dir=/berth/results
	--server-start-timeout=5m
)
./e2e_node.test --run-kubelet-mode "${arguments[@]}" >/berth/results/start.log 2>&1 &
/berth/bin/conformance/ginkgo "${options[@]}" --output-dir=/berth/results --json-report=report.json --junit-report=junit.xml \
	./e2e_node.test -- "${arguments[@]}" --start-services=false --stop-services=false || true # what failed is in the report
journalctl --no-pager >/berth/results/journal.log
