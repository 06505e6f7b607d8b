#!/usr/bin/env bash
# The first process of the machine on which a conformance suite runs: namespaces of this machine, whose folders for
# a node's files are empty and its own. All of it is gone once this process is.
#
#	machine.sh enter NAME BIN RESULTS ADDRESS POD_RANGE SANDBOX_IMAGE KUBELET JOB [OPTION-OF-GINKGO...]
#
# BIN is the folder of what make builds, RESULTS that of reports and logs. The command containerd runs while RESULTS/images
# is waited for, which says that it has the images. What follows is the JOB, with KUBELET, a program below BIN:
#
#	node-suite     the node suite, which starts the kubelet itself
#	cluster-node   the kubelet joins a cluster, by RESULTS/kubelet.conf
#	cluster-suite  the same, and once RESULTS/nodes is there, the cluster suite runs on this machine, by RESULTS/admin.conf
set -euo pipefail

# shellcheck source=../kubeadm/runtime.sh
source "${BASH_SOURCE[0]%/*}/../kubeadm/runtime.sh"
# shellcheck source=settings.sh
source "${BASH_SOURCE[0]%/*}/settings.sh"

step=$1 name=$2 bin=$3 results=$4 address=$5 pods=$6 sandbox=$7 kubelet=$8 job=$9

# The machine is below a cgroup of its own in each hierarchy, and sees that as the root.
if [[ $step == enter ]]; then
	for cgroup in /sys/fs/cgroup/*/"$name"; do
		echo $$ >"$cgroup/cgroup.procs"
	done
	exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child --mount-proc "$0" run "${@:2}"
fi
shift 9

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
mkdir -p /opt/kubelet /opt/suite /opt/cni /etc/containerd

# Where they are, the suite asks systemd to start the kubelet, and the journal for logs.
for program in systemd-run journalctl; do
	! file=$(type -P "$program") || mount --bind /dev/null "$file"
done

export PATH=/run/bin/libexec:$PATH
ln -s /run/bin/libexec/cni /opt/cni/bin
ln -s "/run/bin/$kubelet" /opt/kubelet/kubelet

find_registries_at http://127.0.0.1:5000
configure_runtime "$sandbox" "$pods" false
add_test_handler false
containerd --config /etc/containerd/config.toml >/run/results/containerd.log 2>&1 &

configure_kubelet cgroupfs "$pods"
cat >>/etc/kubelet.yaml <<CONF
failCgroupV1: false
failSwapOn: false
CONF

# await FILE waits for a file of the results.
await() { until [[ -e /run/results/$1 ]]; do sleep 0.2; done; }

# run_kubelet joins the cluster as the node that the last part of NAME is the name of. No DNS server is at the address.
run_kubelet() {
	cat >>/etc/kubelet.yaml <<-CONF
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: {x509: {clientCAFile: /run/results/clients.crt}}
		clusterDNS: [10.96.0.10]
		clusterDomain: cluster.local
	CONF
	/opt/kubelet/kubelet --kubeconfig=/run/results/kubelet.conf --config=/etc/kubelet.yaml \
		--hostname-override="${name##*.}" --node-ip="$address" >/run/results/kubelet.log 2>&1
}

# run_suite SUITE FLAGS [OPTION-OF-GINKGO...] runs the specs of a suite, with FLAGS for the suite itself.
run_suite() {
	# The suite writes into the folder of its program, and kubectl into the home folder.
	cd /opt/suite
	touch "$1"
	mount --bind "/run/bin/conformance/$1" "$1"
	# shellcheck disable=SC2086 # they are several words
	HOME=/tmp /run/bin/conformance/ginkgo "${@:3}" --output-dir=/run/results --json-report=report.json --junit-report=junit.xml \
		"./$1" -- $2 --report-dir=/run/results --container-runtime-endpoint=unix:///run/containerd/containerd.sock
}

await images
case $job in
node-suite)
	run_suite e2e_node.test "--k8s-bin-dir=/opt/kubelet --kubelet-config-file=/etc/kubelet.yaml --node-name=$name --prepull-images=false" "$@"
	;;
cluster-node)
	run_kubelet
	;;
cluster-suite)
	run_kubelet &
	await nodes
	run_suite e2e.test "--kubeconfig=/run/results/admin.conf --kubectl-path=/run/bin/cluster/kubectl" "$@"
	;;
esac
