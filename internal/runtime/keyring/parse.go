package keyring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// login is one entry of a docker configuration.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Parse reads a docker configuration, as 'docker login' writes it. Errors do not
// quote it: it holds passwords.
func Parse(config []byte) (Ring, error) {
	var c struct {
		Auths map[string]login `json:"auths"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, errors.New("not JSON as 'docker login' writes it")
	}
	return ringOf(c.Auths)
}

// ParseLegacy reads the configuration of old versions of docker, which has the
// registries at its top.
func ParseLegacy(config []byte) (Ring, error) {
	var logins map[string]login
	if err := json.Unmarshal(config, &logins); err != nil {
		return nil, errors.New("not JSON as old versions of 'docker login' wrote it")
	}
	return ringOf(logins)
}

func ringOf(logins map[string]login) (Ring, error) {
	var ring Ring
	var problems []error
	for server, l := range logins {
		c, err := l.credential()
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("registry %q: %w", server, err))
		case !c.Anonymous():
			c.Server = NormalizePattern(server)
			ring = append(ring, Entry{server, c})
		}
	}
	slices.SortFunc(ring, func(a, b Entry) int { return strings.Compare(a.Pattern, b.Pattern) })
	return ring, errors.Join(problems...)
}

func (l login) credential() (Credential, error) {
	c := Credential{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken}
	if l.Auth == "" {
		return c, nil
	}
	// It is written with and without padding.
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(l.Auth), "="))
	if err != nil {
		return c, errors.New("auth is not base64")
	}
	user, password, found := strings.Cut(string(text), ":")
	if !found {
		return c, errors.New("auth has no colon between name and password")
	}
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}

// FromSecret reads the credentials out of a Secret of one of the two types that
// hold them.
func FromSecret(s *v1.Secret) (Ring, error) {
	var ring Ring
	var err error
	switch s.Type {
	case v1.SecretTypeDockerConfigJson:
		ring, err = Parse(s.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		ring, err = ParseLegacy(s.Data[v1.DockerConfigKey])
	default:
		err = fmt.Errorf("its type is %q, and has to be %s or %s", s.Type, v1.SecretTypeDockerConfigJson, v1.SecretTypeDockercfg)
	}
	for i := range ring {
		ring[i].Credential.Secret = &Secret{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}
	}
	if err != nil {
		return ring, fmt.Errorf("pull secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return ring, nil
}
