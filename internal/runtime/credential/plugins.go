package credential

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	plugin "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/runtime/keyring"
)

// Plugins are the credential providers of this machine.
type Plugins struct {
	list []*provider
	hash string
}

// Hash is a hash of the configuration, as the kubelet has it.
func (p *Plugins) Hash() string { return p.hash }

// LoadPlugins reads a CredentialProviderConfig, or a folder of them, and finds the
// programs that it names. onRun is called after each run of a plugin, and may be nil.
func LoadPlugins(config, programs string, onRun func(plugin string, took time.Duration, err error)) (*Plugins, error) {
	files, err := configFiles(config)
	if err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	out := &Plugins{}
	var problems []error
	names := map[string]bool{}
	hash := sha256.New()
	for _, file := range files {
		c, text, err := readConfig(file)
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		hash.Write(text)
		if err != nil {
			return nil, fmt.Errorf("credential providers: %s: %w", file, err)
		}
		for i, p := range c.Providers {
			err := check(p, programs)
			if err == nil && names[p.Name] {
				err = errors.New("there is another one with that name")
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: providers[%d] %q: %w", file, i, p.Name, err))
			}
			names[p.Name] = true
			out.list = append(out.list, newProvider(p, filepath.Join(programs, p.Name), onRun))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	out.hash = fmt.Sprintf("sha256:%x", hash.Sum(nil))
	return out, nil
}

// wantAccounts reports whether any of them looks at service accounts.
func (p *Plugins) wantAccounts() bool {
	return p != nil && slices.ContainsFunc(p.list, func(one *provider) bool { return one.TokenAttributes != nil })
}

// configFiles is one file, or those of a folder in the order of their names.
func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".json", ".yaml", ".yml":
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no .json, .yaml or .yml file", path)
	}
	return out, nil
}

// readConfig returns a configuration, and its text.
func readConfig(file string) (*kubeletconfig.CredentialProviderConfig, []byte, error) {
	text, err := readBounded(file)
	if err != nil {
		return nil, nil, err
	}
	var c kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, nil, err
	}
	want := metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: "CredentialProviderConfig"}
	if c.TypeMeta != want {
		return nil, nil, fmt.Errorf("apiVersion and kind are %q, want %s %s", c.APIVersion+" "+c.Kind, want.APIVersion, want.Kind)
	}
	if len(c.Providers) == 0 {
		return nil, nil, errors.New("it names no providers")
	}
	return &c, text, nil
}

// check returns what is wrong with a provider.
func check(p kubeletconfig.CredentialProvider, programs string) error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\ \t\n"):
		return errors.New("the name has to be that of a program, without a path")
	case p.APIVersion != plugin.SchemeGroupVersion.String():
		return fmt.Errorf("apiVersion is %q, and berth speaks %s", p.APIVersion, plugin.SchemeGroupVersion)
	case len(p.MatchImages) == 0:
		return errors.New("matchImages is empty: it would never be asked")
	case p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration is required, and can't be below 0")
	}
	if err := checkTokens(p.TokenAttributes); err != nil {
		return err
	}
	for _, pattern := range p.MatchImages {
		if err := keyring.ValidatePattern(pattern); err != nil {
			return fmt.Errorf("matchImages: %q is not a pattern: %w", pattern, err)
		}
	}
	program := filepath.Join(programs, p.Name)
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("its program is not there: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not a program", program)
	}
	return nil
}
