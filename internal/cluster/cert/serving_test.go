package cert

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/logonce"
	"berth/internal/lib/statefile"
)

// addresses of a node that may get others.
type addresses struct {
	atomic.Pointer[[]v1.NodeAddress]
}

func (a *addresses) get() []v1.NodeAddress {
	if list := a.Load(); list != nil {
		return *list
	}
	return nil
}

func (a *addresses) set(list ...v1.NodeAddress) { a.Store(&list) }

func ip(a string) v1.NodeAddress { return v1.NodeAddress{Type: v1.NodeInternalIP, Address: a} }

func newServingConfig(t *testing.T) (ServingConfig, *addresses, *logged) {
	log, text := newLog(t)
	a := &addresses{}
	state, err := statefile.New(statefile.Config{Log: log})
	must(t, err)
	return ServingConfig{Node: "one", CertDir: filepath.Join(t.TempDir(), "pki"), Addresses: a.get, State: state, Log: log}, a, text
}

func shown(t *testing.T, s *Serving) *tls.Certificate {
	t.Helper()
	pair, err := s.GetCertificate(nil)
	must(t, err)
	return pair
}

func TestNamesOfANode(t *testing.T) {
	got := namesOf([]v1.NodeAddress{
		ip("10.0.0.2"),
		ip("10.0.0.1"),
		ip("10.0.0.1"),
		ip("fd00::1"),
		ip(""),
		ip("oops"),
		{Type: v1.NodeHostName, Address: "one"},
		{Type: v1.NodeInternalDNS, Address: "one.example"},
		{Type: v1.NodeHostName, Address: "one"},
		{Type: v1.NodeHostName, Address: "10.0.0.3"},
	})
	want := names{
		hosts:     []string{"one", "one.example"},
		addresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("10.0.0.2"), net.ParseIP("10.0.0.3"), net.ParseIP("fd00::1")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestServingNeedsToKnowEnough(t *testing.T) {
	for name, given := range map[string]struct {
		change func(*ServingConfig)
		want   string
	}{
		"no node":        {func(c *ServingConfig) { c.Node = "" }, "Node"},
		"no addresses":   {func(c *ServingConfig) { c.Addresses = nil }, "Addresses"},
		"no folder":      {func(c *ServingConfig) { c.CertDir = "" }, "CertDir"},
		"half a pair":    {func(c *ServingConfig) { c.CertFile = "a" }, "tlsPrivateKeyFile"},
		"no such files":  {func(c *ServingConfig) { c.CertFile, c.KeyFile = "/none.crt", "/none.key" }, "/none.crt"},
		"no cluster":     {func(c *ServingConfig) { c.Bootstrap = true }, "no cluster"},
		"no such folder": {func(c *ServingConfig) { c.CertDir = "/dev/null/pki" }, "/dev/null"},
	} {
		c, _, _ := newServingConfig(t)
		given.change(&c)
		if _, err := NewServing(c); err == nil || !strings.Contains(err.Error(), given.want) {
			t.Errorf("%s: got %v, want something with %q", name, err, given.want)
		}
	}
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, log := newServingConfig(t)
		ca := newAuthority(t)
		dir := t.TempDir()
		c.CertFile, c.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		put := func(path string, data []byte) { // as good tools do
			write(t, path+".tmp", data)
			must(t, os.Rename(path+".tmp", path))
		}
		cert, key := ca.pair(t, "first", time.Hour)
		put(c.CertFile, cert)
		put(c.KeyFile, key)
		s, err := NewServing(c)
		must(t, err)
		is := func(name string) {
			t.Helper()
			time.Sleep(fileCheckInterval)
			if got := shown(t, s).Leaf.Subject.CommonName; got != name {
				t.Errorf("shows %s, want %s", got, name)
			}
		}
		is("first")

		// One file is replaced before the other.
		cert, key = ca.pair(t, "second", time.Hour)
		put(c.CertFile, cert)
		is("first")
		is("first")
		put(c.KeyFile, key)
		is("second")

		// They are gone for a while, later.
		time.Sleep(logonce.Pause)
		must(t, os.Remove(c.KeyFile))
		is("second")
		is("second")
		cert, key = ca.pair(t, "third", time.Hour)
		put(c.KeyFile, key)
		put(c.CertFile, cert)
		is("third")

		if n := log.lines(); n != 4 {
			t.Errorf("%d lines for two times of trouble and their end", n)
		}
	})
}

func TestTheClusterSignsForTheAddressesOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Hour
		c, where, log := newServingConfig(t)
		server := newAPI(t, "wait", life)
		c.Bootstrap, c.CSRs = true, server
		s, err := NewServing(c)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer end(cancel, life)
		go s.Run(ctx)

		// Nothing is asked for while there are no addresses.
		time.Sleep(time.Minute)
		if n := server.requested(); n != 0 {
			t.Fatalf("%d requests", n)
		}
		if _, err := s.GetCertificate(nil); err == nil {
			t.Fatal("there can be none")
		}

		// It has to be approved.
		where.set(ip("10.0.0.1"), v1.NodeAddress{Type: v1.NodeHostName, Address: "one"})
		time.Sleep(time.Minute)
		request := server.newest()
		if request.Spec.SignerName != certificates.KubeletServingSignerName {
			t.Errorf("it is for %s", request.Spec.SignerName)
		}
		if n := log.count("kubectl certificate approve " + request.Name); n != 1 {
			t.Errorf("it was said %d times how to approve it", n)
		}
		server.set("approve")
		time.Sleep(time.Second)
		first := shown(t, s)
		if err := first.Leaf.VerifyHostname("10.0.0.1"); err != nil {
			t.Error(err)
		}
		if err := first.Leaf.VerifyHostname("one"); err != nil {
			t.Error(err)
		}

		// It is asked for again when the addresses change, and before it expires.
		where.set(ip("10.0.0.2"))
		time.Sleep(5 * time.Second)
		second := shown(t, s)
		if err := second.Leaf.VerifyHostname("10.0.0.2"); err != nil {
			t.Error(err)
		}
		time.Sleep(life * 91 / 100)
		if third := shown(t, s); third == second {
			t.Error("it was not renewed")
		}
		if n := server.requested(); n != 3 {
			t.Errorf("%d requests", n)
		}

		// It is there again after a restart.
		cancel()
		again, err := NewServing(c)
		must(t, err)
		if !shown(t, again).Leaf.Equal(shown(t, s).Leaf) {
			t.Error("it is another one after a restart")
		}
	})
}

func TestABrokenServingPairIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, where, _ := newServingConfig(t)
		where.set(ip("10.0.0.1"))
		c.Bootstrap, c.CSRs = true, newAPI(t, "approve", time.Hour)
		half := write(t, filepath.Join(c.CertDir, "kubelet-server-half.pem"), []byte("half"))
		must(t, os.Symlink(half, filepath.Join(c.CertDir, "kubelet-server-current.pem")))
		s, err := NewServing(c)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer end(cancel, time.Hour)
		go s.Run(ctx)
		time.Sleep(time.Minute)
		if shown(t, s) == nil {
			t.Error("there is none")
		}
	})
}

func TestANodeSignsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, where, _ := newServingConfig(t)
		s, err := NewServing(c)
		must(t, err)
		first := shown(t, s)
		must(t, first.Leaf.VerifyHostname("one"))
		if m := mode(t, filepath.Join(c.CertDir, "kubelet.key")); m != 0o600 {
			t.Errorf("the key can be read by others: %o", m)
		}

		// It is kept over a restart, but not if half of it was lost.
		again, err := NewServing(c)
		must(t, err)
		if !shown(t, again).Leaf.Equal(first.Leaf) {
			t.Error("a new one was made")
		}
		where.set(ip("10.0.0.1"))
		time.Sleep(nameCheckInterval)
		second := shown(t, s)
		must(t, second.Leaf.VerifyHostname("10.0.0.1"))
		must(t, second.Leaf.VerifyHostname("one"))

		write(t, filepath.Join(c.CertDir, "kubelet.key"), []byte("half"))
		if again, err = NewServing(c); err != nil || shown(t, again).Leaf.Equal(second.Leaf) {
			t.Errorf("it goes on with a key that is lost: %v", err)
		}

		// It is renewed in time.
		time.Sleep(time.Until(second.Leaf.NotAfter) - renewBefore + time.Minute)
		if third := shown(t, s); third == second {
			t.Error("it was not renewed")
		}
	})
}
