package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"berth/internal/cluster/node"
	"berth/internal/config/kubelet"
	"berth/internal/host/roots"
)

func TestSettingsOfAnotherVersionAreReadAsFarAsTheyGo(t *testing.T) {
	root := t.TempDir()
	if c, err := LoadSaved(root); c != nil || err != nil {
		t.Fatalf("have %v, %v", c, err)
	}
	had, err := LoadOnHost(root, Flags{PodCIDR: "10.9.0.0/24"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	had.CgroupRoot, had.Bridge = "/elsewhere", "berth9"
	if err := had.Save(); err != nil {
		t.Fatal(err)
	}
	c, err := LoadSaved(root)
	if err != nil || len(c.Warnings) > 0 || !reflect.DeepEqual(c, had) {
		t.Fatalf("have %+v, %v\nwant %+v", c, err, had)
	}

	// when another version of berth wrote them
	text, err := os.ReadFile(settingsPath(root))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"PodCIDR": "10.9.0.0/24"`, `"PodCIDR": ["10.9.0.0/24"], "Colour": {"a": "red"}`, 1)
	if err := os.WriteFile(settingsPath(root), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = LoadSaved(root)
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "PodCIDR") {
		t.Fatalf("have %+v, %v", c, err)
	}
	usual, err := LoadOnHost(root, Flags{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.CgroupRoot != "/elsewhere" || c.Bridge != had.Bridge || c.PodCIDR != usual.PodCIDR || c.RootDir != root {
		t.Errorf("have %+v", c)
	}

	// What is damaged says what to do.
	if err := os.WriteFile(settingsPath(root), text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSaved(root); err == nil || !strings.Contains(err.Error(), "berth run") {
		t.Errorf("have %v", err)
	}
}

func TestTheSettingsOfACopyAreAnotherRoots(t *testing.T) {
	c := &Config{RootDir: t.TempDir(), Names: roots.Names{ID: "a"}}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	text, err := os.ReadFile(settingsPath(c.RootDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settingsPath(copied), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadSaved(copied); err == nil || got != nil || !strings.Contains(err.Error(), c.RootDir) {
		t.Errorf("got %+v, %v", got, err)
	}
	// but another path to it is fine
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.RootDir, link); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadSaved(link); err != nil || got.Names != c.Names {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSettingsOfAKubeletAreInItsStateFolder(t *testing.T) {
	root := t.TempDir()
	had := &Config{RootDir: root, StateDir: filepath.Join(root, "berth"), NodeName: "as-kubelet"}
	if err := os.Mkdir(had.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := had.Save(); err != nil {
		t.Fatal(err)
	}
	c, err := LoadSaved(root)
	if err != nil || c == nil || c.NodeName != "as-kubelet" || c.StatePath("x") != filepath.Join(root, "berth", "x") {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := os.Stat(filepath.Join(root, "settings.json")); err == nil {
		t.Error("settings are where the kubelet has its files")
	}
}

func TestOneVersionOfKubernetesIsReported(t *testing.T) {
	if node.Kubernetes != kubelet.Version {
		t.Errorf("the Node says %s, and 'kubelet --version' %s", node.Kubernetes, kubelet.Version)
	}
}
