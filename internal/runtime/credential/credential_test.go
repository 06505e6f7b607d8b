package credential

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const config = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  matchImages: ["*.test", "localhost:5000"]
  defaultCacheDuration: %s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: SECRET, value: hunter2}]
`

// answering is a plugin that answers, and records each request.
const answering = `#!/bin/sh
cat >> "$0.asked"; echo >> "$0.asked"
cat <<END
{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
 "auth":{"*.test":{"username":"$1","password":"$SECRET"}}}
END
`

// plugins makes a plugin of a script.
func plugins(t *testing.T, config, script string) (*Plugins, string, error) {
	t.Helper()
	dir := t.TempDir()
	file, program := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "helper")
	for path, text := range map[string]string{file: config, program: script} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, err := LoadPlugins(file, dir, nil)
	return p, program, err
}

func newKeyring(t *testing.T, c Config) (*Node, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return n, log
}

func TestAPluginIsAskedAndItsAnswerKept(t *testing.T) {
	p, program, err := plugins(t, fmt.Sprintf(config, "10m"), answering)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := newKeyring(t, Config{Plugins: p})
	for _, repository := range []string{"a.test/app", "a.test/other", "a.test/app"} {
		got, err := n.Lookup(t.Context(), repository, nil)
		if err != nil || len(got) != 1 || got[0].Username != "get" || got[0].Password != "hunter2" || got[0].Secret != nil {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if got, _ := n.Lookup(t.Context(), "b.test/app", nil); len(got) != 1 { // another registry
		t.Errorf("got %v", got)
	}
	if got, _ := n.Lookup(t.Context(), "other.example/app", nil); len(got) != 0 { // not for it
		t.Errorf("got %v", got)
	}
	asked, err := os.ReadFile(program + ".asked")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, image := range []string{"a.test/app", "b.test/app"} {
		want += `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + image + `"}` + "\n"
	}
	if string(asked) != want {
		t.Errorf("it was asked %s", asked)
	}
}

func TestRunsOfAPluginAreReported(t *testing.T) {
	p, program, err := plugins(t, fmt.Sprintf(config, "0s"), answering)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Hash(), "sha256:") {
		t.Errorf("the hash of the configuration is %q", p.Hash())
	}
	var seen []string
	again, err := LoadPlugins(filepath.Join(filepath.Dir(program), "config.yaml"), filepath.Dir(program), func(plugin string, _ time.Duration, err error) {
		seen = append(seen, fmt.Sprint(plugin, " ", err != nil))
	})
	if err != nil || again.Hash() != p.Hash() {
		t.Fatalf("got %v, and the hashes are %s and %s", err, again.Hash(), p.Hash())
	}
	n, _ := newKeyring(t, Config{Plugins: again})
	_, _ = n.Lookup(t.Context(), "a.test/app", nil)
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, _ = n.Lookup(t.Context(), "b.test/app", nil)

	if want := []string{"helper false", "helper true"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

func TestWithoutACacheEveryPullAsks(t *testing.T) {
	p, program, err := plugins(t, fmt.Sprintf(config, "0s"), answering)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := newKeyring(t, Config{Plugins: p})
	for range 2 {
		_, _ = n.Lookup(t.Context(), "a.test/app", nil)
	}
	if asked, _ := os.ReadFile(program + ".asked"); strings.Count(string(asked), "\n") != 2 {
		t.Errorf("it was asked %s", asked)
	}
}

func TestPluginsThatDoNotAnswer(t *testing.T) {
	for script, want := range map[string]string{
		"#!/bin/sh\ncat >/dev/null; echo no key >&2; exit 3\n": "no key",
		"#!/bin/sh\ncat >/dev/null; echo hunter2\n":            "not JSON",
		"#!/bin/sh\ncat >/dev/null; echo '{}'\n":               "CredentialProviderResponse",
		"#!/bin/sh\ncat >/dev/null; echo '{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\"}'\n": "cacheKeyType",
		"#!/bin/sh\ncat >/dev/null; head -c 2000000 /dev/zero\n":                                                                                "longer",
	} {
		p, _, err := plugins(t, fmt.Sprintf(config, "10m"), script)
		if err != nil {
			t.Fatal(err)
		}
		n, log := newKeyring(t, Config{Plugins: p})
		for range 3 {
			got, err := n.Lookup(t.Context(), "a.test/app", nil)
			if len(got) != 0 || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, %v, want %q", got, err, want)
			}
		}
		if strings.Count(log.String(), "\n") != 1 {
			t.Errorf("it was reported more than once, or not:\n%s", log)
		}
	}
}

func TestPluginsThatAreRefused(t *testing.T) {
	good := fmt.Sprintf(config, "10m")
	for change, want := range map[[2]string]string{
		{"name: helper", "name: ../helper"}: "without a path",
		{"name: helper", "name: other"}:     "not there",
		{"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1"}: "berth speaks",
		{`["*.test", "localhost:5000"]`, "[]"}:                                                "matchImages",
		{`["*.test", "localhost:5000"]`, `["[.test"]`}:                                        "not a pattern",
		{"defaultCacheDuration: 10m", "defaultCacheDuration: -1s"}:                            "defaultCacheDuration",
		{"  args: [get]", "  arguments: [get]"}:                                               "arguments",
		{"CredentialProviderConfig", "Other"}:                                                 "kind",
	} {
		_, _, err := plugins(t, strings.Replace(good, change[0], change[1], 1), answering)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change[1], err, want)
		}
	}
}

func TestLoginsOfTheMachineCountAtOnce(t *testing.T) {
	dir := t.TempDir()
	file, legacy := filepath.Join(dir, "config.json"), filepath.Join(dir, ".dockercfg")
	n, log := newKeyring(t, Config{Files: []string{file}, Legacy: []string{legacy}})
	lookup := func(want int, broken bool) {
		t.Helper()
		got, err := n.Lookup(t.Context(), "localhost/app", nil)
		if len(got) != want || (err != nil) != broken {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lookup(0, false)
	write(file, `{"auths":{"localhost":{"auth":"dXNlcjpwYXNz"}}}`)
	lookup(1, false)
	write(legacy, `{"localhost":{"username":"other"}}`)
	lookup(2, false)
	write(file, `{`)
	lookup(1, true)
	lookup(1, true)
	write(file, `{}`)
	lookup(1, false)
	if strings.Count(log.String(), "\n") != 2 {
		t.Errorf("the log is:\n%s", log)
	}
}
