package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSysctls(t *testing.T) {
	host := func(network, ipc bool) v1.PodSpec { return v1.PodSpec{HostNetwork: network, HostIPC: ipc} }
	for name, test := range map[string]struct {
		sysctl  string
		pod     v1.PodSpec
		kernel  string
		allowed []string
		why     string // empty: it may be set
	}{
		"safe":                           {sysctl: "net.ipv4.tcp_syncookies"},
		"safe, with slashes":             {sysctl: "net/ipv4/tcp_syncookies"},
		"safe, in the IPC namespace":     {sysctl: "kernel.shm_rmid_forced"},
		"safe, host's other namespace":   {sysctl: "kernel.shm_rmid_forced", pod: host(true, false)},
		"on the host's network":          {sysctl: "net.ipv4.tcp_syncookies", pod: host(true, false), why: `"net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		"in the host's IPC":              {sysctl: "kernel/shm_rmid_forced", pod: host(false, true), why: `"kernel.shm_rmid_forced" not allowed with host IPC enabled`},
		"new kernel":                     {sysctl: "net.ipv4.tcp_rmem", kernel: "6.12.3-amd64"},
		"just new enough":                {sysctl: "net.ipv4.tcp_wmem", kernel: "4.15.0+"},
		"old kernel":                     {sysctl: "net.ipv4.tcp_rmem", kernel: "4.14.9", why: `"net.ipv4.tcp_rmem" not allowlisted: it is safe from kernel 4.15 on, and this node has "4.14.9"`},
		"old kernel, allowed by hand":    {sysctl: "net.ipv4.tcp_rmem", kernel: "4.14.9", allowed: []string{"net.ipv4.tcp_rmem"}},
		"kernel not known":               {sysctl: "net.ipv4.tcp_fin_timeout", why: `"net.ipv4.tcp_fin_timeout" not allowlisted: it is safe from kernel 4.6 on, and this node has ""`},
		"unsafe":                         {sysctl: "net.core.somaxconn", why: `"net.core.somaxconn" not allowlisted`},
		"unsafe, with slashes":           {sysctl: "net/ipv4/conf/eth0.1/rp_filter", why: `"net.ipv4.conf.eth0/1.rp_filter" not allowlisted`},
		"allowed":                        {sysctl: "net.core.somaxconn", allowed: []string{"kernel.sem", "net.core.somaxconn"}},
		"allowed, with slashes":          {sysctl: "net.core.somaxconn", allowed: []string{"net/core/somaxconn"}},
		"allowed by a pattern":           {sysctl: "kernel.msgmax", allowed: []string{"kernel.msg*"}},
		"a name is no pattern":           {sysctl: "net.core.somaxconn_x", allowed: []string{"net.core.somaxconn"}, why: `"net.core.somaxconn_x" not allowlisted`},
		"allowed, host's IPC":            {sysctl: "kernel.msgmax", allowed: []string{"kernel.msg*"}, pod: host(false, true), why: `"kernel.msgmax" not allowed with host IPC enabled`},
		"a queue, host's IPC":            {sysctl: "fs.mqueue.msg_max", allowed: []string{"fs.mqueue.*"}, pod: host(false, true), why: `"fs.mqueue.msg_max" not allowed with host IPC enabled`},
		"semaphores, host's IPC":         {sysctl: "kernel.sem", allowed: []string{"kernel.sem"}, pod: host(false, true), why: `"kernel.sem" not allowed with host IPC enabled`},
		"allowed, host's network":        {sysctl: "net.core.somaxconn", allowed: []string{"net.*"}, pod: host(true, false), why: `"net.core.somaxconn" not allowed with host Net enabled`},
		"the machine's, allowed or not":  {sysctl: "vm.swappiness", allowed: []string{"vm.swappiness"}, why: `"vm.swappiness" not allowlisted`},
		"the machine's, by a wide star":  {sysctl: "vm.swappiness", allowed: []string{"*"}, why: `"vm.swappiness" not allowlisted`},
		"not a name":                     {why: `"" not allowlisted`},
		"a pattern is not a name either": {sysctl: "kernel.msg*", why: `"kernel.msg*" not allowlisted`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			p.Spec.HostNetwork, p.Spec.HostIPC = test.pod.HostNetwork, test.pod.HostIPC
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{
				{Name: "kernel.shm_rmid_forced", Value: "0"}, {Name: test.sysctl, Value: "1"},
			}}
			if p.Spec.HostIPC {
				p.Spec.SecurityContext.Sysctls = p.Spec.SecurityContext.Sysctls[1:]
			}
			var want *Rejection
			if test.why != "" {
				want = &Rejection{"SysctlForbidden", "forbidden sysctl: " + test.why}
			}
			expect(t, checkSysctls(p, Node{Kernel: test.kernel, UnsafeSysctls: test.allowed}), want)
		})
	}
}

// The list is the promise that nothing in it reaches beyond a pod, so each
// must be known to live in a namespace.
func TestSafeSysctlsAreKeptApart(t *testing.T) {
	for name := range safeSysctls {
		onHost := newPod("web")
		onHost.Spec.HostNetwork, onHost.Spec.HostIPC = true, true
		if why := forbidden(name, onHost, Node{Kernel: "7.0"}); !strings.Contains(why, "with host") {
			t.Errorf("%s in the host's namespaces: %q", name, why)
		}
		if why := forbidden(name, newPod("web"), Node{Kernel: "7.0"}); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
}

func TestAForbiddenSysctlIsNotCalledUnsupported(t *testing.T) {
	p := newPod("web")
	p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "vm.swappiness"}}}
	if got := Check(p, nil, Node{}); reason(got) != "SysctlForbidden" {
		t.Errorf("got %+v", got)
	}
}
