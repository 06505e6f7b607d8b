// Package keyring finds the credentials for an image among those of a Secret or of the
// machine. It is pure: the content of the Secret or file is an argument.
//
// A ring has entries, each for a pattern such as *.example.test/team. Those that
// match an image are tried one after the other, the most specific first. Users know
// these rules from the kubelet.
//
// A Credential goes to the runtime, and never into an error or a log.
package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Credential is a login to a registry. The zero value is an anonymous one.
type Credential struct {
	Username, Password string
	IdentityToken      string // is exchanged for another token
	RegistryToken      string // is sent as it is
	Server             string // address of the registry, as configured

	// Secret is the pull secret with the credential, and Account the service account that it was
	// issued to. If both are nil, the credential is that of the machine, and all pods of the node
	// may use it.
	Secret  *Secret
	Account *Account
}

// Account names a service account.
type Account struct{ Namespace, Name, UID string }

// Secret names the object that a credential was found in.
type Secret struct{ Namespace, Name, UID string }

// Anonymous reports whether nothing is shown at all.
func (c Credential) Anonymous() bool {
	return c.Username == "" && c.Password == "" && c.IdentityToken == "" && c.RegistryToken == ""
}

// Hash distinguishes credentials without showing them. Where they come from does not
// matter to it.
func (c Credential) Hash() string {
	text, err := json.Marshal([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// LogValue implements slog.LogValuer: no log holds a credential.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String says where a credential comes from, and nothing of what it is.
func (c Credential) String() string {
	switch {
	case c.Anonymous():
		return "no credentials"
	case c.Secret != nil:
		return fmt.Sprintf("secret %s/%s", c.Secret.Namespace, c.Secret.Name)
	case c.Account != nil:
		return fmt.Sprintf("credentials of service account %s/%s", c.Account.Namespace, c.Account.Name)
	}
	return "credentials of the node"
}

// Entry is a credential, and the images that it is for.
type Entry struct {
	Pattern    string
	Credential Credential
}

// Ring is entries of one origin, or of several whose order does not matter.
type Ring []Entry

// Lookup returns the credentials for a repository, which is the name of an image
// without tag and digest. The most specific comes first, and none comes twice.
func (r Ring) Lookup(repository string) []Credential {
	type found struct {
		pattern    string
		credential Credential
	}
	var all []found
	for _, e := range r {
		pattern := NormalizePattern(e.Pattern)
		if Match(pattern, repository) || (pattern == indexHost() && hostOf(repository) == defaultHost()) {
			all = append(all, found{pattern, e.Credential})
		}
	}
	// Longer patterns of one host come first, and so do hosts without a wildcard.
	slices.SortStableFunc(all, func(a, b found) int { return strings.Compare(b.pattern, a.pattern) })
	var out []Credential
	seen := map[string]bool{}
	for _, f := range all {
		if hash := f.credential.Hash(); !seen[hash] {
			seen[hash] = true
			out = append(out, f.credential)
		}
	}
	return out
}

// Repository is the full name of an image without its tag and digest. It fails for
// what can't be the name of an image.
func Repository(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	return reference.TrimNamed(named).Name(), nil
}

// defaultHost is the registry of images that name none.
func defaultHost() string {
	name, err := Repository("image")
	if err != nil {
		return ""
	}
	return hostOf(name)
}

// indexHost is by which name the tools of that registry keep its credentials.
func indexHost() string { return "index." + defaultHost() }

func hostOf(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	return host
}

// FullName is the name of an image as runtimes keep it: with its registry, and with a
// tag if it has neither tag nor digest.
func FullName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}
