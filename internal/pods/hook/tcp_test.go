package hook

import (
	"net"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// listen returns a listener and its port. What connects is closed at once.
func listen(t *testing.T, at string) int32 {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return portOf(t, l.Addr().String())
}

func portOf(t *testing.T, addr string) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

// closedPort returns a port without a listener.
func closedPort(t *testing.T) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return portOf(t, l.Addr().String())
}

func TestTCPConnects(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	four, six := listen(t, "127.0.0.1:0"), listen(t, "[::1]:0")
	for name, tc := range map[string]struct {
		podIP, host string
		port        intstr.IntOrString
		ports       []v1.ContainerPort
	}{
		"pod":              {podIP: "127.0.0.1", port: intstr.FromInt32(four)},
		"IPv6 pod":         {podIP: "::1", port: intstr.FromInt32(six)},
		"host":             {podIP: "192.0.2.1", host: "localhost", port: intstr.FromInt32(four)},
		"IPv6 host":        {podIP: "192.0.2.1", host: "::1", port: intstr.FromInt32(six)},
		"bracketed host":   {podIP: "192.0.2.1", host: "[::1]", port: intstr.FromInt32(six)},
		"port by name":     {podIP: "127.0.0.1", port: intstr.FromString("web"), ports: []v1.ContainerPort{{ContainerPort: 1}, {Name: "web", ContainerPort: four}}},
		"number as a text": {podIP: "127.0.0.1", port: intstr.FromString(strconv.Itoa(int(four)))},
	} {
		t.Run(name, func(t *testing.T) {
			at := target(tc.ports...)
			at.PodIP = tc.podIP
			if err := r.Run(t.Context(), at, tcpHook(tc.host, tc.port)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTCPFailures(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	closed := closedPort(t)
	named := []v1.ContainerPort{{Name: "http", ContainerPort: 80}, {ContainerPort: 81}, {Name: "metrics", ContainerPort: 82}}
	for name, tc := range map[string]struct {
		podIP, host string
		port        intstr.IntOrString
		ports       []v1.ContainerPort
		want        []string
	}{
		"nobody listens": {podIP: "127.0.0.1", port: intstr.FromInt32(closed), want: []string{"container app: tcpSocket: dial tcp 127.0.0.1:" + strconv.Itoa(int(closed)), "refused"}},
		"unknown name":   {podIP: "127.0.0.1", port: intstr.FromString("web"), ports: named, want: []string{`port "web" is unknown`, "http, metrics"}},
		"no names":       {podIP: "127.0.0.1", port: intstr.FromString("web"), want: []string{`port "web" is unknown`, "none of the container's ports has a name"}},
		"empty name":     {podIP: "127.0.0.1", port: intstr.FromString(""), ports: named, want: []string{`port "" is unknown`}},
		"no port":        {podIP: "127.0.0.1", want: []string{"port 0 is not between"}},
		"large port":     {podIP: "127.0.0.1", port: intstr.FromString("70000"), want: []string{"port 70000 is not between"}},
		"no address":     {port: intstr.FromInt32(80), want: []string{"no address yet"}},
		"URL as host":    {host: "http://web/", port: intstr.FromInt32(80), want: []string{"neither a name nor an address"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := target(tc.ports...)
			at.PodIP = tc.podIP
			wantError(t, r.Run(t.Context(), at, tcpHook(tc.host, tc.port)), tc.want...)
		})
	}
}
