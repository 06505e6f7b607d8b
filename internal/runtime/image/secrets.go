package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// Shown is what a pod can show for an image by itself.
type Shown struct {
	List []keyring.Credential
	// Account is its service account, if the machine can turn that into credentials.
	Account *keyring.Account
}

// credentials are what a pod can show.
type credentials struct {
	Shown
	problem string // with Secrets that could not be used
}

// hash tells pods apart that can show different things.
func (c credentials) hash() string {
	if len(c.List) == 0 && c.Account == nil {
		return ""
	}
	sum := sha256.New()
	for _, one := range c.List {
		sum.Write([]byte(one.Hash()))
	}
	if a := c.Account; a != nil {
		_, _ = fmt.Fprintf(sum, "account %s/%s %s", a.Namespace, a.Name, a.UID)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// credentialsOf finds what a pod can show for a repository. A Secret that is missing
// or broken is a problem only if the pull fails: the others may do.
func (m *Manager) credentialsOf(ctx context.Context, p *v1.Pod, repository string) credentials {
	var out credentials
	if m.Keyring != nil {
		// If that fails, the pull does so for the same reason, and says it.
		out.Account, _ = m.Keyring.Account(ctx, repository, p)
	}
	if m.Objects == nil {
		return out
	}
	var ring keyring.Ring
	var problems []string
	for _, name := range m.secretNames(ctx, p) {
		s, err := m.Objects.Secret(ctx, p, name)
		switch {
		case apierrors.IsNotFound(err):
			problems = append(problems, fmt.Sprintf("%s/%s not found", p.Namespace, name))
		case err != nil:
			problems = append(problems, err.Error())
		default:
			more, err := keyring.FromSecret(s)
			ring = append(ring, more...)
			if err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	out.List, out.problem = ring.Lookup(repository), strings.Join(problems, "; ")
	return out
}

// secretNames are those that a pod names. A pod that names none has those of its
// service account; in a cluster they were put into its spec when it was made.
func (m *Manager) secretNames(ctx context.Context, p *v1.Pod) []string {
	from := p.Spec.ImagePullSecrets
	if len(from) == 0 && pod.IsStatic(p) {
		name := p.Spec.ServiceAccountName
		if name == "" {
			name = "default"
		}
		if account, err := m.Objects.ServiceAccount(ctx, p, name); err == nil {
			from = account.ImagePullSecrets
		}
	}
	var out []string
	for _, s := range from {
		if s.Name != "" {
			out = append(out, s.Name)
		}
	}
	return out
}
