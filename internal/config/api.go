package config

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// API is how the node answers others, and whom. A port of 0 is not opened.
type API struct {
	Address netip.Addr
	Port    int // HTTPS, with all paths
	// ReadOnlyPort is plain HTTP: a few paths, without authentication.
	ReadOnlyPort   int
	HealthzAddress netip.Addr
	HealthzPort    int // plain HTTP: is the agent well?

	MinTLS  uint16
	Ciphers []uint16      // of TLS 1.2; empty: Go's choice
	Curves  []tls.CurveID // empty: Go's choice

	// ClientCA is a file with the CAs of client certificates. Empty: client certificates are
	// not accepted.
	ClientCA  string
	Anonymous bool // a client without credentials is system:anonymous
	// Tokens says that the cluster is asked which user a token belongs to, and TokenTTL for how
	// long its answer is cached.
	Tokens   bool
	TokenTTL time.Duration
	// AlwaysAllow says that each authenticated user may do everything. Without it, the
	// cluster is asked.
	AlwaysAllow           bool
	AllowedTTL, DeniedTTL time.Duration

	Debugging  bool // exec, logs and all else that is not for reading
	SystemLogs bool // files below /var/log
	// SystemLogQuery allows queries of the logs of services.
	SystemLogQuery bool
	Profiling      bool
	DebugFlags     bool
	StreamIdle     time.Duration // after which a stream that nothing moves on is ended
	Limits         APILimits
}

// Defaults of the kubelet.
const (
	defaultPort        = 10250
	defaultHealthzPort = 10248
	defaultTokenTTL    = 2 * time.Minute
	defaultAllowedTTL  = 5 * time.Minute
	defaultDeniedTTL   = 30 * time.Second
	defaultStreamIdle  = 4 * time.Hour
	maxPort            = 65535
)

func (l *loader) api(f Flags, k *kubeletconfig.KubeletConfiguration, inCluster bool) API {
	const off = 0
	a := API{
		Address:        l.bindAddress("--address (address)", first(f.Address, k.Address, "0.0.0.0")),
		Port:           l.port("--port (port)", first(f.Port, int(k.Port))),
		ReadOnlyPort:   l.port("--read-only-port (readOnlyPort)", first(f.ReadOnlyPort, int(k.ReadOnlyPort))),
		HealthzAddress: l.bindAddress("healthzBindAddress", first(k.HealthzBindAddress, "127.0.0.1")),
		MinTLS:         l.minTLS(k.TLSMinVersion),
		Ciphers:        l.ciphers(k.TLSCipherSuites),
		Curves:         l.curves(k.TLSCurvePreferences),
		ClientCA:       l.path("--client-ca-file (authentication.x509.clientCAFile)", first(f.ClientCA, k.Authentication.X509.ClientCAFile)),
		Anonymous:      given(false, f.Anonymous, k.Authentication.Anonymous.Enabled),
		Tokens:         given(inCluster, f.TokenWebhook, k.Authentication.Webhook.Enabled),
		TokenTTL:       l.duration("authentication.webhook.cacheTTL", k.Authentication.Webhook.CacheTTL, defaultTokenTTL),
		AllowedTTL:     l.duration("authorization.webhook.cacheAuthorizedTTL", k.Authorization.Webhook.CacheAuthorizedTTL, defaultAllowedTTL),
		DeniedTTL:      l.duration("authorization.webhook.cacheUnauthorizedTTL", k.Authorization.Webhook.CacheUnauthorizedTTL, defaultDeniedTTL),
		Debugging:      given(true, k.EnableDebuggingHandlers),
		SystemLogs:     given(true, k.EnableSystemLogHandler),
		SystemLogQuery: given(false, k.EnableSystemLogQuery),
		Profiling:      given(true, k.EnableProfilingHandler),
		DebugFlags:     given(true, k.EnableDebugFlagsHandler),
		StreamIdle:     l.duration("streamingConnectionIdleTimeout", k.StreamingConnectionIdleTimeout, defaultStreamIdle),
		Limits:         l.apiLimits(f.APILimits),
	}
	if inCluster && a.Port == off {
		a.Port = defaultPort
	}
	if inCluster || l.rootDir == DefaultRootDir || k.HealthzBindAddress != "" { // agents beside those are not to stand in their way
		a.HealthzPort = defaultHealthzPort
	}
	if f.HealthzPort != nil {
		a.HealthzPort = l.port("--healthz-port (healthzPort)", *f.HealthzPort)
	} else if k.HealthzPort != nil {
		a.HealthzPort = l.port("--healthz-port (healthzPort)", int(*k.HealthzPort))
	}
	a.AlwaysAllow = l.authorization(first(f.AuthorizationMode, string(k.Authorization.Mode)), inCluster)
	if !given(true, k.EnableServer) {
		a.Port, a.ReadOnlyPort = off, off
	}
	l.portsApart(a)
	if !inCluster && !l.asKubelet {
		l.onLoopback(&a)
	}
	l.access(&a, inCluster)
	return a
}

// onLoopback refuses, on a machine without a cluster, ports that other machines could read
// without authentication.
func (l *loader) onLoopback(a *API) {
	for _, open := range []struct {
		setting string
		port    int
		where   string
		address netip.Addr
	}{
		{"--read-only-port (readOnlyPort)", a.ReadOnlyPort, "--address (address)", a.Address},
		{"--healthz-port (healthzPort)", a.HealthzPort, "healthzBindAddress", a.HealthzAddress},
	} {
		if open.port != 0 && open.address.IsValid() && !open.address.IsLoopback() {
			l.fail(open.setting, fmt.Sprint(open.port), "without a cluster, a port without authentication is for this machine alone: set %s to 127.0.0.1, or let others in by their certificates, with --port and --client-ca-file", open.where)
		}
	}
}

// access refuses a port without authentication or authorization.
func (l *loader) access(a *API, inCluster bool) {
	if a.Port == 0 {
		return
	}
	port := fmt.Sprint(a.Port)
	if !inCluster {
		if a.Tokens {
			l.fail("authentication.webhook.enabled", "true", "tokens can't be checked without --kubeconfig: set it to false")
		}
		if l.asKubelet {
			l.warnOfOpenPort(a)
			return
		}
		if a.Anonymous {
			l.fail("authentication.anonymous.enabled", "true", "every client that reaches port %d could run commands on this machine: set it to false", a.Port)
		}
		if a.ClientCA == "" {
			l.fail("--port (port)", port, "without a cluster, clients are known by their certificates: name the file of their CA with --client-ca-file (authentication.x509.clientCAFile), or give no port")
		}
		return
	}
	if a.ClientCA == "" && !a.Tokens && !a.Anonymous {
		l.fail("--port (port)", port, "no client could be authenticated: name a CA of clients with --client-ca-file (authentication.x509.clientCAFile), or set authentication.webhook.enabled to true")
	}
	l.warnOfOpenPort(a)
}

func (l *loader) warnOfOpenPort(a *API) {
	if a.Anonymous && a.AlwaysAllow && !a.Address.IsLoopback() {
		l.warnings = append(l.warnings, fmt.Sprintf(
			"anonymous requests are let in and everything is allowed: every client that reaches port %d can run commands on this machine as root. Set authentication.anonymous.enabled to false", a.Port))
	}
}

// authorization reports whether each authenticated user may do everything.
func (l *loader) authorization(mode string, inCluster bool) bool {
	switch kubeletconfig.KubeletAuthorizationMode(mode) {
	case "":
		return !inCluster
	case kubeletconfig.KubeletAuthorizationModeAlwaysAllow:
		return true
	case kubeletconfig.KubeletAuthorizationModeWebhook:
		if !inCluster {
			l.fail("--authorization-mode (authorization.mode)", mode, "there is no cluster to ask without --kubeconfig: leave it out, or set AlwaysAllow")
		}
	default:
		l.fail("--authorization-mode (authorization.mode)", mode, "want Webhook or AlwaysAllow")
	}
	return false
}

// given returns the first value that was given, or else the default.
func given[T any](otherwise T, values ...*T) T {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

func (l *loader) port(setting string, value int) int {
	if value < 0 || value > maxPort {
		l.fail(setting, fmt.Sprint(value), "not a port: want 1 to %d, or 0 for none", maxPort)
	}
	return value
}

func (l *loader) portsApart(a API) {
	for _, pair := range [][2]int{{a.Port, a.ReadOnlyPort}, {a.Port, a.HealthzPort}, {a.ReadOnlyPort, a.HealthzPort}} {
		if pair[0] != 0 && pair[0] == pair[1] {
			l.fail("port, readOnlyPort, healthzPort", fmt.Sprint(pair[0]), "two of them can't be the same")
		}
	}
}

func (l *loader) bindAddress(setting, value string) netip.Addr {
	ip, err := netip.ParseAddr(value)
	if err != nil {
		l.fail(setting, value, "not an IP address")
	}
	return ip
}

// tlsVersions are the names that the kubelet has for them.
var tlsVersions = map[string]uint16{"": tls.VersionTLS12, "VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

// oldTLSVersions are known to be broken. A kubelet takes them nevertheless.
var oldTLSVersions = map[string]uint16{"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11}

func (l *loader) minTLS(name string) uint16 {
	v, ok := tlsVersions[name]
	if old, isOld := oldTLSVersions[name]; isOld && l.asKubelet {
		return old
	}
	if !ok {
		l.fail("tlsMinVersion", name, "want VersionTLS12 or VersionTLS13: what is older is broken")
	}
	return v
}

// ciphers returns the cipher suites for TLS 1.2. Those of TLS 1.3 can't be configured: to name
// one is no error, and has no effect.
func (l *loader) ciphers(names []string) []uint16 {
	known := map[string]*tls.CipherSuite{}
	for _, s := range tls.CipherSuites() {
		known[s.Name] = s
	}
	if l.asKubelet {
		for _, s := range tls.InsecureCipherSuites() {
			known[s.Name] = s
		}
	}
	// As people knew them before the standard had them.
	for old, name := range map[string]string{
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	} {
		known[old] = known[name]
	}
	var out []uint16
	for _, name := range names {
		s, ok := known[name]
		if !ok {
			l.fail("tlsCipherSuites", name, "not known, or not safe: 'berth run' takes those that Go calls secure, such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
			continue
		}
		if s.Insecure {
			l.warnings = append(l.warnings, "tlsCipherSuites (--tls-cipher-suites): "+name+" is not safe")
		}
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) && !slices.Contains(out, s.ID) {
			out = append(out, s.ID)
		}
	}
	return out
}

func (l *loader) curves(numbers []int32) []tls.CurveID {
	var out []tls.CurveID
	for _, n := range numbers {
		id := tls.CurveID(n) // a number that does not fit is not among the known ones
		known := []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024}
		if int32(id) != n || !slices.Contains(known, id) {
			l.fail("tlsCurvePreferences", fmt.Sprint(n), "not the number of a curve: want one of %d", known)
			continue
		}
		out = append(out, id)
	}
	return out
}
