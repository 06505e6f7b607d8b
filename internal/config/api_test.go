package config

import (
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/secret"
)

func TestInAClusterTheNodeAnswersTheCluster(t *testing.T) {
	c, err := Load("/r", Flags{Kubeconfig: "/k"}, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	if a := c.API; a.Port != 10250 || a.ReadOnlyPort != 0 || !a.Tokens || a.AlwaysAllow || a.Anonymous {
		t.Errorf("got %+v", a)
	}
}

func TestHowTheNodeAnswers(t *testing.T) {
	file := []byte(header + `
address: 10.0.0.1
port: 11250
readOnlyPort: 10255
healthzPort: 0
tlsMinVersion: VersionTLS13
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305]
tlsCurvePreferences: [4588, 29]
authentication:
  anonymous: {enabled: true}
  webhook: {enabled: false, cacheTTL: 10s}
  x509: {clientCAFile: /ca}
authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 1m, cacheUnauthorizedTTL: 2s}}
enableDebuggingHandlers: false
streamingConnectionIdleTimeout: 1h
`)
	c, err := Load("/r", Flags{Kubeconfig: "/k"}, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	want := API{
		Address: netip.MustParseAddr("10.0.0.1"), Port: 11250, ReadOnlyPort: 10255, HealthzAddress: netip.MustParseAddr("127.0.0.1"),
		MinTLS: tls.VersionTLS13, Ciphers: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
		Curves: []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, ClientCA: "/ca", Anonymous: true, TokenTTL: 10 * time.Second,
		AlwaysAllow: true, AllowedTTL: time.Minute, DeniedTTL: 2 * time.Second,
		SystemLogs: true, Profiling: true, DebugFlags: true, StreamIdle: time.Hour,
	}
	if !reflect.DeepEqual(c.API, want) {
		t.Errorf("got  %+v\nwant %+v", c.API, want)
	}
	if len(c.NotHonoured) != 0 || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "11250") {
		t.Errorf("not honoured %v, warnings %v", c.NotHonoured, c.Warnings)
	}
}

func TestFlagsOfTheAPI(t *testing.T) {
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse([]string{
		"--address=127.0.0.1", "--port=1", "--read-only-port=2", "--healthz-port=0", "--client-ca-file=ca",
		"--api-limits=connections=1,connections-per-address=2,streams=3,streams-per-user=4,reviews-per-second=5",
		"--api-limits=header-bytes=6,body-bytes=7,request-timeout=8s,answer-timeout=9s,idle-timeout=10s",
		"--anonymous-auth=false", "--authentication-token-webhook", "--authorization-mode=Webhook", "--kubeconfig=/k",
	}); err != nil {
		t.Fatal(err)
	}
	file := []byte(header + "authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n")
	c, err := Load("/r", f, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	a := c.API
	if !a.Address.IsLoopback() || a.Port != 1 || a.ReadOnlyPort != 2 || a.HealthzPort != 0 || a.ClientCA != "/home/me/ca" || a.Anonymous || !a.Tokens || a.AlwaysAllow {
		t.Errorf("got %+v", a)
	}
	if want := (APILimits{1, 2, 3, 4, 5, 6, 7, 8 * time.Second, 9 * time.Second, 10 * time.Second}); a.Limits != want {
		t.Errorf("got %+v", a.Limits)
	}
	for _, bad := range []string{"--healthz-port=x", "--anonymous-auth=perhaps"} {
		if err := set.Parse([]string{bad}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestAServerCanBeTurnedOff(t *testing.T) {
	c, err := Load("/r", Flags{Kubeconfig: "/k"}, []byte(header+"enableServer: false\nreadOnlyPort: 10255\n"), machine)
	if err != nil || c.API.Port != 0 || c.API.ReadOnlyPort != 0 {
		t.Errorf("%v %+v", err, c)
	}
}

func TestAPortWithoutAWatchIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		flags Flags
		file  string
		want  string
	}{
		"nobody's":           {flags: Flags{Port: 10250}, want: "authentication.x509.clientCAFile"},
		"everybody's":        {flags: Flags{Port: 10250, ClientCA: "/ca", Anonymous: new(true)}, want: "authentication.anonymous.enabled"},
		"of no cluster":      {flags: Flags{Port: 10250, ClientCA: "/ca", TokenWebhook: new(true)}, want: "--kubeconfig"},
		"rights of nobody":   {flags: Flags{AuthorizationMode: "Webhook"}, want: "--kubeconfig"},
		"one for nobody":     {flags: Flags{Kubeconfig: "/k", TokenWebhook: new(false)}, want: "no client could be authenticated"},
		"an unknown mode":    {flags: Flags{AuthorizationMode: "RBAC"}, want: "AlwaysAllow"},
		"no port":            {flags: Flags{Port: 70000}, want: "not a port"},
		"a negative port":    {flags: Flags{HealthzPort: new(-1)}, want: "0 for none"},
		"the same port":      {flags: Flags{Kubeconfig: "/k", ReadOnlyPort: 10250}, want: "can't be the same"},
		"no address":         {flags: Flags{Address: "here"}, want: "not an IP address"},
		"an old TLS":         {file: "tlsMinVersion: VersionTLS10", want: "broken"},
		"an unsafe cipher":   {file: "tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]", want: "not safe"},
		"a number, no curve": {file: "tlsCurvePreferences: [65565]", want: "not the number of a curve"},
		"read by everybody":  {flags: Flags{ReadOnlyPort: 10255}, want: "--read-only-port (readOnlyPort)"},
		"of a file, too":     {file: "readOnlyPort: 10255", want: "set --address (address) to 127.0.0.1"},
		"health for all":     {file: "healthzBindAddress: 0.0.0.0", want: "set healthzBindAddress to 127.0.0.1"},
		"no such limit":      {flags: Flags{APILimits: map[string]string{"stream": "5"}}, want: "the limits are body-bytes, connections, connections-per-address,"},
		"no number":          {flags: Flags{APILimits: map[string]string{"streams": "0"}}, want: "want a number of 1 or more"},
		"no time to read":    {flags: Flags{APILimits: map[string]string{"request-timeout": "10"}}, want: "want a time such as 30s"},
		"no time":            {file: "streamingConnectionIdleTimeout: 1ms", want: "1s or more"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load("/r", test.flags, []byte(header+test.file+"\n"), machine)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	for what, flags := range map[string]Flags{
		"a port for those with a certificate": {Port: 10250, ClientCA: "/ca"},
		"a port for this machine alone":       {ReadOnlyPort: 10255, Address: "127.0.0.1"},
		"one of a cluster":                    {ReadOnlyPort: 10255, Kubeconfig: "/k"},
	} {
		if _, err := Load("/r", flags, nil, machine); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatIsInForceCanBeLoadedAgain(t *testing.T) {
	file := []byte(header + `
port: 10250
authentication: {x509: {clientCAFile: /ca}}
kubeReserved: {memory: 1Gi}
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
evictionHard: {memory.available: 1500Mi, nodefs.available: 12.5%}
evictionPressureTransitionPeriod: 30s
eventRecordQPS: 0
logging: {verbosity: 3}
tlsCurvePreferences: [29]
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
registerWithTaints: [{key: a, effect: NoSchedule}]
staticPodURL: http://x/
staticPodURLHeader: {Authorization: [geheim]}
`)
	c, err := Load("/r", Flags{}, file, machine)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(c.Kubelet())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "geheim") {
		t.Error("it tells a password")
	}
	var k kubeletconfig.KubeletConfiguration
	if err := json.Unmarshal(shown, &k); err != nil || k.Kind != "KubeletConfiguration" || k.Port != 10250 || k.Logging.Verbosity != 3 {
		t.Errorf("%v %s", err, shown)
	}
	again, err := Load("/r", Flags{}, shown, machine)
	if err != nil {
		t.Fatal(err)
	}
	again.NotHonoured, c.ManifestHeaders = slices.DeleteFunc(again.NotHonoured, isZeroField), secret.Header{}
	again.Warnings = c.Warnings // what is shown was not there to be warned of
	if !reflect.DeepEqual(c, again) {
		t.Errorf("got  %+v\nwant %+v", again, c)
	}
}

// isZeroField names the fields that are always in the JSON of a KubeletConfiguration.
func isZeroField(field string) bool {
	return slices.Contains([]string{
		"cpuManagerReconcilePeriod", "imageMaximumGCAge", "imageMinimumGCAge", "memorySwap", "syncFrequency", "volumeStatsAggPeriod",
	}, field) || strings.HasPrefix(field, "logging.")
}

func TestTheHealthPortIsLeftToTheDefaultRoot(t *testing.T) {
	for name, c := range map[string]struct {
		root  string
		flags Flags
		file  string
		want  int
	}{
		"the default root":         {root: DefaultRootDir, want: 10248},
		"another root":             {root: "/r", want: 0},
		"another root, asked for":  {root: "/r", flags: Flags{HealthzPort: new(10248)}, want: 10248},
		"another root, by address": {root: "/r", file: "healthzBindAddress: 127.0.0.2\n", want: 10248},
		"a node of a cluster":      {root: "/r", flags: Flags{Kubeconfig: "/k"}, want: 10248},
	} {
		got, err := Load(c.root, c.flags, []byte(header+c.file), machine)
		if err != nil || got.API.HealthzPort != c.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
