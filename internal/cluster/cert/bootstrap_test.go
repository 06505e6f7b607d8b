package cert

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificates "k8s.io/api/certificates/v1"

	"berth/internal/cluster/kubeclient"
)

const bootstrapText = `apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443", tls-server-name: api, certificate-authority: ca.pem}}]
users: [{name: u, user: {token: abc}}]
`

// newNode returns the configuration of a node that has only a bootstrap kubeconfig, and its log.
func newNode(t *testing.T) (ClientConfig, *logged) {
	t.Helper()
	dir := t.TempDir()
	log, text := newLog(t)
	write(t, filepath.Join(dir, "ca.pem"), nil)
	return ClientConfig{
		Node: "one", CertDir: filepath.Join(dir, "pki"), Kubeconfig: filepath.Join(dir, "kubeconfig"),
		BootstrapKubeconfig: write(t, filepath.Join(dir, "bootstrap"), []byte(bootstrapText)),
		UserAgent:           "test", Rotate: true, Log: log,
	}, text
}

func TestANewNodeGetsACertificateAndAKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newNode(t)
		server := newAPI(t, "approve", time.Hour)

		must(t, c.bootstrap(t.Context(), server.connect))

		asked := server.newest().Spec
		if asked.SignerName != certificates.KubeAPIServerClientKubeletSignerName || len(asked.Usages) != 2 {
			t.Errorf("it asked for %v of %s", asked.Usages, asked.SignerName)
		}
		config, err := kubeclient.Load(c.Kubeconfig)
		must(t, err)
		if want := filepath.Join(c.CertDir, "kubelet-client-current.pem"); config.CertFile != want || config.KeyFile != want {
			t.Errorf("the kubeconfig leads to %s and %s", config.CertFile, config.KeyFile)
		}
		if config.Host != "https://10.0.0.1:6443" || config.ServerName != "api" || config.CAFile != filepath.Join(filepath.Dir(c.Kubeconfig), "ca.pem") || config.BearerToken != "" {
			t.Errorf("the cluster is another one: %v", config)
		}
		pair, err := pairOf(config.TLSClientConfig)
		must(t, err)
		if s := pair.Leaf.Subject; s.CommonName != "system:node:one" || len(s.Organization) != 1 || s.Organization[0] != "system:nodes" {
			t.Errorf("it is %s", s)
		}
		for _, secret := range []string{c.Kubeconfig, config.KeyFile} {
			if m := mode(t, secret); m != 0o600 {
				t.Errorf("%s can be read by others: %o", secret, m)
			}
		}
		if _, err := os.Stat(pendingKeyPath(c.CertDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the key of the request is still there: %v", err)
		}
		if done, err := usable(c.Kubeconfig, time.Now()); !done || err != nil {
			t.Errorf("it can't be used: %v", err)
		}
		if done, err := usable(c.Kubeconfig, time.Now().Add(2*time.Hour)); done || err != nil {
			t.Errorf("it can be used after it has expired: %v", err)
		}
	})
}

func TestALateApprovalIsAskedForOnceAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newNode(t)
		server := newAPI(t, "wait", 24*time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- c.bootstrap(t.Context(), server.connect) }()

		time.Sleep(10 * time.Minute)
		name := server.newest().Name
		if n := log.count("kubectl certificate approve " + name); n != 1 {
			t.Errorf("it was said %d times how to approve it", n)
		}
		time.Sleep(time.Hour)
		server.set("approve")
		must(t, <-ended)

		if n := server.requested(); n != 1 {
			t.Errorf("%d requests were made", n)
		}
		if n := log.lines(); n > 15 {
			t.Errorf("%d lines in 70 minutes", n)
		}
	})
}

func TestABootstrapKubeconfigThatIsReplacedIsRead(t *testing.T) {
	// given a server that no longer takes the first token
	seen := make(chan string, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	c, _ := newNode(t)
	kubeconfig := func(token string) []byte {
		text := strings.NewReplacer("https://10.0.0.1:6443", server.URL, "tls-server-name: api, certificate-authority: ca.pem", "insecure-skip-tls-verify: true", "abc", token)
		return []byte(text.Replace(bootstrapText))
	}
	write(t, c.BootstrapKubeconfig, kubeconfig("old"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Bootstrap(ctx, c) }()
	if got := <-seen; got != "Bearer old" {
		t.Fatalf("it asked with %q", got)
	}

	// when the file is replaced, then the new credentials are used
	write(t, c.BootstrapKubeconfig, kubeconfig("new"))
	deadline := time.After(30 * time.Second)
	for got := ""; got != "Bearer new"; {
		select {
		case got = <-seen:
		case <-deadline:
			t.Fatal("the new token is never tried")
		}
	}
	cancel()
	<-ended
}

func TestADeniedRequestIsLoggedAndFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newNode(t)
		server := newAPI(t, "deny", time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- c.bootstrap(t.Context(), server.connect) }()

		time.Sleep(14 * time.Minute)
		if n := log.count("denied, reason: Policy, message: not you"); n != 1 {
			t.Errorf("it was said %d times that it is denied", n)
		}
		if n := server.requested(); n != 3 {
			t.Errorf("%d requests in a quarter of an hour", n)
		}
		server.set("approve")
		must(t, <-ended)
	})
}

func TestAServerThatIsAwayIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newNode(t)
		server := newAPI(t, "approve", time.Hour)
		server.setAway(errors.New("dial tcp 10.0.0.1:6443: connection refused"))
		ended := make(chan error, 1)
		go func() { ended <- c.bootstrap(t.Context(), server.connect) }()

		time.Sleep(time.Hour)
		if n := log.lines(); n != 1 || log.count("connection refused") != 1 {
			t.Errorf("%d lines", n)
		}
		server.setAway(nil)
		must(t, <-ended)
	})
}

func TestAKilledNodeGoesOnWithTheSameKeyAndRequest(t *testing.T) {
	killed := errors.New("killed")
	for name, at := range map[string]func(t *testing.T, c ClientConfig, server *api){
		"while it waits": func(t *testing.T, c ClientConfig, server *api) {
			ctx, kill := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.bootstrap(ctx, server.connect) }()
			synctest.Wait()
			kill(killed)
			if err := <-ended; !errors.Is(err, killed) {
				t.Fatalf("it ended with %v", err)
			}
			server.set("approve")
		},
		"before the kubeconfig": func(t *testing.T, c ClientConfig, server *api) {
			server.set("approve")
			c.Kubeconfig = "/dev/null/none" // can't be written
			if err := c.bootstrap(t.Context(), server.connect); err == nil {
				t.Fatal("it wrote a kubeconfig below /dev/null")
			}
			server.setAway(errors.New("nobody has to be asked again"))
		},
		"in the middle of the switch": func(t *testing.T, c ClientConfig, server *api) {
			server.set("approve")
			must(t, c.bootstrap(t.Context(), server.connect))
			must(t, os.Remove(c.Kubeconfig))
			current := filepath.Join(c.CertDir, "kubelet-client-current.pem")
			pair, err := os.ReadFile(current)
			must(t, err)
			write(t, pendingKeyPath(c.CertDir), pair[strings.Index(string(pair), "-----BEGIN EC PRIVATE KEY"):])
			must(t, os.Rename(current, filepath.Join(c.CertDir, "kubelet-client-updated.pem")))
			server.setAway(errors.New("nobody has to be asked again"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newNode(t)
				server := newAPI(t, "wait", time.Hour)
				at(t, c, server)

				must(t, c.bootstrap(t.Context(), server.connect))

				if n := server.requested(); n != 1 {
					t.Errorf("%d requests were made", n)
				}
				if done, err := usable(c.Kubeconfig, time.Now()); !done || err != nil {
					t.Errorf("the kubeconfig can't be used: %v", err)
				}
			})
		})
	}
}

func TestACertificateThatIsGoneIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newNode(t)
		server := newAPI(t, "approve", time.Hour)
		must(t, c.bootstrap(t.Context(), server.connect))
		must(t, os.RemoveAll(c.CertDir))

		if done, err := usable(c.Kubeconfig, time.Now()); done || err != nil {
			t.Fatalf("usable %v, %v", done, err)
		}
		must(t, c.bootstrap(t.Context(), server.connect))
		if done, err := usable(c.Kubeconfig, time.Now()); !done || err != nil {
			t.Fatalf("usable %v, %v", done, err)
		}
	})
}

func TestAHalfWrittenKeyIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newNode(t)
		write(t, pendingKeyPath(c.CertDir), []byte("-----BEGIN EC PRIV"))
		must(t, c.bootstrap(t.Context(), newAPI(t, "approve", time.Hour).connect))
	})
}

func TestBootstrapLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	for name, given := range map[string]struct {
		change func(c *ClientConfig)
		want   string
	}{
		"a kubeconfig with a token": {func(c *ClientConfig) {
			must(t, os.WriteFile(c.Kubeconfig, []byte(bootstrapText), 0o600))
		}, ""},
		"no bootstrap kubeconfig":       {func(c *ClientConfig) { c.BootstrapKubeconfig = "" }, ""},
		"a broken kubeconfig":           {func(c *ClientConfig) { must(t, os.WriteFile(c.Kubeconfig, []byte("{{"), 0o600)) }, "read kubeconfig"},
		"a missing bootstrap":           {func(c *ClientConfig) { c.BootstrapKubeconfig += ".none" }, "does not exist"},
		"no node":                       {func(c *ClientConfig) { c.Node = "" }, "Node is needed"},
		"no log":                        {func(c *ClientConfig) { c.Log = nil }, "Log is needed"},
		"nothing of what it has to say": {func(c *ClientConfig) { *c = ClientConfig{} }, "Kubeconfig is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newNode(t)
			given.change(&c)
			before, _ := os.ReadFile(c.Kubeconfig)
			err := Bootstrap(t.Context(), c)
			if given.want == "" && err != nil || given.want != "" && (err == nil || !strings.Contains(err.Error(), given.want)) {
				t.Errorf("got %v, want %q", err, given.want)
			}
			if after, _ := os.ReadFile(c.Kubeconfig); string(after) != string(before) {
				t.Errorf("the kubeconfig was changed to %s", after)
			}
		})
	}
}
