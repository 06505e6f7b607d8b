package keyring

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, repository string
		want                bool
	}{
		{"localhost", "localhost/app", true},
		{"https://localhost/v1/", "localhost/app", true},
		{"http://localhost/v2", "localhost/app", true},
		{"localhost:5000", "localhost/app", false},
		{"localhost", "localhost:5000/app", false},
		{"localhost:5000", "localhost:5000/app", true},
		{"localhost/team", "localhost/team/app", true},
		{"localhost/team", "localhost/app", false},
		{"*.test", "one.test/app", true},
		{"*.test", "two.one.test/app", false},
		{"*.*.test", "two.one.test/app", true},
		{"r*.one.test", "registry.one.test/app", true},
		{"r*.one.test:443", "registry.one.test/app", false},
		{"*", "localhost/app", true},
		{"[", "localhost/app", false},
		{"", "localhost/app", false},
	} {
		if got := Match(c.pattern, c.repository); got != c.want {
			t.Errorf("%q for %q: got %v", c.pattern, c.repository, got)
		}
	}
	if ValidatePattern("[") == nil || ValidatePattern("*.test/team") != nil {
		t.Error("a broken pattern is taken for a good one")
	}
}

func TestTheMostSpecificComesFirstAndAllComeOnce(t *testing.T) {
	entry := func(pattern, user string) Entry {
		return Entry{pattern, Credential{Username: user, Password: "x"}}
	}
	ring := Ring{
		entry("*.test", "any"), entry("a.test", "host"), entry("a.test/team", "team"), entry("a.test/team/app", "app"),
		entry("a.test/other", "other"), entry("https://a.test/v1/", "host"), entry("b.test", "b"),
	}
	var got []string
	for _, c := range ring.Lookup("a.test/team/app") {
		got = append(got, c.Username)
	}
	if want := []string{"app", "team", "host", "any"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Images that name no registry are of the one that tools log in to by another name.
func TestTheDefaultRegistryHasTwoNames(t *testing.T) {
	name, err := Repository("app:1")
	if err != nil {
		t.Fatal(err)
	}
	ring := Ring{{"https://" + indexHost() + "/v1/", Credential{Username: "me"}}}
	if len(ring.Lookup(name)) != 1 || len(ring.Lookup("localhost/app")) != 0 {
		t.Errorf("got %v for %s", ring.Lookup(name), name)
	}
}

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"localhost/app:1": "localhost/app", "localhost:5000/a/b@sha256:" + strings.Repeat("0", 64): "localhost:5000/a/b",
	} {
		if got, err := Repository(image); got != want || err != nil {
			t.Errorf("%s: got %q, %v", image, got, err)
		}
	}
	if _, err := Repository("localhost/UPPER"); err == nil {
		t.Error("an impossible name has a repository")
	}
}

func TestParse(t *testing.T) {
	const entries = `{"a.test":{"auth":"dXNlcjpwYTpzcw=="},"b.test":{"auth":"dXNlcjpwYXNz"},"c.test":{"username":"u","password":"p"},
		"d.test":{"identitytoken":"t"},"e.test":{}}`
	for name, parse := range map[string]func() (Ring, error){
		"new":    func() (Ring, error) { return Parse([]byte(`{"auths":` + entries + `,"credsStore":"x"}`)) },
		"legacy": func() (Ring, error) { return ParseLegacy([]byte(entries)) },
	} {
		ring, err := parse()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range ring {
			got = append(got, fmt.Sprint(e.Pattern, " ", e.Credential.Username, " ", e.Credential.Password, " ", e.Credential.IdentityToken))
		}
		want := []string{"a.test user pa:ss ", "b.test user pass ", "c.test u p ", "d.test   t"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestBrokenEntriesDoNotSpoilTheOthers(t *testing.T) {
	ring, err := Parse([]byte(`{"auths":{"a.test":{"auth":"%%%"},"b.test":{"auth":"dXNlcg=="},"c.test":{"auth":"dXNlcjpwYXNz"}}}`))
	if len(ring) != 1 || err == nil || !strings.Contains(err.Error(), "a.test") || !strings.Contains(err.Error(), "b.test") {
		t.Errorf("got %v, %v", ring, err)
	}
	if _, err := Parse([]byte(`secret`)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if _, err := ParseLegacy([]byte(`[]`)); err == nil {
		t.Error("a list was taken")
	}
}

func TestSecrets(t *testing.T) {
	secret := func(kind v1.SecretType, key, text string) *v1.Secret {
		return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u"}, Type: kind, Data: map[string][]byte{key: []byte(text)}}
	}
	for _, s := range []*v1.Secret{
		secret(v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, `{"auths":{"a.test":{"auth":"dXNlcjpwYXNz"}}}`),
		secret(v1.SecretTypeDockercfg, v1.DockerConfigKey, `{"a.test":{"auth":"dXNlcjpwYXNz"}}`),
	} {
		ring, err := FromSecret(s)
		if err != nil || len(ring) != 1 || *ring[0].Credential.Secret != (Secret{"n", "s", "u"}) {
			t.Errorf("got %v, %v", ring, err)
		}
	}
	for _, s := range []*v1.Secret{secret(v1.SecretTypeOpaque, "", ""), secret(v1.SecretTypeDockerConfigJson, "other", "{}")} {
		if _, err := FromSecret(s); err == nil || !strings.Contains(err.Error(), "n/s") {
			t.Errorf("got %v", err)
		}
	}
}

func TestACredentialIsNotPrinted(t *testing.T) {
	c := Credential{Username: "user", Password: "hunter2", Secret: &Secret{Namespace: "n", Name: "s"}}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "with", c)
	if text := log.String() + fmt.Sprint(c) + fmt.Sprintf("%+v", c); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
	if c.Hash() == (Credential{Username: "user", Password: "other"}).Hash() || c.Hash() != (Credential{Username: "user", Password: "hunter2"}).Hash() {
		t.Error("the hash does not tell by what is shown")
	}
}
