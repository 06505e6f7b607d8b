#!/usr/bin/env bash
# The first process of the machine on which a conformance suite runs: namespaces of this machine, whose folders for
# a node's files are empty and its own. All of it is gone once this process is.
#
#	machine.sh enter NAME BIN RESULTS ADDRESS SANDBOX_IMAGE KUBELET [OPTION-OF-GINKGO...]
#
# BIN is the folder of what make builds, RESULTS that of reports and logs. The command containerd runs while RESULTS/images
# is waited for, which says that it has the images; then KUBELET, a program below BIN, is put through the suite.
set -euo pipefail

# shellcheck source=../kubeadm/runtime.sh
source "${BASH_SOURCE[0]%/*}/../kubeadm/runtime.sh"

step=$1 name=$2 bin=$3 results=$4 address=$5 sandbox=$6 kubelet=$7

# The machine is below a cgroup of its own in each hierarchy, and sees that as the root.
if [[ $step == enter ]]; then
	for cgroup in /sys/fs/cgroup/*/"$name"; do
		echo $$ >"$cgroup/cgroup.procs"
	done
	exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child --mount-proc "$0" run "${@:2}"
fi
shift 7

# What is mounted later in here (volumes, sandboxes) is seen by all of this machine, and by no other.
mount --make-rshared /
hostname "$name"
echo 1 >/proc/sys/net/ipv4/ip_forward # of this network namespace

umount --recursive /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
while IFS=: read -r _ controllers _; do
	folder=/sys/fs/cgroup/${controllers#name=}
	[[ -n $controllers ]] || continue # cgroup v2, which has no controllers beside v1
	mkdir "$folder"
	mount -t cgroup -o "$controllers" cgroup "$folder"
done </proc/self/cgroup

# What make built may be in a folder that is covered below.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/bin /run/results /run/lock
mount --bind "$bin" /run/bin
mount --bind "$results" /run/results

cp -a /etc /run/etc
mount --bind /run/etc /etc
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >/etc/hosts
echo 'nameserver 127.0.0.1' >/etc/resolv.conf # where no server is: lookups fail at once
for folder in /opt /var/lib /var/log /tmp; do
	mount -t tmpfs -o size=8g,mode=755 tmpfs "$folder"
done
chmod 1777 /tmp
mkdir -p /opt/kubelet /opt/suite /opt/cni /etc/containerd/certs.d/_default

# Where they are, the suite asks systemd to start the kubelet, and the journal for logs.
for program in systemd-run journalctl; do
	! file=$(type -P "$program") || mount --bind /dev/null "$file"
done

export PATH=/run/bin/libexec:$PATH
ln -s /run/bin/libexec/cni /opt/cni/bin
ln -s "/run/bin/$kubelet" /opt/kubelet/kubelet

# All registries are found on loopback.
cat >/etc/containerd/certs.d/_default/hosts.toml <<CONF
[host."http://127.0.0.1:5000"]
capabilities = ["pull", "resolve"]
CONF

configure_runtime "$sandbox" 10.100.0.0/22 false
cat >>/etc/containerd/config.toml <<CONF

# A handler that RuntimeClasses of the specs name.
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler]
runtime_type = "io.containerd.runc.v2"
CONF
containerd --config /etc/containerd/config.toml >/run/results/containerd.log 2>&1 &

# As the suite's own, and with what this machine needs.
cat >/etc/kubelet.yaml <<CONF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
podCIDR: 10.100.0.0/22
volumeStatsAggPeriod: 10s
fileCheckFrequency: 10s
evictionPressureTransitionPeriod: 30s
evictionHard: {memory.available: 250Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}
evictionMinimumReclaim: {nodefs.available: 5%, nodefs.inodesFree: 5%}
serializeImagePulls: false
failCgroupV1: false
failSwapOn: false
CONF

until [[ -e /run/results/images ]]; do sleep 0.2; done

# The suite writes into the folder of its program.
cd /opt/suite
touch e2e_node.test
mount --bind /run/bin/conformance/e2e_node.test e2e_node.test
/run/bin/conformance/ginkgo "$@" --output-dir=/run/results --json-report=report.json --junit-report=junit.xml ./e2e_node.test -- \
	--k8s-bin-dir=/opt/kubelet --kubelet-config-file=/etc/kubelet.yaml --node-name="$name" \
	--container-runtime-endpoint=unix:///run/containerd/containerd.sock --prepull-images=false --report-dir=/run/results
