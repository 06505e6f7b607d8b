# What the runtime and the kubelet of a machine need for the specs, whatever the machine is made of.

# find_registries_at URL has the runtime find all registries there.
find_registries_at() {
	mkdir -p /etc/containerd/certs.d/_default
	cat >/etc/containerd/certs.d/_default/hosts.toml <<-CONF
		[host."$1"]
		capabilities = ["pull", "resolve"]
	CONF
}

# add_test_handler SYSTEMD_CGROUP adds the handler that RuntimeClasses of the specs name, once the runtime is configured.
add_test_handler() {
	cat >>/etc/containerd/config.toml <<-CONF

		[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler]
		runtime_type = "io.containerd.runc.v2"

		[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler.options]
		SystemdCgroup = $1
	CONF
}

# configure_kubelet CGROUP_DRIVER POD_RANGE writes a configuration as the node suite's own to /etc/kubelet.yaml.
configure_kubelet() {
	cat >/etc/kubelet.yaml <<-CONF
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		cgroupDriver: $1
		cgroupRoot: /
		podCIDR: $2
		volumeStatsAggPeriod: 10s
		fileCheckFrequency: 10s
		evictionPressureTransitionPeriod: 30s
		evictionHard: {memory.available: 250Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}
		evictionMinimumReclaim: {nodefs.available: 5%, nodefs.inodesFree: 5%}
		serializeImagePulls: false
	CONF
}
