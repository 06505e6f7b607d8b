package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	plugin "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// exchanging is a plugin that turns a token into a password, and records each request.
const exchanging = `#!/bin/sh
request=$(cat); echo "$request" >> "$0.asked"
token=$(echo "$request" | sed -n 's/.*"serviceAccountToken":"\([^"]*\)".*/\1/p')
cat <<END
{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
 "auth":{"*.test":{"username":"robot","password":"key of $token"}}}
END
`

// echoing answers with the token itself.
var echoing = strings.Replace(exchanging, "key of ", "", 1)

// wanting is the configuration of a plugin that wants to know service accounts.
func wanting(attributes string) string {
	return strings.Replace(fmt.Sprintf(config, "10m"), "  args: [get]", "  tokenAttributes: {serviceAccountTokenAudience: hub, "+attributes+"}", 1)
}

// people are service accounts with a role.
type people struct{ refuses error }

func (*people) ServiceAccount(_ context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error) {
	switch name {
	case "nobody":
		return nil, apierrors.NewNotFound(v1.Resource("serviceaccounts"), name)
	case "unknown":
		return nil, errors.New("connection refused")
	}
	a := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: types.UID("uid of " + name)}}
	if name != "plain" {
		a.Annotations = map[string]string{"test/role": "of " + name, "other": "x"}
	}
	return a, nil
}

func (w *people) Token(_ context.Context, p *v1.Pod, audience string, _ int64) (token string, expires, refreshAt time.Time, err error) {
	return fmt.Sprintf("%s:%s:%s", audience, p.Spec.ServiceAccountName, p.Name), time.Time{}, time.Time{}, w.refuses
}

// of is a pod of a cluster with a service account.
func of(account, name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.ServiceAccountName = account
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceAPI}
	return p
}

func TestAPluginIsHandedATokenOfThePod(t *testing.T) {
	// given a plugin whose answers are good for all pods of an account
	plugins, program, err := plugins(t, wanting("cacheType: ServiceAccount, requireServiceAccount: true, optionalServiceAccountAnnotationKeys: [test/role]"), exchanging)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := newKeyring(t, Config{Plugins: plugins, Accounts: &people{}})

	// when pods of two accounts ask
	for _, p := range []*v1.Pod{of("alice", "a"), of("alice", "b"), of("plain", "c")} {
		got, err := n.Lookup(t.Context(), "a.test/app", p)
		if err != nil || len(got) != 1 || !strings.HasPrefix(got[0].Password, "key of hub:"+p.Spec.ServiceAccountName) {
			t.Fatalf("%s: got %v, %v", p.Name, got, err)
		}
		want := keyring.Account{Namespace: "ns", Name: p.Spec.ServiceAccountName, UID: "uid of " + p.Spec.ServiceAccountName}
		if a := got[0].Account; a == nil || *a != want || got[0].Secret != nil {
			t.Errorf("%s: it is for %v, want %v", p.Name, a, want)
		}
		if a, err := n.Account(t.Context(), "a.test/app", p); err != nil || a == nil || *a != want {
			t.Errorf("%s: got %v, %v", p.Name, a, err)
		}
		if a, err := n.Account(t.Context(), "localhost/app", p); err != nil || a != nil {
			t.Errorf("%s: got %v, %v", p.Name, a, err)
		}
	}

	// then it is asked once for each, with the attributes that it wants
	asked := requests(t, program)
	if len(asked) != 2 || asked[0].ServiceAccountToken != "hub:alice:a" || asked[1].ServiceAccountToken != "hub:plain:c" {
		t.Fatalf("asked %+v", asked)
	}
	if a := asked[0].ServiceAccountAnnotations; len(a) != 1 || a["test/role"] != "of alice" || len(asked[1].ServiceAccountAnnotations) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

func requests(t *testing.T, program string) (out []plugin.CredentialProviderRequest) {
	t.Helper()
	text, err := os.ReadFile(program + ".asked")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r plugin.CredentialProviderRequest
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestForWhomAPluginIsAsked(t *testing.T) {
	static := of("alice", "static")
	static.Annotations[pod.AnnotationSource] = pod.SourceFile
	same := []*v1.Pod{of("alice", "a"), of("alice", "b")}
	for name, c := range map[string]struct {
		attributes string
		script     string
		accounts   people
		pods       []*v1.Pod
		asked      int
		want       string // in the error of the last; empty: there is none
	}{
		"a token is good for one pod":     {"cacheType: Token, requireServiceAccount: true", exchanging, people{}, same, 2, ""},
		"and kept for it":                 {"cacheType: Token, requireServiceAccount: true", exchanging, people{}, []*v1.Pod{same[0], same[0]}, 1, ""},
		"a token may be the password":     {"cacheType: Token, requireServiceAccount: true", echoing, people{}, same[:1], 1, ""},
		"but not of all pods":             {"cacheType: ServiceAccount, requireServiceAccount: true", echoing, people{}, same[:1], 1, "cacheType Token"},
		"no account, and one is required": {"cacheType: Token, requireServiceAccount: true", exchanging, people{}, []*v1.Pod{of("", "a"), static, nil}, 0, ""},
		"no account, and none is needed":  {"cacheType: Token, requireServiceAccount: false", exchanging, people{}, []*v1.Pod{of("", "a"), static, nil}, 1, ""},
		"an annotation is missing": {
			"cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [test/role]", exchanging,
			people{},
			[]*v1.Pod{of("plain", "a")},
			0, "whose service account lacks the annotation test/role",
		},
		"an account is missing": {"cacheType: Token, requireServiceAccount: true", exchanging, people{}, []*v1.Pod{of("nobody", "a")}, 0, `"nobody" not found`},
		"a token is refused":    {"cacheType: Token, requireServiceAccount: true", exchanging, people{errors.New("forbidden")}, same[:1], 0, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			plugins, program, err := plugins(t, wanting(c.attributes), c.script)
			if err != nil {
				t.Fatal(err)
			}
			n, log := newKeyring(t, Config{Plugins: plugins, Accounts: &c.accounts})
			for _, p := range c.pods {
				_, err = n.Lookup(t.Context(), "a.test/app", p)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if asked := requests(t, program); len(asked) != c.asked {
				t.Errorf("asked %+v", asked)
			}
			if log.Len() != 0 { // pods tell it
				t.Errorf("the log is:\n%s", log)
			}
		})
	}
}

func TestAnAudienceThatNodesMayNotHaveTokensFor(t *testing.T) {
	plugins, _, err := plugins(t, wanting("cacheType: Token, requireServiceAccount: true"), exchanging)
	if err != nil {
		t.Fatal(err)
	}
	for why, hint := range map[string]bool{
		`audience "hub" not found in pod spec volume, system:node:one is not authorized to request tokens for this audience`: true,
		"node requested token bound to a pod scheduled on a different node":                                                  false,
	} {
		n, _ := newKeyring(t, Config{Plugins: plugins, Accounts: &people{apierrors.NewForbidden(v1.Resource("serviceaccounts"), "alice", errors.New(why))}})

		_, err := n.Lookup(t.Context(), "a.test/app", of("alice", "a"))

		if err == nil || !strings.Contains(err.Error(), why) {
			t.Fatalf("got %v, want %q", err, why)
		}
		if got := strings.Contains(err.Error(), `the verb request-serviceaccounts-token-audience on the resource "hub"`); got != hint {
			t.Errorf("it says what to do: %t, want %t: %v", got, hint, err)
		}
	}
}

func TestAccountsThatCannotBeRead(t *testing.T) {
	plugins, _, err := plugins(t, wanting("cacheType: Token, requireServiceAccount: true"), exchanging)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := newKeyring(t, Config{Plugins: plugins, Accounts: &people{}})

	// an account that is not there has no credentials
	if a, err := n.Account(t.Context(), "a.test/app", of("nobody", "a")); a != nil || err == nil {
		t.Errorf("got %v, %v", a, err)
	}
	// without an API server, its name has to do
	want := keyring.Account{Namespace: "ns", Name: "unknown"}
	if a, err := n.Account(t.Context(), "a.test/app", of("unknown", "a")); a == nil || *a != want || err != nil {
		t.Errorf("got %v, %v, want %v", a, err, want)
	}
}

func TestTokenAttributesThatAreRefused(t *testing.T) {
	for attributes, want := range map[string]string{
		"cacheType: Token": "requireServiceAccount is required",
		"cacheType: Pod, requireServiceAccount: true": `cacheType is "Pod"`,
		"requireServiceAccount: true":                 "cacheType",
		"cacheType: Token, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]":         "needs requireServiceAccount",
		"cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: ['a b']":      "annotation",
		"cacheType: Token, requireServiceAccount: true, optionalServiceAccountAnnotationKeys: [a, b, a]":    "named twice",
		"cacheType: Token, requireServiceAccount: true, serviceAccountTokenAudience: ''":                    "serviceAccountTokenAudience",
		"cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [a], more: 1": "more",
	} {
		text := wanting(attributes)
		if strings.Contains(attributes, "serviceAccountTokenAudience") {
			text = strings.Replace(text, "serviceAccountTokenAudience: hub, ", "", 1)
		}
		if _, _, err := plugins(t, text, exchanging); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", attributes, err, want)
		}
	}
	p, _, err := plugins(t, wanting("cacheType: Token, requireServiceAccount: true"), exchanging)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := newKeyring(t, Config{})
	if _, err := New(Config{Plugins: p, Log: c.Log}); err == nil {
		t.Error("nobody has tokens, and nobody said so")
	}
}
