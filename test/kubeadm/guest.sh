#!/bin/bash
# Makes a node for kubeadm of an emulated machine, whose first process is systemd: containerd and the kubelet, which is berth by
# a link, are services. Then the machine runs the commands that come over its second serial line, each as a line
# of base64, and prints what came of it: see guest_test.go.
#
# The settings are SANDBOX_IMAGE, POD_RANGE, REGISTRY (as images name it), REGISTRY_URL, ADDRESS and GATEWAY.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
cd /berth
source settings
source runtime.sh
source node.sh

configure_network "$ADDRESS" "$GATEWAY"

mkdir -p /etc/kubernetes "/etc/containerd/certs.d/$REGISTRY" /etc/systemd/system/kubelet.service.d
ln -s /berth/bin/berth /usr/bin/kubelet
ln -s /berth/bin/kubeadm /usr/bin/kubeadm
configure_runtime "$SANDBOX_IMAGE" "$POD_RANGE" true
cat >"/etc/containerd/certs.d/$REGISTRY/hosts.toml" <<-CONF
	[host."$REGISTRY_URL"]
	capabilities = ["pull", "resolve"]
CONF
cp kubelet.service /etc/systemd/system/
cp 10-kubeadm.conf /etc/systemd/system/kubelet.service.d/
start_containerd
systemctl enable --quiet kubelet

stty -F /dev/ttyS1 raw -echo
exec 3</dev/ttyS1
echo ready
while read -r line <&3; do
	status=0
	bash -c "$(base64 -d <<<"$line")" </dev/null 2>&1 || status=$?
	printf '\nended %d\n' "$status"
done
