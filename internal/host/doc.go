// Package host groups what berth knows of the machine outside of its pods. It may be imported by
// all groups but lib.
//
//	roots      which agent of this machine owns which cgroups, networks, ports and logs
//	rootlock   one agent at a time in a root directory
//	addresses  the IP addresses of the node
//	mounts     the mount table of the kernel
//	proc       identity of processes, and signals to them
//	kernel     OOM score, AppArmor, thermal throttling, sysctls
//	iptables   chains that other programs expect of a kubelet
//	selinux    labels of containers that the loaded policy knows
//	sdnotify   signs of life for systemd
//	doctor     checks of a machine before pods run on it
//
// Start reading at roots.
package host
