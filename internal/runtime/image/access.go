package image

import (
	"slices"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/runtime/keyring"
)

// Policy says for which images that are present a pod has to show credentials that could
// have pulled them. The names are the kubelet's.
type Policy struct {
	Verify kubelet.ImagePullCredentialsVerificationPolicy
	// Allowed are the repositories whose preloaded images need no credentials, as names, or
	// as prefixes that end in /*.
	Allowed []string
}

// Verdict is the decision on whether a pod may use an image that is present. The words are those of the kubelet's metric.
type Verdict string

// The verdicts.
const (
	AllowedByPolicy  Verdict = "credentialPolicyAllowed"
	AllowedByRecord  Verdict = "credentialRecordFound"
	MustAuthenticate Verdict = "mustAuthenticate"
)

// Allows reports whether the pod may use the image.
func (v Verdict) Allows() bool { return v == AllowedByPolicy || v == AllowedByRecord }

// needsVerification reports whether a pod has to show credentials for an image.
func (p Policy) needsVerification(repository string, pulledByUs bool) bool {
	switch p.Verify {
	case kubelet.NeverVerify:
		return false
	case kubelet.AlwaysVerify:
		return true
	case kubelet.NeverVerifyAllowlistedImages:
		return pulledByUs || !p.allowed(repository)
	default: // NeverVerifyPreloadedImages
		return pulledByUs
	}
}

func (p Policy) allowed(repository string) bool {
	return slices.ContainsFunc(p.Allowed, func(pattern string) bool {
		if beginning, ok := cutStar(pattern); ok {
			return len(repository) > len(beginning) && repository[:len(beginning)] == beginning
		}
		return pattern == repository
	})
}

// cutStar returns the prefix of a pattern such as localhost/team/*.
func cutStar(pattern string) (string, bool) {
	if n := len(pattern); n > 1 && pattern[n-2:] == "/*" {
		return pattern[:n-1], true
	}
	return pattern, false
}

// covers reports whether a record shows that a pod with these credentials could have
// pulled the image: all pods of the node may use it, or it was pulled with one of the
// credentials, with the same Secret when it held other credentials, or with the pod's
// service account.
func covers(record *kubelet.ImagePulledRecord, repository string, credentials PodCredentials) bool {
	if record == nil {
		return false
	}
	by := record.CredentialMapping[repository]
	if by.NodePodsAccessible {
		return true
	}
	if slices.ContainsFunc(by.KubernetesServiceAccounts, func(known kubelet.ImagePullServiceAccount) bool { return isAccount(known, credentials.Account) }) {
		return true
	}
	for _, c := range credentials.List {
		if slices.ContainsFunc(by.KubernetesSecrets, func(s kubelet.ImagePullSecret) bool {
			return s.CredentialHash == c.Hash() ||
				c.Secret != nil && c.Secret.UID != "" && s.UID == c.Secret.UID && s.Namespace == c.Secret.Namespace && s.Name == c.Secret.Name
		}) {
			return true
		}
	}
	return false
}

// withPull returns a copy of a record, with the credential of one more pull.
func withPull(record kubelet.ImagePulledRecord, repository string, by keyring.Credential) kubelet.ImagePulledRecord {
	mapping := map[string]kubelet.ImagePullCredentials{}
	for name, c := range record.CredentialMapping {
		mapping[name] = c
	}
	record.CredentialMapping = mapping
	known := mapping[repository]
	switch {
	case known.NodePodsAccessible:
	case by.Anonymous() || by.Secret == nil && by.Account == nil:
		mapping[repository] = kubelet.ImagePullCredentials{NodePodsAccessible: true}
	case by.Account != nil:
		if a := accountOf(by.Account); !slices.Contains(known.KubernetesServiceAccounts, a) {
			known.KubernetesServiceAccounts = lastOf(append(slices.Clone(known.KubernetesServiceAccounts), a), maxKnown)
		}
		mapping[repository] = known
	default:
		now := kubelet.ImagePullSecret{UID: by.Secret.UID, Namespace: by.Secret.Namespace, Name: by.Secret.Name, CredentialHash: by.Hash()}
		// Earlier credentials of the same Secret are of no use any more.
		rest := slices.DeleteFunc(slices.Clone(known.KubernetesSecrets), func(s kubelet.ImagePullSecret) bool {
			return s.UID == now.UID && s.Namespace == now.Namespace && s.Name == now.Name
		})
		known.KubernetesSecrets = lastOf(append(rest, now), maxKnown)
		mapping[repository] = known
	}
	return record
}

// isAccount reports whether a recorded account is that of a pod. While the cluster can't be
// asked, a pod's account has no UID, and the name is enough: pods that ran before an outage
// go on.
func isAccount(known kubelet.ImagePullServiceAccount, account *keyring.Account) bool {
	return account != nil && known.Namespace == account.Namespace && known.Name == account.Name && (account.UID == "" || known.UID == account.UID)
}

func accountOf(a *keyring.Account) kubelet.ImagePullServiceAccount {
	return kubelet.ImagePullServiceAccount{UID: a.UID, Namespace: a.Namespace, Name: a.Name}
}

// maxKnown bounds the Secrets and accounts of a record. A pod whose entry was dropped pulls
// the image again, and is recorded again.
const maxKnown = 100

func lastOf[T any](list []T, most int) []T { return list[max(len(list)-most, 0):] }
