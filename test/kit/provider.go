package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// CredentialProvider puts a program into a folder, and a configuration by which it is
// asked for the images of a registry. more are further lines of that. It returns the
// flags of an agent that asks it.
func CredentialProvider(t *testing.T, dir, host, program, more string) []string {
	t.Helper()
	config := filepath.Join(dir, "providers.yaml")
	for path, text := range map[string]string{filepath.Join(dir, "helper"): program, config: fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  matchImages: [%q]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
%s`, host, more)} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--image-credential-provider-config", config, "--image-credential-provider-bin-dir", dir}
}

// ProviderAnswer is what a credential provider says that logs pods in as user.
func ProviderAnswer(host, user string) string {
	return fmt.Sprintf(`{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
"auth":{%q:{"username":%q,"password":%q}}}`, host, user, Password)
}
