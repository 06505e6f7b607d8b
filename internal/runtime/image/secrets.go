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

// PodCredentials are the credentials that a pod has for an image.
type PodCredentials struct {
	List []keyring.Credential
	// Account is the pod's service account, if a plugin can turn it into credentials.
	Account *keyring.Account
}

// credentials are the credentials of a pod, and the problems with its pull secrets.
type credentials struct {
	PodCredentials
	problem string // with Secrets that could not be used
}

// hash is the same for pods that have the same credentials.
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

// credentialsOf finds the credentials of a pod for a repository. A Secret that is missing
// or broken is a problem only if the pull fails: the others may be enough.
func (m *Manager) credentialsOf(ctx context.Context, p *v1.Pod, repository string) credentials {
	var out credentials
	if m.Keyring != nil {
		// If that fails, Lookup fails for the same reason, and the pull reports it.
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

// secretNames returns the names of a pod's pull secrets. A static pod that names none has
// those of its service account; in a cluster they were put into the spec of other pods when
// they were created.
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
