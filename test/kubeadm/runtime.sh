# The configuration of containerd and of the network of pods, for machines of kubeadm and of the conformance suite.
#
#	configure_runtime SANDBOX_IMAGE POD_RANGE SYSTEMD_CGROUP
configure_runtime() {
	mkdir -p /etc/cni/net.d /etc/containerd
	cat >/etc/cni/net.d/10-bridge.conflist <<-CONF
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
		   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$2"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}}]}
	CONF
	cat >/etc/containerd/config.toml <<-CONF
		version = 3
		imports = []
		disabled_plugins = ["io.containerd.nri.v1.nri"]

		[plugins."io.containerd.cri.v1.images"]
		use_local_image_pull = true

		[plugins."io.containerd.cri.v1.images".registry]
		config_path = "/etc/containerd/certs.d"

		[plugins."io.containerd.cri.v1.images".pinned_images]
		sandbox = "$1"

		[plugins."io.containerd.cri.v1.runtime"]
		restrict_oom_score_adj = true

		[plugins."io.containerd.cri.v1.runtime".cni]
		bin_dirs = ["/opt/cni/bin"]
		conf_dir = "/etc/cni/net.d"

		[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"

		[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
		SystemdCgroup = $3
	CONF
}
