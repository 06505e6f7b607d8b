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

ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
printf '127.0.0.1 localhost\n%s %s\n' "$ADDRESS" "$(hostname)" >/etc/hosts
echo 1 >/proc/sys/net/ipv4/ip_forward

mkdir -p /opt/cni /etc/kubernetes "/etc/containerd/certs.d/$REGISTRY" /etc/systemd/system/kubelet.service.d
ln -s /berth/bin/berth /usr/bin/kubelet
ln -s /berth/bin/kubeadm /usr/bin/kubeadm
ln -s /berth/bin/libexec/cni /opt/cni/bin
configure_runtime "$SANDBOX_IMAGE" "$POD_RANGE" true
cat >"/etc/containerd/certs.d/$REGISTRY/hosts.toml" <<-CONF
	[host."$REGISTRY_URL"]
	capabilities = ["pull", "resolve"]
CONF
cat >/etc/systemd/system/containerd.service <<-'UNIT'
	[Service]
	Type=notify
	Environment=PATH=/berth/bin/libexec:/usr/sbin:/usr/bin:/sbin:/bin
	ExecStart=/berth/bin/libexec/containerd
	KillMode=process
	Delegate=yes
UNIT
cp kubelet.service /etc/systemd/system/
cp 10-kubeadm.conf /etc/systemd/system/kubelet.service.d/
systemctl daemon-reload
systemctl enable --quiet kubelet
systemctl start containerd

stty -F /dev/ttyS1 raw -echo
exec 3</dev/ttyS1
echo ready
while read -r line <&3; do
	status=0
	bash -c "$(base64 -d <<<"$line")" </dev/null 2>&1 || status=$?
	printf '\nended %d\n' "$status"
done
