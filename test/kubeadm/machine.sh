#!/usr/bin/env bash
# The first process of a machine: a mount, PID, UTS and network namespace of this one, whose folders
# for a node's files are empty and its own. All of it is gone once this process is.
#
#	machine.sh NAME ADDRESS POD_RANGE BIN SANDBOX_IMAGE
#
# BIN is the folder of what make builds. The kubelet runs as a service, by the rules of packaging/10-kubeadm.conf:
# its systemctl starts and stops it, and a kubelet that ends is started again a second later.
set -euo pipefail

# shellcheck source=runtime.sh
source "${BASH_SOURCE[0]%/*}/runtime.sh"
name=$1 address=$2 pods=$3 bin=$4 sandbox=$5

# What is mounted later in here (volumes, sandboxes) is seen by all of this machine, and by no other.
mount --make-rshared /
hostname "$name"
echo 1 >/proc/sys/net/ipv4/ip_forward # of this network namespace: pods reach those of the other machine

# What make built may be in a folder that is covered below.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/bin /run/lock
mount --bind "$bin" /run/bin

cp -a /etc /run/etc
mount --bind /run/etc /etc
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >/etc/hosts
for folder in /opt /var/lib /var/log; do
	mount -t tmpfs -o size=8g,mode=755 tmpfs "$folder"
done
mkdir -p /opt/bin /opt/cni /etc/kubernetes

export PATH=/opt/bin:/run/bin/libexec:/run/bin/cluster:$PATH
ln -s /run/bin/berth /opt/bin/kubelet
ln -s /run/bin/libexec/cni /opt/cni/bin

cat >/opt/bin/systemctl <<'SERVICE'
#!/usr/bin/env bash
# The part of systemctl that kubeadm calls, for the one service of this machine.
running() { [[ -s /run/kubelet.pid ]] && kill -0 "$(</run/kubelet.pid)" 2>/dev/null; }
stop() {
	rm -f /run/kubelet.wanted
	! running || kill "$(</run/kubelet.pid)"
	while running; do sleep 0.1; done
}
case "$*" in
daemon-reload | "is-enabled kubelet") ;;
"start kubelet") touch /run/kubelet.wanted ;;
"stop kubelet") stop ;;
"restart kubelet") stop && touch /run/kubelet.wanted ;;
"is-active kubelet") [[ -e /run/kubelet.wanted ]] && echo active ;;
"status kubelet") ;;
*) echo "Unit $2 could not be found." && exit 4 ;;
esac
SERVICE
chmod +x /opt/bin/systemctl

configure_runtime "$sandbox" "$pods" false
containerd --config /etc/containerd/config.toml >/var/log/containerd.log 2>&1 &

# To be called in the background: it becomes the kubelet.
kubelet_once() {
	set -a
	if [[ -e /var/lib/kubelet/kubeadm-flags.env ]]; then source /var/lib/kubelet/kubeadm-flags.env; fi
	# shellcheck disable=SC2086 # they are several words, as in the unit
	exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
		--config=/var/lib/kubelet/config.yaml ${KUBELET_KUBEADM_ARGS-}
}

touch /run/kubelet.wanted
while :; do
	if [[ -e /run/kubelet.wanted ]]; then
		kubelet_once >>/var/log/kubelet.log 2>&1 &
		echo $! >/run/kubelet.pid
		wait $! || true
	fi
	sleep 1
done
