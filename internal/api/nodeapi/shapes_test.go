package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// local makes a request as on the local socket: without authentication.
func (w *world) local(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.api.Local().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return recorder.Code, recorder.Body.String()
}

// The command line of a process may hold a secret. What its flags show does not.
func TestTheCommandLineIsThatOfTheFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	code, body := w.local(t, http.MethodGet, "/debug/pprof/cmdline", "")
	if want := os.Args[0] + "\x00--v=2"; code != http.StatusOK || body != want {
		t.Errorf("got %d %q, want %q", code, body, want)
	}
}

func TestPodsAreAListOfPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for path, check := range map[string]func(v1.Pod) bool{
		"/pods":         func(p v1.Pod) bool { return p.Name == "web" && len(p.Status.ContainerStatuses) == 2 },
		"/runningpods/": func(p v1.Pod) bool { return p.UID == theUID && p.Spec.Containers[0].Image == "localhost/app:1" },
	} {
		code, body := w.local(t, http.MethodGet, path, "")
		var list v1.PodList
		must(t, json.Unmarshal([]byte(body), &list))
		if code != http.StatusOK || list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 1 || !check(list.Items[0]) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestStatsCanBeShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for path, short := range map[string]bool{"/stats/summary": false, "/stats/summary?only_cpu_and_memory=true": true} {
		_, body := w.local(t, http.MethodPost, path, "")
		var s statsv1alpha1.Summary
		must(t, json.Unmarshal([]byte(body), &s))
		if s.Node.NodeName != "one" || (s.Node.Fs == nil) != short {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestHealthReportsFailedChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if code, body := ask(t, http.DefaultClient, http.MethodGet, w.healthz+"/healthz"); code != http.StatusOK || body != "ok" {
		t.Errorf("well: %d %q", code, body)
	}
	if _, body := ask(t, http.DefaultClient, http.MethodGet, w.healthz+"/healthz?verbose"); body != "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n" {
		t.Errorf("verbose: %q", body)
	}
	w.sick = errors.New("the loop stands still")
	for path, want := range map[string]int{
		"/healthz": 500, "/healthz/syncloop": 500, "/healthz/ping": 200, "/healthz/nothing": 404, "/healthz?exclude=syncloop": 200, "/pods": 404, "/metrics": 404,
	} {
		if code, body := ask(t, http.DefaultClient, http.MethodGet, w.healthz+path); code != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if _, body := ask(t, http.DefaultClient, http.MethodGet, w.healthz+"/healthz"); body != "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n" {
		t.Errorf("unwell: %q", body)
	}
}

func TestAnswersThatPeopleKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.writeLog("one", "two", "three")
	for _, test := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/configz", "", 200, `{"kubeletconfig":{"kind":"KubeletConfiguration"}}`},
		{"GET", "/metrics", "", 200, "main"},
		{"GET", "/metrics/slis", "", 200, "slis"},
		{"GET", "/flagz", "", 200, "\nv=2\n"},
		{"GET", "/statusz", "", 200, "Binary version: v1"},
		{"GET", "/debug/pprof/", "", 200, "goroutine"},
		{"GET", "/debug/pprof/profile?seconds=100000", "", 400, "seconds"},
		{"PUT", "/debug/flags/v", "5", 200, "successfully set klog.logging.verbosity to 5"},
		{"PUT", "/debug/flags/v", "lots", 400, "number"},
		{"POST", "/run/default/web/app", "", 400, "cmd"},
		{"POST", "/run/default/web/app?cmd=hostname+-f", "", 200, "hostname"},
		{"POST", "/run/default/web/app?cmd=false", "", 500, "exited with 1: no"},
		{"POST", "/run/default/web/uid-2/app?cmd=ls", "", 404, `pod "web" does not exist`},
		{"POST", "/run/default/web/nothing?cmd=ls", "", 404, `container not found ("nothing")`},
		{"POST", "/run/default/web/slow?cmd=ls", "", 404, `container not found ("slow")`},
		{"GET", "/run/default/web/app?cmd=ls", "", 405, "405"},
		{"POST", "/exec/default/web/app?output=1", "", 400, "command"},
		{"POST", "/exec/default/web/app?command=ls", "", 400, "at least 1 of stdin, stdout, stderr"},
		{"POST", "/exec/default/web/app?command=ls&output=1", "", 400, "Upgrade request required"},
		{"POST", "/portForward/default/gone", "", 404, `pod "gone" does not exist`},
		{"POST", "/checkpoint/default/web/app", "", 200, `/checkpoints/checkpoint-web_default-app-20`},
		{"POST", "/checkpoint/default/web/nothing", "", 404, "container nothing does not exist"},
		{"POST", "/checkpoint/default/web/app?timeout=x", "", 400, "timeout"},
		{"GET", "/containerLogs/default/web/app", "", 200, "one\ntwo\nthree\n"},
		{"GET", "/containerLogs/default/web/app?tailLines=1", "", 200, "three\n"},
		{"GET", "/containerLogs/default/web/app?tail=all", "", 200, "one\ntwo\nthree\n"},
		{"GET", "/containerLogs/default/web/app?limitBytes=5", "", 200, "one\nt"},
		{"GET", "/containerLogs/default/web/app?timestamps=true&tailLines=1", "", 200, "2026-01-02T03:04:05.000000000Z three\n"},
		{"GET", "/containerLogs/default/web/app?sinceTime=2026-01-02T03:04:06Z", "", 200, ""},
		{"GET", "/containerLogs/default/web/app?sinceSeconds=5&sinceTime=2026-01-02T03:04:06Z", "", 422, "at most one"},
		{"GET", "/containerLogs/default/web/app?sinceTime=yesterday", "", 400, "sinceTime"},
		{"GET", "/containerLogs/default/web/app?tailLines=-1", "", 422, "tailLines"},
		{"GET", "/containerLogs/default/web/app?tailLines=x", "", 400, "tailLines"},
		{"GET", "/containerLogs/default/web/app?follow=perhaps", "", 400, "follow"},
		{"GET", "/containerLogs/default/web/app?stream=Stdout", "", 400, "stream"},
		{"GET", "/containerLogs/default/web/app?previous=true", "", 400, `previous terminated container "app" in pod "web" not found`},
		{"GET", "/containerLogs/default/web/slow", "", 400, `container "slow" in pod "web" is waiting to start: ContainerCreating`},
		{"GET", "/containerLogs/default/web/nothing", "", 404, `container "nothing" not found in pod "web"`},
		{"GET", "/containerLogs/other/web/app", "", 404, `pod "web" does not exist in namespace "other"`},
	} {
		code, body := w.local(t, test.method, test.path, test.body)
		if code != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, code, body, test.code, test.says)
		}
	}
}

func TestDebuggingCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Enabled = Enabled{} })
	for _, path := range []string{"/exec/default/web/app?command=ls", "/containerLogs/default/web/app", "/logs/", "/runningpods/", "/debug/pprof/", "/configz"} {
		if code, body := w.local(t, http.MethodGet, path, ""); code != http.StatusMethodNotAllowed || body != "Debug endpoints are disabled.\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if code, _ := w.local(t, http.MethodGet, "/pods", ""); code != http.StatusOK {
		t.Errorf("/pods: %d", code)
	}
	w = newWorld(t, func(c *Config) { c.Enabled = Enabled{Debugging: true} })
	for path, method := range map[string]string{"/logs/": "GET", "/debug/pprof/": "GET", "/debug/flags/v": "PUT"} {
		if code, body := w.local(t, method, path, ""); code != http.StatusMethodNotAllowed || !strings.HasSuffix(body, "endpoint is disabled.\n") {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

func TestSystemLogsEndAtTheirFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, os.WriteFile(filepath.Join(w.logs, "syslog"), []byte("all is well\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(w.logs, "pods"), 0o755))
	must(t, os.Symlink("../syslog", filepath.Join(w.logs, "pods", "inside")))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(w.logs), "secret"), []byte("secret"), 0o600))
	must(t, os.Symlink("../secret", filepath.Join(w.logs, "outside")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(w.logs, "passwd")))
	must(t, os.Symlink("/", filepath.Join(w.logs, "root")))
	must(t, syscall.Mkfifo(filepath.Join(w.logs, "pipe"), 0o600))

	for path, says := range map[string]string{"/logs/": "syslog", "/logs/syslog": "all is well", "/logs/pods/": "inside", "/logs/pods/inside": "all is well"} {
		if code, body := w.local(t, http.MethodGet, path, ""); code != http.StatusOK || !strings.Contains(body, says) {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	for _, path := range []string{
		"/logs/outside", "/logs/passwd", "/logs/root/etc/passwd", "/logs/root/", "/logs/%2e%2e/secret", "/logs/pods/%2e%2e/%2e%2e/secret", "/logs/pipe", "/logs/..%2fsecret",
	} {
		if code, body := w.local(t, http.MethodGet, path, ""); code == http.StatusOK || strings.Contains(body, "secret\x00") || strings.Contains(body, "root:") {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if code, body := w.local(t, http.MethodGet, "/logs/?query=kubelet", ""); code != http.StatusForbidden || !strings.Contains(body, "does not answer queries of system logs") {
		t.Errorf("a query: %d %q", code, body)
	}
}

func TestAFolderOfSystemLogsIsListedUpToALimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer func() { must(t, root.Close()) }()
	for most, want := range map[int]int{4: http.StatusInternalServerError, 5: http.StatusOK} {
		w := httptest.NewRecorder()
		http.FileServerFS(plainFiles{root, most}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Errorf("5 of at most %d entries: %d %q, want %d", most, w.Code, w.Body, want)
		}
	}
}

// A file may be replaced by a pipe between the look and the open.
func TestAPipeInThePlaceOfASystemLogDoesNotBlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer func() { must(t, root.Close()) }()
	opened := make(chan error, 1)
	go func() {
		_, err := plainFiles{root, maxListed}.openPlain("pipe")
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for somebody to write")
	}
}

func TestALogThatIsALinkIsNotServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	path, _, err := w.api.Logs.LogPath(t.Context(), theUID, "c1")
	must(t, err)
	must(t, os.Symlink("/etc/passwd", path))
	if code, body := w.local(t, http.MethodGet, "/containerLogs/default/web/app", ""); code != http.StatusInternalServerError || !strings.Contains(body, "not as the runtime made it") {
		t.Errorf("%d %q", code, body)
	}
}

func TestRequestsAreCountedForTheServerThatTheyCameTo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counted := map[string]int{}
	w := newWorld(t, func(c *Config) {
		c.Count = func(server, path string, _ bool, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				counted[server+" "+path]++
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		}
	})
	ask(t, w.client(theUser), http.MethodGet, w.url+"/pods")
	ask(t, http.DefaultClient, http.MethodGet, w.plain+"/pods")
	ask(t, http.DefaultClient, http.MethodGet, w.healthz+"/healthz")
	w.local(t, http.MethodGet, "/pods", "")
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{"readwrite /pods": 1, "readonly /pods": 1, "healthz /healthz": 1, "local /pods": 1}; !maps.Equal(counted, want) {
		t.Errorf("got %v", counted)
	}
}

func TestWhatIsLackingIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, change := range map[string]func(*Config){
		"no node":           func(c *Config) { c.Node = "" },
		"no idle time":      func(c *Config) { c.StreamIdle = 0 },
		"a second ping":     func(c *Config) { c.Checks = []Check{{Name: "ping"}} },
		"no time of tokens": func(c *Config) { c.Access.TokenTTL = 0 },
		"no time of rights": func(c *Config) { c.Access.DeniedTTL = -time.Second },
	} {
		c := w.api.Config
		change(&c)
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), "node API: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
