package cert

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
)

// joined is a node with a certificate that it renews.
type joined struct {
	*Client
	server  *api
	log     *logged
	dir     string
	changes atomic.Int32
	askedAs atomic.Pointer[tls.Certificate]
	stop    func()
}

// join makes a node with a certificate of this life, and lets it run.
func join(t *testing.T, life time.Duration) *joined {
	t.Helper()
	c, log := newNode(t)
	j := &joined{server: newAPI(t, "approve", life), log: log, dir: c.CertDir}
	must(t, c.bootstrap(t.Context(), j.server.connect))
	file := filepath.Join(c.CertDir, "kubelet-client-current.pem")
	var err error
	j.Client, err = newClient(c, rest.TLSClientConfig{CertFile: file, KeyFile: file}, func(current *tls.Certificate) (certificatesv1.CertificatesV1Interface, error) {
		j.askedAs.Store(current)
		return j.server, nil
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go j.Run(ctx, func() { j.changes.Add(1) })
	j.stop = func() { end(cancel, life) }
	return j
}

// end waits for client-go's manager, which notices that it was stopped only when a
// certificate is due.
func end(stop func(), life time.Duration) {
	stop()
	time.Sleep(life)
}

func TestACertificateIsRenewedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = 24 * time.Hour
		j := join(t, life)
		defer j.stop()
		first := j.Certificate()

		time.Sleep(life * 69 / 100)
		if j.Certificate() != first || j.changes.Load() != 0 {
			t.Fatal("it was renewed too early")
		}
		time.Sleep(life * 22 / 100)
		second := j.Certificate()
		if second == first || j.changes.Load() != 1 {
			t.Fatalf("it was not renewed: reported %d times", j.changes.Load())
		}
		if j.askedAs.Load() == nil {
			t.Error("it was not asked for with the one before")
		}
		stored, err := tls.LoadX509KeyPair(filepath.Join(j.dir, "kubelet-client-current.pem"), filepath.Join(j.dir, "kubelet-client-current.pem"))
		must(t, err)
		if !stored.Leaf.Equal(second.Leaf) {
			t.Error("the file has another one")
		}

		// It goes on so, and old ones do not pile up.
		time.Sleep(10 * life)
		if expired(j.Certificate(), time.Now()) {
			t.Error("it has expired")
		}
		files, err := os.ReadDir(j.dir)
		must(t, err)
		if len(files) != 3 { // two, and the link
			t.Errorf("files: %v", files)
		}
	})
}

func TestAnOutageIsLoggedOnceAndOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = 24 * time.Hour
		j := join(t, life)
		defer j.stop()
		before := j.log.lines()

		// It is away until the certificate has expired.
		j.server.setAway(errors.New("dial tcp 10.0.0.1:6443: connection refused"))
		time.Sleep(life + time.Hour)
		if !expired(j.Certificate(), time.Now()) {
			t.Fatal("there is nobody who could have renewed it")
		}
		if n := j.log.lines() - before; n != 1 {
			t.Errorf("%d lines", n)
		}
		if j.askedAs.Load() != nil {
			t.Error("it is asked for with one that has expired")
		}

		j.server.setAway(nil)
		time.Sleep(time.Minute)
		if expired(j.Certificate(), time.Now()) || j.changes.Load() != 1 {
			t.Error("the server is back, and the certificate was not renewed")
		}
	})
}

func TestADeniedRenewalIsLoggedOnceAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = 24 * time.Hour
		j := join(t, life)
		defer j.stop()
		j.server.set("deny")
		time.Sleep(life * 95 / 100)
		if n := j.log.count("denied, reason: Policy, message: not you"); n != 1 {
			t.Errorf("it was said %d times", n)
		}
		j.server.set("approve")
		time.Sleep(time.Minute)
		if j.changes.Load() != 1 {
			t.Error("it was not renewed")
		}
	})
}

func TestOnlyOwnCertificatesAreRenewed(t *testing.T) {
	ca := newAuthority(t)
	inline := func(name string, life time.Duration) string {
		cert, key := ca.pair(t, name, life)
		return fmt.Sprintf("client-certificate-data: %s, client-key-data: %s",
			base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key))
	}
	for name, given := range map[string]struct {
		user   string
		rotate bool
		want   bool
	}{
		"of this node":       {inline("system:node:one", time.Hour), true, true},
		"expired":            {inline("system:node:one", -time.Hour), true, true},
		"not to be renewed":  {inline("system:node:one", time.Hour), false, false},
		"of somebody else":   {inline("admin", time.Hour), true, false},
		"a token":            {"token: abc", true, false},
		"of another machine": {inline("system:node:two", time.Hour), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newNode(t)
			c.Rotate = given.rotate
			write(t, c.Kubeconfig, []byte(strings.Replace(bootstrapText, "token: abc", given.user, 1)))
			got, err := NewClient(c)
			must(t, err)
			if (got != nil) != given.want {
				t.Fatalf("got %v", got)
			}
			if got != nil && got.Certificate() == nil {
				t.Error("there is nothing to show")
			}
		})
	}
}

func TestABrokenClientCertificateIsAnError(t *testing.T) {
	c, _ := newNode(t)
	broken := write(t, filepath.Join(c.CertDir, "kubelet-client-current.pem"), []byte("half"))
	write(t, c.Kubeconfig, []byte(strings.Replace(bootstrapText, "token: abc", fmt.Sprintf("client-certificate: %s, client-key: %s", broken, broken), 1)))
	if _, err := NewClient(c); err == nil || !strings.Contains(err.Error(), c.Kubeconfig) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAnyCredentialsTheErrorSaysWhatToDo(t *testing.T) {
	c, _ := newNode(t)
	c.BootstrapKubeconfig = ""
	if _, err := c.requestClient()(nil); !errors.Is(err, errNoCredentials) {
		t.Errorf("got %v", err)
	}
}

func TestOneWhoseCertificateHasExpiredAsksAsANewNode(t *testing.T) {
	c, log := newNode(t)
	ask := c.requestClient()
	for range 3 {
		if as, err := ask(nil); as == nil || err != nil {
			t.Fatalf("got %v", err)
		}
	}
	if n := log.count("has expired"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

func TestAPairInUseIsNeverWrittenOver(t *testing.T) {
	log, _ := newLog(t)
	s, err := newStore(t.TempDir(), "kubelet-client", nil, &report{log: log}, func(*tls.Certificate) {})
	must(t, err)
	ca := newAuthority(t)
	var files []string
	for range 2 {
		_, err = s.Update(ca.pair(t, "system:node:one", time.Hour))
		must(t, err)
		file, err := os.Readlink(s.CurrentPath())
		must(t, err)
		files = append(files, file)
	}
	if files[0] == files[1] {
		t.Errorf("the pair in use was written over: %s", files[0])
	}

	s.close()
	if _, err := s.Update(ca.pair(t, "system:node:one", time.Hour)); !errors.Is(err, errClosed) {
		t.Errorf("something is written after the end: %v", err)
	}
}

func TestAClockThatWasSetStartsTheManagerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := newLog(t)
		var started, stopped atomic.Int32
		var ahead atomic.Int64
		r := &renewal{
			store: &store{report: &report{log: log}},
			clock: func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) },
			start: func() func() {
				started.Add(1)
				return func() { stopped.Add(1) }
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.run(ctx)

		time.Sleep(24 * time.Hour)
		if n := started.Load(); n != 1 {
			t.Fatalf("started %d times", n)
		}
		for again, by := range []time.Duration{time.Hour, -time.Hour} {
			ahead.Add(int64(by))
			time.Sleep(time.Hour)
			if s, e := int(started.Load()), int(stopped.Load()); s != again+2 || e != again+1 {
				t.Fatalf("started %d times, stopped %d", s, e)
			}
		}
		cancel()
		synctest.Wait()
		if n := stopped.Load(); n != 3 {
			t.Errorf("stopped %d times", n)
		}
	})
}
