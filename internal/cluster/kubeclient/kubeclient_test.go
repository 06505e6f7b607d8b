package kubeclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeconfig is a file that leads to a server.
func kubeconfig(t *testing.T, server, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q %s}}]
users: [{name: u, user: {}}]
`, server, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ path, want string }{
		"not given":       {"", "--kubeconfig"},
		"missing":         {filepath.Join(dir, "none"), "none does not exist: put one there"},
		"not yaml":        {file("yaml", "{{"), "read kubeconfig " + dir + "/yaml"},
		"empty":           {file("empty", ""), "empty has no current-context"},
		"unknown context": {file("context", "current-context: gone"), "gone"},
		"no server":       {kubeconfig(t, "", ""), "no server found"},
		"no such CA":      {kubeconfig(t, "https://127.0.0.1:1", ", certificate-authority: ca.pem"), "ca.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Kubeconfig: c.path, UserAgent: "test"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1", "")
	for name, c := range map[string]Config{
		"no user agent":    {Kubeconfig: path},
		"negative timeout": {Kubeconfig: path, UserAgent: "test", HeartbeatTimeout: -1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// server answers every request with an error, and records the requests.
type server struct {
	mu    sync.Mutex
	asked []*http.Request
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	w.WriteHeader(http.StatusNotFound)
}

func (s *server) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func TestRequestsHaveAUserAgentAndAFormat(t *testing.T) {
	s := &server{}
	web := httptest.NewServer(s)
	defer web.Close()
	for contentType, want := range map[string]string{"": Protobuf, JSON: JSON} {
		clients, err := New(Config{Kubeconfig: kubeconfig(t, web.URL, ""), UserAgent: "berth/test", ContentType: contentType})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Client{clients.General, clients.Heartbeat, clients.Events} {
			if _, err := c.CoreV1().Nodes().Create(t.Context(), &v1.Node{}, metav1.CreateOptions{}); err == nil {
				t.Fatal("there is no such server")
			}
			got := s.last().Header
			if got.Get("User-Agent") != "berth/test" || got.Get("Content-Type") != want {
				t.Errorf("the server saw %v", got)
			}
			if accept := got.Get("Accept"); !strings.HasPrefix(accept, want) || !strings.Contains(accept, JSON) {
				t.Errorf("it was asked to answer in %q", accept)
			}
		}
	}
}

func TestHeartbeatsHaveTheirOwnConnection(t *testing.T) {
	s := &server{}
	web := httptest.NewServer(s)
	defer web.Close()
	clients, err := New(Config{Kubeconfig: kubeconfig(t, web.URL, ""), UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	from := func(c *Client) string {
		_, _ = c.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return s.last().RemoteAddr
	}
	general, events, heartbeat := from(clients.General), from(clients.Events), from(clients.Heartbeat)
	if general != events || general == heartbeat {
		t.Fatalf("connections: general %s, events %s, heartbeat %s", general, events, heartbeat)
	}
	if again := from(clients.General); again != general {
		t.Fatal("a connection was not used again")
	}
	clients.Reconnect()
	if again := from(clients.General); again == general {
		t.Error("general use goes over the connection that was dropped")
	}
	if again := from(clients.Heartbeat); again == heartbeat {
		t.Error("heartbeats go over the connection that was dropped")
	}
}

func TestOnlyHeartbeatsAreNotHeldBack(t *testing.T) {
	clients, err := New(Config{Kubeconfig: kubeconfig(t, "http://127.0.0.1:1", ""), UserAgent: "test", EventQPS: 7})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		client *Client
		want   float32
	}{"general": {clients.General, 50}, "events": {clients.Events, 7}} {
		if got := c.client.CoreV1().RESTClient().GetRateLimiter().QPS(); got != c.want {
			t.Errorf("%s: %v requests a second, want %v", name, got, c.want)
		}
	}
	if l := clients.Heartbeat.CoreV1().RESTClient().GetRateLimiter(); l != nil {
		t.Errorf("heartbeats are limited to %v", l.QPS())
	}
}

func TestAHeartbeatIsNotWaitedForForLong(t *testing.T) {
	release := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer web.Close()
	defer close(release)
	clients, err := New(Config{Kubeconfig: kubeconfig(t, web.URL, ""), UserAgent: "test", HeartbeatTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Heartbeat.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err == nil {
		t.Fatal("a server that hangs has answered")
	}
}

func TestUserAgentIsAHeader(t *testing.T) {
	for version, want := range map[string]string{
		"0.4.0":       `^berth/0\.4\.0 \(linux/\w+\) kubelet/v1\.36\.3$`,
		"0.4\r\nX: é": `^berth/0\.4--X: - \(`,
	} {
		if got := UserAgent(version, "v1.36.3"); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q gives %q", version, got)
		}
	}
}
