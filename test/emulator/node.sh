# What makes a node of an emulated machine, whose first process is systemd. What make builds is below /berth/bin.

# configure_network ADDRESS GATEWAY
configure_network() {
	ip address add "$1/24" dev eth0
	ip link set eth0 up
	ip route add default via "$2"
	printf '127.0.0.1 localhost\n%s %s\n' "$1" "$(hostname)" >/etc/hosts
	echo 1 >/proc/sys/net/ipv4/ip_forward
}

# start_containerd starts it as a service, once it is configured.
start_containerd() {
	mkdir -p /opt/cni
	ln -s /berth/bin/libexec/cni /opt/cni/bin
	cat >/etc/systemd/system/containerd.service <<-'UNIT'
		[Service]
		Type=notify
		Environment=PATH=/berth/bin/libexec:/usr/sbin:/usr/bin:/sbin:/bin
		ExecStart=/berth/bin/libexec/containerd
		KillMode=process
		Delegate=yes
	UNIT
	systemctl daemon-reload
	systemctl start containerd
}
