package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// Accounts are the service accounts of pods.
type Accounts interface {
	ServiceAccount(ctx context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error)
	// Token returns a token of the pod's service account, which is bound to the pod.
	Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error)
}

// tokenLife is the lifetime of a token for a plugin, in seconds.
const tokenLife = 3600

// identity is the service account for which a plugin is asked. It is empty for a plugin
// without tokenAttributes, and for a pod without a service account.
type identity struct {
	account     *keyring.Account
	annotations map[string]string // of the account, those that the plugin asks for
	token       string
	pod         string // UID
	lacks       string // an annotation, without which the plugin is not asked
}

// key is the part of the cache key that depends on the identity. With a cache type of
// ServiceAccount it is the same for all pods of an account.
func (i identity) key(kind kubeletconfig.ServiceAccountTokenCacheType) string {
	if i.account == nil {
		return ""
	}
	parts := []any{i.account, i.annotations}
	if kind == kubeletconfig.TokenServiceAccountTokenCacheType {
		parts = append(parts, i.pod, i.token)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// identityFor finds the account for which a plugin is asked, without its token. wanted is
// false if the plugin is not to be asked for such a pod. p is nil for a pull that is for no
// pod.
func (n *Node) identityFor(ctx context.Context, plugin *provider, p *v1.Pod) (id identity, wanted bool, err error) {
	want := plugin.TokenAttributes
	if want == nil {
		return identity{}, true, nil
	}
	if p == nil || p.Spec.ServiceAccountName == "" || pod.IsStatic(p) { // it has no account in a cluster
		return identity{}, !*want.RequireServiceAccount, nil
	}
	account, err := n.Accounts.ServiceAccount(ctx, p, p.Spec.ServiceAccountName)
	if err != nil {
		return identity{}, false, fmt.Errorf("find out about service account %s/%s: %w", p.Namespace, p.Spec.ServiceAccountName, err)
	}
	id.annotations = map[string]string{}
	for _, key := range want.RequiredServiceAccountAnnotationKeys {
		value, there := account.Annotations[key]
		if !there {
			return identity{lacks: key}, false, nil // that is how workloads are left out
		}
		id.annotations[key] = value
	}
	for _, key := range want.OptionalServiceAccountAnnotationKeys {
		if value, there := account.Annotations[key]; there {
			id.annotations[key] = value
		}
	}
	id.account = &keyring.Account{Namespace: p.Namespace, Name: account.Name, UID: string(account.UID)}
	id.pod = string(p.UID)
	return id, true, nil
}

// askFor asks a plugin on behalf of a pod.
func (n *Node) askFor(ctx context.Context, plugin *provider, repository string, p *v1.Pod) (keyring.Ring, error) {
	id, wanted, err := n.identityFor(ctx, plugin, p)
	if id.lacks != "" { // it names no account: pods of others may read it, who wait for the same pull
		return nil, fmt.Errorf("it is not asked for pods whose service account lacks the annotation %s", id.lacks)
	}
	if err != nil || !wanted {
		return nil, err
	}
	if id.account != nil {
		audience := plugin.TokenAttributes.ServiceAccountTokenAudience
		if id.token, _, _, err = n.Accounts.Token(ctx, p, audience, tokenLife); err != nil {
			return nil, withAdvice(err, audience)
		}
	}
	return plugin.ask(ctx, repository, id)
}

// withAdvice says what to do if the cluster does not let nodes have tokens for an
// audience. It lets them if a volume of the pod names it, or if a rule says so.
func withAdvice(err error, audience string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fmt.Sprintf("audience %q", audience)) {
		return err
	}
	return fmt.Errorf("%w: the administrator of the cluster has to bind the group system:nodes to a ClusterRole with the verb request-serviceaccounts-token-audience on the resource %q", err, audience)
}

// Account is the service account on whose behalf plugins are asked for a repository, or
// nil if none wants to know it. What such a plugin answers is for pods of that account.
// While the cluster can't be asked about the account, it has no UID.
func (n *Node) Account(ctx context.Context, repository string, p *v1.Pod) (*keyring.Account, error) {
	if n.Plugins == nil {
		return nil, nil
	}
	for _, plugin := range n.Plugins.list {
		if !plugin.isFor(repository) {
			continue
		}
		id, _, err := n.identityFor(ctx, plugin, p)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return &keyring.Account{Namespace: p.Namespace, Name: p.Spec.ServiceAccountName}, nil
		}
		if err != nil || id.account != nil {
			return id.account, err
		}
	}
	return nil, nil
}

// checkTokens returns what is wrong with the token attributes of a plugin.
func checkTokens(t *kubeletconfig.ServiceAccountTokenAttributes) error {
	if t == nil {
		return nil
	}
	if t.ServiceAccountTokenAudience == "" {
		return errors.New("tokenAttributes: serviceAccountTokenAudience is required: say for whom the tokens are")
	}
	if t.RequireServiceAccount == nil {
		return errors.New("tokenAttributes: requireServiceAccount is required: true if pods without a service account, such as static ones, are none of its business, and false otherwise")
	}
	switch t.CacheType {
	case kubeletconfig.ServiceAccountServiceAccountTokenCacheType, kubeletconfig.TokenServiceAccountTokenCacheType:
	default:
		return fmt.Errorf("tokenAttributes: cacheType is %q, want ServiceAccount if its answers are good for all pods of an account, or Token if they are not", t.CacheType)
	}
	if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		return errors.New("tokenAttributes: requiredServiceAccountAnnotationKeys needs requireServiceAccount: true")
	}
	all := slices.Concat(t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys)
	for i, key := range all {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return fmt.Errorf("tokenAttributes: %q can't be the key of an annotation: %s", key, problems[0])
		}
		if slices.Contains(all[:i], key) {
			return fmt.Errorf("tokenAttributes: the annotation %q is named twice: once is enough, as required or as optional", key)
		}
	}
	return nil
}
