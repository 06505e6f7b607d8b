//go:build real

package api

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
)

// mustCopy has kubectl copy a folder into a pod, and out again.
func mustCopy(t *testing.T, l *lab.Lab, pod string) {
	t.Helper()
	here, back := filepath.Join(t.TempDir(), "site"), filepath.Join(t.TempDir(), "back")
	kit.Must(t, os.MkdirAll(filepath.Join(here, "sub"), 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(here, "page"), []byte("hello"), 0o600))
	kit.Must(t, os.WriteFile(filepath.Join(here, "sub", "large"), []byte(strings.Repeat("0123456789abcdef", 1<<16)), 0o751))
	for _, args := range [][]string{{"cp", here, pod + ":/www"}, {"cp", pod + ":/www", back}} {
		ctx, cancel := context.WithTimeout(t.Context(), kit.WaitTimeout)
		defer cancel()
		_, err := l.Kubectl(ctx, args...)
		kit.Must(t, err)
	}
	if out, err := exec.Command("diff", "-r", here, back).CombinedOutput(); err != nil {
		t.Errorf("what came back is not the same: %v: %s", err, out)
	}
}

// mustReachFromAfar runs berth's own commands against a node, with a client certificate, as from
// another machine.
func mustReachFromAfar(t *testing.T, l *lab.Lab, n *lab.Node, pod string) {
	t.Helper()
	dir := t.TempDir()
	config, err := l.RESTConfig(control.Admin())
	kit.Must(t, err)
	cert, key := filepath.Join(dir, "me.crt"), filepath.Join(dir, "me.key")
	kit.Must(t, os.WriteFile(cert, config.CertData, 0o600))
	kit.Must(t, os.WriteFile(key, config.KeyData, 0o600))
	server := []string{"--server", "https://" + net.JoinHostPort(n.Address, "10250")}
	me := []string{"--client-certificate", cert, "--client-key", key, "--insecure-skip-tls-verify"}
	berth := func(flags []string, command string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), kit.ShortTimeout)
		defer cancel()
		args := strings.Fields(command)
		at := slices.Index(args, "--")
		if at < 0 {
			at = len(args)
		}
		args = slices.Insert(args, at, append(server, flags...)...)
		var out []byte
		err := l.Namespace().Inside(func() (err error) {
			out, err = exec.CommandContext(ctx, filepath.Join(fixture.BinDir(), "berth"), args...).CombinedOutput()
			return err
		})
		return string(out), err
	}

	for command, want := range map[string]string{
		"get pods":                         `(?m)^` + pod + ` +1/1 +Running `,
		"get pods " + pod + " -o name":     `^pod/` + pod + "\n$",
		"describe pod " + pod:              `(?s)Name: +` + pod + `\n.*Events: +<not in the node API`,
		"logs " + pod + " -c app --tail 2": `^line 99\nline 100\n$`,
		"top pods":                         `(?m)^` + pod + ` +\d+m +\d+Mi$`,
		"top node":                         `(?m)^one +\d+m `,
		"exec " + pod + " -c app -- /workload complain hello 0": `^hello
?$`,
	} {
		out, err := berth(me, command)
		if err != nil {
			t.Errorf("berth %s: %v: %.500s", command, err, out)
			continue
		}
		kit.MustMatch(t, "berth "+command, out, want)
	}
	for name, c := range map[string]struct {
		flags   []string
		command string
		want    string
	}{
		"nobody":              {[]string{"--insecure-skip-tls-verify"}, "get pods", `does not know who you are: give a certificate`},
		"another name":        {me[:4], "get pods", `does not have that name`},
		"not in the node API": {me, "get events", `run it on the machine itself`},
		"a pod that is none":  {me, "logs nope", `pod "nope" not found`},
	} {
		out, err := berth(c.flags, c.command)
		if err == nil {
			t.Errorf("%s: it says %s", name, out)
		}
		kit.MustMatch(t, name, out, c.want)
	}
}
